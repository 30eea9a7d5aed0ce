package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// result is what one controller took.
type result struct {
	phases                        []phase
	controllers, adapter, service controlplane.Usage
}

// phase is one change of all Deployments of a kind.
type phase struct {
	what     string
	rollouts int
	took     time.Duration
	calls    calls
}

// render makes the section of the document.
func render(native, ours result, deployments, big int, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Kubernetes %s, %d cores for everything (API server, etcd, controllers, pretended kubelet, ours), 5 workers and\n", version, runtime.NumCPU())
	fmt.Fprintf(&b, "500 API calls a second at most (burst 1,000) for each controller. Made by\n")
	fmt.Fprintf(&b, "`go run ./e2e/cmd/sidebyside -deployments %d -big %d` in `tests/`.\n\n", deployments, big)
	b.WriteString("Per rollout, Kubernetes' own controller / rollplan:\n\n")
	b.WriteString("| | time for all, s | ratio | ReplicaSet writes | status writes | both | refused (stale) | events | reads |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i, n := range native.phases {
		o := ours.phases[i]
		per := func(count func(calls) int) string {
			return fmt.Sprintf("%.1f / %.1f", float64(count(n.calls))/float64(n.rollouts), float64(count(o.calls))/float64(o.rollouts))
		}
		fmt.Fprintf(&b, "| %s | %.1f / %.1f | %.2f | %s | %s | %s | %s | %s | %s |\n", n.what,
			n.took.Seconds(), o.took.Seconds(), o.took.Seconds()/n.took.Seconds(),
			per(func(c calls) int { return c.setWrites }), per(func(c calls) int { return c.statusWrites }), per(calls.writes),
			per(func(c calls) int { return c.refused }), per(func(c calls) int { return c.events }), per(func(c calls) int { return c.reads }))
	}
	b.WriteString("\nFor the whole run:\n\n| | CPU, s | peak memory, MiB |\n| --- | --- | --- |\n")
	for _, line := range []struct {
		what  string
		usage controlplane.Usage
	}{
		{"kube-controller-manager with its Deployment controller", native.controllers},
		{"kube-controller-manager without it", ours.controllers},
		{"Go adapter", ours.adapter},
		{"service", ours.service},
	} {
		fmt.Fprintf(&b, "| %s | %.1f | %d |\n", line.what, line.usage.CPU.Seconds(), line.usage.MemoryPeakBytes>>20)
	}
	return b.String()
}

const (
	sectionBegin = "<!-- side by side: written by tests/e2e/cmd/sidebyside -->\n"
	sectionEnd   = "<!-- side by side ends -->\n"
)

// replaceSection writes the section of the document anew, or adds it.
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
		return fmt.Errorf("%s has half a section", path)
	}
	if !found {
		before += "\n## Side by side with Kubernetes' own controller\n\n"
	}
	return os.WriteFile(path, []byte(before+sectionBegin+text+sectionEnd+after), 0o644)
}
