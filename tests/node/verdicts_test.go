package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	// interval is how often `wait` polls.
	interval = 5 * time.Second
	// slack is how long a poll may take on a busy machine: it runs kubectl five times.
	slack = 30 * time.Second
	// patience is how long the other programs may wait.
	patience = 200 * time.Second
	// limit is how long `rollplan wait` may take: five restarts take half of it on an idle machine.
	limit = 5 * time.Minute
	// recovery is how long a recovery may take: the ReplicaSet controller waits up to 1,000 s.
	recovery = 20 * time.Minute
	// glance is the timeout of `rollplan wait` if it is expected to continue.
	glance = 30 * time.Second
)

const base = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: localhost/app:1
        args: [serve]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`

// TestStates creates each state on a real node with Kubernetes' own controller, and runs `rollplan wait`, `kubectl rollout
// status`, kstatus and kubedog on it at the same time.
func TestStates(t *testing.T) {
	rounds, err := strconv.Atoi(env(t, "ROUNDS"))
	if err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(t.TempDir(), "app")
	if out, err := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", app, "./app").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The image in the registry must differ from that on the node, because the kubelet compares digests.
	c := start(t, "app="+app, "pushed="+app)
	c.startRegistry(t, app)
	var (
		mutex   sync.Mutex
		results = map[string]judgement{}
	)
	t.Run("states", func(t *testing.T) {
		for _, state := range persistent {
			t.Run(state.name, func(t *testing.T) {
				t.Parallel()
				result := c.judge(t, state, true)
				mutex.Lock()
				defer mutex.Unlock()
				results[state.name] = result
			})
		}
		for round := range rounds {
			for _, state := range recovering {
				t.Run(fmt.Sprintf("%s/%d", state.name, round+1), func(t *testing.T) {
					t.Parallel()
					state.want = complete
					result := c.judge(t, state, round == 0)
					mutex.Lock()
					defer mutex.Unlock()
					if round == 0 {
						results[state.name] = result
					}
				})
			}
		}
	})
	t.Run("controller stopped", c.testControllerStopped)
	t.Run("node lost", c.testNodeLost)
	t.Run("job with a proxy", c.testJobWithProxy)
	t.Run("volume in use on another node", c.testVolumeInUse)
	if file := os.Getenv("WRITE"); file != "" && !t.Failed() {
		writeTable(t, file, results)
	}
}

// startRegistry serves images to the node. Each new directory becomes an image.
func (c *cluster) startRegistry(t *testing.T, app string) {
	t.Helper()
	for _, dir := range []string{"registry", "pushed"} {
		if err := os.Mkdir(filepath.Join(c.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.run(t, "tar", "-x", "-f", filepath.Join(c.dir, "images/pushed.tar"), "-C", filepath.Join(c.dir, "pushed"))
	command := exec.Command("bash", "node.sh", "ns", c.dir, app, "registry", "127.0.0.1:5000", filepath.Join(c.dir, "registry"))
	command.Env = append(os.Environ(), "BIN="+c.bin)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

// judgement has the result of each program for a state.
type judgement struct {
	Rollplan, Message, Kubectl, Kstatus, Kubedog string
}

// response is a response of `rollplan wait -o json`, which prints one after every change.
type response struct {
	Report struct {
		Message string
		Phase   string
		Verdict struct {
			Outlook, Reason, Message, Remedy string
			Certain                          bool
		}
		Blockers []struct{ Reason, Message string }
	}
	// at is when the response was printed.
	at time.Time
}

// has reports whether the response contains a blocker with this reason.
func (r response) has(reason string) bool {
	for _, blocker := range r.Report.Blockers {
		if blocker.Reason == reason {
			return true
		}
	}
	return false
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		if old, ok := into[key].(map[string]any); ok && isMap {
			merge(old, inner)
		} else {
			into[key] = value
		}
	}
}

// deployment returns the manifest of a state, with this container.
func (s state) deployment(t *testing.T, spec, container string) string {
	t.Helper()
	var manifest map[string]any
	parse := func(text string, into *map[string]any) {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	parse(base, &manifest)
	specOf := manifest["spec"].(map[string]any)
	podOf := specOf["template"].(map[string]any)["spec"].(map[string]any)
	containerOf := podOf["containers"].([]any)[0].(map[string]any)
	for _, part := range []struct {
		text string
		into map[string]any
	}{{spec, specOf}, {s.pod, podOf}, {container, containerOf}} {
		fragment := map[string]any{}
		parse(part.text, &fragment)
		merge(part.into, fragment)
	}
	if s.beside != "" {
		var container map[string]any
		parse(s.beside, &container)
		podOf["containers"] = append(podOf["containers"].([]any), container)
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var nextNamespace = func() func() string {
	var mutex sync.Mutex
	n := 0
	return func() string {
		mutex.Lock()
		defer mutex.Unlock()
		n++
		return fmt.Sprintf("state-%d", n)
	}
}()

// judge creates a state and checks the verdict. If compare is set, it also runs the other programs.
func (c *cluster) judge(t *testing.T, s state, compare bool) judgement {
	t.Helper()
	in := nextNamespace()
	fill := func(text string) string { return strings.ReplaceAll(text, "NAMESPACE", in) }
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		if _, err := c.try(fill(stdin), filepath.Join(c.bin, "kubectl"), append([]string{"-n", in}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	c.create(t, in)
	t.Cleanup(func() { c.kubectl(t, "delete", "namespace", in, "--wait=false") })
	if s.objects != "" {
		kubectl(s.objects, "apply", "-f", "-")
	}
	if s.first != "" {
		// The Deployment is paused later.
		kubectl(s.deployment(t, strings.ReplaceAll(s.spec, "paused: true", ""), s.first), "apply", "-f", "-")
		if !s.broken {
			kubectl("", "rollout", "status", "deployment/web", "--timeout=2m")
		}
		if s.first == s.container {
			s.container += "\nenv: [{name: NEXT, value: template}]"
		}
	}
	kubectl(s.deployment(t, fill(s.spec), fill(s.container)), "apply", "-f", "-")
	begin := time.Now()
	for _, it := range s.later {
		timer := time.AfterFunc(it.after, func() {
			if it.image != "" {
				if err := os.Symlink("../pushed", filepath.Join(c.dir, "registry", fill(it.image))); err != nil {
					t.Error(err)
				}
				return
			}
			if it.script != "" {
				if out, isDone, err := c.follow("set -euo pipefail\n"+it.script, in); err != nil || !isDone {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			args := append([]string{"-n", in}, it.args...)
			for i := range args {
				args[i] = fill(args[i])
			}
			if _, err := c.try(fill(it.stdin), filepath.Join(c.bin, "kubectl"), args...); err != nil {
				t.Error(err)
			}
		})
		defer timer.Stop()
	}
	var (
		others sync.WaitGroup
		result judgement
	)
	if compare {
		others.Go(func() { result.Kubectl = c.judgeKubectl(in, begin) })
		others.Go(func() { result.Kstatus = c.judgeKstatus(t, in, begin) })
		others.Go(func() { result.Kubedog = c.judgeKubedog(t, in, begin) })
	}
	end := limit
	switch s.want {
	case waiting:
		end = glance
	case complete:
		end = recovery
	}
	responses, code := c.wait(t, in, "deploy/web", end, s.flags...)
	took := time.Since(begin)
	if len(responses) == 0 {
		t.Fatalf("wait ended with %d and printed nothing", code)
	}
	last := responses[len(responses)-1]
	c.check(t, s, in, responses, code)
	others.Wait()
	switch code {
	case 0:
		result.Rollplan = fmt.Sprintf("complete after %.0f s", took.Seconds())
	case 1:
		result.Rollplan = fmt.Sprintf("failed after %.0f s", took.Seconds())
	default:
		result.Rollplan = "waits"
	}
	t.Logf("%s: %s", result.Rollplan, last.Report.Message)
	result.Message = strings.NewReplacer(in, "NAMESPACE", "|", `\|`).Replace(last.Report.Message)
	return result
}

// wait runs `rollplan wait` for an object with a timeout, and returns its responses and its exit code.
func (c *cluster) wait(t *testing.T, in, object string, limit time.Duration, flags ...string) ([]response, int) {
	t.Helper()
	command := exec.Command(filepath.Join(env(t, "IMAGES"), "rollplan"), append([]string{"wait", object, "-n", in, "-o", "json",
		"--interval=" + interval.String(), "--timeout=" + limit.String()}, flags...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "KUBECTL="+filepath.Join(c.bin, "kubectl"))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var responses []response
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		one := response{at: time.Now()}
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			t.Errorf("%v: %s", err, scanner.Bytes())
		}
		responses = append(responses, one)
	}
	err = command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if code := command.ProcessState.ExitCode(); code != 0 && code != 1 && code != 3 {
		t.Fatalf("wait ended with %d: %s", code, &stderr)
	}
	if stderr.Len() > 0 {
		t.Logf("wait: %s", &stderr)
	}
	return responses, command.ProcessState.ExitCode()
}

// statusMessage returns the first line of `rollplan status`.
func (c *cluster) statusMessage(t *testing.T, in string) string {
	t.Helper()
	command := exec.Command(filepath.Join(env(t, "IMAGES"), "rollplan"), "status", "deploy/web", "-n", in, "-o", "json")
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "KUBECTL="+filepath.Join(c.bin, "kubectl"))
	out, err := command.Output()
	var one response
	if json.Unmarshal(out, &one) != nil {
		t.Fatalf("status: %v %s", err, out)
	}
	first, _, _ := strings.Cut(one.Report.Message, "\n")
	return first
}

// check compares the responses of `wait` with what the state requires.
func (c *cluster) check(t *testing.T, s state, in string, responses []response, code int) {
	t.Helper()
	last := responses[len(responses)-1]
	verdict := last.Report.Verdict
	codes := map[outcome]int{certain: 1, deadline: 1, complete: 0, waiting: 3}
	if code != codes[s.want] {
		t.Errorf("wait ended with %d, want %d: %s", code, codes[s.want], last.Report.Message)
		return
	}
	if s.want == complete {
		return
	}
	cause := regexp.MustCompile(s.cause)
	first, _, _ := strings.Cut(last.Report.Message, "\n")
	if !cause.MatchString(first) {
		// An event may arrive later than the status that it explains.
		time.Sleep(interval)
		first = c.statusMessage(t, in)
	}
	if !cause.MatchString(first) {
		t.Errorf("the first line does not name the cause, %s:\n%s", s.cause, first)
	}
	if !regexp.MustCompile(s.remedy).MatchString(verdict.Remedy) {
		t.Errorf("the remedy does not match %s: %s", s.remedy, verdict.Remedy)
	}
	if s.want == deadline {
		if verdict.Certain || last.Report.Phase != "PHASE_STALLED" {
			t.Errorf("want a failure by the progress deadline: %+v", verdict)
		}
		return
	}
	if s.want == waiting {
		return
	}
	if !verdict.Certain || verdict.Outlook != "OUTLOOK_NEEDS_CHANGE" {
		t.Errorf("not certain: %+v", verdict)
	}
	if s.restarts > 0 {
		if late := time.Since(c.lastTermination(t, in)); late > interval+slack {
			t.Errorf("certain %s after the container has terminated with %d restarts", late, s.restarts)
		}
		return
	}
	reported := slices.IndexFunc(responses, func(it response) bool { return it.has(verdict.Reason) })
	lasted := last.at.Sub(responses[reported].at)
	if lasted > s.grace+s.backoff+interval+slack || lasted < s.grace-interval-slack {
		t.Errorf("certain %s after the first report, want %s", lasted, s.grace)
	}
}

// signal sends a signal to a program on the node.
func (c *cluster) signal(t *testing.T, signal, program string) {
	t.Helper()
	c.run(t, "bash", "node.sh", "ns", c.dir, "bash", "-c", `kill -"$1" $(pidof "$2")`, "bash", signal, program)
}

// After a fix that the controller has not observed yet, the earlier failure does not count.
func (c *cluster) testControllerStopped(t *testing.T) {
	const in = "controller-stopped"
	c.create(t, in)
	c.set(t, in, `progressDeadlineSeconds: 10`, neverReady)
	if responses, code := c.wait(t, in, "deploy/web", limit); code != 1 {
		t.Fatalf("wait ended with %d before the fix: %+v", code, responses[len(responses)-1])
	}
	c.signal(t, "STOP", "kube-controller-manager")
	c.set(t, in, `progressDeadlineSeconds: 10`, `args: [serve, -ready-after=1s]`)
	responses, code := c.wait(t, in, "deploy/web", glance)
	c.signal(t, "CONT", "kube-controller-manager")
	if last := responses[len(responses)-1]; code != 3 || last.Report.Verdict.Reason != "GENERATION_UNOBSERVED" {
		t.Errorf("wait ended with %d while the controller was stopped: %+v", code, last)
	}
	if responses, code := c.wait(t, in, "deploy/web", limit); code != 0 {
		t.Errorf("wait ended with %d after the fix: %+v", code, responses[len(responses)-1])
	}
}

// A node that does not report for two minutes is not a failure, because it may return. Neither is a rollout that waits for a
// pod on this node to terminate.
func (c *cluster) testNodeLost(t *testing.T) {
	const degraded, recreated = "node-lost", "node-lost-recreate"
	const recreate = "strategy: {type: Recreate, rollingUpdate: null}"
	complete := func(when string) {
		t.Helper()
		for _, in := range []string{degraded, recreated} {
			if responses, code := c.wait(t, in, "deploy/web", limit); code != 0 {
				t.Fatalf("%s: wait ended with %d %s: %+v", in, code, when, responses[len(responses)-1])
			}
		}
	}
	c.create(t, degraded)
	c.set(t, degraded, "", "")
	c.create(t, recreated)
	c.set(t, recreated, recreate, "")
	complete("before")
	c.signal(t, "STOP", "kubelet")
	c.awaitNode(t, "Unknown")
	c.set(t, recreated, recreate, `args: [serve, -ready-after=1s]`)
	var waits sync.WaitGroup
	for in, want := range map[string]struct{ phase, message string }{
		degraded:  {"PHASE_DEGRADED", "node node may have stopped reporting"},
		recreated: {"PHASE_PROGRESSING", "Recreate is waiting for 2 old pods to terminate: web-"},
	} {
		waits.Go(func() {
			responses, code := c.wait(t, in, "deploy/web", 2*time.Minute)
			last := responses[len(responses)-1]
			t.Logf("%s: %s", in, last.Report.Message)
			if code != 3 || last.Report.Phase != want.phase || !strings.Contains(last.Report.Message, want.message) {
				t.Errorf("%s: wait ended with %d while the node was lost: %+v", in, code, last)
			}
		})
	}
	waits.Wait()
	c.signal(t, "CONT", "kubelet")
	c.awaitNode(t, "True")
	complete("after the node has returned")
}

// A container that does not end keeps a Job running although the program of the Job has succeeded. A native sidecar does not.
func (c *cluster) testJobWithProxy(t *testing.T) {
	const (
		job = `{apiVersion: batch/v1, kind: Job, metadata: {name: import}, spec: {template: {spec: {restartPolicy: Never,
  terminationGracePeriodSeconds: 1, initContainers: [%s], containers: [{name: import, image: "localhost/app:1", args: [exit, "0"]}%s]}}}}`
		proxy = `name: proxy, image: "localhost/app:1", args: [serve]`
	)
	for in, test := range map[string]struct {
		manifest, message string
		code              int
	}{
		"job-with-sidecar": {fmt.Sprintf(job, "{"+proxy+", restartPolicy: Always}", ""), "is complete", 0},
		"job-with-proxy":   {fmt.Sprintf(job, "", ", {"+proxy+"}"), "proxy", 3},
	} {
		c.create(t, in)
		c.applyIn(t, in, test.manifest)
		responses, code := c.wait(t, in, "job/import", glance)
		last := responses[len(responses)-1]
		t.Logf("%s: %s", in, last.Report.Message)
		if code != test.code || !strings.Contains(last.Report.Message, test.message) {
			t.Errorf("%s: wait ended with %d: %+v", in, code, last)
		}
	}
}

// A volume that is attached to another node. Nobody runs this node or attaches volumes, so the test does what a CSI driver
// would do. The attach-detach controller reports the conflict once, and the kubelet repeats that it waits for the volume.
func (c *cluster) testVolumeInUse(t *testing.T) {
	const in = "volume-in-use"
	c.create(t, in)
	c.applyIn(t, in, `{apiVersion: v1, kind: Node, metadata: {name: other, annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: disk.example.com}, spec: {attachRequired: true}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: in-use}, spec: {capacity: {storage: 1Mi}, accessModes: [ReadWriteOnce], storageClassName: in-use,
  csi: {driver: disk.example.com, volumeHandle: disk-1}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: in-use, volumeName: in-use,
  resources: {requests: {storage: 1Mi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: holder}, spec: {nodeName: other, containers: [{name: holder, image: "localhost/app:1", args: [sleep]}],
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}`)
	t.Cleanup(func() { c.kubectl(t, "delete", "node", "other") })
	var attachment string
	await(t, "the controller attaches the volume", func() error {
		attachment = c.kubectl(t, "get", "volumeattachments", "-o", "name")
		if attachment == "" {
			return errors.New("no VolumeAttachment exists")
		}
		return nil
	})
	c.kubectl(t, "patch", attachment, "--subresource=status", "--type=merge", "--patch", `{"status": {"attached": true}}`)
	c.applyIn(t, in, state{pod: `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`}.deployment(t, "replicas: 1\n"+soon,
		"volumeMounts: [{name: data, mountPath: /data}]"))
	responses, code := c.wait(t, in, "deploy/web", limit)
	last := responses[len(responses)-1]
	t.Logf("%s; %s", last.Report.Message, last.Report.Verdict.Remedy)
	if code != 1 || last.Report.Verdict.Certain || !strings.Contains(last.Report.Message, "Waiting for detach for volume") {
		t.Errorf("wait ended with %d: %+v", code, last)
	}
}

func (c *cluster) create(t *testing.T, in string) {
	t.Helper()
	c.kubectl(t, "create", "namespace", in)
}

// set applies the Deployment with this spec and container.
func (c *cluster) set(t *testing.T, in, spec, container string) {
	t.Helper()
	c.applyIn(t, in, state{}.deployment(t, spec, container))
}

func (c *cluster) applyIn(t *testing.T, in, manifest string) {
	t.Helper()
	if _, err := c.try(manifest, filepath.Join(c.bin, "kubectl"), "apply", "-n", in, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// awaitNode waits until the condition Ready of the node has this status.
func (c *cluster) awaitNode(t *testing.T, status string) {
	t.Helper()
	await(t, "the node", func() error {
		if ready := c.kubectl(t, "get", "node", "node", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); ready != status {
			return fmt.Errorf("%s", ready)
		}
		return nil
	})
}

// lastTermination returns when the container with the most restarts last terminated.
func (c *cluster) lastTermination(t *testing.T, in string) time.Time {
	t.Helper()
	type containerState struct {
		Terminated struct {
			FinishedAt time.Time `json:"finishedAt"`
		} `json:"terminated"`
	}
	type container struct {
		RestartCount int            `json:"restartCount"`
		State        containerState `json:"state"`
		LastState    containerState `json:"lastState"`
	}
	var pods struct {
		Items []struct {
			Status struct {
				InitContainerStatuses []container `json:"initContainerStatuses"`
				ContainerStatuses     []container `json:"containerStatuses"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(c.kubectl(t, "get", "pods", "-n", in, "-o", "json")), &pods); err != nil {
		t.Fatal(err)
	}
	most, finished := -1, time.Time{}
	for _, pod := range pods.Items {
		for _, it := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			at := it.State.Terminated.FinishedAt
			if at.IsZero() {
				at = it.LastState.Terminated.FinishedAt
			}
			if it.RestartCount > most || it.RestartCount == most && at.After(finished) {
				most, finished = it.RestartCount, at
			}
		}
	}
	return finished
}

// follow runs a script until it exits or its timeout expires, and returns its output and whether it exited.
func (c *cluster) follow(script string, args ...string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", append([]string{"-c", script, "bash"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "PATH="+c.bin+":"+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	out, err := command.CombinedOutput()
	isDone := ctx.Err() == nil
	// Kill the remaining processes of the script.
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	return string(out), isDone, err
}

func ended(word string, begin time.Time) string {
	return fmt.Sprintf("%s after %.0f s", word, time.Since(begin).Seconds())
}

func (c *cluster) judgeKubectl(in string, begin time.Time) string {
	_, isDone, err := c.follow(`exec kubectl rollout status deployment/web -n "$1"`, in)
	switch {
	case !isDone:
		return "waits"
	case err != nil:
		return ended("failed", begin)
	}
	return ended("complete", begin)
}

func (c *cluster) judgeKstatus(t *testing.T, in string, begin time.Time) string {
	// A pipeline would wait for kubectl, which exits only after another change.
	out, isDone, _ := c.follow(`exec 2>/dev/null; exec grep -m 1 -E '^(Current|Failed) ' < <(kubectl get deployment web -n "$1" --watch -o json | "$2")`, in, env(t, "KSTATUS"))
	switch {
	case !isDone:
		return "waits"
	case strings.HasPrefix(out, "Failed"):
		return ended("failed", begin)
	case !strings.HasPrefix(out, "Current"):
		t.Errorf("kstatus: %.300s", out)
	}
	return ended("complete", begin)
}

func (c *cluster) judgeKubedog(t *testing.T, in string, begin time.Time) string {
	out, isDone, err := c.follow(`exec "$2" rollout track deployment web -n "$1" --timeout 0`, in, env(t, "KUBEDOG"))
	switch {
	case !isDone:
		return "waits"
	case err != nil && strings.Contains(out, "panic: "):
		t.Errorf("kubedog: %.300s", out)
		return "panics"
	case err != nil:
		return ended("failed", begin)
	}
	return ended("complete", begin)
}

// writeTable replaces the table of the states in a file.
func writeTable(t *testing.T, file string, results map[string]judgement) {
	t.Helper()
	var table strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | ")) }
	row("state", "rollplan wait", "kubectl rollout status", "kstatus", "kubedog", "first line of rollplan")
	row("---", "---", "---", "---", "---", "---")
	for _, states := range [][]state{persistent, recovering} {
		for _, s := range states {
			result := results[s.name]
			message := result.Message
			if strings.HasPrefix(result.Rollplan, "complete") {
				message = ""
			}
			if _, cause, found := strings.Cut(message, "): "); found {
				message = cause
			}
			row(s.name, result.Rollplan, result.Kubectl, result.Kstatus, result.Kubedog, message)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- states: written by WRITE=1 bash tests/run states -->\n", "<!-- states ends -->\n"
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no markers for the table", file)
	}
	if err := os.WriteFile(file, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
