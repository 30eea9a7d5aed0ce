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
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// How many rollouts go through the faults, and how chance goes. A failure prints both.
const (
	rolloutsEnv = "ROLLPLAN_ROLLOUTS" // 200 for a full run
	seedEnv     = "ROLLPLAN_SEED"
)

const (
	// rolloutsDefault keeps CI short.
	rolloutsDefault = 40
	// fleetSize Deployments are rolled out at the same time.
	fleetSize = 8
	replicas  = 4
	// With the default strategy, 25% of 4 each: 5 pods at most, 3 available at least.
	sizeMax, availableMin = 5, 3
)

// TestFaults kills service, adapters and API server at random moments, and stops or overloads the service for a while,
// during many rollouts. Limits must hold all the time, and every rollout must end.
func TestFaults(t *testing.T) {
	ctx := withTimeout(t, 60*time.Minute)
	s := install(ctx, t, controlplane.Options{}, Takeover)
	overload := startOverload(t, s.Address())
	for _, name := range []string{"adapter-1", "adapter-2"} {
		// A lease that passes on soon; 10 s would be kinder to a busy machine and longer.
		if err := s.StartAdapter(name, "--leader-elect", "--leader-elect-lease-duration=6s", "--planner-timeout=2s", "--planner="+overload.address); err != nil {
			t.Fatal(err)
		}
	}
	f := newFleet(ctx, t, s)
	f.overload = overload
	sets, pods := watchReplicaSets(ctx, t, s, f.namespace), watchPods(ctx, t, s, f.namespace)
	created := f.settle(ctx, t, 1)
	mark := pods.mark()

	faulty, stop := context.WithCancel(ctx)
	var faults sync.WaitGroup
	faults.Go(func() { f.breakThings(faulty, t) })
	roll := func(version, until int) int {
		for ; created < until; version++ {
			f.setImage(ctx, t, version)
			created += f.settle(ctx, t, version)
		}
		return version
	}
	version := roll(2, f.rollouts/2)
	// Where the answer to a deletion is lost with the API server, Kubernetes' ReplicaSet controller deletes another pod
	// than the one that is gone already. Availability is held against the faults before that, sizes against all.
	lost := pods.mark()
	f.losesAPIServer.Store(true)
	roll(version, f.rollouts)
	stop()
	faults.Wait()
	if t.Failed() {
		return
	}

	overload.check(t)
	f.whole(ctx, t, created/fleetSize)
	sets.check(t, fmt.Sprintf("the sizes of a Deployment add up to at most %d", sizeMax), func(sets map[string]*appsv1.ReplicaSet) bool {
		sums := map[types.UID]int32{}
		for _, set := range sets {
			if owner := metav1.GetControllerOf(set); owner != nil {
				sums[owner.UID] += *set.Spec.Replicas
			}
		}
		for _, set := range sets {
			if owner := metav1.GetControllerOf(set); owner != nil && sums[owner.UID] > sizeMax && *set.Spec.Replicas > 0 {
				t.Logf("%s at %s: %d pods, %v", set.Name, set.ResourceVersion, *set.Spec.Replicas, set.Annotations)
			}
		}
		return len(sums) == 0 || slices.Max(slices.Collect(maps.Values(sums))) <= sizeMax
	})
	pods.checkBetween(t, mark, lost, fmt.Sprintf("at least %d of %d pods are available", availableMin, replicas), func(pods map[string]*corev1.Pod) bool {
		available := map[string]int{}
		for _, pod := range pods {
			if isAvailable(pod) {
				available[pod.Labels["app"]]++
			}
		}
		for i := range fleetSize {
			if available[f.name(i)] < availableMin {
				return false
			}
		}
		return true
	})
}

// TestTwoWriters runs two adapters that do not know of each other. Limits need one writer; that every rollout ends and
// nothing is lost does not.
func TestTwoWriters(t *testing.T) {
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
	f.whole(ctx, t, 4)
}

// fleet is some Deployments that are rolled out together.
type fleet struct {
	kubectl
	rollouts int
	chance   *rand.Rand
	// losesAPIServer says whether the API server is among what is broken.
	losesAPIServer atomic.Bool
	// overload is before the service, where a test wants it.
	overload *overload
}

func newFleet(ctx context.Context, t *testing.T, s *System) *fleet {
	t.Helper()
	f := &fleet{kubectl: kubectl{s, "fleet"}, rollouts: number(t, rolloutsEnv, rolloutsDefault)}
	seed := uint64(number(t, seedEnv, int(time.Now().UnixNano()&0xffffffff)))
	t.Logf("%s=%d %s=%d", rolloutsEnv, f.rollouts, seedEnv, seed)
	f.chance = rand.New(rand.NewPCG(seed, seed))
	if err := s.CreateNamespace(ctx, f.namespace); err != nil {
		t.Fatal(err)
	}
	for i := range fleetSize {
		f.run(ctx, t, "create", "deployment", f.name(i), "--image="+f.image(i, 1), "--replicas="+strconv.Itoa(replicas))
	}
	return f
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
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

// setImage starts a rollout of all. The API server may be away for a moment.
func (f *fleet) setImage(ctx context.Context, t *testing.T, version int) {
	t.Helper()
	for i := range fleetSize {
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, f.name(i), f.image(i, version))
		await(ctx, t, "a new image of "+f.name(i), func(ctx context.Context) error {
			_, err := f.Typed.AppsV1().Deployments(f.namespace).Patch(ctx, f.name(i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
}

// settle waits until all rollouts are complete, and returns how many there were.
func (f *fleet) settle(ctx context.Context, t *testing.T, version int) int {
	t.Helper()
	for i := range fleetSize {
		await(ctx, t, fmt.Sprintf("version %d of %s", version, f.name(i)), func(ctx context.Context) error {
			d, err := f.Typed.AppsV1().Deployments(f.namespace).Get(ctx, f.name(i), metav1.GetOptions{})
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

// whole checks what is left: for each version one ReplicaSet, owned by its Deployment, and pods of the last one only.
func (f *fleet) whole(ctx context.Context, t *testing.T, versions int) {
	t.Helper()
	const historyLimit = 10
	for i := range fleetSize {
		d, err := f.Typed.AppsV1().Deployments(f.namespace).Get(ctx, f.name(i), metav1.GetOptions{})
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
				return fmt.Errorf("there are %d, want %d", len(sets.Items), want)
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

// breakThings does harm until the context ends, and leaves everything running.
func (f *fleet) breakThings(ctx context.Context, t *testing.T) {
	// Also the shortest run has these.
	f.overload.during(loadSheds, slowMax)
	f.overload.during(loadSlow, slowMax)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(200+f.chance.IntN(1800)) * time.Millisecond):
		}
		if err := f.breakOne(ctx, t); err != nil && ctx.Err() == nil {
			t.Errorf("after a fault: %v", err)
			return
		}
	}
}

func (f *fleet) breakOne(ctx context.Context, t *testing.T) error {
	// What has been broken is mended even if the test is over meanwhile.
	ctx = context.WithoutCancel(ctx)
	// An adapter that loses its lease ends; something always starts it again.
	for _, name := range []string{"adapter-1", "adapter-2"} {
		if f.Adapter(name).Ended() {
			t.Logf("%s has ended", name)
			if err := f.RestartAdapter(name); err != nil {
				return err
			}
		}
	}
	kinds := 12
	if f.losesAPIServer.Load() {
		kinds++
	}
	switch chance := f.chance.IntN(kinds); {
	case chance < 3:
		t.Log("kill the service")
		f.Service().Kill()
		return f.StartService()
	case chance < 5:
		t.Log("stop the service for a while")
		if err := f.Service().Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Duration(500+f.chance.IntN(3000)) * time.Millisecond) // longer and shorter than the adapter's patience
		return f.Service().Signal(syscall.SIGCONT)
	case chance < 9:
		name := fmt.Sprintf("adapter-%d", 1+f.chance.IntN(2))
		t.Log("kill", name)
		f.Adapter(name).Kill()
		return f.RestartAdapter(name)
	case chance < 11:
		t.Log("have the service shed calls for a while")
		f.overload.during(loadSheds, time.Duration(500+f.chance.IntN(3000))*time.Millisecond)
		return nil
	case chance < 12:
		t.Log("have the service be slow for a while")
		f.overload.during(loadSlow, time.Duration(500+f.chance.IntN(3000))*time.Millisecond)
		return nil
	default:
		t.Log("kill the API server")
		return f.KillAPIServer(ctx)
	}
}
