package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const jobsNamespace = "jobs"

// expiring are Jobs that their TTL controller deletes as soon as they have ended.
const expiring = `
apiVersion: batch/v1
kind: Job
metadata: {name: succeeds}
spec:
  suspend: true
  ttlSecondsAfterFinished: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/job:1"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  suspend: true
  ttlSecondsAfterFinished: 0
  activeDeadlineSeconds: 1
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/job:404"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      suspend: true
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/job:1"}]}
`

// TestJobs waits for Jobs that end and are deleted between two polls, and checks that the Jobs of a CronJob are shown.
func TestJobs(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, jobsNamespace); err != nil {
		t.Fatal(err)
	}
	c := &cliCheck{cp: cp, binary: binary}
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte(expiring), 0o600); err != nil {
		t.Fatal(err)
	}
	cp.MustKubectl(ctx, t, "apply", "-n", jobsNamespace, "-f", file)
	c.waitUnseen(ctx, t, "succeeds", 0, `job "succeeds" completed and was then deleted`)
	c.waitUnseen(ctx, t, "fails", 1, `job "fails" failed and was then deleted: DeadlineExceeded`)

	cp.MustKubectl(ctx, t, "create", "job", "by-hand", "--from=cronjob/nightly", "-n", jobsNamespace)
	code, out, errOut := c.run(ctx, t, "status", "cj/nightly", "-o", "wide", "-n", jobsNamespace)
	if code != 0 || !strings.Contains(out, "Job by-hand  Suspended") {
		t.Errorf("the Job of the CronJob is not shown (exit code %d):\n%s%s", code, out, errOut)
	}
}

// waitUnseen waits for a suspended Job that starts, ends and is deleted between two polls.
func (c *cliCheck) waitUnseen(ctx context.Context, t *testing.T, job string, want int, says string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.binary, "wait", "job/"+job, "-n", jobsNamespace, "--timeout", "5m", "--interval", "1s")
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
	if !lines.Scan() || !strings.Contains(lines.Text(), "is suspended") {
		t.Fatalf("%s is not seen: %q %s", job, lines.Text(), errOut.String())
	}
	// Stop the process, so that it polls again only after the Job has been deleted.
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.cp.MustKubectl(ctx, t, "patch", "job", job, "-n", jobsNamespace, "-p", `{"spec":{"suspend":false}}`)
	c.cp.MustKubectl(ctx, t, "wait", "job/"+job, "-n", jobsNamespace, "--for=delete", "--timeout=2m")
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	_ = cmd.Wait()
	code, out := cmd.ProcessState.ExitCode(), strings.Join(rest, "\n")
	if code != want || !strings.Contains(out, says) {
		t.Errorf("wait for %s ends with %d, want %d and %q:\n%s\n%s", job, code, want, says, out, errOut.String())
	}
}
