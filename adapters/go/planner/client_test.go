package planner

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

func TestFailedConnectionNamesAddressAndCause(t *testing.T) {
	plain := listen(t, service{})
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	encrypted := server.Listener.Addr().String()
	for _, test := range []struct {
		what, address string
		credentials   credentials.TransportCredentials
		cause         string
	}{
		{"nothing listens", unused.Addr().String(), insecure.NewCredentials(), "connection refused"},
		{"unknown name", "no-such-host.invalid:50051", insecure.NewCredentials(), "does not resolve|lookup no-such-host.invalid"},
		{"the server requires TLS", encrypted, insecure.NewCredentials(), "requires TLS"},
		{"the server does not use TLS", plain, credentials.NewTLS(nil), "does not look like a TLS handshake"},
		{"unknown certificate", encrypted, credentials.NewTLS(nil), "certificate"},
		{"invalid port", "127.0.0.1:99999", insecure.NewCredentials(), "invalid port"},
	} {
		t.Run(test.what, func(t *testing.T) {
			c, err := NewClient(test.address, time.Minute, grpc.WithTransportCredentials(test.credentials))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{})
			got := status.Convert(err)
			if got.Code() != codes.Unavailable || !strings.HasPrefix(got.Message(), test.address+": ") || !regexp.MustCompile(test.cause).MatchString(got.Message()) {
				t.Errorf("%v does not name %s and %q", err, test.address, test.cause)
			}
		})
	}
}

func TestURLIsRefusedAsAddress(t *testing.T) {
	for _, address := range []string{"http://127.0.0.1:50051", "https://rollplan.example", ""} {
		_, err := NewClient(address, time.Minute, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(address)) {
			t.Errorf("%q is not refused, or not named: %v", address, err)
		}
	}
}

func TestErrorOfServiceIsReturnedUnchanged(t *testing.T) {
	want, err := status.New(codes.InvalidArgument, "snapshot: is required").WithDetails(&errdetails.ErrorInfo{Reason: "INVALID_REQUEST"})
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, service{plan: func(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
		return nil, want.Err()
	}}, time.Minute)
	_, err = c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{})
	if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStringThatCannotBeEncodedIsInvalidArgumentOfItsField(t *testing.T) {
	c := newTestClient(t, service{}, time.Minute)
	for want, snapshot := range map[string]*rollplanv1.Snapshot{
		"snapshot.objects[1]":       {Objects: []string{"{}", "\xff"}},
		"snapshot.target.name":      {Target: &rollplanv1.Target{Name: "\xc3("}},
		"snapshot.answers[0].call.": {Answers: []*rollplanv1.StepAnswer{{Call: &rollplanv1.ApiCall{Path: "\xff"}}}},
	} {
		_, err := c.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{Snapshot: snapshot})
		if got := status.Convert(err); got.Code() != codes.InvalidArgument || !strings.HasPrefix(got.Message(), want) {
			t.Errorf("%v does not name %s", err, want)
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
