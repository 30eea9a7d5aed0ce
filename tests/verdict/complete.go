package verdict

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// complete adds the fields that the API server always sets but the test cases of other projects omit, and the ReplicaSets
// whose counters add up to the status of a Deployment.
func complete(object map[string]any) []map[string]any {
	u := &unstructured.Unstructured{Object: object}
	if u.GetName() == "" {
		u.SetName("test")
	}
	if u.GetKind() != "Deployment" {
		return nil
	}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	u.SetUID("deployment-uid")
	u.SetResourceVersion("1")
	labels := map[string]any{"app": "test"}
	template := map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web:2"}}},
	}
	set := func(value any, path ...string) {
		_ = unstructured.SetNestedField(object, value, path...)
	}
	set(map[string]any{"matchLabels": labels}, "spec", "selector")
	set(template, "spec", "template")
	count := func(otherwise int64, path ...string) int64 {
		number, found, err := unstructured.NestedFieldNoCopy(object, path...)
		if !found || err != nil {
			return otherwise
		}
		switch number := number.(type) {
		case int64:
			return number
		case float64:
			return int64(number)
		}
		return otherwise
	}
	wanted := count(1, "spec", "replicas")
	total, updated := count(0, "status", "replicas"), count(0, "status", "updatedReplicas")
	ready, available := count(0, "status", "readyReplicas"), count(0, "status", "availableReplicas")
	if ready < available {
		ready = available
	}
	oldReady, oldAvailable := max(0, ready-updated), max(0, available-updated)
	sets := []map[string]any{
		replicaSet("test-new", template, wanted, updated, ready-oldReady, available-oldAvailable),
	}
	if old := total - updated; old > 0 {
		image := map[string]any{"name": "web", "image": "web:1"}
		oldTemplate := map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{image}},
		}
		sets = append(sets, replicaSet("test-old", oldTemplate, old, old, oldReady, oldAvailable))
	}
	for _, owned := range sets {
		_ = unstructured.SetNestedField(owned, u.GetNamespace(), "metadata", "namespace")
	}
	return sets
}

func replicaSet(name string, template map[string]any, size, existing, ready, available int64) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "ReplicaSet",
		"metadata": map[string]any{
			"name": name, "uid": name + "-uid", "resourceVersion": "1", "generation": int64(1),
			"labels": map[string]any{"app": "test"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "name": "test", "uid": "deployment-uid", "controller": true,
			}},
		},
		"spec": map[string]any{"replicas": size, "template": template},
		"status": map[string]any{
			"replicas": existing, "readyReplicas": ready, "availableReplicas": available, "observedGeneration": int64(1),
		},
	}
}
