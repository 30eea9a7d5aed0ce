package controller

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"rollplan.dev/rollplan/adapters/go/rollplan"
)

// probed is an API server with the probe, on which the native controller may be running.
type probed struct {
	mu         sync.Mutex
	generation int64
	observed   int64
	native     bool
	down       bool
	created    int
}

func (p *probed) RoundTrip(request *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code, reason := http.StatusOK, metav1.StatusReason("")
	switch {
	case p.down:
		return nil, errors.New("connection refused")
	case request.Method == http.MethodPost && p.generation != 0:
		code, reason = http.StatusConflict, metav1.StatusReasonAlreadyExists
	case request.Method == http.MethodPost:
		var body struct{ Spec struct{ Replicas *int32 } }
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil || body.Spec.Replicas == nil || *body.Spec.Replicas != 0 {
			return nil, errors.New("the probe must not have pods")
		}
		p.generation, p.created = 1, p.created+1
	case p.generation == 0:
		code, reason = http.StatusNotFound, metav1.StatusReasonNotFound
	case request.Method == http.MethodPatch:
		p.generation++
	}
	if p.native {
		p.observed = p.generation
	}
	answer := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"generation": p.generation, "managedFields": []any{map[string]any{"manager": "kube-controller-manager", "subresource": "status"}}},
		"status":   map[string]any{"observedGeneration": p.observed}}
	if reason != "" {
		answer = map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code}
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: request}, err
}

func (p *probed) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *probed) start(t *testing.T) *Probe {
	api, err := rollplan.NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1}, &http.Client{Transport: p})
	if err != nil {
		t.Fatal(err)
	}
	probe := &Probe{API: api, Namespace: "rollplan-system", Wait: 25 * time.Second}
	go func() { _ = probe.Start(t.Context()) }()
	return probe
}

func TestProbeWaitsThroughALeaderChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &probed{}
		probe := server.start(t)
		time.Sleep(24 * time.Second)
		if err := probe.Err(); !errors.Is(err, errProbing) {
			t.Errorf("after 24 s: %v", err)
		}
		// The native controller becomes the leader.
		server.set(func() { server.native = true })
		time.Sleep(2 * probePoll)
		if err := probe.Err(); !errors.Is(err, errNativeController) || !strings.Contains(err.Error(), "kube-controller-manager") {
			t.Errorf("beside the native controller: %v", err)
		}
		server.set(func() { server.native = false })
		time.Sleep(30 * time.Second)
		if err := probe.Err(); err != nil {
			t.Errorf("after the native controller has stopped: %v", err)
		}
	})
}

func TestProbeNoticesANativeControllerThatStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &probed{}
		// Two adapters change the same probe: one lost its lease, or runs without leader election.
		first, second := server.start(t), server.start(t)
		time.Sleep(10 * time.Minute)
		if first.Err() != nil || second.Err() != nil || server.created != 1 {
			t.Errorf("%v, %v, created %d times", first.Err(), second.Err(), server.created)
		}
		// The native controller observes changes that were made before its start.
		server.set(func() { server.native = true })
		time.Sleep(2 * probePoll)
		if first.Err() == nil || second.Err() == nil {
			t.Error("the native controller was not noticed")
		}
	})
}

func TestProbeRefusesWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &probed{down: true}
		probe := server.start(t)
		time.Sleep(5 * time.Minute)
		if err := probe.Err(); !errors.Is(err, errProbing) {
			t.Errorf("without an API server: %v", err)
		}
		server.set(func() { server.down = false })
		time.Sleep(time.Minute)
		if err := probe.Err(); err != nil {
			t.Errorf("with an API server: %v", err)
		}
	})
}
