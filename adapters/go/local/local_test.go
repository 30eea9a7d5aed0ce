package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// corpus has requests with the answers of the service. It is written by tests/local/corpus.py.
const corpus = "../../../target/local/corpus.jsonl"

func newClient(t *testing.T, options Options) *Client {
	t.Helper()
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// snapshot is that of a rollout in progress.
func snapshot(t *testing.T) *rollplanv1.Snapshot {
	t.Helper()
	text, err := os.ReadFile("../../../examples/mid-rollout.json")
	if err != nil {
		t.Fatal(err)
	}
	return &rollplanv1.Snapshot{
		Now: timestamppb.Now(), Objects: []string{string(text)}, ReplicaSetsComplete: true, PodsComplete: true,
	}
}

// checkError fails the test unless an error has this code and this reason.
func checkError(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	failed := status.Convert(err)
	for _, detail := range failed.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && failed.Code() == code && info.GetReason() == reason {
			return
		}
	}
	t.Errorf("%v, want %v with %s", err, code, reason)
}

func TestAnswersAreThoseOfTheService(t *testing.T) {
	client := newClient(t, Options{})
	file, err := os.Open(corpus)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	count := 0
	for lines.Scan() {
		var line struct {
			Method  string
			JSON    bool
			Request []byte
			Code    uint64
			Answer  []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		count++
		code, answer, err := client.conn.call(t.Context(), line.Method, line.Request, line.JSON)
		if err != nil || code != line.Code || line.Answer != nil && !bytes.Equal(answer, line.Answer) {
			t.Fatalf("line %d, %s: code %d, want %d, %v", count, line.Method, code, line.Code, err)
		}
	}
	if err := lines.Err(); err != nil || count < 3_000 {
		t.Errorf("%d lines, %v", count, err)
	}
}

func TestCallsAtOnce(t *testing.T) {
	client := newClient(t, Options{Instances: 3})
	request := &rollplanv1.PlanRolloutRequest{Snapshot: snapshot(t)}
	want, err := client.PlanRollout(t.Context(), request)
	if err != nil || len(want.GetSteps()) == 0 {
		t.Fatal(want, err)
	}
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			got, err := client.PlanRollout(t.Context(), request)
			if err != nil || got.String() != want.String() {
				t.Error(got, err)
			}
		})
	}
	calls.Wait()
}

func TestErrors(t *testing.T) {
	client := newClient(t, Options{})
	_, err := client.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{})
	checkError(t, err, codes.InvalidArgument, "INVALID_REQUEST")

	large := &rollplanv1.Snapshot{Objects: []string{strings.Repeat("a", 16<<20)}}
	_, err = client.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{Snapshot: large})
	checkError(t, err, codes.ResourceExhausted, "REQUEST_TOO_LARGE")

	_, err = client.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{Snapshot: &rollplanv1.Snapshot{Objects: []string{"\xff"}}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "snapshot.objects[0]: must be valid UTF-8") {
		t.Error(err)
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.PlanRollout(cancelled, &rollplanv1.PlanRolloutRequest{Snapshot: snapshot(t)})
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestBudget(t *testing.T) {
	request := &rollplanv1.ForecastRolloutRequest{Snapshot: snapshot(t)}
	_, err := newClient(t, Options{MaxChecks: 1_000}).ForecastRollout(t.Context(), request)
	checkError(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
	if _, err := newClient(t, Options{}).ForecastRollout(t.Context(), request); err != nil {
		t.Error(err)
	}
}

func TestPanicDiscardsTheInstance(t *testing.T) {
	client := newClient(t, Options{Instances: 1})
	request := &rollplanv1.PlanRolloutRequest{Snapshot: snapshot(t)}
	if _, err := client.PlanRollout(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	instance := <-client.conn.free
	if instance == nil || instance.isLarge() {
		t.Fatalf("%+v", instance)
	}
	// No allocation can have this length: the module panics.
	if _, err := instance.input.Call(t.Context(), math.MaxUint32); err == nil {
		t.Fatal("no panic")
	}
	// Closed like after a panic within a call: it must not be used again, and this must be noticed.
	instance.close(t.Context())
	client.conn.free <- instance
	_, err := client.PlanRollout(t.Context(), request)
	checkError(t, err, codes.Internal, "INTERNAL_ERROR")
	if _, err := client.PlanRollout(t.Context(), request); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestMemoryIsGivenBack(t *testing.T) {
	client := newClient(t, Options{Instances: 1})
	if code, _, err := client.conn.call(t.Context(), "PlanRollout", make([]byte, keptBytes), false); err != nil || code != uint64(codes.ResourceExhausted) {
		t.Fatal(code, err)
	}
	if instance := <-client.conn.free; instance != nil {
		t.Errorf("%d bytes are kept", instance.module.Memory().Size())
	}
	client.conn.free <- nil
}

func TestCallAfterCloseFails(t *testing.T) {
	client, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := client.PlanRollout(t.Context(), &rollplanv1.PlanRolloutRequest{}); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func BenchmarkPlan(b *testing.B) {
	client, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	text, err := os.ReadFile("../../../examples/mid-rollout.json")
	if err != nil {
		b.Fatal(err)
	}
	request := &rollplanv1.PlanRolloutRequest{Snapshot: &rollplanv1.Snapshot{
		Now: timestamppb.Now(), Objects: []string{string(text)}, ReplicaSetsComplete: true, PodsComplete: true,
	}}
	for b.Loop() {
		if _, err := client.PlanRollout(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
