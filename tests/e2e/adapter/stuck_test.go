package adapter

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestStuckCustomResources checks that each of several PlannedDeployments whose new pods never become ready reports the
// exceeded deadline for its new ReplicaSet, as the Deployments next to them do. ROLLPLAN_STUCK_ROUNDS sets how often.
func TestStuckCustomResources(t *testing.T) {
	t.Parallel()
	rounds := envNumber(t, "ROLLPLAN_STUCK_ROUNDS", 1)
	ctx := withTimeout(t, time.Duration(4+3*rounds)*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, CustomResource)
	c := plannedKubectl{kubectl{s, "default"}}
	for round := range rounds {
		c.stuckRound(ctx, t, round)
	}
}

func (c plannedKubectl) stuckRound(ctx context.Context, t *testing.T, round int) {
	t.Helper()
	const count = 8
	var planned, native []string
	for i := range count {
		name := fmt.Sprintf("stuck-%d-%d", round, i)
		c.create(ctx, t, name, map[string]any{"replicas": 2, "progressDeadlineSeconds": 10}, nil)
		planned = append(planned, name)
		if i < count/4 {
			name = fmt.Sprintf("native-%d-%d", round, i)
			c.run(ctx, t, "create", "deployment", name, "--image=registry.example/native:1", "--replicas=2")
			c.run(ctx, t, "patch", "deployment/"+name, "--type=merge", "-p", `{"spec":{"progressDeadlineSeconds":10}}`)
			native = append(native, name)
		}
	}
	for _, name := range planned {
		c.complete(ctx, t, name, 1)
		c.timesOut(ctx, t, "pdeploy", name, false)
	}
	for _, name := range native {
		c.rolledOut(ctx, t, name)
	}
	for _, name := range planned {
		c.patch(ctx, t, name, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/stuck:404"}]}}}}`)
	}
	for _, name := range native {
		c.run(ctx, t, "set", "image", "deployment/"+name, "*=registry.example/native:404")
	}
	for _, name := range planned {
		c.timesOut(ctx, t, "pdeploy", name, true)
		c.run(ctx, t, "delete", "pdeploy/"+name, "--wait=false")
	}
	for _, name := range native {
		c.timesOut(ctx, t, "deployment", name, true)
		c.run(ctx, t, "delete", "deployment/"+name, "--wait=false")
	}
}

// timesOut waits until Progressing reports that the rollout of the newest ReplicaSet has timed out, or that it is complete.
func (c plannedKubectl) timesOut(ctx context.Context, t *testing.T, kind, name string, timesOut bool) {
	t.Helper()
	revision, want := "1", `True NewReplicaSetAvailable ReplicaSet %q has successfully progressed.`
	if timesOut {
		revision, want = "2", `False ProgressDeadlineExceeded ReplicaSet %q has timed out progressing.`
	}
	condition := `{range .status.conditions[?(@.type=="Progressing")]}{.status} {.reason} {.message}{end}`
	newest := `{range .items[?(@.metadata.annotations.deployment\.kubernetes\.io/revision=="` + revision + `")]}{.metadata.name}{end}`
	await(ctx, t, fmt.Sprintf("the condition of %s %s", kind, name), func(ctx context.Context) error {
		set, err := c.Kubectl(ctx, "get", "replicasets", "-n", c.namespace, "-l", "app="+name, "-o", "jsonpath="+newest)
		if err != nil {
			return err
		}
		have, err := c.Kubectl(ctx, "get", kind, name, "-n", c.namespace, "-o", "jsonpath="+condition)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf(want, strings.TrimSpace(set)); strings.TrimSpace(have) != want {
			return fmt.Errorf("%q, want %q", have, want)
		}
		return nil
	})
}
