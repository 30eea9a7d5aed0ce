package adapter

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
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

// overload is a proxy that simulates an overloaded service. It forwards messages without decoding them.
type overload struct {
	address string
	service *grpc.ClientConn
	load    atomic.Int32
	// calls counts calls by load.
	calls [loadSlow + 1]atomic.Int64
}

func startOverload(t *testing.T, service string) *overload {
	t.Helper()
	conn, err := grpc.NewClient(service, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &overload{address: listener.Addr().String(), service: conn}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(o.handle))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = conn.Close() // no calls are in progress
	})
	return o
}

// during simulates a load for the given duration.
func (o *overload) during(load load, duration time.Duration) {
	o.load.Store(int32(load))
	time.Sleep(duration)
	o.load.Store(int32(loadNone))
}

func (o *overload) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request, reply []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	current := load(o.load.Load())
	o.calls[current].Add(1)
	switch current {
	case loadShed:
		return errShed()
	case loadSlow:
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-time.After(rand.N(maxDelay)):
		}
	}
	if err := o.service.Invoke(stream.Context(), method, &request, &reply); err != nil {
		return err
	}
	return stream.SendMsg(&reply)
}

// errShed is the error that an overloaded service returns, see docs/api.md.
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

// rawCodec passes messages on as raw bytes.
type rawCodec struct{}

func (rawCodec) Marshal(message any) (mem.BufferSlice, error) {
	bytes, ok := message.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("marshal %T", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(*bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, message any) error {
	bytes, ok := message.(*[]byte)
	if !ok {
		return fmt.Errorf("unmarshal %T", message)
	}
	*bytes = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }
