package planner

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// service implements PlanRollout with a function of the test.
type service struct {
	rollplanv1.UnimplementedRolloutPlannerServer
	plan func(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error)
}

func (s service) PlanRollout(ctx context.Context, request *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
	return s.plan(ctx, request)
}

// newTestClient starts a service and returns a client of it.
func newTestClient(t *testing.T, s service, timeout time.Duration) *Client {
	t.Helper()
	return dial(t, listen(t, s), timeout)
}

// dial returns a client for an address.
func dial(t *testing.T, address string, timeout time.Duration, options ...grpc.DialOption) *Client {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c, err := NewClient(address, timeout, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// listen starts a service and returns its address.
func listen(t *testing.T, s service) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	rollplanv1.RegisterRolloutPlannerServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestOnlyRetryableErrorsAreRetried(t *testing.T) {
	shed, err := status.New(codes.ResourceExhausted, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what  string
		err   error
		calls int
	}{
		{"success", nil, 1},
		{"unavailable", status.Error(codes.Unavailable, "stopping"), 3},
		{"load shedding", shed.Err(), 3},
		{"request too large", status.Error(codes.ResourceExhausted, "too large"), 1},
		{"invalid request", status.Error(codes.InvalidArgument, "invalid"), 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			calls := 0
			c := newTestClient(t, service{plan: func(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
				calls++
				return &rollplanv1.PlanRolloutResponse{}, test.err
			}}, time.Minute)
			_, err := c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{})
			if status.Code(err) != status.Code(test.err) || calls != test.calls {
				t.Errorf("%d calls and error %v, want %d and %v", calls, err, test.calls, test.err)
			}
		})
	}
}

func TestRetryReturnsSuccessOfLaterAttempt(t *testing.T) {
	calls := 0
	c := newTestClient(t, service{plan: func(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
		if calls++; calls == 1 {
			return nil, status.Error(codes.Unavailable, "stopping")
		}
		return &rollplanv1.PlanRolloutResponse{}, nil
	}}, time.Minute)
	if _, err := c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{}); err != nil || calls != 2 {
		t.Errorf("%d calls and error %v", calls, err)
	}
}

func TestAttemptEndsAfterTimeout(t *testing.T) {
	c := newTestClient(t, service{plan: func(ctx context.Context, _ *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}, time.Millisecond)
	if _, err := c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("call of a service that does not respond: %v", err)
	}
}

// The name of a headless Service, for example, resolves to several addresses.
func TestCallsAreBalancedOverAllAddresses(t *testing.T) {
	const servers, rounds = 3, 10
	var calls [servers]atomic.Int32
	var state resolver.State
	for i := range calls {
		address := listen(t, service{plan: func(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
			calls[i].Add(1)
			return &rollplanv1.PlanRolloutResponse{}, nil
		}})
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	names := manual.NewBuilderWithScheme("test")
	names.InitialState(state)
	c := dial(t, "test:///rollplan", time.Minute, grpc.WithResolvers(names))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func() {
		if _, err := c.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{}); err != nil {
			t.Fatalf("calls by server: %v, %v, %v: %v", calls[0].Load(), calls[1].Load(), calls[2].Load(), err)
		}
	}
	// Wait until there is a connection to each server. Until then, the connected ones get all calls.
	for i := range calls {
		for calls[i].Load() == 0 {
			call()
		}
	}
	for i := range calls {
		calls[i].Store(0)
	}
	for range rounds * servers {
		call()
	}
	for i := range calls {
		if got := calls[i].Load(); got != rounds {
			t.Errorf("server %d received %d of %d calls, want %d", i, got, rounds*servers, rounds)
		}
	}
}

func TestClientNeedsNoPackageOfKubernetes(t *testing.T) {
	packages, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(packages)) {
		if strings.Contains(path, "k8s.io/") {
			t.Errorf("the client needs %s", path)
		}
	}
}
