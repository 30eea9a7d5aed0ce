package rollplan

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
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
// concurrent use, but calls of Sync and Forget for the same key must not overlap. A work queue ensures that.
type Rollouts struct {
	// Kind is the kind of the owners: [Deployment], [PlannedDeployment] or another kind with the same fields.
	Kind schema.GroupVersionKind
	// Planner makes the plans. Usually it is a [rollplan.dev/rollplan/adapters/go/planner.Client].
	Planner rollplanv1.RolloutPlannerClient
	// Reader reads the objects: a [Cache], or the API.
	Reader Reader
	// API makes the calls of the plans, and the reads that no cache may answer.
	API *API
	// Recorder records events on the owners. If it is nil, no events are recorded.
	Recorder record.EventRecorder
	// Options are sent with each request. Plans have a report only if they request one.
	Options *rollplanv1.PlanOptions
	// Session is a random text for each leadership. If it is empty, the first Sync generates it: then discard the Rollouts with
	// the lease.
	Session string
	// StatusInterval is how long a status update that only reports progress may be delayed, so that one write covers all
	// changes within the interval. Zero disables the delay.
	StatusInterval time.Duration
	// MinInterval is the minimum time between two syncs of a Deployment, for [Result.NotBefore].
	MinInterval time.Duration

	mu     sync.Mutex
	states map[types.NamespacedName]*state
}

// Result is the outcome of [Rollouts.Sync].
type Result struct {
	// Response is the plan. It is nil if the Deployment does not exist, or if no plan was needed.
	Response *rollplanv1.PlanRolloutResponse
	// Unchanged is true if no plan was needed, because nothing has changed since the last one.
	Unchanged bool
	// Failed joins a [CallError] for each call that failed. The next sync reports them to the planner.
	Failed error
	// NotBefore is the earliest time of the next sync.
	NotBefore time.Time
	// RequeueAfter is when to sync again even if nothing changes. Zero means that no timer is needed.
	RequeueAfter time.Duration
}

// Sync reads a Deployment, requests a plan and carries it out: the loop in docs/guides/adapters.md. After an error, which means that
// reading or planning failed, or that the context has ended, sync again with a backoff.
func (r *Rollouts) Sync(ctx context.Context, key types.NamespacedName) (Result, error) {
	observed, err := r.observe(ctx, key)
	if err != nil {
		return Result{}, err
	}
	if observed == nil {
		r.Forget(key)
		return Result{}, nil
	}
	s := r.state(key, observed.owner.UID)
	if s.watchesPods {
		if err := r.addPods(ctx, observed); err != nil {
			return Result{}, err
		}
	}
	if s.isUnchanged(observed, time.Now()) {
		return Result{Unchanged: true, RequeueAfter: s.untilDue()}, nil
	}
	// After an error, nothing counts as unchanged.
	s.versions = nil
	response, err := r.plan(ctx, observed, s)
	if err != nil {
		return Result{}, err
	}
	if response == nil {
		r.Forget(key)
		return Result{}, nil
	}
	planned, timers := time.Now(), response.GetSync()
	result := Result{Response: response, NotBefore: planned.Add(timers.GetNotBefore().AsDuration())}
	s.answers, result.Failed = r.API.carryOut(ctx, r.Recorder, observed.owner, response.GetSteps())
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	s.versions, s.due = observed.versions, time.Time{}
	if result.Failed != nil {
		s.due = result.NotBefore
	} else if timers.GetAtLatest() != nil {
		s.due = planned.Add(timers.GetAtLatest().AsDuration())
	}
	result.RequeueAfter = s.untilDue()
	return result, nil
}

// plan requests a plan, and makes the reads that the planner requests first. It returns nil if the owner does not exist.
func (r *Rollouts) plan(ctx context.Context, observed *observation, s *state) (*rollplanv1.PlanRolloutResponse, error) {
	for {
		observed.snapshot.Now = timestamppb.Now()
		response, err := r.Planner.PlanRollout(ctx, &rollplanv1.PlanRolloutRequest{
			Snapshot: observed.snapshot, Options: r.Options, Sync: r.request(s),
		})
		if err != nil {
			return nil, fmt.Errorf("plan rollout: %w", err)
		}
		next := response.GetSync()
		if next == nil {
			return nil, errOlderService
		}
		s.value, s.watchesPods = next.GetValue(), next.GetWatchPods()
		switch {
		case s.watchesPods && !observed.snapshot.GetPodsComplete():
			if err := r.addPods(ctx, observed); err != nil {
				return nil, err
			}
		case len(next.GetReads()) == 0:
			return response, nil
		}
		for _, read := range next.GetReads() {
			answer, _ := r.API.Call(ctx, read.GetCall()) // the planner handles a failure
			if answer.Code == http.StatusNotFound && observed.isOwner(read.GetCall()) {
				return nil, nil
			}
			s.answers = append(s.answers, answer.to(read.GetId()))
		}
	}
}

// request returns the state of the loop as the planner needs it.
func (r *Rollouts) request(s *state) *rollplanv1.Sync {
	return &rollplanv1.Sync{
		Value: s.value, Session: r.Session, Answers: s.answers,
		StatusInterval: durationpb.New(r.StatusInterval), MinInterval: durationpb.New(r.MinInterval),
	}
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
	snapshot, err := r.Snapshot(ctx, key)
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
	snapshot, err := r.Snapshot(ctx, key)
	if err != nil || snapshot == nil {
		return nil, err
	}
	canary := &rollplanv1.PlanCanaryRequest{}
	proto.Merge(canary, request)
	canary.Snapshot = snapshot
	return r.Planner.PlanCanary(ctx, canary)
}

// errOlderService means that a response does not lead the loop.
var errOlderService = errors.New("the service is older than this adapter: its plans cannot be carried out")

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
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, key)
}

// state returns the state of a Deployment. That of an earlier one with the same name is discarded.
func (r *Rollouts) state(key types.NamespacedName, owner types.UID) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Session == "" {
		r.Session = rand.Text()
	}
	if r.states == nil {
		r.states = map[types.NamespacedName]*state{}
	}
	s := r.states[key]
	if s == nil || s.owner != owner {
		s = &state{owner: owner}
		r.states[key] = s
	}
	return s
}
