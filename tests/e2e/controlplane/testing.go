package controlplane

import (
	"context"
	"testing"
)

// ForTest builds and starts a control plane for one test and stops it with the test. A failed test keeps the logs and
// says where they are.
func ForTest(t testing.TB, options Options) *ControlPlane {
	t.Helper()
	programs, err := Build(t.Context(), t.Output())
	if err != nil {
		t.Fatalf("build control plane: %v", err)
	}
	c, err := Start(t.Context(), programs, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Ended(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs of the control plane: %s", c.Dir())
		}
		if err := c.Stop(t.Failed()); err != nil {
			t.Errorf("stop control plane: %v", err)
		}
	})
	return c
}

// MustKubectl runs kubectl, and fails the test if that fails.
func (c *ControlPlane) MustKubectl(ctx context.Context, t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
