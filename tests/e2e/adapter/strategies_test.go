package adapter

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const newImage = `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:2"}]}}}}`

// TestStrategies runs the examples of strategies, which change the caps of a rollout.
func TestStrategies(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 8*time.Minute)
	s := start(ctx, t, controlplane.Options{}, CustomResource)
	c := plannedKubectl{kubectl{s, "default"}}

	// With maxUnavailable 0, no more than 1 of 10 pods may be missing or in excess at any time.
	c.create(ctx, t, "web", map[string]any{"replicas": 10, "strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": 1, "maxUnavailable": 0}}}, nil)
	c.complete(ctx, t, "web", 1)
	out := c.strategy(ctx, t, "python3", "percentages.py", "pdeploy/web", newImage, "1", "10", "35", "70")
	if want := "1 of 10 pods are new\n4 of 10 pods are new\n7 of 10 pods are new\n"; out != want {
		t.Errorf("percentages.py printed %q, want %q", out, want)
	}
	c.complete(ctx, t, "web", 2)
	c.pods(ctx, t, "web", "2", 10)
	for _, set := range c.sets(ctx, t, "web") {
		for key := range set.Annotations {
			if key == "rollplan.dev/new-max" || key == "rollplan.dev/old-min" {
				t.Errorf("ReplicaSet %s has the annotation %s", set.Name, key)
			}
		}
	}

	// A cap that is not a number stops the rollout, and nothing else.
	c.run(ctx, t, "annotate", "pdeploy/web", "rollplan.dev/new-max=half")
	c.patch(ctx, t, "web", strings.Replace(newImage, ":2", ":3", 1))
	time.Sleep(3 * time.Second)
	c.pods(ctx, t, "web", "2", 10)
	c.run(ctx, t, "annotate", "pdeploy/web", "rollplan.dev/new-max-")
	c.complete(ctx, t, "web", 3)

	c.create(ctx, t, "green", map[string]any{"replicas": 4, "strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": "100%", "maxUnavailable": 0}}}, nil)
	c.complete(ctx, t, "green", 1)
	c.run(ctx, t, "create", "service", "clusterip", "green", "--tcp=80")
	before := c.sets(ctx, t, "green")[0].Name
	c.strategy(ctx, t, "go", "run", "bluegreen.go", "pdeploy/green", "service/green", newImage)
	c.complete(ctx, t, "green", 2)
	service, err := s.Typed.CoreV1().Services("default").Get(ctx, "green", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range c.sets(ctx, t, "green") {
		selected := service.Spec.Selector["pod-template-hash"] == set.Labels["pod-template-hash"]
		if selected == (set.Name == before) {
			t.Errorf("the Service selects %v, and ReplicaSet %s has %v", service.Spec.Selector, set.Name, set.Labels)
		}
	}
}

// strategy runs a program of examples/strategies with the kubectl and the credentials of the control plane.
func (c plannedKubectl) strategy(ctx context.Context, t *testing.T, command ...string) string {
	t.Helper()
	root, err := Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kubectl := c.Command(ctx)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = filepath.Join(root, "examples/strategies")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+filepath.Dir(kubectl.Path)+":"+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%q: %w: %s", command, err, out))
	}
	return string(out)
}
