// Package adapter runs and tests the rollplan service and an adapter on a real control plane.
package adapter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// Binaries are the paths of the binaries under test.
type Binaries struct {
	// Rollplan is the service and the command line.
	Rollplan string
	// Adapter is an adapter that supports the flags of rollplan-controller.
	Adapter string
	// AdapterArgs precede the flags, for an adapter that an interpreter runs.
	AdapterArgs []string
}

const (
	// RollplanEnv is the path of the rollplan binary. It has no default, so that no outdated build is tested by accident.
	RollplanEnv = "ROLLPLAN_BIN"
	// AdapterEnv is the command that starts another adapter with the same flags, for example
	// "python3 ../adapters/python/examples/controller.py". By default the Go adapter is built.
	AdapterEnv = "ROLLPLAN_ADAPTER"
)

// FindBinaries finds the binaries under test. It builds the Go adapter into dir, unless AdapterEnv is set.
func FindBinaries(ctx context.Context, progress io.Writer, dir string) (Binaries, error) {
	b := Binaries{Rollplan: os.Getenv(RollplanEnv)}
	if command := strings.Fields(os.Getenv(AdapterEnv)); len(command) > 0 {
		b.Adapter, b.AdapterArgs = command[0], command[1:]
	}
	if b.Rollplan == "" {
		return b, fmt.Errorf("set %s to the rollplan binary to test: run cargo build, then set %[1]s=$PWD/target/debug/rollplan", RollplanEnv)
	}
	if _, err := exec.LookPath(b.Rollplan); err != nil {
		return b, fmt.Errorf("%s: %w", RollplanEnv, err)
	}
	if b.Adapter != "" {
		return b, nil
	}
	root, err := Repository(ctx)
	if err != nil {
		return b, err
	}
	b.Adapter = filepath.Join(dir, "rollplan-controller")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", b.Adapter, "./cmd/rollplan-controller")
	cmd.Dir = filepath.Join(root, "adapters/go")
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("build the Go adapter: %w", err)
	}
	return b, nil
}

// Repository returns the root directory of this repository.
func Repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "rollplan.dev/rollplan/tests").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Mode is the value of --mode.
type Mode string

const (
	// Takeover manages apps/v1 Deployments.
	Takeover Mode = "takeover"
	// CustomResource manages PlannedDeployments.
	CustomResource Mode = "custom-resource"
	// Restarts restarts workloads when their configuration changes.
	Restarts Mode = "restarts"
)

// account is the name of the service account and of the workload of an adapter.
func (m Mode) account() string {
	if m == Restarts {
		return "rollplan-restarts-controller" // it is installed beside one of the others
	}
	return "rollplan-controller"
}

// systemNamespace contains the service account and the lease of the adapter.
const systemNamespace = "rollplan-system"

// rights returns the manifests of the namespace, of the service account, and of its roles and their bindings.
func rights(manifests string) string {
	documents := strings.Split(manifests, "\n---\n")
	return strings.Join(slices.DeleteFunc(documents, func(document string) bool {
		return !rightsKind.MatchString(document)
	}), "\n---\n")
}

var rightsKind = regexp.MustCompile(`(?m)^kind: (Namespace|ServiceAccount|(Cluster)?Role(Binding)?)$`)

// System is a control plane together with the service and its adapters.
type System struct {
	*controlplane.ControlPlane
	Typed   kubernetes.Interface
	Dynamic dynamic.Interface

	binaries   Binaries
	mode       Mode
	address    string
	kubeconfig string
	service    *controlplane.Program
	// serviceFlags are flags of the service besides its address.
	serviceFlags []string
	adapters     map[string]*controlplane.Program
	flags        map[string][]string
}

// Install prepares a control plane for an adapter. It creates the service account, its role bindings and, if the mode
// needs it, the custom resource definition. The adapter has only the permissions that the manifests in adapters/config grant.
func Install(ctx context.Context, cp *controlplane.ControlPlane, binaries Binaries, mode Mode) (*System, error) {
	s := &System{
		ControlPlane: cp, binaries: binaries, mode: mode,
		adapters: map[string]*controlplane.Program{}, flags: map[string][]string{},
	}
	var err error
	if s.kubeconfig, err = s.Grant(ctx, mode); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 500, 1000
	if s.Typed, err = cp.Client(); err != nil {
		return nil, err
	}
	if s.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.address, err = controlplane.FreeAddress(); err != nil {
		return nil, err
	}
	return s, nil
}

// Grant creates the objects that an adapter in a mode needs, and returns the path of a kubeconfig with its permissions.
func (s *System) Grant(ctx context.Context, mode Mode) (string, error) {
	root, err := Repository(ctx)
	if err != nil {
		return "", err
	}
	manifests, err := os.ReadFile(filepath.Join(root, "adapters/config", string(mode)+".yaml"))
	if err != nil {
		return "", err
	}
	if out, err := s.KubectlInput(ctx, rights(string(manifests)), "apply", "-f", "-"); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	if mode == CustomResource {
		if _, err := s.Kubectl(ctx, "apply", "-f", filepath.Join(root, "adapters/config/planneddeployment-crd.yaml")); err != nil {
			return "", err
		}
		// kubectl fails if the definition has no conditions yet.
		if err := controlplane.Poll(ctx, "the custom resource definition", func(ctx context.Context) error {
			_, err := s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/planneddeployments.apps.rollplan.dev")
			return err
		}); err != nil {
			return "", err
		}
	}
	token, err := s.Kubectl(ctx, "create", "token", mode.account(), "-n", systemNamespace, "--duration=24h")
	if err != nil {
		return "", err
	}
	kubeconfig := filepath.Join(s.Dir(), string(mode)+".kubeconfig")
	return kubeconfig, s.WriteKubeconfig(kubeconfig, strings.TrimSpace(token))
}

// StartService starts the service. It always uses the same address, so that adapters reconnect after a restart.
// Flags are remembered for the next start.
func (s *System) StartService(flags ...string) (err error) {
	s.serviceFlags = append(s.serviceFlags, flags...)
	s.service, err = s.Run("rollplan", s.binaries.Rollplan, append([]string{"serve", "--listen", s.address}, s.serviceFlags...)...)
	return err
}

// Address returns the address of the service.
func (s *System) Address() string { return s.address }

// Service returns the service process.
func (s *System) Service() *controlplane.Program { return s.service }

// StartAdapter starts an adapter. The name identifies it in this package only.
func (s *System) StartAdapter(name string, flags ...string) (err error) {
	s.flags[name] = flags
	s.adapters[name], err = s.Run(name, s.binaries.Adapter, slices.Concat(s.binaries.AdapterArgs, []string{
		"--native-controller-probe=0",
		"--mode", string(s.mode), "--planner", s.address, "--kubeconfig", s.kubeconfig,
		"--leader-elect-namespace", systemNamespace, "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--kube-api-qps", "500", "--kube-api-burst", "1000"}, flags)...)
	return err
}

// StopAdapter stops an adapter for good.
func (s *System) StopAdapter(name string) error {
	adapter := s.adapters[name]
	delete(s.adapters, name)
	if adapter.Ended() {
		return fmt.Errorf("adapter %s exited unexpectedly; see %s", name, adapter.Log())
	}
	return stopCleanly(adapter)
}

// RestartAdapter starts an adapter that has exited again, with the same flags.
func (s *System) RestartAdapter(name string) error { return s.StartAdapter(name, s.flags[name]...) }

// Adapter returns the process of an adapter.
func (s *System) Adapter(name string) *controlplane.Program { return s.adapters[name] }

// Stop stops the adapters and the service. It returns an error if one of them has exited already or must be killed.
func (s *System) Stop() error {
	for name, adapter := range s.adapters {
		if adapter.Ended() {
			return fmt.Errorf("adapter %s exited unexpectedly; see %s", name, adapter.Log())
		}
		if err := stopCleanly(adapter); err != nil {
			return err
		}
	}
	if s.service == nil {
		return nil
	}
	if s.service.Ended() {
		return fmt.Errorf("the service exited unexpectedly; see %s", s.service.Log())
	}
	return s.service.Stop()
}

// interrupted are the log lines of client-go about its own requests that a stop interrupts. It logs these as errors: while
// it reads the body of a response, and while it renews a lease.
var interrupted = []string{`"msg":"Unexpected error when reading response body"`, `"logger":"leaderelection"`}

// stopCleanly stops an adapter, which must not log an error of its own meanwhile.
func stopCleanly(adapter *controlplane.Program) error {
	before, err := os.ReadFile(adapter.Log())
	if err != nil {
		return err
	}
	if err := adapter.Stop(); err != nil {
		return err
	}
	after, err := os.ReadFile(adapter.Log())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(after[len(before):])) {
		isInterrupted := strings.Contains(line, `context canceled"`) &&
			slices.ContainsFunc(interrupted, func(part string) bool { return strings.Contains(line, part) })
		if strings.Contains(line, `"level":"error"`) && !isInterrupted {
			return fmt.Errorf("the adapter has logged an error while it stopped:\n%s", after[len(before):])
		}
	}
	return nil
}

// answers fails unless a GET of the URL is answered with this code.
func answers(ctx context.Context, url string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}
