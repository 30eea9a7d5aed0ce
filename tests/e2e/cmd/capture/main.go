// Command capture makes the snapshots in examples/ on a real control plane, with Kubernetes' own Deployment controller
// at work until shortly before each capture, and saves them as kubectl prints them.
//
//	go run ./e2e/cmd/capture ../examples
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// scenarioTimeout bounds one snapshot. The slowest waits for a progress deadline of 15 seconds.
const scenarioTimeout = 3 * time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: capture FOLDER")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) (err error) {
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
	var captured []example
	for _, scenario := range scenarios {
		fmt.Fprintln(os.Stderr, "capturing", scenario.file)
		now, err := capture(ctx, cp, scenario, filepath.Join(folder, scenario.file))
		if err != nil {
			return fmt.Errorf("%s: %w", scenario.file, err)
		}
		captured = append(captured, example{scenario: scenario, now: now})
	}
	return os.WriteFile(filepath.Join(folder, "README.md"), readme(captured, programs.K8sVersion), 0o644)
}

// capture plays one scenario, saves what kubectl prints at its end and removes what it made.
func capture(ctx context.Context, cp *controlplane.ControlPlane, scenario scenario, path string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	defer cancel()
	s := &stage{ControlPlane: cp}
	if err := s.begin(ctx); err != nil {
		return time.Time{}, fmt.Errorf("begin: %w", err)
	}
	if err := scenario.play(ctx, s); err != nil {
		return time.Time{}, err
	}
	text, err := cp.Snapshot(ctx, namespace, scenario.flags...)
	if err != nil {
		return time.Time{}, err
	}
	now, err := planTime([]byte(text))
	if err != nil {
		return time.Time{}, err
	}
	return now, os.WriteFile(path, []byte(text), 0o644)
}
