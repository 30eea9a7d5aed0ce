// Package workloads has what programs need that run many workloads on a control plane: watches of all namespaces, kubelets that
// start and terminate pods after given times, nodes, and the service.
package workloads

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Resources that are watched.
var (
	Deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	ReplicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	Pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// Watch watches the objects of all namespaces until the context ends. Events are received in the order of their versions: an
// informer would change the order between objects.
func Watch(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, observe func(*unstructured.Unstructured, bool)) error {
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

// Decode converts an object to its type.
func Decode[T any](object *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
}

// AsText returns an object as kubectl prints it.
func AsText(object *unstructured.Unstructured) (string, error) {
	object.SetManagedFields(nil)
	text, err := object.MarshalJSON()
	return string(text), err
}

// List returns the objects of a namespace as text, in the order of the resources.
func List(ctx context.Context, client dynamic.Interface, namespace string, resources ...schema.GroupVersionResource) ([]string, error) {
	var texts []string
	for _, resource := range resources {
		list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			text, err := AsText(&object)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}
	return texts, nil
}
