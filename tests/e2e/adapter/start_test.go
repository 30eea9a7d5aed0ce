package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestStart starts adapters before their roles exist, and several in one namespace.
func TestStart(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 6*time.Minute)
	s := install(ctx, t, controlplane.Options{}, CustomResource)
	t.Run("roles", func(t *testing.T) { rolesAppearLater(ctx, t, s) })
	t.Run("leases", func(t *testing.T) { leasesOfTwoInstallations(ctx, t, s) })
}

// rolesAppearLater deletes the bindings of the adapter, starts it, and creates them again: as after a restart of the API server,
// which answers 403 until it has loaded its roles.
func rolesAppearLater(ctx context.Context, t *testing.T, s *System) {
	bindings := s.MustKubectl(ctx, t, "get", "clusterrolebindings", "-l", "app.kubernetes.io/name=rollplan", "-o", "yaml")
	s.MustKubectl(ctx, t, "delete", "clusterrolebindings", "-l", "app.kubernetes.io/name=rollplan")
	await(ctx, t, "the API server to forget the bindings", func(ctx context.Context) error {
		account := "--as=system:serviceaccount:" + systemNamespace + ":" + s.mode.account()
		if out, err := s.Kubectl(ctx, "auth", "can-i", "list", "replicasets", "-A", account); err == nil {
			return fmt.Errorf("the adapter can still list ReplicaSets: %s", out)
		}
		return nil
	})
	if err := s.StartAdapter("early", "--leader-elect=false"); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the adapter to report the missing roles", logMatches(s, "early", "access to the API server yet, trying again"))
	if out, err := s.KubectlInput(ctx, bindings, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	deploy(ctx, t, s, "default", "early")
	(plannedKubectl{kubectl{s, "default"}}).complete(ctx, t, "early", 1)
	stop(t, s, "early")
}

// leasesOfTwoInstallations runs two installations of one mode in a namespace, each with its own lease and its own namespaces:
// both must work. A second adapter with the lease of the first reports that it waits.
func leasesOfTwoInstallations(ctx context.Context, t *testing.T, s *System) {
	const other = "canary-rollplan-controller-custom-resource"
	s.MustKubectl(ctx, t, "create", "role", "canary-lease", "-n", systemNamespace, "--verb=get,update", "--resource=leases", "--resource-name="+other)
	s.MustKubectl(ctx, t, "create", "rolebinding", "canary-lease", "-n", systemNamespace, "--role=canary-lease",
		"--serviceaccount="+systemNamespace+":"+s.mode.account())
	metrics, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	for namespace, flags := range map[string][]string{
		"one": nil,
		"two": {"--leader-elect-lease-name=" + other},
	} {
		if err := s.CreateNamespace(ctx, namespace); err != nil {
			t.Fatal(err)
		}
		if err := s.StartAdapter(namespace, append(flags, "--namespaces="+namespace)...); err != nil {
			t.Fatal(err)
		}
		defer stop(t, s, namespace)
	}
	for _, namespace := range []string{"one", "two"} {
		deploy(ctx, t, s, namespace, "web")
		(plannedKubectl{kubectl{s, namespace}}).complete(ctx, t, "web", 1)
	}
	flags := []string{"--namespaces=one", "--metrics-bind-address=" + metrics}
	if s.binaries.AdapterArgs == nil { // the Go adapter
		flags = append(flags, "--metrics-secure=false")
	}
	if err := s.StartAdapter("standby", flags...); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s, "standby")
	lease := systemNamespace + "/rollplan-controller-custom-resource"
	holder := strings.TrimSpace(s.MustKubectl(ctx, t, "get", "lease/rollplan-controller-custom-resource", "-n", systemNamespace, "-o", "jsonpath={.spec.holderIdentity}"))
	await(ctx, t, "the standby to report the holder", logMatches(s, "standby", "aiting for the lease", lease, holder))
	await(ctx, t, "the metric of the standby", func(ctx context.Context) error {
		_, body, err := metricsOf(ctx, "http://"+metrics, "")
		if err != nil {
			return err
		}
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "rollplan_controller_lease_holder{") && strings.Contains(line, `lease="`+lease+`"`) &&
				strings.Contains(line, `holder="`+holder+`"`) && strings.Contains(line, `self="false"`) {
				return nil
			}
		}
		return fmt.Errorf("not found")
	})
}

// deploy creates a PlannedDeployment with one pod.
func deploy(ctx context.Context, t *testing.T, s *System, namespace, name string) {
	t.Helper()
	text, err := json.Marshal(manifest(name, map[string]any{"replicas": 1}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.KubectlInput(ctx, string(text), "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// logMatches returns a condition for await: a line of the log of an adapter contains all these texts.
func logMatches(s *System, adapter string, texts ...string) func(context.Context) error {
	return func(context.Context) error {
		log, err := os.ReadFile(s.Adapter(adapter).Log())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			found := 0
			for _, text := range texts {
				if strings.Contains(line, text) {
					found++
				}
			}
			if found == len(texts) {
				return nil
			}
		}
		return fmt.Errorf("no line of %s has %q", s.Adapter(adapter).Log(), texts)
	}
}
