// Package controller runs the client library as a controller: watches feed a rate-limited work queue, and each key of the
// queue is handled by [rollplan.Rollouts.Sync].
package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplan"
)

const (
	// minBackoff and maxBackoff limit the delay after an error. The native Deployment controller starts at the same
	// delay, but gives up on a Deployment once the delay reaches 82 s. This one keeps retrying.
	minBackoff = 5 * time.Millisecond
	maxBackoff = 30 * time.Second
	// plannerBackoff is the delay while the service is unavailable. Waiting keys are spread over the same time again, so
	// that they do not all call a recovered service at once.
	plannerBackoff = time.Second
	// reconcileTimeout limits one reconciliation with all its calls, in case the API server hangs.
	reconcileTimeout = time.Minute
)

// throttle delays the syncs of a key of the queue.
type throttle struct {
	// notBefore maps a key to the earliest time of its next sync.
	notBefore sync.Map
}

func newLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
}

// reconciler syncs Deployments.
type reconciler struct {
	rollouts *rollplan.Rollouts
	throttle
	phases phases
	// probe determines whether the native controller is running. It is nil if that does not matter.
	probe *Probe
}

// Options configure the controller.
type Options struct {
	// Workers is the number of Deployments that can be reconciled concurrently.
	Workers int
	// Probe, if it is not nil, must have found that the native controller is not running.
	Probe *Probe
}

// Add adds a controller for the kind of the rollouts to a manager, together with the cache that they read from. The gauge of
// rollouts by phase has those whose plans have a report: set Options.Report of the rollouts.
func Add(mgr manager.Manager, rollouts *rollplan.Rollouts, cache *rollplan.Cache, options Options) error {
	r := &reconciler{rollouts: rollouts, probe: options.Probe}
	if err := mgr.Add(watcher{cache}); err != nil {
		return err
	}
	if options.Probe != nil {
		if err := mgr.Add(options.Probe); err != nil {
			return err
		}
	}
	return builder.ControllerManagedBy(mgr).
		Named("rollplan").
		WatchesRawSource(&source{r, cache}).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: options.Workers, RateLimiter: newLimiter(), ReconciliationTimeout: reconcileTimeout,
		}).
		Complete(r)
}

// watcher runs the cache in standby replicas, too, so that it is up to date when a replica becomes the leader.
type watcher struct{ *rollplan.Cache }

func (watcher) NeedLeaderElection() bool { return false }

// Start watches until the context ends. After all objects have been read, it returns memory to the system, because the
// initial lists leave much garbage.
func (w watcher) Start(ctx context.Context) error {
	go func() {
		if w.WaitForSync(ctx) == nil {
			debug.FreeOSMemory()
		}
	}()
	return w.Cache.Start(ctx)
}

// untilNextSync returns how long a key must wait for its next sync.
func (t *throttle) untilNextSync(request reconcile.Request) time.Duration {
	if notBefore, ok := t.notBefore.Load(request); ok {
		return time.Until(notBefore.(time.Time))
	}
	return 0
}

// unavailable delays a key, because the service does not answer.
func (t *throttle) unavailable(request reconcile.Request) reconcile.Result {
	wait := plannerBackoff + rand.N(plannerBackoff)
	t.notBefore.Store(request, time.Now().Add(wait))
	return reconcile.Result{RequeueAfter: wait}
}

// enqueue adds a key to the queue once its next sync may start.
func (t *throttle) enqueue(q queue, request reconcile.Request) {
	if wait := t.untilNextSync(request); wait > 0 {
		q.AddAfter(request, wait)
	} else {
		q.Add(request)
	}
}

// Reconcile syncs one Deployment, or requeues it if its next sync may not start yet.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if wait := r.untilNextSync(request); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.probe.Err(); err != nil {
		syncs.WithLabelValues(outcomeNativeController).Inc()
		return reconcile.Result{RequeueAfter: probePoll + rand.N(probePoll)}, nil
	}
	result, err := r.rollouts.Sync(ctx, request.NamespacedName)
	if errors.Is(ctx.Err(), context.Canceled) {
		return reconcile.Result{}, nil // the process stops
	}
	logger := log.FromContext(ctx)
	outcome := outcome(result.Unchanged, result.Failed, err)
	syncs.WithLabelValues(outcome).Inc()
	switch outcome {
	case outcomeUnavailable:
		logger.Info("The service is unavailable", "error", err.Error())
		return r.unavailable(request), nil
	case outcomeError:
		return reconcile.Result{}, err
	case outcomeUnchanged:
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	case outcomeCallFailed:
		countFailed(result.Failed)
		logger.Info("Calls failed", "error", result.Failed.Error())
	}
	if result.Response == nil {
		r.notBefore.Delete(request)
	} else {
		r.notBefore.Store(request, result.NotBefore)
	}
	report := result.Response.GetReport()
	r.phases.set(request, report)
	logger.V(1).Info("Synced Deployment", "phase", report.GetPhase().String(), "message", report.GetMessage(),
		"steps", len(result.Response.GetSteps()))
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
}
