package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

const (
	namespace     = "default"
	deploymentUID = types.UID("d0000000-0000-0000-0000-000000000001")
	otherUID      = types.UID("e0000000-0000-0000-0000-000000000002")
	hashLabel     = appsv1.DefaultDeploymentUniqueLabelKey
)

// quiet is a context with a logger that discards everything.
var quiet = klog.NewContext(context.Background(), logr.Discard())

// generator generates random worlds. All randomness comes from r, so the same seed gives the same worlds.
type generator struct {
	r   *rand.Rand
	now time.Time
}

func newGenerator(seed, unit uint64, now time.Time) *generator {
	return &generator{r: rand.New(rand.NewPCG(seed, unit)), now: now}
}

func (g *generator) p(probability float64) bool { return g.r.Float64() < probability }

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

func (g *generator) ago(seconds int) metav1.Time {
	return metav1.NewTime(g.now.Add(-time.Duration(seconds) * time.Second).Truncate(time.Second))
}

func (g *generator) someTime() metav1.Time {
	return g.ago(pick(g, 0, 1, 5, 19, 20, 21, 30, 59, 60, 61, 300, 599, 600, 601, 3600, 86400, -1, -30))
}

func ptr[T any](v T) *T { return &v }

// --- templates

func (g *generator) baseTemplate() corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	c := &t.Spec.Containers[0]
	if g.p(0.3) {
		t.Labels["tier"] = pick(g, "front", "back")
	}
	if g.p(0.3) {
		c.Env = []corev1.EnvVar{{Name: "A", Value: pick(g, "", "1")}, {Name: "B", Value: "x"}}
	}
	if g.p(0.3) {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(g, "1", "100m")), corev1.ResourceMemory: resource.MustParse(pick(g, "1Gi", "1024"))}
	}
	if g.p(0.2) {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	}
	if g.p(0.2) {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}}
	}
	if g.p(0.2) {
		t.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if g.p(0.2) {
		t.Annotations = map[string]string{"note": pick(g, "a", "b", "")}
	}
	if g.p(0.1) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", NamespaceSelector: &metav1.LabelSelector{}}}}}}
	}
	if g.p(0.1) {
		t.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1", RestartPolicy: pick(g, nil, ptr(corev1.ContainerRestartPolicyAlways))}}
	}
	return t
}

// nearlyEqual makes a change to a template of which only the typed comparison shows whether it matters: empty or zero
// instead of absent values in pointer and value fields, other notations of quantities, order, and metadata.
func (g *generator) nearlyEqual(t *corev1.PodTemplateSpec) {
	c := &t.Spec.Containers[0]
	switch g.r.IntN(26) {
	case 0:
		t.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: pick(g, nil, []string{"a"})}}
	case 1:
		t.Spec.Affinity = &corev1.Affinity{}
	case 2:
		t.Spec.AutomountServiceAccountToken = ptr(false)
	case 3:
		t.Spec.TerminationGracePeriodSeconds = ptr(int64(0))
	case 4:
		c.SecurityContext = &corev1.SecurityContext{}
	case 5:
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{}}
	case 6:
		c.Lifecycle = &corev1.Lifecycle{}
	case 7:
		t.Spec.Resources = &corev1.ResourceRequirements{}
	case 8: // equal to case 9: another notation of the quantity
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ki")}
	case 9:
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024")}
	case 10: // equal: empty map
		c.Resources.Limits = corev1.ResourceList{}
	case 11:
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}
	case 12: // equal: empty list
		c.Env = append([]corev1.EnvVar{}, c.Env...)
	case 13:
		if len(c.Env) > 1 {
			c.Env[0], c.Env[1] = c.Env[1], c.Env[0]
		} else {
			c.Env = []corev1.EnvVar{{Name: "A"}}
		}
	case 14:
		c.Env = append(c.Env, corev1.EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	case 15:
		t.Annotations = map[string]string{}
	case 16:
		t.Annotations = map[string]string{"note": ""}
	case 17:
		t.Spec.NodeSelector = map[string]string{}
	case 18:
		t.Spec.EnableServiceLinks = ptr(true)
	case 19:
		t.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(false)}
	case 20:
		t.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: pick(g, nil, ptr(resource.MustParse("0")), ptr(resource.MustParse("1Mi")), ptr(resource.MustParse("1024Ki")))}}}}
	case 21:
		t.Name = "named"
	case 22:
		t.Labels[hashLabel] = "user"
	case 23:
		t.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(g, "1", "1000m", "1.0", "1e0"))}
	case 24:
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: pick(g, nil, &metav1.LabelSelector{}), MatchLabelKeys: pick(g, nil, []string{}, []string{hashLabel})}}
	case 25:
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "side", Image: "side:1"})
	}
}

// defaulted applies the defaults of the API server to a template.
func defaulted(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: t, Selector: &metav1.LabelSelector{}}}
	legacyscheme.Scheme.Default(rs)
	return rs.Spec.Template
}

// storable reports whether a template passes the validation of the API server.
func storable(t corev1.PodTemplateSpec) bool {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: namespace},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr(int32(1)), Template: t, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	_, err := (&Server{sets: map[string]*appsv1.ReplicaSet{}}).createReplicaSet(rs)
	return err == nil
}

// templates returns the template of the Deployment, and then other versions and nearly equal variants of it.
func (g *generator) templates() []corev1.PodTemplateSpec {
	first := defaulted(g.baseTemplate())
	out := []corev1.PodTemplateSpec{first}
	for i := 2; i < 6; i++ {
		t := *first.DeepCopy()
		if g.p(0.35) {
			g.nearlyEqual(&t)
			if t = defaulted(t); !storable(t) {
				t = *first.DeepCopy()
			}
		} else {
			t.Spec.Containers[0].Image = fmt.Sprintf("web:%d", i)
		}
		out = append(out, t)
	}
	if g.p(0.15) { // use the variant for the Deployment
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// --- small values

func (g *generator) size() int32 {
	if g.p(0.03) {
		return pick(g, int32(100), 999, 1000, 12345, 33801)
	}
	return g.r.Int32N(13)
}

func (g *generator) smallSize() int32 {
	if g.p(0.3) {
		return 0
	}
	return g.size()
}

func (g *generator) intOrPercent() *intstr.IntOrString {
	var v intstr.IntOrString
	switch g.r.IntN(5) {
	case 0:
		v = intstr.FromString(pick(g, "0%", "1%", "10%", "25%", "33%", "50%", "99%", "100%"))
	case 1:
		v = intstr.FromString("25%")
	default:
		v = intstr.FromInt32(pick(g, int32(0), 0, 1, 1, 2, 3, 5, 20))
	}
	return &v
}

func (g *generator) number() string {
	return pick(g, "0", "1", "2", "3", "4", "5", "7", "10", "12", "13", "15", "20")
}

func (g *generator) sizeAnnotation(current int32) (string, bool) {
	switch {
	case g.p(0.7):
		return strconv.Itoa(int(current)), true
	case g.p(0.3):
		return "", false
	case g.p(0.5):
		return g.number(), true
	default:
		return pick(g, "+"+strconv.Itoa(int(current)), strconv.FormatInt(1<<32+int64(current), 10), "-1", "", "x", "007", "2147483647", "2147483648", "4294967295", " 3", "1e1", "0"), true
	}
}

func (g *generator) revision(i int) (string, bool) {
	switch {
	case g.p(0.78):
		return strconv.Itoa(i + 1), true
	case g.p(0.25):
		return "", false
	case g.p(0.5):
		return g.number(), true
	default:
		return pick(g, "x", "", "-1", "+4", "007", strings.Repeat("0", 2001)+"1", "99999999999", strconv.FormatInt(math.MaxInt64, 10), strconv.FormatInt(math.MaxInt64-1, 10), "9223372036854775808", "1.5", " 2"), true
	}
}

func (g *generator) history() string {
	switch g.r.IntN(6) {
	case 0:
		return ""
	case 1:
		return "1"
	case 2:
		return ",3"
	case 3: // just below, at and above the limit of 2000 characters
		return strings.Repeat("1000,", 399) + strings.Repeat("1", pick(g, 1, 2, 3, 4, 5, 6))
	case 4: // one element longer than the limit
		return strings.Repeat("1", 1998+g.r.IntN(4))
	default:
		return "1,3,5"
	}
}

var progressingReasons = []string{util.PausedDeployReason, util.ResumedDeployReason, util.TimedOutReason, util.NewRSAvailableReason, util.ReplicaSetUpdatedReason, util.NewReplicaSetReason, util.FoundNewRSReason, util.FailedRSCreateReason}

func (g *generator) deploymentConditions(d *appsv1.Deployment) {
	var cs []appsv1.DeploymentCondition
	if g.p(0.7) {
		status, reason, msg := corev1.ConditionTrue, util.MinimumReplicasAvailable, "Deployment has minimum availability."
		if g.p(0.4) {
			status, reason, msg = corev1.ConditionFalse, util.MinimumReplicasUnavailable, "Deployment does not have minimum availability."
		}
		cs = append(cs, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: status, Reason: reason, Message: msg, LastUpdateTime: g.someTime(), LastTransitionTime: g.someTime()})
	}
	if g.p(0.75) {
		reason := progressingReasons[g.r.IntN(len(progressingReasons))]
		status := corev1.ConditionTrue
		switch reason {
		case util.PausedDeployReason, util.ResumedDeployReason:
			status = corev1.ConditionUnknown
		case util.TimedOutReason, util.FailedRSCreateReason:
			status = corev1.ConditionFalse
		}
		if g.p(0.05) {
			status = pick(g, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)
		}
		cs = append(cs, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason, Message: "was " + reason, LastUpdateTime: g.someTime(), LastTransitionTime: g.someTime()})
	}
	if g.p(0.2) {
		cs = append(cs, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: pick(g, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse), Reason: pick(g, "FailedCreate", "FailedDelete"), Message: "quota", LastUpdateTime: g.someTime(), LastTransitionTime: g.someTime()})
	}
	if g.p(0.05) {
		cs = append(cs, appsv1.DeploymentCondition{Type: "Custom", Status: corev1.ConditionTrue, Reason: "Somebody", Message: "else's", LastUpdateTime: g.someTime(), LastTransitionTime: g.someTime()})
	}
	if g.p(0.02) && len(cs) > 0 { // the same type twice
		c := cs[g.r.IntN(len(cs))]
		c.Message = "again"
		cs = append(cs, c)
	}
	g.r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	d.Status.Conditions = cs
}

// --- the Deployment

func (g *generator) deployment(template corev1.PodTemplateSpec) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: namespace, UID: deploymentUID, ResourceVersion: "500", Generation: 1 + g.r.Int64N(9),
			CreationTimestamp: g.ago(100_000),
		},
		Spec: appsv1.DeploymentSpec{Replicas: ptr(g.size()), Template: template},
	}
	if g.p(0.01) { // so long that the name of the ReplicaSet is truncated
		d.Name = strings.Repeat("w", 250)
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	switch {
	case g.p(0.1):
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "old"}}}}
	case g.p(0.05):
		d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "gone", Operator: metav1.LabelSelectorOpDoesNotExist}, {Key: "app", Operator: metav1.LabelSelectorOpExists}, {Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"other"}}}
	case g.p(0.01):
		d.Spec.Selector = &metav1.LabelSelector{}
	}
	d.Labels = pick(g, nil, map[string]string{"app": "web"})
	legacyscheme.Scheme.Default(d)
	if g.p(0.25) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	} else if g.p(0.8) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: g.intOrPercent(), MaxUnavailable: g.intOrPercent()}
		ru := d.Spec.Strategy.RollingUpdate
		if zero(ru.MaxSurge) && zero(ru.MaxUnavailable) && g.p(0.9) { // invalid: both are zero
			ru.MaxUnavailable = ptr(intstr.FromInt32(1))
		}
	}
	if g.p(0.3) {
		d.Spec.MinReadySeconds = pick(g, int32(1), 10)
	}
	// Both have a default in apps/v1, so they are never absent.
	d.Spec.RevisionHistoryLimit = pick(g, ptr(int32(10)), ptr(int32(10)), ptr(int32(0)), ptr(int32(1)), ptr(int32(2)), ptr(int32(math.MaxInt32)))
	d.Spec.ProgressDeadlineSeconds = pick(g, ptr(int32(600)), ptr(int32(600)), ptr(int32(600)), ptr(int32(20)), ptr(int32(60)), ptr(int32(math.MaxInt32)), ptr(int32(math.MaxInt32-1)))
	d.Spec.Paused = g.p(0.15)
	if g.p(0.7) {
		d.Annotations = map[string]string{}
		if g.p(0.8) {
			d.Annotations[util.RevisionAnnotation] = pick(g, "1", "2", "3", "4", "5", "5", "x", "")
		}
		if g.p(0.2) {
			d.Annotations["kubernetes.io/change-cause"] = pick(g, "edit", "create", "")
		}
		if g.p(0.1) {
			d.Annotations["team"] = "a"
		}
		if g.p(0.1) {
			d.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
		}
		if g.p(0.03) {
			d.Annotations[pick(g, util.RevisionHistoryAnnotation, util.DesiredReplicasAnnotation, util.MaxReplicasAnnotation)] = "7"
		}
	}
	if g.p(0.1) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[appsv1.DeprecatedRollbackTo] = pick(g, "0", "0", "1", "2", "3", "4", "17", "garbage") // the conversion of the server drops "" and rejects "garbage"
	}
	if g.p(0.05) {
		d.DeletionTimestamp, d.DeletionGracePeriodSeconds, d.Finalizers = ptr(g.ago(5)), ptr(int64(0)), []string{"foregroundDeletion"}
	}
	if g.p(0.15) {
		d.Status.CollisionCount = ptr(g.r.Int32N(3))
	}
	g.deploymentConditions(d)
	return d
}

func zero(v *intstr.IntOrString) bool {
	return v == nil || v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && v.StrVal == "0%"
}

// --- ReplicaSets

type shape int

const (
	settled  shape = iota // the status matches the spec, and all pods are available
	moving                // a rollout in progress
	wild                  // any status that the API server accepts
	finished              // a complete rollout, so that the history is cleaned up
)

func (g *generator) replicaSet(i int, d *appsv1.Deployment, template corev1.PodTemplateSpec, sh shape, newest bool) *appsv1.ReplicaSet {
	hash := controller.ComputeHash(&template, d.Status.CollisionCount)
	if g.p(0.4) {
		hash = fmt.Sprintf("%x", g.r.Uint32())
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: cut(d.Name, hash), Namespace: namespace, UID: types.UID(fmt.Sprintf("a0000000-0000-0000-0000-%012d", i+1)),
			ResourceVersion: strconv.Itoa(100 + i), Generation: 1 + g.r.Int64N(6),
			CreationTimestamp: g.ago(50_000 - 1000*i),
			Labels:            map[string]string{hashLabel: hash}, Annotations: map[string]string{},
		},
		Spec: appsv1.ReplicaSetSpec{Template: *template.DeepCopy(), Selector: d.Spec.Selector.DeepCopy(), MinReadySeconds: d.Spec.MinReadySeconds},
	}
	if rs.Spec.Selector.MatchLabels == nil {
		rs.Spec.Selector.MatchLabels = map[string]string{}
	}
	rs.Spec.Selector.MatchLabels[hashLabel] = hash
	if rs.Spec.Template.Labels == nil {
		rs.Spec.Template.Labels = map[string]string{}
	}
	rs.Spec.Template.Labels[hashLabel] = hash
	for k, v := range template.Labels {
		if k != hashLabel {
			rs.Labels[k] = v
		}
	}
	if g.p(0.2) { // equal and unordered times
		rs.CreationTimestamp = g.ago(50_000 - 1000*g.r.IntN(4))
	}
	if g.p(0.01) {
		rs.CreationTimestamp = g.ago(-5)
	}

	g.ownership(rs, d)

	// sizes
	rs.Spec.Replicas = ptr(g.smallSize())
	if i > 0 && g.p(0.25) {
		rs.Spec.Replicas = ptr(*d.Spec.Replicas)
	}
	if sh == finished {
		rs.Spec.Replicas = ptr(int32(0))
		if newest || g.p(0.05) {
			rs.Spec.Replicas = ptr(*d.Spec.Replicas)
		}
	}
	n := *rs.Spec.Replicas
	st := &rs.Status
	st.ObservedGeneration = rs.Generation
	switch sh {
	case settled, finished:
		st.Replicas, st.FullyLabeledReplicas, st.ReadyReplicas, st.AvailableReplicas = n, n, n, n
	case moving:
		st.Replicas = n
		if g.p(0.2) {
			st.Replicas = max(0, n+g.r.Int32N(5)-2)
		}
		st.FullyLabeledReplicas = st.Replicas
		st.ReadyReplicas = g.r.Int32N(st.Replicas + 1)
		st.AvailableReplicas = st.ReadyReplicas
		if g.p(0.3) {
			st.AvailableReplicas = g.r.Int32N(st.ReadyReplicas + 1)
		}
	case wild:
		st.Replicas = g.smallSize()
		st.FullyLabeledReplicas = g.r.Int32N(st.Replicas + 1)
		st.ReadyReplicas = g.r.Int32N(st.Replicas + 1)
		st.AvailableReplicas = g.r.Int32N(st.ReadyReplicas + 1)
		if g.p(0.2) {
			st.ObservedGeneration = rs.Generation - g.r.Int64N(rs.Generation+1)
		}
	}
	if g.p(0.7) {
		*terminatingOf(st) = ptr(pick(g, int32(0), 0, 0, 1, 2))
	}
	if g.p(0.05) {
		st.ObservedGeneration = max(0, rs.Generation-1)
	}
	if g.p(0.03) { // not yet observed by the ReplicaSet controller
		*st = appsv1.ReplicaSetStatus{}
	}
	if g.p(0.08) {
		st.Conditions = append(st.Conditions, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: pick(g, "FailedCreate", "FailedDelete"), Message: "quota of " + rs.Name, LastTransitionTime: g.someTime()})
	}
	if g.p(0.02) {
		st.Conditions = append(st.Conditions, appsv1.ReplicaSetCondition{Type: "Other", Status: corev1.ConditionTrue, LastTransitionTime: g.someTime()})
	}

	// annotations
	if v, ok := g.sizeAnnotation(*d.Spec.Replicas); ok {
		rs.Annotations[util.DesiredReplicasAnnotation] = v
	}
	surge := util.MaxSurge(*d)
	if v, ok := g.sizeAnnotation(*d.Spec.Replicas + surge); ok {
		rs.Annotations[util.MaxReplicasAnnotation] = v
	}
	if v, ok := g.revision(i); ok {
		rs.Annotations[util.RevisionAnnotation] = v
	}
	if g.p(0.15) {
		rs.Annotations[util.RevisionHistoryAnnotation] = g.history()
	}
	for _, k := range sortedKeys(d.Annotations) {
		v := d.Annotations[k]
		if g.p(0.8) && k != util.RevisionAnnotation && k != appsv1.DeprecatedRollbackTo && k != util.DesiredReplicasAnnotation && k != util.MaxReplicasAnnotation {
			rs.Annotations[k] = v
		}
	}
	if g.p(0.05) {
		rs.Annotations["extra"] = "1"
	}
	if g.p(0.03) {
		rs.Annotations = nil
	}
	if g.p(0.1) {
		rs.Spec.MinReadySeconds = pick(g, int32(0), 1, 10)
	}
	if g.p(0.06) {
		rs.DeletionTimestamp, rs.DeletionGracePeriodSeconds, rs.Finalizers = ptr(g.ago(3)), ptr(int64(0)), []string{"foregroundDeletion"}
	} else if g.p(0.02) {
		rs.Finalizers = []string{"example.com/hold"}
	}
	if g.p(0.005) {
		rs.Namespace, rs.OwnerReferences = "elsewhere", nil // a snapshot may contain it; owners must be in the same namespace
	}
	return rs
}

func (g *generator) ownership(rs *appsv1.ReplicaSet, d *appsv1.Deployment) {
	ours := *metav1.NewControllerRef(d, deploymentGVK)
	other := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: otherUID, Controller: ptr(true), BlockOwnerDeletion: ptr(true)}
	friend := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "friend", UID: "f0000000-0000-0000-0000-000000000003"}
	switch n := g.r.IntN(100); {
	case n < 78:
		rs.OwnerReferences = []metav1.OwnerReference{ours}
	case n < 83: // orphan
	case n < 85: // orphan with another, non-controlling owner
		rs.OwnerReferences = []metav1.OwnerReference{friend}
	case n < 88: // owned by the Deployment and another object
		rs.OwnerReferences = pick(g, []metav1.OwnerReference{friend, ours}, []metav1.OwnerReference{ours, friend})
	case n < 92: // controlled by another Deployment
		rs.OwnerReferences = []metav1.OwnerReference{other}
	case n < 94: // controlled by another Deployment, with a non-controlling reference to ours
		mine := ours
		mine.Controller, mine.BlockOwnerDeletion = pick(g, nil, ptr(false)), nil
		rs.OwnerReferences = []metav1.OwnerReference{mine, other}
	case n < 97: // non-controlling reference to ours: an orphan to adopt
		mine := ours
		mine.Controller = pick(g, nil, ptr(false))
		mine.BlockOwnerDeletion = pick(g, nil, ptr(false), ptr(true))
		rs.OwnerReferences = []metav1.OwnerReference{mine}
	case n < 98: // only the uid matters, not the kind or name
		mine := ours
		mine.Kind, mine.Name = pick(g, "Deployment", "Thing"), "renamed"
		rs.OwnerReferences = []metav1.OwnerReference{mine}
	default: // an earlier Deployment of the same name with another uid
		mine := ours
		mine.UID = otherUID
		rs.OwnerReferences = []metav1.OwnerReference{mine}
	}
	if g.p(0.05) { // labels no longer match the selector
		switch g.r.IntN(3) {
		case 0:
			rs.Labels = nil
		case 1:
			rs.Labels["app"] = "drifted"
		case 2:
			delete(rs.Labels, hashLabel)
		}
	}
}

// cut returns the name of a ReplicaSet with a hash. As upstream does, it truncates the prefix so that the name has at most
// 253 characters.
func cut(name, hash string) string {
	if limit := 253 - 1 - len(hash); len(name) > limit {
		name = name[:limit]
	}
	return name + "-" + hash
}

// --- pods

func (g *generator) pods(w *World) {
	for _, rs := range w.ReplicaSets {
		n := int(min(rs.Status.Replicas, 2))
		if g.p(0.15) {
			n += g.r.IntN(2)
		}
		for i := 0; i < n; i++ {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: podName(rs.Name, i), Namespace: rs.Namespace, UID: types.UID(fmt.Sprintf("%s-%d", strings.Replace(string(rs.UID), "a0000000", "b0000000", 1), i)),
					ResourceVersion: "7", CreationTimestamp: g.ago(1000), Labels: rs.Spec.Template.Labels,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, replicaSetGVK)},
				},
				Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
				Status: corev1.PodStatus{Phase: pick(g, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodFailed, corev1.PodUnknown, "")},
			}
			if g.p(0.2) {
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr(g.ago(2)), ptr(int64(30))
			}
			if g.p(0.15) { // does not really belong to the ReplicaSet
				ref := &p.OwnerReferences[0]
				switch g.r.IntN(4) {
				case 0:
					ref.UID = "c0000000-0000-0000-0000-000000000009"
				case 1:
					ref.Kind = "StatefulSet"
				case 2:
					ref.Name = "renamed"
				case 3:
					ref.Controller = nil
				}
			}
			w.Pods = append(w.Pods, p)
		}
	}
}

// --- worlds

// World generates a random world.
func (g *generator) World() *World {
	ts := g.templates()
	d := g.deployment(ts[0])
	w := &World{Now: g.now, Deployment: d, PodsComplete: true}
	sh := pick(g, settled, moving, moving, wild, finished)
	used := map[string]bool{}
	n := g.r.IntN(6)
	if g.p(0.005) {
		n = 10 + g.r.IntN(10)
	}
	for i := 0; i < n; i++ {
		t := ts[1+g.r.IntN(len(ts)-1)]
		newest := i == n-1 && (g.p(0.5) || sh == finished)
		if newest || g.p(0.3) && sh != finished {
			t = ts[0]
		}
		rs := g.replicaSet(i, d, t, sh, newest)
		if used[rs.Name] {
			hash := fmt.Sprintf("%x", g.r.Uint32())
			rehash(rs, d.Name, hash)
		}
		used[rs.Name] = true
		w.ReplicaSets = append(w.ReplicaSets, rs)
	}
	if g.p(0.05) && len(w.ReplicaSets) > 0 { // the name that upstream will use is already in use
		rehash(w.ReplicaSets[g.r.IntN(len(w.ReplicaSets))], d.Name, controller.ComputeHash(&d.Spec.Template, d.Status.CollisionCount))
		w.ReplicaSets = withoutDuplicates(w.ReplicaSets)
	}
	if g.p(0.003) { // no ReplicaSet can match this selector
		d.Spec.Selector.MatchExpressions = append(d.Spec.Selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: hashLabel, Operator: metav1.LabelSelectorOpDoesNotExist})
		w.ReplicaSets = nil
	}
	if g.p(0.6) || sh == finished {
		g.calm(w)
	}
	g.deploymentStatus(w, sh)
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil && zero(ru.MaxSurge) && zero(ru.MaxUnavailable) {
		// The server rejects updates of this invalid spec, so avoid rollbacks and the check of the owner before adoptions.
		delete(d.Annotations, appsv1.DeprecatedRollbackTo)
		for _, rs := range w.ReplicaSets {
			if metav1.GetControllerOf(rs) == nil && rs.Namespace == namespace {
				rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentGVK)}
			}
		}
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || g.p(0.1) {
		g.pods(w)
	}
	if g.p(0.15) {
		w.Noise = g.r.Uint64() >> 12 // JSON keeps 53 bits
	}
	switch {
	case sh == finished && g.p(0.15):
		w.Refuse = pick(g, RefuseDelete, MissingDelete)
	case g.p(0.05):
		w.Refuse = pick(g, RefuseQuota, RefuseInvalid, RefuseTerminating, RefuseDelete, MissingDelete)
	}
	return w
}

// calm removes the reasons for an early write to the new ReplicaSet or the Deployment. Because the server enforces
// resourceVersion, such a write would end many passes of upstream before they reach later branches.
func (g *generator) calm(w *World) {
	d := w.Deployment
	mine := owned(w)
	if newRS := util.FindNewReplicaSet(d, mine); newRS != nil {
		_, old := util.FindOldReplicaSets(d, mine)
		revision := strconv.FormatInt(util.MaxRevision(klog.Background(), old)+1, 10)
		util.SetNewReplicaSetAnnotations(quiet, d, newRS, revision, true, 2000)
		newRS.Spec.MinReadySeconds = d.Spec.MinReadySeconds
		if g.p(0.05) { // adopted in this pass, so that later writes of upstream to it are stale
			newRS.OwnerReferences = nil
		}
		util.SetDeploymentRevision(d, newRS.Annotations[util.RevisionAnnotation])
	}
	progressing := -1
	for i, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			progressing = i
		}
	}
	if progressing < 0 {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: util.ReplicaSetUpdatedReason, LastUpdateTime: g.someTime(), LastTransitionTime: g.someTime()})
		progressing = len(d.Status.Conditions) - 1
	}
	c := &d.Status.Conditions[progressing]
	if d.Spec.Paused && c.Reason != util.TimedOutReason {
		c.Status, c.Reason = corev1.ConditionUnknown, util.PausedDeployReason
	}
	if !d.Spec.Paused && c.Reason == util.PausedDeployReason {
		c.Status, c.Reason = corev1.ConditionTrue, util.NewRSAvailableReason
	}
}

func withoutDuplicates(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	seen := map[string]bool{}
	var out []*appsv1.ReplicaSet
	for _, rs := range sets {
		if !seen[rs.Name] {
			out = append(out, rs)
		}
		seen[rs.Name] = true
	}
	return out
}

func rehash(rs *appsv1.ReplicaSet, owner, hash string) {
	rs.Name = cut(owner, hash)
	if _, ok := rs.Labels[hashLabel]; ok {
		rs.Labels[hashLabel] = hash
	}
	rs.Spec.Selector.MatchLabels[hashLabel] = hash
	rs.Spec.Template.Labels[hashLabel] = hash
}

// deploymentStatus sets the status of the Deployment: consistent with its ReplicaSets, outdated or arbitrary.
func (g *generator) deploymentStatus(w *World, sh shape) {
	d := w.Deployment
	st := &d.Status
	st.ObservedGeneration = d.Generation
	if g.p(0.15) {
		st.ObservedGeneration = max(0, d.Generation-1)
	}
	done := sh == finished && g.p(0.8)
	switch {
	case g.p(0.55) && !done:
		var terminating int32
		complete := true
		for _, rs := range w.ReplicaSets {
			if !metav1.IsControlledBy(rs, d) {
				continue
			}
			st.Replicas += rs.Status.Replicas
			st.ReadyReplicas += rs.Status.ReadyReplicas
			st.AvailableReplicas += rs.Status.AvailableReplicas
			st.UnavailableReplicas += max(0, *rs.Spec.Replicas-rs.Status.AvailableReplicas)
			if util.EqualIgnoreHash(&rs.Spec.Template, &d.Spec.Template) {
				st.UpdatedReplicas = rs.Status.Replicas
			}
			if count := *terminatingOf(&rs.Status); count == nil {
				complete = false
			} else {
				terminating += *count
			}
		}
		if complete {
			*terminatingOf(st) = &terminating
		}
	case done || g.p(0.4): // complete according to the status, so that the history is cleaned up
		n := *d.Spec.Replicas
		st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.ObservedGeneration = n, n, n, n, d.Generation
		*terminatingOf(st) = pick(g, nil, ptr(int32(0)))
	default:
		st.Replicas = g.size()
		st.UpdatedReplicas = g.r.Int32N(st.Replicas + 1)
		st.ReadyReplicas = g.r.Int32N(st.Replicas + 1)
		st.AvailableReplicas = g.r.Int32N(st.ReadyReplicas + 1)
		st.UnavailableReplicas = g.smallSize()
		*terminatingOf(st) = pick(g, nil, ptr(int32(0)), ptr(int32(2)))
	}
}

// podName returns a name of at most 253 characters. The API server also truncates the prefix of generated names.
func podName(replicaSet string, i int) string {
	suffix := fmt.Sprintf("-%d", i)
	return replicaSet[:min(len(replicaSet), 253-len(suffix))] + suffix
}
