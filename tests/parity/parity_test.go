package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controller"

	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/apps"
	deploymentregistry "k8s.io/kubernetes/pkg/registry/apps/deployment"
	replicasetregistry "k8s.io/kubernetes/pkg/registry/apps/replicaset"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// mirror is a planner that returns the writes of upstream in the format of the contract: as patches with preconditions,
// and with another hash. The comparison must find it equal to upstream, and must detect each mistake that the function
// mistake introduces.
type mirror struct {
	up      *Upstream
	mistake func(*PlanResponse)
}

func (m *mirror) Close() {}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func (m *mirror) Plan(request []byte) ([]byte, error) {
	w, req, err := WorldFromRequest(request)
	if err != nil {
		return nil, err
	}
	theirs := controller.ComputeHash(&w.Deployment.Spec.Template, w.Deployment.Status.CollisionCount)
	in := renaming{cut(w.Deployment.Name, reverse(theirs)): cut(w.Deployment.Name, theirs)}
	in.hash(reverse(theirs), theirs)
	renamed := false
	for _, rs := range w.ReplicaSets {
		renamed = renamed || rs.Name == cut(w.Deployment.Name, reverse(theirs))
		in.set(rs)
	}
	in.deployment(w.Deployment)
	for _, f := range req.Snapshot.Answers {
		var status metav1.Status
		if err := json.Unmarshal(f.Body, &status); err != nil {
			return nil, err
		}
		switch {
		case status.Reason == metav1.StatusReasonAlreadyExists:
		case strings.Contains(status.Message, "quota"):
			w.Refuse = RefuseQuota
		case status.Details != nil && len(status.Details.Causes) > 0 && status.Details.Causes[0].Type == corev1.NamespaceTerminatingCause:
			w.Refuse = RefuseTerminating
		default:
			w.Refuse = RefuseInvalid
		}
	}
	server := NewServer(w)
	r := m.up.Pass(w, server)
	if len(req.Snapshot.Answers) == 0 && strings.Contains(strings.Join(r.Refused, ""), "already exists") {
		// ignore that the name is already in use: the server will reject the create
		server = NewServer(w)
		delete(server.sets, key(w.Deployment.Namespace, cut(w.Deployment.Name, theirs)))
		r = m.up.Pass(w, server)
	}
	r.Deployment = r.Deployment.DeepCopy()
	ours := theirs
	if renamed || len(r.Attempts) > 0 { // otherwise, a ReplicaSet of that name is not special
		ours = reverse(theirs)
	}
	out := renaming{cut(w.Deployment.Name, theirs): cut(w.Deployment.Name, ours)}
	out.hash(theirs, ours)
	for i := range r.Writes { // before the final status is changed
		if d := r.Writes[i].Deployment; d != nil {
			m.stamp(w, r, &d.Status)
		}
	}
	m.stamp(w, r, &r.Deployment.Status)
	r.Status = &r.Deployment.Status
	resp := PlanResponse{}
	before := NewServer(w)
	if len(r.Writes) == 0 && r.Requeue > 0 {
		resp.RequeueAfter = fmt.Sprintf("%.9fs", r.Requeue.Seconds())
	}
	status, _ := json.Marshal(r.Deployment.Status)
	resp.Status = json.RawMessage(out.text(string(status)))
	for _, wr := range r.Writes {
		call := &ApiCall{APIVersion: "apps/v1", Kind: wr.Kind, Namespace: wr.Namespace, Name: wr.Name, Subresource: wr.Subresource}
		switch {
		case wr.Op == "create":
			call.Verb = "VERB_CREATE"
			rs := wr.Set.DeepCopy()
			rs.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}
			rs.UID, rs.ResourceVersion, rs.CreationTimestamp = "", "", metav1.Time{}
			call.BodyJSON = js(rs)
		case wr.Op == "delete":
			call.Verb = "VERB_DELETE"
			call.BodyJSON = js(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wr.Set.UID, ResourceVersion: &wr.Set.ResourceVersion}})
		case wr.Set != nil && !wr.Claim:
			call.Verb, call.ContentType = "VERB_PATCH", "application/json-patch+json"
			old := before.sets[key(wr.Namespace, wr.Name)]
			ops := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": old.UID}, {"op": "test", "path": "/metadata/generation", "value": old.Generation}}
			if old.Annotations == nil {
				ops = append(ops, map[string]any{"op": "test", "path": "/metadata/annotations", "value": nil})
			}
			ops = append(ops, map[string]any{"op": "add", "path": "/metadata/annotations", "value": wr.Set.Annotations}, map[string]any{"op": "replace", "path": "/spec/replicas", "value": wr.Set.Spec.Replicas}, map[string]any{"op": "add", "path": "/spec/minReadySeconds", "value": wr.Set.Spec.MinReadySeconds})
			call.BodyJSON = js(ops)
			before.sets[key(wr.Namespace, wr.Name)] = wr.Set
		default:
			call.Verb, call.ContentType = "VERB_PATCH", "application/merge-patch+json"
			var old, new any
			var uid, rv string
			if wr.Set != nil {
				o := before.sets[key(wr.Namespace, wr.Name)]
				old, new, uid, rv = o, wr.Set, string(o.UID), o.ResourceVersion
				before.sets[key(wr.Namespace, wr.Name)] = wr.Set
			} else {
				o := before.deployments[key(wr.Namespace, wr.Name)]
				old, new, uid, rv = o, wr.Deployment, string(o.UID), o.ResourceVersion
				before.deployments[key(wr.Namespace, wr.Name)] = wr.Deployment
			}
			patch, err := jsonpatch.CreateMergePatch([]byte(js(old)), []byte(js(new)))
			if err != nil {
				return nil, err
			}
			var body map[string]any
			must(json.Unmarshal(patch, &body))
			meta, _ := body["metadata"].(map[string]any)
			if meta == nil {
				meta = map[string]any{}
				body["metadata"] = meta
			}
			delete(meta, "generation")
			meta["uid"], meta["resourceVersion"] = uid, rv
			call.BodyJSON = js(body)
		}
		call.Name, call.BodyJSON = out.text(call.Name), strings.ReplaceAll(out.text(call.BodyJSON), `"`+theirs+`"`, `"`+ours+`"`)
		resp.Steps = append(resp.Steps, PlanStep{Summary: wr.Op + " " + call.Name, Call: call})
	}
	for _, e := range r.Events {
		e.Message = out.text(e.Message)
		resp.Steps = append(resp.Steps, PlanStep{Summary: "event", Events: []Event{e}})
	}
	if m.mistake != nil {
		m.mistake(&resp)
	}
	return json.Marshal(resp)
}

// stamp replaces times of the wall clock with snapshot.now.
func (m *mirror) stamp(w *World, r *Result, s *appsv1.DeploymentStatus) {
	c := *r
	c.Writes, c.Status, c.Deployment = nil, nil, &appsv1.Deployment{Status: *s}
	conditionTimes(w, &c)
}

func mirrored(mistake func(*PlanResponse)) *config {
	return &config{n: 2000, workers: 2, unit: -1, seed: 11, maxReports: 1, planner: "mirror", start: func() (Planner, error) {
		return &mirror{up: NewUpstream(), mistake: mistake}, nil
	}}
}

func TestMirrorOfUpstreamIsEqual(t *testing.T) {
	c := mirrored(nil)
	c.out = t.TempDir()
	s, err := run(c)
	if err != nil {
		t.Fatal(err)
	}
	// The mirror has other error messages, which leads to differences in the few worlds whose selector cannot match.
	if s.failed != 0 || s.passed < c.n-20 {
		t.Fatalf("%d passed, %d failed %v\n%s", s.passed, s.failed, s.kinds, strings.Join(s.reports, "\n"))
	}
}

func TestMistakesAreDetected(t *testing.T) {
	// only one part of the comparison can detect each of these
	mistakes := map[string]func(*PlanResponse){
		"the server rejected one of our writes": func(r *PlanResponse) {
			for _, s := range r.Steps {
				if s.Call != nil && strings.Contains(s.Call.BodyJSON, `"/metadata/generation"`) {
					s.Call.BodyJSON = strings.Replace(s.Call.BodyJSON, `"/metadata/generation","value":`, `"/metadata/generation","value":7`, 1)
				}
			}
		},
		"writes": func(r *PlanResponse) {
			for i, s := range r.Steps {
				if s.Call != nil && s.Call.Subresource == "status" {
					r.Steps = append(r.Steps[:i:i], r.Steps[i+1:]...)
					return
				}
			}
		},
		"write": func(r *PlanResponse) {
			for _, s := range r.Steps {
				if s.Call != nil {
					s.Call.BodyJSON = strings.Replace(s.Call.BodyJSON, `"message":"`, `"message":"x`, 1)
				}
			}
		},
		"events": func(r *PlanResponse) {
			for i, s := range r.Steps {
				if len(s.Events) > 0 {
					r.Steps[i].Events[0].Message += "."
				}
			}
		},
		"response.status": func(r *PlanResponse) {
			r.Status = json.RawMessage(strings.Replace(string(r.Status), `"observedGeneration":`, `"observedGeneration":1`, 1))
		},
		"requeueAfter": func(r *PlanResponse) {
			if r.RequeueAfter != "" {
				r.RequeueAfter = "1s"
			}
		},
	}
	for kind, mistake := range mistakes {
		t.Run(kind, func(t *testing.T) {
			c := mirrored(mistake)
			c.n, c.out = 1000, t.TempDir()
			s, err := run(c)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for k, n := range s.kinds {
				if k == kind || strings.HasPrefix(k, kind+" ") {
					found += n
				}
			}
			if found == 0 {
				t.Fatalf("not detected: %v", s.kinds)
			}
			if len(s.reports) == 0 || !strings.Contains(s.reports[0], "replay: ") {
				t.Fatalf("no report: %v", s.reports)
			}
		})
	}
}

func TestGeneratorIsDeterministic(t *testing.T) {
	for unit := 0; unit < 100; unit++ {
		a, b := newGenerator(5, uint64(unit), clockOf(unit)), newGenerator(5, uint64(unit), clockOf(unit))
		for range 5 {
			if x, y := js(a.World().Request("")), js(b.World().Request("")); x != y {
				t.Fatal(x, y)
			}
		}
	}
}

// TestWorldsAreStorable checks that the API server would accept the generated objects. It skips two invalid cases that
// upstream handles nevertheless: an empty selector, and a RollingUpdate with maxSurge and maxUnavailable 0.
func TestWorldsAreStorable(t *testing.T) {
	for unit := 0; unit < 3000; unit++ {
		w := newGenerator(9, uint64(unit), clockOf(unit)).World().AsStored()
		ru := w.Deployment.Spec.Strategy.RollingUpdate
		if len(w.Deployment.Spec.Selector.MatchLabels)+len(w.Deployment.Spec.Selector.MatchExpressions) == 0 || ru != nil && zero(ru.MaxSurge) && zero(ru.MaxUnavailable) {
			continue
		}
		d, err := internalDeployment(w.Deployment)
		must(err)
		status := d.DeepCopy()
		d.UID, d.CreationTimestamp = "x", metav1.Now()
		if err := rest.BeforeCreate(deploymentregistry.Strategy, requestContext(namespace, "deployments", ""), d); err != nil {
			t.Fatalf("unit %d: %v", unit, err)
		}
		if err := rest.BeforeUpdate(deploymentregistry.StatusStrategy, requestContext(namespace, "deployments", "status"), status, status.DeepCopy()); err != nil {
			t.Fatalf("unit %d: %v", unit, err)
		}
		for _, rs := range w.ReplicaSets {
			if rs.Namespace != namespace {
				continue
			}
			in := &apps.ReplicaSet{}
			must(legacyscheme.Scheme.Convert(rs.DeepCopy(), in, nil))
			if err := rest.BeforeUpdate(replicasetregistry.Strategy, requestContext(namespace, "replicasets", ""), in.DeepCopy(), in); err != nil {
				t.Fatalf("unit %d: %v", unit, err)
			}
			if err := rest.BeforeUpdate(replicasetregistry.StatusStrategy, requestContext(namespace, "replicasets", "status"), in.DeepCopy(), in); err != nil {
				t.Fatalf("unit %d: %v", unit, err)
			}
		}
	}
}

// TestServerBehavior checks the rules of Server that the comparison depends on.
func TestServerBehavior(t *testing.T) {
	w := newGenerator(1, 1, baseTime).World()
	for unit := uint64(2); len(w.ReplicaSets) == 0 || w.ReplicaSets[0].Namespace != namespace || len(w.ReplicaSets[0].Finalizers) > 0; unit++ {
		w = newGenerator(1, unit, baseTime).World()
	}
	w = w.AsStored()
	s := NewServer(w)
	rs := w.ReplicaSets[0].DeepCopy()

	if _, err := s.UpdateReplicaSet(rs, ""); err != nil || len(s.writes) != 0 {
		t.Fatalf("PUT without changes: %v, %d writes", err, len(s.writes))
	}
	if _, err := s.UpdateDeployment(w.Deployment, "status"); err != nil || len(s.writes) != 0 {
		t.Fatalf("PUT of the status without changes: %v, %d writes", err, len(s.writes))
	}
	bigger := rs.DeepCopy()
	*bigger.Spec.Replicas += 1
	bigger.Status.Replicas += 100
	got, err := s.UpdateReplicaSet(bigger, "")
	if err != nil || got.Generation != rs.Generation+1 || got.ResourceVersion == rs.ResourceVersion || got.Status.Replicas != rs.Status.Replicas {
		t.Fatalf("PUT of a new size: %v %v", err, got)
	}
	if _, err := s.UpdateReplicaSet(bigger, ""); err == nil {
		t.Fatal("a stale PUT was accepted")
	}
	noted := got.DeepCopy()
	noted.Annotations = map[string]string{"a": "b"}
	if got, err = s.UpdateReplicaSet(noted, ""); err != nil || got.Generation != rs.Generation+1 {
		t.Fatalf("an annotation must not change the generation of a ReplicaSet: %v %v", err, got)
	}
	patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/generation","value":%d},{"op":"replace","path":"/spec/replicas","value":4}]`, rs.Generation)
	if _, err := s.PatchReplicaSet(namespace, rs.Name, "", "application/json-patch+json", []byte(patch)); err == nil || !strings.Contains(err.Error(), "est") {
		t.Fatalf("patch with a failed test operation: %v", err)
	}
	d := w.Deployment
	if _, err := s.PatchDeployment(namespace, d.Name, "", "application/merge-patch+json", []byte(`{"metadata":{"uid":"`+string(d.UID)+`","resourceVersion":"1"}}`)); err == nil {
		t.Fatal("a stale check of the owner was accepted")
	}
	n := len(s.writes)
	if _, err := s.PatchDeployment(namespace, d.Name, "", "application/merge-patch+json", []byte(`{"metadata":{"uid":"`+string(d.UID)+`","resourceVersion":"`+d.ResourceVersion+`"}}`)); err != nil || len(s.writes) != n {
		t.Fatalf("check of the owner: %v, %d writes", err, len(s.writes)-n)
	}
	if _, err := s.PatchDeployment(namespace, d.Name, "", "application/merge-patch+json", []byte(`{"metadata":{"uid":"other"}}`)); err == nil {
		t.Fatal("a patch with another uid was accepted")
	}
	if d2, err := s.PatchDeployment(namespace, d.Name, "", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"z":"1"}}}`)); err != nil || d2.Generation != d.Generation+1 {
		t.Fatalf("an annotation must change the generation of a Deployment: %v", err)
	}
	if d2, err := s.PatchDeployment(namespace, d.Name, "status", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"z":"2"}}}`)); err != nil || d2.Generation != d.Generation+1 || d2.Annotations["z"] != "2" {
		t.Fatalf("a status patch must write annotations and must not change the generation: %v", err)
	}
	uid := rs.UID
	stale := "1"
	if err := s.DeleteReplicaSet(namespace, rs.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &stale}}); err == nil {
		t.Fatal("a stale DELETE was accepted")
	}
	if err := s.DeleteReplicaSet(namespace, rs.Name, metav1.DeleteOptions{}); err != nil || s.sets[key(namespace, rs.Name)] != nil {
		t.Fatalf("DELETE: %v", err)
	}
}

func TestUpstreamIsDeterministic(t *testing.T) {
	u := NewUpstream()
	setUpstreamClock(baseTime)
	for unit := 0; unit < 300; unit += 2 {
		w := newGenerator(21, uint64(unit), baseTime).World().AsStored()
		a, b := u.Pass(w, NewServer(w)), u.Pass(w, NewServer(w))
		b.Response, b.Requeue = nil, a.Requeue
		a.Status, b.Status = a.Status.DeepCopy(), b.Status.DeepCopy()
		if diffs := Compare(w, a, &Result{Writes: b.Writes, Events: b.Events, Deployment: b.Deployment, Sets: b.Sets, Attempts: b.Attempts, Status: b.Status, Requeue: b.Requeue, NowFrom: b.NowFrom, NowTo: b.NowTo}); len(diffs) > 0 {
			t.Fatalf("unit %d: upstream differs from itself: %s", unit, diffs[0].Explain())
		}
	}
}

// TestNoiseKeepsMeaning checks that templates with noise in their JSON are decoded to the same typed templates.
func TestNoiseKeepsMeaning(t *testing.T) {
	for unit := uint64(0); unit < 300; unit++ {
		w := newGenerator(4, unit, baseTime).World().AsStored()
		w.Noise = unit + 1
		data := mustBytes(w.forPlanner("HORIZON_PASS", nil))
		w.Noise = 0
		plain := mustBytes(w.forPlanner("HORIZON_PASS", nil))
		if string(data) == string(plain) {
			t.Fatalf("unit %d: the noise changed nothing", unit)
		}
		a, _, err := WorldFromRequest(data)
		must(err)
		b, _, err := WorldFromRequest(plain)
		must(err)
		if x, y := js(a.Request("")), js(b.Request("")); x != y {
			t.Fatalf("unit %d:\n%s\n%s", unit, x, y)
		}
	}
}
