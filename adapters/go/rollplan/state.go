package rollplan

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// createdSeenWithin bounds how long a created object is believed to exist although the cache does not show it. It may
// have been deleted while the watch was broken, and then no cache ever shows it.
const createdSeenWithin = time.Minute

// state is what is remembered of one Deployment from one look to the next.
type state struct {
	mu sync.Mutex
	memory
}

// memory is forgotten when another Deployment gets the name.
type memory struct {
	// owner is whose state this is.
	owner types.UID
	// written are objects as our own writes left them, until the cache has caught up. Without them a late watch would
	// have the planner order what it has just ordered.
	written map[types.UID]write
	// converted are the messages of the last snapshot: making them costs more than the plan.
	converted map[types.UID]conversion
	// confirmed says that nothing is missing of what was written of the ReplicaSets, by whomever.
	confirmed bool
	// waiting is since when there is a status that has been put off. Zero: there is none.
	waiting time.Time
	// failures are what the API server refused of the last plan.
	failures []*rollplanv1.StepFailure
	native   nativeWatch
}

type write struct {
	object *unstructured.Unstructured
	// created is set until the cache shows the object.
	created bool
	deleted bool
	at      time.Time
}

func newState() *state {
	return &state{memory: memory{written: map[types.UID]write{}}}
}

// belongsTo forgets everything about another Deployment that had the name before.
func (s *state) belongsTo(owner types.UID) {
	if s.owner != owner {
		s.memory = memory{owner: owner, written: map[types.UID]write{}}
	}
}

// putOff is how long a plan is still to wait that does no more than tell how far a rollout has come. Zero: not at all.
func (s *state) putOff(plan *rollplanv1.PlanRolloutResponse, interval time.Duration, now time.Time) time.Duration {
	steps := plan.GetSteps()
	progress := plan.GetReport().GetPhase() == rollplanv1.Phase_PHASE_PROGRESSING &&
		len(steps) == 1 && steps[0].GetUpdateDeploymentStatus() != nil && len(steps[0].GetEvents()) == 0
	if progress && len(s.failures) == 0 {
		if s.waiting.IsZero() {
			s.waiting = now
		}
		if wait := interval - now.Sub(s.waiting); wait > 0 {
			return wait
		}
	}
	s.waiting = time.Time{}
	return 0
}

// refuted forgets our own write to an object that the API server says does not exist.
func (s *state) refuted(call *rollplanv1.ApiCall, err error) {
	if !apierrors.IsNotFound(err) {
		return
	}
	for uid, own := range s.written {
		if own.object.GetKind() == call.GetKind() && own.object.GetName() == call.GetName() {
			delete(s.written, uid)
		}
	}
}

// wrote remembers what a write returned.
func (s *state) wrote(object *unstructured.Unstructured, verb rollplanv1.Verb, now time.Time) {
	before := s.written[object.GetUID()]
	s.written[object.GetUID()] = write{
		object:  object,
		created: before.created || verb == rollplanv1.Verb_VERB_CREATE,
		deleted: verb == rollplanv1.Verb_VERB_DELETE,
		at:      now,
	}
}

// learn remembers an object as the API server has it, and says whether the last snapshot had an older one or none.
func (s *state) learn(object *unstructured.Unstructured) bool {
	if s.converted[object.GetUID()].version == object.GetResourceVersion() {
		return false
	}
	if own, ok := s.written[object.GetUID()]; !ok || older(own.object, object) {
		s.wrote(object, rollplanv1.Verb_VERB_CREATE, time.Now())
	}
	return true
}

// latest is the newer one of what the cache shows and what our own write returned; nil if we deleted it.
func (s *state) latest(cached *unstructured.Unstructured) *unstructured.Unstructured {
	own, ok := s.written[cached.GetUID()]
	switch {
	case !ok:
		return cached
	case own.deleted && cached.GetDeletionTimestamp() == nil:
		return nil
	case own.deleted || !older(cached, own.object):
		delete(s.written, cached.GetUID())
		return cached
	default:
		return own.object
	}
}

// overlay is what the cache shows of a kind of object, as it will be once it has caught up with our own writes.
func (s *state) overlay(kind string, cached []*unstructured.Unstructured, now time.Time) []*unstructured.Unstructured {
	shown := make(map[types.UID]bool, len(cached))
	objects := make([]*unstructured.Unstructured, 0, len(cached)+1)
	for _, object := range cached {
		shown[object.GetUID()] = true
		if object = s.latest(object); object != nil {
			objects = append(objects, object)
		}
	}
	for uid, own := range s.written {
		switch {
		case own.object.GetKind() != kind:
		case shown[uid]:
			own.created = false
			s.written[uid] = own
		case own.created && !own.deleted && now.Sub(own.at) < createdSeenWithin:
			objects = append(objects, own.object)
		default:
			// The cache has seen it go; or it has not come for so long that the API server must be asked again.
			delete(s.written, uid)
			if own.created {
				s.confirmed = false
			}
		}
	}
	return objects
}

// older says whether an object is an older version of another. Versions of one kind are comparable numbers since
// Kubernetes 1.35, and have been in every API server on etcd; where they are not, the cache is believed.
func older(a, b *unstructured.Unstructured) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
