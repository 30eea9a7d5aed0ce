package verdict

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// history is a Deployment with the ReplicaSets of its namespace, and the target revision of a rollback.
type history struct {
	deployment *appsv1.Deployment
	sets       []*appsv1.ReplicaSet
	toRevision int64
}

const revisionAnnotation = "deployment.kubernetes.io/revision"

// newHistory returns a realistic history: after rollouts, rollbacks, cleanups and manual changes.
func newHistory(g *rand.Rand) history {
	h := history{deployment: newDeployment(g)}
	if g.IntN(2) == 0 {
		h.toRevision = g.Int64N(9)
	}
	for number := range g.IntN(7) {
		h.sets = append(h.sets, newReplicaSet(g, h.deployment, number))
	}
	return h
}

func newDeployment(g *rand.Rand) *appsv1.Deployment {
	replicas := g.Int32N(4)
	annotations := map[string]string{}
	for key, value := range map[string]string{
		revisionAnnotation:                 strconv.Itoa(g.IntN(9)),
		corev1.LastAppliedConfigAnnotation: `{"kind":"Deployment"}`,
		"kubernetes.io/change-cause":       "now",
		"example.com/team":                 "a",
	} {
		if g.IntN(3) > 0 {
			annotations[key] = value
		}
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "web-uid", ResourceVersion: "100", Generation: 9,
			Annotations: annotations,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Paused:   g.IntN(10) == 0,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: newTemplate(g),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		},
	}
}

// newTemplate returns one of a few templates, so that many ReplicaSets have equal ones.
func newTemplate(g *rand.Rand) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: fmt.Sprintf("web:%d", g.IntN(4))}},
		},
	}
	if g.IntN(4) == 0 {
		template.Annotations = map[string]string{"example.com/restarted": strconv.Itoa(g.IntN(2))}
	}
	if g.IntN(4) == 0 {
		template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: strconv.Itoa(g.IntN(2))}}
	}
	if g.IntN(8) == 0 {
		seconds := g.Int64N(2) * 30
		template.Spec.TerminationGracePeriodSeconds = &seconds
	}
	return template
}

func newReplicaSet(g *rand.Rand, owner *appsv1.Deployment, number int) *appsv1.ReplicaSet {
	hash := fmt.Sprintf("h%d", number)
	template := newTemplate(g)
	template.Labels["pod-template-hash"] = hash
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-" + hash, Namespace: owner.Namespace, UID: types.UID("set-" + hash),
			ResourceVersion: strconv.Itoa(number + 1), Generation: 1,
			Labels:            map[string]string{"app": "web", "pod-template-hash": hash},
			Annotations:       newSetAnnotations(g, number),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, g.IntN(4), 0, 0, 0, time.UTC)),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "pod-template-hash": hash}},
			Template: template,
		},
	}
	controls := true
	reference := metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID, Controller: &controls,
	}
	switch g.IntN(12) {
	case 0: // no owner
	case 1:
		reference.UID = "another"
		set.OwnerReferences = []metav1.OwnerReference{reference}
	case 2: // no longer selected
		set.Labels["app"] = "other"
		set.OwnerReferences = []metav1.OwnerReference{reference}
	default:
		set.OwnerReferences = []metav1.OwnerReference{reference}
	}
	return set
}

func newSetAnnotations(g *rand.Rand, number int) map[string]string {
	annotations := map[string]string{}
	revision := strconv.Itoa(number + 1)
	switch g.IntN(24) {
	case 0: // no revision
	case 1:
		annotations[revisionAnnotation] = "garbage"
	case 2:
		annotations[revisionAnnotation] = strconv.Itoa(g.IntN(5))
	default:
		annotations[revisionAnnotation] = revision
	}
	for key, value := range map[string]string{
		"deployment.kubernetes.io/revision-history": "1,2",
		"deployment.kubernetes.io/desired-replicas": "3",
		"deployment.kubernetes.io/max-replicas":     "4",
		"deprecated.deployment.rollback.to":         "1",
		corev1.LastAppliedConfigAnnotation:          `{"kind":"ReplicaSet"}`,
		"kubernetes.io/change-cause":                "kubectl set image web=" + revision,
		"example.com/team":                          "b",
		"example.com/note":                          revision,
	} {
		if g.IntN(3) == 0 {
			annotations[key] = value
		}
	}
	return annotations
}

// isCounted reports whether the Deployment owns and selects a ReplicaSet, and its revision is a number.
func (h history) isCounted(set *appsv1.ReplicaSet) bool {
	return metav1.IsControlledBy(set, h.deployment) && set.Labels["app"] == "web" && !isGarbage(set)
}

func isGarbage(set *appsv1.ReplicaSet) bool {
	return set.Annotations[revisionAnnotation] == "garbage"
}

// hasTwice reports whether two of the counted ReplicaSets have the same revision.
func (h history) hasTwice() bool {
	seen := map[string]bool{}
	for _, set := range h.sets {
		revision, isSet := set.Annotations[revisionAnnotation]
		if !isSet {
			revision = "0"
		}
		if h.isCounted(set) && seen[revision] {
			return true
		}
		seen[revision] = seen[revision] || h.isCounted(set)
	}
	return false
}
