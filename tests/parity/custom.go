package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Upstream knows Deployments of apps/v1 only. Here our side is told that the same object is a custom resource: what it
// does must be what upstream does with the Deployment, but for four things that are undone before the comparison,
// each by one function below.

// templateDigest is what ours notes on each ReplicaSet that it creates for a custom resource: the stored template of
// one is not defaulted, while the ReplicaSet's is, so that equality alone would not find the set again.
const templateDigest = "rollplan.dev/template-digest"

// compareCustom compares a pass with a custom resource as our owner.
//
// The server drops metadata from a status write of a custom resource. So where upstream's first status write carries
// a new revision, ours writes the revision by itself and ends, as upstream does at its own next write of the
// Deployment; the status comes with the next plan, which is compared as well, on the world that ours has left.
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
		return []Difference{{"a custom resource's revision is written twice", writeLines(then.Writes), writeLines(next.Writes)}}, our, nil
	}
	for _, d := range Compare(left, then, next) {
		d.What += " (in the next plan)"
		diffs = append(diffs, d)
	}
	return diffs, next, nil
}

// noDigest takes the digest of the template away again.
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

// ownerKind gives the owner references that ours has written the kind that upstream knows.
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

// revisionByItself says whether a write of ours was the revision's own.
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

// statusApart is a result with the write that carries the revision as ours makes it: the annotation, and the status
// as it was.
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

// selectorApart takes the selector's text out of a status write, where a Deployment has no field for it, and holds it
// against what Kubernetes' clients make of the selector.
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
		return nil, fmt.Errorf("the status write of a custom resource has selector %q, want %q", status["selector"], selector)
	}
	delete(status, "selector")
	return json.Marshal(patch)
}

// metadataDropped: what a custom resource's status write says about metadata is lost, so it says nothing but which
// object it means.
func metadataDropped(body []byte) error {
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err
	}
	for k := range patch.Metadata {
		if k != "uid" && k != "resourceVersion" {
			return fmt.Errorf("the status write of a custom resource carries metadata.%s, which the server would drop", k)
		}
	}
	return nil
}
