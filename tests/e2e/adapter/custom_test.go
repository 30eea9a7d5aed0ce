package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

var plannedDeployments = schema.GroupVersionResource{Group: "apps.rollplan.dev", Version: "v1alpha1", Resource: "planneddeployments"}

// TestCustomResource rolls out PlannedDeployments while Kubernetes' own controller runs and rolls out Deployments.
func TestCustomResource(t *testing.T) {
	ctx := withTimeout(t, 12*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, CustomResource)
	c := custom{kubectl{s, "default"}}

	c.refused(ctx, t)

	// cpu: 1000m is 1 to the API server, which also fills in a dozen defaults when the ReplicaSet is created.
	c.create(ctx, t, "web", map[string]any{"replicas": 3}, map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}}})
	c.run(ctx, t, "wait", "--for=condition=Available", "pdeploy/web", "--timeout="+waitTimeout)
	c.complete(ctx, t, "web", 1)
	if out := c.run(ctx, t, "get", "pdeploy", "web"); !strings.Contains(out, "DESIRED") || !strings.Contains(out, "AVAILABLE") || strings.Count(out, " 3 ") != 4 {
		t.Errorf("columns:\n%s", out)
	}

	// Beside it, Kubernetes' own: each leaves the other's alone.
	c.run(ctx, t, "create", "deployment", "native", "--image=registry.example/native:1", "--replicas=2")
	c.rolledOut(ctx, t, "native")

	c.patch(ctx, t, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:2"}]}}}}`)
	c.complete(ctx, t, "web", 2)
	c.pods(ctx, t, "web", "2", 3)
	c.run(ctx, t, "scale", "pdeploy/web", "--replicas=5")
	c.complete(ctx, t, "web", 2)
	c.pods(ctx, t, "web", "2", 5)

	// Pause, resume and restart, which `kubectl rollout` refuses for kinds it does not know.
	c.patch(ctx, t, "web", `{"spec":{"paused":true}}`)
	c.patch(ctx, t, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:3"}]}}}}`)
	c.run(ctx, t, "wait", "--for=jsonpath={.status.observedGeneration}="+fmt.Sprint(c.get(ctx, t, "web").GetGeneration()), "pdeploy/web", "--timeout="+waitTimeout)
	c.pods(ctx, t, "web", "2", 5)
	c.patch(ctx, t, "web", `{"spec":{"paused":false}}`)
	c.complete(ctx, t, "web", 3)
	c.pods(ctx, t, "web", "3", 5)
	c.patch(ctx, t, "web", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}`)
	c.complete(ctx, t, "web", 4)

	c.commands(ctx, t)
	c.autoscale(ctx, t)
	c.templateRefused(ctx, t)
	c.recreate(ctx, t)

	if d, err := s.Typed.AppsV1().Deployments("default").Get(ctx, "native", metav1.GetOptions{}); err != nil || d.Annotations["deployment.kubernetes.io/revision"] != "1" || d.Generation != 1 {
		t.Errorf("the Deployment beside it was touched: %v %v", err, d)
	}
	c.run(ctx, t, "delete", "pdeploy/web", "--timeout="+waitTimeout)
	c.run(ctx, t, "wait", "--for=delete", "replicasets,pods", "-l", "app=web", "--timeout="+waitTimeout)
}

// custom works on PlannedDeployments.
type custom struct{ kubectl }

func manifest(name string, spec, container map[string]any) map[string]any {
	whole := map[string]any{"name": "main", "image": "registry.example/" + name + ":1"}
	for key, value := range container {
		whole[key] = value
	}
	object := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec":     map[string]any{"containers": []any{whole}},
		},
	}
	for key, value := range spec {
		object[key] = value
	}
	return map[string]any{
		"apiVersion": "apps.rollplan.dev/v1alpha1", "kind": "PlannedDeployment",
		"metadata": map[string]any{"name": name}, "spec": object,
	}
}

func (c custom) tryCreate(ctx context.Context, t *testing.T, name string, spec, container map[string]any) error {
	t.Helper()
	text, err := json.Marshal(manifest(name, spec, container))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.KubectlInput(ctx, string(text), "apply", "-n", c.namespace, "-f", "-")
	return err
}

func (c custom) create(ctx context.Context, t *testing.T, name string, spec, container map[string]any) {
	t.Helper()
	if err := c.tryCreate(ctx, t, name, spec, container); err != nil {
		t.Fatal(err)
	}
}

func (c custom) patch(ctx context.Context, t *testing.T, name, patch string) {
	t.Helper()
	c.run(ctx, t, "patch", "pdeploy/"+name, "--type=merge", "-p", patch)
}

func (c custom) get(ctx context.Context, t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := c.Dynamic.Resource(plannedDeployments).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// complete waits for a rollout to be complete and at rest, with this revision and as many ReplicaSets: a template is
// rolled out exactly once.
func (c custom) complete(ctx context.Context, t *testing.T, name string, revision int) {
	t.Helper()
	// A look that comes too soon would see what was complete before the change: the revision tells.
	await(ctx, t, fmt.Sprintf("revision %d of %s", revision, name), func(ctx context.Context) error {
		object, err := c.Dynamic.Resource(plannedDeployments).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if have := object.GetAnnotations()["deployment.kubernetes.io/revision"]; have != fmt.Sprint(revision) {
			return fmt.Errorf("revision is %q", have)
		}
		status, _, _ := unstructured.NestedMap(object.Object, "status")
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		if status["observedGeneration"] != object.GetGeneration() || status["availableReplicas"] != replicas ||
			status["updatedReplicas"] != replicas || status["replicas"] != replicas || status["selector"] != "app="+name {
			return fmt.Errorf("status is %v", status)
		}
		return nil
	})
	if sets := c.sets(ctx, t, name); len(sets) != revision {
		t.Fatalf("%s has %d ReplicaSets, want %d", name, len(sets), revision)
	}
}

// rollplan runs our command line on this namespace.
func (c custom) rollplan(ctx context.Context, t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binaries.Rollplan, append(args, "-n", c.namespace)...)
	cmd.Env = c.Env()
	return runCommand(t, cmd)
}

// commands are those of kubectl rollout, which refuses kinds that it does not know.
func (c custom) commands(ctx context.Context, t *testing.T) {
	t.Helper()
	if code, out, errOut := c.rollplan(ctx, t, "status", "pdeploy/web"); code != 0 || !strings.Contains(out, "successfully rolled out") {
		t.Fatalf("rollplan status ends with %d:\n%s%s", code, out, errOut)
	}
	code, out, errOut := c.rollplan(ctx, t, "history", "pdeploy/web")
	if code != 0 || !strings.Contains(out, "web:3") {
		t.Fatalf("rollplan history ends with %d:\n%s%s", code, out, errOut)
	}
	code, script, errOut := c.rollplan(ctx, t, "undo", "pdeploy/web", "--to-revision", "2", "-o", "kubectl")
	if code != 0 {
		t.Fatalf("rollplan undo ends with %d:\n%s", code, errOut)
	}
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Env, cmd.Stdin = c.Env(), strings.NewReader(script)
	if code, out, errOut := runCommand(t, cmd); code != 0 {
		t.Fatalf("the commands of undo end with %d:\n%s\n%s%s", code, script, out, errOut)
	}
	await(ctx, t, "web to go back", func(ctx context.Context) error {
		object := c.get(ctx, t, "web")
		if revision := object.GetAnnotations()["deployment.kubernetes.io/revision"]; revision != "5" {
			return fmt.Errorf("revision is %s", revision)
		}
		return nil
	})
	c.pods(ctx, t, "web", "2", 5)
	if sets := c.sets(ctx, t, "web"); len(sets) != 4 {
		t.Fatalf("%d ReplicaSets after going back, want the 4 from before", len(sets))
	}
}

// autoscale has Kubernetes' own autoscaler find the pods through the scale subresource, and size them: to its minimum
// while there are no metrics, and to its maximum when all of them are twice as busy as they should be.
func (c custom) autoscale(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "busy", map[string]any{"replicas": 2}, map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}}})
	c.complete(ctx, t, "busy", 1)
	c.run(ctx, t, "autoscale", "pdeploy/busy", "--min=3", "--max=5", "--cpu-percent=50")
	c.pods(ctx, t, "busy", "1", 3)
	scale := c.run(ctx, t, "get", "--raw", "/apis/apps.rollplan.dev/v1alpha1/namespaces/"+c.namespace+"/planneddeployments/busy/scale")
	if !strings.Contains(scale, `"selector":"app=busy"`) || !strings.Contains(scale, `"replicas":3`) {
		t.Errorf("scale is %s", scale)
	}
	serveMetrics(ctx, t, c.System, "1") // which is what each container asks for
	c.pods(ctx, t, "busy", "1", 5)
	c.complete(ctx, t, "busy", 1)
	await(ctx, t, "the autoscaler to have seen the new pods", func(ctx context.Context) error {
		out := c.run(ctx, t, "get", "hpa/busy", "-o", "jsonpath={.status.currentReplicas} {.status.desiredReplicas} {.status.currentMetrics[0].resource.current.averageUtilization}")
		if out != "5 5 100" {
			return fmt.Errorf("current, wanted and used are %s", out)
		}
		return nil
	})
	c.run(ctx, t, "delete", "hpa/busy", "pdeploy/busy", "--timeout="+waitTimeout)
	c.run(ctx, t, "delete", "apiservice/v1beta1.metrics.k8s.io")
}

// templateRefused has the API server refuse a ReplicaSet: a condition and an event say why, and once it is mended the
// rollout goes on.
func (c custom) templateRefused(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "bad", map[string]any{"replicas": 1}, map[string]any{"imagePullPolicy": "Sometimes"})
	await(ctx, t, "a condition that says what is wrong", func(ctx context.Context) error {
		conditions, _, _ := unstructured.NestedSlice(c.get(ctx, t, "bad").Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["reason"] == "ReplicaSetCreateError" && strings.Contains(fmt.Sprint(fields["message"]), "imagePullPolicy") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", conditions)
	})
	await(ctx, t, "an event that says what is wrong", func(ctx context.Context) error {
		events, err := c.Typed.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=bad,reason=ReplicaSetCreateError"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, "imagePullPolicy") && event.InvolvedObject.Kind == "PlannedDeployment" {
				return nil
			}
		}
		return fmt.Errorf("events are %v", events.Items)
	})
	c.patch(ctx, t, "bad", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/bad:2"}]}}}}`)
	c.complete(ctx, t, "bad", 1)
	c.run(ctx, t, "delete", "pdeploy/bad", "--timeout="+waitTimeout)
}

// recreate waits for the old pods, of which the size of the ReplicaSet says nothing.
func (c custom) recreate(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "batch", map[string]any{"replicas": 2, "strategy": map[string]any{"type": "Recreate"}}, nil)
	c.complete(ctx, t, "batch", 1)
	watch := watchPods(ctx, t, c.System, c.namespace)
	if err := c.SetPods(ctx, controlplane.PodsHold); err != nil {
		t.Fatal(err)
	}
	c.patch(ctx, t, "batch", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/batch:2"}]}}}}`)
	await(ctx, t, "old pods of batch to be terminating", func(ctx context.Context) error {
		pods, err := c.Typed.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=batch"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil {
				return fmt.Errorf("pod %s is not", pod.Name)
			}
		}
		return nil
	})
	if err := c.SetPods(ctx, controlplane.PodsRun); err != nil {
		t.Fatal(err)
	}
	c.complete(ctx, t, "batch", 2)
	watch.check(t, "old and new pods of batch never exist together", func(pods map[string]*corev1.Pod) bool {
		images := map[string]bool{}
		for _, pod := range pods {
			if pod.Labels["app"] == "batch" {
				images[pod.Spec.Containers[0].Image] = true
			}
		}
		return len(images) <= 1
	})
	c.run(ctx, t, "delete", "pdeploy/batch", "--timeout="+waitTimeout)
}

// refused tries specs that are wrong, and holds the messages against what a person would have to know.
func (c custom) refused(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, bad := range []struct {
		what string
		spec map[string]any
		says string
	}{
		{"selector of another app", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "other"}}}, "spec.selector.matchLabels must match spec.template.metadata.labels"},
		{"expression of another app", map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "In", "values": []any{"other"}}}}}, "spec.selector.matchExpressions must match spec.template.metadata.labels"},
		{"expression that excludes", map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "DoesNotExist"}}}}, "spec.selector.matchExpressions must match spec.template.metadata.labels"},
		{"empty selector", map[string]any{"selector": map[string]any{}}, "spec.selector must select something"},
		{"no room to move", map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": 0, "maxUnavailable": "0%"}}}, "maxUnavailable and maxSurge cannot both be 0"},
		{"limits under Recreate", map[string]any{"strategy": map[string]any{"type": "Recreate", "rollingUpdate": map[string]any{"maxSurge": 1}}}, "rollingUpdate goes with type RollingUpdate only"},
		{"more than all unavailable", map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": "101%"}}}, "maxUnavailable"},
		{"a deadline that ready pods miss", map[string]any{"minReadySeconds": 60, "progressDeadlineSeconds": 60}, "must be greater than spec.minReadySeconds"},
		{"negative size", map[string]any{"replicas": -1}, "spec.replicas"},
		{"unknown strategy", map[string]any{"strategy": map[string]any{"type": "Canary"}}, `"RollingUpdate", "Recreate"`},
	} {
		err := c.tryCreate(ctx, t, "wrong", bad.spec, nil)
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v, want %q", bad.what, err, bad.says)
		}
	}
	c.create(ctx, t, "right", map[string]any{"replicas": 0, "selector": map[string]any{"matchExpressions": []any{
		map[string]any{"key": "app", "operator": "In", "values": []any{"right", "wrong"}},
		map[string]any{"key": "beta", "operator": "NotIn", "values": []any{"yes"}},
	}}}, nil)
	if _, err := c.Kubectl(ctx, "patch", "pdeploy/right", "-n", c.namespace, "--type=merge", "-p",
		`{"spec":{"selector":{"matchExpressions":null,"matchLabels":{"app":"right"}}}}`); err == nil || !strings.Contains(err.Error(), "spec.selector cannot be changed") {
		t.Errorf("another selector: %v", err)
	}
	c.run(ctx, t, "delete", "pdeploy/right", "--timeout="+waitTimeout)
}
