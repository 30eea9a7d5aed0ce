package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"rollplan.dev/rollplan/tests/e2e/adapter"
)

// wait runs `rollplan wait`, and requires its exit code and texts.
func (c *clients) wait(code int, want []string, arguments ...string) {
	c.t.Helper()
	arguments = append([]string{"wait", "deploy/web", "-n", c.namespace, "--interval=500ms"}, arguments...)
	cmd := exec.CommandContext(c.t.Context(), os.Getenv(adapter.RollplanEnv), arguments...)
	cmd.Env = c.h.Env()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	c.t.Logf("rollplan %s:\n%s", strings.Join(arguments, " "), out)
	if cmd.ProcessState.ExitCode() != code {
		c.t.Errorf("the exit code is %d instead of %d", cmd.ProcessState.ExitCode(), code)
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			c.t.Errorf("%q is missing", text)
		}
	}
}

// failRollout applies the image whose pods cannot start.
func (c *clients) failRollout() {
	c.t.Helper()
	c.kubectl(true, "image updated", "set", "image", "deployment/web", "main="+image("v2"))
}

// TestRollback rolls failed rollouts back with `rollplan wait --on-failure roll-back`, on Kubernetes' own controller.
func TestRollback(t *testing.T) {
	h := newClients(t)
	rollBack := []string{"--on-failure=roll-back"}

	t.Run("a certain failure is rolled back once", func(t *testing.T) {
		c := h.deploy(t, "rolled-back", false, badImage)
		c.failRollout()
		c.wait(1, []string{"is rolled back to ReplicaSet", "only if"}, append(rollBack, "--dry-run")...)
		c.sizes(10, 2)
		c.wait(1, []string{"is rolled back to ReplicaSet", "was rolled back; to try the rejected template again, run `rollplan canary retry"}, rollBack...)
		c.shown(true, "successfully rolled out")
		c.sizes(10, 0)
		// The same template is not rolled back again.
		c.failRollout()
		c.wait(1, []string{"was not rolled back: this template was rejected before"}, rollBack...)
		c.sizes(10, 2)
		// A retry permits it.
		c.shows(true, "", os.Getenv(adapter.RollplanEnv), "canary", "retry", "deploy/web", "-n", c.namespace)
		c.wait(1, []string{"is rolled back to ReplicaSet"}, rollBack...)
		c.sizes(10, 0)
	})
	t.Run("a failure that may pass is not rolled back", func(t *testing.T) {
		c := h.deploy(t, "may-pass", false, neverReady)
		c.kubectl(true, "patched", "patch", "deployment/web", "--type=merge", "-p", `{"spec": {"progressDeadlineSeconds": 5}}`)
		c.failRollout()
		c.wait(1, []string{"was not rolled back: it is not certain that its pods need a change"}, rollBack...)
		c.sizes(10, 2)
	})
	t.Run("a failure that the stable template has as well is not rolled back", func(t *testing.T) {
		c := h.deploy(t, "shared", false, lostImage)
		c.failRollout()
		c.wait(0, nil, rollBack...)
		c.kubectl(true, "restarted", "rollout", "restart", "deployment/web")
		c.wait(1, []string{"has the same fault, so restoring it would not help"}, rollBack...)
		c.kubectl(true, "restartedAt", "get", "deployment/web", "-o", "yaml")
		c.sizes(0, 12)
	})
	t.Run("a rollout that completes is left alone", func(t *testing.T) {
		c := h.deploy(t, "complete", false, good)
		c.failRollout()
		c.wait(0, nil, rollBack...)
		c.sizes(0, 10)
	})
}
