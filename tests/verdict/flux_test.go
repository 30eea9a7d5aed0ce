package verdict

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fluxPhases maps a status of Flux to the phase in rollplan.
var fluxPhases = map[status.Status]string{
	status.CurrentStatus:    "COMPLETE",
	status.InProgressStatus: "PROGRESSING",
	status.FailedStatus:     "STALLED",
}

// kafka returns a Kafka cluster with a status.
func kafka(status map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "Kafka",
		"metadata": map[string]any{"name": "events", "namespace": "shop", "uid": "u", "generation": 2},
		"status":   status,
	}
}

// kafkas returns Kafka clusters with every combination of the conditions that Strimzi sets, in several orders.
func kafkas() []map[string]any {
	ready := []map[string]any{nil, {"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}, {"type": "Ready", "status": "Unknown"}}
	notReady := []map[string]any{nil}
	for _, state := range []string{"True", "False", "Unknown"} {
		for _, reason := range []string{"Creating", "KafkaStorageError"} {
			notReady = append(notReady, map[string]any{"type": "NotReady", "status": state, "reason": reason})
		}
	}
	warning := map[string]any{"type": "Warning", "status": "True", "reason": "DeprecatedFields"}
	var all []map[string]any
	for _, first := range ready {
		for _, second := range notReady {
			for _, observed := range []int{1, 2} {
				for _, conditions := range [][]map[string]any{{first, second, warning}, {warning, second, first}, {second, first}} {
					present := []any{}
					for _, condition := range conditions {
						if condition != nil {
							present = append(present, condition)
						}
					}
					all = append(all, kafka(map[string]any{"observedGeneration": observed, "conditions": present}))
				}
			}
		}
	}
	return append(all, kafka(map[string]any{"observedGeneration": 2}))
}

// TestFluxExpressions evaluates the expressions of docs/guides/flux.md with Flux's own code, and compares the results with ours.
func TestFluxExpressions(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/flux.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(spec:\n  healthCheckExprs:.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/guides/flux.md has no healthCheckExprs")
	}
	var kustomization struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck
		}
	}
	if err := yaml.UnmarshalStrict(example[1], &kustomization); err != nil {
		t.Fatal(err)
	}
	checks := kustomization.Spec.HealthCheckExprs
	if len(checks) != 1 || checks[0].Kind != "Kafka" {
		t.Fatalf("%+v, want one check of Kafka", checks)
	}
	evaluator, err := cel.NewStatusEvaluator(&checks[0].HealthCheckExpressions)
	if err != nil {
		t.Fatal(err)
	}
	planner, err := startPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer planner.close()
	seen := map[status.Status]int{}
	for _, object := range kafkas() {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		theirs, err := evaluator.Evaluate(t.Context(), u)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		report, err := planner.computeStatus("2026-01-15T12:00:00Z", object)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		seen[theirs.Status]++
		if report.word() != fluxPhases[theirs.Status] {
			t.Errorf("%s: %s for Flux, %s for rollplan (%s)", data, theirs.Status, report.word(), report.Message)
		}
	}
	if len(seen) != len(fluxPhases) {
		t.Errorf("some states never occur: %v", seen)
	}
}
