package adapter

import (
	"context"
	"os"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

var binaries Binaries

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rollplan-adapter-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if binaries, err = FindBinaries(context.Background(), os.Stderr, dir); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		return m.Run()
	}())
}

// start starts a control plane, the service and an adapter for one test.
func start(ctx context.Context, t *testing.T, options controlplane.Options, mode Mode, flags ...string) *System {
	t.Helper()
	s := install(ctx, t, options, mode)
	if err := s.StartAdapter("adapter", append([]string{"--leader-elect=false"}, flags...)...); err != nil {
		t.Fatal(err)
	}
	return s
}

// install is like start, but does not start an adapter.
func install(ctx context.Context, t *testing.T, options controlplane.Options, mode Mode) *System {
	t.Helper()
	s, err := Install(ctx, controlplane.ForTest(t, options), binaries, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.StartService(); err != nil {
		t.Fatal(err)
	}
	return s
}

// withTimeout limits the duration of a test. The limits allow for a busy machine with two cores.
func withTimeout(t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}
