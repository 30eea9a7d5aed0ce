package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorder is a program that records its arguments. `rollplan canary start` prints a digest, and the Deployment exists.
const recorder = `#!/bin/sh
echo "${0##*/} $*" >>calls
case "${0##*/} $*" in
"rollplan canary start"*) echo sha256:1 ;;
"kubectl get deployment"*) echo deployment.apps/web ;;
esac
`

// TestCanaryTemplates checks that the GitHub Action and the GitLab component for canaries run the commands of canary.sh with the
// same values. It needs no control plane.
func TestCanaryTemplates(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"test": "echo the test >>calls", "pods": "2", "steps": "1,2", "bake": "1m", "surge": "1", "pipeline": "a pipeline",
		"apply-options": "--server-side --field-manager=ci",
		// Arguments and $TIMEOUT: exports knows their values.
		"manifest": "", "namespace": "", "deployment": "", "timeout": "",
	}
	var direct strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			continue
		}
		fmt.Fprintf(&direct, "export %s=%q\n", strings.ToUpper(strings.ReplaceAll(name, "-", "_")), values[name])
	}
	fmt.Fprintf(&direct, "bash %q \"$@\" bash -ec \"$TEST\"\n", filepath.Join(root, "examples/pipelines/canary.sh"))
	want := recorded(t, direct.String())
	for _, used := range []string{"the test", "--steps 1,2 --bake 1m --surge 1 --timeout 5m", "--pipeline a pipeline", "-f web.yaml --server-side --field-manager=ci"} {
		if !strings.Contains(want, used) {
			t.Errorf("canary.sh does not use %q:\n%s", used, want)
		}
	}
	var action action
	decode(t, filepath.Join(root, "packaging/github/canary/action.yml"), 0, &action)
	github := fmt.Sprintf("export GITHUB_ACTION_PATH=%q\n", filepath.Join(root, "packaging/github/canary"))
	for _, step := range action.Runs.Steps {
		github += exports(t, step.Env, values) + "set -eo pipefail\n" + step.Run + "\n"
	}
	gitlab := jobProgram(t, filepath.Join(root, "packaging/gitlab/templates/canary.yml"), values)
	for name, program := range map[string]string{"the Action": github, "the component": gitlab} {
		if have := recorded(t, program); have != want {
			t.Errorf("%s runs\n%s\ninstead of\n%s", name, have, want)
		}
	}
}

// recorded runs a program for bash, and returns the commands that it has run.
func recorded(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kubectl", "rollplan"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(recorder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", program, "job", "web.yaml", "shop", "web")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TIMEOUT=5m")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(calls)
}
