package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const cliNamespace = "cli"

// TestCLI compares the command with kubectl, on Deployments that Kubernetes' own controller rolls out.
func TestCLI(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, cliNamespace); err != nil {
		t.Fatal(err)
	}
	c := &cliCheck{cp: cp, binary: binary}

	// Each step depends on the previous one, so the first failure ends the test.
	c.apply(ctx, t, "web", object{"replicas": 3})
	c.agree(ctx, t, "web", 0, "successfully rolled out")
	c.plugin(ctx, t, "web")
	c.setImage(ctx, t, "web", "2.0")
	c.agree(ctx, t, "web", 0, "successfully rolled out")
	c.sameHistory(ctx, t, "deployment/web", "1", "2")

	// An expired timeout is not a failure of the rollout. Without a deadline, nothing else ends the wait.
	c.apply(ctx, t, "slow", object{"replicas": 1})
	c.agree(ctx, t, "slow", 0, "")
	c.setImage(ctx, t, "slow", "404")
	if code, _, errOut := c.run(ctx, t, "wait", "slow", "-n", cliNamespace, "--timeout", "2s", "--interval", "500ms"); code != 3 {
		t.Fatalf("wait for a rollout that does not complete exits with %d, want 3: %s", code, errOut)
	}
	if code, _, _ := c.kubectl(ctx, t, "rollout", "status", "deployment/slow", "-n", cliNamespace, "--timeout=2s"); code != 1 {
		t.Fatalf("kubectl rollout status exits with %d, want 1", code)
	}

	c.setDeadline(ctx, t, "web", 5)
	c.setImage(ctx, t, "web", "404")
	out := c.agree(ctx, t, "web", 1, "exceeded its progress deadline")
	if !strings.Contains(out, "image registry.example/web:404 of container main cannot be pulled") {
		t.Errorf("the cause is not named:\n%s", out)
	}
	c.sameHistory(ctx, t, "deployment/web", "1", "2", "3")
	// On a busy machine, a rollout that completes may take longer.
	c.setDeadline(ctx, t, "web", 600)

	// Roll back with the printed command. The previous revision is then the one with the bad image.
	c.paste(ctx, t, "undo", "web", "--to-revision", "1")
	c.agree(ctx, t, "web", 0, "successfully rolled out")
	c.image(ctx, t, "web", "registry.example/web:1.0")
	c.sameHistory(ctx, t, "deployment/web", "2", "3", "4")
	c.sameUndo(ctx, t, "deployment/web", "registry.example/web:404")
	c.sameUndo(ctx, t, "deployment/web", "registry.example/web:2.0", "--to-revision=2")
	c.paste(ctx, t, "undo", "web", "--to-revision", "2")
	c.agree(ctx, t, "web", 0, "successfully rolled out")
	c.image(ctx, t, "web", "registry.example/web:2.0")

	// The Deployment already has this template: both succeed, and there is no command to run.
	code, out, errOut := c.run(ctx, t, "undo", "web", "-n", cliNamespace, "--to-revision", "5")
	if code != 0 || !strings.Contains(out, "nothing to undo") {
		t.Errorf("undo to the current template exits with %d:\n%s%s", code, out, errOut)
	}
	if code, out, errOut := c.kubectl(ctx, t, "rollout", "undo", "deployment/web", "-n", cliNamespace, "--to-revision=5"); code != 0 {
		t.Errorf("kubectl exits with %d:\n%s%s", code, out, errOut)
	}
	c.refused(ctx, t, "deployment/web", "has no revision 99; it has 3, 4, 5", "--to-revision=99")
	cp.MustKubectl(ctx, t, "rollout", "pause", "deployment/web", "-n", cliNamespace)
	c.refused(ctx, t, "deployment/web", "is paused", "--to-revision=3")

	c.takeOver(ctx, t)
}

// cliCheck runs rollplan and kubectl on the same Deployments.
type cliCheck struct {
	cp     *controlplane.ControlPlane
	binary string
}

func (c *cliCheck) apply(ctx context.Context, t *testing.T, name string, spec object) {
	t.Helper()
	web := deployment(name, "registry.example/"+name+":1.0", spec)
	web["metadata"].(object)["annotations"] = object{"note": "it's\n\"so\"!"}
	template := spec["template"].(object)["metadata"].(object)
	template["annotations"] = object{"note": "it's \"so\"!\nEOF\n$HOME 🦀"}
	manifest, err := json.Marshal(web)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cp.KubectlInput(ctx, string(manifest), "create", "-n", cliNamespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (c *cliCheck) setDeadline(ctx context.Context, t *testing.T, name string, seconds int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"progressDeadlineSeconds": %d}}`, seconds)
	c.cp.MustKubectl(ctx, t, "patch", "deployment", name, "-n", cliNamespace, "--type=merge", "-p", patch)
}

func (c *cliCheck) setImage(ctx context.Context, t *testing.T, name, tag string) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "set", "image", "deployment/"+name, "-n", cliNamespace, "main=registry.example/"+name+":"+tag)
}

// run runs rollplan, with the kubectl of the control plane on its PATH.
func (c *cliCheck) run(ctx context.Context, t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = c.cp.Env()
	return runCommand(t, cmd)
}

func (c *cliCheck) kubectl(ctx context.Context, t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	return runCommand(t, c.cp.Command(ctx, args...))
}

// runCommand returns the exit code of a command, its stdout and its stderr.
func runCommand(t *testing.T, cmd *exec.Cmd) (int, string, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", strings.Join(cmd.Args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// agree runs kubectl and rollplan on the same rollout and requires the same exit code. It returns the output of
// `status --watch`.
func (c *cliCheck) agree(ctx context.Context, t *testing.T, name string, want int, says string) string {
	t.Helper()
	type end struct {
		what        string
		code        int
		out, errOut string
	}
	watchers := map[string]*exec.Cmd{
		"kubectl": c.cp.Command(ctx, "rollout", "status", "deployment/"+name, "-n", cliNamespace, "--timeout="+rolloutTimeout),
		"watch":   exec.CommandContext(ctx, c.binary, "status", "--watch", "deploy/"+name, "-n", cliNamespace, "--timeout", rolloutTimeout, "--interval", "200ms"),
		"wait":    exec.CommandContext(ctx, c.binary, "wait", "deployment/"+name, "-n", cliNamespace, "--for=complete", "--timeout", rolloutTimeout, "--interval", "200ms"),
	}
	ends := make(chan end, len(watchers))
	for what, cmd := range watchers {
		cmd.Env = c.cp.Env()
		go func() {
			code, out, errOut := runCommand(t, cmd)
			ends <- end{what, code, out, errOut}
		}()
	}
	watched := ""
	for range watchers {
		e := <-ends
		if e.code != want {
			t.Errorf("%s of %s exits with %d, want %d:\n%s%s", e.what, name, e.code, want, e.out, e.errOut)
		}
		if e.what == "kubectl" && !strings.Contains(e.out+e.errOut, says) {
			t.Errorf("kubectl does not say %q:\n%s%s", says, e.out, e.errOut)
		}
		if e.what == "watch" {
			watched = e.out
		}
	}
	// A single `status` agrees.
	if code, out, errOut := c.run(ctx, t, "status", name, "-n", cliNamespace); code != want {
		t.Errorf("status of %s exits with %d, want %d:\n%s%s", name, code, want, out, errOut)
	}
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%s: %s", name, strings.TrimSpace(watched))
	return watched
}

// plugin runs rollplan as a plugin of kubectl.
func (c *cliCheck) plugin(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	binary, err := filepath.Abs(c.binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "kubectl-rollplan")); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		cmd := c.cp.Command(ctx, append([]string{"rollplan"}, args...)...)
		path := slices.IndexFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "PATH="+filepath.Dir(cmd.Path)) })
		cmd.Env[path] += string(os.PathListSeparator) + dir
		code, out, errOut := runCommand(t, cmd)
		return code, out + errOut
	}
	if code, out := run("status", "deploy/"+name, "-n", cliNamespace); code != 0 || !strings.Contains(out, "successfully rolled out") {
		t.Fatalf("kubectl rollplan status exits with %d:\n%s", code, out)
	}
	if code, out := run("status", "--unknown"); code != 2 || !strings.Contains(out, "Usage: kubectl rollplan status") {
		t.Fatalf("kubectl rollplan status with an unknown flag exits with %d:\n%s", code, out)
	}
	if code, out := run("status"); code != 2 || !strings.Contains(out, "no objects selected") {
		t.Fatalf("kubectl rollplan status without a name exits with %d:\n%s", code, out)
	}
}

// sameHistory checks that rollplan and kubectl list the same revisions.
func (c *cliCheck) sameHistory(ctx context.Context, t *testing.T, name string, want ...string) {
	t.Helper()
	var theirs []string
	lines := strings.Split(c.cp.MustKubectl(ctx, t, "rollout", "history", name, "-n", cliNamespace), "\n")
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] != "REVISION" && strings.Trim(fields[0], "0123456789") == "" {
			theirs = append(theirs, fields[0])
		}
	}
	if !slices.Equal(theirs, want) {
		t.Fatalf("kubectl lists revisions %v, want %v:\n%s", theirs, want, strings.Join(lines, "\n"))
	}
	code, out, errOut := c.run(ctx, t, "history", name, "-n", cliNamespace, "-o", "json")
	if code != 0 {
		t.Fatalf("history exits with %d: %s", code, errOut)
	}
	var answer struct {
		Revisions []struct {
			Revision string `json:"revision"`
			Current  bool   `json:"current"`
		} `json:"revisions"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	var ours, current []string
	for _, r := range answer.Revisions {
		ours = append(ours, r.Revision)
		if r.Current {
			current = append(current, r.Revision)
		}
	}
	if !slices.Equal(ours, want) || !slices.Equal(current, want[len(want)-1:]) {
		t.Fatalf("revisions are %v, of which %v are current, want %v and the last", ours, current, want)
	}
}

// sameUndo checks that rollplan and kubectl would roll back to the same template.
func (c *cliCheck) sameUndo(ctx context.Context, t *testing.T, name, image string, args ...string) {
	t.Helper()
	dry := append([]string{"rollout", "undo", name, "-n", cliNamespace, "--dry-run=client"}, args...)
	if code, out, errOut := c.kubectl(ctx, t, dry...); code != 0 || !strings.Contains(out, image) {
		t.Fatalf("kubectl rollout undo %v exits with %d and not with %s:\n%s%s", args, code, image, out, errOut)
	}
	code, out, errOut := c.run(ctx, t, append([]string{"undo", name, "-n", cliNamespace}, args...)...)
	if code != 0 || !strings.Contains(out, fmt.Sprintf("to    %q", image)) {
		t.Fatalf("undo %v exits with %d and not with %s:\n%s%s", args, code, image, out, errOut)
	}
}

// refused checks that both kubectl and rollplan refuse the rollback.
func (c *cliCheck) refused(ctx context.Context, t *testing.T, name, says string, args ...string) {
	t.Helper()
	if code, out, errOut := c.kubectl(ctx, t, append([]string{"rollout", "undo", name, "-n", cliNamespace}, args...)...); code != 1 {
		t.Fatalf("kubectl rollout undo %v exits with %d, want 1:\n%s%s", args, code, out, errOut)
	}
	for _, output := range []string{"table", "kubectl"} {
		code, out, errOut := c.run(ctx, t, append([]string{"undo", name, "-n", cliNamespace, "-o", output}, args...)...)
		if code != 1 || out != "" || !strings.Contains(errOut, says) {
			t.Fatalf("undo %v exits with %d, want 1 and %q:\n%s%s", args, code, says, out, errOut)
		}
	}
}

// paste runs the output of -o kubectl in bash, unchanged.
func (c *cliCheck) paste(ctx context.Context, t *testing.T, verb, name string, args ...string) {
	t.Helper()
	// Until the last old pod is deleted, the status changes, and with it the resourceVersion that the commands require.
	err := controlplane.Poll(ctx, "old pods of "+name+" to be gone", func(ctx context.Context) error {
		d, err := c.cp.Deployment(ctx, cliNamespace, name)
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.TerminatingReplicas == nil || *s.TerminatingReplicas > 0 {
			return fmt.Errorf("generation is %d, status %+v", d.Generation, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code, script, errOut := c.run(ctx, t, append([]string{verb, name, "-n", cliNamespace, "-o", "kubectl"}, args...)...)
	if code != 0 {
		t.Fatalf("%s -o kubectl exits with %d: %s", verb, code, errOut)
	}
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Env, cmd.Stdin = c.cp.Env(), strings.NewReader(script)
	if code, out, errOut := runCommand(t, cmd); code != 0 || errOut != "" {
		t.Fatalf("the commands end with %d:\n%s\n%s%s", code, script, out, errOut)
	}
}

func (c *cliCheck) image(ctx context.Context, t *testing.T, name, want string) {
	t.Helper()
	d, err := c.cp.Deployment(ctx, cliNamespace, name)
	if err != nil {
		t.Fatal(err)
	}
	if have := d.Spec.Template.Spec.Containers[0].Image; have != want {
		t.Fatalf("image is %s, want %s", have, want)
	}
}

// takeOver disables the native controller, and rolls out a Deployment by running printed plans: creates, patches, status
// writes and deletes.
func (c *cliCheck) takeOver(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := c.cp.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	c.apply(ctx, t, "own", object{"replicas": 2, "revisionHistoryLimit": 0})
	scripts := c.carryOut(ctx, t, "own")
	c.setImage(ctx, t, "own", "2.0")
	scripts += c.carryOut(ctx, t, "own")
	for _, call := range []string{"kubectl create", "kubectl delete", "--type=json", "--type=merge", "--subresource=status"} {
		if !strings.Contains(scripts, call) {
			t.Errorf("nothing was done by %s:\n%s", call, scripts)
		}
	}
	c.agree(ctx, t, "own", 0, "successfully rolled out")
}

// carryOut runs printed plans until the rollout is complete and the plan is empty.
func (c *cliCheck) carryOut(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	scripts := ""
	err := controlplane.Poll(ctx, name+" to be rolled out", func(ctx context.Context) error {
		code, script, errOut := c.run(ctx, t, "plan", name, "-n", cliNamespace, "-o", "kubectl", "--takeover")
		if code != 0 {
			return fmt.Errorf("plan exits with %d: %s", code, errOut)
		}
		if !strings.Contains(script, "nothing to do now") {
			scripts += script
			cmd := exec.CommandContext(ctx, "bash")
			cmd.Env, cmd.Stdin = c.cp.Env(), strings.NewReader(script)
			// If an object has changed since it was read, the write is refused, and the next plan contains it again.
			code, out, errOut := runCommand(t, cmd)
			return fmt.Errorf("commands end with %d:\n%s%s", code, out, errOut)
		}
		if code, out, _ := c.run(ctx, t, "status", name, "-n", cliNamespace); code != 0 {
			return fmt.Errorf("status exits with %d:\n%s", code, out)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, scripts)
	}
	return scripts
}
