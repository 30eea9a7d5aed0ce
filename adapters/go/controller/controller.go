// Package controller makes a controller of the client library: watches feed a rate-limited queue, and each key of the
// queue is one [rollplan.Rollouts.Sync].
package controller

import (
	"context"
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
	// retryFirst and retryMax bound the delay after a failure. Kubernetes' own controller starts as low; its longest
	// delay, 82 s, leaves a Deployment alone for good afterwards, and ours never does.
	retryFirst = 5 * time.Millisecond
	retryMax   = 30 * time.Second
	// lookMax bounds one look with all its calls, should the API server hang.
	lookMax = time.Minute
)

// reconciler carries out what the service says, for one Deployment at a time.
type reconciler struct {
	rollouts *rollplan.Rollouts
	cache    client.Reader
	limiter  workqueue.TypedRateLimiter[reconcile.Request]
	interval time.Duration
	// lastLook is when a Deployment was last looked at: times by request.
	lastLook sync.Map
}

// Options of a controller.
type Options struct {
	// Workers are the Deployments it works on at the same time.
	Workers int
	// Interval is the least time between two looks at a Deployment. What happens within it is answered by one plan and
	// one status at its end, so that a burst of changes costs fewer writes.
	Interval time.Duration
}

// Add adds a controller of the rollouts' kind to a manager.
func Add(ctx context.Context, mgr manager.Manager, rollouts *rollplan.Rollouts, options Options) error {
	if err := rollouts.IndexOwners(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		rollouts: rollouts,
		cache:    mgr.GetCache(),
		interval: options.Interval,
		limiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax),
	}
	owner, set, pod := object(rollouts.Kind), object(rollplan.ReplicaSet), &corev1.Pod{}
	toOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner())
	return builder.ControllerManagedBy(mgr).
		Named("rollplan").
		For(owner).
		Watches(set, toOwner).
		Watches(set, handler.EnqueueRequestsFromMapFunc(r.adopters)).
		Watches(pod, handler.Funcs{DeleteFunc: r.podDeleted}).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: options.Workers, RateLimiter: keptLimiter{r.limiter}, ReconciliationTimeout: lookMax,
		}).
		Complete(r)
}

// Reconcile is one look at one Deployment.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if last, ok := r.lastLook.Load(request); ok {
		if wait := r.interval - time.Since(last.(time.Time)); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	result, err := r.rollouts.Sync(ctx, request.NamespacedName)
	r.lastLook.Store(request, time.Now())
	if err != nil {
		return reconcile.Result{}, err
	}
	if result.Response == nil {
		r.lastLook.Delete(request)
	}
	report := result.Response.GetReport()
	log.FromContext(ctx).V(1).Info("synced", "phase", report.GetPhase().String(), "message", report.GetMessage(),
		"steps", len(result.Response.GetSteps()), "retry", result.Retry)
	if result.Retry {
		return reconcile.Result{RequeueAfter: r.limiter.When(request)}, nil
	}
	r.limiter.Forget(request)
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
}

// keptLimiter is a rate limiter that only Reconcile resets. The queue would do so after each look without an error,
// also when the plan was made with failures and the call that failed is still to be tried again.
type keptLimiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

func (keptLimiter) Forget(reconcile.Request) {}

// adopters are the Deployments that may adopt a ReplicaSet that nobody owns.
func (r *reconciler) adopters(ctx context.Context, set client.Object) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(set) != nil || len(set.GetLabels()) == 0 {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.rollouts.Kind.GroupVersion().WithKind(r.rollouts.Kind.Kind + "List"))
	if err := r.cache.List(ctx, list, client.InNamespace(set.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "look for an owner", "replicaSet", client.ObjectKeyFromObject(set))
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

// podDeleted has a rollout that waits for old pods to be gone look again: the size of a ReplicaSet is 0 long before.
func (r *reconciler) podDeleted(ctx context.Context, deleted event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var owned client.Object = deleted.Object
	for _, kind := range []schema.GroupVersionKind{rollplan.ReplicaSet, r.rollouts.Kind} {
		owner, reference := object(kind), metav1.GetControllerOfNoCopy(owned)
		if reference == nil || reference.Kind != kind.Kind {
			return
		}
		key := client.ObjectKey{Namespace: owned.GetNamespace(), Name: reference.Name}
		if err := r.cache.Get(ctx, key, owner, client.UnsafeDisableDeepCopy); err != nil || owner.GetUID() != reference.UID {
			return // then nothing waits for it
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
