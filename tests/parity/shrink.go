package main

import (
	"math"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shrink makes a world smaller while `fails` holds: it removes objects, then parts of them, and reduces numbers.
func shrink(w *World, fails func(*World) bool) *World {
	for tries, progress := 0, true; progress && tries < 5000; {
		progress = false
		for i := 0; ; i++ {
			smaller, ok := reduction(w, i)
			if !ok {
				break
			}
			if smaller == nil {
				continue
			}
			tries++
			if stored := smaller.AsStored(); fails(stored) {
				w, progress = stored, true
				i-- // try the same index again: it may be the next reduction now
			}
		}
	}
	return w
}

// reduction returns the i-th smaller world, or nil if it is not smaller, or false if there are no more.
func reduction(w *World, i int) (*World, bool) {
	c := w.DeepCopy()
	n := 0
	var out *World
	done := false
	// try counts the possible reductions and makes the i-th.
	try := func(do func()) {
		if !done && n == i {
			do()
			out, done = c, true
		}
		n++
	}
	for k := range w.ReplicaSets {
		try(func() { c.ReplicaSets = append(c.ReplicaSets[:k:k], c.ReplicaSets[k+1:]...) })
	}
	for k := range w.Pods {
		try(func() { c.Pods = append(c.Pods[:k:k], c.Pods[k+1:]...) })
	}
	if w.Refuse != RefuseNothing {
		try(func() { c.Refuse = RefuseNothing })
	}
	if w.Noise != 0 {
		try(func() { c.Noise = 0 })
	}
	// numbers: zero, one, half, one less
	number := func(p reflect.Value) {
		v := p.Int()
		for _, smaller := range []int64{0, 1, v / 2, v - 1} {
			if smaller < v && smaller >= 0 {
				try(func() { p.SetInt(smaller) })
			}
		}
	}
	val := func(p any) reflect.Value { return reflect.ValueOf(p).Elem() }
	meta := func(m *metav1.ObjectMeta) {
		for _, k := range sortedKeys(m.Annotations) {
			try(func() { delete(m.Annotations, k) })
		}
		if m.DeletionTimestamp != nil {
			try(func() { m.DeletionTimestamp, m.DeletionGracePeriodSeconds, m.Finalizers = nil, nil, nil })
		}
		if len(m.Finalizers) > 0 && m.DeletionTimestamp == nil {
			try(func() { m.Finalizers = nil })
		}
		if m.Generation > 1 {
			try(func() { m.Generation = 1 })
		}
	}

	d := c.Deployment
	meta(&d.ObjectMeta)
	for k := range d.Status.Conditions {
		try(func() { d.Status.Conditions = append(d.Status.Conditions[:k:k], d.Status.Conditions[k+1:]...) })
	}
	if d.Spec.Paused {
		try(func() { d.Spec.Paused = false })
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && len(c.Pods) > 0 {
		try(func() { c.Pods = nil })
	}
	for _, p := range []*int32{d.Spec.ProgressDeadlineSeconds, d.Spec.RevisionHistoryLimit} { // MaxInt32 means none
		if p != nil && *p != math.MaxInt32 {
			try(func() { *p = math.MaxInt32 })
		}
	}
	if d.Spec.MinReadySeconds != 0 {
		try(func() {
			d.Spec.MinReadySeconds = 0
			for _, rs := range c.ReplicaSets {
				rs.Spec.MinReadySeconds = 0
			}
		})
	}
	if d.Status.CollisionCount != nil {
		try(func() { d.Status.CollisionCount = nil })
	}
	if *terminatingOf(&d.Status) != nil {
		try(func() { *terminatingOf(&d.Status) = nil })
	}
	if d.Status.ObservedGeneration != d.Generation {
		try(func() { d.Status.ObservedGeneration = d.Generation })
	}
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil {
		for _, v := range []*int32{&ru.MaxSurge.IntVal, &ru.MaxUnavailable.IntVal} {
			if *v > 1 {
				number(val(v))
			}
		}
		if ru.MaxSurge.Type != 0 {
			try(func() { ru.MaxSurge.Type, ru.MaxSurge.StrVal, ru.MaxSurge.IntVal = 0, "", 1 })
		}
		if ru.MaxUnavailable.Type != 0 {
			try(func() { ru.MaxUnavailable.Type, ru.MaxUnavailable.StrVal, ru.MaxUnavailable.IntVal = 0, "", 1 })
		}
	}
	number(val(d.Spec.Replicas))
	for _, p := range []*int32{&d.Status.Replicas, &d.Status.UpdatedReplicas, &d.Status.ReadyReplicas, &d.Status.AvailableReplicas, &d.Status.UnavailableReplicas} {
		number(val(p))
	}

	for _, rs := range c.ReplicaSets {
		meta(&rs.ObjectMeta)
		for k := range rs.Status.Conditions {
			try(func() {
				rs.Status.Conditions = append(rs.Status.Conditions[:k:k], rs.Status.Conditions[k+1:]...)
			})
		}
		for k := range rs.OwnerReferences {
			if len(rs.OwnerReferences) > 1 {
				try(func() { rs.OwnerReferences = append(rs.OwnerReferences[:k:k], rs.OwnerReferences[k+1:]...) })
			}
		}
		if *terminatingOf(&rs.Status) != nil {
			try(func() { *terminatingOf(&rs.Status) = nil })
		}
		if rs.Status.ObservedGeneration != rs.Generation {
			try(func() { rs.Status.ObservedGeneration = rs.Generation })
		}
		number(val(rs.Spec.Replicas))
		for _, p := range []*int32{&rs.Status.AvailableReplicas, &rs.Status.ReadyReplicas, &rs.Status.FullyLabeledReplicas, &rs.Status.Replicas} {
			number(val(p))
		}
	}

	// templates: remove a part from all of them, so that equal ones stay equal
	ts := []*corev1.PodTemplateSpec{&d.Spec.Template}
	for _, rs := range c.ReplicaSets {
		ts = append(ts, &rs.Spec.Template)
	}
	each := func(part func(*corev1.PodTemplateSpec) any) {
		set := false
		for _, t := range ts {
			set = set || !reflect.ValueOf(part(t)).Elem().IsZero()
		}
		if set {
			try(func() {
				for _, t := range ts {
					reflect.ValueOf(part(t)).Elem().SetZero()
				}
			})
		}
	}
	each(func(t *corev1.PodTemplateSpec) any { return &t.Annotations })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Name })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.InitContainers })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Volumes })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Affinity })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Overhead })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Resources })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.TopologySpreadConstraints })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.HostAliases })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.AutomountServiceAccountToken })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].Env })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].Resources })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].Ports })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].ReadinessProbe })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].Lifecycle })
	each(func(t *corev1.PodTemplateSpec) any { return &t.Spec.Containers[0].SecurityContext })
	return out, i < n
}
