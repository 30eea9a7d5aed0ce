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
	phases []phase
	// empty is the usage before the first phase, and whole that of the whole run.
	empty, whole usage
	// idle is the usage after a restart of the adapter at the end.
	idle usage
}

// phase is the measurement of one change to all Deployments of a kind.
type phase struct {
	name string
	// large is true for templates of 7 KiB.
	large    bool
	rollouts int
	duration time.Duration
	calls    calls
	usage    usage
}

// render returns the text of the section in the document.
func render(native, ours result, size sizes, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Kubernetes %s, %d cores shared by the API server, etcd, all controllers, the simulated kubelet, the adapter and the\n", version, runtime.NumCPU())
	fmt.Fprintf(&b, "service. Each controller has 5 workers and may make at most 500 API calls per second (burst 1,000). Measured with\n")
	fmt.Fprintf(&b, "`go run ./e2e/cmd/sidebyside %s` in `tests/`.\n\n", size)
	b.WriteString("Per rollout, native controller / rollplan:\n\n")
	b.WriteString("| | total time, s | ratio | writes of ReplicaSets and statuses |\n| --- | --- | --- | --- |\n")
	per := func(n, o phase, count func(calls) int) string {
		return fmt.Sprintf("%.1f / %.1f", float64(count(n.calls))/float64(n.rollouts), float64(count(o.calls))/float64(o.rollouts))
	}
	for i, n := range native.phases {
		o := ours.phases[i]
		fmt.Fprintf(&b, "| %s | %.1f / %.1f | %.2f | %s |\n", n.name,
			n.duration.Seconds(), o.duration.Seconds(), o.duration.Seconds()/n.duration.Seconds(), per(n, o, calls.writes))
	}
	b.WriteString("\nThe calls in detail:\n\n")
	b.WriteString("| | ReplicaSet writes | status writes | rejected (stale) | events | reads |\n| --- | --- | --- | --- | --- | --- |\n")
	for i, n := range native.phases {
		o := ours.phases[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", n.name,
			per(n, o, func(c calls) int { return c.replicaSetWrites }), per(n, o, func(c calls) int { return c.statusWrites }),
			per(n, o, func(c calls) int { return c.rejected }), per(n, o, func(c calls) int { return c.events }), per(n, o, func(c calls) int { return c.reads }))
	}
	b.WriteString("\nProcessor time per rollout. The native controller adds to kube-controller-manager what it uses more with it than without it.\n\n")
	b.WriteString("| | native adds, ms | adapter, ms | service, ms | ratio |\n| --- | --- | --- | --- | --- |\n")
	for i, n := range native.phases {
		o := ours.phases[i]
		per := func(total time.Duration) float64 { return total.Seconds() * 1000 / float64(n.rollouts) }
		adds, adapter, service := per(n.usage.controllers.CPU-o.usage.controllers.CPU), per(o.usage.adapter.CPU), per(o.usage.service.CPU)
		ratio := "–" // what the native controller adds is lost in the noise
		if adds >= 5 {
			ratio = fmt.Sprintf("%.2f", (adapter+service)/adds)
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %s |\n", n.name, adds, adapter, service, ratio)
	}
	sum := func(group string, belongs func(phase) bool) {
		var adds, adapterAndService time.Duration
		for i, n := range native.phases {
			if o := ours.phases[i]; belongs(n) {
				adds += n.usage.controllers.CPU - o.usage.controllers.CPU
				adapterAndService += o.usage.adapter.CPU + o.usage.service.CPU
			}
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.2f |\n", group, adds.Seconds(), adapterAndService.Seconds(), adapterAndService.Seconds()/adds.Seconds())
	}
	b.WriteString("\nProcessor time of all phases, in seconds:\n\n| | native adds | adapter and service | ratio |\n| --- | --- | --- | --- |\n")
	sum("small templates", func(p phase) bool { return !p.large })
	sum("templates of 7 KiB", func(p phase) bool { return p.large })
	sum("all", func(phase) bool { return true })
	b.WriteString("\nFor the whole run:\n\n| | processor time, s | peak memory, MiB |\n| --- | --- | --- |\n")
	for _, line := range []struct {
		name  string
		usage controlplane.Usage
	}{
		{"kube-controller-manager with the native controller", native.whole.controllers},
		{"kube-controller-manager without the native controller", ours.whole.controllers},
		{"Go adapter", ours.whole.adapter},
		{"service", ours.whole.service},
	} {
		fmt.Fprintf(&b, "| %s | %.1f | %d |\n", line.name, line.usage.CPU.Seconds(), line.usage.MemoryPeakBytes>>20)
	}
	sets := 2*size.deployments + 2 + size.large*size.revisions
	fmt.Fprintf(&b, "\nAfter a restart, with %d idle ReplicaSets (%d with templates of 7 KiB), the adapter has a resident set of %d MiB, and at most\n",
		sets, size.large*size.revisions, ours.idle.adapter.MemoryBytes>>20)
	fmt.Fprintf(&b, "%d MiB since its start; without Deployments it has %d MiB. That is %.1f KiB for each ReplicaSet.\n", ours.idle.adapter.MemoryPeakBytes>>20,
		ours.empty.adapter.MemoryBytes>>20, float64(ours.idle.adapter.MemoryBytes-ours.empty.adapter.MemoryBytes)/1024/float64(sets))
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
