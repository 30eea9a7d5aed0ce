package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// Upstream only supports apps/v1 Deployments. In these tests, the same object is a custom resource for our side. The
// results must be the same except for a few differences, each of which one of the functions below reverts.

// templateDigest is an annotation that our planner sets on each ReplicaSet that it creates for a custom resource. The
// template of a custom resource has no defaults, unlike that of its ReplicaSet, so comparing them is not enough.
const templateDigest = "rollplan.dev/template-digest"

// compareCustom compares a pass in which the owner is a custom resource on our side.
//
// The server ignores metadata in a status write of a custom resource. Where a status write of upstream contains a new
// revision, our plan therefore writes only the first condition of the rollout, or only the revision, and ends, because the
// next write to the Deployment would be stale. The next plans are compared as well, each starting from the resulting
// objects: the condition is written once, then the revision once, then everything else.
func (w *worker) compareCustom(world *World, up *Result) ([]Difference, *Result, error) {
	w.then = nil
	conditions, revisions := 0, 0
	for {
		if outdated := outdatedCondition(world); outdated != nil {
			up = w.withoutCondition(world, outdated)
		}
		our, err := w.ours.Pass(world, up)
		if err != nil {
			return nil, our, err
		}
		noDigest(our)
		ownerKind(world, our)
		left := &World{Now: world.Now, PodsComplete: world.PodsComplete, Pods: world.Pods, Owner: world.Owner, Noise: world.Noise, Refuse: world.Refuse, Deployment: our.Deployment.DeepCopy()}
		for _, k := range sortedKeys(our.Sets) {
			left.ReplicaSets = append(left.ReplicaSets, our.Sets[k].DeepCopy())
		}
		var diffs []Difference
		switch {
		case revisionByItself(our):
			revisions++
			diffs = Compare(world, statusApart(world, up), statusApart(world, our))
		case conditionByItself(world, up, our):
			conditions++
			diffs = Compare(world, revisionApart(world, up), our)
		default:
			return inPlan(w.then, Compare(world, up, our)), our, nil
		}
		if len(diffs) > 0 {
			return inPlan(w.then, diffs), our, nil
		}
		if conditions > 1 || revisions > 1 {
			return []Difference{{"the condition or the revision of a custom resource is written twice", writeLines(up.Writes), writeLines(our.Writes)}}, our, nil
		}
		world, w.then = left, left
		up = w.up.Pass(world, NewServer(world))
	}
}

// inPlan marks differences that were found in a later plan.
func inPlan(then *World, diffs []Difference) []Difference {
	if then != nil {
		for i := range diffs {
			diffs[i].What += " (in a later plan)"
		}
	}
	return diffs
}

var inQuotes = regexp.MustCompile(`"([^"]*)"`)

// outdatedCondition returns the condition of an earlier rollout, which upstream keeps, and which our planner replaces as if
// it did not exist. Such a condition names a ReplicaSet other than the new one; or the revision of the rollout has not been
// written, and it is not the first condition of this rollout.
func outdatedCondition(w *World) *appsv1.DeploymentCondition {
	d := w.Deployment
	progressing := util.GetDeploymentCondition(d.Status, appsv1.DeploymentProgressing)
	if progressing == nil || !util.HasProgressDeadline(d) || d.Spec.Paused || d.DeletionTimestamp != nil || progressing.Reason == util.PausedDeployReason {
		return nil
	}
	found := newSet(w)
	if found == nil {
		return nil
	}
	name := ""
	if m := inQuotes.FindStringSubmatch(progressing.Message); m != nil {
		name = m[1]
	}
	first := progressing.Reason == util.NewReplicaSetReason || progressing.Reason == util.FoundNewRSReason
	if name == found.Name && first {
		return nil
	}
	if name != "" && name != found.Name || progressing.Reason == util.FailedRSCreateReason || d.Annotations[util.RevisionAnnotation] != found.Annotations[util.RevisionAnnotation] {
		return progressing
	}
	return nil
}

// newSet returns the new ReplicaSet of a world.
func newSet(w *World) *appsv1.ReplicaSet {
	selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
	if err != nil {
		return nil
	}
	var owned []*appsv1.ReplicaSet
	for _, rs := range w.ReplicaSets {
		owner := metav1.GetControllerOf(rs)
		adoptable := owner == nil && rs.DeletionTimestamp == nil
		if rs.Namespace == w.Deployment.Namespace && selector.Matches(labels.Set(rs.Labels)) && (adoptable || owner != nil && owner.UID == w.Deployment.UID) {
			owned = append(owned, rs)
		}
	}
	return util.FindNewReplicaSet(w.Deployment, owned)
}

// withoutCondition runs upstream without the condition, and then corrects the result: if upstream has not set a new
// condition, the Deployment keeps the old one, and a new one with the same status keeps its transition time.
func (w *worker) withoutCondition(world *World, condition *appsv1.DeploymentCondition) *Result {
	without := world.DeepCopy()
	util.RemoveDeploymentCondition(&without.Deployment.Status, condition.Type)
	up := w.up.Pass(without, NewServer(without))
	restore := func(d *appsv1.Deployment) {
		after := util.GetDeploymentCondition(d.Status, condition.Type)
		if after == nil {
			d.Status.Conditions = slices.Clone(world.Deployment.Status.Conditions)
			return
		}
		for i := range d.Status.Conditions {
			if c := &d.Status.Conditions[i]; c.Type == condition.Type && c.Status == condition.Status {
				c.LastTransitionTime = condition.LastTransitionTime
			}
		}
	}
	for i := range up.Writes {
		if d := up.Writes[i].Deployment; d != nil {
			up.Writes[i].Deployment = d.DeepCopy()
			restore(up.Writes[i].Deployment)
		}
	}
	up.Deployment = up.Deployment.DeepCopy()
	restore(up.Deployment)
	up.Status = &up.Deployment.Status
	return up
}

// nameCondition lets the message of the condition name a ReplicaSet: usually the new one, sometimes another.
func nameCondition(w *World, choice int) {
	found := newSet(w)
	for i := range w.Deployment.Status.Conditions {
		c := &w.Deployment.Status.Conditions[i]
		if c.Type != appsv1.DeploymentProgressing || !strings.HasPrefix(c.Message, "was ") {
			continue
		}
		switch {
		case choice%8 == 0:
			c.Message = `ReplicaSet "other" ` + c.Message
		case choice%8 > 2 && found != nil:
			c.Message = fmt.Sprintf("ReplicaSet %q %s", found.Name, c.Message)
		}
	}
}

// conditionByItself reports whether our plan writes a status without the new revision, which upstream writes with it.
func conditionByItself(w *World, up, our *Result) bool {
	before := w.Deployment.Annotations[util.RevisionAnnotation]
	writes := func(r *Result) bool {
		return slices.ContainsFunc(r.Writes, func(w Write) bool { return w.Deployment != nil })
	}
	return writes(our) && our.Deployment.Annotations[util.RevisionAnnotation] == before &&
		writes(up) && up.Deployment.Annotations[util.RevisionAnnotation] != before
}

// revisionApart returns a copy of the result in which the status write does not change the revision.
func revisionApart(w *World, r *Result) *Result {
	before, had := w.Deployment.Annotations[util.RevisionAnnotation]
	restore := func(d *appsv1.Deployment) *appsv1.Deployment {
		d = d.DeepCopy()
		if had {
			d.Annotations[util.RevisionAnnotation] = before
		} else {
			delete(d.Annotations, util.RevisionAnnotation)
		}
		return d
	}
	c := *r
	c.Writes = append([]Write(nil), r.Writes...)
	for i := range c.Writes {
		if c.Writes[i].Deployment != nil {
			c.Writes[i].Deployment = restore(c.Writes[i].Deployment)
		}
	}
	c.Deployment = restore(r.Deployment)
	c.Status = &c.Deployment.Status
	return &c
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

// statusApart returns a copy of the result in which the revision write does not change the status.
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
		return nil, fmt.Errorf("the status write of a custom resource has no status.ready")
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
