package adapter

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestUpstreamE2E runs the end-to-end tests of Kubernetes for Deployments and ReplicaSets, with the adapter in place of
// the Deployment controller. Another Deployment test skips itself, because it needs the load balancer of a cloud provider.
func TestUpstreamE2E(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 20*time.Minute)
	programs, err := controlplane.Build(ctx, t.Output(), controlplane.E2ETest)
	if err != nil {
		t.Fatal(err)
	}
	s := start(ctx, t, controlplane.Options{}, Takeover)
	for _, suite := range []struct {
		focus, skip string
		// passed is the number of tests that the native controller passes on the same control plane.
		passed int
	}{
		{`\[sig-apps\] Deployment`, `^$`, 11},
		// The skipped test sends requests to containers, but no containers run here.
		{`\[sig-apps\] ReplicaSet`, `should serve a basic image on each replica`, 6},
	} {
		t.Run(suite.focus, func(t *testing.T) {
			runUpstream(ctx, t, s, programs.Path(controlplane.E2ETest), suite.passed, "--ginkgo.focus="+suite.focus, "--ginkgo.skip="+suite.skip)
		})
	}
}

var ginkgoSummary = regexp.MustCompile(`(\d+) Passed.* \| .*?(\d+) Failed`)

// ginkgoFailures matches what failed: the name and the error of each test. Kubernetes' tests print hundreds of lines about
// every pod after a failure.
var ginkgoFailures = regexp.MustCompile(`(?m)^ *\[FAIL(?:ED)?\] .*\n(?:.*\n){0,5}`)

func runUpstream(ctx context.Context, t *testing.T, s *System, binary string, passed int, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", s.Kubeconfig(), "--provider=skeleton",
		"--allowed-not-ready-nodes=0", "--disable-log-dump", "--ginkgo.v", "--ginkgo.no-color"}, flags...)...)
	cmd.Env, cmd.WaitDelay = s.Env(), 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	summary := ginkgoSummary.FindSubmatch(out.Bytes())
	if err != nil || summary == nil || string(summary[1]) != fmt.Sprint(passed) || string(summary[2]) != "0" {
		t.Fatalf("%v, want %d passed and 0 failed: %s\n%s\n%s", err, passed, summary, tail(out.Bytes(), 20000),
			bytes.Join(ginkgoFailures.FindAll(out.Bytes(), -1), nil))
	}
	t.Logf("%s", summary[0])
}

func tail(text []byte, size int) []byte {
	if len(text) > size {
		return text[len(text)-size:]
	}
	return text
}
