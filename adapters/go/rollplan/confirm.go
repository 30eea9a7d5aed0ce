package rollplan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// confirm reads the ReplicaSets of a Deployment from the API server itself, and says whether the cache was behind.
//
// A cache has a watch for each kind, and they lag independently: after an API server has gone, or when a copy that was
// waiting takes over, it may show the newest template beside sizes from long ago. Each write tests the object that it
// changes. But how large a ReplicaSet may grow depends on the sizes of the others, and nothing tests those.
//
// Sizes change by our own writes, which are remembered until the cache shows them. So there is to read once before the
// first of them, what another copy wrote before us; and again after a call whose outcome is not what was planned, after
// a created object did not show up, and after Kubernetes' own controller has been at work.
func (r *Rollouts) confirm(ctx context.Context, owner *unstructured.Unstructured, s *state) (news bool, err error) {
	selector, err := selectorOf(owner)
	if err != nil {
		return false, fmt.Errorf("selector of %s: %w", owner.GetName(), err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(ReplicaSet.GroupVersion().WithKind(ReplicaSet.Kind + "List"))
	err = r.Writer.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return false, fmt.Errorf("list ReplicaSets of %s: %w", owner.GetName(), err)
	}
	for i := range list.Items {
		set := &list.Items[i]
		if controller := metav1.GetControllerOfNoCopy(set); controller == nil || controller.UID == owner.GetUID() {
			news = s.learn(set) || news
		}
	}
	s.confirmed = true
	return news, nil
}

// writesReplicaSets says whether a plan changes what its own snapshot of the ReplicaSets must be right for.
func writesReplicaSets(plan *rollplanv1.PlanRolloutResponse) bool {
	for _, step := range plan.GetSteps() {
		if step.GetCall().GetKind() == ReplicaSet.Kind {
			return true
		}
	}
	return false
}
