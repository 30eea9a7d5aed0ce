package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/adapter/integration"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// integrationCases is the number of tests in k8s.io/kubernetes/test/integration/deployment at the version in go.mod.
const integrationCases = 17

// TestUpstreamIntegration runs the integration tests of Kubernetes for Deployments, with the adapter in place of the
// Deployment controller. The tests start their own API server and ReplicaSet controller.
func TestUpstreamIntegration(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 25*time.Minute)
	programs, err := controlplane.Build(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	binary := buildIntegration(ctx, t, programs)
	address := serve(ctx, t)

	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout=20m")
	cmd.Dir, cmd.WaitDelay = t.TempDir(), 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+programs.Dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		deployment.PlannerEnv+"="+address, deployment.AdapterEnv+"="+binaries.Adapter)
	output, err := os.CreateTemp("", "rollplan-integration-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	// If a test panics, its etcd and adapter keep running; killing the process group ends them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	failure := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	out, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range results.FindAll(out, -1) {
		t.Logf("%s", bytes.TrimSpace(line))
	}
	if passed := len(passes.FindAll(out, -1)); failure != nil || passed != integrationCases {
		t.Fatalf("%v, %d of %d passed; see %s", failure, passed, integrationCases, output.Name())
	}
	if err := os.Remove(output.Name()); err != nil {
		t.Error(err)
	}
}

var (
	results = regexp.MustCompile(`(?m)^\s*(--- (PASS|FAIL|SKIP): .*|\w+_test\.go:\d+: .*)$`)
	passes  = regexp.MustCompile(`(?m)^--- PASS: `)
)

// buildIntegration builds the upstream tests together with package integration, which starts the adapter. The upstream
// files are not copied: a compiler overlay adds them to the package.
func buildIntegration(ctx context.Context, t *testing.T, programs controlplane.Programs) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	upstream := filepath.Join(strings.TrimSpace(string(out)), "test/integration/deployment")
	dir := t.TempDir()
	patched := func(name string, changes map[string]string) string {
		text, err := os.ReadFile(filepath.Join(upstream, name))
		if err != nil {
			t.Fatal(err)
		}
		for line, replacement := range changes {
			pattern := regexp.MustCompile(line)
			if !pattern.Match(text) {
				t.Fatalf("upstream file %s has changed: nothing matches %s", name, line)
			}
			text = pattern.ReplaceAll(text, []byte(replacement))
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	util := patched("util.go", map[string]string{
		`(?m)^	config := restclient\.CopyConfig\(server\.ClientConfig\)$`: "$0\n	Config = config",
		`(?m)^	go dc\.Run\(ctx, 5\)\n	return cancelFn$`:                   "	Discard(dc.Run)\n	stopAdapter := RunAdapter(t)\n	return func() { stopAdapter(); cancelFn() }",
	})
	// One test toggles the feature gate while the controller runs. The adapter must restart, because a flag sets it.
	cases := patched("deployment_test.go", map[string]string{
		`(?m)^	featuregatetesting\.SetFeatureGateDuringTest\(.*\)$`: "$0\n	GateChanged(t)",
	})
	here, err := filepath.Abs("integration")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(here, "util.go"):            util,
		filepath.Join(here, "main_test.go"):       filepath.Join(upstream, "main_test.go"),
		filepath.Join(here, "deployment_test.go"): cases,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	// The binary is cached so that later runs do not link it again.
	binary := programs.Path("integration.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-buildvcs=false", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./integration")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Fatalf("build the upstream integration tests: %v", err)
	}
	return binary
}

// serve runs the service until the test ends and returns its address.
func serve(ctx context.Context, t *testing.T) string {
	t.Helper()
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, binaries.Rollplan, "serve", "--listen", address)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
	})
	return address
}
