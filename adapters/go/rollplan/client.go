package rollplan

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const (
	// DefaultTimeout bounds one attempt of a call. The largest plans take well under a second.
	DefaultTimeout = 10 * time.Second
	// attempts is how often a call is tried. Whoever calls has a queue that tries again later.
	attempts = 3
	// firstRetryDelay doubles with each attempt.
	firstRetryDelay = 100 * time.Millisecond
	// replySizeMax is the service's own limit for a message; gRPC's default would refuse the largest answers.
	replySizeMax = 16 << 20
)

// Client asks the service. Its methods are those of the generated client.
type Client struct {
	rollplanv1.RolloutPlannerClient
	conn *grpc.ClientConn
}

// NewClient makes a client of the service at an address such as "rollplan.rollplan.svc:8080" or "dns:///host:port".
// It connects with the first call, and spreads calls over all addresses that the name has. Each attempt of a call is
// given up after timeout. Options come after the defaults; one with credentials is required, as for [grpc.NewClient].
//
// UNAVAILABLE, and RESOURCE_EXHAUSTED with a RetryInfo, are tried up to three times: all calls are pure. Other errors
// say that the same request would fail again.
func NewClient(address string, timeout time.Duration, options ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		// gRPC's own default waits up to two minutes before it looks for a service that has come back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection whose other end vanished without a word would otherwise swallow calls for a quarter of an hour.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(replySizeMax)),
		grpc.WithChainUnaryInterceptor(retry, deadline(timeout)),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	return &Client{rollplanv1.NewRolloutPlannerClient(conn), conn}, nil
}

// Close ends the connections. Calls under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// deadline bounds one attempt.
func deadline(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return invoke(ctx, method, request, reply, conn, options...)
	}
}

// retry tries again where the same request may succeed. gRPC's own retry policy cannot tell a service that sheds load
// from a request that is too large: both are RESOURCE_EXHAUSTED, and only the first has a RetryInfo.
func retry(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, request, reply, conn, options...)
		delay, again := retryDelay(err, attempt)
		if !again || attempt == attempts {
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

// retryDelay says whether and when to try again, with jitter so that clients of a service that restarts spread out.
func retryDelay(err error, attempt int) (time.Duration, bool) {
	answer := status.Convert(err)
	delay := firstRetryDelay << (attempt - 1)
	again := answer.Code() == codes.Unavailable
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && (again || answer.Code() == codes.ResourceExhausted) {
			delay, again = info.GetRetryDelay().AsDuration(), true
		}
	}
	return delay + rand.N(delay/2+1), again
}
