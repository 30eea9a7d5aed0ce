package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const (
	// pythonEnv is the Python interpreter of a virtual environment with what adapters/python requires.
	pythonEnv = "ROLLPLAN_PYTHON"
	// nodeEnv is the program of Node.js. The package of adapters/typescript must have been built.
	nodeEnv = "ROLLPLAN_NODE"
)

// TestPipelines runs the scripts of examples/pipelines: a rollout that succeeds, one that certainly fails and is rolled back,
// and two that are not rolled back, because they may still succeed.
func TestPipelines(t *testing.T) {
	python, node := os.Getenv(pythonEnv), os.Getenv(nodeEnv)
	if python == "" || node == "" {
		t.Fatalf("set %s to a Python interpreter with what adapters/python/requirements.lock has, and %s to Node.js 22.19 or later", pythonEnv, nodeEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	p := newPipelines(ctx, t, cp)
	directory := filepath.Join(p.root, "examples/pipelines")
	scripts := map[string][]string{
		"deploy.sh":      {"bash", filepath.Join(directory, "deploy.sh")},
		"deploy.py":      {python, filepath.Join(directory, "deploy.py")},
		"deploy.mts":     {node, installScript(t, p.root, filepath.Join(directory, "deploy.mts"))},
		"deploy-curl.sh": {"bash", filepath.Join(directory, "deploy-curl.sh")},
	}
	for script, command := range scripts {
		namespace := strings.NewReplacer(".", "-").Replace(script)
		if err := cp.CreateNamespace(ctx, namespace); err != nil {
			t.Fatal(err)
		}
		run := func(t *testing.T, tag string, wantCode int, wantOutput string) string {
			t.Helper()
			return p.run(ctx, t, command, namespace, tag, wantCode, wantOutput)
		}
		// Each step depends on the previous one.
		t.Run(script, func(t *testing.T) {
			run(t, "1.0", 0, "")
			p.image(ctx, t, namespace, "1.0")

			out := run(t, "404", 1, "cannot be pulled")
			if !strings.Contains(out, "rolling back") {
				t.Errorf("a certain failure is not undone:\n%s", out)
			}
			p.image(ctx, t, namespace, "1.0")

			// Pods of other programs may terminate, and free the quota.
			cp.MustKubectl(ctx, t, "create", "quota", "tight", "--hard=pods=2", "-n", namespace)
			out = run(t, "2.0", 1, "quota")
			p.image(ctx, t, namespace, "2.0")
			if strings.Contains(out, "rolling back") {
				t.Errorf("a quota is not a certain failure:\n%s", out)
			}
			cp.MustKubectl(ctx, t, "delete", "quota", "tight", "-n", namespace)
		})
	}
	if t.Failed() {
		return
	}
	if err := cp.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	for script, command := range scripts {
		namespace := strings.NewReplacer(".", "-").Replace(script)
		t.Run(script+" without a controller", func(t *testing.T) {
			p.timeout = 3
			out := p.run(ctx, t, command, namespace, "3.0", 3, "controller")
			if strings.Contains(out, "rolling back") {
				t.Errorf("a stopped controller is not a certain failure:\n%s", out)
			}
			p.image(ctx, t, namespace, "3.0")
		})
	}
}

// installScript copies a TypeScript program into a project with the package of this repository, and returns its path: Node.js
// searches for packages in the directories above a program.
func installScript(t *testing.T, root, script string) string {
	t.Helper()
	project := t.TempDir()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	adapter := filepath.Join(root, "adapters/typescript")
	installed := filepath.Join(project, filepath.Base(script))
	for _, err := range []error{
		os.WriteFile(installed, text, 0o600),
		os.MkdirAll(filepath.Join(project, "node_modules"), 0o700),
		os.Symlink(adapter, filepath.Join(project, "node_modules/rollplan")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return installed
}

// pipelines is the environment of the scripts.
type pipelines struct {
	cp          *controlplane.ControlPlane
	typed       kubernetes.Interface
	root        string
	environment []string
	// address is the address of the service.
	address string
	// timeout is the timeout of the scripts, in seconds.
	timeout int
}

func newPipelines(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane) *pipelines {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	typed, err := cp.Client()
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	certificate := config.CAData
	if len(certificate) == 0 {
		if certificate, err = os.ReadFile(config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(rollplan(t), filepath.Join(programs, "rollplan")); err != nil {
		t.Fatal(err)
	}
	return &pipelines{cp: cp, typed: typed, root: root, timeout: 60, address: startServe(ctx, t, cp), environment: append(cp.Env(),
		"PATH="+strings.Join([]string{programs, filepath.Dir(cp.Command(ctx).Path), os.Getenv("PATH")}, ":"),
		"PYTHONPATH="+filepath.Join(root, "adapters/python/src"),
		"KUBE_API="+config.Host, "KUBE_TOKEN="+config.BearerToken, "KUBE_CA="+ca, "FAIL_ON=image-pull=0s", "IMAGE_PULL=0")}
}

// startServe starts the service, and returns its address.
func startServe(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane) string {
	t.Helper()
	server, err := cp.Run("rollplan", rollplan(t), "serve", "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	var address string
	if err := controlplane.Poll(ctx, "the service", func(context.Context) error {
		text, err := os.ReadFile(server.Log())
		if err != nil {
			return err
		}
		_, after, found := strings.Cut(string(text), "listening on ")
		if !found {
			return fmt.Errorf("not listening: %s", text)
		}
		address, _, _ = strings.Cut(after, `"`)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return address
}

// run runs a script for an image tag, checks its exit code and that its output contains a text, and returns the output.
func (p *pipelines) run(ctx context.Context, t *testing.T, command []string, namespace, tag string, wantCode int, wantOutput string) string {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	text := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %s}
spec:
  replicas: 2
  progressDeadlineSeconds: 20
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "registry.example/web:%s"}]
`, namespace, tag)
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{manifest, namespace, "web"})...)
	unit := ""
	if filepath.Base(command[1]) == "deploy.sh" {
		unit = "s"
	}
	cmd.Env = append(slices.Clone(p.environment), "ROLLPLAN_SERVER=http://"+p.address, fmt.Sprintf("TIMEOUT=%d%s", p.timeout, unit), "INTERVAL=0.5"+unit)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != wantCode || !strings.Contains(string(out), wantOutput) {
		t.Fatalf("%s for %s ends with %d (%v), want %d and %q:\n%s", command[1], tag, code, err, wantCode, wantOutput, out)
	}
	return string(out)
}

// image checks the image of the Deployment.
func (p *pipelines) image(ctx context.Context, t *testing.T, namespace, tag string) {
	t.Helper()
	d, err := p.typed.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if have := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(have, ":"+tag) {
		t.Errorf("the image is %s, want %s", have, tag)
	}
}
