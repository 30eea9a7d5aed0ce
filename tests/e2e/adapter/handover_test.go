package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestSwitchControllers checks that each controller finishes a rollout that the other one has started.
func TestSwitchControllers(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 10*time.Minute)
	s := install(ctx, t, controlplane.Options{NativeController: true}, Takeover)
	h := controllerSwitch{kubectl{s, "default"}}
	h.run(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1", "--replicas=4")
	h.rolledOut(ctx, t, "web")

	// From the native controller to the adapter.
	before := h.startRollout(ctx, t, "2")
	if err := s.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAdapter("adapter", "--leader-elect=false"); err != nil {
		t.Fatal(err)
	}
	h.finish(ctx, t, before, "2")

	// From the adapter back to the native controller.
	before = h.startRollout(ctx, t, "3")
	if err := s.Adapter("adapter").Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.SetNativeController(ctx, true); err != nil {
		t.Fatal(err)
	}
	h.finish(ctx, t, before, "3")

	// Between rollouts, a switch changes nothing.
	if err := s.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartAdapter("adapter"); err != nil {
		t.Fatal(err)
	}
	pods := h.podsByUID(ctx, t)
	h.run(ctx, t, "scale", "deployment/web", "--replicas=5")
	h.rolledOut(ctx, t, "web")
	h.checkKept(ctx, t, pods, "3")
}

// TestNativeControllerConflict starts an adapter although the native controller is running. The adapter must report the
// conflict and not change the Deployment.
func TestNativeControllerConflict(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 5*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, Takeover)
	k := kubectl{s, "default"}
	k.run(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1", "--replicas=2")
	k.rolledOut(ctx, t, "web")
	await(ctx, t, "the event NativeController", func(ctx context.Context) error {
		// A single rollout may be complete before the adapter first observes the Deployment, or within one second, which
		// is the resolution of timestamps in managedFields.
		if _, err := s.Kubectl(ctx, "set", "image", "deployment/web", fmt.Sprintf("web=registry.example/web:%d", time.Now().UnixNano())); err != nil {
			return err
		}
		events, err := s.Typed.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=NativeController"})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("not found")
		}
		return err
	})
}

// TestNativeControllerProbe starts an adapter while the native controller is running. The adapter must not write anything
// until the native controller is disabled, and must stop when it is enabled again.
func TestNativeControllerProbe(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 5*time.Minute)
	s := install(ctx, t, controlplane.Options{NativeController: true}, Takeover)
	// The native controller has a single instance here, so the probe need not outlast a leader election.
	if err := s.StartAdapter("adapter", "--leader-elect=false", "--native-controller-probe=6s"); err != nil {
		t.Fatal(err)
	}
	k := kubectl{s, "default"}
	k.run(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1", "--replicas=4")
	k.rolledOut(ctx, t, "web")
	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:2")
	k.rolledOut(ctx, t, "web")
	await(ctx, t, "the adapter to notice the native controller", logContains(s.Adapter("adapter"), "Stopped the work on all Deployments"))
	if writers := k.writers(ctx, t, "web"); slices.ContainsFunc(writers, isAdapter) {
		t.Errorf("writers of the ReplicaSets are %v", writers)
	}

	if err := s.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	k.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:3")
	k.rolledOut(ctx, t, "web")
	if writers := k.writers(ctx, t, "web"); !slices.ContainsFunc(writers, isAdapter) {
		t.Errorf("writers of the ReplicaSets are %v", writers)
	}
	k.complies(ctx, t, "rollplan-native-controller-probe")
	if sets, err := s.Typed.AppsV1().ReplicaSets(systemNamespace).List(ctx, metav1.ListOptions{}); err != nil || len(sets.Items) != 0 {
		t.Errorf("the probe has ReplicaSets: %v, %v", sets, err)
	}

	log, err := os.ReadFile(s.Adapter("adapter").Log())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetNativeController(ctx, true); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the adapter to notice the native controller again", func(context.Context) error {
		now, err := os.ReadFile(s.Adapter("adapter").Log())
		if err == nil && !strings.Contains(string(now[len(log):]), "Stopped the work on all Deployments") {
			err = errors.New("the log does not report it")
		}
		return err
	})
}

// complies checks that the API server would accept pods of the probe in its namespace, which enforces the restricted Pod
// Security Standard: it warns about a Deployment that violates the standard.
func (k kubectl) complies(ctx context.Context, t *testing.T, probe string) {
	t.Helper()
	namespace, err := k.Typed.CoreV1().Namespaces().Get(ctx, systemNamespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Fatalf("the namespace enforces %q", level)
	}
	deployment, err := k.Typed.AppsV1().Deployments(systemNamespace).Get(ctx, probe, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: probe}, Spec: deployment.Spec.Template.Spec}
	if _, err := k.Typed.CoreV1().Pods(systemNamespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a pod of the probe: %v", err)
	}
}

// writers returns the field managers of the ReplicaSets of a Deployment.
func (k kubectl) writers(ctx context.Context, t *testing.T, name string) (writers []string) {
	t.Helper()
	for _, set := range k.sets(ctx, t, name) {
		for _, entry := range set.ManagedFields {
			writers = append(writers, entry.Manager)
		}
	}
	return writers
}

// isAdapter reports whether a field manager is an adapter. Some use a name of their own, others the one in the calls of plans.
func isAdapter(manager string) bool { return manager == "rollplan-controller" || manager == "rollplan" }

// logContains returns a condition for await.
func logContains(program *controlplane.Program, text string) func(context.Context) error {
	return func(context.Context) error {
		log, err := os.ReadFile(program.Log())
		if err == nil && !strings.Contains(string(log), text) {
			err = fmt.Errorf("%q is not in %s", text, program.Log())
		}
		return err
	}
}

type controllerSwitch struct{ kubectl }

// startRollout starts a rollout to an image tag and waits until it is in progress, with new pods that do not start. It
// returns the pods by UID.
func (h controllerSwitch) startRollout(ctx context.Context, t *testing.T, tag string) map[types.UID]string {
	t.Helper()
	if err := h.SetPods(ctx, controlplane.PodsHoldNew); err != nil {
		t.Fatal(err)
	}
	h.run(ctx, t, "set", "image", "deployment/web", "web=registry.example/web:"+tag)
	await(ctx, t, "the rollout of web to be in progress", func(ctx context.Context) error {
		d, err := h.Typed.AppsV1().Deployments(h.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		// 4 replicas with maxSurge 1 and maxUnavailable 1: 3 old pods and 2 new ones.
		if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != 5 || s.UpdatedReplicas != 2 || s.AvailableReplicas != 3 {
			return fmt.Errorf("status is %+v", s)
		}
		return nil
	})
	return h.podsByUID(ctx, t)
}

// finish lets pods start, waits for the rollout to complete, and checks that the new pods from before still exist.
func (h controllerSwitch) finish(ctx context.Context, t *testing.T, before map[types.UID]string, revision string) {
	t.Helper()
	if err := h.SetPods(ctx, controlplane.PodsRun); err != nil {
		t.Fatal(err)
	}
	h.rolledOut(ctx, t, "web")
	h.checkKept(ctx, t, before, revision)
}

// checkKept checks that the earlier pods of the current revision still exist, and that each revision has exactly one
// ReplicaSet.
func (h controllerSwitch) checkKept(ctx context.Context, t *testing.T, before map[types.UID]string, revision string) {
	t.Helper()
	after := h.podsByUID(ctx, t)
	for uid, image := range before {
		if image == "registry.example/web:"+revision && after[uid] == "" {
			t.Errorf("a pod of revision %s was replaced", revision)
		}
	}
	d, err := h.Typed.AppsV1().Deployments(h.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if have := d.Annotations["deployment.kubernetes.io/revision"]; have != revision {
		t.Errorf("revision is %s, want %s", have, revision)
	}
	revisions := map[string]appsv1.ReplicaSet{}
	for _, set := range h.sets(ctx, t, "web") {
		revisions[set.Annotations["deployment.kubernetes.io/revision"]] = set
		if size := *set.Spec.Replicas; size > 0 != (set.Annotations["deployment.kubernetes.io/revision"] == revision) {
			t.Errorf("ReplicaSet %s has size %d", set.Name, size)
		}
	}
	if fmt.Sprint(len(revisions)) != revision || len(h.sets(ctx, t, "web")) != len(revisions) {
		t.Errorf("revisions are %v, want one ReplicaSet for each of 1 to %s", revisions, revision)
	}
}

func (h controllerSwitch) podsByUID(ctx context.Context, t *testing.T) map[types.UID]string {
	t.Helper()
	pods, err := h.Typed.CoreV1().Pods(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[types.UID]string{}
	for _, pod := range pods.Items {
		found[pod.UID] = pod.Spec.Containers[0].Image
	}
	return found
}
