package rollplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Kinds that [Rollouts] supports. Any other kind with the spec and status of a Deployment works too.
var (
	// Deployment is the apps/v1 Deployment. The Deployment controller of kube-controller-manager must be disabled.
	Deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	// PlannedDeployment is the custom resource that can be used next to the native Deployment controller.
	PlannedDeployment = schema.GroupVersionKind{Group: "apps.rollplan.dev", Version: "v1alpha1", Kind: "PlannedDeployment"}
)

// Kinds of the objects of a Deployment of any kind.
var (
	// ReplicaSet is the kind of the objects that it controls.
	ReplicaSet = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	// Pod is the kind of the objects that these control.
	Pod = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// Rollouts reads Deployments of one kind, requests plans for them and carries the plans out. Its methods are safe for
// concurrent use; calls for the same key are serialized.
type Rollouts struct {
	// Kind is the kind of the owners: [Deployment], [PlannedDeployment] or another kind with the same fields.
	Kind schema.GroupVersionKind
	// Planner makes the plans. Usually it is a [rollplan.dev/rollplan/adapters/go/planner.Client].
	Planner rollplanv1.RolloutPlannerClient
	// Reader reads the objects: a [Cache], or the API.
	Reader Reader
	// API makes the API calls of the plans, and the reads that no cache may answer.
	API *API
	// Recorder records events on the owners. If it is nil, no events are recorded.
	Recorder record.EventRecorder
	// Options are sent with each request. Plans have a report only if they request one.
	Options *rollplanv1.PlanOptions
	// AllPods includes the pods of every Deployment in its snapshot, so that reports can name them. By default only
	// Deployments with the Recreate strategy include them, because the planner needs them there.
	AllPods bool
	// StatusInterval delays a status update that only reports progress, so that one write covers all changes within
	// the interval. Sync then returns a RequeueAfter. A status that reports the end of a rollout, or accompanies
	// another write, is never delayed. Zero disables the delay. Otherwise Sync requests the report of each plan, which has
	// the phase of the rollout.
	StatusInterval time.Duration

	mu     sync.Mutex
	states map[types.NamespacedName]*state
}

// Result is the outcome of [Rollouts.Sync].
type Result struct {
	// Response is the plan. It is nil if the Deployment does not exist, or if no plan was needed.
	Response *rollplanv1.PlanRolloutResponse
	// Unchanged is true if no plan was needed, because nothing has changed since the last one, which made no calls.
	Unchanged bool
	// RequeueAfter is when to sync again even if nothing changes. Zero means that no timer is needed.
	RequeueAfter time.Duration
	// Retry requests another sync with backoff. The backoff must not be reset until a result without Retry.
	Retry bool
}

// Sync reads a Deployment, requests a plan and carries it out. After an error, which means that reading or planning
// failed, sync again with backoff. If the API server rejected calls, the error joins a [CallError] for each of them: sync
// again at once, so that the next plan reports the rejection; that one has Retry set and is where the backoff belongs.
//
// A call that is rejected because the namespace is being deleted is not an error, and no retry is requested: nothing can be
// created anymore.
func (r *Rollouts) Sync(ctx context.Context, key types.NamespacedName) (Result, error) {
	s := r.lock(key)
	defer s.mu.Unlock()
	observed, err := r.observe(ctx, key, s, false)
	if err != nil || observed == nil {
		return Result{}, err
	}
	if wait, planned := s.isPlanned(observed, time.Now()); planned {
		return Result{Unchanged: true, RequeueAfter: wait}, nil
	}
	s.planned = nil
	response, err := r.plan(ctx, observed, s)
	if err != nil {
		return Result{}, err
	}
	if !s.verified && writesReplicaSets(response) {
		outdated, others, err := r.verifyReplicaSets(ctx, observed, s)
		if err != nil {
			return Result{}, err
		}
		if outdated || len(others) > 0 {
			if observed, err = r.observe(ctx, key, s, false); err != nil || observed == nil {
				return Result{}, err
			}
			for _, other := range others {
				observed.snapshot.Objects = append(observed.snapshot.Objects, other.JSON)
			}
			if response, err = r.plan(ctx, observed, s); err != nil {
				return Result{}, err
			}
			// The next snapshot does not have the others. If they prevent all writes, they must be listed again.
			s.verified = len(others) == 0 || writesReplicaSets(response)
		}
	}
	if delay := s.statusDelay(response, r.StatusInterval, time.Now()); delay > 0 {
		s.plan(observed, delay, time.Now())
		return Result{Response: response, RequeueAfter: delay}, nil
	}
	return r.carryOut(ctx, observed, response, s)
}

// carryOut makes the calls of a plan.
func (r *Rollouts) carryOut(ctx context.Context, observed *observation, response *rollplanv1.PlanRolloutResponse, s *state) (Result, error) {
	result := Result{
		Response:     response,
		RequeueAfter: response.GetRequeueAfter().AsDuration(),
		// This plan reacts to the rejected calls; only the next one repeats them.
		Retry: s.rejected,
	}
	s.answers, s.rejected = nil, false
	var rejected []error
	failed := r.applySteps(ctx, observed.owner, response.GetSteps(), s)
	for _, failed := range failed {
		if failed.namespaceTerminating() {
			continue
		}
		result.Retry = true
		s.answers = append(s.answers, r.answer(ctx, failed))
		if failed.Rejected() {
			s.rejected = true
			rejected = append(rejected, failed)
		}
	}
	if !result.Retry && !makesCalls(response) {
		s.plan(observed, result.RequeueAfter, time.Now())
	}
	return result, errors.Join(rejected...)
}

// makesCalls reports whether a plan makes calls. The next plan may then make others, even if nothing but these calls changes
// anything: for example, a rollback follows the status that a resumed rollout begins with.
func makesCalls(plan *rollplanv1.PlanRolloutResponse) bool {
	return slices.ContainsFunc(plan.GetSteps(), func(step *rollplanv1.Step) bool { return step.GetCall() != nil })
}

func (r *Rollouts) plan(ctx context.Context, observed *observation, s *state) (*rollplanv1.PlanRolloutResponse, error) {
	response, err := r.Planner.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{Snapshot: observed.snapshot, Options: r.syncOptions(s)})
	if err != nil {
		return nil, fmt.Errorf("plan rollout: %w", err)
	}
	return response, nil
}

// syncOptions returns the options of the plans that are carried out.
func (r *Rollouts) syncOptions(s *state) *rollplanv1.PlanOptions {
	options := &rollplanv1.PlanOptions{Report: r.StatusInterval > 0}
	if s.dropsTerminating {
		options.TerminatingReplicas = new(bool)
	}
	proto.Merge(options, r.Options)
	return options
}

// Plan reads a Deployment and requests a plan without carrying it out. It returns nil if the Deployment does not exist.
func (r *Rollouts) Plan(ctx context.Context, key types.NamespacedName) (*rollplanv1.PlanRolloutResponse, error) {
	snapshot, err := r.Snapshot(ctx, key)
	if err != nil || snapshot == nil {
		return nil, err
	}
	return r.Planner.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{Snapshot: snapshot, Options: r.Options})
}

// Forecast reads a Deployment with its pods, and forecasts what the changes of the request will do, before they are
// applied. Without changes, it forecasts how the rollout in progress continues. The snapshot of the request is replaced,
// and its options are merged into Options. An apps/v1 Deployment may be managed by the native Deployment controller. Forecast
// returns nil if the Deployment does not exist.
func (r *Rollouts) Forecast(ctx context.Context, key types.NamespacedName, request *rollplanv1.ForecastRolloutRequest) (*rollplanv1.ForecastRolloutResponse, error) {
	snapshot, err := r.nativeSnapshot(ctx, key)
	if err != nil || snapshot == nil {
		return nil, err
	}
	forecast := &rollplanv1.ForecastRolloutRequest{Options: proto.CloneOf(r.Options)}
	proto.Merge(forecast, request)
	forecast.Snapshot = snapshot
	return r.Planner.ForecastRollout(ctx, forecast)
}

// PlanCanary reads a Deployment with its pods, and plans the next write of its canary, with the policy, the command and the verdicts
// of the request. Carry it out with Apply, and call PlanCanary again after each change and after the requeue_after of the response.
// Kind must be [Deployment], which the native Deployment controller manages. The snapshot of the request is replaced. PlanCanary
// returns nil if the Deployment does not exist.
func (r *Rollouts) PlanCanary(ctx context.Context, key types.NamespacedName, request *rollplanv1.PlanCanaryRequest) (*rollplanv1.PlanCanaryResponse, error) {
	snapshot, err := r.nativeSnapshot(ctx, key)
	if err != nil || snapshot == nil {
		return nil, err
	}
	canary := &rollplanv1.PlanCanaryRequest{}
	proto.Merge(canary, request)
	canary.Snapshot = snapshot
	return r.Planner.PlanCanary(ctx, canary)
}

// ErrStalled means that a rollout cannot continue without intervention.
var ErrStalled = errors.New("the rollout is stalled")

// Wait polls a Deployment until its rollout is complete and returns the last report. It returns [ErrStalled] if the
// rollout has failed: it certainly needs a change to complete, or its progress deadline has passed; and the error of the
// context if that ends first.
func (r *Rollouts) Wait(ctx context.Context, key types.NamespacedName, interval time.Duration) (*rollplanv1.RolloutReport, error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var verdict *rollplanv1.Verdict
	for {
		snapshot, err := r.Snapshot(ctx, key)
		if err != nil {
			return nil, err
		}
		if snapshot == nil {
			return nil, fmt.Errorf("%s %s not found", r.Kind.Kind, key)
		}
		response, err := r.Planner.ComputeStatus(ctx, &rollplanv1.ComputeStatusRequest{Snapshot: snapshot, Options: r.Options, PreviousVerdict: verdict})
		if err != nil {
			return nil, fmt.Errorf("compute status: %w", err)
		}
		report := response.GetReport()
		verdict = report.GetVerdict()
		if verdict.GetFinal() {
			if verdict.GetOutlook() == rollplanv1.Outlook_OUTLOOK_COMPLETE {
				return report, nil
			}
			return report, fmt.Errorf("%w: %s", ErrStalled, report.GetMessage())
		}
		select {
		case <-ctx.Done():
			return report, ctx.Err()
		case <-ticker.C:
		}
	}
}

// Forget discards the state of a Deployment. Sync does so itself when the Deployment no longer exists.
func (r *Rollouts) Forget(key types.NamespacedName) {
	s := r.lock(key)
	defer s.mu.Unlock()
	r.forget(key, s)
}

// forget discards a state whose mutex is held. Callers that wait for the mutex get a new state.
func (r *Rollouts) forget(key types.NamespacedName, s *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.forgotten = true
	delete(r.states, key)
}

// lock returns the state of a Deployment with its mutex held.
func (r *Rollouts) lock(key types.NamespacedName) *state {
	for {
		s := r.state(key)
		s.mu.Lock()
		if !s.forgotten {
			return s
		}
		s.mu.Unlock()
	}
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
