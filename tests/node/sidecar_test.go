package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// proxy is a native sidecar with Envoy, as a mesh would inject it.
const proxy = `
name: proxy
image: localhost/envoy:1
restartPolicy: Always
args: [-c, /etc/envoy/CONFIG, --log-level, warn, --concurrency, "1", --disable-hot-restart]
startupProbe: {tcpSocket: {port: PORT}, periodSeconds: 1}
resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 128Mi}}
securityContext: {runAsUser: 65532, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
volumeMounts: [{name: envoy, mountPath: /etc/envoy, readOnly: true}]
`

// Each replica and the client have an Envoy as a sidecar, with mutual TLS between them. The calls of one channel are
// distributed to all replicas, and none fails while all replicas are replaced.
func (c *cluster) testSidecar(t *testing.T) {
	c.createEnvoySecrets(t)
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(`
server:
  volumes: [{name: envoy, secret: {secretName: envoy}}]
extraObjects:
- apiVersion: v1
  kind: Service
  metadata: {name: meshed}
  spec:
    clusterIP: None
    selector: {app.kubernetes.io/name: rollplan, app.kubernetes.io/component: server}
    ports: [{name: grpc, port: 15006}]
`), &values); err != nil {
		t.Fatal(err)
	}
	var sidecar map[string]any
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("CONFIG", "server.yaml", "PORT", "15006").Replace(proxy)), &sidecar); err != nil {
		t.Fatal(err)
	}
	values["server"].(map[string]any)["initContainers"] = []any{sidecar}
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.dir, "sidecar-values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.helm(t, "HELM4", "upgrade", release, chart, "--wait", "--timeout=2m", "--reset-values", "-f", file)
	c.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: load-meshed, namespace: default}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: load, image: "localhost/load:1", args: ["--target=127.0.0.1:15001"]}]
  volumes: [{name: envoy, secret: {secretName: envoy}}]
  initContainers:
  - `+strings.ReplaceAll(strings.TrimSpace(strings.NewReplacer("CONFIG", "client.yaml", "{tcpSocket: {port: PORT}, periodSeconds: 1}",
		"{httpGet: {path: /ready, port: 9901}, periodSeconds: 1}").Replace(proxy)), "\n", "\n    ")+"\n")
	l := load{c, "load-meshed"}
	l.await(t, 400)

	// The calls of one channel are distributed evenly.
	before := map[string]int{}
	replicas := c.pods(t, namespace, selector)
	for _, pod := range replicas {
		before[pod] = c.planned(t, pod)
	}
	l.during(t, "behind sidecars", func() { l.await(t, 400) })
	for _, pod := range replicas {
		if n := c.planned(t, pod) - before[pod]; n < 200 {
			t.Errorf("%s answered %d calls of more than 800, want about half", pod, n)
		} else {
			t.Logf("%s answered %d calls", pod, n)
		}
	}
	// A caller outside the mesh is rejected.
	address := c.kubectl(t, "get", "pod", replicas[0], "-n", namespace, "-o", "jsonpath={.status.podIP}") + ":15006"
	if out, err := c.try("", "bash", "node.sh", "ns", c.dir, filepath.Join(env(t, "IMAGES"), "rollplan"), "plan",
		"-f", chart+"/files/snapshot.json", "--server", "http://"+address); err == nil {
		t.Errorf("a caller outside of the mesh is answered: %s", out)
	}

	l.during(t, "rolling restart behind sidecars", func() {
		c.kubectl(t, "rollout", "restart", "deployment/"+release, "-n", namespace)
		c.kubectl(t, "rollout", "status", "deployment/"+release, "-n", namespace, "--timeout=2m")
		await(t, "the replaced replicas end", func() error {
			if pods := c.kubectl(t, "get", "pods", "-n", namespace, "-l", selector, "-o", "name"); strings.Count(pods, "\n") != 1 {
				return fmt.Errorf("%s", pods)
			}
			return nil
		})
	})
	for _, pod := range c.pods(t, namespace, selector) {
		if slices.Contains(replicas, pod) {
			t.Errorf("%s was not replaced", pod)
		}
	}
	c.kubectl(t, "delete", "pod", l.name)
	c.kubectl(t, "delete", "secret", "envoy", "-n", namespace)
	c.helm(t, "HELM4", "upgrade", release, chart, "--wait", "--timeout=2m", "--reset-values")
}

// createEnvoySecrets creates the Envoy configuration and a certificate of the mesh in both namespaces.
func (c *cluster) createEnvoySecrets(t *testing.T) {
	t.Helper()
	path := func(name string) string { return filepath.Join(c.dir, name) }
	for _, args := range [][]string{
		{"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=mesh",
			"-keyout", path("ca.key"), "-out", path("ca.crt")},
		{"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=member", "-addext", "subjectAltName=DNS:member",
			"-keyout", path("tls.key"), "-out", path("tls.csr")},
		{"x509", "-req", "-in", path("tls.csr"), "-CA", path("ca.crt"), "-CAkey", path("ca.key"), "-CAcreateserial", "-days", "2",
			"-out", path("tls.crt")},
	} {
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	for _, in := range []string{"default", namespace} {
		c.kubectl(t, "create", "secret", "generic", "envoy", "-n", in, "--from-file="+path("ca.crt"), "--from-file="+path("tls.crt"),
			"--from-file="+path("tls.key"), "--from-file=envoy/server.yaml", "--from-file=envoy/client.yaml")
	}
}
