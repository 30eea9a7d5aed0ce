// Command sidebyside rolls out the same Deployments with the native Deployment controller and with the adapter, on the
// same control plane and with the same API rate limits, and writes a comparison to docs/contributors/benchmarks.md.
//
//	ROLLPLAN_BIN=$PWD/../target/release/rollplan go run ./e2e/cmd/sidebyside [-deployments 500] [-big 1000] [-large 190]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// replicas is the number of replicas of each small Deployment.
const replicas = 4

// templateBytes is the size of a large pod template.
const templateBytes = 7 << 10

// sizes are the numbers of Deployments and replicas in a run.
type sizes struct {
	deployments, big, large, revisions int
}

func (s sizes) String() string {
	return fmt.Sprintf("-deployments %d -big %d -large %d -revisions %d", s.deployments, s.big, s.large, s.revisions)
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var size sizes
	flag.IntVar(&size.deployments, "deployments", 500, fmt.Sprintf("number of Deployments with %d replicas", replicas))
	flag.IntVar(&size.big, "big", 1000, "number of replicas of the big Deployment")
	flag.IntVar(&size.large, "large", 190, fmt.Sprintf("number of Deployments with %d replicas and a template of %d bytes", replicas, templateBytes))
	flag.IntVar(&size.revisions, "revisions", 8, "number of revisions of the Deployments with large templates")
	document := flag.String("write", "../docs/contributors/benchmarks.md", "document to update. If empty, the comparison is only printed.")
	pprof := flag.String("pprof", "", "address of the pprof endpoint of the adapter. If empty, it has none.")
	flag.Parse()

	programs, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rollplan-sidebyside-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := adapter.FindBinaries(ctx, os.Stderr, dir)
	if err != nil {
		return err
	}
	if !strings.Contains(filepath.ToSlash(binaries.Rollplan), "/release/") {
		fmt.Fprintf(os.Stderr, "note: %s may be a debug build\n", binaries.Rollplan)
	}
	var results []result
	for _, native := range []bool{true, false} {
		r, err := measure(ctx, programs, binaries, native, size, "--pprof-bind-address="+*pprof)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	text := render(results[0], results[1], size, programs.K8sVersion)
	fmt.Print(text)
	if *document == "" {
		return nil
	}
	return replaceSection(*document, text)
}

// measure runs all phases with one of the controllers on a new control plane.
func measure(ctx context.Context, programs controlplane.Programs, binaries adapter.Binaries, native bool, size sizes, flags ...string) (r result, err error) {
	cp, err := controlplane.Start(ctx, programs, controlplane.Options{NativeController: native, Audit: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, cp.Stop(err != nil)) }()
	s, err := adapter.Install(ctx, cp, binaries, adapter.Takeover)
	if err != nil {
		return r, err
	}
	if !native {
		defer func() { err = errors.Join(err, s.Stop()) }()
		if err := errors.Join(s.StartService(), s.StartAdapter("adapter", append(flags, "--leader-elect=false")...)); err != nil {
			return r, err
		}
	}
	if r.empty, err = settled(ctx, s, native); err != nil {
		return r, err
	}
	f := &fleet{System: s, namespace: "fleet"}
	large := &fleet{System: s, namespace: "fleet", templateBytes: templateBytes}
	if err := cp.CreateNamespace(ctx, f.namespace); err != nil {
		return r, err
	}
	many := names("web", size.deployments)
	one := []string{"big"}
	phases := []struct {
		name     string
		names    []string
		replicas int
		change   func(context.Context, string, int) error
	}{
		{fmt.Sprintf("create %d of %d", size.deployments, replicas), many, replicas, f.create},
		{fmt.Sprintf("update %d of %d", size.deployments, replicas), many, replicas, f.image("2")},
		{fmt.Sprintf("undo %d of %d", size.deployments, replicas), many, replicas, f.image("1")},
		{fmt.Sprintf("create 1 of %d", size.big), one, size.big, f.create},
		{fmt.Sprintf("update 1 of %d", size.big), one, size.big, f.image("2")},
		{fmt.Sprintf("create %d of %d, 7 KiB", size.large, replicas), names("large", size.large), replicas, large.create},
	}
	for revision := 2; revision <= size.revisions; revision++ {
		phases = append(phases, phases[len(phases)-1])
		last := &phases[len(phases)-1]
		last.name, last.change = fmt.Sprintf("update %d of %d, 7 KiB, revision %d", size.large, replicas, revision), large.image(fmt.Sprint(revision))
	}
	audit := &auditLog{path: cp.AuditLog()}
	if _, err := audit.untilQuiet(ctx, native); err != nil {
		return r, err
	}
	before, err := usageOf(s, native)
	if err != nil {
		return r, err
	}
	for _, p := range phases {
		fmt.Fprintf(os.Stderr, "native=%t: %s\n", native, p.name)
		duration, err := f.rollOut(ctx, p.names, p.replicas, p.change)
		if err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
		calls, err := audit.untilQuiet(ctx, native)
		if err != nil {
			return r, err
		}
		after, err := usageOf(s, native)
		if err != nil {
			return r, err
		}
		r.phases = append(r.phases, phase{p.name, p.names[0] == "large-0", len(p.names), duration, calls, after.since(before)})
		before = after
	}
	if r.whole, err = usageOf(s, native); err != nil || native {
		return r, err
	}
	if err := errors.Join(s.Adapter("adapter").Stop(), s.RestartAdapter("adapter")); err != nil {
		return r, err
	}
	r.idle, err = settled(ctx, s, native)
	return r, err
}
