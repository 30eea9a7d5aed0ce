// Package node installs the chart on a real node: real containers, a real network, real kubelet probes.
//
// BIN is the directory with the Kubernetes binaries, HELM4 and HELM3 are the two versions of Helm, and IMAGES is the
// directory with the image archives: `bash tests/run node` sets them. A failed test keeps the directory with its logs, and
// prints its path.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	chart     = root + "/helm/rollplan"
	namespace = "rollplan-system"
	release   = "rollplan"
	selector  = "app.kubernetes.io/component=server"
	timeout   = 2 * time.Minute
)

func env(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("set %s, or run: bash tests/run node", name)
	}
	return value
}

// cluster is a running node.
type cluster struct {
	dir string
	bin string
}

// try runs a program with the kubeconfig of the node, and returns its standard output.
func (c *cluster) try(stdin, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "BIN="+c.bin, "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	command.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// run runs a program, and fails the test if the program fails.
func (c *cluster) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := c.try("", program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(c.run(t, filepath.Join(c.bin, "kubectl"), args...))
}

func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := c.try(manifest, filepath.Join(c.bin, "kubectl"), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) helm(t *testing.T, program string, args ...string) string {
	t.Helper()
	return c.run(t, env(t, program), append(args, "-n", namespace)...)
}

// upgrade installs or upgrades the release with these values, and waits until it is ready.
func (c *cluster) upgrade(t *testing.T, program string, values ...string) {
	t.Helper()
	args := []string{"upgrade", "--install", release, chart, "--wait", "--timeout=2m"}
	if len(values) > 0 {
		args = append(args, "--set", strings.Join(values, ","))
	}
	c.helm(t, program, args...)
}

// await polls until a condition holds.
func await(t *testing.T, what string, condition func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// pods returns the names of the pods with these labels that are not being deleted.
func (c *cluster) pods(t *testing.T, in, labels string) []string {
	t.Helper()
	out := c.kubectl(t, "get", "pods", "-n", in, "-l", labels, "-o",
		`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`)
	return strings.Fields(out)
}

// start starts a node with the images of the chart, and an image for each of the programs: NAME=PROGRAM.
func start(t *testing.T, programs ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollplan-node-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir, env(t, "BIN")}
	images := filepath.Join(dir, "images")
	if err := os.Mkdir(images, 0o755); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(env(t, "IMAGES") + "/*.tar")
	if err != nil || len(archives) < 2 {
		t.Fatal("no images in IMAGES", err)
	}
	for _, archive := range archives {
		if err := os.Symlink(archive, filepath.Join(images, filepath.Base(archive))); err != nil {
			t.Fatal(err)
		}
	}
	pause := filepath.Join(dir, "pause")
	c.run(t, "gcc", "-static", "-Os", "-s", "-o", pause, "pause/pause.c")
	c.run(t, "python3", append([]string{"images.py", images, "pause=" + pause, "coredns=" + env(t, "COREDNS")}, programs...)...)
	t.Cleanup(func() {
		if _, err := c.try("", "bash", "node.sh", "down", dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs of the node: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c.run(t, "bash", "node.sh", "up", dir)
	c.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: `+namespace+`, labels: {pod-security.kubernetes.io/enforce: restricted}}
`)
	return c
}

// load is a pod that calls the service at a constant rate.
type load struct {
	*cluster
	name string
}

type counts struct {
	OK, Failed  int
	Code, Error string
}

// startLoad starts a load on an address, with the label that the NetworkPolicy requires.
func (c *cluster) startLoad(t *testing.T, name, target string, args ...string) load {
	t.Helper()
	c.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {rollplan.dev/client: "true"}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: load, image: "localhost/load:1", args: [%s]}]
`, name, strings.Join(append(args, "--target="+target), ", ")))
	l := load{c, name}
	await(t, "the load calls the service", func() error {
		if now := l.counts(t); now.OK < 100 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	return l
}

// lines returns the output of the load.
func (l load) lines(t *testing.T) []counts {
	out, err := l.try("", filepath.Join(l.bin, "kubectl"), "logs", l.name)
	if err != nil {
		return nil // not started yet
	}
	var all []counts
	for line := range strings.Lines(out) {
		var one counts
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

func (l load) counts(t *testing.T) counts {
	if all := l.lines(t); len(all) > 0 {
		return all[len(all)-1]
	}
	return counts{}
}

// await waits until this many more calls have succeeded.
func (l load) await(t *testing.T, calls int) {
	t.Helper()
	reached := l.counts(t).OK
	await(t, "the load continues", func() error {
		if now := l.counts(t); now.OK < reached+calls {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
}

// during runs an action, waits for some more calls, and requires that no call has failed.
func (l load) during(t *testing.T, what string, action func()) {
	t.Helper()
	before := l.counts(t)
	action()
	l.await(t, 400)
	after := l.counts(t)
	t.Logf("%s: %d calls, %d failed", what, after.OK-before.OK, after.Failed-before.Failed)
	if after.Failed > before.Failed {
		for _, line := range l.lines(t) {
			if line.Error != "" && line.Failed > before.Failed {
				t.Errorf("%s: %s", what, line.Error)
			}
		}
	}
}

// step is a part of a test. The next step starts from the state in which it leaves the node.
type step struct {
	name string
	run  func(*cluster, *testing.T)
}

func (c *cluster) steps(t *testing.T, steps []step) {
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(c, t) }) {
			return
		}
	}
}

// Installs and uninstalls the chart with its defaults. This test runs for every change.
func TestInstall(t *testing.T) {
	start(t).steps(t, []step{
		{"Defaults", (*cluster).testInstall},
		{"Uninstall", (*cluster).testUninstall},
	})
}

// All steps use the same node, in order, because a node takes half a minute to start.
func TestNode(t *testing.T) {
	load := filepath.Join(t.TempDir(), "load")
	if out, err := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", load, "./load").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start(t, "load="+load, "envoy="+env(t, "ENVOY")).steps(t, []step{
		{"Install", (*cluster).testInstall},
		{"PodSecurity", (*cluster).testPodSecurity},
		{"UpgradeAndRollback", (*cluster).testUpgradeAndRollback},
		{"Drain", (*cluster).testDrain},
		{"MemoryLimit", (*cluster).testMemoryLimit},
		{"Sidecar", (*cluster).testSidecar},
		{"Autoscaling", (*cluster).testAutoscaling},
		{"Adapter", (*cluster).testAdapter},
	})
}

// With the defaults, two replicas become ready, answer `helm test`, and have metrics.
func (c *cluster) testInstall(t *testing.T) {
	c.upgrade(t, "HELM4")
	if pods := c.pods(t, namespace, selector); len(pods) != 2 {
		t.Fatalf("pods %v, want 2", pods)
	}
	if ready := c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "jsonpath={.status.readyReplicas}"); ready != "2" {
		t.Fatalf("%s replicas are ready, want 2", ready)
	}
	if warnings := c.kubectl(t, "get", "events", "-n", namespace, "-o", `jsonpath={.items[?(@.reason=="Unhealthy")].message}`); strings.Contains(warnings, "iveness") {
		t.Errorf("probes failed: %s", warnings)
	}
	notes := c.helm(t, "HELM4", "get", "notes", release)
	for _, want := range []string{release + "." + namespace + ".svc:50051", release + "." + namespace + ".svc:8080", `rollplan.dev/client: "true"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, notes)
		}
	}
	c.helm(t, "HELM4", "test", release, "--timeout=1m")
	if out := c.kubectl(t, "logs", release+"-test", "-n", namespace); !strings.Contains(out, "create ReplicaSet example-") {
		t.Errorf("helm test printed no plan:\n%s", out)
	}
	c.kubectl(t, "delete", "pod", release+"-test", "-n", namespace)
	// The second port of the Service: HTTP/1.1 and JSON.
	address := c.kubectl(t, "get", "service", release, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}") + ":8080"
	body, err := json.Marshal(map[string]any{"snapshot": map[string]any{"now": "2026-01-01T00:00:00Z", "objects": []string{`{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": {"name": "web", "namespace": "shop", "uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "1", "generation": 1},
		"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
			"spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}`}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.try(string(body), "bash", "node.sh", "ns", c.dir, "curl", "--http1.1", "--fail-with-body", "--silent", "--show-error", "--max-time", "10",
		"--header", "content-type: application/json", "--data-binary", "@-", "http://"+address+"/rollplan.v1.RolloutPlanner/PlanRollout")
	if err != nil || !strings.Contains(out, `"report"`) {
		t.Errorf("a call with HTTP/1.1 and JSON: %v %s", err, out)
	}
	planned := 0
	for _, pod := range c.pods(t, namespace, selector) {
		planned += c.planned(t, pod)
	}
	if planned != 2 {
		t.Errorf("the replicas have counted %d plans, want one from helm test and one from curl", planned)
	}
}

// planned returns the number of plans in the metrics of a replica.
func (c *cluster) planned(t *testing.T, pod string) int {
	t.Helper()
	metrics := c.kubectl(t, "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9464/proxy/metrics", namespace, pod))
	if !strings.Contains(metrics, "rollplan_build_info{") {
		t.Errorf("no metrics of %s", pod)
	}
	planned := 0
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "grpc_server_handled_total{") && strings.Contains(line, `"PlanRollout"`) && strings.Contains(line, `"OK"`) {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			if err != nil {
				t.Fatal(err)
			}
			planned += n
		}
	}
	return planned
}

// Uninstalls a release with all features.
func (c *cluster) testUninstall(t *testing.T) {
	c.upgrade(t, "HELM4", "adapter.enabled=true", "server.autoscaling.enabled=true", "service.headless.enabled=true")
	await(t, "the adapter leads", func() error {
		if leases := c.kubectl(t, "get", "leases", "-n", namespace, "-o", "name"); leases == "" {
			return fmt.Errorf("no lease")
		}
		return nil
	})
	c.uninstall(t)
}

// uninstall uninstalls the release. Only the CustomResourceDefinition and objects that the chart did not create remain.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	c.helm(t, "HELM4", "uninstall", release, "--wait")
	await(t, "the pods of the release end", func() error {
		if pods := c.kubectl(t, "get", "pods", "-n", namespace, "-o", "name"); pods != "" {
			return fmt.Errorf("%s", pods)
		}
		return nil
	})
	c.kubectl(t, "get", "crd", "planneddeployments.apps.rollplan.dev")
	left := c.kubectl(t, "get", "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,leases",
		"-n", namespace, "-o", "name")
	left += "\n" + c.kubectl(t, "get", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/instance="+release, "-o", "name")
	expected := []string{
		// Every namespace has these objects.
		"configmap/kube-root-ca.crt", "serviceaccount/default",
		// The adapter creates this object, not the chart.
		"lease.coordination.k8s.io/rollplan-controller-custom-resource",
	}
	for line := range strings.FieldsSeq(left) {
		if !slices.Contains(expected, line) {
			t.Errorf("left after the uninstall: %s", line)
		}
	}
}

// The API server accepts a pod of each template in a namespace with the restricted Pod Security Standard.
func (c *cluster) testPodSecurity(t *testing.T) {
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		manifests := c.helm(t, "HELM4", "template", "ci", chart, "-f", file)
		for manifest := range strings.SplitSeq(manifests, "\n---\n") {
			var object struct {
				Kind string         `json:"kind"`
				Spec map[string]any `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
				t.Fatal(err)
			}
			if object.Kind != "Deployment" && object.Kind != "StatefulSet" {
				continue
			}
			pod := object.Spec["template"].(map[string]any)
			pod["apiVersion"], pod["kind"] = "v1", "Pod"
			pod["metadata"].(map[string]any)["name"] = "dry-run"
			// Admission would require it to exist.
			delete(pod["spec"].(map[string]any), "serviceAccountName")
			text, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.try(string(text), filepath.Join(c.bin, "kubectl"), "create", "--dry-run=server", "-n", namespace, "-f", "-"); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			checked++
		}
	}
	if checked < len(files) {
		t.Errorf("checked only %d pods of %d files", checked, len(files))
	}
}

// No call fails while all replicas are replaced, forward and back.
func (c *cluster) testUpgradeAndRollback(t *testing.T) {
	l := c.startLoad(t, "load-upgrade", release+"."+namespace+".svc:50051")
	old := c.pods(t, namespace, selector)
	l.during(t, "upgrade", func() { c.upgrade(t, "HELM4", "server.settings.slowCall=2s") })
	for _, pod := range c.pods(t, namespace, selector) {
		if slices.Contains(old, pod) {
			t.Errorf("%s was not replaced", pod)
		}
	}
	l.during(t, "rollback", func() { c.helm(t, "HELM4", "rollback", release, "--wait", "--timeout=2m") })
	await(t, "the replaced replicas end", func() error {
		if pods := c.kubectl(t, "get", "pods", "-n", namespace, "-l", selector, "-o", "name"); strings.Count(pods, "\n") != 1 {
			return fmt.Errorf("%s", pods)
		}
		return nil
	})
	l.during(t, "after the rollback", func() {})
	c.kubectl(t, "delete", "pod", l.name)
}

// A drain leaves one replica, which serves all calls.
func (c *cluster) testDrain(t *testing.T) {
	l := c.startLoad(t, "load-drain", release+"."+namespace+".svc:50051")
	l.during(t, "drain", func() {
		_, err := c.try("", filepath.Join(c.bin, "kubectl"), "drain", "node", "--ignore-daemonsets", "--pod-selector="+selector, "--timeout=45s")
		if err == nil || !strings.Contains(err.Error(), "disruption budget") {
			t.Errorf("the drain was not stopped by the PodDisruptionBudget: %v", err)
		}
		if ready := c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "jsonpath={.status.readyReplicas}"); ready != "1" {
			t.Errorf("%q replicas are ready during the drain, want 1", ready)
		}
	})
	l.during(t, "uncordon", func() {
		c.kubectl(t, "uncordon", "node")
		c.kubectl(t, "rollout", "status", "deployment/"+release, "-n", namespace, "--timeout=1m")
	})
	c.kubectl(t, "delete", "pod", l.name)
}

// A replica that exceeds its memory limit is killed and restarted. Calls in flight on it fail with UNAVAILABLE, and those
// after them are answered by the other replica.
func (c *cluster) testMemoryLimit(t *testing.T) {
	c.upgrade(t, "HELM4", "service.headless.enabled=true")
	l := c.startLoad(t, "load-memory", "dns:///"+release+"-headless."+namespace+".svc:50051", "--policy=round_robin")
	l.during(t, "before the kill", func() {})
	before := l.counts(t)
	pod := c.pods(t, namespace, selector)[0]
	uid := c.kubectl(t, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
	id := strings.TrimPrefix(c.kubectl(t, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.containerStatuses[0].containerID}"), "containerd://")
	// The control group of a pod is below that of its QoS class.
	groups, err := filepath.Glob("/sys/fs/cgroup/memory/rollplan-node/kubepods/*/pod" + uid + "/" + id)
	if err != nil || len(groups) != 1 {
		t.Fatalf("control groups of %s: %v %v", pod, groups, err)
	}
	// A process in the same control group allocates memory up to the limit, so that the kernel kills the replica. The replica is
	// stopped first, so that it has calls in flight.
	script := `
import os, signal, sys, time
group = sys.argv[1]
replica = int(open(group + "/cgroup.procs").read().split()[0])
os.kill(replica, signal.SIGSTOP)
time.sleep(0.5)
open("/proc/%d/oom_score_adj" % replica, "w").write("1000")
open(group + "/cgroup.procs", "w").write(str(os.getpid()))
taken = []
while os.path.exists("/proc/%d" % replica) and len(taken) < 1000:
    taken.append(bytearray(b"x") * (1 << 20))
`
	stopped := time.Now()
	if out, err := exec.Command("python3", "-c", script, groups[0]).CombinedOutput(); err != nil {
		t.Logf("the process that allocates the memory: %v %s", err, out) // the kernel may kill it too
	}
	inFlight := 100 + int(time.Since(stopped)/(2*5*time.Millisecond))
	await(t, "the replica is restarted", func() error {
		status := c.kubectl(t, "get", "pod", pod, "-n", namespace, "-o",
			"jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.reason} {.status.containerStatuses[0].ready}")
		if status != "1 OOMKilled true" {
			return fmt.Errorf("%s", status)
		}
		return nil
	})
	l.await(t, 400)
	failed := 0
	for _, line := range l.lines(t) {
		if line.Code == "" {
			continue
		}
		failed++
		if line.Code != "Unavailable" {
			t.Errorf("a call failed with %s: %s", line.Code, line.Error)
		}
	}
	t.Logf("killed by the memory limit: %d calls, %d failed, all with UNAVAILABLE", l.counts(t).OK-before.OK+failed, failed)
	// A call starts every 5 ms. While the replica is stopped, it gets half of them.
	if failed == 0 || failed > inFlight {
		t.Errorf("%d calls failed, want those in flight on one replica, at most %d", failed, inFlight)
	}
	c.kubectl(t, "delete", "pod", l.name)
}

// Enabling autoscaling in an upgrade does not change the number of replicas, and later upgrades keep that of the
// autoscaler, with Helm 4 and with Helm 3.
func (c *cluster) testAutoscaling(t *testing.T) {
	for _, helm := range []string{"HELM4", "HELM3"} {
		c.helm(t, "HELM4", "uninstall", release, "--wait")
		c.upgrade(t, helm, "server.replicas=3")
		lowest := c.watchReplicas(t)
		c.upgrade(t, helm, "server.replicas=3", "server.autoscaling.enabled=true", "server.autoscaling.minReplicas=2")
		c.upgrade(t, helm, "server.replicas=3", "server.autoscaling.enabled=true", "server.autoscaling.minReplicas=4")
		await(t, "the autoscaler scales up", func() error {
			if replicas := c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "jsonpath={.spec.replicas}"); replicas != "4" {
				return fmt.Errorf("%s replicas", replicas)
			}
			return nil
		})
		c.upgrade(t, helm, "server.autoscaling.enabled=true", "server.autoscaling.minReplicas=4", "server.settings.slowCall=3s")
		c.upgrade(t, helm, "server.autoscaling.enabled=true", "server.autoscaling.minReplicas=4", "server.settings.slowCall=4s")
		if replicas := c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "jsonpath={.spec.replicas}"); replicas != "4" {
			t.Errorf("%s: %s replicas after upgrades, want 4", helm, replicas)
		}
		if seen := lowest(); slices.Min(seen) < 3 {
			t.Errorf("%s: spec.replicas was %v, and must never be below 3", helm, seen)
		} else {
			t.Logf("%s: spec.replicas was %v", helm, seen)
		}
		// Revision 2 has another number of replicas. Helm 4 reports a conflict because the autoscaler owns the field.
		rollback := []string{"rollback", release, "2", "-n", namespace, "--wait", "--timeout=1m"}
		if helm == "HELM4" {
			if _, err := c.try("", env(t, helm), rollback...); err == nil || !strings.Contains(err.Error(), ".spec.replicas") {
				t.Errorf("a rollback to another number of replicas reports no conflict: %v", err)
			}
			rollback = append(rollback, "--force-conflicts")
		}
		if _, err := c.try("", env(t, helm), rollback...); err != nil {
			t.Error(err)
		}
		c.upgrade(t, helm) // without autoscaling again
	}
}

// watchReplicas records each value of spec.replicas, until the returned function is called.
func (c *cluster) watchReplicas(t *testing.T) func() []int {
	t.Helper()
	command := exec.Command(filepath.Join(c.bin, "kubectl"), "get", "deployment", release, "-n", namespace, "--watch", "-o", "jsonpath={.spec.replicas} ")
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	var out bytes.Buffer
	command.Stdout = &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return func() []int {
		_ = command.Process.Kill()
		_ = command.Wait()
		var seen []int
		for field := range strings.FieldsSeq(out.String()) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if len(seen) == 0 || seen[len(seen)-1] != n {
				seen = append(seen, n)
			}
		}
		if len(seen) == 0 {
			t.Fatal("watched no Deployment")
		}
		return seen
	}
}

const planned = `
apiVersion: apps.rollplan.dev/v1alpha1
kind: PlannedDeployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: localhost/rollplan:TAG
        imagePullPolicy: IfNotPresent
        args: [serve, "--listen=0.0.0.0:50051", --drain-delay=LIMITs]
        readinessProbe: {grpc: {port: 50051}, periodSeconds: 1}
`

// The adapter serves its metrics to authorized clients only.
func (c *cluster) checkAdapterMetrics(t *testing.T) {
	t.Helper()
	pod := c.pods(t, namespace, "app.kubernetes.io/component=controller")[0]
	address := c.kubectl(t, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.podIP}") + ":8080"
	token := c.kubectl(t, "create", "token", "default", "-n", "default")
	get := func(headers ...string) string {
		args := []string{"node.sh", "ns", c.dir, "curl", "--insecure", "--silent", "--show-error", "--max-time", "10", "--retry", "10", "--retry-all-errors", "--write-out", "%{http_code}"}
		for _, header := range headers {
			args = append(args, "--header", header)
		}
		return c.run(t, "bash", append(args, "https://"+address+"/metrics")...)
	}
	if out := get(); !strings.HasSuffix(out, "401") {
		t.Errorf("metrics without a token: %s", out)
	}
	if out := get("Authorization: Bearer " + token); !strings.HasSuffix(out, "403") {
		t.Errorf("metrics without the role: %s", out)
	}
	c.kubectl(t, "create", "clusterrolebinding", "metrics", "--clusterrole="+namespace+"-rollplan-controller-metrics-reader", "--serviceaccount=default:default")
	// This includes a replica that is not the leader and reconciles nothing.
	await(t, "the metrics of the adapter", func() error {
		if out := get("Authorization: Bearer " + token); !strings.HasSuffix(out, "200") || !strings.Contains(out, "rest_client_requests_total") {
			return fmt.Errorf("%.200s", out)
		}
		return nil
	})
	c.kubectl(t, "delete", "clusterrolebinding", "metrics")
}

// A PlannedDeployment with real pods is created, updated, gets an image that cannot be pulled, is rolled back, keeps its pods
// when the release is uninstalled, and is deleted.
func (c *cluster) testAdapter(t *testing.T) {
	tag := strings.TrimPrefix(c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "jsonpath={.spec.template.spec.containers[0].image}"), "localhost/rollplan:")
	manifest := func(tag, delay string) string {
		return strings.NewReplacer("TAG", tag, "LIMIT", delay).Replace(planned)
	}
	complete := func(what string) {
		t.Helper()
		await(t, what, func() error {
			status := c.kubectl(t, "get", "pdeploy", "web", "-o",
				"jsonpath={.metadata.generation}={.status.observedGeneration} {.status.replicas}{.status.updatedReplicas}{.status.availableReplicas}")
			generations, replicas, _ := strings.Cut(status, " ")
			generation, observed, _ := strings.Cut(generations, "=")
			if generation != observed || replicas != "333" {
				return fmt.Errorf("%s", status)
			}
			return nil
		})
	}
	c.upgrade(t, "HELM4", "adapter.enabled=true")
	c.checkAdapterMetrics(t)
	c.apply(t, manifest(tag, "0"))
	complete("the PlannedDeployment is created")
	first := c.pods(t, "default", "app=web")
	c.apply(t, manifest(tag, "1"))
	complete("the PlannedDeployment is updated")
	for _, pod := range c.pods(t, "default", "app=web") {
		if slices.Contains(first, pod) {
			t.Errorf("%s was not replaced", pod)
		}
	}

	c.apply(t, manifest("404", "1"))
	program := filepath.Join(c.dir, "rollplan")
	if err := os.Symlink(filepath.Join(env(t, "IMAGES"), "rollplan"), program); err != nil {
		t.Fatal(err)
	}
	rollplan := func(args ...string) (string, error) {
		return c.try("", "env", append([]string{"KUBECTL=" + filepath.Join(c.bin, "kubectl"), program}, args...)...)
	}
	await(t, "the bad image is reported", func() error {
		_, err := rollplan("status", "pdeploy/web", "-n", "default") // exit code 3: in progress
		if err == nil {
			return fmt.Errorf("status reports a complete rollout")
		}
		for _, pod := range c.pods(t, "default", "app=web") {
			if strings.Contains(err.Error(), pod) && (strings.Contains(err.Error(), "ErrImagePull") || strings.Contains(err.Error(), "ImagePullBackOff")) {
				t.Logf("bad image: %s", err)
				return nil
			}
		}
		return err
	})
	if available := c.kubectl(t, "get", "pdeploy", "web", "-o", "jsonpath={.status.availableReplicas}"); available != "3" {
		t.Errorf("%s pods are available with a bad image, want 3", available)
	}
	undo, err := rollplan("undo", "pdeploy/web", "-n", "default", "-o", "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.try(undo, "env", "PATH="+c.bin+":"+os.Getenv("PATH"), "sh"); err != nil {
		t.Fatal(err)
	}
	complete("the PlannedDeployment is undone")

	before := c.pods(t, "default", "app=web")
	c.uninstall(t)
	if after := c.pods(t, "default", "app=web"); !slices.Equal(before, after) || len(after) != 3 {
		t.Errorf("pods after the uninstall: %v, before: %v", after, before)
	}

	// After it is installed again, the release manages the object again.
	c.upgrade(t, "HELM4", "adapter.enabled=true")
	c.kubectl(t, "delete", "pdeploy", "web", "--timeout=60s")
	await(t, "the pods are deleted", func() error {
		if pods := c.pods(t, "default", "app=web"); len(pods) > 0 {
			return fmt.Errorf("%v", pods)
		}
		return nil
	})
}
