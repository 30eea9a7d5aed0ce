package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// mutant is the real planner with modified requests or responses, which the comparison must detect.
type mutant struct {
	Planner
	request  func(string) string
	response func(*PlanResponse)
}

func (a *mutant) Plan(request []byte) ([]byte, error) {
	if a.request != nil {
		request = []byte(a.request(string(request)))
	}
	line, err := a.Planner.Plan(request)
	if err != nil || a.response == nil {
		return line, err
	}
	resp := &PlanResponse{}
	if err := json.Unmarshal(line, resp); err != nil {
		return nil, err
	}
	a.response(resp)
	return json.Marshal(resp)
}

// replaceInBodies replaces all matches of the expression in the bodies of all calls.
func replaceInBodies(expression, replacement string) func(*PlanResponse) {
	re := regexp.MustCompile(expression)
	return func(r *PlanResponse) {
		for _, s := range r.Steps {
			if s.Call != nil {
				s.Call.BodyJSON = re.ReplaceAllString(s.Call.BodyJSON, replacement)
			}
		}
	}
}

// calls returns the indices of the steps with a call.
func calls(r *PlanResponse) []int {
	var out []int
	for i, s := range r.Steps {
		if s.Call != nil {
			out = append(out, i)
		}
	}
	return out
}

func TestMutationsAreDetected(t *testing.T) {
	for _, m := range []struct {
		name, kind string // the mutation, and the kind of failure that it causes
		config
		mutant
	}{
		{"size", "write .Set.spec.replicas", config{}, mutant{response: replaceInBodies(`("path":"/spec/replicas","value":\d+)`, "${1}1")}},
		{"size of a created ReplicaSet", "write .Set.spec.replicas", config{}, mutant{response: replaceInBodies(`("spec":\{"minReadySeconds":\d+,"replicas":\d+)`, "${1}1")}},
		{"annotation", "write .Set.metadata.annotations", config{}, mutant{response: replaceInBodies(`(desired-replicas","value":"\d+)`, "${1}1")}},
		{"reason of a condition", "write .Deployment.status.conditions", config{}, mutant{response: replaceInBodies(`("reason":"ReplicaSetUpdated)`, "${1}X")}},
		{"time of a condition", "write .Deployment.status.conditions", config{}, mutant{response: replaceInBodies(`("lastTransitionTime":"2025-06-15T12:00:0)0`, "${1}1")}},
		{"counter in the status", "write .Deployment.status", config{}, mutant{response: replaceInBodies(`("readyReplicas":\d+)`, "${1}1")}},
		{"missing write", "writes", config{}, mutant{response: func(r *PlanResponse) {
			if at := calls(r); len(at) > 1 {
				r.Steps = append(r.Steps[:at[0]:at[0]], r.Steps[at[0]+1:]...)
			}
		}}},
		{"other order", "writes", config{}, mutant{response: func(r *PlanResponse) {
			for i := 1; i < len(r.Steps); i++ {
				if r.Steps[i-1].ScaleReplicaSet != nil && r.Steps[i].ScaleReplicaSet != nil && r.Steps[i-1].Call.Name != r.Steps[i].Call.Name {
					r.Steps[i-1], r.Steps[i] = r.Steps[i], r.Steps[i-1]
					return
				}
			}
		}}},
		{"missing events", "events", config{}, mutant{response: func(r *PlanResponse) {
			for i := range r.Steps {
				r.Steps[i].Events = nil
			}
		}}},
		{"additional deletion", "writes", config{}, mutant{response: func(r *PlanResponse) {
			for _, s := range r.Steps {
				if s.ScaleReplicaSet != nil {
					r.Steps = append(r.Steps, PlanStep{Call: &ApiCall{Verb: "VERB_DELETE", APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: s.Call.Namespace, Name: s.Call.Name}})
					return
				}
			}
		}}},
		{"settled size", "settled ReplicaSet .replicas", config{settled: true}, mutant{response: replaceInBodies(`("path":"/spec/replicas","value":\d+)`, "${1}1")}},
		{"missing test of the generation", "writes", config{faults: true}, mutant{response: replaceInBodies(`\{"op":"test","path":"/metadata/generation","value":\d+\},`, "")}},
		{"missing tests of generation and UID", "writes", config{faults: true}, mutant{response: replaceInBodies(`\{"op":"test","path":"/metadata/(uid|generation)","value":[^}]+\},`, "")}},
		{"missing resourceVersion", "writes", config{faults: true}, mutant{response: replaceInBodies(`"resourceVersion":"\d+",`, "")}},
		{"unreported failures", "the rejected call is planned again", config{faults: true}, mutant{request: func(s string) string {
			return strings.Replace(s, `"answers":`, `"ignored":`, 1)
		}}},
		{"no ON_FAILURE_CONTINUE", "writes", config{faults: true}, mutant{response: func(r *PlanResponse) {
			for i := range r.Steps {
				r.Steps[i].OnFailure = "ON_FAILURE_STOP"
			}
		}}},
		{"digest of a custom resource in another annotation", "write .Set.metadata.annotations", config{custom: true}, mutant{response: replaceInBodies(`rollplan.dev/template-digest`, "rollplan.dev/digest")}},
		{"other owner kind of a custom resource", "write .Set.metadata.ownerReferences", config{custom: true}, mutant{response: replaceInBodies(`"kind":"Rollout"`, `"kind":"Deployment"`)}},
	} {
		t.Run(m.name, func(t *testing.T) {
			w := both(t)
			c := m.config
			c.seed, c.unit, c.workers, c.out = 3, -1, 1, t.TempDir()
			c.start = func() (Planner, error) { a := m.mutant; a.Planner = &unclosable{w.ours.planner}; return &a, nil }
			kinds := map[string]int{}
			for c.n = 160; c.n < 3000; c.n *= 4 { // a few snapshots are enough for most mutations
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
			t.Fatalf("not detected as %s: %v", m.kind, kinds)
		})
	}
}

// unclosable is a planner that is shared and must not be closed.
type unclosable struct{ Planner }

func (*unclosable) Close() {}
