package rollplan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// observation is the state of a Deployment that one plan is made from.
type observation struct {
	owner    *Object
	snapshot *rollplanv1.Snapshot
	// versions are the versions of all objects in the snapshot.
	versions versions
}

// Snapshot reads a Deployment and its objects into the snapshot of a request. It returns nil if the Deployment does not
// exist.
func (r *Rollouts) Snapshot(ctx context.Context, key types.NamespacedName) (*rollplanv1.Snapshot, error) {
	s := r.lock(key)
	defer s.mu.Unlock()
	observed, err := r.observe(ctx, key, s, false)
	if err != nil || observed == nil {
		return nil, err
	}
	return observed.snapshot, nil
}

// nativeSnapshot is like Snapshot, but with the pods, and also for a Deployment that the native controller manages.
func (r *Rollouts) nativeSnapshot(ctx context.Context, key types.NamespacedName) (*rollplanv1.Snapshot, error) {
	s := r.lock(key)
	defer s.mu.Unlock()
	observed, err := r.observe(ctx, key, s, true)
	if err != nil || observed == nil {
		return nil, err
	}
	return observed.snapshot, nil
}

// observe reads a Deployment, its ReplicaSets and, if needed, their pods. It returns nil if the Deployment does not
// exist. Forecasts and canaries need the pods, and may be about a Deployment of the native controller.
func (r *Rollouts) observe(ctx context.Context, key types.NamespacedName, s *state, native bool) (*observation, error) {
	owner, err := r.Reader.Get(ctx, r.Kind, key)
	if apierrors.IsNotFound(err) {
		r.forget(key, s)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s.resetIfReplaced(owner.UID)
	now := time.Now()
	if err := s.native.check(owner, now); err != nil && !native {
		s.verified = false
		if r.Recorder != nil {
			r.Recorder.Event(owner, "Warning", "NativeController", err.Error())
		}
		return nil, err
	}
	if owner = s.latest(owner); owner == nil {
		return nil, nil
	}
	sets, err := r.replicaSets(ctx, owner)
	if err != nil {
		return nil, err
	}
	sets = s.overlayWrites(ReplicaSet.Kind, sets, now)
	s.dropsTerminating = s.dropsTerminating && !slices.ContainsFunc(sets, func(set *Object) bool {
		return set.field(terminatingReplicas).Exists()
	})

	o := &observation{owner: owner, versions: versions{}, snapshot: &rollplanv1.Snapshot{
		Now: timestamppb.New(now), ReplicaSetsComplete: true, Answers: s.answers,
		Target: &rollplanv1.Target{ApiVersion: owner.APIVersion, Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name},
	}}
	o.add(owner)
	o.add(sets...)
	if native || r.AllPods || IsRecreate(owner) {
		uids := make([]types.UID, 0, len(sets))
		for _, set := range sets {
			uids = append(uids, set.UID)
		}
		pods, err := r.Reader.ControlledBy(ctx, Pod, owner.Namespace, uids...)
		if err != nil {
			return nil, err
		}
		o.add(pods...)
		o.snapshot.PodsComplete = true
	}
	return o, nil
}

func (o *observation) add(objects ...*Object) {
	for _, object := range objects {
		o.snapshot.Objects = append(o.snapshot.Objects, object.JSON)
		o.versions[object.UID] = object.ResourceVersion
	}
}

// replicaSets lists the ReplicaSets that the Deployment controls, and the orphans that it may adopt.
func (r *Rollouts) replicaSets(ctx context.Context, owner *Object) ([]*Object, error) {
	sets, err := r.Reader.ControlledBy(ctx, ReplicaSet, owner.Namespace, owner.UID, NoController)
	if err != nil {
		return nil, err
	}
	found := make([]*Object, 0, len(sets)+1)
	for _, set := range sets {
		if controllerOf(set) != NoController || Selects(owner, set) {
			found = append(found, set)
		}
	}
	return found, nil
}
