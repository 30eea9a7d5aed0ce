package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"
)

// event is a change of one object. Versions of all resources come from one counter, so they give the order of the writes.
type event struct {
	version    uint64
	at         time.Time
	deployment *appsv1.Deployment
	set        *appsv1.ReplicaSet
	pod        *corev1.Pod
	deleted    bool
}

// limits are what a user allows from a generation on.
type limits struct {
	generation         int64
	surge, unavailable intstr.IntOrString
	// allowed is the surge that the policy of a canary allows in addition, if it is larger.
	allowed  intstr.IntOrString
	minReady int32
}

// bounds returns the highest sum of sizes and the lowest number of available pods, with the arithmetic of Kubernetes.
func (l limits) bounds(replicas int32) (ceiling, floor int32, err error) {
	surge, unavailable, err := deploymentutil.ResolveFenceposts(&l.surge, &l.unavailable, replicas)
	if err != nil {
		return 0, 0, err
	}
	allowed, err := intstr.GetScaledValueFromIntOrPercent(&l.allowed, int(replicas), true)
	return replicas + max(surge, int32(allowed)), replicas - min(unavailable, replicas), err
}

// namespaceLog has the changes in one namespace, as a watch of its own received them.
type namespaceLog struct {
	mu     sync.Mutex
	events []event
	// user are the limits of the user, oldest first.
	user []limits
	// deployment is the latest Deployment.
	deployment *appsv1.Deployment
}

func (l *namespaceLog) add(e event, meta *metav1.ObjectMeta) error {
	version, err := strconv.ParseUint(meta.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	e.version, e.at = version, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	if e.deployment != nil {
		l.deployment = e.deployment
	}
	return nil
}

// AddDeployment records a change. The Deployment is deleted with its namespace, when the case has ended.
func (l *namespaceLog) AddDeployment(d *appsv1.Deployment, deleted bool) error {
	if deleted {
		return nil
	}
	return l.add(event{deployment: d}, &d.ObjectMeta)
}

// AddReplicaSet records a change.
func (l *namespaceLog) AddReplicaSet(set *appsv1.ReplicaSet, deleted bool) error {
	return l.add(event{set: set, deleted: deleted}, &set.ObjectMeta)
}

// AddPod records a change.
func (l *namespaceLog) AddPod(pod *corev1.Pod, deleted bool) error {
	return l.add(event{pod: pod, deleted: deleted}, &pod.ObjectMeta)
}

// allow records the limits of the user from a generation on.
func (l *namespaceLog) allow(user limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.user = append(l.user, user)
}

// latest returns the latest Deployment and the number of events so far.
func (l *namespaceLog) latest() (*appsv1.Deployment, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deployment, len(l.events)
}

// heldLimits returns the limits that the steps of the hold have written.
func (l *namespaceLog) heldLimits() (held []*appsv1.RollingUpdateDeployment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	steps := 0
	for _, e := range l.events {
		if e.deployment == nil {
			continue
		}
		if state := stateOf(e.deployment); state.Phase == "hold" && state.number() > steps {
			steps = state.number()
			held = append(held, e.deployment.Spec.Strategy.RollingUpdate)
		}
	}
	return held
}

// sizesOf returns the sizes that ReplicaSets with an image have had, in order.
func (l *namespaceLog) sizesOf(image string) (sizes []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.set == nil || e.deleted || e.set.Spec.Template.Spec.Containers[0].Image != image {
			continue
		}
		if size := *e.set.Spec.Replicas; len(sizes) == 0 || sizes[len(sizes)-1] != size {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// raises returns how many steps have begun after the first one.
func (l *namespaceLog) raises() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := canaryState{}
	for _, e := range l.events {
		if e.deployment == nil {
			continue
		}
		state := stateOf(e.deployment)
		if state.follows(before) {
			count++
		}
		before = state
	}
	return count
}

// quiet returns how long nothing has changed.
func (l *namespaceLog) quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.events[len(l.events)-1].at)
}

// sizeOf returns the sum of the latest sizes of the ReplicaSets with an image.
func (l *namespaceLog) sizeOf(image string) (sum int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[types.UID]bool{}
	for _, e := range slices.Backward(l.events) {
		if e.set == nil || seen[e.set.UID] {
			continue
		}
		seen[e.set.UID] = true
		if !e.deleted && e.set.Spec.Template.Spec.Containers[0].Image == image {
			sum += *e.set.Spec.Replicas
		}
	}
	return sum
}

// part is the part of a rollout in which something happens.
type part string

const (
	hold      part = "hold"
	abort     part = "abort of a hold"
	promotion part = "promotion"
	undoing   part = "abort of a promotion"
	// scaled is a hold, or the abort of one, after the Deployment was scaled at the hold. The Deployment controller scales without
	// regard to availability, and rounds the share of the canary.
	scaled part = "hold or its abort, after scaling"
	// native is everything that the Deployment controller does without a canary, or after another client has put the fields of
	// the user back.
	native part = "no canary"
)

// parts are all of them, in the order of reports.
var parts = []part{hold, abort, scaled, promotion, undoing, native}

const (
	annotation = "rollplan.dev/canary"
	label      = "rollplan.dev/canary"
	// heldMinReady is minReadySeconds of a Deployment with a held canary.
	heldMinReady = math.MaxInt32 - 1
)

// canaryState has the fields of the annotation that an observer needs.
type canaryState struct {
	Phase string `json:"phase"`
	Step  int    `json:"step"`
}

// stateOf returns the state of a canary. It is empty if there is none, or none that can be read.
func stateOf(d *appsv1.Deployment) (state canaryState) {
	if json.Unmarshal([]byte(d.Annotations[annotation]), &state) != nil {
		return canaryState{}
	}
	return state
}

// number returns the number of the step, from 1. A canary of one step does not have it.
func (s canaryState) number() int { return max(1, s.Step) }

// follows is true if a step has begun after the one of another state.
func (s canaryState) follows(before canaryState) bool {
	return s.Phase == "hold" && before.Phase == "hold" && s.number() > before.number()
}

// partOf returns the part in which a Deployment is, after another one.
func partOf(d *appsv1.Deployment, before part) part {
	state := stateOf(d)
	if _, found := d.Annotations[annotation]; found && state.Phase == "" {
		return before
	}
	held := d.Spec.MinReadySeconds == heldMinReady
	switch {
	case state.Phase == "promoting" && !held:
		return promotion
	case state.Phase == "aborting":
		if before == hold || before == abort {
			return abort
		}
		return undoing
	case held:
		return hold
	}
	return native
}

// violation is a finding of the observer that fails a case.
type violation struct {
	part part
	what string
}

func (v violation) String() string { return fmt.Sprintf("%s: %s", v.part, v.what) }

// verdict is what an observer finds in the changes of one namespace.
type verdict struct {
	violations []violation
	// increases and removals are the numbers of changes that were checked: sizes that grew, and available pods that were deleted.
	increases, removals int
}

// observedSet is a ReplicaSet, with the part, the time and the oldest possible generation of its last decrease.
type observedSet struct {
	name      string
	size      int32
	deleted   bool
	part      part
	since     int64
	decreased time.Time
}

// observedPod is a pod that is not terminating.
type observedPod struct {
	set   types.UID
	ready time.Time // zero if it is not
}

// failureWindow is how long before a decision a pod may have failed without the Deployment controller having seen it.
const failureWindow = 2 * time.Second

// judge checks all changes of a namespace, in the order of their writes:
//   - When a size grows, the sum of all sizes is not above the ceiling.
//   - When an available pod is deleted, the others are not fewer than the floor.
//   - The limits of the Deployment are never looser than those of the user.
//   - When a step of a canary begins, no size shrinks until the Deployment is written again, for example because it is scaled.
//
// The Deployment controller may still work with an earlier generation, down to the one that it has reported.
func (l *namespaceLog) judge() (v verdict, err error) {
	l.mu.Lock()
	events, user := slices.Clone(l.events), slices.Clone(l.user)
	l.mu.Unlock()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.version, b.version) })
	replicas := map[int64]int32{}
	sets, pods := map[types.UID]*observedSet{}, map[types.UID]*observedPod{}
	var failures []time.Time
	var generation, reported int64
	at, isScaled := native, false
	var before canaryState
	isRaised := false
	var size int32
	minReady := time.Duration(user[0].minReady) * time.Second
	extremes := func(since int64) (ceiling, floor int32, err error) {
		floor = math.MaxInt32
		for g := max(1, since); g <= generation; g++ {
			for i, u := range user {
				if u.generation > g || i+1 < len(user) && user[i+1].generation <= g {
					continue
				}
				high, low, err := u.bounds(replicas[g])
				if err != nil {
					return 0, 0, err
				}
				ceiling, floor = max(ceiling, high), min(floor, low)
			}
		}
		return ceiling, floor, nil
	}
	for _, e := range events {
		switch {
		case e.deployment != nil:
			state := stateOf(e.deployment)
			if generation != e.deployment.Generation {
				isRaised = state.follows(before)
			}
			before = state
			generation, reported = e.deployment.Generation, e.deployment.Status.ObservedGeneration
			replicas[generation] = *e.deployment.Spec.Replicas
			// A canary does not start in the same write as a change of the size.
			earlier := at
			at = partOf(e.deployment, at)
			isHeld := at == hold || at == abort
			isScaled = isHeld && (isScaled || earlier == hold && size != replicas[generation])
			size = replicas[generation]
			live := limits{minReady: e.deployment.Spec.MinReadySeconds, allowed: intstr.FromInt32(0),
				surge: *e.deployment.Spec.Strategy.RollingUpdate.MaxSurge, unavailable: *e.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable}
			high, low, err := live.bounds(replicas[generation])
			if err != nil {
				return v, err
			}
			ceiling, floor, err := extremes(generation)
			if err != nil {
				return v, err
			}
			if high > ceiling || low < floor {
				v.violations = append(v.violations, violation{at, fmt.Sprintf("limits of %d–%d pods, those of the user are %d–%d (generation %d)", low, high, floor, ceiling, generation)})
			}
		case e.set != nil:
			s := sets[e.set.UID]
			if s == nil {
				s = &observedSet{name: e.set.Name}
				sets[e.set.UID] = s
			}
			sizeBefore := s.size
			s.size, s.deleted = *e.set.Spec.Replicas, e.deleted
			if e.deleted {
				s.size = 0
			}
			if s.size < sizeBefore {
				s.part, s.since, s.decreased = at, reported, e.at
				if isScaled {
					s.part = scaled
				}
				if isRaised && !e.deleted {
					v.violations = append(v.violations, violation{hold, fmt.Sprintf("%s shrinks from %d to %d after a step has begun", s.name, sizeBefore, s.size)})
				}
			}
			if s.size <= sizeBefore {
				continue
			}
			v.increases++
			var sum int32
			for _, each := range sets {
				sum += each.size
			}
			ceiling, _, err := extremes(reported)
			if err != nil {
				return v, err
			}
			if sum > ceiling {
				v.violations = append(v.violations, violation{at, fmt.Sprintf("sizes of %d, at most %d are allowed (%s, generation %d of %d)", sum, ceiling, sizes(sets), reported, generation)})
			}
		case e.pod != nil:
			p := pods[e.pod.UID]
			if e.deleted || e.pod.DeletionTimestamp != nil {
				delete(pods, e.pod.UID)
				s := p.owner(sets)
				if s == nil || s.deleted || !p.isAvailable(e.at, minReady) {
					continue
				}
				v.removals++
				available := 0
				for _, each := range pods {
					if each.isAvailable(e.at, minReady) {
						available++
					}
				}
				failed := 0
				for _, failure := range failures {
					if failure.After(s.decreased.Add(-failureWindow)) {
						failed++
					}
				}
				_, floor, err := extremes(s.since)
				if err != nil {
					return v, err
				}
				if available < int(floor)-failed {
					v.violations = append(v.violations, violation{s.part, fmt.Sprintf("%d available pods, at least %d are required (after the deletion of %s; %s, generation %d of %d)",
						available, floor, e.pod.Name, sizes(sets), s.since, generation)})
				}
				continue
			}
			if p == nil {
				p = &observedPod{}
				if owner := metav1.GetControllerOf(e.pod); owner != nil {
					p.set = owner.UID
				}
				pods[e.pod.UID] = p
			}
			ready := readySince(e.pod)
			if ready.IsZero() && !p.ready.IsZero() {
				failures = append(failures, e.at)
			}
			p.ready = ready
		}
	}
	return v, nil
}

// sizes describes the sizes of the ReplicaSets.
func sizes(sets map[types.UID]*observedSet) string {
	var all []string
	for _, s := range sets {
		all = append(all, fmt.Sprintf("%s %d", s.name, s.size))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (p *observedPod) owner(sets map[types.UID]*observedSet) *observedSet {
	if p == nil {
		return nil
	}
	return sets[p.set]
}

func (p *observedPod) isAvailable(at time.Time, minReady time.Duration) bool {
	return p != nil && !p.ready.IsZero() && !at.Before(p.ready.Add(minReady))
}

// readySince returns since when a pod is ready, or zero.
func readySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
