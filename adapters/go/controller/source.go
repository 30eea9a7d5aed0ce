package controller

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplan"
)

// source adds the Deployments that a change may affect to the queue.
type source struct {
	*reconciler
	cache *rollplan.Cache
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Start registers the handlers of changes.
func (s *source) Start(_ context.Context, q queue) error {
	for kind, handle := range map[schema.GroupVersionKind]func(q queue, object *rollplan.Object){
		s.rollouts.Kind:     s.enqueueOwner,
		rollplan.ReplicaSet: s.replicaSetChanged,
	} {
		err := s.cache.AddEventHandler(kind, cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { handle(q, object.(*rollplan.Object)) },
			UpdateFunc: func(before, after any) {
				// Before a change, another Deployment may have been the owner.
				if b, a := metav1.GetControllerOfNoCopy(before.(*rollplan.Object)), metav1.GetControllerOfNoCopy(after.(*rollplan.Object)); b != nil && (a == nil || a.UID != b.UID) {
					handle(q, before.(*rollplan.Object))
				}
				handle(q, after.(*rollplan.Object))
			},
			DeleteFunc: func(object any) { handle(q, deleted(object)) },
		})
		if err != nil {
			return err
		}
	}
	return s.cache.AddEventHandler(rollplan.Pod, cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) { s.podDeleted(q, deleted(object)) },
	})
}

// WaitForSync waits until the cache has read all objects. A stop in the meantime is not an error, which the manager would
// log.
func (s *source) WaitForSync(ctx context.Context) error {
	if err := s.cache.WaitForSync(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// enqueue adds a Deployment to the queue.
func (s *source) enqueue(q queue, namespace, name string) {
	s.throttle.enqueue(q, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
}

// enqueueOwner adds a Deployment to the queue, unless it is a probe.
func (s *source) enqueueOwner(q queue, owner *rollplan.Object) {
	if _, isProbe := owner.Labels[probeLabel]; !isProbe {
		s.enqueue(q, owner.Namespace, owner.Name)
	}
}

// replicaSetChanged enqueues the owner of a ReplicaSet, or the Deployments that may adopt an orphan.
func (s *source) replicaSetChanged(q queue, set *rollplan.Object) {
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
		if owner.Kind == s.rollouts.Kind.Kind && owner.APIVersion == s.rollouts.Kind.GroupVersion().String() {
			s.enqueue(q, set.Namespace, owner.Name)
		}
		return
	}
	if len(set.Labels) == 0 {
		return
	}
	// Otherwise, each change would cause a plan for each Deployment of the namespace.
	for _, owner := range s.cache.InNamespace(s.rollouts.Kind, set.Namespace) {
		if rollplan.Selects(owner, set) {
			s.enqueueOwner(q, owner)
		}
	}
}

// podDeleted enqueues the Deployment of a pod. If its rollout waits until old pods have terminated, the watch of ReplicaSets does
// not reveal that: their size is 0 much earlier. Sync makes no plan for other Deployments.
func (s *source) podDeleted(q queue, pod *rollplan.Object) {
	reference := metav1.GetControllerOfNoCopy(pod)
	if reference == nil || reference.Kind != rollplan.ReplicaSet.Kind {
		return
	}
	set, err := s.cache.Get(context.Background(), rollplan.ReplicaSet, types.NamespacedName{Namespace: pod.Namespace, Name: reference.Name})
	// If the ReplicaSet no longer exists, no rollout waits for the pod.
	if err == nil && set.UID == reference.UID && metav1.GetControllerOfNoCopy(set) != nil {
		s.replicaSetChanged(q, set)
	}
}

// deleted returns a deleted object, or its last known state if the watch has missed the deletion.
func deleted(object any) *rollplan.Object {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	return object.(*rollplan.Object)
}
