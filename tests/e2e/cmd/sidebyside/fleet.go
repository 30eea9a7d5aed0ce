package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"rollplan.dev/rollplan/tests/e2e/adapter"
)

// fleet is the set of Deployments that are rolled out.
type fleet struct {
	*adapter.System
	namespace string
	// templateBytes is the size of the pod templates to create, at least. They are filled with environment variables.
	templateBytes int
}

// writers is the number of concurrent clients that change Deployments.
const writers = 10

func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}

func (f *fleet) create(ctx context.Context, name string, size int) error {
	labels := map[string]string{"app": name}
	_, err := f.Typed.AppsV1().Deployments(f.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(size)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/web:1", Env: f.env(name)}}},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// env returns environment variables that make a template large.
func (f *fleet) env(name string) (env []corev1.EnvVar) {
	digest := sha256.Sum256([]byte(name))
	for size := 0; size < f.templateBytes; size += 130 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", len(env)), Value: fmt.Sprintf("%x-%d", digest, size)})
		digest = sha256.Sum256(digest[:])
	}
	return env
}

// image returns a change that sets the tag of the image.
func (f *fleet) image(tag string) func(context.Context, string, int) error {
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:` + tag + `"}]}}}}`)
	return func(ctx context.Context, name string, _ int) error {
		_, err := f.Typed.AppsV1().Deployments(f.namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

// rollOut changes all Deployments and returns the time until the last rollout is complete.
func (f *fleet) rollOut(ctx context.Context, names []string, size int, change func(context.Context, string, int) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	var mu sync.Mutex
	complete := map[string]int64{}
	changed := make(chan struct{}, 1)
	observe := func(object any) {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		delete(complete, d.Name)
		s, want := d.Status, int32(size)
		if s.ObservedGeneration == d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want {
			complete[d.Name] = d.Generation
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	watch := cache.NewListWatchFromClient(f.Typed.AppsV1().RESTClient(), "deployments", f.namespace, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watch, ObjectType: &appsv1.Deployment{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: observe, UpdateFunc: func(_, object any) { observe(object) }},
	})
	go controller.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		return 0, errors.New("the informer did not sync")
	}
	mu.Lock()
	clear(complete) // forget the state before the change
	mu.Unlock()

	start := time.Now()
	if err := inParallel(names, func(name string) error { return change(ctx, name, size) }); err != nil {
		return 0, err
	}
	// Only a complete status of the new generation counts, because the informer may still deliver older ones.
	wanted := map[string]int64{}
	list, err := f.Typed.AppsV1().Deployments(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, d := range list.Items {
		wanted[d.Name] = d.Generation
	}
	for {
		mu.Lock()
		missing := 0
		for _, name := range names {
			if complete[name] != wanted[name] {
				missing++
			}
		}
		mu.Unlock()
		if missing == 0 {
			return time.Since(start), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d are not complete: %w", missing, len(names), ctx.Err())
		}
	}
}

func inParallel(names []string, apply func(string) error) error {
	work := make(chan string)
	errs := make(chan error, len(names))
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for name := range work {
				errs <- apply(name)
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	running.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}
