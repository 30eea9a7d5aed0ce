package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// recordingPlanner answers every request with the next of its answers.
type recordingPlanner struct {
	answers  []string
	requests [][]byte
}

func (p *recordingPlanner) Plan(request []byte) ([]byte, error) {
	p.requests = append(p.requests, bytes.Clone(request))
	return []byte(p.answers[len(p.requests)-1]), nil
}

func (p *recordingPlanner) Close() {}

// Another answer to objects_json is a failure, and the objects are all there.
func TestObjectsPlanner(t *testing.T) {
	request := []byte(`{"snapshot":{"now":"2025-06-15T12:00:00Z","deployment":{"metadata":{"name":"web"}},"replicaSets":[{"metadata":{"name":"a\u003c"}},{"metadata":{"name":"b"}}],"pods":[{"metadata":{"name":"c"}}],"podsComplete":true},"options":{"horizon":"HORIZON_PASS"}}`)
	p := &recordingPlanner{answers: []string{"{}\n", "{}\n", "{\"steps\":[]}\n", "{}\n", "{\"error\":\"no\"}\n"}}
	objects := &objectsPlanner{p}
	answer, err := objects.Plan(request)
	if err != nil || string(answer) != "{}\n" {
		t.Fatalf("%q, %v", answer, err)
	}
	answer, err = objects.Plan(request)
	if err != nil || !strings.HasPrefix(string(answer), `{"error":"objects_json has another answer`) || !json.Valid(answer) {
		t.Fatalf("%q, %v", answer, err)
	}
	if answer, err = objects.Plan(request); err != nil || string(answer) != "{\"error\":\"no\"}\n" || len(p.requests) != 5 {
		t.Fatalf("%q, %v after %d requests", answer, err, len(p.requests))
	}
	if !bytes.Equal(p.requests[1], p.requests[3]) {
		t.Fatal("the same request gets other texts")
	}
	var sent struct {
		Snapshot struct {
			ObjectsJSON  [][]byte `json:"objectsJson"`
			Deployment   any      `json:"deployment"`
			ReplicaSets  any      `json:"replicaSets"`
			Pods         any      `json:"pods"`
			PodsComplete bool     `json:"podsComplete"`
		} `json:"snapshot"`
	}
	if err := json.Unmarshal(p.requests[1], &sent); err != nil {
		t.Fatal(err)
	}
	s := sent.Snapshot
	if s.Deployment != nil || s.ReplicaSets != nil || s.Pods != nil || !s.PodsComplete {
		t.Fatalf("%s", p.requests[1])
	}
	found := map[string]string{}
	var collect func(o map[string]any)
	collect = func(o map[string]any) {
		items, isList := o["items"].([]any)
		for _, item := range items {
			collect(item.(map[string]any))
		}
		if !isList {
			found[o["metadata"].(map[string]any)["name"].(string)] = o["kind"].(string)
		}
	}
	for _, text := range s.ObjectsJSON {
		var list map[string]any
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		collect(list)
	}
	want := map[string]string{"web": "Deployment", "a<": "ReplicaSet", "b": "ReplicaSet", "c": "Pod"}
	if len(found) != len(want) {
		t.Fatalf("%v", found)
	}
	for name, kind := range want {
		if found[name] != kind {
			t.Fatalf("%v", found)
		}
	}
}
