package adapter

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// Environment variables of the tests. The log of each test has both values.
const (
	rolloutsEnv = "ROLLPLAN_ROLLOUTS" // number of rollouts; 200 for a full run
	seedEnv     = "ROLLPLAN_SEED"     // seed of the random faults
)

const (
	// defaultRollouts keeps CI short.
	defaultRollouts = 40
	// fleetSize is the number of Deployments that are rolled out concurrently.
	fleetSize = 8
	replicas  = 4
	// The default maxSurge and maxUnavailable are 25% of 4 replicas.
	maxPods, minAvailable = 5, 3
)

// TestFaults kills the service, adapters and the API server at random times during many rollouts, and pauses or overloads
// the service temporarily. The limits must hold at all times, and every rollout must complete.
func TestFaults(t *testing.T) {
	t.Parallel()
	runFaults(t, controlplane.Options{}, Takeover)
}

// TestFaultsOfCustomResources does the same with PlannedDeployments, next to the native controller.
func TestFaultsOfCustomResources(t *testing.T) {
	t.Parallel()
	runFaults(t, controlplane.Options{NativeController: true}, CustomResource)
}

func runFaults(t *testing.T, options controlplane.Options, mode Mode) {
	ctx := withTimeout(t, 60*time.Minute)
	s := install(ctx, t, options, mode)
	overload := startOverload(t, s.Address())
	for _, name := range []string{"adapter-1", "adapter-2"} {
		// A short lease makes the standby take over soon.
		if err := s.StartAdapter(name, "--leader-elect", "--leader-elect-lease-duration=6s", "--planner-timeout=2s", "--planner="+overload.address); err != nil {
			t.Fatal(err)
		}
	}
	f := newFleet(ctx, t, s)
	f.overload = overload
	sets, pods := watchReplicaSets(ctx, t, s, f.namespace), watchPods(ctx, t, s, f.namespace)
	created := f.settle(ctx, t, 1)
	mark := pods.mark()

	faultCtx, stop := context.WithCancel(ctx)
	var faults sync.WaitGroup
	faults.Go(func() { f.injectFaults(faultCtx, t) })
	roll := func(version, until int) int {
		for ; created < until; version++ {
			f.setImage(ctx, t, version)
			created += f.settle(ctx, t, version)
		}
		return version
	}
	version := roll(2, f.rollouts/2)
	// If the API server is killed before it responds to a pod deletion, the ReplicaSet controller deletes another pod in
	// addition. Availability is therefore checked only until the API server is killed for the first time; sizes are
	// checked throughout.
	apiServerKills := pods.mark()
	f.killsAPIServer.Store(true)
	roll(version, f.rollouts)
	stop()
	faults.Wait()
	if t.Failed() {
		return
	}

	overload.check(t)
	f.checkFinalState(ctx, t, created/fleetSize)
	// The last fault may have stopped the API server for longer than the duration of the lease.
	if err := f.restartEnded(t); err != nil {
		t.Fatal(err)
	}
	f.checkSizes(t, sets)
	pods.checkBetween(t, mark, apiServerKills, fmt.Sprintf("at least %d of %d pods are available", minAvailable, replicas), func(pods map[string]*corev1.Pod) bool {
		available := map[string]int{}
		for _, pod := range pods {
			if isAvailable(pod) {
				available[pod.Labels["app"]]++
			}
		}
		for i := range fleetSize {
			if available[f.name(i)] < minAvailable {
				return false
			}
		}
		return true
	})
}

// TestTwoActiveAdapters runs two adapters without leader election. The limits only hold with a single writer, but every
// rollout must still complete without losing anything.
func TestTwoActiveAdapters(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 15*time.Minute)
	s := install(ctx, t, controlplane.Options{}, Takeover)
	for _, name := range []string{"adapter-1", "adapter-2"} {
		if err := s.StartAdapter(name, "--leader-elect=false"); err != nil {
			t.Fatal(err)
		}
	}
	f := newFleet(ctx, t, s)
	f.settle(ctx, t, 1)
	for version := 2; version <= 4; version++ {
		f.setImage(ctx, t, version)
		f.settle(ctx, t, version)
	}
	f.checkFinalState(ctx, t, 4)
}

// fleet is a set of Deployments that are rolled out together.
type fleet struct {
	kubectl
	rollouts int
	random   *rand.Rand
	// killsAPIServer enables the fault that kills the API server.
	killsAPIServer atomic.Bool
	// overload is the proxy in front of the service, or nil.
	overload *overload
}

func newFleet(ctx context.Context, t *testing.T, s *System) *fleet {
	t.Helper()
	f := &fleet{kubectl: kubectl{s, "fleet"}, rollouts: envNumber(t, rolloutsEnv, defaultRollouts)}
	seed := uint64(envNumber(t, seedEnv, int(time.Now().UnixNano()&0xffffffff)))
	t.Logf("%s=%d %s=%d", rolloutsEnv, f.rollouts, seedEnv, seed)
	f.random = rand.New(rand.NewPCG(seed, seed))
	if err := s.CreateNamespace(ctx, f.namespace); err != nil {
		t.Fatal(err)
	}
	for i := range fleetSize {
		name, image := f.name(i), f.image(i, 1)
		if s.mode == CustomResource {
			plannedKubectl{f.kubectl}.create(ctx, t, name, map[string]any{"replicas": replicas}, map[string]any{"name": name, "image": image})
		} else {
			f.run(ctx, t, "create", "deployment", name, "--image="+image, "--replicas="+strconv.Itoa(replicas))
		}
	}
	return f
}

// owners returns the Deployments or PlannedDeployments of the fleet.
func (f *fleet) owners() dynamic.ResourceInterface {
	resource := appsv1.SchemeGroupVersion.WithResource("deployments")
	if f.mode == CustomResource {
		resource = plannedDeployments
	}
	return f.Dynamic.Resource(resource).Namespace(f.namespace)
}

// get reads one of them. A PlannedDeployment has the fields of a Deployment.
func (f *fleet) get(ctx context.Context, name string) (*appsv1.Deployment, error) {
	object, err := f.owners().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	d := &appsv1.Deployment{}
	return d, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d)
}

func envNumber(t *testing.T, name string, defaultValue int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return defaultValue
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

func (f *fleet) name(i int) string { return fmt.Sprintf("web-%d", i) }

func (f *fleet) image(i, version int) string {
	return fmt.Sprintf("registry.example/%s:%d", f.name(i), version)
}

// setImage starts a rollout of all Deployments. It retries, because the API server may be restarting.
func (f *fleet) setImage(ctx context.Context, t *testing.T, version int) {
	t.Helper()
	for i := range fleetSize {
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, f.name(i), f.image(i, version))
		await(ctx, t, "the image of "+f.name(i), func(ctx context.Context) error {
			_, err := f.owners().Patch(ctx, f.name(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
}

// settle waits until all rollouts are complete and returns their number.
func (f *fleet) settle(ctx context.Context, t *testing.T, version int) int {
	t.Helper()
	for i := range fleetSize {
		await(ctx, t, fmt.Sprintf("version %d of %s", version, f.name(i)), func(ctx context.Context) error {
			d, err := f.get(ctx, f.name(i))
			if err != nil {
				return err
			}
			s := d.Status
			if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != replicas || s.Replicas != replicas || s.AvailableReplicas != replicas {
				return fmt.Errorf("generation %d, status %+v", d.Generation, s)
			}
			return nil
		})
	}
	return fleetSize
}

// checkFinalState checks that each Deployment owns one ReplicaSet for each version, up to the history limit, and only has
// pods of the last version.
func (f *fleet) checkFinalState(ctx context.Context, t *testing.T, versions int) {
	t.Helper()
	const historyLimit = 10
	for i := range fleetSize {
		d, err := f.get(ctx, f.name(i))
		if err != nil {
			t.Fatal(err)
		}
		if have := d.Annotations["deployment.kubernetes.io/revision"]; have != strconv.Itoa(versions) {
			t.Errorf("%s has revision %s, want %d", f.name(i), have, versions)
		}
		await(ctx, t, "old ReplicaSets of "+f.name(i)+" to be cleaned up", func(ctx context.Context) error {
			sets, err := f.Typed.AppsV1().ReplicaSets(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + f.name(i)})
			if err != nil {
				return err
			}
			if want := min(versions, historyLimit+1); len(sets.Items) != want {
				return fmt.Errorf("%d exist, want %d", len(sets.Items), want)
			}
			for _, set := range sets.Items {
				if !metav1.IsControlledBy(&set, d) {
					return fmt.Errorf("%s is an orphan", set.Name)
				}
			}
			return nil
		})
		f.pods(ctx, t, f.name(i), strconv.Itoa(versions), replicas)
	}
}

// checkSizes checks that the ReplicaSets of a Deployment never exceeded the surge.
func (f *fleet) checkSizes(t *testing.T, sets *recording[appsv1.ReplicaSet]) {
	t.Helper()
	sets.check(t, fmt.Sprintf("the sizes of the ReplicaSets of a Deployment add up to at most %d", maxPods), func(sets map[string]*appsv1.ReplicaSet) bool {
		sums := map[types.UID]int32{}
		for _, set := range sets {
			if owner := metav1.GetControllerOf(set); owner != nil {
				sums[owner.UID] += *set.Spec.Replicas
			}
		}
		for _, set := range sets {
			if owner := metav1.GetControllerOf(set); owner != nil && sums[owner.UID] > maxPods && *set.Spec.Replicas > 0 {
				t.Logf("%s at resourceVersion %s: size %d, annotations %v", set.Name, set.ResourceVersion, *set.Spec.Replicas, set.Annotations)
			}
		}
		return len(sums) == 0 || slices.Max(slices.Collect(maps.Values(sums))) <= maxPods
	})
}

// injectFaults injects random faults until the context ends. When it returns, everything is running again.
func (f *fleet) injectFaults(ctx context.Context, t *testing.T) {
	// Even the shortest run must include these.
	f.overload.during(loadShed, maxDelay)
	f.overload.during(loadSlow, maxDelay)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(200+f.random.IntN(1800)) * time.Millisecond):
		}
		if err := f.injectFault(ctx, t); err != nil && ctx.Err() == nil {
			t.Errorf("recover from a fault: %v", err)
			return
		}
	}
}

// restartEnded restarts the adapters that have lost their lease, and so exited, as the kubelet would do in a cluster.
func (f *fleet) restartEnded(t *testing.T) error {
	for _, name := range []string{"adapter-1", "adapter-2"} {
		if f.Adapter(name).Ended() {
			t.Logf("restart %s", name)
			if err := f.RestartAdapter(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) injectFault(ctx context.Context, t *testing.T) error {
	// Recover even if the test ends in the meantime.
	ctx = context.WithoutCancel(ctx)
	if err := f.restartEnded(t); err != nil {
		return err
	}
	kinds := 12
	if f.killsAPIServer.Load() {
		kinds++
	}
	switch n := f.random.IntN(kinds); {
	case n < 3:
		t.Log("kill the service")
		f.Service().Kill()
		return f.StartService()
	case n < 5:
		t.Log("pause the service")
		if err := f.Service().Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Duration(500+f.random.IntN(3000)) * time.Millisecond) // both shorter and longer than --planner-timeout
		return f.Service().Signal(syscall.SIGCONT)
	case n < 9:
		name := fmt.Sprintf("adapter-%d", 1+f.random.IntN(2))
		t.Log("kill", name)
		f.Adapter(name).Kill()
		return f.RestartAdapter(name)
	case n < 11:
		t.Log("make the service shed calls")
		f.overload.during(loadShed, time.Duration(500+f.random.IntN(3000))*time.Millisecond)
		return nil
	case n < 12:
		t.Log("make the service slow")
		f.overload.during(loadSlow, time.Duration(500+f.random.IntN(3000))*time.Millisecond)
		return nil
	default:
		t.Log("kill the API server")
		return f.KillAPIServer(ctx)
	}
}
