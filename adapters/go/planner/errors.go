package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// describe adds the address and the cause to errors of calls, unless the service itself reported them.
func describe(address string, resolution *resolution) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		failed := status.Convert(err)
		if err == nil || fromService(failed) {
			return err
		}
		if failed.Code() == codes.Internal && invalidString(request) != "" {
			return Unencodable(request, err)
		}
		cause := failed.Message()
		if unresolved := resolution.err.Load(); failed.Code() == codes.Unavailable && unresolved != nil {
			cause = (*unresolved).Error()
		}
		if strings.Contains(cause, "error reading server preface") {
			cause += "; perhaps the server requires TLS, or does not use gRPC"
		}
		described := failed.Proto()
		described.Message = fmt.Sprintf("%s: %s", address, cause)
		return status.ErrorProto(described)
	}
}

// fromService reports whether the service itself reported an error.
func fromService(failed *status.Status) bool {
	for _, detail := range failed.Details() {
		if _, ok := detail.(*errdetails.ErrorInfo); ok {
			return true
		}
	}
	return false
}

// Unencodable returns the error for a request that cannot be encoded: INVALID_ARGUMENT, with the path of a string that is not
// valid UTF-8.
func Unencodable(request any, err error) error {
	if field := invalidString(request); field != "" {
		return status.Errorf(codes.InvalidArgument, "%s: must be valid UTF-8", field)
	}
	return status.Error(codes.Internal, err.Error())
}

// invalidString returns the path of the first string that is not valid UTF-8. The encoder does not name it.
func invalidString(request any) string {
	message, ok := request.(proto.Message)
	if !ok {
		return ""
	}
	found := ""
	_ = protorange.Range(message.ProtoReflect(), func(values protopath.Values) error {
		text, ok := values.Index(-1).Value.Interface().(string)
		if !ok || utf8.ValidString(text) {
			return nil
		}
		// The first step is the type of the message.
		found = strings.TrimPrefix(values.Path[1:].String(), ".")
		return errInvalidString
	})
	return found
}

var (
	errInvalidString = errors.New("a string is not valid UTF-8")
	errNoAddress     = errors.New("the name does not resolve to an address")
)

// resolution is the DNS resolver of gRPC, and keeps its last error: the balancer would replace it with "no children to pick
// from".
type resolution struct {
	resolver.Builder
	err atomic.Pointer[error]
}

// Build implements [resolver.Builder].
func (r *resolution) Build(target resolver.Target, conn resolver.ClientConn, options resolver.BuildOptions) (resolver.Resolver, error) {
	return r.Builder.Build(target, &resolutionConn{conn, r}, options)
}

// resolutionConn receives the results of a resolver.
type resolutionConn struct {
	resolver.ClientConn
	resolution *resolution
}

// ReportError implements [resolver.ClientConn].
func (c *resolutionConn) ReportError(err error) {
	c.resolution.err.Store(&err)
	c.ClientConn.ReportError(err)
}

// UpdateState implements [resolver.ClientConn].
func (c *resolutionConn) UpdateState(state resolver.State) error {
	if len(state.Endpoints) == 0 && len(state.Addresses) == 0 {
		c.resolution.err.Store(&errNoAddress) // also if the name does not exist
	} else {
		c.resolution.err.Store(nil)
	}
	return c.ClientConn.UpdateState(state)
}
