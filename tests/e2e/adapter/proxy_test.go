package adapter

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// startProxy starts a proxy of the service, which forwards messages without decoding them, and returns its address. The
// function returns the request to forward, or the error to answer with.
func startProxy(t *testing.T, service string, intercept func(ctx context.Context, method string, request []byte) ([]byte, error)) string {
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
	handle := func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		var request, reply []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		request, err := intercept(stream.Context(), method, request)
		if err != nil {
			return err
		}
		if err := conn.Invoke(stream.Context(), method, &request, &reply); err != nil {
			return err
		}
		return stream.SendMsg(&reply)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(handle))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = conn.Close() // no calls are in progress
	})
	return listener.Addr().String()
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
