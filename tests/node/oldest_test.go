package node

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// freeAddress returns an address of this machine that is not in use.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// background runs a program until the end of the test. Its log is in the directory of the cluster.
func (c *cluster) background(t *testing.T, program string, args ...string) {
	t.Helper()
	name := filepath.Base(program)
	log, err := os.CreateTemp(c.dir, name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the last lines of %s:\n%s", name, text[max(0, len(text)-2000):])
		}
	})
}

// startOldest starts the API server of an old version, alone.
func startOldest(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t.TempDir(), env(t, "BIN")}
	path := func(name string) string { return filepath.Join(c.dir, name) }
	etcd, peer, api := freeAddress(t), freeAddress(t), freeAddress(t)
	host, port, _ := net.SplitHostPort(api)
	c.run(t, "openssl", "genrsa", "-out", path("sa.key"), "2048")
	for name, text := range map[string]string{
		"tokens.csv": "secret,admin,admin,system:masters\n",
		"kubeconfig": fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: oldest, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: secret}}]
contexts: [{name: oldest, context: {cluster: oldest, user: admin}}]
current-context: oldest
`, api),
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.background(t, filepath.Join(c.bin, "etcd"), "--data-dir", path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer)
	c.background(t, env(t, "OLDEST"), "--etcd-servers=http://"+etcd, "--bind-address="+host, "--secure-port="+port, "--cert-dir="+path("certs"),
		"--endpoint-reconciler-type=none", "--token-auth-file="+path("tokens.csv"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-key-file="+path("sa.key"), "--service-account-signing-key-file="+path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc")
	await(t, "the API server is ready", func() error {
		_, err := c.try("", filepath.Join(c.bin, "kubectl"), "get", "--raw", "/readyz")
		return err
	})
	return c
}

// The API server of an old version of Kubernetes accepts what the chart renders, and the adapter works with it.
func TestOldest(t *testing.T) {
	c := startOldest(t)
	if version := c.kubectl(t, "version"); !strings.Contains(version, "Server Version: "+env(t, "OLDEST_VERSION")) {
		t.Fatalf("another version: %s", version)
	}
	// Include the namespaces that ci/adapter-values.yaml manages.
	for _, name := range []string{namespace, "shop", "staging"} {
		c.kubectl(t, "create", "namespace", name)
	}
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no ci/*-values.yaml", err)
	}
	for _, file := range files {
		documents := 0
		for document := range strings.SplitSeq(c.helm(t, "HELM4", "template", release, chart, "--no-hooks", "-f", file), "\n---\n") {
			// These objects are not part of Kubernetes.
			if strings.Contains(document, "apiVersion: monitoring.coreos.com/") || strings.Contains(document, "apiVersion: cert-manager.io/") {
				continue
			}
			if _, err := c.try(document, filepath.Join(c.bin, "kubectl"), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Errorf("%s: %v\n%s", file, err, document)
			}
			documents++
		}
		if documents < 5 {
			t.Errorf("%s: checked only %d documents", file, documents)
		}
	}
	for _, helm := range []string{"HELM3", "HELM4"} {
		for _, autoscaling := range []string{"false", "true"} {
			c.helm(t, helm, "upgrade", "--install", release, chart, "--set", "adapter.enabled=true,server.autoscaling.enabled="+autoscaling)
		}
		// A second release in the same namespace, and one with the same name in another namespace.
		for _, second := range [][2]string{{"other", namespace}, {release, "shop"}} {
			c.run(t, env(t, helm), "install", second[0], chart, "-n", second[1], "--set", "adapter.enabled=true")
			c.run(t, env(t, helm), "uninstall", second[0], "-n", second[1])
		}
		if name := c.kubectl(t, "get", "deployment", release, "-n", namespace, "-o", "name"); name != "deployment.apps/"+release {
			t.Errorf("%s: another release took the Deployment away: %s", helm, name)
		}
		c.helm(t, helm, "uninstall", release)
	}

	service := freeAddress(t)
	c.background(t, filepath.Join(env(t, "IMAGES"), "rollplan"), "serve", "--listen="+service)
	for _, mode := range []string{"custom-resource", "takeover"} {
		c.background(t, filepath.Join(env(t, "IMAGES"), "rollplan-controller"), "--kubeconfig="+filepath.Join(c.dir, "kubeconfig"), "--mode="+mode,
			"--planner="+service, "--leader-elect=false", "--native-controller-probe=0", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	}
	c.apply(t, strings.NewReplacer("TAG", "1", "LIMIT", "0").Replace(planned))
	await(t, "the adapter creates the ReplicaSet and writes the status", func() error {
		size := c.kubectl(t, "get", "replicasets", "-l", "app=web", "-o", "jsonpath={.items[*].spec.replicas}")
		observed := c.kubectl(t, "get", "pdeploy", "web", "-o", "jsonpath={.status.observedGeneration}")
		if size != "3" || observed != "1" {
			return fmt.Errorf("ReplicaSets of %q pods, observed generation %q", size, observed)
		}
		return nil
	})

	// The server drops status.terminatingReplicas. The adapter writes it once.
	c.apply(t, strings.ReplaceAll(paused, "NAME", "paused"))
	await(t, "the adapter writes the status of the paused Deployment", func() error {
		if observed := c.kubectl(t, "get", "deployment", "paused", "-o", "jsonpath={.status.observedGeneration}"); observed != "1" {
			return fmt.Errorf("observed generation %q", observed)
		}
		return nil
	})
	if status := c.kubectl(t, "get", "deployment", "paused", "-o", "jsonpath={.status}"); strings.Contains(status, "terminatingReplicas") {
		t.Errorf("the server stores the field: %s", status)
	}
	written := c.statusWrites(t)
	// Labels do not change the generation, and therefore not the status that is to be written.
	for i := range 3 {
		c.kubectl(t, "label", "deployment", "paused", "--overwrite", fmt.Sprintf("round=%d", i))
	}
	// The new Deployment is planned after the other one, by a queue in the order of changes.
	c.apply(t, strings.ReplaceAll(paused, "NAME", "last"))
	await(t, "the adapter writes the status of the next Deployment", func() error {
		if observed := c.kubectl(t, "get", "deployment", "last", "-o", "jsonpath={.status.observedGeneration}"); observed != "1" {
			return fmt.Errorf("observed generation %q", observed)
		}
		return nil
	})
	if more := c.statusWrites(t) - written; more != 1 {
		t.Errorf("%d status writes after three labels and a new Deployment, want 1", more)
	}
}

const paused = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default}
spec:
  paused: true
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: web, image: web:1}]}
`

// statusWrites returns how many status writes of Deployments the API server has answered.
func (c *cluster) statusWrites(t *testing.T) int {
	t.Helper()
	sum := 0
	for line := range strings.SplitSeq(c.kubectl(t, "get", "--raw", "/metrics"), "\n") {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `group="apps"`) && strings.Contains(line, `resource="deployments"`) &&
			strings.Contains(line, `subresource="status"`) && strings.Contains(line, `verb="PATCH"`) {
			count, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
			if err != nil {
				t.Fatal(err)
			}
			sum += count
		}
	}
	return sum
}
