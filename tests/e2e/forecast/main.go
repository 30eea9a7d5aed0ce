// Command forecast compares forecasts with rollouts of Kubernetes' own controllers, and of our adapter, on a real control plane.
// Pods become ready after times that are drawn from distributions. All rollouts follow from a seed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
	"rollplan.dev/rollplan/tests/e2e/workloads"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	count := flag.Int("rollouts", 220, "number of rollouts")
	seed := flag.Uint64("seed", 0, "seed of the rollouts; 0 draws one")
	parallel := flag.Int("parallel", 14, "number of rollouts at the same time")
	large := flag.Int("large", 0, "number of replicas of all rollouts, with the default rate limits of kube-controller-manager")
	hold := flag.Duration("hold", 10*time.Minute, "how long rollouts that may never complete are observed")
	save := flag.String("save", "", "directory to save the observed rollouts to")
	replay := flag.String("replay", "", "directory of saved rollouts, which are compared again")
	write := flag.String("write", "", "document to write the tables to")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	programs, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rollplan-forecast-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := adapter.FindBinaries(ctx, os.Stderr, dir)
	if err != nil {
		return err
	}
	var records []record
	if *replay != "" {
		records, err = load(*replay)
	} else {
		fmt.Fprintf(os.Stderr, "%d rollouts, -seed %d\n", *count, *seed)
		cases := generate(*seed, *count)
		if *large > 0 {
			cases = enlarge(cases, *large)
		}
		options := controlplane.Options{NativeController: true, Audit: true, Pods: controlplane.PodsIgnore, DefaultRateLimits: *large > 0}
		records, err = observe(ctx, programs, options, binaries, cases, *parallel, *hold)
	}
	if err == nil && *save != "" {
		err = store(*save, records)
	}
	if err != nil {
		return err
	}
	s, err := workloads.StartService(ctx, binaries.Rollplan, os.Stderr)
	if err != nil {
		return err
	}
	defer s.Stop()
	compared, err := compareAll(ctx, s, records, nil)
	if err != nil {
		return err
	}
	control, err := compareAll(ctx, s, records, otherStrategy)
	if err != nil {
		return err
	}
	tables, details, failed := report(compared, control, programs.K8sVersion, *seed)
	fmt.Print(tables, details)
	if *write != "" {
		if err := workloads.ReplaceSection(*write, "comparison", "forecast", tables); err != nil {
			return err
		}
	}
	return failed
}

// observe runs all cases.
func observe(ctx context.Context, programs controlplane.Programs, options controlplane.Options, binaries adapter.Binaries, cases []testCase, parallel int, hold time.Duration) (records []record, err error) {
	cp, err := controlplane.Start(ctx, programs, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop(err != nil)) }()
	system, err := adapter.Install(ctx, cp, binaries, adapter.CustomResource)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, system.Stop()) }()
	if err := errors.Join(system.StartService(), system.StartAdapter("adapter", "--leader-elect=false")); err != nil {
		return nil, err
	}
	h := &harness{System: system, hold: hold}
	for i := 1; i < nodes; i++ { // in addition to that of the control plane
		if err := workloads.CreateNode(ctx, h.Typed, fmt.Sprintf("node-%d", i), 10_000); err != nil {
			return nil, err
		}
	}
	// An API server does not stop before its watches have ended.
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	h.Watch(watching, h.Dynamic, plannedDeployments)

	records = make([]record, len(cases))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	var mu sync.Mutex
	done := 0
	one := func(i int) {
		start := time.Now()
		r, err := h.run(ctx, cases[i])
		if err != nil {
			h.Failed(fmt.Errorf("%s: %w", cases[i].Name, err))
			return
		}
		records[i] = r
		mu.Lock()
		defer mu.Unlock()
		done++
		fmt.Fprintf(os.Stderr, "%d/%d %s %s %s: %.0f s\n", done, len(cases), cases[i].Name, cases[i].Kind, cases[i].Start.Shape, time.Since(start).Seconds())
	}
	for i, c := range cases {
		if c.isSlow() {
			group.Go(func() { one(i) })
		}
	}
	for i, c := range cases {
		if !c.isSlow() && h.Err() == nil {
			slots <- struct{}{}
			group.Go(func() { one(i); <-slots })
		}
	}
	group.Wait()
	if err := errors.Join(h.Err(), ctx.Err()); err != nil {
		return nil, err
	}
	return records, countWrites(cp.AuditLog(), records)
}

func store(dir string, records []record) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, r.Case.Name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func load(dir string) (records []record, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		records = append(records, r)
	}
	return records, nil
}
