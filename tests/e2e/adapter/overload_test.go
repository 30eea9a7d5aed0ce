package adapter

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// load is how the proxy treats a call.
type load int32

const (
	// loadNone forwards the call.
	loadNone load = iota
	// loadShed rejects the call as an overloaded service does, with a RetryInfo.
	loadShed
	// loadSlow delays the call by up to maxDelay.
	loadSlow
)

// maxDelay is longer than --planner-timeout, so that some calls are slow and others time out.
const maxDelay = 3 * time.Second

// overload simulates an overloaded service, with a proxy.
type overload struct {
	address string
	load    atomic.Int32
	// calls counts calls by load.
	calls [loadSlow + 1]atomic.Int64
}

func startOverload(t *testing.T, service string) *overload {
	t.Helper()
	o := &overload{}
	o.address = startProxy(t, service, o.intercept)
	return o
}

// during simulates a load for the given duration.
func (o *overload) during(load load, duration time.Duration) {
	o.load.Store(int32(load))
	time.Sleep(duration)
	o.load.Store(int32(loadNone))
}

func (o *overload) intercept(ctx context.Context, _ string, request []byte) ([]byte, error) {
	current := load(o.load.Load())
	o.calls[current].Add(1)
	switch current {
	case loadShed:
		return nil, errShed()
	case loadSlow:
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(rand.N(maxDelay)):
		}
	}
	return request, nil
}

// errShed is the error that an overloaded service returns, see docs/reference/api.md.
func errShed() error {
	rejected, err := status.New(codes.ResourceExhausted, "too many calls are in progress").WithDetails(
		&errdetails.ErrorInfo{Reason: "OVERLOADED", Domain: "rollplan.dev"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		return err
	}
	return rejected.Err()
}

// check fails the test unless calls were shed and delayed.
func (o *overload) check(t *testing.T) {
	t.Helper()
	shed, slow := o.calls[loadShed].Load(), o.calls[loadSlow].Load()
	t.Logf("%d calls forwarded, %d shed, %d delayed", o.calls[loadNone].Load(), shed, slow)
	if shed == 0 || slow == 0 {
		t.Error("no overload was simulated")
	}
}
