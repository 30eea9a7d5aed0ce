package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// waitTimeout limits each wait of kubectl. On an idle machine, each takes a few seconds.
const waitTimeout = "120s"

// TestKubectl checks that all kubectl commands for Deployments work as they do with the native controller.
func TestKubectl(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 10*time.Minute)
	s := start(ctx, t, controlplane.Options{}, Takeover)
	k := kubectl{s, "default"}

	// Each step depends on the previous one, so the first failure ends the test.
	k.run(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1", "--replicas=3")
	k.run(ctx, t, "wait", "--for=condition=Available", "deployment/web", "--timeout="+waitTimeout)
	k.rolledOut(ctx, t, "web")
	k.run(ctx, t, "annotate", "deployment/web", "kubernetes.io/change-cause=first")

	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:2")
	k.rolledOut(ctx, t, "web")
	k.history(ctx, t, "web", "1", "2")

	k.run(ctx, t, "scale", "deployment/web", "--replicas=5")
	k.rolledOut(ctx, t, "web")
	k.pods(ctx, t, "web", "2", 5)

	k.run(ctx, t, "rollout", "undo", "deployment/web")
	k.rolledOut(ctx, t, "web")
	k.pods(ctx, t, "web", "1", 5)
	k.history(ctx, t, "web", "2", "3")
	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:3")
	k.rolledOut(ctx, t, "web")
	k.run(ctx, t, "rollout", "undo", "deployment/web", "--to-revision=2")
	k.rolledOut(ctx, t, "web")
	k.pods(ctx, t, "web", "2", 5)
	k.history(ctx, t, "web", "3", "4", "5")

	k.run(ctx, t, "rollout", "pause", "deployment/web")
	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:4")
	k.run(ctx, t, "scale", "deployment/web", "--replicas=4")
	k.observed(ctx, t, "web")
	k.pods(ctx, t, "web", "2", 4)
	k.history(ctx, t, "web", "3", "4", "5")
	k.run(ctx, t, "rollout", "resume", "deployment/web")
	k.rolledOut(ctx, t, "web")
	k.pods(ctx, t, "web", "4", 4)
	k.run(ctx, t, "rollout", "restart", "deployment/web")
	k.rolledOut(ctx, t, "web")
	k.history(ctx, t, "web", "3", "4", "5", "6", "7")

	// The image does not exist: kubectl must keep waiting and report why.
	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:404")
	k.observed(ctx, t, "web")
	if out, err := s.Kubectl(ctx, "rollout", "status", "deployment/web", "-n", k.namespace, "--timeout=2s"); err == nil || !strings.Contains(out, "Waiting for deployment") {
		t.Fatalf("kubectl rollout status of a stuck rollout: %v\n%s", err, out)
	}
	k.run(ctx, t, "rollout", "undo", "deployment/web")
	k.rolledOut(ctx, t, "web")
	k.events(ctx, t, "web")

	k.orphanAndAdopt(ctx, t)
	k.run(ctx, t, "delete", "deployment/web", "--cascade=foreground", "--timeout="+waitTimeout)
	k.run(ctx, t, "wait", "--for=delete", "pods", "-l", "app=web", "--timeout="+waitTimeout)
	if sets := k.sets(ctx, t, "web"); len(sets) > 0 {
		t.Errorf("%d ReplicaSets still exist", len(sets))
	}
}

// kubectl runs kubectl in one namespace.
type kubectl struct {
	*System
	namespace string
}

func (k kubectl) run(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	return k.MustKubectl(ctx, t, append(args, "-n", k.namespace)...)
}

func (k kubectl) rolledOut(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if out := k.run(ctx, t, "rollout", "status", "deployment/"+name, "--timeout="+waitTimeout); !strings.Contains(out, "successfully rolled out") {
		t.Fatalf("kubectl rollout status:\n%s", out)
	}
}

// observed waits until status.observedGeneration is current.
func (k kubectl) observed(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	await(ctx, t, name+" to be observed", func(ctx context.Context) error {
		d, err := k.Typed.AppsV1().Deployments(k.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && d.Status.ObservedGeneration != d.Generation {
			err = fmt.Errorf("generation %d, observed %d", d.Generation, d.Status.ObservedGeneration)
		}
		return err
	})
}

// pods waits until exactly this many pods exist, all with the same image tag.
func (k kubectl) pods(ctx context.Context, t *testing.T, name, tag string, want int) {
	t.Helper()
	await(ctx, t, fmt.Sprintf("%d pods of %s:%s", want, name, tag), func(ctx context.Context) error {
		pods, err := k.Typed.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		if len(pods.Items) != want {
			return fmt.Errorf("%d pods exist", len(pods.Items))
		}
		for _, pod := range pods.Items {
			if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+tag) {
				return fmt.Errorf("pod %s has image %s", pod.Name, image)
			}
		}
		return nil
	})
}

var revisionLine = regexp.MustCompile(`(?m)^(\d+)\s`)

func (k kubectl) history(ctx context.Context, t *testing.T, name string, want ...string) {
	t.Helper()
	out := k.run(ctx, t, "rollout", "history", "deployment/"+name)
	var have []string
	for _, match := range revisionLine.FindAllStringSubmatch(out, -1) {
		have = append(have, match[1])
	}
	if strings.Join(have, " ") != strings.Join(want, " ") {
		t.Fatalf("revisions are %v, want %v:\n%s", have, want, out)
	}
}

// events checks that kubectl describe shows the same events as with the native controller.
func (k kubectl) events(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	out := k.run(ctx, t, "describe", "deployment/"+name)
	if !strings.Contains(out, "ScalingReplicaSet") || !strings.Contains(out, "Scaled up replica set "+name+"-") {
		t.Errorf("kubectl describe does not show ScalingReplicaSet:\n%s", out)
	}
}

func (k kubectl) sets(ctx context.Context, t *testing.T, name string) []appsv1.ReplicaSet {
	t.Helper()
	sets, err := k.Typed.AppsV1().ReplicaSets(k.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return sets.Items
}

// orphanAndAdopt deletes a Deployment but not its ReplicaSets, and checks that an equal Deployment adopts them.
func (k kubectl) orphanAndAdopt(ctx context.Context, t *testing.T) {
	t.Helper()
	var manifest map[string]any
	if err := json.Unmarshal([]byte(k.run(ctx, t, "get", "deployment/web", "-o", "json")), &manifest); err != nil {
		t.Fatal(err)
	}
	before := k.sets(ctx, t, "web")
	podsBefore := k.run(ctx, t, "get", "pods", "-l", "app=web", "-o", "name")
	k.run(ctx, t, "delete", "deployment/web", "--cascade=orphan", "--timeout="+waitTimeout)
	for _, set := range k.sets(ctx, t, "web") {
		if owner := metav1.GetControllerOf(&set); owner != nil {
			t.Fatalf("ReplicaSet %s still has owner %s", set.Name, owner.Name)
		}
	}
	delete(manifest, "status")
	manifest["metadata"] = map[string]any{"name": "web", "labels": map[string]any{"app": "web"}}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.KubectlInput(ctx, string(text), "create", "-n", k.namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	k.rolledOut(ctx, t, "web")
	d, err := k.Typed.AppsV1().Deployments(k.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	after := k.sets(ctx, t, "web")
	if len(after) != len(before) {
		t.Errorf("%d ReplicaSets before and %d after the adoption", len(before), len(after))
	}
	for _, set := range after {
		if !metav1.IsControlledBy(&set, d) {
			t.Errorf("ReplicaSet %s is not adopted", set.Name)
		}
	}
	if podsAfter := k.run(ctx, t, "get", "pods", "-l", "app=web", "-o", "name"); podsAfter != podsBefore {
		t.Errorf("pods before:\n%spods after:\n%s", podsBefore, podsAfter)
	}
}

// await polls until the condition holds, for at most as long as a rollout may take.
func await(ctx context.Context, t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := controlplane.Poll(ctx, what, cond); err != nil {
		t.Fatal(err)
	}
}
