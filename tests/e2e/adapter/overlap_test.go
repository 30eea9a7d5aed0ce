package adapter

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestPlannedDeploymentBesideDeployment creates PlannedDeployments with the names and selectors of Deployments that have
// pods. They must be refused until the Deployments are deleted, and must then adopt the remaining ReplicaSets.
func TestPlannedDeploymentBesideDeployment(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 6*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, CustomResource)
	c := plannedKubectl{kubectl{s, "default"}}

	c.refused(ctx, t, "handed-over")
	c.run(ctx, t, "delete", "deployment/handed-over", "--cascade=orphan", "--timeout="+waitTimeout)
	// The template of the Deployment becomes revision 1 of the PlannedDeployment.
	c.complete(ctx, t, "handed-over", 2)
	for _, set := range c.sets(ctx, t, "handed-over") {
		if owner := metav1.GetControllerOf(&set); owner == nil || owner.Kind != "PlannedDeployment" {
			t.Errorf("ReplicaSet %s has the controller %v", set.Name, owner)
		}
	}

	c.refused(ctx, t, "deleted")
	c.run(ctx, t, "delete", "deployment/deleted", "--cascade=foreground", "--timeout="+waitTimeout)
	c.complete(ctx, t, "deleted", 1)

	// A Deployment that is created later does not stop the rollouts of a PlannedDeployment.
	c.run(ctx, t, "create", "deployment", "deleted", "--image=registry.example/deleted:1")
	c.rolledOut(ctx, t, "deleted")
	if err := s.StopAdapter("adapter"); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAdapter("adapter", "--leader-elect=false"); err != nil {
		t.Fatal(err)
	}
	c.run(ctx, t, "scale", "pdeploy/deleted", "--replicas=4")
	await(ctx, t, "four available pods", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "get", "pdeploy/deleted", "-o", "jsonpath={.status.availableReplicas}")
		if err == nil && out != "4" {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

// refused creates a Deployment, and a PlannedDeployment with its name and selector, which must be refused.
func (c plannedKubectl) refused(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	c.run(ctx, t, "create", "deployment", name, "--image=registry.example/"+name+":1", "--replicas=3")
	c.rolledOut(ctx, t, name)
	c.create(ctx, t, name, map[string]any{"replicas": 3}, nil)
	c.run(ctx, t, "wait", `--for=jsonpath={.status.conditions[?(@.type=="Progressing")].reason}=SelectorOverlap`, "pdeploy/"+name, "--timeout="+waitTimeout)
	message := c.run(ctx, t, "get", "pdeploy/"+name, "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].message}`)
	if !strings.Contains(message, fmt.Sprintf("of Deployment %q, so its pods would run twice", name)) {
		t.Errorf("the message is %q", message)
	}
	// A change of the PlannedDeployment is observed, and refused as well.
	c.run(ctx, t, "scale", "pdeploy/"+name, "--replicas=2")
	c.run(ctx, t, "wait", "--for=jsonpath={.status.observedGeneration}="+fmt.Sprint(c.get(ctx, t, name).GetGeneration()), "pdeploy/"+name, "--timeout="+waitTimeout)
	if sets := c.sets(ctx, t, name); len(sets) != 1 || sets[0].OwnerReferences[0].Kind != "Deployment" {
		t.Errorf("%d ReplicaSets exist", len(sets))
	}
	await(ctx, t, "the event SelectorOverlap", func(ctx context.Context) error {
		events, err := c.Typed.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=PlannedDeployment,reason=SelectorOverlap,involvedObject.name=" + name})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("not found")
		}
		return err
	})
}
