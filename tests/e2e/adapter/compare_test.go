package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// settleTime is how long the objects must not change before the native controller counts as done.
const settleTime = 4 * time.Second

// deleteRevision is a step that deletes the ReplicaSet of a revision. The remaining revisions determine the next one. With
// `kubectl delete replicasets --all`, it would depend on the order of the hashes in the names, which differ between the
// controllers.
const deleteRevision = "delete-revision"

// scenarios are lists of kubectl commands on a Deployment named web, with 4 replicas.
var scenarios = []struct {
	name  string
	steps []string
}{
	{"update and undo", []string{"set image deployment/web main=registry.example/web:2", "rollout undo deployment/web", "rollout undo deployment/web"}},
	{"scale", []string{"scale deployment/web --replicas=7", "scale deployment/web --replicas=0", "scale deployment/web --replicas=2"}},
	{"pause", []string{"rollout pause deployment/web", "set image deployment/web main=registry.example/web:2", "scale deployment/web --replicas=6", "rollout resume deployment/web"}},
	{"stuck", []string{"set image deployment/web main=registry.example/web:404", "scale deployment/web --replicas=8", "scale deployment/web --replicas=3", "rollout undo deployment/web"}},
	{"rollover", []string{"set image deployment/web main=registry.example/web:404", "set image deployment/web main=registry.example/other:404", "set image deployment/web main=registry.example/web:2"}},
	{"recreate", []string{`patch deployment/web -p {"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`, "set image deployment/web main=registry.example/web:2"}},
	{"history", []string{`patch deployment/web -p {"spec":{"revisionHistoryLimit":1}}`, "set image deployment/web main=registry.example/web:2",
		"set image deployment/web main=registry.example/web:3", "set image deployment/web main=registry.example/web:4"}},
	{"annotations", []string{"annotate deployment/web example.com/a=1", "set image deployment/web main=registry.example/web:2", "annotate deployment/web example.com/a-"}},
	{"lost ReplicaSet", []string{"delete replicasets --all", "set image deployment/web main=registry.example/web:2"}},
	{"lost ReplicaSets, the old one first", []string{"set image deployment/web main=registry.example/web:2", deleteRevision + " 1", deleteRevision + " 2", "set image deployment/web main=registry.example/web:3"}},
	{"lost ReplicaSets, the new one first", []string{"set image deployment/web main=registry.example/web:2", deleteRevision + " 2", deleteRevision + " 1", "set image deployment/web main=registry.example/web:3"}},
	{"surge only", []string{`patch deployment/web -p {"spec":{"strategy":{"rollingUpdate":{"maxSurge":"50%","maxUnavailable":0}}}}`, "set image deployment/web main=registry.example/web:404"}},
	{"minReadySeconds", []string{`patch deployment/web -p {"spec":{"minReadySeconds":1}}`, "set image deployment/web main=registry.example/web:2"}},
}

// TestSameAsNative runs the scenarios with the native controller, and then with the adapter. After each step, the objects
// must become the same, apart from names, times and what only the API server decides.
func TestSameAsNative(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 20*time.Minute)
	var want [][]string // by step and scenario
	for _, native := range []bool{true, false} {
		t.Run(map[bool]string{true: "native", false: "adapter"}[native], func(t *testing.T) {
			s := install(ctx, t, controlplane.Options{NativeController: native}, Takeover)
			if !native {
				if err := s.StartAdapter("adapter", "--leader-elect=false"); err != nil {
					t.Fatal(err)
				}
			}
			for i := range scenarios {
				if err := s.CreateNamespace(ctx, scenarioNamespace(i)); err != nil {
					t.Fatal(err)
				}
			}
			// Each step runs in all scenarios before the next one, because most of the time is spent waiting.
			for step := range 5 {
				for i := range scenarios {
					runStep(ctx, t, s, i, step)
				}
				if native {
					want = append(want, settled(ctx, t, s))
					continue
				}
				for i, scenario := range scenarios {
					k := kubectl{s, scenarioNamespace(i)}
					k.becomes(ctx, t, fmt.Sprintf("%s, step %d", scenario.name, step), want[step][i])
				}
			}
		})
	}
}

func scenarioNamespace(index int) string { return "scenario-" + strconv.Itoa(index) }

// runStep runs a step of a scenario. Step 0 creates the Deployment.
func runStep(ctx context.Context, t *testing.T, s *System, scenario, step int) {
	t.Helper()
	k := kubectl{s, scenarioNamespace(scenario)}
	steps := scenarios[scenario].steps
	switch {
	case step == 0:
		if _, err := k.KubectlInput(ctx, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":4,
			"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"terminationGracePeriodSeconds":0,
			"containers":[{"name":"main","image":"registry.example/web:1"}]}}}}`, "create", "-n", k.namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	case step > len(steps):
	case strings.HasPrefix(steps[step-1], deleteRevision):
		_, revision, _ := strings.Cut(steps[step-1], " ")
		for _, set := range k.sets(ctx, t, "web") {
			if set.Annotations["deployment.kubernetes.io/revision"] == revision {
				k.run(ctx, t, "delete", "replicaset/"+set.Name)
			}
		}
	default:
		k.run(ctx, t, strings.Fields(steps[step-1])...)
	}
}

// settled returns the dumps of all scenarios once none of them has changed for a while.
func settled(ctx context.Context, t *testing.T, s *System) []string {
	t.Helper()
	dumps, since := make([]string, len(scenarios)), time.Now()
	await(ctx, t, "the native controller to finish", func(ctx context.Context) error {
		for i := range scenarios {
			now, err := kubectl{s, scenarioNamespace(i)}.dump(ctx)
			if err != nil {
				return err
			}
			if now != dumps[i] {
				dumps[i], since = now, time.Now()
			}
		}
		if unchanged := time.Since(since); unchanged < settleTime {
			return fmt.Errorf("something has changed %s ago", unchanged)
		}
		return nil
	})
	return dumps
}

// becomes waits until the dump of a namespace equals the given one.
func (k kubectl) becomes(ctx context.Context, t *testing.T, what, want string) {
	t.Helper()
	got := ""
	if err := controlplane.Poll(withDeadline(ctx, t, time.Minute), what, func(ctx context.Context) error {
		now, err := k.dump(ctx)
		if err != nil {
			return err
		}
		if got = now; got != want {
			return errors.New("not the same")
		}
		return nil
	}); err != nil {
		t.Errorf("%s: the native controller leaves\n%s\nthe adapter leaves\n%s", what, want, got)
	}
}

func withDeadline(ctx context.Context, t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	t.Cleanup(cancel)
	return ctx
}

// dump describes the Deployment, its ReplicaSets by revision, and the pods of each.
func (k kubectl) dump(ctx context.Context) (string, error) {
	d, err := k.Typed.AppsV1().Deployments(k.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	sets, err := k.Typed.AppsV1().ReplicaSets(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := k.Typed.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	lines := []string{describe(d)}
	for _, set := range sets.Items {
		lines = append(lines, describeSet(&set, pods.Items))
	}
	slices.Sort(lines[1:])
	dump := strings.Join(lines, "\n")
	for _, set := range sets.Items {
		// The hashes in names differ between the controllers.
		dump = strings.ReplaceAll(dump, set.Name, "web-revision-"+set.Annotations["deployment.kubernetes.io/revision"])
	}
	return dump, nil
}

func describe(d *appsv1.Deployment) string {
	status := d.Status.DeepCopy()
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		condition.LastUpdateTime, condition.LastTransitionTime = metav1.Time{}, metav1.Time{}
		// A rollout has begun. Whether the controller then reports progress depends on timing: it does not if the
		// new pods exist before its first update of the status.
		if slices.Contains([]string{"FoundNewReplicaSet", "NewReplicaSetCreated", "ReplicaSetUpdated"}, condition.Reason) {
			condition.Reason, condition.Message = "ReplicaSetUpdated", ""
		}
	}
	slices.SortFunc(status.Conditions, func(a, b appsv1.DeploymentCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	status.ObservedGeneration -= d.Generation
	return text(map[string]any{"annotations": d.Annotations, "replicas": d.Spec.Replicas, "template": d.Spec.Template, "status": status})
}

func describeSet(set *appsv1.ReplicaSet, pods []corev1.Pod) string {
	count := map[string]int{}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.UID == set.UID {
			count[fmt.Sprintf("available=%t", isAvailable(&pod))]++
		}
	}
	template := set.Spec.Template.DeepCopy()
	delete(template.Labels, "pod-template-hash")
	status := set.Status.DeepCopy()
	status.ObservedGeneration = 0
	return text(map[string]any{"revision": set.Annotations["deployment.kubernetes.io/revision"], "annotations": set.Annotations, "replicas": set.Spec.Replicas,
		"minReadySeconds": set.Spec.MinReadySeconds, "template": template, "status": status, "pods": count,
		"controlled": metav1.GetControllerOf(set) != nil})
}

func text(value any) string {
	encoded, err := json.Marshal(value) // the keys of maps are sorted
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
