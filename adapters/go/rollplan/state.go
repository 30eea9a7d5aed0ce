package rollplan

import (
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
	// owner is whose state this is: another Deployment may get the name.
	owner types.UID
	// written are objects as our own writes left them, until the cache has caught up. Without them a late watch would
	// have the planner order what it has just ordered.
	written map[types.UID]write
	// converted are the messages of the last snapshot: making them costs more than the plan.
	converted map[types.UID]conversion
	// confirmed is the generation for which the ReplicaSets were read from the API server itself.
	confirmed int64
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

type conversion struct {
	version string
	message proto.Message
}

func newState() *state {
	return &state{written: map[types.UID]write{}}
}

// belongsTo forgets everything about another Deployment that had the name before.
func (s *state) belongsTo(owner types.UID) {
	if s.owner != owner {
		s.owner, s.written, s.converted, s.failures, s.native, s.confirmed = owner, map[types.UID]write{}, nil, nil, nativeWatch{}, 0
	}
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
				s.confirmed = 0
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

// convert makes the message of an object, or takes the one it made of the same version before.
func convert[T proto.Message](from, to map[types.UID]conversion, object *unstructured.Unstructured, message T) (T, error) {
	uid, version := object.GetUID(), object.GetResourceVersion()
	if known, ok := from[uid]; ok && known.version == version {
		if same, ok := known.message.(T); ok {
			to[uid] = known
			return same, nil
		}
	}
	content := maps.Clone(object.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		// The largest part of many objects, and nothing that the service reads.
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	text, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
	if err != nil {
		return message, err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, message); err != nil {
		return message, err
	}
	to[uid] = conversion{version: version, message: message}
	return message, nil
}
