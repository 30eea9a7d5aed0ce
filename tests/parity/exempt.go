package main

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// Exemption is a deliberate difference (docs/contributors/parity.md). It excuses a difference only in a world to which it applies. These
// worlds are counted by name; in most of them, both sides are equal nevertheless.
type Exemption struct {
	Name    string
	Reason  string
	Settled bool // only where HORIZON_SETTLED is compared
	Before  int  // only with minor versions of Kubernetes before this one, unless 0
	Applies func(w *World) bool
}

var exemptions = []Exemption{
	{
		Name:   "recreate-pods-by-selector",
		Before: 36,
		Reason: "Recreate waits for the pods that the selector matches, by the UID of their controller (getPodMapForDeployment, deployment_controller.go); since 1.36 and ours, for those whose controller is a ReplicaSet with this name and UID",
		Applies: func(w *World) bool {
			selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
			if err != nil || w.Deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
				return false
			}
			for _, pod := range w.Pods {
				ref := metav1.GetControllerOfNoCopy(pod)
				if ref == nil || pod.Namespace != w.Deployment.Namespace {
					continue
				}
				for _, rs := range owned(w) {
					if ref.UID == rs.UID && (ref.Kind == "ReplicaSet" && ref.Name == rs.Name) != selector.Matches(labels.Set(pod.Labels)) {
						return true
					}
				}
			}
			return false
		},
	},
	{
		Name:   "long-name",
		Before: 34,
		Reason: "the name of the Deployment and the hash exceed 253 characters: the API server refuses the ReplicaSet; since 1.34 (generateReplicaSetName, sync.go) and ours, the name is truncated",
		Applies: func(w *World) bool {
			return len(w.Deployment.Name)+1+len(w.upstreamHash()) > validation.DNS1123SubdomainMaxLength
		},
	},
	{
		Name:   "overflow",
		Reason: "upstream multiplies a set's size by replicas + maxSurge in int32 (getReplicaSetFraction) and adds sizes in int32; ours does not wrap",
		Applies: func(w *World) bool {
			limit := int64(*w.Deployment.Spec.Replicas) + int64(util.MaxSurge(*w.Deployment))
			sum := int64(0)
			for _, rs := range owned(w) {
				n := int64(*rs.Spec.Replicas)
				sum += n
				if n*limit > math.MaxInt32 {
					return true
				}
			}
			return sum > math.MaxInt32 || limit > math.MaxInt32
		},
	},
	{
		Name:   "revision-overflow",
		Reason: "a set with the largest revision int64 can hold: upstream's next one wraps to the smallest, ours stays",
		Applies: func(w *World) bool {
			for _, rs := range owned(w) {
				if v, err := util.Revision(rs); err == nil && v == math.MaxInt64 {
					return true
				}
			}
			return false
		},
	},
	{
		Name:   "selector-overlap",
		Reason: "a custom resource without sets of its own, whose selector matches a set with pods that another Deployment controls: ours refuses to run these pods twice",
		Applies: func(w *World) bool {
			selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
			if err != nil || w.owner() == native {
				return false
			}
			overlaps := false
			for _, rs := range w.ReplicaSets {
				controller := metav1.GetControllerOfNoCopy(rs)
				if controller == nil || rs.Namespace != w.Deployment.Namespace {
					continue
				}
				if controller.UID == w.Deployment.UID {
					return false
				}
				overlaps = overlaps || controller.Kind == native.Kind && controller.APIVersion == native.APIVersion &&
					(rs.Spec.Replicas == nil || *rs.Spec.Replicas > 0) && selector.Matches(labels.Set(rs.Labels))
			}
			return overlaps
		},
	},
	{
		Name:   "recreate-lagging",
		Reason: "Recreate, and an old set whose controller has not seen its latest spec may still start pods: ours waits for it",
		Applies: func(w *World) bool {
			if w.Deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
				return false
			}
			newRS := util.FindNewReplicaSet(w.Deployment, owned(w))
			for _, rs := range owned(w) {
				if rs != newRS && rs.Status.ObservedGeneration < rs.Generation {
					return true
				}
			}
			return false
		},
	},
	{
		Name:   "recreate-pods-incomplete",
		Reason: "Recreate without the full list of pods: an empty list proves nothing, ours waits",
		Applies: func(w *World) bool {
			return w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && !w.PodsComplete
		},
	},
	{
		Name:   "paused-scaled-and-deleted",
		Reason: "paused: upstream scales the youngest old set up and deletes it in the same pass (history limit 0, or a limit that it exceeds when revisions do not follow age); ours never deletes what it scales up",
		Applies: func(w *World) bool {
			d := w.Deployment
			return d.Spec.Paused && d.Spec.RevisionHistoryLimit != nil && *d.Spec.RevisionHistoryLimit < int32(len(owned(w)))
		},
	},
	{
		Name:   "selector-never-matches",
		Reason: "the selector cannot match the template's labels plus the hash: upstream retries the same create forever, ours rejects it with a reason",
		Applies: func(w *World) bool {
			selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
			if err != nil {
				return true
			}
			l := labels.Set{}
			for k, v := range w.Deployment.Spec.Template.Labels {
				l[k] = v
			}
			l[hashLabel] = "6d4f8c9b7d"
			return !selector.Empty() && !selector.Matches(l)
		},
	},
	{
		Name:   "clean-up-order",
		Reason: "more than twelve old sets, and one whose revision is not a number: upstream's order is whatever its sort makes of a list in the order of a map; ours merges runs of twelve that are sorted by insertion, as upstream does with up to twelve",
		Applies: func(w *World) bool {
			sets, unnumbered := 0, false
			for _, rs := range owned(w) {
				if rs.DeletionTimestamp == nil {
					sets++
					_, err := util.Revision(rs)
					unnumbered = unnumbered || err != nil
				}
			}
			return sets > 12 && unnumbered
		},
	},
	{
		Name:    "stale-desired-replicas",
		Settled: true,
		Reason:  "the only active set, of the right size, or one of several under Recreate, has a desired-replicas that is not the Deployment's, and that is not paused: upstream takes it for a scaling event indefinitely; a settled plan of ours refreshes the annotation and goes on",
		Applies: func(w *World) bool {
			active, right := 0, false
			for _, rs := range owned(w) {
				if *rs.Spec.Replicas > 0 {
					active++
					right = right || *rs.Spec.Replicas == *w.Deployment.Spec.Replicas
				}
			}
			several := active > 1 && w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
			return !w.Deployment.Spec.Paused && staleDesiredReplicas(w) && (active == 1 && right || several)
		},
	},
	{
		Name:    "resized-old-set",
		Settled: true,
		Reason:  "the whole is to shrink, and an active set's max-replicas tells of a smaller whole than is allowed: upstream lets it grow, a settled plan of ours does not",
		Applies: func(w *World) bool {
			d := w.Deployment
			allowed, sum, small := int64(*d.Spec.Replicas)+int64(util.MaxSurge(*d)), int64(0), false
			for _, rs := range owned(w) {
				if *rs.Spec.Replicas == 0 {
					continue
				}
				sum += int64(*rs.Spec.Replicas)
				// Like upstream, accept no sign.
				before, err := strconv.ParseUint(rs.Annotations[util.MaxReplicasAnnotation], 10, 31)
				if err != nil || before == 0 { // upstream then uses the total in the status
					before = uint64(d.Status.Replicas)
				}
				small = small || int64(before) < allowed
			}
			return small && sum > allowed
		},
	},
	{
		Name:    "adopted-and-shared",
		Settled: true,
		Reason:  "what is allowed is shared out among several active sets, and one of them is adopted in the same sync: upstream resizes those before it, is refused that one as stale and stops; a settled plan of ours takes first and then gives, so that it stops at another one",
		Applies: func(w *World) bool {
			active, adopted := 0, false
			for _, rs := range owned(w) {
				if *rs.Spec.Replicas > 0 {
					active++
					adopted = adopted || metav1.GetControllerOf(rs) == nil
				}
			}
			return adopted && active > 1 && w.Deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType &&
				(w.Deployment.Spec.Paused || staleDesiredReplicas(w))
		},
	},
}

// staleDesiredReplicas reports whether upstream treats the annotation of an active set as a scaling event. Upstream does not
// check a paused Deployment.
func staleDesiredReplicas(w *World) bool {
	for _, rs := range owned(w) {
		v, ok := util.GetDesiredReplicasAnnotation(klog.FromContext(quiet), rs)
		if ok && v != *w.Deployment.Spec.Replicas && *rs.Spec.Replicas > 0 {
			return true
		}
	}
	return false
}

// owned returns the sets that upstream would claim, including orphans.
func owned(w *World) []*appsv1.ReplicaSet {
	selector, err := metav1.LabelSelectorAsSelector(w.Deployment.Spec.Selector)
	if err != nil {
		return nil
	}
	var out []*appsv1.ReplicaSet
	for _, rs := range w.ReplicaSets {
		ref := metav1.GetControllerOf(rs)
		if rs.Namespace == w.Deployment.Namespace && selector.Matches(labels.Set(rs.Labels)) && (ref == nil && rs.DeletionTimestamp == nil || ref != nil && ref.UID == w.Deployment.UID) {
			out = append(out, rs)
		}
	}
	return out
}

// exempt returns the name of the exemption that applies, or "".
func exempt(w *World, settled bool) string {
	for _, e := range exemptions {
		if (settled || !e.Settled) && (e.Before == 0 || minor < e.Before) && e.Applies(w) {
			return e.Name
		}
	}
	return ""
}
