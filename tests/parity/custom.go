package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Upstream only supports apps/v1 Deployments. In these tests, the same object is a custom resource for our side. The
// results must be the same except for four differences, each of which one of the functions below reverts.

// templateDigest is an annotation that our planner sets on each ReplicaSet that it creates for a custom resource. The
// template of a custom resource has no defaults, unlike that of its ReplicaSet, so comparing them is not enough.
const templateDigest = "rollplan.dev/template-digest"

// compareCustom compares a pass in which the owner is a custom resource on our side.
//
// The server ignores metadata in a status write of a custom resource. If the first status write of upstream contains a
// new revision, our plan therefore writes only the revision and ends, because the next write to the Deployment would be
// stale. The status follows in the next plan, which is compared as well, starting from the resulting objects.
func (w *worker) compareCustom(world *World, up *Result) ([]Difference, *Result, error) {
	w.then = nil
	our, err := w.ours.Pass(world, up)
	if err != nil {
		return nil, nil, err
	}
	noDigest(our)
	ownerKind(world, our)
	if !revisionByItself(our) {
		return Compare(world, up, our), our, nil
	}
	left := &World{Now: world.Now, PodsComplete: world.PodsComplete, Pods: world.Pods, Owner: world.Owner, Noise: world.Noise, Refuse: world.Refuse, Deployment: our.Deployment.DeepCopy()}
	for _, k := range sortedKeys(our.Sets) {
		left.ReplicaSets = append(left.ReplicaSets, our.Sets[k].DeepCopy())
	}
	diffs := Compare(world, statusApart(world, up), statusApart(world, our))
	if len(diffs) > 0 {
		return diffs, our, nil
	}
	w.then = left
	then := w.up.Pass(left, NewServer(left))
	next, err := w.ours.Pass(left, then)
	if err != nil {
		return nil, our, err
	}
	noDigest(next)
	ownerKind(left, next)
	if revisionByItself(next) {
		return []Difference{{"the revision of a custom resource is written twice", writeLines(then.Writes), writeLines(next.Writes)}}, our, nil
	}
	for _, d := range Compare(left, then, next) {
		d.What += " (in the next plan)"
		diffs = append(diffs, d)
	}
	return diffs, next, nil
}

// noDigest removes the template digest.
func noDigest(r *Result) {
	clean := func(rs *appsv1.ReplicaSet) {
		if rs != nil {
			delete(rs.Annotations, templateDigest)
		}
	}
	for _, rs := range r.Sets {
		clean(rs)
	}
	for _, rs := range r.Attempts {
		clean(rs)
	}
	for i := range r.Writes {
		clean(r.Writes[i].Set)
	}
}

// ownerKind replaces the kind in the owner references that our side has written with Deployment.
func ownerKind(w *World, r *Result) {
	known := func(rs *appsv1.ReplicaSet) {
		if rs == nil {
			return
		}
		for i := range rs.OwnerReferences {
			ref := &rs.OwnerReferences[i]
			if ref.UID == w.Deployment.UID && (metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}) == w.owner() {
				ref.APIVersion, ref.Kind = native.APIVersion, native.Kind
			}
		}
	}
	for _, rs := range r.Sets {
		known(rs)
	}
	for i := range r.Writes {
		known(r.Writes[i].Set)
	}
}

// revisionByItself reports whether our plan has a separate write for the revision.
func revisionByItself(r *Result) bool {
	if r.Response == nil {
		return false
	}
	for _, step := range r.Response.Steps {
		if step.UpdateDeployment == nil {
			continue
		}
		var body struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if step.Call != nil && json.Unmarshal([]byte(step.Call.BodyJSON), &body) == nil && body.Metadata.Annotations["deployment.kubernetes.io/revision"] != "" {
			return true
		}
	}
	return false
}

// statusApart returns a copy of the result in which the write of the revision does not change the status.
func statusApart(w *World, r *Result) *Result {
	before := &w.Deployment.Status
	c := *r
	c.Writes = append([]Write(nil), r.Writes...)
	for i := range c.Writes {
		if c.Writes[i].Deployment != nil {
			d := c.Writes[i].Deployment.DeepCopy()
			d.Status = *before.DeepCopy()
			c.Writes[i].Deployment, c.Writes[i].Subresource = d, ""
		}
	}
	c.Deployment = r.Deployment.DeepCopy()
	c.Deployment.Status = *before.DeepCopy()
	c.Status = &c.Deployment.Status
	return &c
}

// selectorApart removes status.selector and status.ready, which a Deployment does not have, from a status write, and checks the
// selector.
func selectorApart(w *World, body []byte) ([]byte, error) {
	var patch map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&patch); err != nil {
		return nil, err
	}
	status, ok := patch["status"].(map[string]any)
	if !ok {
		return body, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
	if err != nil {
		return nil, err
	}
	if status["selector"] != selector.String() {
		return nil, fmt.Errorf("the status write of a custom resource has the selector %q, want %q", status["selector"], selector)
	}
	delete(status, "selector")
	if status["ready"] == nil {
		return nil, fmt.Errorf("the status write of a custom resource has no text of ready pods")
	}
	delete(status, "ready")
	return json.Marshal(patch)
}

// metadataDropped checks that a status write of a custom resource contains no metadata other than preconditions, because
// the server would ignore it.
func metadataDropped(body []byte) error {
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err
	}
	for k := range patch.Metadata {
		if k != "uid" && k != "resourceVersion" {
			return fmt.Errorf("the status write of a custom resource contains metadata.%s, which the server would ignore", k)
		}
	}
	return nil
}
