package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

var (
	deployments        = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	plannedDeployments = schema.GroupVersionResource{Group: "apps.rollplan.dev", Version: "v1alpha1", Resource: "planneddeployments"}
	replicaSets        = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	pods               = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// milliseconds is a time since the epoch.
type milliseconds int64

func now() milliseconds { return milliseconds(time.Now().UnixMilli()) }

func (m milliseconds) since(start milliseconds) time.Duration {
	return time.Duration(m-start) * time.Millisecond
}

// setChange is the size of a ReplicaSet after a change.
type setChange struct {
	At   milliseconds `json:"at"`
	Name string       `json:"name"`
	Size int          `json:"size"`
}

// podChange is the state of a pod after a change.
type podChange struct {
	At   milliseconds `json:"at"`
	Name string       `json:"name"`
	Set  string       `json:"set"`
	// ReadyAt is when the pod became ready, in seconds since the epoch. 0 if it is not ready.
	ReadyAt int64 `json:"readyAt,omitempty"`
	// Terminating is true for a pod that is being deleted, and Gone for one that has been deleted.
	Terminating bool `json:"terminating,omitempty"`
	Gone        bool `json:"gone,omitempty"`
}

// namespaceLog are the changes of the objects in one namespace.
type namespaceLog struct {
	mu   sync.Mutex
	Sets []setChange
	Pods []podChange
	// owner is the latest Deployment, and ownerAt when it was received.
	owner   *appsv1.Deployment
	ownerAt milliseconds
}

// watchAll watches the objects of all namespaces until the context ends. Events are received in the order of their versions: an
// informer would change the order between objects.
func watchAll(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, observe func(*unstructured.Unstructured, bool)) error {
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(resource).Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("watch of %s: %v", resource.Resource, event.Object)
		}
		if event.Type != watch.Bookmark {
			observe(object, event.Type == watch.Deleted)
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the watch of %s has ended", resource.Resource)
	}
	return nil
}

// decode converts an object to its type.
func decode[T any](object *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
}

func (l *namespaceLog) observeSet(set *appsv1.ReplicaSet, deleted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change := setChange{At: now(), Name: set.Name, Size: int(*set.Spec.Replicas)}
	if deleted {
		change.Size = 0
	}
	l.Sets = append(l.Sets, change)
}

func (l *namespaceLog) observePod(pod *corev1.Pod, deleted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change := podChange{At: now(), Name: pod.Name, Terminating: pod.DeletionTimestamp != nil, Gone: deleted}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		change.Set = owner.Name
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			change.ReadyAt = condition.LastTransitionTime.Unix()
		}
	}
	l.Pods = append(l.Pods, change)
}

func (l *namespaceLog) observeOwner(owner *appsv1.Deployment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.ownerAt = owner, now()
}

// await polls until the Deployment is in a state, and returns when that was received. It returns false if the time is over.
func (l *namespaceLog) await(ctx context.Context, timeout time.Duration, reached func(*appsv1.Deployment) bool) (milliseconds, bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(timeout); time.Now().Before(end) && ctx.Err() == nil; <-ticker.C {
		l.mu.Lock()
		owner, at := l.owner, l.ownerAt
		l.mu.Unlock()
		if owner != nil && reached(owner) {
			return at, true
		}
	}
	return now(), false
}

// isComplete is true for a Deployment of at least this generation whose rollout is complete.
func isComplete(generation int64) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		replicas := *d.Spec.Replicas
		return d.Generation >= generation && d.Status.ObservedGeneration >= d.Generation &&
			d.Status.UpdatedReplicas == replicas && d.Status.Replicas == replicas && d.Status.AvailableReplicas == replicas
	}
}

// quiet returns how long no pod has changed.
func (l *namespaceLog) quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now().since(l.Pods[len(l.Pods)-1].At)
}

// readyPods returns the number of pods that are ready and do not belong to a ReplicaSet.
func (l *namespaceLog) readyPods(except string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	ready := map[string]bool{}
	for _, pod := range l.Pods {
		if pod.Set != except {
			ready[pod.Name] = pod.ReadyAt > 0
		}
	}
	count := 0
	for _, isReady := range ready {
		if isReady {
			count++
		}
	}
	return count
}
