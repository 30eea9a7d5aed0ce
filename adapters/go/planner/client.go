// Package planner has a client of the rollplan service. It needs gRPC, and no package of Kubernetes.
package planner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const (
	// DefaultTimeout limits one attempt of a call. The largest plans take well under a second.
	DefaultTimeout = 10 * time.Second
	// maxAttempts is low because callers have a work queue that retries later.
	maxAttempts = 3
	// initialRetryDelay doubles with each attempt.
	initialRetryDelay = 100 * time.Millisecond
	// maxReplyBytes is the message size limit of the service; with gRPC's default, the largest responses would fail.
	maxReplyBytes = 16 << 20
)

// Planner makes plans: a [Client] of the service, or the planner in this process, which is in the module
// rollplan.dev/rollplan/adapters/go/local.
type Planner interface {
	rollplanv1.RolloutPlannerClient
	// Check returns an error unless it can be called.
	Check(context.Context) error
	// Close releases its resources.
	Close() error
}

var _ Planner = &Client{}

// Client is a gRPC client of the rollplan service that adds deadlines, retries and load balancing to the generated
// client.
type Client struct {
	rollplanv1.RolloutPlannerClient
	conn *grpc.ClientConn
}

// NewClient creates a client of the service at the given address, for example "rollplan.rollplan-system.svc:50051" or
// "dns:///host:port". It connects on the first call and balances calls over all addresses of the name. Each attempt of
// a call ends after timeout. Options override the defaults; as for [grpc.NewClient], transport credentials are
// required.
//
// Calls that fail with UNAVAILABLE, or with RESOURCE_EXHAUSTED and a RetryInfo, are attempted up to three times. This
// is safe because no call of the service has side effects. After any other error the same request would fail again.
//
// An error that the service did not report itself names the address. A string that is not valid UTF-8 is INVALID_ARGUMENT.
func NewClient(address string, timeout time.Duration, options ...grpc.DialOption) (*Client, error) {
	if address == "" || strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		// gRPC would report only in a call that it cannot resolve the name.
		return nil, fmt.Errorf(`address %q of the service: must be HOST:PORT, for example "127.0.0.1:50051"`, address)
	}
	resolution := &resolution{Builder: resolver.Get("dns")}
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		// By default, gRPC waits up to two minutes before it reconnects to a service that is available again.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Without keepalives, calls on a connection whose peer has silently disappeared would hang for about 15 minutes.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReplyBytes)),
		grpc.WithResolvers(resolution),
		grpc.WithChainUnaryInterceptor(describe(address, resolution), retry, deadline(timeout)),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	return &Client{rollplanv1.NewRolloutPlannerClient(conn), conn}, nil
}

// Check returns an error unless the service is reachable and healthy.
func (c *Client) Check(ctx context.Context) error {
	response, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: rollplanv1.RolloutPlanner_ServiceDesc.ServiceName})
	if err != nil {
		return err
	}
	if response.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("the service is %s", response.GetStatus())
	}
	return nil
}

// Close closes the connections. Calls in progress fail.
func (c *Client) Close() error { return c.conn.Close() }

// deadline limits each attempt of a call.
func deadline(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return invoke(ctx, method, request, reply, conn, options...)
	}
}

// retry repeats calls that may succeed on another attempt. The retry policy of gRPC cannot distinguish a service that
// sheds load from a request that is too large: both return RESOURCE_EXHAUSTED, but only the former has a RetryInfo.
func retry(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, request, reply, conn, options...)
		delay, retryable := retryDelay(err, attempt)
		if !retryable || attempt == maxAttempts {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// retryDelay returns when to retry and whether to do so. Jitter keeps the clients of a restarted service from calling it
// all at once.
func retryDelay(err error, attempt int) (time.Duration, bool) {
	response := status.Convert(err)
	delay := initialRetryDelay << (attempt - 1)
	retryable := response.Code() == codes.Unavailable
	for _, detail := range response.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && (retryable || response.Code() == codes.ResourceExhausted) {
			delay, retryable = info.GetRetryDelay().AsDuration(), true
		}
	}
	return delay + rand.N(delay/2+1), retryable
}
