package adapter

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestServiceDies kills the service during rollouts of a single adapter, which must continue them when it runs again.
func TestServiceDies(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 20*time.Minute)
	s := start(ctx, t, controlplane.Options{}, Takeover)
	f := newFleet(ctx, t, s)
	sets := watchReplicaSets(ctx, t, s, f.namespace)
	f.settle(ctx, t, 1)
	const versions = 4
	for version := 2; version <= versions; version++ {
		f.setImage(ctx, t, version)
		await(ctx, t, "a rollout to start", func(ctx context.Context) error {
			for i := range fleetSize {
				if d, err := f.get(ctx, f.name(i)); err != nil || d.Status.UpdatedReplicas > 0 && d.Status.ObservedGeneration == d.Generation {
					return err
				}
			}
			return errors.New("no Deployment has an updated pod")
		})
		f.Service().Kill()
		f.run(ctx, t, "annotate", "deployments", "--all", "--overwrite", "version="+f.image(0, version))
		if err := f.StartService(); err != nil {
			t.Fatal(err)
		}
		f.settle(ctx, t, version)
	}
	f.checkSizes(t, sets)
	f.checkFinalState(ctx, t, versions)
	// A framework must not leave anything in the object: the planner copies annotations to ReplicaSets.
	for i := range fleetSize {
		d, err := f.get(ctx, f.name(i))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Annotations) != 2 || len(d.Finalizers) > 0 {
			t.Errorf("%s has annotations %v and finalizers %v", d.Name, d.Annotations, d.Finalizers)
		}
	}
}
