// Package deployment starts the adapter in the integration tests of Kubernetes for Deployments. TestUpstreamIntegration
// adds the upstream test files to this package and replaces their Deployment controller with RunAdapter.
package deployment

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// AdapterEnv is the path of the adapter.
	AdapterEnv = "ROLLPLAN_ADAPTER"
	// PlannerEnv is the address of the service.
	PlannerEnv = "ROLLPLAN_PLANNER"
)

// Config is the client configuration for the API server of the current test.
var Config *rest.Config

// Discard stops what the constructor of the native Deployment controller has started, without running the controller.
func Discard(run func(ctx context.Context, workers int)) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run(ctx, 0)
}

// running is the adapter of the current test.
var running *exec.Cmd

// RunAdapter runs the adapter until stop is called, with the feature gate that the test has set.
func RunAdapter(t *testing.T) (stop func()) {
	t.Helper()
	start(t)
	return func() {
		stopRunning(t)
	}
}

// GateChanged restarts the adapter, if it is running, after the test has changed the feature gate.
func GateChanged(t *testing.T) {
	t.Helper()
	if running != nil {
		stopRunning(t)
		start(t)
	}
}

func start(t *testing.T) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := &api.Cluster{
		Server: Config.Host, TLSServerName: Config.ServerName,
		CertificateAuthority: Config.CAFile, CertificateAuthorityData: Config.CAData,
	}
	if err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"case": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"case": {Token: Config.BearerToken}},
		Contexts:       map[string]*api.Context{"case": {Cluster: "case", AuthInfo: "case"}},
		CurrentContext: "case",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	running = exec.Command(os.Getenv(AdapterEnv), "--mode=takeover", "--native-controller-probe=0", "--planner", os.Getenv(PlannerEnv), "--kubeconfig", kubeconfig,
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		// The tests assume that a complete status already includes their latest change.
		"--min-interval=0", "--status-interval=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
	running.Stdout, running.Stderr = os.Stdout, os.Stderr
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
}

func stopRunning(t *testing.T) {
	t.Helper()
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the adapter exited unexpectedly: %v", err)
	}
	if err := running.Wait(); err != nil {
		t.Errorf("stop the adapter: %v", err)
	}
	running = nil
}
