package adapter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestRefusals checks how often an adapter repeats calls that the API server rejects, and what it reports while the service is
// unavailable.
func TestRefusals(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 6*time.Minute)
	s := install(ctx, t, controlplane.Options{}, Takeover)
	metrics, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	health, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartAdapter("adapter", "--leader-elect=false", "--metrics-secure=false", "--metrics-bind-address="+metrics,
		"--health-probe-bind-address="+health); err != nil {
		t.Fatal(err)
	}
	r := refusals{s, metrics, health}
	r.firstLine(ctx, t)
	r.quota(ctx, t)
	r.terminatingNamespace(ctx, t)
	r.readiness(ctx, t)
}

type refusals struct {
	*System
	metrics, health string
}

// firstLine checks that the first line of the log has the version, the mode and the address of the service.
func (r refusals) firstLine(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, "the first line of the log", func(context.Context) error {
		log, err := os.ReadFile(r.Adapter("adapter").Log())
		if err != nil {
			return err
		}
		line, _, _ := strings.Cut(string(log), "\n")
		for _, want := range []string{`"msg":"Starting"`, `"version":"`, `"mode":"takeover"`, `"planner":"` + r.Address()} {
			if !strings.Contains(line, want) {
				return fmt.Errorf("%s is not in %q", want, line)
			}
		}
		return nil
	})
}

// rejections returns how many calls have failed for a reason.
func (r refusals) rejections(ctx context.Context, reason string) (n float64, err error) {
	code, body, err := metricsOf(ctx, "http://"+r.metrics, "")
	if err != nil {
		return 0, err
	}
	if code != http.StatusOK {
		return 0, fmt.Errorf("the answer is %d", code)
	}
	metric := regexp.MustCompile(`(?m)^rollplan_controller_failed_calls_total\{reason="` + reason + `"\} (\S+)$`)
	if found := metric.FindStringSubmatch(body); found != nil {
		_, err = fmt.Sscan(found[1], &n)
	}
	return n, err
}

// quota checks that the delay between rejected calls doubles with each of them, and that a lifted quota is noticed soon.
func (r refusals) quota(ctx context.Context, t *testing.T) {
	t.Helper()
	k := kubectl{r.System, "limited"}
	if err := r.CreateNamespace(ctx, k.namespace); err != nil {
		t.Fatal(err)
	}
	k.run(ctx, t, "create", "quota", "none", "--hard=count/replicasets.apps=0")
	await(ctx, t, "the quota to be in force", func(ctx context.Context) error {
		out, err := r.Kubectl(ctx, "get", "quota/none", "-n", k.namespace, "-o", `jsonpath={.status.hard}`)
		if err == nil && out == "" {
			err = fmt.Errorf("it has no status")
		}
		return err
	})
	k.run(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1")
	// A delay of 5 ms that doubles exceeds 10 s after eleven rejections. If each rejection doubled it twice, they would take
	// five minutes.
	const doubled = 11
	start := time.Now()
	await(ctx, t, "rejections", func(ctx context.Context) error {
		n, err := r.rejections(ctx, "Forbidden")
		if err == nil && n < doubled {
			err = fmt.Errorf("%v rejections", n)
		}
		return err
	})
	if waited := time.Since(start); waited < 5*time.Second {
		t.Errorf("%d rejections within %s", doubled, waited)
	}
	if condition := k.run(ctx, t, "get", "deployment/web", "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].message}`); !strings.Contains(condition, "exceeded quota") {
		t.Errorf("the condition has the message %q", condition)
	}
	k.run(ctx, t, "delete", "quota/none")
	lifted := time.Now()
	k.rolledOut(ctx, t, "web")
	// The delay is never longer than 30 s.
	if recovered := time.Since(lifted); recovered > 50*time.Second {
		t.Errorf("the rollout was complete %s after the quota had been lifted", recovered)
	}
}

// terminatingNamespace deletes a namespace with Deployments. Creates that are rejected there must not be repeated, or logged as
// errors.
func (r refusals) terminatingNamespace(ctx context.Context, t *testing.T) {
	t.Helper()
	k := kubectl{r.System, "terminating"}
	if err := r.CreateNamespace(ctx, k.namespace); err != nil {
		t.Fatal(err)
	}
	const deployments = 20
	for i := range deployments {
		k.run(ctx, t, "create", "deployment", fmt.Sprintf("web-%d", i), "--image=registry.example/web:1")
	}
	for i := range deployments {
		k.rolledOut(ctx, t, fmt.Sprintf("web-%d", i))
	}
	before, err := r.rejections(ctx, "Forbidden")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(r.Adapter("adapter").Log())
	if err != nil {
		t.Fatal(err)
	}
	r.MustKubectl(ctx, t, "delete", "namespace", k.namespace, "--timeout="+waitTimeout)
	after, err := r.rejections(ctx, "Forbidden")
	if err != nil {
		t.Fatal(err)
	}
	// If the watch of Deployments is late, each may be created a ReplicaSet once.
	if after-before > deployments {
		t.Errorf("%v calls are counted as rejections, of %d Deployments", after-before, deployments)
	}
	now, err := os.ReadFile(r.Adapter("adapter").Log())
	if err != nil {
		t.Fatal(err)
	}
	if added := string(now[len(log):]); strings.Contains(added, `"level":"error"`) || strings.Contains(added, "goroutine") {
		t.Errorf("the adapter has logged:\n%s", added)
	}
}

// readiness stops the service: the adapter must not be ready without it. Work must continue soon after it has started again.
func (r refusals) readiness(ctx context.Context, t *testing.T) {
	t.Helper()
	ready := func(want int) {
		t.Helper()
		await(ctx, t, fmt.Sprintf("the answer %d to /readyz", want), func(ctx context.Context) error {
			return answers(ctx, "http://"+r.health+"/readyz", want)
		})
	}
	ready(http.StatusOK)
	if err := r.Service().Stop(); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusInternalServerError)
	k := kubectl{r.System, "default"}
	const deployments = 10
	for i := range deployments {
		k.run(ctx, t, "create", "deployment", fmt.Sprintf("web-%d", i), "--image=registry.example/web:1")
	}
	await(ctx, t, "the adapter to notice that the service is away", logContains(r.Adapter("adapter"), "The service is unavailable"))
	if err := r.StartService(); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	await(ctx, t, "the rollouts", func(ctx context.Context) error {
		list, err := r.Typed.AppsV1().Deployments(k.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			if d.Status.AvailableReplicas != 1 {
				return fmt.Errorf("the status of %s is %+v", d.Name, d.Status)
			}
		}
		return nil
	})
	// Each Deployment is tried again within two seconds, and connecting takes up to three. The rest allows for a busy machine.
	if waited := time.Since(returned); waited > 20*time.Second {
		t.Errorf("the rollouts were complete %s after the service had returned", waited)
	}
	ready(http.StatusOK)
}
