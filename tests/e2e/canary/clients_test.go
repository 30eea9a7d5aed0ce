package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
	"rollplan.dev/rollplan/tests/e2e/workloads"
)

// clients are other clients of a Deployment with a canary.
type clients struct {
	*scenario
	t *testing.T
}

// newClients starts a control plane with the guard for namespaces with its label.
func newClients(t *testing.T) *harness {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true, Pods: controlplane.PodsIgnore})
	service, err := workloads.StartService(t.Context(), os.Getenv(adapter.RollplanEnv), os.Stderr)
	if err != nil {
		t.Fatalf("%s: %v", adapter.RollplanEnv, err)
	}
	t.Cleanup(service.Stop)
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{ControlPlane: cp, service: service}
	var errTyped, errDynamic error
	h.typed, errTyped = kubernetes.NewForConfig(config)
	h.dynamic, errDynamic = dynamic.NewForConfig(config)
	if err := errors.Join(errTyped, errDynamic, h.installGuard(t.Context())); err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	h.Watch(watching, h.dynamic)
	return h
}

// deploy creates a Deployment of 10 pods, with Helm if it is given.
func (h *harness) deploy(t *testing.T, namespace string, guard bool, fault fault) *clients {
	t.Helper()
	c := testCase{Name: namespace, Seed: 2, Replicas: 10, MaxSurge: "2", MaxUnavailable: "0", Steps: []string{"2"}, Bake: 1, Guard: guard, Fault: fault,
		Policy: map[string]string{}, StartMin: 100 * time.Millisecond, StartMax: 300 * time.Millisecond}
	log := &namespaceLog{}
	h.Add(namespace, log, newKubelets(h.typed, c, h.Failed))
	s := &scenario{steering: &steering{h: h, c: c, namespace: namespace, log: log}, outcome: &outcome{c: c, log: log}}
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &clients{s, t}
}

// steerTo plans and patches until a plan in this phase has no step. It sends the command until the command has an effect.
func (c *clients) steerTo(phase string, ordered *command) {
	c.t.Helper()
	ctx := c.t.Context()
	if err := c.await(ctx, phase, func() bool {
		p, err := c.plan(ctx, ordered)
		if err == nil && len(p.Steps) > 0 {
			err = c.patch(ctx, p)
			ordered = nil
		}
		if err != nil {
			c.t.Log(err)
		}
		return err == nil && len(p.Steps) == 0 && p.Report.Phase == phase
	}); err != nil {
		c.t.Fatal(err)
	}
}

// holdCanary starts a canary, and waits until its pods exist.
func (c *clients) holdCanary() {
	c.t.Helper()
	ctx := c.t.Context()
	changed, err := c.jsonPatch(ctx, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}},
		map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image("v2")})
	if err != nil {
		c.t.Fatal(err)
	}
	c.addTemplate(changed)
	text, err := workloads.AsText(changed)
	if err != nil {
		c.t.Fatal(err)
	}
	c.steerTo(held, &command{Action: "CANARY_ACTION_START", Deployment: text})
	if err := c.await(ctx, "the canary pods", func() bool {
		d, _ := c.log.latest()
		ready := d.Status.ReadyReplicas == 12 || c.c.Fault != good
		return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == 12 && ready
	}); err != nil {
		c.t.Fatal(err)
	}
}

// shows requires that a command succeeds or fails, and that it prints a text. It logs the command with its last line.
func (c *clients) shows(succeeds bool, want, program string, arguments ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program, arguments...)
	cmd.Env = c.h.Env()
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	c.t.Logf("%s %s: %v: %s", filepath.Base(filepath.Dir(program))+"/"+filepath.Base(program), strings.Join(arguments, " "), err, lines[len(lines)-1])
	if (err == nil) != succeeds || !strings.Contains(string(out), want) {
		c.t.Errorf("%s %q: %v:\n%s\ninstead of %q", program, arguments, err, out, want)
	}
}

func (c *clients) kubectl(succeeds bool, want string, arguments ...string) {
	c.t.Helper()
	c.shows(succeeds, want, "kubectl", append(arguments, "-n", c.namespace)...)
}

// rolloutStatus is what `kubectl rollout status` shows.
func (c *clients) rolloutStatus(succeeds bool, want string) {
	c.t.Helper()
	c.kubectl(succeeds, want, "rollout", "status", "deployment/web", "--timeout=3s")
}

// kstatus requires a status of kstatus.
func (c *clients) kstatus(want string) {
	c.t.Helper()
	c.judged("KSTATUS", want)
}

// argocd requires a health of Argo CD.
func (c *clients) argocd(want string) {
	c.t.Helper()
	c.judged("ARGOHEALTH", want)
}

// judged requires a text that a program prints about the Deployment. The environment variable has the path of the program.
func (c *clients) judged(variable, want string) {
	c.t.Helper()
	d, err := c.get(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), os.Getenv(variable))
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	c.t.Logf("%s: %s", variable, bytes.TrimSpace(out))
	if err != nil || !strings.HasPrefix(string(out), want) {
		c.t.Errorf("%s: %v: %s instead of %s", variable, err, out, want)
	}
}

// shown requires the results of all clients that judge the Deployment.
func (c *clients) shown(isComplete bool, rollout string) {
	c.t.Helper()
	c.rolloutStatus(isComplete, rollout)
	switch isComplete {
	case true:
		c.kstatus("Current")
		c.argocd("Healthy")
	case false:
		c.kstatus("InProgress")
		c.argocd("Progressing")
	}
}

// sizes requires the sizes of the ReplicaSets of both images.
func (c *clients) sizes(stable, canary int32) {
	c.t.Helper()
	if err := c.await(c.t.Context(), "sizes", func() bool {
		return c.log.sizeOf(image("v1")) == stable && c.log.sizeOf(image("v2")) == canary && c.log.quiet() > time.Second
	}); err != nil {
		c.t.Errorf("the sizes are %d and %d instead of %d and %d", c.log.sizeOf(image("v1")), c.log.sizeOf(image("v2")), stable, canary)
	}
}

// autoscale lets an autoscaler scale by CPU usage. The ready pods share a constant total usage.
func (c *clients) autoscale() {
	c.t.Helper()
	var total atomic.Int64
	total.Store(1000)
	stop, err := workloads.ServeMetrics(c.t.Context(), c.h.ControlPlane, c.h.typed, func(pods []corev1.Pod) string {
		ready := int64(0)
		for _, pod := range pods {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
					ready++
				}
			}
		}
		return fmt.Sprintf("%dm", total.Load()/max(ready, 1))
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		stop()
		// Discovery fails as long as an API is registered and does not answer.
		if _, err := c.h.Kubectl(context.WithoutCancel(c.t.Context()), "delete", "apiservice/v1beta1.metrics.k8s.io"); err != nil {
			c.t.Error(err)
		}
	})
	autoscaler := map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"name": "web", "namespace": c.namespace},
		"spec": map[string]any{"minReplicas": 1, "maxReplicas": 30,
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"behavior":       map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": 0}},
			"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu",
				"target": map[string]any{"type": "AverageValue", "averageValue": "100m"}}}}}}
	text, err := json.Marshal(autoscaler)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.h.KubectlInput(c.t.Context(), string(text), "apply", "-f", "-"); err != nil {
		c.t.Fatal(err)
	}
	c.scaled(10, 100)
	c.holdCanary()
	// Stable and canary pods share the load of 1000m: 12 pods use 83m each, and 10 pods would use 100m.
	c.scaled(10, 83)
	c.sizes(10, 2)
	total.Store(2000)
	c.scaled(20, 90)
	c.sizes(18, 4)
	c.steerTo(rest, &command{Action: "CANARY_ACTION_PROMOTE", Force: true})
	c.scaled(20, 100)
	c.sizes(0, 20)
	total.Store(1000)
	c.scaled(10, 100)
	c.sizes(0, 10)
}

// scaled requires that an autoscaler wants a number of pods, for this average usage.
func (c *clients) scaled(replicas, average int) {
	c.t.Helper()
	want := fmt.Sprintf("%d %dm", replicas, average)
	path := "jsonpath={.status.desiredReplicas} {.status.currentMetrics[0].resource.current.averageValue}"
	var out string
	if err := c.await(c.t.Context(), want, func() bool {
		var err error
		out, err = c.h.Kubectl(c.t.Context(), "get", "hpa/web", "-n", c.namespace, "-o", path)
		d, _ := c.log.latest()
		return err == nil && out == want && *d.Spec.Replicas == int32(replicas)
	}); err != nil {
		c.t.Fatalf("the autoscaler wants %s instead of %s", out, want)
	}
	c.t.Logf("autoscaler: %s", out)
}

// release creates a chart with the Deployment, and installs it with a Helm.
func (c *clients) release(helm string) (upgrade []string) {
	c.t.Helper()
	dir := c.t.TempDir()
	manifest := map[string]any{}
	if err := json.Unmarshal([]byte(c.manifest("v1")), &manifest); err != nil {
		c.t.Fatal(err)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		c.t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), image("v1"), "{{ .Values.image }}", 1))
	config := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"key": "{{ .Values.key }}"}}`
	for name, text := range map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"values.yaml": "key: a\nimage: " + image("v1") + "\n", "templates/deployment.json": string(text), "templates/config.json": config} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	c.kubectl(true, "", "delete", "deployment/web", "--wait=true")
	c.kubectl(true, "", "wait", "--for=delete", "pods", "--all", "--timeout=60s")
	c.shows(true, "deployed", helm, "install", "web", dir, "-n", c.namespace, "--wait", "--timeout=60s")
	user, err := c.get(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.user = user
	return []string{"upgrade", "web", dir, "-n", c.namespace, "--timeout=8s"}
}

func env(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run bash tests/run canary_small", name)
	}
	return value
}

// TestClients checks the table in docs/contributors/canaries.md: what other clients show and do in each phase.
func TestClients(t *testing.T) {
	helms := map[string]string{"helm3": env(t, "HELM3"), "helm4": env(t, "HELM4")}
	env(t, "KSTATUS")
	h := newClients(t)

	t.Run("phases", func(t *testing.T) {
		c := h.deploy(t, "phases", false, good)
		c.shown(true, "successfully rolled out")
		c.holdCanary()
		c.sizes(10, 2)
		c.shown(false, "2 out of 10 new replicas have been updated")
		c.steerTo(held, nil)
		c.steerTo(rest, &command{Action: "CANARY_ACTION_PROMOTE", Force: true})
		c.shown(true, "successfully rolled out")
	})
	t.Run("stalled promotion, and abort", func(t *testing.T) {
		c := h.deploy(t, "stalled", false, neverReady)
		c.holdCanary()
		c.steerTo(promoting, &command{Action: "CANARY_ACTION_PROMOTE", Force: true})
		c.shown(false, "out of 10 new replicas have been updated")
		c.steerTo(aborted, &command{Action: "CANARY_ACTION_ABORT"})
		c.shown(true, "successfully rolled out")
		c.sizes(10, 0)
	})
	t.Run("progress deadline", func(t *testing.T) {
		c := h.deploy(t, "deadline", false, neverReady)
		c.kubectl(true, "patched", "patch", "deployment/web", "--type=merge", "-p", `{"spec": {"progressDeadlineSeconds": 5}}`)
		if err := c.await(t.Context(), "the observation of the deadline", c.isComplete); err != nil {
			t.Fatal(err)
		}
		c.holdCanary()
		// The deadline does not apply to a hold.
		time.Sleep(7 * time.Second)
		c.shown(false, "2 out of 10 new replicas have been updated")
		c.steerTo(promoting, &command{Action: "CANARY_ACTION_PROMOTE", Force: true})
		c.kubectl(false, "exceeded its progress deadline", "rollout", "status", "deployment/web", "--timeout=60s")
		c.kstatus("Failed")
		c.argocd("Degraded")
	})
	t.Run("autoscaler with metrics", func(t *testing.T) { c := h.deploy(t, "metrics", true, good); c.autoscale() })
	t.Run("kubectl at a hold", func(t *testing.T) {
		for _, guard := range []bool{false, true} {
			c := h.deploy(t, fmt.Sprintf("kubectl-%t", guard), guard, good)
			c.holdCanary()
			refusal := ""
			if guard {
				refusal = "rollplan canary promote"
			}
			// A pause stops nothing at a hold, and a resume continues it.
			c.kubectl(!guard, refusal, "rollout", "pause", "deployment/web")
			if !guard {
				c.rolloutStatus(false, "2 out of 10 new replicas have been updated")
				c.kstatus("InProgress")
				c.argocd("Suspended")
				c.kubectl(true, "", "rollout", "resume", "deployment/web")
			}
			c.sizes(10, 2)
			// An undo restores the stable template. Its pods stay, and do not count as available until the next plan.
			c.kubectl(!guard, refusal, "rollout", "undo", "deployment/web")
			if !guard {
				c.shown(false, "rollout to finish")
				c.steerTo(rest, nil)
				c.sizes(10, 0)
				c.holdCanary()
			}
			// A restart replaces the canary by one with the restarted template.
			c.kubectl(!guard, refusal, "rollout", "restart", "deployment/web")
			c.steerTo(held, nil)
			c.sizes(10, 2)
			// An autoscaler scales with and without the guard.
			c.kubectl(true, "autoscaled", "autoscale", "deployment/web", "--min=20", "--max=25", "--cpu-percent=50")
			c.sizes(18, 4)
			c.rolloutStatus(false, "4 out of 20 new replicas have been updated")
		}
	})
	for name, helm := range helms {
		t.Run(name, func(t *testing.T) {
			for _, guard := range []bool{false, true} {
				c := h.deploy(t, fmt.Sprintf("%s-%t", name, guard), guard, good)
				upgrade := c.release(helm)
				c.holdCanary()
				c.shows(true, "deployed", helm, "status", "web", "-n", c.namespace)
				// An upgrade with the stable image, of another object of the chart.
				other := append(upgrade, "--set", "key=b", "--wait")
				// An upgrade with the image of the canary changes the release, and not the hold.
				same := append(upgrade, "--set", "image="+image("v2"))
				switch {
				case guard && name == "helm3":
					c.shows(false, "rollplan canary promote", helm, other...)
				case name == "helm4":
					c.shows(false, `conflict with "rollplan-canary"`, helm, other...)
				default:
					// The upgrade restores the stable template without a message, and does not wait for the hold.
					c.shows(true, "has been upgraded", helm, other...)
					c.steerTo(rest, nil)
					c.sizes(10, 0)
					c.holdCanary()
				}
				c.shows(true, "has been upgraded", helm, same...)
				c.steerTo(held, nil)
				c.sizes(10, 2)
				c.shows(false, "context deadline exceeded", helm, append(same, "--wait")...)
				c.steerTo(rest, &command{Action: "CANARY_ACTION_PROMOTE", Force: true})
				c.shows(true, "has been upgraded", helm, append(same, "--wait")...)
			}
		})
	}
}
