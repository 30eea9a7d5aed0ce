package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// lateRoundsEnv is the number of workloads of TestLateStarts; 20 for a full run.
const lateRoundsEnv = "ROLLPLAN_LATE_ROUNDS"

const (
	// lateChanges is how often the configuration of each workload changes while its pods start: at first those of a new workload,
	// and then those of a new template.
	lateChanges = 2
	// startsBeforeChange is the minimum time between the start of a pod and the change of its configuration. Start times have a
	// resolution of one second.
	startsBeforeChange = time.Second
	// lateOptions have a skew that is longer than the time between a start and a change: a start that is reported after the change
	// was recorded does not reveal that the pod has an older value.
	lateOptions = `"quiet":"0.5s","maxWait":"5s","minInterval":"0.5s","skew":"2s"`
	// reportsAfterChange is how long after the change the start is reported. A planner that does not know of the pod records
	// the change within four seconds: the rest of the current second, the skew, and the interval between two plans.
	reportsAfterChange = 5 * time.Second
	// reportsAfterStart is how long after the start of a pod it is reported if nothing changes.
	reportsAfterStart = 2 * time.Second
)

// TestLateStarts changes configurations after pods have started with them, and before their start is reported. Each change must
// be followed by exactly one restart. As a control, a second adapter has a planner that does not know of pods that have not
// reported their start: it must lose restarts.
func TestLateStarts(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 15*time.Minute)
	rounds := envNumber(t, lateRoundsEnv, 3)
	s := install(ctx, t, controlplane.Options{NativeController: true, Pods: controlplane.PodsHoldNew}, Restarts)
	startRounds := func(name string, flags ...string) (all []*lateRound) {
		var namespaces []string
		for i := range rounds {
			r := newRestarts(ctx, t, s, s.kubeconfig, fmt.Sprintf("%s-%d", name, i))
			delay := startsBeforeChange + time.Duration(i)*time.Second/time.Duration(rounds)
			all = append(all, &lateRound{r, delay, i%2 == 1, map[types.UID]string{}})
			namespaces = append(namespaces, r.namespace)
		}
		all[0].start(t, name, lateOptions, append(flags, "--namespaces="+strings.Join(namespaces, ","))...)
		return all
	}
	tested := startRounds("late")
	control := startRounds("control", "--planner="+hideStartingPods(t, s.Address()))
	outcomes := make([]lateOutcome, 2*rounds)
	var running sync.WaitGroup
	for i, round := range slices.Concat(tested, control) {
		running.Go(func() { outcomes[i] = round.run(ctx) })
	}
	running.Wait()

	lost, ofTested := 0, lateOutcome{}
	for i, round := range slices.Concat(tested, control) {
		outcome := outcomes[i]
		if outcome.err != nil {
			t.Errorf("%s: %v", round.namespace, outcome.err)
		}
		if i >= rounds {
			lost += outcome.lost
			continue
		}
		if outcome.lost > 0 || outcome.restarts != lateChanges {
			t.Errorf("%s: %d changes, %d restarts, %d pods with an outdated value", round.namespace, lateChanges, outcome.restarts, outcome.lost)
		}
		ofTested.lost += outcome.lost
		ofTested.restarts += outcome.restarts
	}
	if lost == 0 {
		t.Error("the control has lost no restart: this test does not detect lost restarts")
	}
	checkNothingLeft(ctx, t, s, 2*rounds)
	t.Logf("%d rounds with %d changes each: %d restarts, %d lost; the control has lost %d of %d",
		rounds, lateChanges, ofTested.restarts, ofTested.lost, lost, rounds*lateChanges)
	all := map[string]*lateRound{"late": tested[0], "control": control[0]}
	for _, name := range sortedKeys(all) {
		all[name].stop(t, name)
	}
}

// lateRound is a workload whose pods this test starts in place of the kubelet: kwok only accepts them.
type lateRound struct {
	*restarts
	// delay is the time between the start of a pod and the change of its configuration.
	delay time.Duration
	// isServerSide is whether the configuration is applied by the server, with labels that change when its data does not.
	isServerSide bool
	// values has the value with which each pod has started.
	values map[types.UID]string
}

// lateOutcome is the result of a round.
type lateOutcome struct {
	// restarts is the number of restarts, and lost the number of changes after which a pod kept running with an outdated value.
	restarts, lost int
	err            error
}

// startedPod is a pod that has started, which is not reported yet.
type startedPod struct {
	name string
	at   time.Time
}

func (r *lateRound) run(ctx context.Context) (outcome lateOutcome) {
	annotations := map[string]any{"rollplan.dev/restart": "enabled"}
	outcome.err = r.write(ctx, "1", "a")
	if outcome.err == nil {
		outcome.err = r.tryApply(ctx, workload("Deployment", "web", annotations, map[string]any{"replicas": 1}, from("configMapRef", "app", false)))
	}
	for change := 1; change <= lateChanges && outcome.err == nil; change++ {
		var lost int
		lost, outcome.err = r.change(ctx, change)
		outcome.lost += lost
	}
	if outcome.err != nil {
		return outcome
	}
	sets, err := r.Typed.AppsV1().ReplicaSets(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		outcome.err = err
		return outcome
	}
	outcome.restarts = len(sets.Items) - lateChanges // each change has a template of its own
	return outcome
}

// change changes the configuration between the start of a pod and its report. It returns the number of pods that run with an
// outdated value in the end.
func (r *lateRound) change(ctx context.Context, change int) (lost int, err error) {
	if change > 1 {
		if _, err := r.Kubectl(ctx, "set", "env", "deployment/web", "VERSION="+strconv.Itoa(change), "-n", r.namespace); err != nil {
			return 0, err
		}
	}
	var started *startedPod
	if err := r.await(ctx, "a pod", func(ctx context.Context) error {
		if started, err = r.startPod(ctx); err == nil && started == nil {
			err = errors.New("not created")
		}
		return err
	}); err != nil {
		return 0, err
	}
	if r.isServerSide {
		if err := r.write(ctx, strconv.Itoa(change), "b"); err != nil {
			return 0, err
		}
	}
	time.Sleep(r.delay)
	value := strconv.Itoa(change + 1)
	if err := r.write(ctx, value, "a"); err != nil {
		return 0, err
	}
	time.Sleep(reportsAfterChange)
	if err := r.report(ctx, started); err != nil {
		return 0, err
	}
	if err := r.await(ctx, "the rollouts", func(ctx context.Context) error { return r.settle(ctx, value) }); err != nil {
		return 0, err
	}
	pods, err := r.Typed.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, pod := range podsOf(pods.Items)["web"] {
		if r.values[pod.UID] != value {
			lost++
		}
	}
	return lost, nil
}

// write creates or changes the configuration. The label only counts if the server applies it.
func (r *lateRound) write(ctx context.Context, value, label string) error {
	client := r.Typed.CoreV1().ConfigMaps(r.namespace)
	if r.isServerSide {
		applied := applycorev1.ConfigMap("app", r.namespace).WithLabels(map[string]string{"version": label}).WithData(map[string]string{"KEY": value})
		_, err := client.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "owner"})
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Data: map[string]string{"KEY": value}}
	_, err := client.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
	}
	return err
}

func (r *lateRound) await(ctx context.Context, what string, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return controlplane.Poll(ctx, what, cond)
}

// settle starts the pods that were created, and returns nil once all rollouts are complete and the value is recorded as applied:
// from then on, it is not a reason to restart.
func (r *lateRound) settle(ctx context.Context, value string) error {
	for {
		started, err := r.startPod(ctx)
		if err != nil {
			return err
		}
		if started == nil {
			break
		}
		time.Sleep(reportsAfterStart)
		if err := r.report(ctx, started); err != nil {
			return err
		}
	}
	d, err := r.Typed.AppsV1().Deployments(r.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	want := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	is := appsv1.DeploymentStatus{
		ObservedGeneration: d.Status.ObservedGeneration, Replicas: d.Status.Replicas, UpdatedReplicas: d.Status.UpdatedReplicas,
		AvailableReplicas: d.Status.AvailableReplicas,
	}
	if text(is) != text(want) {
		return fmt.Errorf("the rollout is in progress: %s", text(is))
	}
	var state struct {
		Applied map[string]struct {
			Keys map[string]string `json:"k"`
		} `json:"applied"`
	}
	recorded := d.Annotations[stateAnnotation]
	if err := json.Unmarshal([]byte(recorded), &state); err != nil {
		return fmt.Errorf("state %q: %w", recorded, err)
	}
	sum := sha256.Sum256([]byte(value))
	if applied := state.Applied["configmap/app"].Keys["KEY"]; applied != hex.EncodeToString(sum[:6]) {
		return fmt.Errorf("value %s is not recorded: %s", value, recorded)
	}
	return nil
}

// startPod starts a pod that kwok has accepted: the pod takes the current value. It returns nil if all have started.
func (r *lateRound) startPod(ctx context.Context) (*startedPod, error) {
	pods, err := r.Typed.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if _, hasStarted := r.values[pod.UID]; hasStarted || pod.DeletionTimestamp != nil || pod.Status.StartTime == nil {
			continue
		}
		at := time.Now()
		object, err := r.Typed.CoreV1().ConfigMaps(r.namespace).Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		r.values[pod.UID] = object.Data["KEY"]
		return &startedPod{pod.Name, at}, nil
	}
	return nil, nil
}

// report reports when a pod has started, unless it has been deleted since.
func (r *lateRound) report(ctx context.Context, started *startedPod) error {
	isStarted := true
	status := corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, Started: &isStarted,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started.at)}},
		}},
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = r.Typed.CoreV1().Pods(r.namespace).Patch(ctx, started.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// checkNothingLeft checks that nothing is planned for any workload: what is lost now remains lost.
func checkNothingLeft(ctx context.Context, t *testing.T, s *System, workloads int) {
	t.Helper()
	objects := s.MustKubectl(ctx, t, "get", "deployments,replicasets,pods,configmaps", "--all-namespaces", "--show-managed-fields", "-o", "json")
	cmd := exec.CommandContext(ctx, s.binaries.Rollplan, "restarts", "-f", "-", "-o", "json", "--configurations-complete")
	cmd.Stdin = strings.NewReader(objects)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Counts struct{ Selected, None int }
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Counts.Selected != workloads || plan.Counts.None != workloads {
		t.Errorf("restarts of %d workloads are planned: %s", workloads, out)
	}
}

// hideStartingPods starts a proxy of the planner that hides pods that have not reported their start, and returns its address.
func hideStartingPods(t *testing.T, planner string) string {
	t.Helper()
	return startProxy(t, planner, func(_ context.Context, method string, request []byte) ([]byte, error) {
		if !strings.HasSuffix(method, "/PlanRestarts") {
			return request, nil
		}
		return rewriteObjects(request, withoutStartingPods)
	})
}

// objectsField is the number of the field PlanRestartsRequest.objects.
const objectsField = 2

// rewriteObjects replaces the objects in an encoded PlanRestartsRequest.
func rewriteObjects(request []byte, rewrite func([]string) ([]string, error)) ([]byte, error) {
	var rewritten []byte
	var objects []string
	for len(request) > 0 {
		number, _, size := protowire.ConsumeField(request)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number == objectsField {
			object, _ := protowire.ConsumeString(request[protowire.SizeTag(number):])
			objects = append(objects, object)
		} else {
			rewritten = append(rewritten, request[:size]...)
		}
		request = request[size:]
	}
	objects, err := rewrite(objects)
	for _, object := range objects {
		rewritten = protowire.AppendTag(rewritten, objectsField, protowire.BytesType)
		rewritten = protowire.AppendString(rewritten, object)
	}
	return rewritten, err
}

// withoutStartingPods removes the pods that have not reported a start. The objects must be in the order workloads,
// ReplicaSets, pods. The ReplicaSets and Deployments of the removed pods then look as if they were scaled to 0.
func withoutStartingPods(objects []string) ([]string, error) {
	hidden := map[types.UID]bool{}
	var kept []string
	for _, text := range slices.Backward(objects) {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			return nil, err
		}
		var owner types.UID
		if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
			owner = controller.UID
		}
		var sizes [][]string
		switch kind := object.GetKind(); {
		case kind == "Pod" && !strings.Contains(fmt.Sprint(object.Object["status"]), "startedAt"):
			hidden[owner] = true
			continue
		case kind == "ReplicaSet" && hidden[object.GetUID()]:
			hidden[owner] = true
			sizes = [][]string{{"status", "replicas"}}
		case kind == "Deployment" && hidden[object.GetUID()]:
			sizes = [][]string{{"spec", "replicas"}, {"status", "replicas"}, {"status", "updatedReplicas"}, {"status", "availableReplicas"}}
		}
		for _, size := range sizes {
			if err := unstructured.SetNestedField(object.Object, int64(0), size...); err != nil {
				return nil, err
			}
		}
		rewritten, err := json.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		kept = append(kept, string(rewritten))
	}
	slices.Reverse(kept)
	return kept, nil
}
