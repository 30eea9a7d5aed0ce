package main

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settled compares HORIZON_SETTLED with upstream, which runs until it makes no more writes. In its world, no set reports more
// available pods than its size. The final sizes, annotations and revision must be the same. The order and number of
// writes may differ, because a settled plan merges them.
func (w *worker) settled(world *World) ([]Difference, *Result, *Result, error) {
	up := w.repeat(world)
	// If the server rejects a call, or a name is already in use, a second plan is necessary. Only passes are compared then.
	if w.ours == nil || world.Refuse != RefuseNothing || collided(up) {
		return nil, up, nil, nil
	}
	our, err := w.ours.settle(world)
	if gone, ok := err.(*plannerGone); ok {
		return nil, up, nil, gone
	}
	if err != nil {
		return []Difference{{What: "no plan", Ours: err.Error()}}, up, &Result{Err: err}, nil
	}
	var diffs []Difference
	if our.Err != nil {
		diffs = append(diffs, Difference{"the server refused one of our writes", "", our.Err.Error()})
	} else if reversed, err := w.reversed(world, our); err != nil {
		return nil, up, our, err
	} else if reversed != "" {
		diffs = append(diffs, Difference{reversal, "", reversed})
	}
	normalise(world, up)
	normalise(world, our)
	sets := merged(up.Sets, our.Sets)
	for _, k := range sortedKeys(sets) {
		if adoptedAndDeleted(up.Writes, k) || our.Sets[k] == nil && completeAsObserved(world) {
			continue
		}
		if u, o := essence(up.Sets[k]), essence(our.Sets[k]); u != o {
			diffs = append(diffs, Difference{"settled ReplicaSet " + k, u, o})
		}
	}
	if u, o := dump(up.Deployment.Annotations), dump(our.Deployment.Annotations); u != o {
		diffs = append(diffs, Difference{"settled Deployment annotations", u, o})
	}
	if u, o := dump(up.Deployment.Spec), dump(our.Deployment.Spec); u != o {
		diffs = append(diffs, Difference{"settled Deployment spec", u, o})
	}
	return diffs, up, our, nil
}

// reversal is a difference that no exemption may excuse.
const reversal = "a size is reversed by the next plan"

// reversed returns a set whose size the next plan changes back although nothing but the writes of this plan has changed: its
// pods would be started and then removed, or removed and then started. A rollback by annotation is exempt: it creates a
// missing set first, as upstream does.
func (w *worker) reversed(world *World, our *Result) (string, error) {
	if _, ok := world.Deployment.Annotations[appsv1.DeprecatedRollbackTo]; ok {
		return "", nil
	}
	then, err := w.ours.settle(next(world, our))
	if err != nil {
		return "", err
	}
	return reversedSize(world, our, then), nil
}

// reversedSize returns a set that is scaled in one direction by the first plan and in the other by the second.
func reversedSize(world *World, first, second *Result) string {
	before := map[string]int32{}
	for _, rs := range world.ReplicaSets {
		before[key(rs.Namespace, rs.Name)] = *rs.Spec.Replicas
	}
	for _, k := range sortedKeys(first.Sets) {
		after := second.Sets[k]
		if after == nil { // deleted: it had no pods
			continue
		}
		a, b, c := before[k], *first.Sets[k].Spec.Replicas, *after.Spec.Replicas
		if d := sign(b - a); d != 0 && d == -sign(c-b) {
			return fmt.Sprintf("%s: %d, %d, %d", k, a, b, c)
		}
	}
	return ""
}

// essence describes the parts of a set that must be equal on both sides after settled plans.
func essence(rs *appsv1.ReplicaSet) string {
	if rs == nil {
		return "gone"
	}
	return dump(map[string]any{
		"replicas": rs.Spec.Replicas, "minReadySeconds": rs.Spec.MinReadySeconds, "annotations": rs.Annotations,
		"labels": rs.Labels, "owners": rs.OwnerReferences, "template": rs.Spec.Template,
	})
}

// repeat runs upstream until it makes no more writes, or until our look-ahead stops: after a pass that claims, that writes
// the owner's spec or that scales down under Recreate, and before one that would write the owner a second time.
//
// If a pass changes a size in the other direction than an earlier one, upstream continues from the world after the net
// change, because a plan writes only that. If the earlier pass also made claims, a plan only makes the claims, and the
// next plan makes the net change.
func (w *worker) repeat(world *World) *Result {
	now := world.DeepCopy()
	clamp(now.ReplicaSets)
	first := NewServer(world)
	last := first.result()
	last.Deployment = first.deployments[key(world.Deployment.Namespace, world.Deployment.Name)]
	start := map[string]*appsv1.ReplicaSet{}
	for _, rs := range now.ReplicaSets {
		start[key(rs.Namespace, rs.Name)] = rs
	}
	var writes []Write
	var attempts []*appsv1.ReplicaSet
	var refused []string
	for range 1024 {
		r := w.up.Pass(now, NewServer(now))
		attempts = append(attempts, r.Attempts...)
		refused = append(refused, r.Refused...)
		if len(r.Writes) > 0 && writesOwner(writes, "status") && writesOwner(r.Writes, "") {
			break
		}
		if slices.ContainsFunc(r.Writes, func(x Write) bool { return x.Claim }) {
			if then := next(now, r); reversedSize(now, r, w.repeat(then)) != "" {
				last.Sets = claimed(last.Sets, r.Sets)
				writes = slices.DeleteFunc(r.Writes, func(x Write) bool { return !x.Claim })
				break
			}
		}
		turned := turnedBy(start, now, r)
		writes = append(writes, r.Writes...)
		last = r
		if len(r.Writes) == 0 || lookAheadEnds(now, r) {
			break
		}
		now = next(now, r)
		for _, rs := range now.ReplicaSets {
			if k := key(rs.Namespace, rs.Name); turned[k] {
				leaveNetChange(start[k], rs)
			}
		}
	}
	out := *last
	out.Writes, out.Attempts, out.Refused = writes, attempts, refused
	out.Status = &out.Deployment.Status
	return &out
}

// claimed returns the sets with the owners after a pass, but without its other changes.
func claimed(before, after map[string]*appsv1.ReplicaSet) map[string]*appsv1.ReplicaSet {
	out := map[string]*appsv1.ReplicaSet{}
	for k, rs := range before {
		out[k] = rs.DeepCopy()
		if after[k] != nil {
			out[k].OwnerReferences = after[k].OwnerReferences
		}
	}
	return out
}

// turnedBy returns the sets that a pass scales in the other direction than all earlier passes together.
func turnedBy(start map[string]*appsv1.ReplicaSet, now *World, r *Result) map[string]bool {
	turned := map[string]bool{}
	for _, before := range now.ReplicaSets {
		k := key(before.Namespace, before.Name)
		first, after := start[k], r.Sets[k]
		if first == nil || after == nil {
			continue
		}
		soFar := sign(*before.Spec.Replicas - *first.Spec.Replicas)
		turned[k] = soFar != 0 && soFar == -sign(*after.Spec.Replicas-*before.Spec.Replicas)
	}
	return turned
}

// leaveNetChange corrects a set whose size changed in two directions. A plan writes a set that goes from 7 to 4 and back to 6
// once: it removes one pod, not three, and its generation increases once.
func leaveNetChange(first, rs *appsv1.ReplicaSet) {
	rs.Status.AvailableReplicas = min(first.Status.AvailableReplicas, *rs.Spec.Replicas)
	rs.Generation = first.Generation
	if *rs.Spec.Replicas != *first.Spec.Replicas || rs.Spec.MinReadySeconds != first.Spec.MinReadySeconds {
		rs.Generation++
	}
}

// writesOwner reports whether the writes include the Deployment, which a plan writes at most once.
func writesOwner(writes []Write, subresource string) bool {
	return slices.ContainsFunc(writes, func(w Write) bool {
		return w.Kind == "Deployment" && w.Subresource == subresource
	})
}

// adoptedAndDeleted reports whether upstream deletes a set in the pass that adopts it. A plan writes an object once, so the
// next plan deletes it.
func adoptedAndDeleted(writes []Write, set string) bool {
	did := func(what func(Write) bool) bool {
		return slices.ContainsFunc(writes, func(w Write) bool { return key(w.Namespace, w.Name) == set && what(w) })
	}
	return did(func(w Write) bool { return w.Claim }) && did(func(w Write) bool { return w.Op == "delete" })
}

// completeAsObserved reports whether enough pods are available only if the pods beyond the sizes of their sets count as well.
// Like upstream, a plan publishes the observed counts and cleans up if they are complete. But here, upstream runs with
// clamped counts.
func completeAsObserved(w *World) bool {
	wanted, observed, clamped := *w.Deployment.Spec.Replicas, int32(0), int32(0)
	for _, rs := range owned(w) {
		observed += rs.Status.AvailableReplicas
		clamped += min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
	return observed == wanted && clamped < wanted
}

func sign(n int32) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func lookAheadEnds(w *World, r *Result) bool {
	for _, x := range r.Writes {
		if x.Claim || x.Kind == "Deployment" && x.Subresource == "" {
			return true
		}
		if w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && x.Op == "update" && x.Set != nil {
			for _, rs := range w.ReplicaSets {
				if rs.Name == x.Name && rs.Namespace == x.Namespace && *x.Set.Spec.Replicas < *rs.Spec.Replicas {
					return true
				}
			}
		}
	}
	return false
}

// next returns the world after a pass, at the same time: nothing but its writes has changed.
func next(w *World, r *Result) *World {
	out := *w
	out.Deployment = r.Deployment.DeepCopy()
	fix := func(t *metav1.Time) {
		if !t.Time.Before(r.NowFrom) && !t.Time.After(r.NowTo) {
			*t = metav1.NewTime(w.Now.Truncate(time.Second))
		}
	}
	for i := range out.Deployment.Status.Conditions {
		fix(&out.Deployment.Status.Conditions[i].LastUpdateTime)
		fix(&out.Deployment.Status.Conditions[i].LastTransitionTime)
	}
	out.ReplicaSets = nil
	for _, k := range sortedKeys(r.Sets) {
		out.ReplicaSets = append(out.ReplicaSets, r.Sets[k].DeepCopy())
	}
	clamp(out.ReplicaSets)
	return &out
}

// clamp limits the available pods of each set to its size, because the decisions of a settled plan use this minimum. It
// applies to the input and after every pass.
func clamp(sets []*appsv1.ReplicaSet) {
	for _, rs := range sets {
		rs.Status.AvailableReplicas = min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
}

// settle carries out one plan with HORIZON_SETTLED.
func (o *Ours) settle(w *World) (*Result, error) {
	r, failure, err := o.carryOut(w, "HORIZON_SETTLED", nil)
	if err != nil {
		return nil, err
	}
	if failure != nil && r.Err == nil {
		r.Err = fmt.Errorf("rejected create: %s", failure.Body)
	}
	return r, nil
}
