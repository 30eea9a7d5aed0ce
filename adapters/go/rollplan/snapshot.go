package rollplan

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const (
	// controllerField is the index of objects by the UID of their controller.
	controllerField = "rollplan.controllerUID"
	// noController is the index value of objects without a controller.
	noController = "none"
)

// observation is the state of a Deployment that one plan is made from.
type observation struct {
	owner    *unstructured.Unstructured
	snapshot *rollplanv1.Snapshot
}

// Snapshot reads a Deployment and its objects into the snapshot of a request. It returns nil if the Deployment does not
// exist.
func (r *Rollouts) Snapshot(ctx context.Context, key types.NamespacedName) (*rollplanv1.Snapshot, error) {
	s := r.lock(key)
	defer s.mu.Unlock()
	observed, err := r.observe(ctx, key, s)
	if err != nil || observed == nil {
		return nil, err
	}
	return observed.snapshot, nil
}

// observe reads a Deployment, its ReplicaSets and, where needed, their pods. It returns nil if the Deployment does not
// exist.
func (r *Rollouts) observe(ctx context.Context, key types.NamespacedName, s *state) (*observation, error) {
	owner := object(r.Kind)
	// No deep copy: objects of the cache are only read here.
	if err := r.Reader.Get(ctx, key, owner, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.forget(key, s)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s.resetIfReplaced(owner.GetUID())
	now := time.Now()
	if err := s.native.check(owner, now); err != nil {
		s.verified = false
		if r.Recorder != nil {
			r.Recorder.Event(owner, "Warning", "NativeController", err.Error())
		}
		return nil, err
	}
	if owner = s.latest(owner); owner == nil {
		return nil, nil
	}
	sets, err := r.replicaSets(ctx, owner)
	if err != nil {
		return nil, err
	}
	sets = s.overlayWrites(ReplicaSet.Kind, sets, now)

	snapshot := &rollplanv1.Snapshot{Now: timestamppb.New(now), ReplicaSetsComplete: true, Answers: s.answers}
	converted := make(map[types.UID]conversion, len(s.converted))
	if snapshot.Deployment, err = convert(s.converted, converted, owner, &rollplanv1.Deployment{}); err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", r.Kind.Kind, key, err)
	}
	for _, set := range sets {
		message, err := convert(s.converted, converted, set, &rollplanv1.ReplicaSet{})
		if err != nil {
			return nil, fmt.Errorf("convert ReplicaSet %s: %w", set.GetName(), err)
		}
		snapshot.ReplicaSets = append(snapshot.ReplicaSets, message)
	}
	if r.AllPods || IsRecreate(owner) {
		list, err := r.pods(ctx, owner, sets)
		if err != nil {
			return nil, err
		}
		for _, pod := range list {
			message, err := convert(s.converted, converted, &pod, &rollplanv1.Pod{})
			if err != nil {
				return nil, fmt.Errorf("convert pod %s: %w", pod.GetName(), err)
			}
			snapshot.Pods = append(snapshot.Pods, message)
		}
		snapshot.PodsComplete = true
	}
	s.converted = converted
	return &observation{owner, snapshot}, nil
}

// IsRecreate reports whether a Deployment uses the Recreate strategy. Its rollouts wait for old pods to terminate, so a
// deleted pod must trigger a sync.
func IsRecreate(owner *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(owner.Object, "spec", "strategy", "type")
	return kind == "Recreate"
}

// Selects reports whether the selector of a Deployment matches an object. An empty selector matches nothing.
func Selects(owner *unstructured.Unstructured, object client.Object) bool {
	selector, err := selectorOf(owner)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(object.GetLabels()))
}

func selectorOf(owner *unstructured.Unstructured) (labels.Selector, error) {
	content, _, err := unstructured.NestedMap(owner.Object, "spec", "selector")
	if err != nil {
		return nil, err
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

// replicaSets lists the ReplicaSets that the Deployment controls, and the orphans that it may adopt.
func (r *Rollouts) replicaSets(ctx context.Context, owner *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, controller := range []types.UID{owner.GetUID(), noController} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(ReplicaSet.GroupVersion().WithKind(ReplicaSet.Kind + "List"))
		if err := r.list(ctx, list, owner.GetNamespace(), controller); err != nil {
			return nil, err
		}
		for i := range list.Items {
			set := &list.Items[i]
			if controls(controller, set) && (controller != noController || Selects(owner, set)) {
				found = append(found, set)
			}
		}
	}
	return found, nil
}

// pods lists the pods that the ReplicaSets control.
func (r *Rollouts) pods(ctx context.Context, owner *unstructured.Unstructured, sets []*unstructured.Unstructured) ([]corev1.Pod, error) {
	var found []corev1.Pod
	for _, set := range sets {
		list := &corev1.PodList{}
		if err := r.list(ctx, list, owner.GetNamespace(), set.GetUID()); err != nil {
			return nil, err
		}
		for _, pod := range list.Items {
			if controls(set.GetUID(), &pod) {
				found = append(found, pod)
			}
		}
	}
	return found, nil
}

// list reads the objects with the given controller. Without an index it returns all objects of the namespace, so
// callers must filter.
func (r *Rollouts) list(ctx context.Context, list client.ObjectList, namespace string, controller types.UID) error {
	options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	if r.indexed {
		options = append(options, client.MatchingFields{controllerField: string(controller)})
	}
	if err := r.Reader.List(ctx, list, options...); err != nil {
		return fmt.Errorf("list %T in %s: %w", list, namespace, err)
	}
	return nil
}

func controls(controller types.UID, object client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner == nil && controller == noController || owner != nil && owner.UID == controller
}

func object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}
