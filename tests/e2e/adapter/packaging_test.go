package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestManifests applies the manifests in adapters/config in all modes, with the steps of docs/reference/adapters.md. The pods are
// simulated and run no containers, so the test runs the commands of their containers as local processes with the permissions
// of the service account, and sends the probes.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{CustomResource, Takeover, Restarts} {
		t.Run(string(mode), func(t *testing.T) {
			// In takeover mode, only the adapter manages Deployments, so its own pods must not need a Deployment controller.
			cp := controlplane.ForTest(t, controlplane.Options{NativeController: mode != Takeover})
			ctx := withTimeout(t, 5*time.Minute) // without the time to build and start the control plane
			p := installation{cp, mode}
			p.apply(ctx, t)
			p.runContainers(ctx, t)
			p.rollOut(ctx, t)
		})
	}
}

// installation is an adapter that was installed with the manifests.
type installation struct {
	*controlplane.ControlPlane
	mode Mode
}

// apply runs the commands of docs/reference/adapters.md. With strict validation, the API server rejects unknown fields; the
// namespace rejects pods that do not comply with the restricted Pod Security Standard.
func (p installation) apply(ctx context.Context, t *testing.T) {
	t.Helper()
	root, err := Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	workload, files := "statefulset", []string{"-f", filepath.Join(root, "adapters/config", string(p.mode)+".yaml")}
	if p.mode != Takeover {
		workload = "deployment"
	}
	if p.mode == CustomResource {
		files = append(files, "-f", filepath.Join(root, "adapters/config/planneddeployment-crd.yaml"))
	}
	p.MustKubectl(ctx, t, append([]string{"apply", "--validate=strict"}, files...)...)
	p.MustKubectl(ctx, t, "rollout", "status", workload+"/"+p.mode.account(), "-n", systemNamespace, "--timeout="+waitTimeout)
}

// runContainers runs the containers of one pod as processes on free ports, and waits until their probes succeed. As in a
// pod, they start together: the adapter is not ready without the service.
func (p installation) runContainers(ctx context.Context, t *testing.T) {
	t.Helper()
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(p.MustKubectl(ctx, t, "get", "pods", "-n", systemNamespace, "-o", "json")), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 2 {
		t.Fatalf("%d pods exist, want 2", len(pods.Items))
	}
	pod := pods.Items[0]
	token := strings.TrimSpace(p.MustKubectl(ctx, t, "create", "token", pod.Spec.ServiceAccountName, "-n", systemNamespace))
	kubeconfig := filepath.Join(p.Dir(), "pod.kubeconfig")
	if err := p.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	planner, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	type probe struct{ what, url, log string }
	var probes []probe
	for _, container := range pod.Spec.Containers {
		probeAddress, err := controlplane.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		args := strings.ReplaceAll(strings.Join(container.Args, "\n"), "127.0.0.1:50051", planner)
		args = strings.ReplaceAll(args, "0.0.0.0:9464", probeAddress)
		program := binaries.Rollplan
		if container.Name == "adapter" {
			program = binaries.Adapter
			// Replace the default ports, and the settings that a pod gets from its environment and volumes.
			args += "\n--health-probe-bind-address=" + probeAddress + "\n--metrics-bind-address=0\n--kubeconfig=" + kubeconfig +
				"\n--leader-elect-namespace=" + systemNamespace
		}
		process, err := p.Run(container.Name, program, strings.Split(args, "\n")...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := process.Stop(); err != nil {
				t.Error(err)
			}
		})
		for _, p := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
			path := p.HTTPGet.Path
			probes = append(probes, probe{path + " of " + container.Name, "http://" + probeAddress + path, process.Log()})
		}
	}
	for _, probe := range probes {
		await(ctx, t, probe.what, func(ctx context.Context) error {
			if err := answers(ctx, probe.url, http.StatusOK); err != nil {
				return fmt.Errorf("%w; see %s", err, probe.log)
			}
			return nil
		})
	}
}

// rollOut checks that the installed adapter completes a rollout, or restarts a Deployment, with the permissions that the
// manifests grant.
func (p installation) rollOut(ctx context.Context, t *testing.T) {
	t.Helper()
	object := manifest("hello", map[string]any{"replicas": 2}, nil)
	if p.mode != CustomResource {
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
	if p.mode != Restarts {
		return
	}
	// The adapter reads a workload if a restart of it was not answered.
	for _, resource := range []string{"deployments.apps", "statefulsets.apps", "daemonsets.apps", "cronjobs.batch", "jobs.batch"} {
		p.MustKubectl(ctx, t, "auth", "can-i", "get", resource, "--as=system:serviceaccount:"+systemNamespace+":"+p.mode.account())
	}
	p.MustKubectl(ctx, t, "create", "configmap", "hello", "--from-literal=KEY=1")
	p.MustKubectl(ctx, t, "set", "env", "deployment/hello", "--from=configmap/hello")
	p.MustKubectl(ctx, t, "annotate", "deployment/hello", "rollplan.dev/restart=enabled")
	p.MustKubectl(ctx, t, "wait", `--for=jsonpath={.metadata.annotations.rollplan\.dev/restart-state}`, "deployment/hello", "--timeout="+waitTimeout)
	p.MustKubectl(ctx, t, "patch", "configmap", "hello", "--patch", `{"data":{"KEY":"2"}}`)
	p.MustKubectl(ctx, t, "wait", `--for=jsonpath={.spec.template.metadata.annotations.rollplan\.dev/restarted-at}`, "deployment/hello", "--timeout="+waitTimeout)
}
