package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// simulation simulates the life of a Deployment. Each step takes over the result of a pass, makes some progress in the
// ReplicaSet controller and the pods, and sometimes makes a change by a user. Each state is a snapshot to compare.
//
// `now` never changes, because the clock of upstream is global to the process. Instead, all timestamps move back.
type simulation struct {
	g       *generator
	w       *World
	version int
	healthy float64 // probability with which pods become ready
	busy    float64 // probability of a change by the user
	pace    int     // minimum number of seconds between two steps
}

func newSimulation(g *generator) *simulation {
	t := defaulted(g.baseTemplate())
	d := g.deployment(t)
	d.Status = appsv1.DeploymentStatus{}
	d.Annotations = pick(g, nil, map[string]string{"kubernetes.io/change-cause": "create"})
	d.DeletionTimestamp, d.Finalizers, d.DeletionGracePeriodSeconds = nil, nil, nil
	d.CreationTimestamp, d.Generation = g.ago(0), 1
	if len(d.Spec.Selector.MatchLabels)+len(d.Spec.Selector.MatchExpressions) == 0 {
		d.Spec.Selector.MatchLabels = map[string]string{"app": "web"}
	}
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil && zero(ru.MaxSurge) && zero(ru.MaxUnavailable) {
		ru.MaxSurge = ptr(intstr.FromInt32(1))
	}
	if g.p(0.8) {
		d.Spec.Paused = false
	}
	return &simulation{g: g, w: &World{Now: g.now, Deployment: d, PodsComplete: true}, version: 1, healthy: pick(g, 1, 0.9, 0.5, 0.1), busy: 0.18}
}

// step takes over the result of a pass and simulates what happens until the next one.
func (s *simulation) step(r *Result) {
	g := s.g
	s.w.Deployment = r.Deployment.DeepCopy()
	for i := range s.w.Deployment.Status.Conditions {
		c := &s.w.Deployment.Status.Conditions[i]
		s.nowInside(r, &c.LastUpdateTime)
		s.nowInside(r, &c.LastTransitionTime)
	}
	s.w.ReplicaSets = nil
	var sets []*appsv1.ReplicaSet
	for _, k := range sortedKeys(r.Sets) {
		sets = append(sets, r.Sets[k].DeepCopy())
	}
	// Sort by age instead of name, so that simulations with other names behave the same (rollouts.go).
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, rs := range sets {
		if rs.DeletionTimestamp != nil && g.p(0.5) {
			continue // its finalizer is removed
		}
		// UIDs must stay unique in the whole simulation.
		if len(rs.UID) > 28 && string(rs.UID)[24:31] == "created" {
			s.version++
			rs.UID = types.UID(fmt.Sprintf("a0000000-0000-0000-0000-%012d", s.version))
		}
		s.w.ReplicaSets = append(s.w.ReplicaSets, rs)
	}
	s.w.Refuse = RefuseNothing

	s.shift(max(s.pace, pick(g, 0, 1, 2, 5, 15, 40, 200, 700)))
	for _, rs := range s.w.ReplicaSets {
		s.replicaSetController(rs)
	}
	if g.p(s.busy) {
		s.user()
	}
	s.pods()
}

func (s *simulation) nowInside(r *Result, t *metav1.Time) {
	if !t.Time.Before(r.NowFrom) && !t.Time.After(r.NowTo) {
		*t = metav1.NewTime(s.w.Now.Truncate(time.Second))
	}
}

func (s *simulation) shift(seconds int) {
	back := func(t *metav1.Time) {
		if t != nil && !t.IsZero() {
			*t = metav1.NewTime(t.Add(-time.Duration(seconds) * time.Second))
		}
	}
	d := s.w.Deployment
	back(&d.CreationTimestamp)
	back(d.DeletionTimestamp)
	for i := range d.Status.Conditions {
		back(&d.Status.Conditions[i].LastUpdateTime)
		back(&d.Status.Conditions[i].LastTransitionTime)
	}
	for _, rs := range s.w.ReplicaSets {
		back(&rs.CreationTimestamp)
		back(rs.DeletionTimestamp)
		for i := range rs.Status.Conditions {
			back(&rs.Status.Conditions[i].LastTransitionTime)
		}
	}
}

func (s *simulation) replicaSetController(rs *appsv1.ReplicaSet) {
	g := s.g
	if g.p(0.15) { // the controller lags
		return
	}
	st := &rs.Status
	old := *st
	n := *rs.Spec.Replicas
	st.ObservedGeneration = rs.Generation
	gone := max(0, st.Replicas-n)
	*terminatingOf(st) = pick(g, ptr(gone), ptr(int32(0)))
	st.Replicas = n
	st.FullyLabeledReplicas = n
	st.ReadyReplicas = min(st.ReadyReplicas, n)
	for i := st.ReadyReplicas; i < n; i++ {
		if g.p(s.healthy * 0.6) {
			st.ReadyReplicas++
		}
	}
	if g.p(0.08) && s.busy > 0 && st.ReadyReplicas > 0 { // a pod becomes unready
		st.ReadyReplicas--
	}
	st.AvailableReplicas = min(st.AvailableReplicas, st.ReadyReplicas)
	if rs.Spec.MinReadySeconds == 0 || g.p(0.5) {
		st.AvailableReplicas = st.ReadyReplicas
	}
	if g.p(0.04) && s.busy > 0 {
		st.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "quota", LastTransitionTime: g.ago(0)}}
	} else if g.p(0.5) {
		st.Conditions = nil
	}
	if fmt.Sprint(old) != fmt.Sprint(*st) {
		rs.ResourceVersion += "1"
		if len(rs.ResourceVersion) > 12 {
			rs.ResourceVersion = rs.ResourceVersion[4:]
		}
	}
}

func (s *simulation) user() {
	g, d := s.g, s.w.Deployment
	d.Generation++
	d.ResourceVersion = fmt.Sprint(1000 + g.r.IntN(100000))
	annotate := func(k, v string) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[k] = v
	}
	switch g.r.IntN(16) {
	case 0, 1, 2, 3:
		d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", 1+g.r.IntN(6))
		annotate("kubernetes.io/change-cause", d.Spec.Template.Spec.Containers[0].Image)
	case 4, 5, 6:
		d.Spec.Replicas = ptr(g.size())
	case 7:
		d.Spec.Paused = !d.Spec.Paused
	case 8:
		d.Spec.Paused = false
		d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", 1+g.r.IntN(6))
	case 9:
		annotate(appsv1.DeprecatedRollbackTo, pick(g, "0", "1", "2", "3"))
	case 10:
		if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: g.intOrPercent(), MaxUnavailable: ptr(intstr.FromInt32(1))}}
		} else if g.p(0.5) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		} else {
			d.Spec.Strategy.RollingUpdate.MaxSurge = ptr(intstr.FromInt32(1 + g.r.Int32N(3)))
		}
	case 11:
		d.Spec.RevisionHistoryLimit = pick(g, ptr(int32(10)), ptr(int32(0)), ptr(int32(1)), ptr(int32(math.MaxInt32)))
	case 12:
		d.Spec.ProgressDeadlineSeconds = pick(g, ptr(int32(600)), ptr(int32(20)), ptr(int32(math.MaxInt32)))
	case 13:
		d.Spec.MinReadySeconds = g.r.Int32N(3)
	case 14: // the user changes a ReplicaSet
		if len(s.w.ReplicaSets) > 0 {
			rs := s.w.ReplicaSets[g.r.IntN(len(s.w.ReplicaSets))]
			rs.Generation++
			rs.ResourceVersion = fmt.Sprint(2_000_000 + g.r.IntN(100000))
			switch g.r.IntN(4) {
			case 0:
				rs.OwnerReferences = nil
			case 1:
				rs.Spec.Replicas = ptr(g.smallSize())
			case 2:
				rs.Labels = map[string]string{"app": "drifted"}
			case 3:
				delete(rs.Annotations, pick(g, util.DesiredReplicasAnnotation, util.MaxReplicasAnnotation, util.RevisionAnnotation))
			}
		}
	case 15:
		if g.p(0.2) {
			d.DeletionTimestamp, d.DeletionGracePeriodSeconds, d.Finalizers = ptr(g.ago(0)), ptr(int64(0)), []string{"foregroundDeletion"}
		} else {
			s.w.Refuse = pick(g, RefuseQuota, RefuseInvalid, RefuseTerminating)
			d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", 10+g.r.IntN(6))
		}
	}
}

// pods generates pods that match the counts of the ReplicaSets. Only Recreate depends on them.
func (s *simulation) pods() {
	s.w.Pods = nil
	if s.w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && s.g.p(0.5) {
		s.g.pods(s.w)
	}
}
