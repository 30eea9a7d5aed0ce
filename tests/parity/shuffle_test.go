package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// recordingPlanner records the requests, and answers them with its answers in turn.
type recordingPlanner struct {
	answers  []string
	requests [][]byte
}

func (p *recordingPlanner) Plan(request []byte) ([]byte, error) {
	p.requests = append(p.requests, bytes.Clone(request))
	return []byte(p.answers[len(p.requests)-1]), nil
}

func (p *recordingPlanner) Close() {}

// A different answer to the shuffled request is a failure. The shuffled request has the same objects.
func TestShufflingPlanner(t *testing.T) {
	object := func(kind, name string) string {
		return js(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "generation": 9007199254740993}})
	}
	sent := Request{Snapshot: RequestSnapshot{
		Now: "2025-06-15T12:00:00Z", PodsComplete: true,
		Objects: []string{object("Deployment", "web"), object("ReplicaSet", "a<"), object("ReplicaSet", "b"), object("Pod", "c")},
	}, Options: RequestOptions{Horizon: "HORIZON_PASS"}}
	request := []byte(js(sent))
	p := &recordingPlanner{answers: []string{"{}\n", "{}\n", "{\"steps\":[]}\n", "{}\n", "{\"error\":\"no\"}\n"}}
	shuffling := &shufflingPlanner{p}
	answer, err := shuffling.Plan(request)
	if err != nil || string(answer) != "{}\n" {
		t.Fatalf("%q, %v", answer, err)
	}
	answer, err = shuffling.Plan(request)
	if err != nil || !strings.HasPrefix(string(answer), `{"error":"the shuffled request has another answer`) || !json.Valid(answer) {
		t.Fatalf("%q, %v", answer, err)
	}
	if answer, err = shuffling.Plan(request); err != nil || string(answer) != "{\"error\":\"no\"}\n" || len(p.requests) != 5 {
		t.Fatalf("%q, %v after %d requests", answer, err, len(p.requests))
	}
	if !bytes.Equal(p.requests[1], p.requests[3]) {
		t.Fatal("shuffling the same request again gives other texts")
	}
	var shuffled Request
	must(json.Unmarshal(p.requests[1], &shuffled))
	var found []string
	var collect func(o map[string]any)
	collect = func(o map[string]any) {
		items, isList := o["items"].([]any)
		for _, item := range items {
			collect(item.(map[string]any))
		}
		if !isList {
			found = append(found, js(o))
		}
	}
	for _, text := range shuffled.Snapshot.Objects {
		list, err := generic(text)
		must(err)
		collect(list)
	}
	want := slices.Sorted(slices.Values(sent.Snapshot.Objects))
	slices.Sort(found)
	if !slices.Equal(found, want) {
		t.Errorf("the objects are %v, want %v", found, want)
	}
	shuffled.Snapshot.Objects = sent.Snapshot.Objects
	if js(shuffled) != string(request) {
		t.Errorf("shuffling changed more than the objects: %s", p.requests[1])
	}
}
