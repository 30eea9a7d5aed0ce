package main

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var plannedDeployments = schema.GroupVersionResource{Group: "apps.rollplan.dev", Version: "v1alpha1", Resource: "planneddeployments"}

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

// AddReplicaSet records a change.
func (l *namespaceLog) AddReplicaSet(set *appsv1.ReplicaSet, deleted bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	change := setChange{At: now(), Name: set.Name, Size: int(*set.Spec.Replicas)}
	if deleted {
		change.Size = 0
	}
	l.Sets = append(l.Sets, change)
	return nil
}

// AddPod records a change.
func (l *namespaceLog) AddPod(pod *corev1.Pod, deleted bool) error {
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
	return nil
}

// AddDeployment records the latest Deployment.
func (l *namespaceLog) AddDeployment(owner *appsv1.Deployment, _ bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.ownerAt = owner, now()
	return nil
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
