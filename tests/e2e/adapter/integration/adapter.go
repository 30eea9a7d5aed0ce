// Package deployment is half of a package: TestIntegrationCases adds Kubernetes' own integration tests of Deployments
// to it, in which this half takes the place of the Deployment controller.
package deployment

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/pkg/features"
)

const (
	// AdapterEnv is the path of the adapter.
	AdapterEnv = "ROLLPLAN_ADAPTER"
	// PlannerEnv is the address of the service.
	PlannerEnv = "ROLLPLAN_PLANNER"
)

// Config is how to reach the API server of the running case.
var Config *rest.Config

// Discard frees what the constructor of Kubernetes' Deployment controller has started. It does not run.
func Discard(run func(ctx context.Context, workers int)) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run(ctx, 0)
}

// running is the adapter of the running case.
var running *exec.Cmd

// RunAdapter runs the adapter until stop is called, with the gate that the case has set.
func RunAdapter(t *testing.T) (stop func()) {
	t.Helper()
	start(t)
	return func() {
		stopRunning(t)
	}
}

// GateChanged starts the adapter anew, if it runs, with the gate that the case has set now.
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
	terminating := utilfeature.DefaultFeatureGate.Enabled(features.DeploymentReplicaSetTerminatingReplicas)
	running = exec.Command(os.Getenv(AdapterEnv), "--mode=takeover", "--planner", os.Getenv(PlannerEnv), "--kubeconfig", kubeconfig,
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		// The cases take a status that is complete for one that has seen what they did a moment ago.
		"--min-interval=0", "--status-interval=0",
		"--kube-api-qps=500", "--kube-api-burst=1000", fmt.Sprintf("--terminating-replicas=%t", terminating))
	running.Stdout, running.Stderr = os.Stdout, os.Stderr
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
}

func stopRunning(t *testing.T) {
	t.Helper()
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the adapter has ended by itself: %v", err)
	}
	if err := running.Wait(); err != nil {
		t.Errorf("the adapter, asked to end: %v", err)
	}
	running = nil
}
