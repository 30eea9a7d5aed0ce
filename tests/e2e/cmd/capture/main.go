// Command capture creates the snapshots in examples/ on a real control plane and saves them as kubectl prints them. The
// native Deployment controller runs until shortly before each capture.
//
//	go run ./e2e/cmd/capture ../examples [FILE...]
//
// With file names as arguments, it creates only these files. The README always covers all files in the directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// scenarioTimeout limits one scenario. The slowest one waits for a progress deadline of 40 seconds.
const scenarioTimeout = 3 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: capture DIRECTORY [FILE...]")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, files []string) (err error) {
	for _, file := range files {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.file == file }) {
			return fmt.Errorf("no scenario creates %s", file)
		}
	}
	programs, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	cp, err := controlplane.Start(ctx, programs, controlplane.Options{NativeController: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintln(os.Stderr, "logs of the control plane:", cp.Dir())
		}
		err = errors.Join(err, cp.Stop(err != nil))
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := cp.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	for _, scenario := range scenarios {
		if len(files) > 0 && !slices.Contains(files, scenario.file) {
			continue
		}
		fmt.Fprintln(os.Stderr, "capturing", scenario.file)
		if err := capture(ctx, cp, scenario, filepath.Join(dir, scenario.file)); err != nil {
			return fmt.Errorf("%s: %w", scenario.file, err)
		}
	}
	examples, err := readExamples(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), readme(examples, programs.K8sVersion), 0o644)
}

// capture plays a scenario and saves the output of kubectl at its end.
func capture(ctx context.Context, cp *controlplane.ControlPlane, scenario scenario, path string) error {
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	defer cancel()
	s := &stage{ControlPlane: cp}
	if err := s.reset(ctx); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	if err := scenario.play(ctx, s); err != nil {
		return err
	}
	text, err := cp.Snapshot(ctx, namespace, scenario.flags...)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
