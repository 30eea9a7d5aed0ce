package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// altered is the real planner, whose requests or answers are tampered with: the comparison must notice.
type altered struct {
	Planner
	request func(string) string
	answer  func(*PlanResponse)
}

func (a *altered) Plan(request []byte) ([]byte, error) {
	if a.request != nil {
		request = []byte(a.request(string(request)))
	}
	line, err := a.Planner.Plan(request)
	if err != nil || a.answer == nil {
		return line, err
	}
	resp := &PlanResponse{}
	if err := json.Unmarshal(line, resp); err != nil {
		return nil, err
	}
	a.answer(resp)
	return json.Marshal(resp)
}

// bodies changes the bodies of all calls that carry what the expression matches.
func bodies(expression, with string) func(*PlanResponse) {
	re := regexp.MustCompile(expression)
	return func(r *PlanResponse) {
		for _, s := range r.Steps {
			if s.Call != nil {
				s.Call.BodyJSON = re.ReplaceAllString(s.Call.BodyJSON, with)
			}
		}
	}
}

// calls are the places of the steps with a call.
func calls(r *PlanResponse) []int {
	var out []int
	for i, s := range r.Steps {
		if s.Call != nil {
			out = append(out, i)
		}
	}
	return out
}

func TestEveryTamperingIsFound(t *testing.T) {
	for _, m := range []struct {
		what, kind string // what is done, and in what the comparison sees it
		config
		altered
	}{
		{"a size", "write .Set.spec.replicas", config{}, altered{answer: bodies(`("path":"/spec/replicas","value":\d+)`, "${1}1")}},
		{"the size of a created set", "write .Set.spec.replicas", config{}, altered{answer: bodies(`("spec":\{"minReadySeconds":\d+,"replicas":\d+)`, "${1}1")}},
		{"an annotation", "write .Set.metadata.annotations", config{}, altered{answer: bodies(`(desired-replicas","value":"\d+)`, "${1}1")}},
		{"the reason of a condition", "write .Deployment.status.conditions", config{}, altered{answer: bodies(`("reason":"ReplicaSetUpdated)`, "${1}X")}},
		{"the time of a condition", "write .Deployment.status.conditions", config{}, altered{answer: bodies(`("lastTransitionTime":"2025-06-15T12:00:0)0`, "${1}1")}},
		{"a counter", "write .Deployment.status", config{}, altered{answer: bodies(`("readyReplicas":\d+)`, "${1}1")}},
		{"a write less", "writes", config{}, altered{answer: func(r *PlanResponse) {
			if at := calls(r); len(at) > 1 {
				r.Steps = append(r.Steps[:at[0]:at[0]], r.Steps[at[0]+1:]...)
			}
		}}},
		{"another order", "writes", config{}, altered{answer: func(r *PlanResponse) {
			for i := 1; i < len(r.Steps); i++ {
				if r.Steps[i-1].ScaleReplicaSet != nil && r.Steps[i].ScaleReplicaSet != nil && r.Steps[i-1].Call.Name != r.Steps[i].Call.Name {
					r.Steps[i-1], r.Steps[i] = r.Steps[i], r.Steps[i-1]
					return
				}
			}
		}}},
		{"an event less", "events", config{}, altered{answer: func(r *PlanResponse) {
			for i := range r.Steps {
				r.Steps[i].Events = nil
			}
		}}},
		{"a set deleted too many", "writes", config{}, altered{answer: func(r *PlanResponse) {
			for _, s := range r.Steps {
				if s.ScaleReplicaSet != nil {
					r.Steps = append(r.Steps, PlanStep{Call: &ApiCall{Verb: "VERB_DELETE", APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: s.Call.Namespace, Name: s.Call.Name}})
					return
				}
			}
		}}},
		{"a settled size", "settled ReplicaSet .replicas", config{settled: true}, altered{answer: bodies(`("path":"/spec/replicas","value":\d+)`, "${1}1")}},
		{"no test of the generation", "writes", config{against: true}, altered{answer: bodies(`\{"op":"test","path":"/metadata/generation","value":\d+\},`, "")}},
		{"no test of the uid", "writes", config{against: true}, altered{answer: bodies(`\{"op":"test","path":"/metadata/(uid|generation)","value":[^}]+\},`, "")}},
		{"no resourceVersion", "writes", config{against: true}, altered{answer: bodies(`"resourceVersion":"\d+",`, "")}},
		{"failures not reported", "the refused call is planned again", config{against: true}, altered{request: func(s string) string {
			return strings.Replace(s, `"failures":`, `"ignored":`, 1)
		}}},
		{"plans that stop at every failure", "writes", config{against: true}, altered{answer: func(r *PlanResponse) {
			for i := range r.Steps {
				r.Steps[i].ContinueOnFailure = false
			}
		}}},
		{"a custom resource's digest elsewhere", "write .Set.metadata.annotations", config{custom: true}, altered{answer: bodies(`rollplan.dev/template-digest`, "rollplan.dev/digest")}},
		{"a custom resource's owner of another kind", "write .Set.metadata.ownerReferences", config{custom: true}, altered{answer: bodies(`"kind":"Rollout"`, `"kind":"Deployment"`)}},
	} {
		t.Run(m.what, func(t *testing.T) {
			w := both(t)
			c := m.config
			c.seed, c.unit, c.workers, c.out = 3, -1, 1, t.TempDir()
			c.start = func() (Planner, error) { a := m.altered; a.Planner = &open{w.ours.planner}; return &a, nil }
			kinds := map[string]int{}
			for c.n = 160; c.n < 3000; c.n *= 4 { // most show at once
				s, err := run(&c)
				if err != nil {
					t.Fatal(err)
				}
				for k := range s.kinds {
					if strings.HasPrefix(k, m.kind) {
						return
					}
				}
				kinds = s.kinds
			}
			t.Fatalf("not found in %s: %v", m.kind, kinds)
		})
	}
}

// open is a planner that somebody else closes.
type open struct{ Planner }

func (*open) Close() {}
