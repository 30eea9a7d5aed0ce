package adapter

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestRights checks which clients may get the metrics of an adapter, and that an adapter works with the permissions of the
// chart in one namespace.
func TestRights(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 5*time.Minute)
	s := install(ctx, t, controlplane.Options{}, CustomResource)
	t.Run("metrics", func(t *testing.T) { secureMetrics(ctx, t, s) })
	t.Run("memory limit", func(t *testing.T) { memoryLimit(ctx, t, s) })
	t.Run("priority of requests", func(t *testing.T) { flowSchema(ctx, t, s) })
	t.Run("one namespace", func(t *testing.T) { roleInOneNamespace(ctx, t, s) })
	t.Run("no definition", func(t *testing.T) { noDefinition(ctx, t, s) })
}

// flowSchema applies the FlowSchema of the documentation.
func flowSchema(ctx context.Context, t *testing.T, s *System) {
	root, err := Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "docs/reference/adapters.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "## Priority of requests\n")
	_, section, _ = strings.Cut(section, "```yaml\n")
	object, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatal("docs/reference/adapters.md has no FlowSchema")
	}
	if out, err := s.KubectlInput(ctx, object, "apply", "--validate=strict", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await(ctx, t, "the priority level of the FlowSchema", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "get", "flowschema/rollplan-controller", "-o", `jsonpath={.status.conditions[?(@.type=="Dangling")].status}`)
		if err == nil && out != "False" {
			err = fmt.Errorf("the condition Dangling is %q", out)
		}
		return err
	})
}

// noDefinition starts an adapter without the custom resource definition, which it must name.
func noDefinition(ctx context.Context, t *testing.T, s *System) {
	s.MustKubectl(ctx, t, "delete", "crd/planneddeployments.apps.rollplan.dev", "--timeout="+waitTimeout)
	command := exec.CommandContext(ctx, s.binaries.Adapter, "--mode=custom-resource", "--planner="+s.address, "--kubeconfig="+s.Kubeconfig(),
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	if code, _, errOut := runCommand(t, command); code == 0 ||
		!strings.Contains(errOut, "kubectl wait --for=condition=Established crd/planneddeployments.apps.rollplan.dev") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// secureMetrics gets the metrics without a token, with a token without permissions, and with one that has the role of the
// manifests.
func secureMetrics(ctx context.Context, t *testing.T, s *System) {
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartAdapter("secure", "--leader-elect=false", "--metrics-bind-address="+address); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s, "secure")
	s.MustKubectl(ctx, t, "create", "serviceaccount", "prometheus", "-n", "default")
	token := strings.TrimSpace(s.MustKubectl(ctx, t, "create", "token", "prometheus", "-n", "default"))
	for _, get := range []struct {
		token string
		code  int
	}{{"", http.StatusUnauthorized}, {token, http.StatusForbidden}} {
		await(ctx, t, fmt.Sprintf("the answer %d", get.code), func(ctx context.Context) error {
			code, body, err := metricsOf(ctx, "https://"+address, get.token)
			if err == nil && (code != get.code || strings.Contains(body, "go_goroutines")) {
				err = fmt.Errorf("the answer is %d: %.200s", code, body)
			}
			return err
		})
	}
	if code, _, err := metricsOf(ctx, "http://"+address, token); err == nil && code == http.StatusOK {
		t.Error("the metrics are not encrypted")
	}
	role := strings.TrimSpace(s.MustKubectl(ctx, t, "get", "clusterroles", "-o",
		`jsonpath={.items[?(@.rules[0].nonResourceURLs[0]=="/metrics")].metadata.name}`))
	reader := strings.Fields(role)[slices.IndexFunc(strings.Fields(role), func(name string) bool { return strings.Contains(name, "metrics-reader") })]
	s.MustKubectl(ctx, t, "create", "clusterrolebinding", "prometheus", "--clusterrole="+reader, "--serviceaccount=default:prometheus")
	await(ctx, t, "the metrics", func(ctx context.Context) error { // the adapter caches refusals for half a minute
		code, body, err := metricsOf(ctx, "https://"+address, token)
		if err == nil && (code != http.StatusOK || !strings.Contains(body, "go_goroutines")) {
			err = fmt.Errorf("the answer is %d: %.200s", code, body)
		}
		return err
	})
}

// metricsOf returns the code and the body of the answer to a request for metrics.
func metricsOf(ctx context.Context, address, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate of the adapter is self-signed.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// memoryLimit runs an adapter in a control group, and reads the memory limit of the Go runtime from its metrics.
func memoryLimit(ctx context.Context, t *testing.T, s *System) {
	const limit = 200 << 20
	cgroup := newCgroup(t, limit)
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s \"$@\"\n", cgroup, s.binaries.Adapter)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	unlimited := s.binaries.Adapter
	s.binaries.Adapter = program
	err = s.StartAdapter("limited", "--leader-elect=false", "--metrics-secure=false", "--metrics-bind-address="+address)
	s.binaries.Adapter = unlimited
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s, "limited")
	await(ctx, t, "the memory limit of the Go runtime", func(ctx context.Context) error {
		_, body, err := metricsOf(ctx, "http://"+address, "")
		if err != nil {
			return err
		}
		found := memoryLimitMetric.FindStringSubmatch(body)
		if found == nil {
			return errors.New("the metrics have no memory limit")
		}
		var bytes float64
		if _, err := fmt.Sscan(found[1], &bytes); err != nil || math.Abs(bytes-0.9*limit) > 1 {
			return fmt.Errorf("the limit is %s, want nine tenths of %d", found[1], limit)
		}
		return nil
	})
}

var memoryLimitMetric = regexp.MustCompile(`(?m)^go_gc_gomemlimit_bytes (\S+)$`)

// newCgroup creates a control group with a memory limit, for which the tests must run as root.
func newCgroup(t *testing.T, limit int) string {
	t.Helper()
	const mount = "/sys/fs/cgroup"
	parent, file := filepath.Join(mount, "memory"), "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		parent, file = mount, "memory.max"
	}
	dir, err := os.MkdirTemp(parent, "rollplan-adapter-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if parent == mount {
		// This fails in the root group if the controller is already enabled.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0o644)
	}
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stop stops an adapter before the next one starts.
func stop(t *testing.T, s *System, name string) {
	t.Helper()
	if err := s.StopAdapter(name); err != nil {
		t.Error(err)
	}
}

// roleInOneNamespace runs an adapter with the Roles that the chart has for adapter.namespaces, and nothing else.
func roleInOneNamespace(ctx context.Context, t *testing.T, s *System) {
	root, err := Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := os.ReadFile(filepath.Join(root, "tests/chart/testdata/adapter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documents := slices.DeleteFunc(strings.Split(rights(string(rendered)), "\n---\n"), func(document string) bool {
		return regexp.MustCompile(`(?m)^kind: ClusterRole|^  namespace: shop$`).MatchString(document)
	})
	s.MustKubectl(ctx, t, "delete", "clusterrolebindings", "-l", "app.kubernetes.io/name=rollplan")
	for _, namespace := range []string{"staging", "production"} {
		if err := s.CreateNamespace(ctx, namespace); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := s.KubectlInput(ctx, strings.Join(documents, "\n---\n"), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	account := "--as=system:serviceaccount:" + systemNamespace + ":rollplan-controller"
	if out, err := s.Kubectl(ctx, "auth", "can-i", "list", "replicasets", "-n", "production", account); err == nil {
		t.Errorf("the adapter can list the ReplicaSets of another namespace: %s", out)
	}
	for _, namespace := range []string{"production", "staging"} {
		text, err := json.Marshal(manifest("web", map[string]any{"replicas": 2}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.KubectlInput(ctx, string(text), "apply", "-n", namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	// The defaults of the flags, including leader election, must work with these permissions.
	if err := s.StartAdapter("staging", "--namespaces=staging"); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s, "staging")
	staging := plannedKubectl{kubectl{s, "staging"}}
	staging.complete(ctx, t, "web", 1)
	staging.patch(ctx, t, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/web:2"}]}}}}`)
	staging.complete(ctx, t, "web", 2)
	await(ctx, t, "an event", func(ctx context.Context) error {
		events, err := s.Typed.CoreV1().Events("staging").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=PlannedDeployment"})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("not found")
		}
		return err
	})
	if sets := (kubectl{s, "production"}).sets(ctx, t, "web"); len(sets) != 0 {
		t.Errorf("%d ReplicaSets in another namespace", len(sets))
	}

	// Without --namespaces, the adapter needs a ClusterRole. It must report the missing permission and exit.
	command := exec.CommandContext(ctx, s.binaries.Adapter, "--mode=custom-resource", "--planner="+s.address, "--kubeconfig="+s.kubeconfig,
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	if code, _, errOut := runCommand(t, command); code == 0 || !strings.Contains(errOut, "planneddeployments.apps.rollplan.dev is forbidden") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
