// Command capture makes the snapshots in examples/ on a real control plane, with Kubernetes' own Deployment controller
// at work until shortly before each capture, and saves them as kubectl prints them.
//
//	go run ./e2e/cmd/capture ../examples [FILE...]
//
// With names of files it makes only these, and takes the rest of the README from the files that are there.
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

// scenarioTimeout bounds one snapshot. The slowest waits for a progress deadline of 15 seconds.
const scenarioTimeout = 3 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: capture FOLDER [FILE...]")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string, files []string) (err error) {
	for _, file := range files {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.file == file }) {
			return fmt.Errorf("there is no scenario for %s", file)
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
	if err := os.MkdirAll(folder, 0o755); err != nil {
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
		if err := capture(ctx, cp, scenario, filepath.Join(folder, scenario.file)); err != nil {
			return fmt.Errorf("%s: %w", scenario.file, err)
		}
	}
	examples, err := readExamples(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "README.md"), readme(examples, programs.K8sVersion), 0o644)
}

// capture plays one scenario, saves what kubectl prints at its end and removes what it made.
func capture(ctx context.Context, cp *controlplane.ControlPlane, scenario scenario, path string) error {
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	defer cancel()
	s := &stage{ControlPlane: cp}
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
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
