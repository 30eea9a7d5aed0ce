package rollplan

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// observation is what the [Reader] shows of a Deployment.
type observation struct {
	owner *Object
	// sets are the UIDs of the ReplicaSets.
	sets     []types.UID
	snapshot *rollplanv1.Snapshot
	// versions are the versions of all objects in the snapshot.
	versions versions
}

// Snapshot reads a Deployment and its objects, with the pods, into the snapshot of a request. It returns nil if the Deployment
// does not exist.
func (r *Rollouts) Snapshot(ctx context.Context, key types.NamespacedName) (*rollplanv1.Snapshot, error) {
	observed, err := r.observe(ctx, key)
	if err != nil || observed == nil {
		return nil, err
	}
	return observed.snapshot, r.addPods(ctx, observed)
}

// observe reads a Deployment, the ReplicaSets that it controls, and those without a controller: the planner selects the ones
// that it may adopt. It returns nil if the Deployment does not exist.
func (r *Rollouts) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	owner, err := r.Reader.Get(ctx, r.Kind, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	sets, err := r.Reader.ControlledBy(ctx, ReplicaSet, owner.Namespace, owner.UID, NoController)
	if err != nil {
		return nil, err
	}
	o := &observation{owner: owner, versions: versions{}, snapshot: &rollplanv1.Snapshot{
		Now: timestamppb.Now(), ReplicaSetsComplete: true,
		Target: &rollplanv1.Target{ApiVersion: owner.APIVersion, Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name},
	}}
	o.add(owner)
	o.add(sets...)
	for _, set := range sets {
		o.sets = append(o.sets, set.UID)
	}
	return o, nil
}

// addPods adds the pods of the ReplicaSets.
func (r *Rollouts) addPods(ctx context.Context, o *observation) error {
	pods, err := r.Reader.ControlledBy(ctx, Pod, o.owner.Namespace, o.sets...)
	if err != nil {
		return err
	}
	o.add(pods...)
	o.snapshot.PodsComplete = true
	return nil
}

func (o *observation) add(objects ...*Object) {
	for _, object := range objects {
		o.snapshot.Objects = append(o.snapshot.Objects, object.JSON)
		o.versions[object.UID] = object.ResourceVersion
	}
}

// isOwner reports whether a call reads the Deployment.
func (o *observation) isOwner(call *rollplanv1.ApiCall) bool {
	return call.GetApiVersion() == o.owner.APIVersion && call.GetKind() == o.owner.Kind && call.GetName() == o.owner.Name
}
