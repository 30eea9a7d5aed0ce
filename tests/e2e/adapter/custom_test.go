package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
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

// TestCustomResource manages PlannedDeployments while the native controller manages Deployments.
func TestCustomResource(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 12*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, CustomResource)
	c := plannedKubectl{kubectl{s, "default"}}

	c.validation(ctx, t)
	c.percentages(ctx, t)
	c.serverSideApply(ctx, t)
	c.typo(ctx, t)
	c.undoAndApply(ctx, t)
	c.newSchema(ctx, t)

	// When the ReplicaSet is created, the API server changes cpu: 1000m to 1 and adds a dozen defaults.
	c.create(ctx, t, "web", map[string]any{"replicas": 3}, map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}}})
	c.run(ctx, t, "wait", "--for=condition=Available", "pdeploy/web", "--timeout="+waitTimeout)
	c.complete(ctx, t, "web", 1)
	if out := c.run(ctx, t, "get", "pdeploy", "web"); !strings.Contains(out, "READY   UP-TO-DATE   AVAILABLE") || !strings.Contains(out, " 3/3 ") || strings.Count(out, " 3 ") != 2 {
		t.Errorf("columns:\n%s", out)
	}

	// The native controller and the adapter leave each other's objects alone.
	c.run(ctx, t, "create", "deployment", "native", "--image=registry.example/native:1", "--replicas=2")
	c.rolledOut(ctx, t, "native")

	c.patch(ctx, t, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:2"}]}}}}`)
	c.complete(ctx, t, "web", 2)
	c.pods(ctx, t, "web", "2", 3)
	c.run(ctx, t, "scale", "pdeploy/web", "--replicas=5")
	c.complete(ctx, t, "web", 2)
	c.pods(ctx, t, "web", "2", 5)

	// Pause, resume and restart. `kubectl rollout` does not support these for custom resources.
	c.patch(ctx, t, "web", `{"spec":{"paused":true}}`)
	c.patch(ctx, t, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:3"}]}}}}`)
	c.run(ctx, t, "wait", "--for=jsonpath={.status.observedGeneration}="+fmt.Sprint(c.get(ctx, t, "web").GetGeneration()), "pdeploy/web", "--timeout="+waitTimeout)
	c.pods(ctx, t, "web", "2", 5)
	c.patch(ctx, t, "web", `{"spec":{"paused":false}}`)
	c.complete(ctx, t, "web", 3)
	c.pods(ctx, t, "web", "3", 5)
	c.patch(ctx, t, "web", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}`)
	c.complete(ctx, t, "web", 4)

	c.rollplanCommands(ctx, t)
	c.autoscale(ctx, t)
	c.invalidTemplate(ctx, t)
	c.recreate(ctx, t)

	if d, err := s.Typed.AppsV1().Deployments("default").Get(ctx, "native", metav1.GetOptions{}); err != nil || d.Annotations["deployment.kubernetes.io/revision"] != "1" || d.Generation != 1 {
		t.Errorf("the native Deployment was changed: %v %v", err, d)
	}
	c.run(ctx, t, "delete", "pdeploy/web", "--timeout="+waitTimeout)
	c.run(ctx, t, "wait", "--for=delete", "replicasets,pods", "-l", "app=web", "--timeout="+waitTimeout)
}

// serverSideApply checks that two managers can own containers, variables and volumes of the same template, as in a Deployment.
func (c plannedKubectl) serverSideApply(ctx context.Context, t *testing.T) {
	t.Helper()
	apply := func(manager string, spec map[string]any, containers ...any) {
		t.Helper()
		object := manifest("shared", map[string]any{"replicas": 0}, nil)
		template := object["spec"].(map[string]any)["template"].(map[string]any)
		spec["containers"] = containers
		template["spec"] = spec
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.KubectlInput(ctx, string(text), "apply", "--server-side", "--field-manager="+manager, "-n", c.namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	variable := func(name string) any {
		return map[string]any{"name": name, "value": "1", "futureField": map[string]any{"a": 1}}
	}
	volume := func(name string) any { return map[string]any{"name": name, "emptyDir": map[string]any{}} }
	ports := func(numbers ...int) (ports []any) {
		for _, number := range numbers {
			ports = append(ports, map[string]any{"containerPort": number})
		}
		return ports
	}
	apply("one", map[string]any{"volumes": []any{volume("a")}, "futureField": 1}, map[string]any{"name": "main", "image": "main:1", "env": []any{variable("A")}, "ports": ports(80, 81)})
	apply("two", map[string]any{"volumes": []any{volume("b")}}, map[string]any{"name": "main", "env": []any{variable("B")}, "ports": ports(81, 82)}, map[string]any{"name": "sidecar", "image": "sidecar:1"})
	paths := `{.spec.template.spec.futureField} {.spec.template.spec.containers[0].ports[*].containerPort} {.spec.template.spec.containers[0].ports[*].protocol} ` +
		`{.spec.template.spec.containers[*].name} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[*].name}` +
		` {.spec.template.spec.containers[0].env[*].futureField.a} {.spec.template.spec.volumes[*].name}`
	if out := c.run(ctx, t, "get", "pdeploy/shared", "-o", "jsonpath="+paths); out != "1 80 81 82 TCP TCP TCP main sidecar main:1 A B 1 1 a b" {
		t.Errorf("the merged template has %q", out)
	}
	c.run(ctx, t, "delete", "pdeploy/shared", "--timeout="+waitTimeout)
}

// plannedKubectl runs kubectl on PlannedDeployments.
type plannedKubectl struct{ kubectl }

func manifest(name string, spec, container map[string]any) map[string]any {
	mainContainer := map[string]any{"name": "main", "image": "registry.example/" + name + ":1"}
	for key, value := range container {
		mainContainer[key] = value
	}
	fullSpec := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec":     map[string]any{"containers": []any{mainContainer}},
		},
	}
	for key, value := range spec {
		fullSpec[key] = value
	}
	return map[string]any{
		"apiVersion": "apps.rollplan.dev/v1alpha1", "kind": "PlannedDeployment",
		"metadata": map[string]any{"name": name}, "spec": fullSpec,
	}
}

func (c plannedKubectl) tryCreate(ctx context.Context, t *testing.T, name string, spec, container map[string]any) error {
	t.Helper()
	text, err := json.Marshal(manifest(name, spec, container))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.KubectlInput(ctx, string(text), "apply", "-n", c.namespace, "-f", "-")
	return err
}

func (c plannedKubectl) create(ctx context.Context, t *testing.T, name string, spec, container map[string]any) {
	t.Helper()
	if err := c.tryCreate(ctx, t, name, spec, container); err != nil {
		t.Fatal(err)
	}
}

func (c plannedKubectl) patch(ctx context.Context, t *testing.T, name, patch string) {
	t.Helper()
	c.run(ctx, t, "patch", "pdeploy/"+name, "--type=merge", "-p", patch)
}

func (c plannedKubectl) get(ctx context.Context, t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := c.Dynamic.Resource(plannedDeployments).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// complete waits until the rollout of a revision is complete. It fails the test unless the number of ReplicaSets equals
// the revision, that is, unless each template was rolled out exactly once.
func (c plannedKubectl) complete(ctx context.Context, t *testing.T, name string, revision int) {
	t.Helper()
	c.completeWith(ctx, t, name, revision, revision)
}

// completeWith is complete, with another number of ReplicaSets: a rollback uses that of the earlier revision.
func (c plannedKubectl) completeWith(ctx context.Context, t *testing.T, name string, revision, replicaSets int) {
	t.Helper()
	// Without the revision, the status from before the change could be mistaken for a complete rollout.
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
	if sets := c.sets(ctx, t, name); len(sets) != replicaSets {
		t.Fatalf("%s has %d ReplicaSets, want %d", name, len(sets), replicaSets)
	}
}

// rollplan runs the rollplan command line in the namespace, and returns its exit code, stdout and stderr.
func (c plannedKubectl) rollplan(ctx context.Context, t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binaries.Rollplan, append(args, "-n", c.namespace)...)
	cmd.Env = c.Env()
	return runCommand(t, cmd)
}

// rollplanCommands checks the commands that replace kubectl rollout, which does not support custom resources.
func (c plannedKubectl) rollplanCommands(ctx context.Context, t *testing.T) {
	t.Helper()
	if code, out, errOut := c.rollplan(ctx, t, "status", "pdeploy/web"); code != 0 || !strings.Contains(out, "successfully rolled out") {
		t.Fatalf("rollplan status: exit code %d:\n%s%s", code, out, errOut)
	}
	code, out, errOut := c.rollplan(ctx, t, "history", "pdeploy/web")
	if code != 0 || !strings.Contains(out, "web:3") {
		t.Fatalf("rollplan history: exit code %d:\n%s%s", code, out, errOut)
	}
	c.undo(ctx, t, "pdeploy/web", "--to-revision", "2")
	await(ctx, t, "web to be rolled back", func(ctx context.Context) error {
		object := c.get(ctx, t, "web")
		if revision := object.GetAnnotations()["deployment.kubernetes.io/revision"]; revision != "5" {
			return fmt.Errorf("revision is %s", revision)
		}
		return nil
	})
	c.pods(ctx, t, "web", "2", 5)
	if sets := c.sets(ctx, t, "web"); len(sets) != 4 {
		t.Fatalf("%d ReplicaSets after the rollback, want the same 4 as before", len(sets))
	}
}

// undo runs the command that `rollplan undo` prints.
func (c plannedKubectl) undo(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	code, script, errOut := c.rollplan(ctx, t, slices.Concat([]string{"undo", "-o", "kubectl"}, args)...)
	if code != 0 {
		t.Fatalf("rollplan undo: exit code %d:\n%s", code, errOut)
	}
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Env, cmd.Stdin = c.Env(), strings.NewReader(script)
	if code, out, errOut := runCommand(t, cmd); code != 0 {
		t.Fatalf("commands of rollplan undo: exit code %d:\n%s\n%s%s", code, script, out, errOut)
	}
}

// autoscale checks that a HorizontalPodAutoscaler works with the scale subresource. It scales to its minimum while there
// are missing metrics, and to its maximum when the CPU usage is twice the target.
func (c plannedKubectl) autoscale(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "busy", map[string]any{"replicas": 2}, map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}}})
	c.complete(ctx, t, "busy", 1)
	c.run(ctx, t, "autoscale", "pdeploy/busy", "--min=3", "--max=5", "--cpu-percent=50")
	c.pods(ctx, t, "busy", "1", 3)
	scale := c.run(ctx, t, "get", "--raw", "/apis/apps.rollplan.dev/v1alpha1/namespaces/"+c.namespace+"/planneddeployments/busy/scale")
	if !strings.Contains(scale, `"selector":"app=busy"`) || !strings.Contains(scale, `"replicas":3`) {
		t.Errorf("scale is %s", scale)
	}
	serveMetrics(ctx, t, c.System, "1") // this equals the request of each container
	c.pods(ctx, t, "busy", "1", 5)
	c.complete(ctx, t, "busy", 1)
	await(ctx, t, "the autoscaler to observe the new pods", func(ctx context.Context) error {
		out := c.run(ctx, t, "get", "hpa/busy", "-o", "jsonpath={.status.currentReplicas} {.status.desiredReplicas} {.status.currentMetrics[0].resource.current.averageUtilization}")
		if out != "5 5 100" {
			return fmt.Errorf("current replicas, desired replicas and utilization are %s", out)
		}
		return nil
	})
	c.run(ctx, t, "delete", "hpa/busy", "pdeploy/busy", "--timeout="+waitTimeout)
	c.run(ctx, t, "delete", "apiservice/v1beta1.metrics.k8s.io")
}

// invalidTemplate checks that a condition and an event report why the API server rejects a ReplicaSet, and that the
// rollout continues once the template is fixed.
func (c plannedKubectl) invalidTemplate(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "bad", map[string]any{"replicas": 1}, map[string]any{"imagePullPolicy": "Sometimes"})
	await(ctx, t, "a condition with the error", func(ctx context.Context) error {
		conditions, _, _ := unstructured.NestedSlice(c.get(ctx, t, "bad").Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["reason"] == "ReplicaSetCreateError" && strings.Contains(fmt.Sprint(fields["message"]), "imagePullPolicy") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", conditions)
	})
	await(ctx, t, "an event with the error", func(ctx context.Context) error {
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

// recreate checks that a Recreate rollout waits until all old pods have terminated, even though the size of their
// ReplicaSet is already 0.
func (c plannedKubectl) recreate(ctx context.Context, t *testing.T) {
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
				return fmt.Errorf("pod %s is not terminating", pod.Name)
			}
		}
		return nil
	})
	if err := c.SetPods(ctx, controlplane.PodsRun); err != nil {
		t.Fatal(err)
	}
	c.complete(ctx, t, "batch", 2)
	watch.check(t, "old and new pods of batch never exist at the same time", func(pods map[string]*corev1.Pod) bool {
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

// validation checks that the API server rejects invalid specs with helpful messages.
func (c plannedKubectl) validation(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, bad := range []struct {
		what    string
		spec    map[string]any
		message string
	}{
		{"selector that does not match the template", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "other"}}}, "spec.selector.matchLabels must match spec.template.metadata.labels"},
		{"expression that does not match the template", map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "In", "values": []any{"other"}}}}}, "spec.selector.matchExpressions must match spec.template.metadata.labels"},
		{"expression that excludes the template", map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "DoesNotExist"}}}}, "spec.selector.matchExpressions must match spec.template.metadata.labels"},
		{"empty selector", map[string]any{"selector": map[string]any{}}, "spec.selector must not be empty"},
		{"maxSurge and maxUnavailable 0", map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": 0, "maxUnavailable": "0%"}}}, "maxUnavailable and maxSurge cannot both be 0"},
		{"rollingUpdate with Recreate", map[string]any{"strategy": map[string]any{"type": "Recreate", "rollingUpdate": map[string]any{"maxSurge": 1}}}, "rollingUpdate may only be set if spec.strategy.type is RollingUpdate"},
		{"maxUnavailable above 100%", map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": "101%"}}}, "maxUnavailable"},
		{"progressDeadlineSeconds equal to minReadySeconds", map[string]any{"minReadySeconds": 60, "progressDeadlineSeconds": 60}, "must be greater than spec.minReadySeconds"},
		{"negative replicas", map[string]any{"replicas": -1}, "spec.replicas"},
		{"unknown strategy", map[string]any{"strategy": map[string]any{"type": "Canary"}}, `"RollingUpdate", "Recreate"`},
	} {
		err := c.tryCreate(ctx, t, "invalid", bad.spec, nil)
		if err == nil || !strings.Contains(err.Error(), bad.message) {
			t.Errorf("%s: %v, want %q", bad.what, err, bad.message)
		}
	}
	c.create(ctx, t, "valid", map[string]any{"replicas": 0, "selector": map[string]any{"matchExpressions": []any{
		map[string]any{"key": "app", "operator": "In", "values": []any{"valid", "invalid"}},
		map[string]any{"key": "beta", "operator": "NotIn", "values": []any{"yes"}},
	}}}, nil)
	if _, err := c.Kubectl(ctx, "patch", "pdeploy/valid", "-n", c.namespace, "--type=merge", "-p",
		`{"spec":{"selector":{"matchExpressions":null,"matchLabels":{"app":"valid"}}}}`); err == nil || !strings.Contains(err.Error(), "spec.selector is immutable") {
		t.Errorf("changed selector: %v", err)
	}
	c.run(ctx, t, "delete", "pdeploy/valid", "--timeout="+waitTimeout)
}
