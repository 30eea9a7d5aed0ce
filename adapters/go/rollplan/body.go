package rollplan

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// maxAnswerBody is the size of the longest body of a failed call that the planner accepts.
const maxAnswerBody = 64 << 10

// bodyKey is the context key of the place to store the body of a response.
type bodyKey struct{}

// withBody returns a context in which the body of a failed call is stored unchanged. client-go drops a body that is not
// JSON, for example the error page of a proxy.
func withBody(ctx context.Context) (context.Context, *[]byte) {
	body := new([]byte)
	return context.WithValue(ctx, bodyKey{}, body), body
}

// bodyRecorder stores the bodies of failed calls in their contexts.
type bodyRecorder struct{ base http.RoundTripper }

// recordBodies returns a client that stores the bodies of failed calls.
func recordBodies(client *http.Client) *http.Client {
	recording := *client
	base := client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	recording.Transport = bodyRecorder{base}
	return &recording
}

// RoundTrip implements [http.RoundTripper].
func (r bodyRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.base.RoundTrip(request)
	stored, ok := request.Context().Value(bodyKey{}).(*[]byte)
	if err != nil || !ok || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	// The reader of the response still gets the whole body.
	if *stored, err = io.ReadAll(io.LimitReader(response.Body, maxAnswerBody)); err != nil {
		response.Body.Close()
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(*stored), response.Body), response.Body}
	return response, nil
}
