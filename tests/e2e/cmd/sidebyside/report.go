package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// result is the measurement of one controller.
type result struct {
	phases                        []phase
	controllers, adapter, service controlplane.Usage
}

// phase is the measurement of one change to all small Deployments, or to the big one.
type phase struct {
	name     string
	rollouts int
	duration time.Duration
	calls    calls
}

// render returns the text of the section in the document.
func render(native, ours result, deployments, big int, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Kubernetes %s, %d cores shared by the API server, etcd, all controllers, the simulated kubelet, the adapter and the\n", version, runtime.NumCPU())
	fmt.Fprintf(&b, "service. Each controller has 5 workers and may make at most 500 API calls per second (burst 1,000). Measured with\n")
	fmt.Fprintf(&b, "`go run ./e2e/cmd/sidebyside -deployments %d -big %d` in `tests/`.\n\n", deployments, big)
	b.WriteString("Per rollout, native controller / rollplan:\n\n")
	b.WriteString("| | total time, s | ratio | ReplicaSet writes | status writes | both | rejected (stale) | events | reads |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i, n := range native.phases {
		o := ours.phases[i]
		per := func(count func(calls) int) string {
			return fmt.Sprintf("%.1f / %.1f", float64(count(n.calls))/float64(n.rollouts), float64(count(o.calls))/float64(o.rollouts))
		}
		fmt.Fprintf(&b, "| %s | %.1f / %.1f | %.2f | %s | %s | %s | %s | %s | %s |\n", n.name,
			n.duration.Seconds(), o.duration.Seconds(), o.duration.Seconds()/n.duration.Seconds(),
			per(func(c calls) int { return c.replicaSetWrites }), per(func(c calls) int { return c.statusWrites }), per(calls.writes),
			per(func(c calls) int { return c.rejected }), per(func(c calls) int { return c.events }), per(func(c calls) int { return c.reads }))
	}
	b.WriteString("\nFor the whole run:\n\n| | CPU, s | peak memory, MiB |\n| --- | --- | --- |\n")
	for _, line := range []struct {
		name  string
		usage controlplane.Usage
	}{
		{"kube-controller-manager with the native controller", native.controllers},
		{"kube-controller-manager without the native controller", ours.controllers},
		{"Go adapter", ours.adapter},
		{"service", ours.service},
	} {
		fmt.Fprintf(&b, "| %s | %.1f | %d |\n", line.name, line.usage.CPU.Seconds(), line.usage.MemoryPeakBytes>>20)
	}
	return b.String()
}

const (
	sectionBegin = "<!-- side by side: written by tests/e2e/cmd/sidebyside -->\n"
	sectionEnd   = "<!-- side by side ends -->\n"
)

// replaceSection replaces the section of the document, or adds it.
func replaceSection(path, text string) error {
	document, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		document, err = []byte("# Benchmarks\n"), nil
	}
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(document), sectionBegin)
	_, after, ended := strings.Cut(rest, sectionEnd)
	if found != ended {
		return fmt.Errorf("%s: the begin or end marker of the section is missing", path)
	}
	if !found {
		before += "\n## Comparison with the native controller\n\n"
	}
	return os.WriteFile(path, []byte(before+sectionBegin+text+sectionEnd+after), 0o644)
}
