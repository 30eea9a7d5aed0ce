package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const faultsNamespace = "canary-faults"

// TestCanaryFaults removes what both templates or only the new one needs, and stops the API server during a canary.
func TestCanaryFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, faultsNamespace); err != nil {
		t.Fatal(err)
	}
	c := &canaryCommands{cliCheck: &cliCheck{cp: cp, binary: rollplan(t)}, namespace: faultsNamespace}
	c.createAccount(ctx, t)
	c.apply(ctx, t, "app")
	c.complete(ctx, t)
	start := func(tag string, more ...string) []string {
		return append([]string{"start", "--image", "main=registry.example/web:" + tag}, more...)
	}

	// The new pods are rejected because of the new template: it is aborted.
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(manifest, []byte(accountManifest("missing")), 0o600); err != nil {
		t.Fatal(err)
	}
	soon := []string{"--watch", "--timeout", "3s", "--on-timeout", "abort"}
	c.ends(ctx, t, 1, `serviceaccount "missing" not found`, append([]string{"start", "-f", manifest}, soon...)...)
	c.ends(ctx, t, 2, "has rejected this template", "start", "-f", manifest)

	// They are rejected for a reason that the stable template has as well: this says nothing about the new one.
	c.deleteAccount(ctx, t)
	c.ends(ctx, t, 1, `serviceaccount "app" not found`, start("2.0", soon...)...)
	c.createAccount(ctx, t)
	c.ends(ctx, t, 0, "the promotion is complete", start("2.0", "--watch", "--on-success", "promote", "--timeout", "5m")...)

	t.Run("outage", func(t *testing.T) {
		c.outage(ctx, t, start("4.0", "--bake", "1s", "--watch", "--on-success", "promote"))
	})
}

// outage stops the API server while a command watches a canary, until several polls in a row have failed.
func (c *canaryCommands) outage(ctx context.Context, t *testing.T, command []string) {
	log := filepath.Join(t.TempDir(), "log")
	kubectl, calls := countingKubectl(t, c.cp)
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, c.binary, c.arguments(command)...)
	cmd.Env = append(c.cp.Env(), "KUBECTL="+kubectl)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Nothing is waited for once the command has ended.
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); stop() }()
	err = controlplane.Poll(running, "the canary", contains(log, "the canary starts", 1))
	if err == nil {
		err = c.cp.WithoutAPIServer(ctx, func() error {
			made, err := os.ReadFile(calls)
			if err != nil {
				return err
			}
			// Each of these fails.
			return controlplane.Poll(running, "failed polls", contains(calls, "\n", strings.Count(string(made), "\n")+12))
		})
	}
	err = errors.Join(err, <-ended)
	text, _ := os.ReadFile(log)
	t.Logf("%s", text)
	if err != nil || !strings.Contains(string(text), "the promotion is complete") {
		t.Fatalf("the canary is not promoted: %v", err)
	}
}

// contains returns a condition: a file contains a text at least this number of times.
func contains(path, text string, count int) func(context.Context) error {
	return func(context.Context) error {
		content, err := os.ReadFile(path)
		if have := strings.Count(string(content), text); err == nil && have < count {
			err = fmt.Errorf("%q occurs %d times, want %d", text, have, count)
		}
		return err
	}
}

// accountManifest is a Deployment whose pods have a ServiceAccount.
func accountManifest(account string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: %s
      containers: [{name: main, image: "registry.example/web:1.0"}]
`, account)
}

func (c *canaryCommands) apply(ctx context.Context, t *testing.T, account string) {
	t.Helper()
	if out, err := c.cp.KubectlInput(ctx, accountManifest(account), "apply", "-n", c.namespace, "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (c *canaryCommands) createAccount(ctx context.Context, t *testing.T) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "create", "serviceaccount", "app", "-n", c.namespace)
}

func (c *canaryCommands) deleteAccount(ctx context.Context, t *testing.T) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "delete", "serviceaccount", "app", "-n", c.namespace)
}
