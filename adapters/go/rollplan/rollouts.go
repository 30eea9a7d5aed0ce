package rollplan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Kinds that can be rolled out. Any other with the spec and status of a Deployment can be, too.
var (
	// Deployment is Kubernetes' own. Its own controller must be off.
	Deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	// PlannedDeployment is the custom resource that goes beside Kubernetes' own controller.
	PlannedDeployment = schema.GroupVersionKind{Group: "apps.rollplan.dev", Version: "v1alpha1", Kind: "PlannedDeployment"}
)

// ReplicaSet is the kind that rollouts consist of.
var ReplicaSet = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

// Rollouts looks at Deployments of one kind, asks for plans and carries them out. Methods may be called at the same
// time; calls for one key wait for each other.
type Rollouts struct {
	// Kind of the owners: [Deployment], [PlannedDeployment] or another one.
	Kind schema.GroupVersionKind
	// Planner is asked for plans, as by a [Client].
	Planner rollplanv1.RolloutPlannerClient
	// Reader is a cache, or the API server itself. Its scheme must know pods; all else is read unstructured.
	Reader client.Reader
	// Writer makes the calls. Its reads must not come from a cache.
	Writer client.Client
	// Recorder records events on the owners. None are recorded without it.
	Recorder record.EventRecorder
	// Options go with each request.
	Options *rollplanv1.PlanOptions
	// AllPods sends the pods of every Deployment, so that reports name them. Otherwise they are sent for Recreate
	// only, which decides by them.
	AllPods bool
	// StatusInterval is how long a status waits that only tells how far a rollout has come, so that one write tells of
	// all that happens within it. Sync then asks to look again. What ends a rollout, one way or the other, is written
	// at once, and so is what comes with another write. Zero: nothing waits.
	StatusInterval time.Duration

	indexed bool
	mu      sync.Mutex
	states  map[types.NamespacedName]*state
}

// Result is what came of a look at one Deployment.
type Result struct {
	// Response is the plan. Nil if the Deployment is gone.
	Response *rollplanv1.PlanRolloutResponse
	// RequeueAfter is when to look again even if nothing changes. Zero: no timer.
	RequeueAfter time.Duration
	// Retry asks for another look, with a rate limit that must not be reset before a result without it.
	Retry bool
}

// Sync looks at a Deployment, asks for a plan and carries it out. An error says that the service did not answer, or
// that the API server refused a call; then look again, with a rate limit.
func (r *Rollouts) Sync(ctx context.Context, key types.NamespacedName) (Result, error) {
	s := r.state(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, response, err := r.lookAndPlan(ctx, key, s)
	if err != nil || seen == nil {
		return Result{}, err
	}
	if !s.confirmed && writesReplicaSets(response) {
		news, err := r.confirm(ctx, seen.owner, s)
		if err != nil {
			return Result{}, err
		}
		if news {
			if seen, response, err = r.lookAndPlan(ctx, key, s); err != nil || seen == nil {
				return Result{}, err
			}
		}
	}
	if wait := s.putOff(response, r.StatusInterval, time.Now()); wait > 0 {
		return Result{Response: response, RequeueAfter: wait}, nil
	}
	result := Result{
		Response:     response,
		RequeueAfter: response.GetRequeueAfter().AsDuration(),
		// What was refused has been told, and is tried again by the plan after this one.
		Retry: len(s.failures) > 0,
	}
	s.failures = nil
	var refused []error
	for _, failed := range r.carryOut(ctx, seen.owner, response.GetSteps(), s) {
		result.Retry = true
		if failed.Stale() {
			continue
		}
		refused = append(refused, failed)
		s.failures = append(s.failures, r.report(ctx, failed))
	}
	return result, errors.Join(refused...)
}

// lookAndPlan returns nil if the Deployment is gone.
func (r *Rollouts) lookAndPlan(ctx context.Context, key types.NamespacedName, s *state) (*seen, *rollplanv1.PlanRolloutResponse, error) {
	seen, err := r.look(ctx, key, s)
	if err != nil || seen == nil {
		return nil, nil, err
	}
	response, err := r.Planner.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{Snapshot: seen.snapshot, Options: r.Options})
	if err != nil {
		return nil, nil, fmt.Errorf("plan rollout: %w", err)
	}
	return seen, response, nil
}

// Plan looks at a Deployment and asks for a plan, and does no more. It returns nil if there is no such Deployment.
func (r *Rollouts) Plan(ctx context.Context, key types.NamespacedName) (*rollplanv1.PlanRolloutResponse, error) {
	snapshot, err := r.Snapshot(ctx, key)
	if err != nil || snapshot == nil {
		return nil, err
	}
	return r.Planner.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{Snapshot: snapshot, Options: r.Options})
}

// ErrStalled is the end of a rollout that will not go on by itself.
var ErrStalled = errors.New("the rollout is stalled")

// Wait looks again and again until the rollout is complete, and returns the last report. It ends with [ErrStalled]
// when the rollout is stalled or refused, and with the context's error when that ends first.
func (r *Rollouts) Wait(ctx context.Context, key types.NamespacedName, interval time.Duration) (*rollplanv1.RolloutReport, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		snapshot, err := r.Snapshot(ctx, key)
		if err != nil {
			return nil, err
		}
		if snapshot == nil {
			return nil, fmt.Errorf("there is no %s %s", r.Kind.Kind, key)
		}
		response, err := r.Planner.ComputeStatus(ctx, &rollplanv1.ComputeStatusRequest{Snapshot: snapshot, Options: r.Options})
		if err != nil {
			return nil, fmt.Errorf("compute status: %w", err)
		}
		switch report := response.GetReport(); report.GetPhase() {
		case rollplanv1.Phase_PHASE_COMPLETE:
			return report, nil
		case rollplanv1.Phase_PHASE_STALLED, rollplanv1.Phase_PHASE_REFUSED:
			return report, fmt.Errorf("%w: %s", ErrStalled, report.GetMessage())
		}
		select {
		case <-ctx.Done():
			return response.GetReport(), ctx.Err()
		case <-tick.C:
		}
	}
}

// Forget drops what is remembered of a Deployment. Sync does so by itself when the Deployment is gone.
func (r *Rollouts) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, key)
}

func (r *Rollouts) state(key types.NamespacedName) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.states == nil {
		r.states = map[types.NamespacedName]*state{}
	}
	if r.states[key] == nil {
		r.states[key] = newState()
	}
	return r.states[key]
}

// IndexOwners prepares a cache for reading ReplicaSets and pods by their controller. Call it before the cache starts,
// and only if Reader is that cache.
func (r *Rollouts) IndexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range []client.Object{object(ReplicaSet), &corev1.Pod{}} {
		err := indexer.IndexField(ctx, kind, controllerField, func(object client.Object) []string {
			if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
				return []string{string(owner.UID)}
			}
			return []string{noController}
		})
		if err != nil {
			return fmt.Errorf("index by controller: %w", err)
		}
	}
	r.indexed = true
	return nil
}
