// Command canary runs random canaries of PlanCanary on Kubernetes' own Deployment controller, on a real control plane, while users
// and other clients interfere, callers die, and the Deployment controller is stopped and continued. An observer with watches of its
// own checks that the limits of the user hold. Each case is also run without a canary, as the control. All cases follow from a
// seed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
	"rollplan.dev/rollplan/tests/e2e/workloads"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	count := flag.Int("canaries", 300, "number of random canaries")
	seed := flag.Uint64("seed", 0, "seed of the canaries; 0 draws one")
	parallel := flag.Int("parallel", 12, "number of canaries at the same time")
	only := flag.String("only", "", "run only cases with these prefixes, for example c017,argo")
	write := flag.String("write", "", "document to write the table to")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	rollplan := os.Getenv(adapter.RollplanEnv)
	if rollplan == "" {
		return fmt.Errorf("set %s to the rollplan binary to test", adapter.RollplanEnv)
	}
	programs, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	// The log has an entry for each refusal.
	var log bytes.Buffer
	service, err := workloads.StartService(ctx, rollplan, &log)
	if err != nil {
		return err
	}
	defer service.Stop()
	fmt.Fprintf(os.Stderr, "%d canaries, -seed %d\n", *count, *seed)
	tasks := allTasks(*seed, *count, *only)
	start := time.Now()
	outcomes, repeated, err := observe(ctx, programs, service, tasks, *seed, *parallel)
	if err != nil {
		service.Stop()
		return fmt.Errorf("-seed %d: %w\nlog of the service:\n%s", *seed, err, log.String())
	}
	table, details, failed := report(tasks, outcomes, repeated, programs.K8sVersion, *seed)
	fmt.Print(table, details)
	fmt.Fprintf(os.Stderr, "%d runs in %.0f s\n", len(tasks), time.Since(start).Seconds())
	if *write != "" {
		if err := workloads.ReplaceSection(*write, "canaries", "canary", table); err != nil {
			return err
		}
	}
	return failed
}

// task is a case to run, with a canary or without.
type task struct {
	testCase
	// control is nil with a canary.
	control *control
}

func (t task) String() string {
	if t.control == nil {
		return t.Name + " with a canary"
	}
	return fmt.Sprintf("%s without a canary (%d)", t.Name, t.control.attempt)
}

// allTasks returns all runs: the cases of the seed and those with names, each with its control, and the controls of the observer.
func allTasks(seed uint64, count int, only string) (tasks []task) {
	for _, c := range slices.Concat(named(), generate(seed, count)) {
		tasks = append(tasks, task{c, nil}, task{c, &control{}})
	}
	for _, c := range broken() {
		tasks = append(tasks, task{c, nil})
	}
	return slices.DeleteFunc(tasks, func(t task) bool {
		return !slices.ContainsFunc(strings.Split(only, ","), func(prefix string) bool { return strings.HasPrefix(t.Name, prefix) })
	})
}

// observe runs all tasks, and then further controls of the cases with violations.
func observe(ctx context.Context, programs controlplane.Programs, service *workloads.Service, tasks []task, seed uint64, parallel int) (outcomes []*outcome, repeated map[repeatedCase]*repeatedControls, err error) {
	// The Deployment controller is a process of its own, which can be stopped without the ReplicaSet controller.
	cp, err := controlplane.Start(ctx, programs, controlplane.Options{Pods: controlplane.PodsIgnore})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop(err != nil)) }()
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.Burst = 500, 1000
	h := &harness{ControlPlane: cp, service: service}
	if h.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	if h.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	for i := 1; i < nodes; i++ { // in addition to that of the control plane
		if err := workloads.CreateNode(ctx, h.typed, fmt.Sprintf("node-%d", i), 10_000); err != nil {
			return nil, nil, err
		}
	}
	if err := h.installGuard(ctx); err != nil {
		return nil, nil, err
	}
	native, err := startNative(cp, programs)
	if err != nil {
		return nil, nil, err
	}
	// An API server does not stop before its watches have ended.
	watching, cancel := context.WithCancel(ctx)
	h.Watch(watching, h.dynamic)
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		if err := native.disturb(watching, seed); err != nil {
			h.Failed(err)
		}
	})
	defer func() {
		cancel()
		disturbing.Wait()
		err = errors.Join(err, native.Stop())
	}()
	if outcomes, err = h.runAll(ctx, tasks, parallel); err != nil {
		return nil, nil, err
	}
	repeated, err = h.repeatControls(ctx, tasks, outcomes, parallel)
	return outcomes, repeated, err
}

// runAll runs tasks, some of them at the same time.
func (h *harness) runAll(ctx context.Context, tasks []task, parallel int) ([]*outcome, error) {
	outcomes := make([]*outcome, len(tasks))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	var mu sync.Mutex
	finished := 0
	for i, t := range tasks {
		slots <- struct{}{}
		if h.Err() != nil || ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			o, err := h.run(ctx, t)
			if err != nil {
				h.Failed(fmt.Errorf("%s: %w: %s", t, err, t.testCase))
				return
			}
			outcomes[i] = o
			mu.Lock()
			defer mu.Unlock()
			finished++
			fmt.Fprintf(os.Stderr, "%d/%d %s: %s, %d patches, %d violations, %d problems, %.0f s\n", finished, len(tasks), t,
				o.finalImage, o.patches, len(o.verdict.violations), len(o.problems), o.took.Seconds())
			for _, problem := range o.problems {
				fmt.Fprintf(os.Stderr, "  %s\n", problem)
			}
		})
	}
	group.Wait()
	return outcomes, errors.Join(h.Err(), ctx.Err())
}

// nodes is the number of nodes that all cases share.
const nodes = 6

// installGuard installs the guard for namespaces with the label.
func (h *harness) installGuard(ctx context.Context) error {
	root, err := adapter.Repository(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "helm/rollplan/files/canary-guard.yaml"))
	if err != nil {
		return err
	}
	const binding = "  policyName: rollplan-canary-guard\n"
	if strings.Count(string(text), binding) != 1 {
		return errors.New("canary-guard.yaml: unexpected format of the binding")
	}
	guard := strings.Replace(string(text), binding, binding+"  matchResources: {namespaceSelector: {matchLabels: {guard: \"true\"}}}\n", 1)
	if _, err := h.KubectlInput(ctx, guard, "apply", "-f", "-"); err != nil {
		return err
	}
	// The API server needs some seconds to enforce a policy.
	if err := h.CreateNamespace(ctx, "guard-probe"); err != nil {
		return err
	}
	if _, err := h.Kubectl(ctx, "label", "namespace", "guard-probe", "guard=true"); err != nil {
		return err
	}
	probe := `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "guard-probe",
		"labels": {"rollplan.dev/canary": "true"}, "annotations": {"rollplan.dev/canary": "{}"}}, "spec": {"replicas": 0,
		"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
		"spec": {"containers": [{"name": "main", "image": "registry.example/web:v1"}]}}}}`
	if _, err := h.KubectlInput(ctx, probe, "create", "-f", "-"); err != nil {
		return err
	}
	seconds := 0
	return controlplane.Poll(ctx, "the guard", func(ctx context.Context) error {
		// It permits dry runs, and writes that change nothing.
		seconds++
		patch := fmt.Appendf(nil, `{"spec": {"minReadySeconds": %d}}`, seconds)
		_, err := h.typed.AppsV1().Deployments("guard-probe").Patch(ctx, "web", "application/merge-patch+json", patch, metav1.PatchOptions{})
		if err == nil {
			return errors.New("the guard does not refuse yet")
		}
		return nil
	})
}

// nativeController is the Deployment controller of Kubernetes, in a process of its own.
type nativeController struct {
	start func() (*controlplane.Program, error)
	*controlplane.Program
}

func startNative(cp *controlplane.ControlPlane, programs controlplane.Programs) (n *nativeController, err error) {
	n = &nativeController{start: func() (*controlplane.Program, error) {
		return cp.Run("deployment-controller", programs.Path("kube-controller-manager"), "--kubeconfig", cp.Kubeconfig(),
			"--controllers=deployment-controller", "--leader-elect=false", "--secure-port=0", "--concurrent-deployment-syncs=10",
			"--kube-api-qps=500", "--kube-api-burst=1000")
	}}
	n.Program, err = n.start()
	return n, err
}

// disturb stops and continues the controller, or kills it and starts it again, until the context ends.
func (n *nativeController) disturb(ctx context.Context, seed uint64) (err error) {
	random := rand.New(rand.NewPCG(seed, 1<<32))
	for {
		sleep(ctx, time.Duration(2000+random.IntN(6000))*time.Millisecond)
		if ctx.Err() != nil {
			return nil
		}
		pause := time.Duration(300+random.IntN(3000)) * time.Millisecond
		if random.IntN(4) == 0 {
			n.Kill()
			sleep(ctx, pause)
			if n.Program, err = n.start(); err != nil {
				return err
			}
			continue
		}
		if err := n.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		sleep(ctx, pause)
		if err := n.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
}
