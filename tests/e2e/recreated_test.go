package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// recreationsEnv is the number of rounds of each case of TestRecreated.
const recreationsEnv = "ROLLPLAN_RECREATIONS"

// recreated is the Deployment that replaces another one.
const recreated = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "registry.example/web:1.0"}]}
`

// held is an object that exists until its finalizer is removed.
const held = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [example.com/held]}
`

// TestRecreated waits for a Deployment that is deleted and created again. Waiting must continue with the new one, however
// the deletion falls between the polls.
func TestRecreated(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	c := &cliCheck{cp: cp, binary: binary}
	rounds := recreations(t)
	// The control plane and the context must outlive the parallel rounds.
	t.Run("rounds", func(t *testing.T) {
		for round := range rounds {
			c.recreate(ctx, t, "replace", round, recreated, func(ctx context.Context, t *testing.T, ns, file string) {
				cascade := []string{"background", "foreground"}[round%2]
				cp.MustKubectl(ctx, t, "replace", "--force", "--cascade="+cascade, "-n", ns, "-f", file)
			})
			// From 0.5 s to 4 s.
			gap := 500*time.Millisecond + 3500*time.Millisecond*time.Duration(round)/time.Duration(max(rounds-1, 1))
			c.recreate(ctx, t, "gap", round, recreated, func(ctx context.Context, t *testing.T, ns, file string) {
				cp.MustKubectl(ctx, t, "delete", "deployment/web", "-n", ns)
				time.Sleep(gap)
				cp.MustKubectl(ctx, t, "create", "-n", ns, "-f", file)
			})
		}
		// kubectl creates the objects of a file only after all of them are deleted.
		c.recreate(ctx, t, "held", 0, recreated+held, func(ctx context.Context, t *testing.T, ns, file string) {
			replaced := make(chan error, 1)
			go func() {
				_, err := cp.Kubectl(ctx, "replace", "--force", "-n", ns, "-f", file)
				replaced <- err
			}()
			cp.MustKubectl(ctx, t, "wait", "deployment/web", "-n", ns, "--for=delete", "--timeout=1m")
			time.Sleep(10 * time.Second)
			cp.MustKubectl(ctx, t, "patch", "configmap/held", "-n", ns, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			if err := <-replaced; err != nil {
				t.Fatal(err)
			}
		})
	})
}

// recreations returns the number of rounds.
func recreations(t *testing.T) int {
	t.Helper()
	text := os.Getenv(recreationsEnv)
	if text == "" {
		return 2
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q, want a number of rounds", recreationsEnv, text)
	}
	return rounds
}

// recreate runs a round in a namespace of its own, in parallel with others. `wait` starts while the rollout of a Deployment
// makes no progress, and `again` replaces this Deployment by the one in a file.
func (c *cliCheck) recreate(ctx context.Context, t *testing.T, name string, round int, manifest string, again func(ctx context.Context, t *testing.T, ns, file string)) {
	ns := fmt.Sprintf("%s-%d", name, round)
	t.Run(ns, func(t *testing.T) {
		t.Parallel()
		if err := c.cp.CreateNamespace(ctx, ns); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "web.yaml")
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		broken := strings.Replace(manifest, "web:1.0", "web:404", 1)
		if _, err := c.cp.KubectlInput(ctx, broken, "create", "-n", ns, "-f", "-"); err != nil {
			t.Fatal(err)
		}
		former := c.uid(ctx, t, ns)

		cmd := exec.CommandContext(ctx, c.binary, "wait", "deploy/web", "-n", ns, "--timeout", "3m")
		cmd.Env = c.cp.Env()
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errOut strings.Builder
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(output)
		var out []string
		if !lines.Scan() {
			_ = cmd.Wait()
			t.Fatalf("the first Deployment is not observed: %s", errOut.String())
		}
		out = append(out, lines.Text())
		// Rounds begin at different times between two polls, which are 2 s apart.
		time.Sleep(time.Duration(round*700%2000) * time.Millisecond)
		again(ctx, t, ns, file)
		uid := c.uid(ctx, t, ns)
		for lines.Scan() {
			out = append(out, lines.Text())
		}
		_ = cmd.Wait()
		note := fmt.Sprintf("was deleted and created again while waiting: its UID was %s, and is %s now", former, uid)
		text := strings.Join(out, "\n") + "\n" + errOut.String()
		if code := cmd.ProcessState.ExitCode(); code != 0 || former == uid || !strings.Contains(errOut.String(), note) {
			t.Fatalf("wait ends with %d, want 0 and %q:\n%s", code, note, text)
		}
		t.Log(text)
	})
}

func (c *cliCheck) uid(ctx context.Context, t *testing.T, ns string) string {
	t.Helper()
	d, err := c.cp.Deployment(ctx, ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	return string(d.UID)
}
