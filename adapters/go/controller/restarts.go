package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// restarter syncs the restarts of namespaces. A key of the queue has the namespace as its name.
type restarter struct {
	restarts *rollplan.Restarts
	throttle
	metrics *restartMetrics
}

// AddRestarts adds a controller that restarts workloads when their configuration changes to a manager, together with the cache
// of the restarts. It has one worker, which plans a namespace at a time.
func AddRestarts(mgr manager.Manager, restarts *rollplan.Restarts) error {
	r := &restarter{restarts: restarts, metrics: newRestartMetrics(restarts.Options.GetProfile())}
	if err := mgr.Add(watcher{restarts.Cache}); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("restarts").
		WatchesRawSource(&restartSource{r}).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: 1, RateLimiter: newLimiter(), ReconciliationTimeout: reconcileTimeout,
		}).
		Complete(r)
}

// Reconcile syncs the restarts of a namespace, or requeues it if its next sync may not start yet.
func (r *restarter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if wait := r.untilNextSync(request); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	result, err := r.restarts.Sync(ctx, request.Name)
	if errors.Is(ctx.Err(), context.Canceled) {
		return reconcile.Result{}, nil // the process stops
	}
	logger := log.FromContext(ctx)
	outcome := outcome(false, result.Failed, err)
	syncs.WithLabelValues(outcome).Inc()
	switch outcome {
	case outcomeUnavailable:
		logger.Info("The service is unavailable", "error", err.Error())
		return r.unavailable(request), nil
	case outcomeError:
		return reconcile.Result{}, err
	case outcomeCallFailed:
		countFailed(result.Failed)
		logger.Info("Calls failed", "error", result.Failed.Error())
	}
	r.notBefore.Store(request, result.NotBefore)
	r.metrics.observe(result, r.restarts.Cache)
	for _, plan := range result.Applied {
		for _, step := range plan.GetSteps() {
			logger.V(logLevel(plan.GetDecision())).Info("Carried out", "step", step.GetSummary(), "namespace", plan.GetNamespace())
		}
	}
	for _, violation := range result.Violations {
		logger.Info("Skipped an invalid object", "field", violation.GetField(), "reason", violation.GetReason(), "description", violation.GetDescription())
	}
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
}

// logLevel hides decisions without a restart from the log.
func logLevel(decision rollplanv1.RestartDecision) int {
	if decision == rollplanv1.RestartDecision_RESTART_DECISION_RESTART {
		return 0
	}
	return 1
}

// restartSource adds the namespaces with relevant changes to the queue.
type restartSource struct{ *restarter }

// Start registers the handlers of changes.
func (s *restartSource) Start(_ context.Context, q queue) error {
	for _, kind := range s.restarts.Cache.Kinds() {
		changed := func(object *rollplan.Object) {
			s.metrics.observeVersion(object)
			s.enqueue(q, keyOf(object))
		}
		err := s.restarts.Cache.AddEventHandler(kind, cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { changed(object.(*rollplan.Object)) },
			UpdateFunc: func(before, after any) {
				if isRelevant(before.(*rollplan.Object), after.(*rollplan.Object)) {
					changed(after.(*rollplan.Object))
				}
			},
			DeleteFunc: func(object any) { s.enqueue(q, keyOf(deleted(object))) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// WaitForSync waits until the cache has read all objects.
func (s *restartSource) WaitForSync(ctx context.Context) error {
	return s.restarts.Cache.WaitForSync(ctx)
}

// keyOf returns the key of the namespace of an object. A namespace has its own key.
func keyOf(object *rollplan.Object) reconcile.Request {
	namespace := object.Namespace
	if object.GVK() == rollplan.Namespace {
		namespace = object.Name
	}
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

// isRelevant reports whether a change affects restart plans. A new version alone does not.
func isRelevant(before, after *rollplan.Object) bool {
	return before.UID != after.UID || withoutVersion(before) != withoutVersion(after) || !proto.Equal(before.Configuration, after.Configuration)
}

func withoutVersion(object *rollplan.Object) string {
	return strings.Replace(object.JSON, fmt.Sprintf(`"resourceVersion":%q`, object.ResourceVersion), "", 1)
}
