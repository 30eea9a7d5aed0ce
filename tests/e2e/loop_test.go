package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const loopNamespace = "loop"

// rolloutTimeout limits one rollout. On an idle machine, each takes a few seconds.
const rolloutTimeout = "90s"

// TestLoop carries out plans with a shell script while the native controller is disabled, and checks that the results are
// what kubectl expects of that controller.
func TestLoop(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{})
	if err := cp.CreateNamespace(ctx, loopNamespace); err != nil {
		t.Fatal(err)
	}
	startLoop(ctx, t, cp, binary)
	watch := watchPods(ctx, t, cp)
	c := &loopCheck{cp: cp, binary: binary}

	// Each step depends on the previous one, so the first failure ends the test.
	c.apply(ctx, t, "web", 4, "RollingUpdate")
	c.rolledOut(ctx, t, "web", sizes{"1.0": 4})

	marks := watch.len()
	c.setImage(ctx, t, "web", "2.0")
	c.rolledOut(ctx, t, "web", sizes{"1.0": 0, "2.0": 4})
	watch.check(t, marks, "at least 3 of 4 pods are available during a rolling update", func(pods map[string]corev1.Pod) bool {
		return count(pods, "web", isAvailable) >= 3
	})

	// The image does not exist, so the rollout stops midway. Then the Deployment is scaled.
	c.setImage(ctx, t, "web", "404")
	c.await(ctx, t, "web", sizes{"1.0": 0, "2.0": 3, "404": 2})
	cp.MustKubectl(ctx, t, "scale", "deployment/web", "-n", loopNamespace, "--replicas=8")
	// 8 replicas and maxSurge 2, distributed in proportion to 3 and 2.
	c.await(ctx, t, "web", sizes{"1.0": 0, "2.0": 6, "404": 4})
	c.setImage(ctx, t, "web", "3.0")
	c.rolledOut(ctx, t, "web", sizes{"1.0": 0, "2.0": 0, "404": 0, "3.0": 8})

	c.apply(ctx, t, "batch", 3, "Recreate")
	c.rolledOut(ctx, t, "batch", sizes{"1.0": 3})
	marks = watch.len()
	// Old pods keep terminating until kwok is back to normal. Until then, the plans must wait.
	if err := cp.SetPods(ctx, controlplane.PodsHold); err != nil {
		t.Fatal(err)
	}
	c.setImage(ctx, t, "batch", "2.0")
	err := controlplane.Poll(ctx, "old pods of batch to be terminating", func(ctx context.Context) error {
		pods, err := cp.Pods(ctx, loopNamespace)
		if err != nil {
			return err
		}
		terminating := 0
		for _, pod := range pods {
			if pod.Labels["app"] == "batch" && pod.DeletionTimestamp != nil {
				terminating++
			}
		}
		if terminating != 3 {
			return fmt.Errorf("%d are terminating", terminating)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.SetPods(ctx, controlplane.PodsRun); err != nil {
		t.Fatal(err)
	}
	c.rolledOut(ctx, t, "batch", sizes{"1.0": 0, "2.0": 3})
	watch.check(t, marks, "with Recreate, old and new pods never exist at the same time", func(pods map[string]corev1.Pod) bool {
		old := count(pods, "batch", func(pod corev1.Pod) bool { return strings.HasSuffix(pod.Spec.Containers[0].Image, ":1.0") })
		return old == 0 || old == count(pods, "batch", func(corev1.Pod) bool { return true })
	})

	c.planIsEmpty(ctx, t, "web", "batch")
}

// loopCheck changes Deployments and checks the results.
type loopCheck struct {
	cp     *controlplane.ControlPlane
	binary string
}

func (c *loopCheck) apply(ctx context.Context, t *testing.T, name string, replicas int, strategy string) {
	t.Helper()
	spec := object{"replicas": replicas, "strategy": object{"type": strategy}}
	manifest, err := json.Marshal(deployment(name, "registry.example/"+name+":1.0", spec))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cp.KubectlInput(ctx, string(manifest), "apply", "-n", loopNamespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (c *loopCheck) setImage(ctx context.Context, t *testing.T, name, tag string) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "set", "image", "deployment/"+name, "-n", loopNamespace, "main=registry.example/"+name+":"+tag)
}

// sizes maps the image tag of each ReplicaSet of a Deployment to its size.
type sizes map[string]int32

// rolledOut waits until kubectl reports the rollout as complete, and then for exactly these ReplicaSets and pods.
func (c *loopCheck) rolledOut(ctx context.Context, t *testing.T, name string, want sizes) {
	t.Helper()
	t.Log(strings.TrimSpace(c.cp.MustKubectl(ctx, t, "rollout", "status", "deployment/"+name, "-n", loopNamespace, "--timeout="+rolloutTimeout)))
	c.await(ctx, t, name, want)
	total := int32(0)
	for _, size := range want {
		total += size
	}
	err := controlplane.Poll(ctx, "the status of "+name, func(ctx context.Context) error {
		d, err := c.cp.Deployment(ctx, loopNamespace, name)
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.Replicas != total || s.UpdatedReplicas != total || s.AvailableReplicas != total {
			return fmt.Errorf("want %d replicas and generation %d, status is %+v", total, d.Generation, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until the Deployment has exactly these ReplicaSets and all their pods exist.
func (c *loopCheck) await(ctx context.Context, t *testing.T, name string, want sizes) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	err := controlplane.Poll(ctx, fmt.Sprintf("ReplicaSets %v of %s", want, name), func(ctx context.Context) error {
		sets, err := c.cp.ReplicaSets(ctx, loopNamespace)
		if err != nil {
			return err
		}
		have := sizes{}
		for _, rs := range sets {
			if rs.Labels["app"] != name {
				continue
			}
			_, tag, _ := strings.Cut(rs.Spec.Template.Spec.Containers[0].Image, ":")
			if _, twice := have[tag]; twice {
				return fmt.Errorf("two ReplicaSets have the image tag %s", tag)
			}
			have[tag] = *rs.Spec.Replicas
			if rs.Status.ObservedGeneration != rs.Generation || rs.Status.Replicas != *rs.Spec.Replicas {
				return fmt.Errorf("ReplicaSet %s has size %d, but status %+v", rs.Name, *rs.Spec.Replicas, rs.Status)
			}
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("ReplicaSets are %v", have)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// planIsEmpty waits until the plans of the Deployments have no steps.
func (c *loopCheck) planIsEmpty(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	file := t.TempDir() + "/snapshot.json"
	for _, name := range names {
		err := controlplane.Poll(ctx, "an empty plan for "+name, func(ctx context.Context) error {
			snapshot, err := c.cp.Snapshot(ctx, loopNamespace)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file, []byte(snapshot), 0o644); err != nil {
				return err
			}
			p := runPlan(t, c.binary, "-f", file, "--deployment", loopNamespace+"/"+name, "--now", time.Now().UTC().Format(time.RFC3339))
			if len(p.Steps) > 0 {
				return fmt.Errorf("the plan has %d steps, the first is: %s", len(p.Steps), p.Steps[0]["summary"])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// startLoop runs loop.sh until the test ends, and logs its output if the test fails.
func startLoop(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane, binary string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, "./loop.sh", loopNamespace)
	cmd.Env = append(cp.Env(), "PLANNER=http://"+startServer(ctx, t, binary))
	cmd.Stdout, cmd.Stderr = &log, &log
	stopWithGroup(cmd, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			// Only the end of the context may stop it before the test ends.
			if ctx.Err() == nil {
				t.Errorf("loop.sh exited unexpectedly: %v", err)
			}
		default:
			_ = cmd.Cancel()
			<-ended
		}
		if t.Failed() {
			t.Logf("loop.sh:\n%s", log.String())
		}
	})
}

// stopWithGroup configures a command so that the end of its context signals the whole process group.
func stopWithGroup(cmd *exec.Cmd, signal syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, signal) }
	cmd.WaitDelay = 10 * time.Second
}

// podWatch holds every change of the pods since the start of the test, in order.
type podWatch struct {
	events chan []podEvent
}

type podEvent struct {
	Type   string     `json:"type"`
	Object corev1.Pod `json:"object"`
}

// watchPods records all changes of pods, because invariants that must hold at all times cannot be checked afterwards.
func watchPods(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane) *podWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cmd := cp.Command(ctx, "get", "pods", "-n", loopNamespace, "--watch", "--output-watch-events", "-o", "json")
	stopWithGroup(cmd, syscall.SIGTERM)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &podWatch{events: make(chan []podEvent, 1)}
	w.events <- nil
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		decoder := json.NewDecoder(out)
		for {
			var event podEvent
			if err := decoder.Decode(&event); err != nil {
				if ctx.Err() == nil && !errors.Is(err, io.EOF) {
					t.Errorf("watch pods: %v", err)
				}
				return
			}
			w.events <- append(<-w.events, event)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = cmd.Wait()
	})
	return w
}

// len returns the number of changes so far.
func (w *podWatch) len() int {
	events := <-w.events
	defer func() { w.events <- events }()
	return len(events)
}

// check replays the changes and fails the test if the condition does not hold after each change from the given one on.
func (w *podWatch) check(t *testing.T, from int, what string, holds func(map[string]corev1.Pod) bool) {
	t.Helper()
	events := <-w.events
	w.events <- events
	if len(events) == from {
		t.Fatalf("%s: no pod has changed", what)
	}
	pods := map[string]corev1.Pod{}
	for i, event := range events {
		if event.Type == "DELETED" {
			delete(pods, event.Object.Name)
		} else {
			pods[event.Object.Name] = event.Object
		}
		if i >= from && !holds(pods) {
			t.Fatalf("%s: violated after %s of %s; pods are %v", what, event.Type, event.Object.Name, slices.Sorted(maps.Keys(pods)))
		}
	}
}

func count(pods map[string]corev1.Pod, app string, match func(corev1.Pod) bool) int {
	n := 0
	for _, pod := range pods {
		if pod.Labels["app"] == app && match(pod) {
			n++
		}
	}
	return n
}

func isAvailable(pod corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
