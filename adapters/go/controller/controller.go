// Package controller runs the client library as a controller: watches feed a rate-limited work queue, and each key of the
// queue is handled by [rollplan.Rollouts.Sync].
package controller

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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
	// plannerBackoff is the delay while the service is unavailable. The keys that wait for it are spread over as long again,
	// so that a service that returns is not called by all of them at once.
	plannerBackoff = time.Second
	// reconcileTimeout limits one reconciliation with all its calls, in case the API server hangs.
	reconcileTimeout = time.Minute
)

// reconciler syncs Deployments, each at most once per interval.
type reconciler struct {
	rollouts *rollplan.Rollouts
	cache    client.Reader
	limiter  workqueue.TypedRateLimiter[reconcile.Request]
	interval time.Duration
	// lastSync maps the reconcile.Request of a Deployment to the time of its last sync.
	lastSync sync.Map
	phases   phases
}

// Options configure the controller.
type Options struct {
	// Workers is the number of Deployments that can be reconciled concurrently.
	Workers int
	// MinInterval is the minimum time between two syncs of a Deployment. One plan at its end covers all changes within
	// it, so that a burst of changes causes fewer writes.
	MinInterval time.Duration
}

// Add adds a controller for the kind of the rollouts to a manager. The gauge of rollouts by phase has those whose plans have
// a report: set Options.Report of the rollouts.
func Add(ctx context.Context, mgr manager.Manager, rollouts *rollplan.Rollouts, options Options) error {
	if err := rollouts.IndexOwners(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		rollouts: rollouts,
		cache:    mgr.GetCache(),
		interval: options.MinInterval,
		limiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
	}
	owner, set, pod := object(rollouts.Kind), object(rollplan.ReplicaSet), &corev1.Pod{}
	toOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner())
	return builder.ControllerManagedBy(mgr).
		Named("rollplan").
		For(owner).
		Watches(set, toOwner).
		Watches(set, handler.EnqueueRequestsFromMapFunc(r.potentialOwners)).
		Watches(pod, handler.Funcs{DeleteFunc: r.podDeleted}).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: options.Workers, RateLimiter: manualResetLimiter{r.limiter}, ReconciliationTimeout: reconcileTimeout,
		}).
		Complete(r)
}

// Reconcile syncs one Deployment, or requeues it if its last sync was less than the interval ago.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if last, ok := r.lastSync.Load(request); ok {
		if wait := r.interval - time.Since(last.(time.Time)); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	result, err := r.rollouts.Sync(ctx, request.NamespacedName)
	r.lastSync.Store(request, time.Now())
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

// potentialOwners returns the Deployments that may adopt an orphaned ReplicaSet.
func (r *reconciler) potentialOwners(ctx context.Context, set client.Object) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(set) != nil || len(set.GetLabels()) == 0 {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.rollouts.Kind.GroupVersion().WithKind(r.rollouts.Kind.Kind + "List"))
	if err := r.cache.List(ctx, list, client.InNamespace(set.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list potential owners of orphaned ReplicaSet", "replicaSet", client.ObjectKeyFromObject(set))
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		if rollplan.Selects(&list.Items[i], set) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return found
}

// podDeleted enqueues Recreate Deployments, which wait until all old pods have terminated. The watch of ReplicaSets does
// not reveal that: their size is 0 much earlier.
func (r *reconciler) podDeleted(ctx context.Context, deleted event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var owned client.Object = deleted.Object
	for _, kind := range []schema.GroupVersionKind{rollplan.ReplicaSet, r.rollouts.Kind} {
		owner, reference := object(kind), metav1.GetControllerOfNoCopy(owned)
		if reference == nil || reference.Kind != kind.Kind {
			return
		}
		key := client.ObjectKey{Namespace: owned.GetNamespace(), Name: reference.Name}
		if err := r.cache.Get(ctx, key, owner, client.UnsafeDisableDeepCopy); err != nil || owner.GetUID() != reference.UID {
			return // the owner no longer exists, so no rollout waits for the pod
		}
		owned = owner
	}
	if owner, ok := owned.(*unstructured.Unstructured); ok && rollplan.IsRecreate(owner) {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	}
}

func object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}
