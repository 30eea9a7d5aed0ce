// Package local has the planner itself, as WebAssembly: a client with the same interface and answers as that of the service in
// package planner, without a service. It needs no cgo.
package local

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"rollplan.dev/rollplan/adapters/go/planner"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// DefaultMaxChecks is enough for a forecast of 5,000 pods in 1,000 samples. It takes some 20 seconds of work.
const DefaultMaxChecks = 100_000_000

// Options are settings of a client. The zero value has the defaults.
type Options struct {
	// MaxChecks limits the work of a call. One that needs more fails with DEADLINE_EXCEEDED. The planner has no clock, so
	// deadlines have no effect on a call in progress, and the same request always needs the same number. By default
	// DefaultMaxChecks.
	MaxChecks uint64
	// Instances is how many calls may be in progress at once; others wait. Each instance keeps a few MiB of memory. By default
	// GOMAXPROCS.
	Instances int
}

// Client plans in this process. It may be used by several goroutines.
type Client struct {
	rollplanv1.RolloutPlannerClient
	conn *conn
}

var _ planner.Planner = &Client{}

// New creates a client. The first one compiles the planner, which takes seconds of processor time.
func New(options Options) (*Client, error) {
	if options.MaxChecks == 0 {
		options.MaxChecks = DefaultMaxChecks
	}
	if options.Instances <= 0 {
		options.Instances = runtime.GOMAXPROCS(0)
	}
	module, err := compiled()
	if err != nil {
		return nil, err
	}
	conn := &conn{module: module, maxChecks: options.MaxChecks, free: make(chan *instance, options.Instances)}
	for range options.Instances {
		conn.free <- nil // instantiated when it is needed
	}
	return &Client{rollplanv1.NewRolloutPlannerClient(conn), conn}, nil
}

// Check returns nil: there is nothing that could be unreachable.
func (c *Client) Check(context.Context) error { return nil }

// Close gives the memory of the instances back, after the calls in progress. Later calls fail.
func (c *Client) Close() error {
	c.conn.closing.Do(func() {
		for range cap(c.conn.free) {
			if instance := <-c.conn.free; instance != nil {
				instance.close(context.Background())
			}
		}
		close(c.conn.free)
	})
	return nil
}

// conn calls the planner as a generated client calls a service.
type conn struct {
	module    *module
	maxChecks uint64
	// The instances that no call uses. Nil stands for one that is not instantiated.
	free    chan *instance
	closing sync.Once
}

// Invoke implements [grpc.ClientConnInterface].
func (c *conn) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	encoded, err := proto.Marshal(request.(proto.Message))
	if err != nil {
		return planner.Unencodable(request, err)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	code, answer, err := c.call(ctx, path.Base(method), encoded, false)
	switch {
	case err != nil:
		return err
	case code == uint64(codes.OK):
		if err := proto.Unmarshal(answer, reply.(proto.Message)); err != nil {
			return status.Errorf(codes.Internal, "cannot decode the response: %v", err)
		}
		return nil
	}
	failed := &spb.Status{}
	if err := proto.Unmarshal(answer, failed); err != nil {
		return status.Errorf(codes.Internal, "cannot decode the error: %v", err)
	}
	return status.ErrorProto(failed)
}

// NewStream implements [grpc.ClientConnInterface]. The service has no streams.
func (c *conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the planner has no streams")
}

// call makes a call with an instance that is free, or waits for one.
func (c *conn) call(ctx context.Context, method string, request []byte, isJSON bool) (code uint64, answer []byte, err error) {
	var used *instance
	select {
	case <-ctx.Done():
		return 0, nil, status.FromContextError(ctx.Err()).Err()
	case free, open := <-c.free:
		if !open {
			return 0, nil, status.Error(codes.Canceled, "the client is closed")
		}
		used = free
	}
	// The context ends no call in progress: with that, every plan would take ten times as long.
	ctx = context.WithoutCancel(ctx)
	if used == nil {
		if used, err = c.module.instantiate(ctx); err != nil {
			c.free <- nil
			return 0, nil, panicked(err)
		}
	}
	code, answer, err = used.answer(ctx, method, request, isJSON, c.maxChecks)
	if err != nil || used.isLarge() {
		used.close(ctx)
		used = nil
	}
	c.free <- used
	if err != nil {
		return 0, nil, panicked(err)
	}
	return code, answer, nil
}

// panicked returns the error for a call whose instance has ended unexpectedly, with the reason that the service has for it.
func panicked(err error) error {
	failed := status.New(codes.Internal, fmt.Sprintf("the planner has ended unexpectedly: %v", err))
	detailed, detailErr := failed.WithDetails(&errdetails.ErrorInfo{Reason: "INTERNAL_ERROR", Domain: "rollplan.dev"})
	if detailErr != nil {
		return failed.Err()
	}
	return detailed.Err()
}
