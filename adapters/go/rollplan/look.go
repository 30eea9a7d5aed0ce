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
	// controllerField is the name of the index by controller.
	controllerField = "rollplan.controllerUID"
	// noController is the index's value for objects that nobody controls.
	noController = "none"
)

// seen is one look at a Deployment.
type seen struct {
	owner    *unstructured.Unstructured
	snapshot *rollplanv1.Snapshot
}

// Snapshot looks at a Deployment: what a request to the service holds. It returns nil if there is no such Deployment.
func (r *Rollouts) Snapshot(ctx context.Context, key types.NamespacedName) (*rollplanv1.Snapshot, error) {
	s := r.state(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, err := r.look(ctx, key, s)
	if err != nil || seen == nil {
		return nil, err
	}
	return seen.snapshot, nil
}

// look reads a Deployment with all that belongs to it. It returns nil if there is no such Deployment.
func (r *Rollouts) look(ctx context.Context, key types.NamespacedName, s *state) (*seen, error) {
	owner := object(r.Kind)
	// It may be the cache's own, as all that is looked at here: nobody changes it.
	if err := r.Reader.Get(ctx, key, owner, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.Forget(key)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s.belongsTo(owner.GetUID())
	now := time.Now()
	if err := s.native.check(owner, now); err != nil {
		s.confirmed = false
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
	sets = s.overlay(ReplicaSet.Kind, sets, now)

	snapshot := &rollplanv1.Snapshot{Now: timestamppb.New(now), Failures: s.failures}
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
	return &seen{owner, snapshot}, nil
}

// IsRecreate says whether a Deployment's rollouts wait for its pods, so that a change of these is a reason to look.
func IsRecreate(owner *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(owner.Object, "spec", "strategy", "type")
	return kind == "Recreate"
}

// Selects says whether a Deployment's selector selects an object. The empty selector selects nothing.
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

// replicaSets are those that the Deployment owns, and those without an owner that it selects.
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

// pods are those of the ReplicaSets.
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

// list reads the objects that something controls, and where there is no index also others.
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
