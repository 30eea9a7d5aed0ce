package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestDeployment applies adapters/config as docs/adapters.md says, in both modes. The pods are pretended, so that
// nothing runs in them: their commands run here instead, with the rights of the pods' account, and answer the probes.
func TestDeployment(t *testing.T) {
	for _, mode := range []Mode{CustomResource, Takeover} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := withTimeout(t, 5*time.Minute)
			// In takeover mode nobody but the adapter rolls out Deployments: its own pods must come without it.
			cp := controlplane.ForTest(t, controlplane.Options{NativeController: mode == CustomResource})
			p := packaged{cp, mode}
			p.apply(ctx, t)
			p.runContainers(ctx, t)
			p.rollOut(ctx, t)
		})
	}
}

// packaged is what adapters/config/deployment.yaml makes.
type packaged struct {
	*controlplane.ControlPlane
	mode Mode
}

// apply runs the commands of docs/adapters.md. Strict validation refuses fields that the API server does not know, and
// the namespace pods that are not restricted.
func (p packaged) apply(ctx context.Context, t *testing.T) {
	t.Helper()
	root, err := repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(root, "adapters/config")
	text, err := os.ReadFile(filepath.Join(config, "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied, workload := string(text), "deployment"
	if p.mode == Takeover {
		applied = strings.ReplaceAll(strings.ReplaceAll(applied, "custom-resource", "takeover"), "\nkind: Deployment", "\nkind: StatefulSet")
		workload = "statefulset"
	}
	p.MustKubectl(ctx, t, "apply", "--validate=strict", "-f", filepath.Join(config, "planneddeployment-crd.yaml"), "-f", filepath.Join(config, "rbac.yaml"))
	if out, err := p.KubectlInput(ctx, applied, "apply", "--validate=strict", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.MustKubectl(ctx, t, "rollout", "status", workload+"/rollplan-controller", "-n", systemNamespace, "--timeout="+waitTimeout)
}

// runContainers starts the containers of one pod, with ports of this machine, and waits until their probes succeed.
func (p packaged) runContainers(ctx context.Context, t *testing.T) {
	t.Helper()
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(p.MustKubectl(ctx, t, "get", "pods", "-n", systemNamespace, "-o", "json")), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 2 {
		t.Fatalf("there are %d pods, want 2", len(pods.Items))
	}
	pod := pods.Items[0]
	token := strings.TrimSpace(p.MustKubectl(ctx, t, "create", "token", pod.Spec.ServiceAccountName, "-n", systemNamespace))
	kubeconfig := filepath.Join(p.Dir(), "pod.kubeconfig")
	if err := p.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	planner, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range pod.Spec.Containers {
		probed, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		args := strings.ReplaceAll(strings.Join(container.Args, "\n"), "127.0.0.1:50051", planner)
		args = strings.ReplaceAll(args, "0.0.0.0:9464", probed)
		program := binaries.Rollplan
		if container.Name == "adapter" {
			program = binaries.Adapter
			// The default port of the probes; what a pod is told by its environment and files.
			args += "\n--health-probe-bind-address=" + probed + "\n--metrics-bind-address=0\n--kubeconfig=" + kubeconfig +
				"\n--leader-elect-namespace=" + systemNamespace
		}
		running, err := p.Run(container.Name, program, strings.Split(args, "\n")...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := running.Stop(); err != nil {
				t.Error(err)
			}
		})
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
			await(ctx, t, fmt.Sprintf("%s of %s", probe.HTTPGet.Path, container.Name), func(ctx context.Context) error {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probed+probe.HTTPGet.Path, nil)
				if err != nil {
					return err
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusOK {
					return fmt.Errorf("answer is %s; see %s", response.Status, running.Log())
				}
				return nil
			})
		}
	}
}

// rollOut has the started programs roll something out, with the rights of the manifest and no others.
func (p packaged) rollOut(ctx context.Context, t *testing.T) {
	t.Helper()
	object := manifest("hello", map[string]any{"replicas": 2}, nil)
	if p.mode == Takeover {
		object["apiVersion"], object["kind"] = "apps/v1", "Deployment"
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.KubectlInput(ctx, string(text), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	p.MustKubectl(ctx, t, "wait", "--for=condition=Available", fmt.Sprintf("%s/hello", object["kind"]), "--timeout="+waitTimeout)
}
