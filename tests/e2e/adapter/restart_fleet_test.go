package adapter

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// Environment variables of the fleet. Its seed is ROLLPLAN_SEED.
const (
	restartWorkloadsEnv      = "ROLLPLAN_RESTART_WORKLOADS"      // number of workloads; 200 for a full run
	restartConfigurationsEnv = "ROLLPLAN_RESTART_CONFIGURATIONS" // number of configurations; 300 for a full run
)

const (
	// plantedValue is the beginning of every value of a configuration. Its length is a multiple of three, so that base64 shows it.
	plantedValue = "hunter2+/? valu"
	// fleetInterval is the minimum time between the first two restarts of a workload. It doubles with each further one.
	fleetInterval = 500 * time.Millisecond
)

// restartFleet is a set of workloads and configurations that change at random.
type restartFleet struct {
	*restarts
	random *rand.Rand
	// contents has the values of each configuration, oldest first: "" while it does not exist.
	contents map[string][]content
	// uses has the configurations that each workload reads, and isOptional is whether it starts without them.
	uses       map[string][]string
	isOptional map[string]bool
	values     int
}

// content is a value of a configuration, which took effect between these two times: before and after the call.
type content struct {
	value         string
	called, since time.Time
}

// cacheLag is how far the cache of the adapter may lag on a busy machine.
const cacheLag = 10 * time.Second

// TestRestartFleet edits, deletes and creates configurations and workloads at random, while pods report their starts late. In the
// end, the pods of each workload must have started with the newest contents. No workload may have been restarted more often or
// sooner than the rules allow, and no value of a configuration may appear in a log, metric, event or object. TestLateStarts has the
// control: a planner that loses restarts.
func TestRestartFleet(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 40*time.Minute)
	workloads, configurations := envNumber(t, restartWorkloadsEnv, 12), envNumber(t, restartConfigurationsEnv, 18)
	seed := uint64(envNumber(t, seedEnv, 1))
	t.Logf("%s=%d %s=%d %s=%d", restartWorkloadsEnv, workloads, restartConfigurationsEnv, configurations, seedEnv, seed)
	s, err := Install(ctx, controlplane.ForTest(t, controlplane.Options{NativeController: true, Pods: controlplane.PodsReportLate}), binaries, Restarts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	metrics, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartService("--http-listen="+metrics, "--slow-call=0s"); err != nil {
		t.Fatal(err)
	}
	f := &restartFleet{
		restarts: newRestarts(ctx, t, s, s.kubeconfig, "fleet"), random: rand.New(rand.NewPCG(seed, seed)),
		contents: map[string][]content{}, uses: map[string][]string{}, isOptional: map[string]bool{},
	}
	for i := range configurations {
		f.write(ctx, t, fmt.Sprintf("%s-%d", []string{"configmap", "secret"}[i%2], i))
	}
	key := f.keyFile(t)
	f.start(t, "fleet", fmt.Sprintf(`"quiet":"0.3s","maxWait":"3s","minInterval":"%gs","skew":"1s","allWorkloads":true`, fleetInterval.Seconds()),
		"--checksum-key-file="+key, "--zap-log-level=debug")
	for i := range workloads {
		f.create(ctx, t, fmt.Sprintf("web-%d", i))
	}
	recorded := record[appsv1.Deployment](ctx, t, s, "/registry/deployments/fleet/")
	mark := recorded.mark()
	for range 2 * configurations {
		f.change(ctx, t)
		time.Sleep(time.Duration(f.random.IntN(150)) * time.Millisecond) // so that some changes are merged, and others are not
	}
	// All configurations exist in the end: a workload without a required one is not restarted.
	for _, name := range sortedKeys(f.contents) {
		if f.latest(name).value == "" {
			f.write(ctx, t, name)
		}
	}
	f.converge(ctx, t)
	f.checkRestarts(t, recorded, mark)
	f.checkSecrecy(ctx, t, metrics)
}

// keyFile writes a key for checksums, and returns its path.
func (f *restartFleet) keyFile(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/key"
	if err := os.WriteFile(path, []byte("key of the fleet"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *restartFleet) latest(name string) content {
	all := f.contents[name]
	return all[len(all)-1]
}

// write gives a configuration a new value, or sometimes an earlier one, and creates it if it does not exist.
func (f *restartFleet) write(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	f.values++
	value := fmt.Sprintf("%s%d", plantedValue, f.values)
	if all := f.contents[name]; len(all) > 1 && f.random.IntN(8) == 0 {
		if earlier := all[f.random.IntN(len(all))].value; earlier != "" {
			value = earlier
		}
	}
	// kubectl would record the value in this annotation.
	metadata := metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: value}}
	called := time.Now()
	var err error
	if strings.HasPrefix(name, "secret") {
		object := &corev1.Secret{ObjectMeta: metadata, StringData: map[string]string{"KEY": value}}
		client := f.Typed.CoreV1().Secrets(f.namespace)
		if _, err = client.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
	} else {
		object := &corev1.ConfigMap{ObjectMeta: metadata, Data: map[string]string{"KEY": value}}
		client := f.Typed.CoreV1().ConfigMaps(f.namespace)
		if _, err = client.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f.contents[name] = append(f.contents[name], content{value, called, time.Now()})
}

// remove deletes a configuration.
func (f *restartFleet) remove(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	called := time.Now()
	var err error
	if strings.HasPrefix(name, "secret") {
		err = f.Typed.CoreV1().Secrets(f.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	} else {
		err = f.Typed.CoreV1().ConfigMaps(f.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.contents[name] = append(f.contents[name], content{"", called, time.Now()})
}

// create creates a workload that reads up to three configurations.
func (f *restartFleet) create(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	names := sortedKeys(f.contents)
	if f.uses[name] == nil {
		for range 1 + f.random.IntN(3) {
			f.uses[name] = append(f.uses[name], names[f.random.IntN(len(names))])
		}
		f.isOptional[name] = f.random.IntN(2) == 0
	}
	var sources []any
	for _, used := range f.uses[name] {
		kind := "configMapRef"
		if strings.HasPrefix(used, "secret") {
			kind = "secretRef"
		}
		sources = append(sources, from(kind, used, f.isOptional[name]))
	}
	text, err := json.Marshal(workload("Deployment", name, nil, map[string]any{"replicas": 1}, sources...))
	if err != nil {
		t.Fatal(err)
	}
	var object appsv1.Deployment
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Typed.AppsV1().Deployments(f.namespace).Create(ctx, &object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change changes something at random.
func (f *restartFleet) change(ctx context.Context, t *testing.T) {
	t.Helper()
	names, workloads := sortedKeys(f.contents), sortedKeys(f.uses)
	name, workload := names[f.random.IntN(len(names))], workloads[f.random.IntN(len(workloads))]
	switch kind := f.random.IntN(20); {
	case kind == 0:
		policy := metav1.DeletePropagationBackground
		if err := f.Typed.AppsV1().Deployments(f.namespace).Delete(ctx, workload, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		f.create(ctx, t, workload)
	case kind == 1:
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"version":"%d"}}}}}`, f.random.IntN(1000))
		if _, err := f.Typed.AppsV1().Deployments(f.namespace).Patch(ctx, workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	case kind < 5 && f.latest(name).value != "":
		f.remove(ctx, t, name)
	default:
		f.write(ctx, t, name)
	}
}

// converge waits until the pods of each workload have started with the newest contents.
func (f *restartFleet) converge(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(3+len(f.uses)/10)*time.Minute)
	defer cancel()
	if err := controlplane.Poll(ctx, "newest configuration", func(ctx context.Context) error {
		time.Sleep(time.Second) // the list is long
		list, err := f.Typed.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods := podsOf(list.Items)
		for _, name := range sortedKeys(f.uses) {
			if len(pods[name]) != 1 {
				return fmt.Errorf("%s has %d pods", name, len(pods[name]))
			}
			if err := f.isNewest(name, pods[name][0]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// isNewest returns an error unless a pod has started with the newest contents. Its start time has a resolution of one second.
func (f *restartFleet) isNewest(name string, pod corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return fmt.Errorf("the pod of %s does not run", name)
	}
	started := pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	for _, used := range f.uses[name] {
		newest, isSeen := f.latest(used).value, false
		all := f.contents[used]
		for i, content := range all {
			isOver := i+1 < len(all) && all[i+1].since.Before(started)
			if content.value == newest && !isOver && content.called.Before(started.Add(time.Second)) {
				isSeen = true
			}
		}
		if !isSeen {
			return fmt.Errorf("%s has started at %s, before %s was changed at %s", name, started.Format(time.TimeOnly), used, f.latest(used).since.Format(time.TimeOnly))
		}
	}
	return nil
}

// checkRestarts checks that each restart follows a change, and that the restarts keep the minimum interval.
func (f *restartFleet) checkRestarts(t *testing.T, recorded *recording[appsv1.Deployment], from int) {
	t.Helper()
	restarts := map[types.UID][]time.Time{}
	names := map[types.UID]string{}
	marks := map[string]bool{}
	recorded.checkBetween(t, from, recorded.mark(), "marks are times", func(all map[string]*appsv1.Deployment) bool {
		for _, d := range all {
			mark := d.Spec.Template.Annotations[markAnnotation]
			if mark == "" || marks[string(d.UID)+mark] {
				continue
			}
			at, err := time.Parse(time.RFC3339, mark)
			if err != nil {
				return false
			}
			marks[string(d.UID)+mark] = true
			restarts[d.UID], names[d.UID] = append(restarts[d.UID], at), d.Name
		}
		return true
	})
	total := 0
	for uid, times := range restarts {
		total += len(times)
		interval := fleetInterval
		writes := 0
		for _, used := range f.uses[names[uid]] {
			writes += len(f.contents[used])
		}
		if len(times) > writes {
			t.Errorf("%s was restarted %d times for %d changes", names[uid], len(times), writes)
		}
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) < interval {
				t.Errorf("%s was restarted at %s and %s, which is less than %s", names[uid], times[i-1], times[i], interval)
			}
			if !f.changedBetween(names[uid], times[i-1].Add(-cacheLag), times[i]) {
				t.Errorf("%s was restarted at %s and %s, and nothing has changed between", names[uid], times[i-1], times[i])
			}
			interval *= 2
		}
	}
	if total == 0 {
		t.Error("nothing was restarted")
	}
	t.Logf("%d restarts of %d workloads", total, len(restarts))
}

// changedBetween reports whether a configuration of a workload changed in a period.
func (f *restartFleet) changedBetween(name string, start, end time.Time) bool {
	for _, used := range f.uses[name] {
		for _, content := range f.contents[used] {
			if content.since.After(start) && content.since.Before(end.Add(time.Second)) {
				return true
			}
		}
	}
	return false
}

// checkSecrecy searches logs, metrics, events and all objects that are not configurations for the values.
func (f *restartFleet) checkSecrecy(ctx context.Context, t *testing.T, service string) {
	t.Helper()
	emitted := map[string]string{
		"metrics of the adapter": get(ctx, t, "http://"+f.metrics+"/metrics"),
		"metrics of the service": get(ctx, t, "http://"+service+"/metrics"),
		"objects": f.MustKubectl(ctx, t, "get", "deployments,replicasets,pods,events,leases,controllerrevisions,serviceaccounts", "--all-namespaces",
			"-o", "json", "--show-managed-fields"),
		"the namespace": f.MustKubectl(ctx, t, "get", "namespaces", "-o", "json"),
	}
	for name, log := range map[string]string{"log of the adapter": f.Adapter("fleet").Log(), "log of the service": f.Service().Log()} {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		emitted[name] = string(text)
	}
	forms := []string{
		plantedValue, base64.StdEncoding.EncodeToString([]byte(plantedValue)), base64.URLEncoding.EncodeToString([]byte(plantedValue)),
		hex.EncodeToString([]byte(plantedValue)), strings.ToUpper(hex.EncodeToString([]byte(plantedValue))),
		url.QueryEscape(plantedValue), url.PathEscape(plantedValue), strings.Trim(string(jsonText(plantedValue)), `"`),
	}
	for name, text := range emitted {
		if len(text) < 100 {
			t.Errorf("%s: %q", name, text)
		}
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s: %s", name, text[max(0, at-200):min(len(text), at+200)])
			}
		}
	}
}

func jsonText(value string) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
