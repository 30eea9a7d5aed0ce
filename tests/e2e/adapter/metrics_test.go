package adapter

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollplan.dev/rollplan/tests/e2e/workloads"
)

// serveMetrics runs a fake metrics server that reports the same CPU usage for every container.
func serveMetrics(ctx context.Context, t *testing.T, s *System, cpu string) {
	t.Helper()
	stop, err := workloads.ServeMetrics(ctx, s.ControlPlane, s.Typed, func([]corev1.Pod) string { return cpu })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}
