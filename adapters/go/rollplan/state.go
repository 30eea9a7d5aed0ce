package rollplan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// state is what is kept of a Deployment between syncs.
type state struct {
	owner types.UID
	// value is the planner's own state, of the last response.
	value []byte
	// answers are the answers to the calls and reads of the last response.
	answers []*rollplanv1.Answer
	// versions are those of the objects in the last request. They are nil if the next sync must plan in any case.
	versions versions
	// due is when to plan again even if nothing has changed, or zero.
	due time.Time
	// watchesPods is whether requests need the pods.
	watchesPods bool
}

// versions maps the UIDs of objects to their resourceVersions.
type versions map[types.UID]string

// isUnchanged reports whether no plan is needed.
func (s *state) isUnchanged(observed *observation, now time.Time) bool {
	return len(s.answers) == 0 && maps.Equal(s.versions, observed.versions) && (s.due.IsZero() || now.Before(s.due))
}

// untilDue returns the time until the next plan is due, or zero if no timer is needed.
func (s *state) untilDue() time.Duration {
	if s.due.IsZero() {
		return 0
	}
	return max(time.Until(s.due), 1)
}
