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

// oneRolloutEnv is the number of applications of TestOneRollout; 10 for a full run.
const oneRolloutEnv = "ROLLPLAN_ONE_ROLLOUT_APPLICATIONS"

// oneRolloutWait is how long after the last rollout nothing may be restarted: the default skew, and the waits of the options.
const oneRolloutWait = 15 * time.Second

// TestOneRollout applies applications with their configurations, and then a new image with a new configuration, as `helm upgrade`
// does. Both must be one rollout of each application. At last, only the configuration changes: that must be another one.
func TestOneRollout(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 10*time.Minute)
	count := envNumber(t, oneRolloutEnv, 4)
	s := install(ctx, t, controlplane.Options{NativeController: true}, Restarts)
	r := newRestarts(ctx, t, s, s.kubeconfig, "one-rollout")
	r.start(t, "one-rollout", `"quiet":"3s","maxWait":"10s","minInterval":"0.5s","allWorkloads":true`)
	defer r.stop(t, "one-rollout")
	apply := func(image, value string) {
		for i := range count {
			name := fmt.Sprintf("web-%d", i)
			object := workload("Deployment", name, nil, map[string]any{"replicas": 2}, from("configMapRef", name, false))
			containers := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
			containers[0].(map[string]any)["image"] = "registry.example/web:" + image
			r.apply(ctx, t, configMap(name, value), object)
		}
	}
	for step, change := range []struct{ image, value string }{{"1", "a"}, {"2", "b"}, {"2", "c"}} {
		apply(change.image, change.value)
		want := step + 1
		await(ctx, t, fmt.Sprintf("%d rollouts", want), func(ctx context.Context) error { return r.haveRolledOut(ctx, count, want) })
		time.Sleep(oneRolloutWait) // for a restart that must not follow
		if err := r.haveRolledOut(ctx, count, want); err != nil {
			t.Errorf("after %v: %v", change, err)
		}
	}
}

// haveRolledOut returns nil if each of the applications has had this number of rollouts, all are complete and the configurations
// are recorded.
func (r *restarts) haveRolledOut(ctx context.Context, count, rollouts int) error {
	deployments, err := r.Typed.AppsV1().Deployments(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(deployments.Items) != count {
		return fmt.Errorf("%d Deployments exist, want %d", len(deployments.Items), count)
	}
	var wrong []string
	for _, d := range deployments.Items {
		revision, status := d.Annotations["deployment.kubernetes.io/revision"], d.Status
		isComplete := status.ObservedGeneration == d.Generation && status.Replicas == 2 && status.UpdatedReplicas == 2 && status.AvailableReplicas == 2
		if revision != fmt.Sprint(rollouts) || !isComplete || d.Annotations[stateAnnotation] == "" {
			wrong = append(wrong, fmt.Sprintf("%s has revision %s, want %d: %s", d.Name, revision, rollouts, d.Annotations[stateAnnotation]))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}
