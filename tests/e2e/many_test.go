package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const (
	manyNamespace = "many"
	manyCount     = 50
	manyReplicas  = 4
	// Limit on the memory of the process, in KiB.
	manyMemory = 64 << 10
)

// TestWaitForMany waits for 50 Deployments at once. The process must run one kubectl at a time, read one list of each kind,
// and use little memory.
func TestWaitForMany(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, manyNamespace); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for n := range manyCount {
		name := fmt.Sprintf("web-%02d", n)
		spec := object{"replicas": manyReplicas, "minReadySeconds": 1 + n%5}
		manifest, err := json.Marshal(deployment(name, "registry.example/web:1.0", spec))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), manifest, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cp.MustKubectl(ctx, t, "apply", "-n", manyNamespace, "-f", dir)

	kubectl, calls := countingKubectl(t, cp)
	cmd := exec.CommandContext(ctx, binary, "wait", "-n", manyNamespace, "-f", dir, "--timeout", "4m", "--interval", "1s")
	cmd.Env = append(cp.Env(), "KUBECTL="+kubectl)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	usage := make(chan processUsage)
	go func() { usage <- watchProcess(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	used := <-usage
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errOut.String())
	}
	if complete := strings.Count(out.String(), " complete "); complete != manyCount {
		t.Errorf("%d of %d are reported as complete:\n%s", complete, manyCount, out.String())
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	all, lists := 0, 0
	for _, call := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		all++
		if strings.HasPrefix(call, "get deploy -o json ") {
			lists++
		}
	}
	t.Logf("%d Deployments with %d pods each: %.1f s, %d calls of kubectl, %d of them lists of Deployments, at most %d at once, "+
		"%d MiB of memory", manyCount, manyReplicas, time.Since(start).Seconds(), all, lists, used.children, used.memory>>10)
	// By name, it would be three reads for each Deployment and poll. Only the last four Deployments may be read by name.
	if lists == 0 || all >= 3*manyCount {
		t.Errorf("%d calls, of which %d are lists of Deployments", all, lists)
	}
	if used.children > 1 {
		t.Errorf("%d kubectl run at once", used.children)
	}
	if used.memory == 0 || used.memory > manyMemory {
		t.Errorf("%d KiB of memory, want at most %d", used.memory, manyMemory)
	}
}

// countingKubectl wraps the kubectl of the control plane, and records the arguments of each call.
func countingKubectl(t *testing.T, cp *controlplane.ControlPlane) (path, calls string) {
	t.Helper()
	dir := t.TempDir()
	path, calls = filepath.Join(dir, "kubectl"), filepath.Join(dir, "calls")
	program := cp.Command(t.Context()).Path
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%s'\nexec '%s' \"$@\"\n", calls, program)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, calls
}

// processUsage is the peak usage of a process.
type processUsage struct {
	// Resident memory, in KiB.
	memory int
	// Number of running child processes.
	children int
}

// watchProcess samples a process until it has ended.
func watchProcess(pid int, ended <-chan struct{}) processUsage {
	var used processUsage
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		used.memory = max(used.memory, peakMemory(pid))
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		children := 0
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			children += len(strings.Fields(string(text)))
		}
		used.children = max(used.children, children)
		select {
		case <-ended:
			return used
		case <-tick.C:
		}
	}
}

func peakMemory(pid int) int {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if peak, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(peak)[0])
			return kib
		}
	}
	return 0
}
