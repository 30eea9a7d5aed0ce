package rollplan

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// maxCacheLag is how long a created object is assumed to exist although the cache does not show it. If it is deleted
// while the watch is interrupted, the cache never shows it.
const maxCacheLag = time.Minute

// state is the adapter's state of a Deployment between syncs.
type state struct {
	mu sync.Mutex
	// forgotten is true after the state has been discarded. A caller that then gets the mutex must use the new state.
	forgotten bool
	ownerState
}

// ownerState is discarded when a Deployment is deleted and another one is created with the same name.
type ownerState struct {
	ownerUID types.UID
	// writes holds the objects that our own writes returned until the cache shows them. Without it, a lagging watch
	// would make the planner repeat steps that were already carried out.
	writes map[types.UID]write
	// planned are the versions of the objects for which no other plan is needed until due. They are nil if the next sync
	// must plan in any case.
	planned versions
	// due is when to plan again even if nothing has changed, or zero.
	due time.Time
	// verified is true while the cache, together with writes, is known to have all changes of the ReplicaSets.
	verified bool
	// statusDelayedSince is when the first of the delayed status updates was due. It is zero if there is none.
	statusDelayedSince time.Time
	// answers are the answers to the failed calls of the last plan.
	answers []*rollplanv1.StepAnswer
	// rejected is whether one of the answers is a rejection.
	rejected bool
	// dropsTerminating is true once the API server has dropped status.terminatingReplicas from our own write, until a
	// ReplicaSet has this field.
	dropsTerminating bool
	native           nativeDetector
}

// versions maps the UIDs of objects to their resourceVersions.
type versions map[types.UID]string

type write struct {
	object *Object
	// created is true for a new object until the cache shows it.
	created bool
	deleted bool
	at      time.Time
}

func newState() *state {
	return &state{ownerState: ownerState{writes: map[types.UID]write{}}}
}

// resetIfReplaced discards the state if it belongs to an earlier Deployment of the same name.
func (s *state) resetIfReplaced(owner types.UID) {
	if s.ownerUID != owner {
		s.ownerState = ownerState{ownerUID: owner, writes: map[types.UID]write{}}
	}
}

// statusDelay returns how long to delay a plan that only reports the progress of a rollout in the status. It returns zero
// for any other plan.
func (s *state) statusDelay(plan *rollplanv1.PlanRolloutResponse, interval time.Duration, now time.Time) time.Duration {
	steps := plan.GetSteps()
	progressOnly := plan.GetReport().GetPhase() == rollplanv1.Phase_PHASE_PROGRESSING &&
		len(steps) == 1 && steps[0].GetUpdateDeploymentStatus() != nil && len(steps[0].GetEvents()) == 0
	if progressOnly && !s.rejected {
		if s.statusDelayedSince.IsZero() {
			s.statusDelayedSince = now
		}
		if delay := interval - now.Sub(s.statusDelayedSince); delay > 0 {
			return delay
		}
	}
	s.statusDelayedSince = time.Time{}
	return 0
}

// plan stores that the objects of an observation need no further plan before a delay has passed. Zero means no delay.
func (s *state) plan(observed *observation, delay time.Duration, now time.Time) {
	s.planned, s.due = observed.versions, time.Time{}
	if delay > 0 {
		s.due = now.Add(delay)
	}
}

// isPlanned reports whether nothing has changed since the last plan, and the time until the next one is due.
func (s *state) isPlanned(observed *observation, now time.Time) (wait time.Duration, planned bool) {
	if s.planned == nil || !maps.Equal(s.planned, observed.versions) {
		return 0, false
	}
	if s.due.IsZero() {
		return 0, true
	}
	wait = s.due.Sub(now)
	return wait, wait > 0
}

// forgetMissing drops our own write to an object that, according to the API server, does not exist.
func (s *state) forgetMissing(call *rollplanv1.ApiCall, answer Answer) {
	if answer.Code != http.StatusNotFound {
		return
	}
	for uid, own := range s.writes {
		if own.object.Kind == call.GetKind() && own.object.Name == call.GetName() {
			delete(s.writes, uid)
		}
	}
}

// recordWrite stores the object that a write returned.
func (s *state) recordWrite(object *Object, verb rollplanv1.Verb, now time.Time) {
	before := s.writes[object.UID]
	s.writes[object.UID] = write{
		object:  object,
		created: before.created || verb == rollplanv1.Verb_VERB_CREATE,
		deleted: verb == rollplanv1.Verb_VERB_DELETE,
		at:      now,
	}
}

// recordRead stores an object that was read from the API server, and reports whether the last snapshot lacked it or had
// another version of it.
func (s *state) recordRead(object *Object, snapshot versions) bool {
	if snapshot[object.UID] == object.ResourceVersion {
		return false
	}
	if own, ok := s.writes[object.UID]; !ok || isOlder(own.object, object) {
		s.recordWrite(object, rollplanv1.Verb_VERB_CREATE, time.Now())
	}
	return true
}

// latest returns the newer of the cached object and the result of our own write, or nil if we have deleted the object.
func (s *state) latest(cached *Object) *Object {
	own, ok := s.writes[cached.UID]
	switch {
	case !ok:
		return cached
	case own.deleted && cached.DeletionTimestamp == nil:
		return nil
	case own.deleted || !isOlder(cached, own.object):
		delete(s.writes, cached.UID)
		return cached
	default:
		return own.object
	}
}

// overlayWrites applies the adapter's own writes to the cached objects of a kind: it returns the objects that the cache will
// contain after it has caught up.
func (s *state) overlayWrites(kind string, cached []*Object, now time.Time) []*Object {
	shown := make(map[types.UID]bool, len(cached))
	objects := make([]*Object, 0, len(cached)+1)
	for _, object := range cached {
		shown[object.UID] = true
		if object = s.latest(object); object != nil {
			objects = append(objects, object)
		}
	}
	for uid, own := range s.writes {
		switch {
		case own.object.Kind != kind:
		case shown[uid]:
			own.created = false
			s.writes[uid] = own
		case own.created && !own.deleted && now.Sub(own.at) < maxCacheLag:
			objects = append(objects, own.object)
		default:
			// Either the cache has seen the deletion, or a created object is overdue and must be verified.
			delete(s.writes, uid)
			if own.created {
				s.verified = false
			}
		}
	}
	return objects
}

// isOlder reports whether a is an older version of an object than b. Kubernetes 1.35 and later guarantee that the
// resourceVersions of a kind can be compared, and every API server on etcd allows it. Otherwise the cached version wins.
func isOlder(a, b *Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}
