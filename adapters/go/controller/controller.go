// Package controller runs the client library as a controller: watches feed a rate-limited work queue, and each key of the
// queue is handled by [rollplan.Rollouts.Sync].
package controller

import (
	"context"
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
	// minBackoff and maxBackoff limit the delay after a failure. The native Deployment controller starts at the same
	// delay, but gives up on a Deployment once the delay reaches 82 s. This one keeps retrying.
	minBackoff = 5 * time.Millisecond
	maxBackoff = 30 * time.Second
	// plannerBackoff is the delay while the service is unavailable. Waiting keys are spread over the same time again, so
	// that they do not all call a recovered service at once.
	plannerBackoff = time.Second
	// reconcileTimeout limits one reconciliation with all its calls, in case the API server hangs.
	reconcileTimeout = time.Minute
)

// throttle limits how often a key of the queue is synced: once per interval, and with a backoff after failures.
type throttle struct {
	limiter  workqueue.TypedRateLimiter[reconcile.Request]
	interval time.Duration
	// lastSync maps a key to the start of its last sync.
	lastSync sync.Map
}

func newLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
}

// reconciler syncs Deployments, each at most once per interval.
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
	// MinInterval is the minimum time between two syncs of a Deployment. One plan at its end covers all changes within
	// it, so a burst of changes causes fewer writes.
	MinInterval time.Duration
	// Probe, if it is not nil, must have found that the native controller is not running.
	Probe *Probe
}

// Add adds a controller for the kind of the rollouts to a manager, together with the cache that they read from. The gauge of
// rollouts by phase has those whose plans have a report: set Options.Report of the rollouts.
func Add(mgr manager.Manager, rollouts *rollplan.Rollouts, cache *rollplan.Cache, options Options) error {
	r := &reconciler{
		rollouts: rollouts,
		throttle: throttle{interval: options.MinInterval, limiter: newLimiter()},
		probe:    options.Probe,
	}
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
			MaxConcurrentReconciles: options.Workers, RateLimiter: manualResetLimiter{r.limiter}, ReconciliationTimeout: reconcileTimeout,
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
	if last, ok := t.lastSync.Load(request); ok {
		return t.interval - time.Since(last.(time.Time))
	}
	return 0
}

// enqueue adds a key to the queue once its next sync may start.
func (t *throttle) enqueue(q queue, request reconcile.Request) {
	if wait := t.untilNextSync(request); wait > 0 {
		q.AddAfter(request, wait)
	} else {
		q.Add(request)
	}
}

// Reconcile syncs one Deployment, or requeues it if its last sync was less than the interval ago.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if wait := r.untilNextSync(request); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.probe.Err(); err != nil {
		syncs.WithLabelValues(outcomeNativeController).Inc()
		return reconcile.Result{RequeueAfter: probePoll + rand.N(probePoll)}, nil
	}
	r.lastSync.Store(request, time.Now())
	result, err := r.rollouts.Sync(ctx, request.NamespacedName)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil // the process stops
	}
	logger := log.FromContext(ctx)
	outcome := outcome(result, err)
	syncs.WithLabelValues(outcome).Inc()
	switch outcome {
	case outcomeNativeController:
		logger.Info("Another controller writes to the Deployment", "error", err.Error())
		return reconcile.Result{RequeueAfter: maxBackoff}, nil
	case outcomeRejected:
		countRejections(err)
		// The next sync reports the rejection and requests the backoff: a rejection counts once.
		logger.Info("The API server rejected calls", "error", err.Error())
		return reconcile.Result{RequeueAfter: max(r.interval, minBackoff)}, nil
	case outcomeUnavailable:
		logger.Info("The service is unavailable", "error", err.Error())
		return reconcile.Result{RequeueAfter: plannerBackoff + rand.N(plannerBackoff)}, nil
	case outcomeError:
		return reconcile.Result{}, err
	}
	if result.Unchanged {
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	}
	if result.Response == nil {
		r.lastSync.Delete(request)
	}
	report := result.Response.GetReport()
	r.phases.set(request, report)
	logger.V(1).Info("Synced Deployment", "phase", report.GetPhase().String(), "message", report.GetMessage(),
		"steps", len(result.Response.GetSteps()), "retry", result.Retry)
	if result.Retry {
		return reconcile.Result{RequeueAfter: r.limiter.When(request)}, nil
	}
	r.limiter.Forget(request)
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
}

// manualResetLimiter ignores the resets of the controller, so that only Reconcile resets the backoff. The controller would
// do so after every reconciliation without an error, even if the rejected call has not been repeated yet.
type manualResetLimiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

func (manualResetLimiter) Forget(reconcile.Request) {}
