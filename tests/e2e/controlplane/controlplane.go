// Package controlplane builds and runs a real Kubernetes control plane on the local machine, without containers: etcd,
// the API server, the controller manager, the scheduler, and kwok, which simulates the kubelets. It listens on free ports
// of 127.0.0.1 and keeps its files in a directory of its own.
package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Options configure a control plane.
type Options struct {
	// NativeController enables the Deployment controller of kube-controller-manager.
	NativeController bool
	// Pods selects how pods behave.
	Pods PodBehavior
	// DefaultRateLimits leaves the rate of the requests of the controller manager at its default.
	DefaultRateLimits bool
	// Audit enables the audit log, see AuditLog.
	Audit bool
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	programs  Programs
	dir       string
	addresses addresses
	options   Options

	etcd, apiserver, controllers, scheduler, kwok *process

	clientLock sync.Mutex
	client     kubernetes.Interface
}

// addresses are the addresses that the control plane listens on.
type addresses struct {
	etcdClient, etcdPeer, api string
}

// startTimeout limits the start. It takes four seconds on an idle machine, and much longer on a busy one with two cores.
const startTimeout = 2 * time.Minute

// stopGrace is the grace period of a process before it is killed.
const stopGrace = 15 * time.Second

const nodeName = "node-0"

// Start starts a control plane and returns once pods can run. After an error no process keeps running, and the error
// contains the directory of the logs.
func Start(ctx context.Context, programs Programs, options Options) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "rollplan-controlplane-")
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{programs: programs, dir: dir, options: options}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane (logs in %s): %w", dir, err), c.stopAll())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	ports, err := freeAddresses(3)
	if err != nil {
		return err
	}
	c.addresses = addresses{etcdClient: "http://" + ports[0], etcdPeer: "http://" + ports[1], api: ports[2]}
	token, err := c.writeKeys()
	if err != nil {
		return err
	}
	if err := c.WriteKubeconfig(c.Kubeconfig(), token); err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"etcd", c.startEtcd},
		{"API server", c.startAPIServer},
		{"controllers", c.startControllers},
		{"scheduler", c.startScheduler},
		{"node", c.createNode},
		{"kwok", c.startKwok},
		// Pods cannot be created until the controller manager has created the service account of the namespace.
		{"service account", func(ctx context.Context) error { return c.AwaitNamespace(ctx, "default") }},
	}
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (c *ControlPlane) startEtcd(context.Context) (err error) {
	client, peer := c.addresses.etcdClient, c.addresses.etcdPeer
	// There is no need to wait: the API server is only ready once etcd is.
	c.etcd, err = c.spawn("etcd", "--data-dir", c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return err
}

func (c *ControlPlane) startAPIServer(ctx context.Context) (err error) {
	host, port, err := net.SplitHostPort(c.addresses.api)
	if err != nil {
		return err
	}
	args := []string{"--etcd-servers", c.addresses.etcdClient,
		"--bind-address", host, "--secure-port", port, "--cert-dir", c.path("certs"),
		// The endpoints of the API server must not be loopback addresses, and no pod here uses them.
		"--endpoint-reconciler-type=none",
		"--token-auth-file", c.path("tokens.csv"), "--authorization-mode=Node,RBAC",
		"--service-account-key-file", c.path("sa.pub"), "--service-account-signing-key-file", c.path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true"}
	if c.options.Audit {
		if err := os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
			return err
		}
		args = append(args, "--audit-policy-file", c.path("audit-policy.yaml"), "--audit-log-path", c.AuditLog(),
			"--audit-log-maxsize=100000") // MB: AuditLog is one file
	}
	c.apiserver, err = c.spawn("kube-apiserver", args...)
	if err != nil {
		return err
	}
	return c.apiserver.await(ctx, "the API server to be ready", func(ctx context.Context) error {
		if c.etcd.exited() {
			return fmt.Errorf("etcd: %w; see %s", errExited, c.etcd.log)
		}
		client, err := c.Client()
		if err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// auditPolicy logs the metadata of each request once.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, get, list]}
- {level: None}
`

// AuditLog returns the path of the audit log, to which the API server writes if Options.Audit is set.
func (c *ControlPlane) AuditLog() string { return c.path("audit.log") }

// KillAPIServer sends SIGKILL to the API server, starts it again, and returns once it is ready.
func (c *ControlPlane) KillAPIServer(ctx context.Context) error {
	return c.WithoutAPIServer(ctx, func() error { return nil })
}

// WithoutAPIServer kills the API server, calls a function, starts the API server again, and returns once it is ready.
func (c *ControlPlane) WithoutAPIServer(ctx context.Context, f func() error) error {
	c.apiserver.kill()
	return errors.Join(f(), c.startAPIServer(ctx))
}

// ControllerManagerUsage returns the resource usage of the controller manager, which includes all of its controllers.
func (c *ControlPlane) ControllerManagerUsage() (Usage, error) {
	return usageOf(c.controllers.cmd.Process.Pid)
}

func (c *ControlPlane) startControllers(context.Context) (err error) {
	controllers := "--controllers=*"
	if !c.options.NativeController {
		controllers += ",-deployment-controller"
	}
	args := []string{"--kubeconfig", c.Kubeconfig(), controllers,
		"--leader-elect=false", "--secure-port=0", "--service-account-private-key-file", c.path("sa.key"),
		"--root-ca-file", c.path("certs/apiserver.crt"),
		// If the API server is killed repeatedly, the watch of node leases falls behind. The controller manager would then
		// consider the node dead and mark its pods as not ready. Only a real kubelet would revert that.
		"--node-monitor-grace-period=10m"}
	if !c.options.DefaultRateLimits {
		// The defaults are too slow for tests that change dozens of Deployments at once.
		args = append(args, "--kube-api-qps=500", "--kube-api-burst=1000")
	}
	c.controllers, err = c.spawn("kube-controller-manager", args...)
	return err
}

func (c *ControlPlane) startScheduler(context.Context) (err error) {
	c.scheduler, err = c.spawn("kube-scheduler", "--kubeconfig", c.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
	return err
}

const node = `
apiVersion: v1
kind: Node
metadata:
  name: ` + nodeName + `
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: ` + nodeName + `, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
status:
  capacity: {cpu: "1000", memory: 4Ti, pods: "10000"}
  allocatable: {cpu: "1000", memory: 4Ti, pods: "10000"}
`

func (c *ControlPlane) createNode(ctx context.Context) error {
	_, err := c.KubectlInput(ctx, node, "create", "-f", "-")
	return err
}

func (c *ControlPlane) startKwok(ctx context.Context) (err error) {
	if err := writeStages(c.path("stages.yaml"), c.programs.Dir, c.options.Pods); err != nil {
		return err
	}
	// The lease still belongs to the previous kwok process. Until it expires, the new one would not manage the node.
	if _, err := c.Kubectl(ctx, "delete", "lease", nodeName, "-n", "kube-node-lease", "--ignore-not-found"); err != nil {
		return err
	}
	// Without --node-lease-duration-seconds, the node and all its pods become not ready after 50 seconds.
	c.kwok, err = c.spawn("kwok", "--kubeconfig", c.Kubeconfig(), "--manage-all-nodes=true",
		"--node-lease-duration-seconds=40", "--config", c.path("stages.yaml"),
		// The default CIDR only has 254 pod addresses.
		"--cidr=10.244.0.1/16", "--node-ip=10.0.0.1")
	if err != nil {
		return err
	}
	return c.kwok.await(ctx, "the node to be ready", func(ctx context.Context) error {
		client, err := c.Client()
		if err != nil {
			return err
		}
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		isReady := slices.ContainsFunc(node.Status.Conditions, func(it corev1.NodeCondition) bool {
			return it.Type == corev1.NodeReady && it.Status == corev1.ConditionTrue
		})
		if !isReady || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has the conditions %v and the taints %v", nodeName, node.Status.Conditions, node.Spec.Taints)
		}
		_, err = client.CoordinationV1().Leases("kube-node-lease").Get(ctx, nodeName, metav1.GetOptions{})
		return err
	})
}

// SetNativeController restarts the controller manager with or without the native Deployment controller. After it has
// returned, a disabled controller makes no more writes.
func (c *ControlPlane) SetNativeController(ctx context.Context, enabled bool) error {
	if err := c.controllers.stop(stopGrace); err != nil {
		return err
	}
	c.options.NativeController = enabled
	return c.startControllers(ctx)
}

// SetPods restarts kwok with another behavior of pods.
func (c *ControlPlane) SetPods(ctx context.Context, behavior PodBehavior) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.kwok.stop(stopGrace); err != nil {
		return err
	}
	c.options.Pods = behavior
	return c.startKwok(ctx)
}

// Stop stops all processes. It removes the directory of the control plane unless keep is set.
func (c *ControlPlane) Stop(keep bool) error {
	err := c.stopAll()
	if keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// stopAll stops clients before servers, so that they do not log connection errors.
func (c *ControlPlane) stopAll() error {
	var errs []error
	for _, p := range []*process{c.kwok, c.scheduler, c.controllers, c.apiserver, c.etcd} {
		if p != nil {
			errs = append(errs, p.stop(stopGrace))
		}
	}
	return errors.Join(errs...)
}

// Wait returns nil when the context ends, or an error when a process exits unexpectedly.
func (c *ControlPlane) Wait(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.Ended(); err != nil {
				return err
			}
		}
	}
}

// Ended returns an error for each process that has exited unexpectedly.
func (c *ControlPlane) Ended() error {
	var errs []error
	for _, p := range []*process{c.kwok, c.scheduler, c.controllers, c.apiserver, c.etcd} {
		if p.exited() {
			errs = append(errs, fmt.Errorf("%s exited unexpectedly; see %s", p.name, p.log))
		}
	}
	return errors.Join(errs...)
}

// HasNativeController reports whether the native Deployment controller is enabled.
func (c *ControlPlane) HasNativeController() bool { return c.options.NativeController }

// PodBehavior returns the current behavior of pods.
func (c *ControlPlane) PodBehavior() PodBehavior { return c.options.Pods }

// Dir returns the directory of the control plane, which contains its data, keys and logs.
func (c *ControlPlane) Dir() string { return c.dir }

// Kubeconfig returns the path of the kubeconfig of the administrator.
func (c *ControlPlane) Kubeconfig() string { return c.path("kubeconfig") }

// Etcd returns the client URL of etcd.
func (c *ControlPlane) Etcd() string { return c.addresses.etcdClient }

// Env returns an environment for clients of this control plane, with its programs first in PATH.
func (c *ControlPlane) Env() []string {
	return append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(),
		// kubectl caches discovery by the address of the API server, and ports are reused.
		"KUBECACHEDIR="+c.path("kubectl-cache"),
		"PATH="+c.programs.Dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// Command returns a kubectl command, which the caller runs.
func (c *ControlPlane) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.programs.Path("kubectl"), args...)
	cmd.Env = c.Env()
	return cmd
}

// Kubectl runs kubectl and returns its stdout. An error includes its stderr.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is like Kubectl, with input on stdin.
func (c *ControlPlane) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	var out, errOut bytes.Buffer
	cmd := c.Command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// CreateNamespace creates a namespace and waits until pods can be created in it.
func (c *ControlPlane) CreateNamespace(ctx context.Context, name string) error {
	if _, err := c.Kubectl(ctx, "create", "namespace", name); err != nil {
		return err
	}
	return c.AwaitNamespace(ctx, name)
}

// AwaitNamespace waits until the controller manager has created the default service account of a namespace.
func (c *ControlPlane) AwaitNamespace(ctx context.Context, name string) error {
	return c.controllers.await(ctx, "namespace "+name, func(ctx context.Context) error {
		client, err := c.Client()
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.dir, name) }

func (c *ControlPlane) spawn(name string, args ...string) (*process, error) {
	var env []string
	if name == "kwok" {
		// kwok v0.7.0 sometimes crashes at startup because of concurrent map writes. A single thread avoids that.
		env = []string{"GOMAXPROCS=1"}
	}
	return spawn(name, c.path(name+".log"), c.programs.Path(name), env, args...)
}

// writeKeys writes the key pair for service account tokens and the token of the administrator, which it returns.
func (c *ControlPlane) writeKeys() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return "", err
	}
	token := hex.EncodeToString(secret)
	return token, errors.Join(
		os.WriteFile(c.path("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600),
		os.WriteFile(c.path("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600),
		os.WriteFile(c.path("tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600))
}

// WriteKubeconfig writes a kubeconfig that authenticates with the token.
func (c *ControlPlane) WriteKubeconfig(path, token string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: rollplan
  cluster: {server: "https://%s", certificate-authority: %q}
users:
- name: user
  user: {token: %s}
contexts:
- name: rollplan
  context: {cluster: rollplan, user: user}
current-context: rollplan
`, c.addresses.api, c.path("certs/apiserver.crt"), token), 0o600)
}
