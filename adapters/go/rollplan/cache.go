package rollplan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// byController is the index of objects by the UID of their controller.
const byController = "controller"

// Cache keeps objects up to date with watches. Call Start before reading.
type Cache struct {
	informers map[schema.GroupVersionKind][]cache.SharedIndexInformer
	// lazy is the kind whose watch starts at its first use.
	lazy schema.GroupVersionKind
	// ctx is the context of Start.
	ctx       context.Context
	startLazy sync.Once
	// running waits for the informers.
	running sync.WaitGroup
}

// watched is a kind of objects that a cache watches.
type watched struct {
	kind schema.GroupVersionKind
	// selector selects by labels. If it is nil, all objects are watched.
	selector labels.Selector
	// transform drops unneeded fields from a received object, which it may change. It is nil if all fields are needed.
	transform func(*Object)
	// forget is called for deleted objects, unless it is nil.
	forget func(*Object)
}

// NewCache returns a cache of the Deployments of a kind that the selector matches, and of the ReplicaSets and pods, in
// these namespaces, or in all namespaces if none are given. The watch of pods starts at its first use.
func NewCache(api *API, kind schema.GroupVersionKind, selector labels.Selector, namespaces ...string) (*Cache, error) {
	c, err := newCache(api, namespaces, []watched{{kind: kind, selector: selector}, {kind: ReplicaSet}, {kind: Pod, transform: (*Object).withoutSpec}})
	if err == nil {
		c.lazy = Pod
	}
	return c, err
}

func newCache(api *API, namespaces []string, kinds []watched) (*Cache, error) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	c := &Cache{informers: map[schema.GroupVersionKind][]cache.SharedIndexInformer{}}
	for _, namespace := range namespaces {
		for _, each := range kinds {
			informer := cache.NewSharedIndexInformerWithOptions(api.listWatch(each.kind, namespace, each.selector), &Object{},
				cache.SharedIndexInformerOptions{ObjectDescription: each.kind.String(), Indexers: cache.Indexers{
					cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
					byController:         func(object any) ([]string, error) { return []string{string(controllerOf(object.(*Object)))}, nil },
				}})
			if each.transform != nil {
				if err := informer.SetTransform(transform(each.transform)); err != nil {
					return nil, err
				}
			}
			if each.forget != nil {
				if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: deleted(each.forget)}); err != nil {
					return nil, err
				}
			}
			c.informers[each.kind] = append(c.informers[each.kind], informer)
		}
	}
	return c, nil
}

func transform(drop func(*Object)) cache.TransformFunc {
	return func(object any) (any, error) {
		if received, ok := object.(*Object); ok {
			drop(received)
		}
		return object, nil
	}
}

func deleted(forget func(*Object)) func(any) {
	return func(object any) {
		if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = final.Obj
		}
		if object, ok := object.(*Object); ok {
			forget(object)
		}
	}
}

// Start watches until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	c.ctx = ctx
	for kind := range c.informers {
		if kind != c.lazy {
			c.run(kind)
		}
	}
	<-ctx.Done()
	c.running.Wait()
	return nil
}

func (c *Cache) run(kind schema.GroupVersionKind) {
	for _, informer := range c.informers[kind] {
		c.running.Go(func() { informer.RunWithContext(c.ctx) })
	}
}

// WaitForSync waits until all objects have been read, except those of the lazy kind.
func (c *Cache) WaitForSync(ctx context.Context) error {
	for kind := range c.informers {
		if kind == c.lazy {
			continue
		}
		if err := c.waitFor(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) waitFor(ctx context.Context, kind schema.GroupVersionKind) error {
	for _, informer := range c.informers[kind] {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("the watch of %s has not started: %w", kind, context.Cause(ctx))
		}
	}
	return nil
}

// Kinds returns the watched kinds.
func (c *Cache) Kinds() []schema.GroupVersionKind { return slices.Collect(maps.Keys(c.informers)) }

// Len returns the number of objects of a kind.
func (c *Cache) Len(kind schema.GroupVersionKind) (count int) {
	for _, informer := range c.informers[kind] {
		count += len(informer.GetStore().ListKeys())
	}
	return count
}

// AddEventHandler calls a handler for the changes of a kind.
func (c *Cache) AddEventHandler(kind schema.GroupVersionKind, handler cache.ResourceEventHandler) error {
	for _, informer := range c.informers[kind] {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}

// Get implements [Reader].
func (c *Cache) Get(_ context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*Object, error) {
	for _, informer := range c.informers[kind] {
		if found, exists, err := informer.GetStore().GetByKey(cache.ObjectName(key).String()); err != nil || exists {
			object, _ := found.(*Object)
			return object, err
		}
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return nil, apierrors.NewNotFound(resource.GroupResource(), key.Name)
}

// ControlledBy implements [Reader]. The first call for pods may start their watch and wait until it has synced.
func (c *Cache) ControlledBy(ctx context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) ([]*Object, error) {
	if kind == c.lazy {
		c.startLazy.Do(func() { c.run(kind) })
		if err := c.waitFor(ctx, kind); err != nil {
			return nil, err
		}
	}
	var found []*Object
	for _, controller := range controllers {
		objects := c.indexed(kind, byController, string(controller))
		found = append(found, slices.DeleteFunc(objects, func(o *Object) bool { return o.Namespace != namespace })...)
	}
	return found, nil
}

// InNamespace returns the objects of a kind in a namespace.
func (c *Cache) InNamespace(kind schema.GroupVersionKind, namespace string) []*Object {
	return c.indexed(kind, cache.NamespaceIndex, namespace)
}

func (c *Cache) indexed(kind schema.GroupVersionKind, index, value string) []*Object {
	var objects []*Object
	for _, informer := range c.informers[kind] {
		found, err := informer.GetIndexer().ByIndex(index, value)
		if err != nil {
			panic(err) // there is no such index
		}
		for _, each := range found {
			objects = append(objects, each.(*Object))
		}
	}
	return objects
}
