package rollplan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// verifyReplicaSets lists the ReplicaSets of a Deployment from the API server instead of the cache. It records the
// current versions and reports whether the last snapshot was outdated.
//
// The watches of different kinds lag independently. After an API server restart, or when a standby replica becomes the
// leader, the cache may show the newest template together with old sizes. Each write has a precondition on the object
// that it changes, but no precondition covers the sizes of the other ReplicaSets, which limit how far it may grow.
//
// Only this adapter changes sizes, and its own writes are recorded until the cache shows them. One list before the
// first write is therefore enough to see what a previous leader wrote. It is repeated after a call whose outcome is not
// as planned, if a created object does not appear in the cache, and after the native Deployment controller was active.
//
// It also returns the ReplicaSets of other controllers that the selector of a custom resource matches. No cache is indexed by
// labels, and the planner needs them only before the first write: it refuses a custom resource that would run the pods of a
// Deployment a second time.
func (r *Rollouts) verifyReplicaSets(ctx context.Context, observed *observation, s *state) (outdated bool, others []*Object, err error) {
	owner := observed.owner
	selector, err := selectorOf(owner)
	if err != nil {
		return false, nil, fmt.Errorf("selector of %s: %w", owner.Name, err)
	}
	list, err := r.API.List(ctx, ReplicaSet, owner.Namespace, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return false, nil, fmt.Errorf("list ReplicaSets of %s: %w", owner.Name, err)
	}
	for _, set := range list.Items {
		if controller := controllerOf(set); controller == NoController || controller == owner.UID {
			outdated = s.recordRead(set, observed.versions) || outdated
		} else if r.Kind != Deployment {
			others = append(others, set)
		}
	}
	s.verified = true
	return outdated, others, nil
}

// writesReplicaSets reports whether a plan writes ReplicaSets, which is only safe if the sizes in its snapshot are current.
func writesReplicaSets(plan *rollplanv1.PlanRolloutResponse) bool {
	for _, step := range plan.GetSteps() {
		if step.GetCall().GetKind() == ReplicaSet.Kind {
			return true
		}
	}
	return false
}
