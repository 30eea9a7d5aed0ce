package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typo checks that the API server keeps an unknown field of a template, and that the status names it.
func (c plannedKubectl) typo(ctx context.Context, t *testing.T) {
	t.Helper()
	c.create(ctx, t, "typo", map[string]any{"replicas": 1}, map[string]any{"imagePullPolcy": "Always"})
	await(ctx, t, "a condition with the unknown field", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "get", "pdeploy/typo", "-n", c.namespace, "-o", `jsonpath={.spec.template.spec.containers[0].imagePullPolcy} {.status.conditions[?(@.type=="Progressing")]}`)
		if err == nil && (!strings.HasPrefix(out, "Always ") || !strings.Contains(out, "ReplicaSetCreateError") ||
			!strings.Contains(out, `unknown field \"spec.template.spec.containers[0].imagePullPolcy\"`)) {
			err = errors.New(out)
		}
		return err
	})
	if sets := c.sets(ctx, t, "typo"); len(sets) != 0 {
		t.Errorf("%d ReplicaSets without the field", len(sets))
	}
	c.patch(ctx, t, "typo", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/typo:1"}]}}}}`)
	c.complete(ctx, t, "typo", 1)
	c.run(ctx, t, "delete", "pdeploy/typo", "--timeout="+waitTimeout)
}

// undoAndApply checks that applying a manifest again after an undo starts the pods that its template needs, and no others.
func (c plannedKubectl) undoAndApply(ctx context.Context, t *testing.T) {
	t.Helper()
	apply := func(container, spec map[string]any) {
		t.Helper()
		full := map[string]any{"ports": []any{map[string]any{"containerPort": 80}}, "readinessProbe": map[string]any{"httpGet": map[string]any{"port": 80}},
			"resources": map[string]any{"limits": map[string]any{"cpu": "1000m"}}}
		maps.Copy(full, container)
		object := manifest("again", map[string]any{"replicas": 2}, full)
		maps.Copy(object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any), spec)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.KubectlInput(ctx, string(text), "apply", "-n", c.namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	apply(nil, nil)
	c.complete(ctx, t, "again", 1)
	two := map[string]any{"image": "registry.example/again:2", "env": []any{map[string]any{"name": "A", "value": "1"}}}
	apply(two, nil)
	c.complete(ctx, t, "again", 2)

	c.undo(ctx, t, "pdeploy/again")
	c.completeWith(ctx, t, "again", 3, 2)
	undone := c.podNames(ctx, t, "again")
	unchanged := func(what string) {
		t.Helper()
		c.completeWith(ctx, t, "again", 3, 2)
		if pods := c.podNames(ctx, t, "again"); !slices.Equal(pods, undone) {
			t.Fatalf("%s: the pods are %v, and were %v", what, pods, undone)
		}
	}

	apply(nil, nil)
	unchanged("the manifest of the revision undone to")
	apply(map[string]any{"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"}, map[string]any{"dnsPolicy": "ClusterFirst", "restartPolicy": "Always"})
	unchanged("a manifest with some of the defaults")
	apply(nil, nil)
	unchanged("the manifest without them")
	apply(two, nil)
	c.completeWith(ctx, t, "again", 4, 2)
	c.pods(ctx, t, "again", "2", 2)
	c.run(ctx, t, "delete", "pdeploy/again", "--timeout="+waitTimeout)
}

// newSchema checks that a definition with a more detailed schema, which adds the protocol of ports to stored objects, starts no pod.
func (c plannedKubectl) newSchema(ctx context.Context, t *testing.T) {
	t.Helper()
	definitions := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "planneddeployments.apps.rollplan.dev"
	replace := func(podSpec map[string]any) (before map[string]any) {
		t.Helper()
		definition, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "template", "properties", "spec"}
		before, _, _ = unstructured.NestedMap(versions[0].(map[string]any), path...)
		if err := unstructured.SetNestedMap(versions[0].(map[string]any), podSpec, path...); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if _, err := definitions.Update(ctx, definition, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return before
	}
	protocol := func(want string) {
		t.Helper()
		await(ctx, t, "the schema", func(ctx context.Context) error {
			out, err := c.Kubectl(ctx, "get", "pdeploy/ports", "-n", c.namespace, "-o", "jsonpath={.spec.template.spec.containers[0].ports[0].protocol}")
			if err == nil && out != want {
				err = fmt.Errorf("the protocol is %q", out)
			}
			return err
		})
	}
	detailed := replace(map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true})
	await(ctx, t, "a stored object without the protocol of its port", func(ctx context.Context) error {
		if err := c.tryCreate(ctx, t, "ports", map[string]any{"replicas": 2}, map[string]any{"ports": []any{map[string]any{"containerPort": 80}}}); err != nil {
			return err
		}
		out, err := c.Kubectl(ctx, "get", "pdeploy/ports", "-n", c.namespace, "-o", "jsonpath={.spec.template.spec.containers[0].ports[0].protocol}")
		if err == nil && out != "" { // the earlier schema is still in use
			err = errors.Join(errors.New("the port has a protocol"), c.tryRun(ctx, "delete", "pdeploy/ports"))
		}
		return err
	})
	c.complete(ctx, t, "ports", 1)
	pods := c.podNames(ctx, t, "ports")

	replace(detailed)
	protocol("TCP")
	// Once the ReplicaSet has the annotation, the adapter has synced the template with the protocol.
	c.run(ctx, t, "annotate", "pdeploy/ports", "example.com/seen=1")
	await(ctx, t, "a sync", func(ctx context.Context) error {
		sets := c.sets(ctx, t, "ports")
		if len(sets) != 1 {
			t.Fatalf("%d ReplicaSets", len(sets))
		}
		if sets[0].Annotations["example.com/seen"] != "1" {
			return errors.New("the ReplicaSet has no such annotation")
		}
		return nil
	})
	c.run(ctx, t, "scale", "pdeploy/ports", "--replicas=3") // the defaults are stored now
	c.complete(ctx, t, "ports", 1)
	if after := c.podNames(ctx, t, "ports"); slices.ContainsFunc(pods, func(pod string) bool { return !slices.Contains(after, pod) }) {
		t.Errorf("the pods are %v, and were %v", after, pods)
	}
	c.run(ctx, t, "delete", "pdeploy/ports", "--timeout="+waitTimeout)
}

func (c plannedKubectl) tryRun(ctx context.Context, args ...string) error {
	_, err := c.Kubectl(ctx, append(args, "-n", c.namespace)...)
	return err
}

// podNames returns the names of the pods in order.
func (c plannedKubectl) podNames(ctx context.Context, t *testing.T, name string) (names []string) {
	t.Helper()
	pods, err := c.Typed.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// percentages checks that the API server accepts and rejects the same limits of a rolling update as for a Deployment.
func (c plannedKubectl) percentages(ctx context.Context, t *testing.T) {
	t.Helper()
	accepts := func(native bool, field string, value any) bool {
		t.Helper()
		object := manifest("limits", map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{field: value}}}, nil)
		if native {
			object["apiVersion"], object["kind"] = "apps/v1", "Deployment"
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.KubectlInput(ctx, string(text), "apply", "--dry-run=server", "-n", c.namespace, "-f", "-")
		if err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("native=%t, %s %v: %v %s", native, field, value, err, out)
		}
		return err == nil
	}
	for _, field := range []string{"maxUnavailable", "maxSurge"} {
		for _, value := range []any{"100%", "101%", "200%", "1000%", "0100%", "0101%", "00%", "99%", "-1%", "10.5%", "50", "%", 0, 1, 1000, -1} {
			if native, ours := accepts(true, field, value), accepts(false, field, value); native != ours {
				t.Errorf("%s %v: accepted for a Deployment: %t, for a PlannedDeployment: %t", field, value, native, ours)
			}
		}
	}
}
