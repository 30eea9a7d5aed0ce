package controlplane

import (
	"context"
	"testing"
)

// ForTest builds and starts a control plane and stops it when the test ends. If the test fails, the logs are kept and
// their path is logged.
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

// MustKubectl runs kubectl and returns its stdout. It fails the test if kubectl fails.
func (c *ControlPlane) MustKubectl(ctx context.Context, t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
