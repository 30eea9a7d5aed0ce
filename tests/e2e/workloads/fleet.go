package workloads

import (
	"context"
	"errors"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Fleet runs workloads beside each other, each alone in a namespace. The zero value is ready to use.
type Fleet struct {
	mu      sync.Mutex
	members map[string]member
	errs    []error
}

type member struct {
	log      Log
	kubelets *Kubelets
}

// Log receives the changes in a namespace, in the order of their versions.
type Log interface {
	AddDeployment(deployment *appsv1.Deployment, deleted bool) error
	AddReplicaSet(set *appsv1.ReplicaSet, deleted bool) error
	AddPod(pod *corev1.Pod, deleted bool) error
}

// Add adds the workload of a namespace.
func (f *Fleet) Add(namespace string, log Log, kubelets *Kubelets) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members == nil {
		f.members = map[string]member{}
	}
	f.members[namespace] = member{log, kubelets}
}

// Failed records an error.
func (f *Fleet) Failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// Err returns the errors so far.
func (f *Fleet) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// Watch passes the changes of Deployments, ReplicaSets and pods to the logs, and starts and terminates pods, until the context ends.
// Further kinds of Deployments may be watched.
func (f *Fleet) Watch(ctx context.Context, client dynamic.Interface, further ...schema.GroupVersionResource) {
	for _, resource := range append(further, Deployments) {
		observe(ctx, f, client, resource, func(to member, deployment *appsv1.Deployment, deleted bool) error {
			return to.log.AddDeployment(deployment, deleted)
		})
	}
	observe(ctx, f, client, ReplicaSets, func(to member, set *appsv1.ReplicaSet, deleted bool) error {
		return to.log.AddReplicaSet(set, deleted)
	})
	observe(ctx, f, client, Pods, func(to member, pod *corev1.Pod, deleted bool) error {
		if !deleted {
			to.kubelets.Observe(ctx, pod)
		}
		return to.log.AddPod(pod, deleted)
	})
}

func observe[T any](ctx context.Context, f *Fleet, client dynamic.Interface, resource schema.GroupVersionResource, add func(member, *T, bool) error) {
	each := func(object *unstructured.Unstructured, deleted bool) {
		f.mu.Lock()
		to, found := f.members[object.GetNamespace()]
		f.mu.Unlock()
		if !found {
			return
		}
		typed, err := Decode[T](object)
		if err == nil {
			err = add(to, typed, deleted)
		}
		if err != nil {
			f.Failed(err)
		}
	}
	go func() {
		if err := Watch(ctx, client, resource, each); err != nil {
			f.Failed(err)
		}
	}()
}
