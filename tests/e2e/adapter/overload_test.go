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

// load is what an overloaded service does to a call.
type load int32

const (
	// loadNone passes calls on.
	loadNone load = iota
	// loadSheds refuses them as the service does that has too many, and says when to come again.
	loadSheds
	// loadSlow lets them wait for up to slowMax.
	loadSlow
)

// slowMax is longer than the adapters' patience, so that some calls are late and others too late.
const slowMax = 3 * time.Second

// overload stands before the service, and makes it seem overloaded. It passes bytes on as they are.
type overload struct {
	address string
	service *grpc.ClientConn
	load    atomic.Int32
	// troubled counts calls by the load that they met.
	troubled [loadSlow + 1]atomic.Int64
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
		_ = conn.Close() // nothing is under way any more
	})
	return o
}

// during puts a load on the service for a while.
func (o *overload) during(load load, while time.Duration) {
	o.load.Store(int32(load))
	time.Sleep(while)
	o.load.Store(int32(loadNone))
}

func (o *overload) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request, reply []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	now := load(o.load.Load())
	o.troubled[now].Add(1)
	switch now {
	case loadSheds:
		return shed()
	case loadSlow:
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-time.After(rand.N(slowMax)):
		}
	}
	if err := o.service.Invoke(stream.Context(), method, &request, &reply); err != nil {
		return err
	}
	return stream.SendMsg(&reply)
}

// shed is the service's own answer, see "no room for another call" in docs/api.md.
func shed() error {
	answer, err := status.New(codes.ResourceExhausted, "too many calls are under way").WithDetails(
		&errdetails.ErrorInfo{Reason: "OVERLOADED", Domain: "rollplan.dev"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		return err
	}
	return answer.Err()
}

// check fails a test in which no call met these loads.
func (o *overload) check(t *testing.T) {
	t.Helper()
	shed, slow := o.troubled[loadSheds].Load(), o.troubled[loadSlow].Load()
	t.Logf("%d calls passed on, %d shed, %d slow", o.troubled[loadNone].Load(), shed, slow)
	if shed == 0 || slow == 0 {
		t.Error("the service was never overloaded")
	}
}

// rawCodec leaves messages in their bytes.
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
