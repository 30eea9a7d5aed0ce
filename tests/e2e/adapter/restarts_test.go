package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const (
	stateAnnotation = "rollplan.dev/restart-state"
	markAnnotation  = "rollplan.dev/restarted-at"
	xingApplied     = "com.xing.deployment-restart.applied-config-checksums"
	xingMark        = "com.xing.deployment-restart.timestamp"
	// skew is how long after a change a pod must have started to count as using it. Times have a resolution of one second.
	skew = time.Second
	// quickOptions shorten the waits. Most tests use them.
	quickOptions = `"quiet":"0.5s","maxWait":"5s","minInterval":"0.5s","skew":"1s"`
)

// restarts is an adapter in the mode "restarts", for one namespace.
type restarts struct {
	kubectl
	kubeconfig string
	// metrics is the address of the metrics of the adapter that was started last.
	metrics string
}

// newRestarts creates a namespace with these labels, for an adapter.
func newRestarts(ctx context.Context, t *testing.T, s *System, kubeconfig, namespace string, labels ...string) *restarts {
	t.Helper()
	if err := s.CreateNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	for _, label := range labels {
		s.MustKubectl(ctx, t, "label", "namespace", namespace, label)
	}
	return &restarts{kubectl: kubectl{s, namespace}, kubeconfig: kubeconfig}
}

// grantRestarts creates the service account for restarts, which may also restart PlannedDeployments.
func grantRestarts(ctx context.Context, t *testing.T, s *System) (kubeconfig string) {
	t.Helper()
	kubeconfig, err := s.Grant(ctx, Restarts)
	if err != nil {
		t.Fatal(err)
	}
	s.MustKubectl(ctx, t, "create", "clusterrole", "restart-planned", "--verb=get,list,watch,patch", "--resource=planneddeployments.apps.rollplan.dev")
	s.MustKubectl(ctx, t, "create", "clusterrolebinding", "restart-planned", "--clusterrole=restart-planned",
		"--serviceaccount="+systemNamespace+":"+Restarts.account())
	// The reloader profile creates Jobs.
	s.MustKubectl(ctx, t, "create", "clusterrole", "restart-jobs", "--verb=create,delete", "--resource=jobs.batch")
	s.MustKubectl(ctx, t, "create", "clusterrolebinding", "restart-jobs", "--clusterrole=restart-jobs",
		"--serviceaccount="+systemNamespace+":"+Restarts.account())
	return kubeconfig
}

// start starts an adapter with options of PlanRestarts, for its namespace unless the flags say otherwise.
func (r *restarts) start(t *testing.T, name, options string, flags ...string) {
	t.Helper()
	var err error
	if r.metrics, err = controlplane.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	if err := r.StartAdapter(name, append([]string{
		"--mode=restarts", "--kubeconfig=" + r.kubeconfig, "--leader-elect=false", "--namespaces=" + r.namespace,
		"--restart-options={" + options + "}", "--metrics-secure=false", "--metrics-bind-address=" + r.metrics,
	}, flags...)...); err != nil {
		t.Fatal(err)
	}
}

func (r *restarts) stop(t *testing.T, name string) {
	t.Helper()
	if err := r.StopAdapter(name); err != nil {
		t.Error(err)
	}
}

// apply creates or replaces objects.
func (r *restarts) apply(ctx context.Context, t *testing.T, objects ...map[string]any) {
	t.Helper()
	if err := r.tryApply(ctx, objects...); err != nil {
		t.Fatal(err)
	}
}

func (r *restarts) tryApply(ctx context.Context, objects ...map[string]any) error {
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err
	}
	if out, err := r.KubectlInput(ctx, string(list), "apply", "-n", r.namespace, "-f", "-"); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// configMap and secret are configurations with a key.
func configMap(name, value string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"KEY": value}}
}

func secret(name, value string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"PASSWORD": value}}
}

// from returns a source of environment variables, for example of the kind "configMapRef".
func from(kind, name string, isOptional bool) map[string]any {
	return map[string]any{kind: map[string]any{"name": name, "optional": isOptional}}
}

// workload is an object with a pod template whose container takes its environment from configurations.
func workload(kind, name string, annotations map[string]any, spec map[string]any, envFrom ...any) map[string]any {
	object := manifest(name, spec, map[string]any{"envFrom": envFrom})
	object["kind"] = kind
	if kind != "PlannedDeployment" {
		object["apiVersion"] = "apps/v1"
	}
	if kind == "StatefulSet" {
		object["spec"].(map[string]any)["serviceName"] = name
	}
	metadata := object["metadata"].(map[string]any)
	metadata["annotations"], metadata["labels"] = annotations, map[string]any{"app": name}
	return object
}

// awaitSkew waits until pods that start count as started after the latest change.
func awaitSkew() { time.Sleep(skew + 2*time.Second) }

// annotation waits until an annotation of a workload, or of its template, differs from the previous value, and returns it.
func (r *restarts) annotation(ctx context.Context, t *testing.T, object, path, key, before string) (value string) {
	t.Helper()
	await(ctx, t, path+" of "+object, func(ctx context.Context) error {
		var err error
		value, err = r.Kubectl(ctx, "get", object, "-n", r.namespace, "-o", "jsonpath={"+path+"['"+strings.ReplaceAll(key, ".", `\.`)+"']}")
		if err == nil && value == before {
			err = fmt.Errorf("%s is still %q", key, value)
		}
		return err
	})
	return value
}

// recorded waits until the state of a workload is recorded.
func (r *restarts) recorded(ctx context.Context, t *testing.T, object, key string) string {
	t.Helper()
	return r.annotation(ctx, t, object, ".metadata.annotations", key, "")
}

// restarted waits until the pod template of a workload is marked with a new restart.
func (r *restarts) restarted(ctx context.Context, t *testing.T, object, key, before string) string {
	t.Helper()
	return r.annotation(ctx, t, object, ".spec.template.metadata.annotations", key, before)
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v", url, response.Status, err)
	}
	return string(text)
}

// TestRestarts runs the adapter in the mode "restarts" together with the native Deployment controller and an adapter for
// custom resources.
func TestRestarts(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 12*time.Minute+time.Duration(envNumber(t, killedChangesEnv, killedChanges))*2*time.Minute)
	s := start(ctx, t, controlplane.Options{NativeController: true}, CustomResource)
	kubeconfig := grantRestarts(ctx, t, s)
	for name, test := range map[string]func(context.Context, *testing.T, *restarts){
		"kinds": restartsOfAllKinds, "xing": xingExample, "kills": restartsSurviveKills, "maximum": maximumOfConcurrentRestarts,
	} {
		t.Run(name, func(t *testing.T) { test(ctx, t, newRestarts(ctx, t, s, kubeconfig, "restarts-"+name)) })
	}
	t.Run("selectors", func(t *testing.T) { reloaderSelectors(ctx, t, s, kubeconfig) })
}

// TestRestartsInTakeoverMode runs it together with an adapter in takeover mode.
func TestRestartsInTakeoverMode(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t, 6*time.Minute)
	s := start(ctx, t, controlplane.Options{}, Takeover)
	kubeconfig, err := s.Grant(ctx, Restarts)
	if err != nil {
		t.Fatal(err)
	}
	r := newRestarts(ctx, t, s, kubeconfig, "shop")
	r.apply(ctx, t, configMap("app", "1"))
	awaitSkew()
	r.start(t, "restarts", quickOptions+`,"allWorkloads":true`)
	r.apply(ctx, t, workload("Deployment", "web", nil, map[string]any{"replicas": 2}, from("configMapRef", "app", false)))
	r.rolledOut(ctx, t, "web")
	r.recorded(ctx, t, "deployment/web", stateAnnotation)
	r.apply(ctx, t, configMap("app", "2"))
	r.restarted(ctx, t, "deployment/web", markAnnotation, "")
	r.rolledOut(ctx, t, "web")
	if sets := r.sets(ctx, t, "web"); len(sets) != 2 {
		t.Errorf("%d ReplicaSets exist, want 2", len(sets))
	}
}

// restartsOfAllKinds changes a Secret that workloads of all kinds use: each is restarted once, with an event that states the reason.
func restartsOfAllKinds(ctx context.Context, t *testing.T, r *restarts) {
	r.apply(ctx, t, configMap("app", "1"), secret("db", "1"))
	awaitSkew()
	r.start(t, "kinds", quickOptions+`,"allWorkloads":true,"kinds":[{"apiVersion":"apps.rollplan.dev/v1alpha1","kind":"PlannedDeployment"}]`)
	defer r.stop(t, "kinds")
	kinds := []string{"Deployment", "StatefulSet", "DaemonSet", "PlannedDeployment"}
	var objects []map[string]any
	for _, kind := range kinds {
		objects = append(objects, workload(kind, strings.ToLower(kind), nil, nil, from("configMapRef", "app", false), from("secretRef", "db", false)))
	}
	cron := map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "cron"}, "spec": map[string]any{
		"schedule": "0 0 1 1 *", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "registry.example/cron:1", "envFrom": []any{from("secretRef", "db", false)}}},
		}}}},
	}}
	r.apply(ctx, t, append(objects, cron)...)
	states := map[string]string{}
	for _, kind := range append(kinds, "CronJob") {
		name := strings.ToLower(kind)
		if kind == "CronJob" {
			name = "cron"
		}
		states[kind] = r.recorded(ctx, t, kind+"/"+name, stateAnnotation)
	}
	r.rolledOut(ctx, t, "deployment")

	r.apply(ctx, t, secret("db", "2"))
	for _, kind := range kinds {
		r.restarted(ctx, t, kind+"/"+strings.ToLower(kind), markAnnotation, "")
	}
	r.annotation(ctx, t, "CronJob/cron", ".metadata.annotations", stateAnnotation, states["CronJob"])
	r.rolledOut(ctx, t, "deployment")
	for _, kind := range kinds {
		await(ctx, t, "event of "+kind, func(ctx context.Context) error {
			events, err := r.Typed.CoreV1().Events(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",reason=ConfigurationChanged"})
			if err == nil && (len(events.Items) != 1 || events.Items[0].Message != "Restarted: PASSWORD of Secret "+r.namespace+"/db changed") {
				err = fmt.Errorf("events are %v", events.Items)
			}
			return err
		})
	}
	metrics := get(ctx, t, "http://"+r.metrics+"/metrics")
	for _, want := range []string{
		`rollplan_controller_restarts_total{kind="Deployment"} 1`, `rollplan_controller_restart_causes_total{configuration="Secret",type="changed"} 4`,
		`rollplan_controller_restart_configurations{configuration="Secret"} 1`, `rollplan_controller_syncs_total{outcome="synced"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// xingChecksum is the checksum of the xing controller for a configuration with one key.
func xingChecksum(key, json string) string {
	sum := sha256.Sum256([]byte(`{"` + key + `":` + json + `}`))
	return hex.EncodeToString(sum[:8])
}

// xingExample is the example in the README of the xing controller: its annotations and checksums, a restart after the grace
// period, a single restart for several changes within it, and no restart once the annotation has another value.
func xingExample(ctx context.Context, t *testing.T, r *restarts) {
	r.apply(ctx, t, configMap("config-one", "1"), secret("secret-two", "s"))
	awaitSkew()
	r.start(t, "xing", `"profile":"RESTART_PROFILE_XING","skew":"1s"`)
	defer r.stop(t, "xing")
	enabled := map[string]any{"com.xing.deployment-restart": "enabled"}
	sources := []any{from("configMapRef", "config-one", false), from("secretRef", "secret-two", false)}
	r.apply(ctx, t, workload("Deployment", "web", enabled, nil, sources...), workload("StatefulSet", "db", enabled, nil, sources...),
		workload("Deployment", "other", nil, nil, sources...))
	applied := func(value, password string) string {
		return fmt.Sprintf(`{"configmap/%s/config-one":%q,"secret/%[1]s/secret-two":%[3]q}`, r.namespace,
			xingChecksum("KEY", `"`+value+`"`), xingChecksum("PASSWORD", `"`+password+`"`))
	}
	for _, object := range []string{"deployment/web", "statefulset/db"} {
		if found := r.recorded(ctx, t, object, xingApplied); found != applied("1", "cw==") {
			t.Errorf("%s of %s is %s, want %s", xingApplied, object, found, applied("1", "cw=="))
		}
	}
	r.rolledOut(ctx, t, "web")

	// Two changes within the grace period of five seconds cause one restart.
	changed := time.Now()
	r.apply(ctx, t, configMap("config-one", "2"), secret("secret-two", "t"))
	marks := map[string]string{}
	for _, object := range []string{"deployment/web", "statefulset/db"} {
		marks[object] = r.restarted(ctx, t, object, xingMark, "")
		if at, err := time.Parse(time.RFC3339, marks[object]); err != nil || at.Sub(changed) < 4*time.Second {
			t.Errorf("%s was restarted at %s, and changed at %s: %v", object, marks[object], changed, err)
		}
		if found := r.recorded(ctx, t, object, xingApplied); found != applied("2", "dA==") {
			t.Errorf("%s of %s is %s, want %s", xingApplied, object, found, applied("2", "dA=="))
		}
	}
	r.rolledOut(ctx, t, "web")

	// The workload is not restarted once the annotation has another value. The StatefulSet shows that the change was handled.
	r.run(ctx, t, "annotate", "--overwrite", "deployment/web", "com.xing.deployment-restart=disabled")
	r.apply(ctx, t, configMap("config-one", "3"))
	r.restarted(ctx, t, "statefulset/db", xingMark, marks["statefulset/db"])
	if mark := r.restarted(ctx, t, "deployment/web", xingMark, ""); mark != marks["deployment/web"] {
		t.Errorf("the Deployment was restarted at %s although it is disabled", mark)
	}
	if sets := r.sets(ctx, t, "web"); len(sets) != 2 {
		t.Errorf("%d ReplicaSets exist, want 2", len(sets))
	}
	if sets := r.sets(ctx, t, "other"); len(sets) != 1 {
		t.Errorf("a Deployment without the annotation has %d ReplicaSets", len(sets))
	}
	await(ctx, t, "metrics of the xing controller", func(ctx context.Context) error {
		metrics := get(ctx, t, "http://"+r.metrics+"/metrics")
		for _, want := range []string{
			"resource_versions_total ", "configs_total ", "deployments_total 1", "deployment_annotation_updates_total ", "deployment_restarts_total 3",
			"changes_processed_total ", "changes_waiting_total 0",
		} {
			if !strings.Contains(metrics, "\ndeployment_restart_controller_"+want) {
				return fmt.Errorf("metrics lack %s", want)
			}
		}
		return nil
	})
}

// killedChangesEnv is the number of changes of restartsSurviveKills, with three kills each; 34 for a full run.
const (
	killedChangesEnv = "ROLLPLAN_KILLED_CHANGES"
	killedChanges    = 4
)

// restartsSurviveKills makes the same changes twice: without interruption, and with the adapter or the service killed between
// steps. Both runs must end with the same restarts.
func restartsSurviveKills(ctx context.Context, t *testing.T, r *restarts) {
	options := `"quiet":"2s","maxWait":"5s","minInterval":"0.5s","skew":"1s","allWorkloads":true`
	killAdapter := func(name string) func() {
		return func() {
			r.Adapter(name).Kill()
			if err := r.RestartAdapter(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	killService := func(string) func() {
		return func() {
			r.Service().Kill()
			if err := r.StartService(); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := func(string) func() { return func() {} }
	changes := envNumber(t, killedChangesEnv, killedChanges)
	kills := []func(string) func(){killAdapter, killService}
	count := map[string]int{}
	applied := map[string]string{}
	for _, run := range []string{"uninterrupted", "killed"} {
		r.apply(ctx, t, configMap(run, "0"))
		awaitSkew()
		r.start(t, run, options, "--selector=run="+run)
		// Each restart leaves a ReplicaSet.
		object := workload("Deployment", run, nil, map[string]any{"revisionHistoryLimit": changes + 1}, from("configMapRef", run, false))
		object["metadata"].(map[string]any)["labels"] = map[string]any{"run": run}
		r.apply(ctx, t, object)
		name, mark := "deployment/"+run, ""
		r.recorded(ctx, t, name, stateAnnotation)
		r.rolledOut(ctx, t, run)
		for change := range changes {
			// After the change, while it waits, and after the restart.
			step := [3]func(){none(run), none(run), none(run)}
			if run == "killed" {
				for i := range step {
					step[i] = kills[(change+i)%len(kills)](run)
				}
			}
			r.apply(ctx, t, configMap(run, fmt.Sprint(change+1)))
			step[0]()
			await(ctx, t, "pending change", func(ctx context.Context) error {
				d, err := r.Typed.AppsV1().Deployments(r.namespace).Get(ctx, run, metav1.GetOptions{})
				if err == nil && !strings.Contains(d.Annotations[stateAnnotation], `"pending"`) && d.Spec.Template.Annotations[markAnnotation] == mark {
					err = fmt.Errorf("the state is %s", d.Annotations[stateAnnotation])
				}
				return err
			})
			step[1]()
			mark = r.restarted(ctx, t, name, markAnnotation, mark)
			step[2]()
			r.rolledOut(ctx, t, run)
		}
		// A restarted adapter has planned again when it records another workload.
		probe := workload("Deployment", run+"-last", nil, map[string]any{"replicas": 0}, from("configMapRef", run, false))
		probe["metadata"].(map[string]any)["labels"] = map[string]any{"run": run}
		r.apply(ctx, t, probe)
		r.recorded(ctx, t, "deployment/"+run+"-last", stateAnnotation)
		count[run] = len(r.sets(ctx, t, run)) - 1
		state := r.recorded(ctx, t, name, stateAnnotation)
		var parsed struct{ Applied map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(state), &parsed); err != nil {
			t.Fatal(err)
		}
		applied[run] = string(parsed.Applied["configmap/"+run])
		r.stop(t, run)
	}
	if count["killed"] != count["uninterrupted"] || count["killed"] != changes || applied["killed"] != applied["uninterrupted"] {
		t.Errorf("restarts are %v, applied is %v", count, applied)
	}
}

// maximumOfConcurrentRestarts restarts several Deployments for one change, with a maximum of two. With leader election, no more
// than two may be in progress, even if the leader is killed; with two adapters without leader election, no more than four.
func maximumOfConcurrentRestarts(ctx context.Context, t *testing.T, r *restarts) {
	const maximum, deployments = 2, 6
	options := quickOptions + fmt.Sprintf(`,"allWorkloads":true,"maxConcurrent":%d`, maximum)
	r.apply(ctx, t, configMap("app", "0"))
	awaitSkew()
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	elected := []string{"--leader-elect=true", "--leader-elect-lease-duration=6s", "--leader-elect-lease-name=rollplan-restarts-controller-restarts"}
	r.start(t, "elected-1", options, elected...)
	var objects []map[string]any
	for i := range deployments {
		// Each restart takes a while.
		objects = append(objects, workload("Deployment", name(i), nil, map[string]any{"replicas": 1, "minReadySeconds": 2}, from("configMapRef", "app", false)))
	}
	r.apply(ctx, t, objects...)
	for i := range deployments {
		r.recorded(ctx, t, "deployment/"+name(i), stateAnnotation)
		r.rolledOut(ctx, t, name(i))
	}
	recorded := record[appsv1.Deployment](ctx, t, r.System, "/registry/deployments/"+r.namespace+"/")
	marks := map[string]string{}
	change := func(value string, meanwhile func()) (mark, end int) {
		mark = recorded.mark()
		r.apply(ctx, t, configMap("app", value))
		meanwhile()
		for i := range deployments {
			marks[name(i)] = r.restarted(ctx, t, "deployment/"+name(i), markAnnotation, marks[name(i)])
		}
		for i := range deployments {
			r.rolledOut(ctx, t, name(i))
		}
		return mark, recorded.mark()
	}
	check := func(mark, end, limit int) {
		// The API server raises the generation for each annotation on a Deployment, so also when a pending change is recorded: a
		// restart is complete when its own generation is.
		type restart struct {
			mark       string
			generation int64
		}
		last := map[string]restart{}
		recorded.checkBetween(t, mark, end, fmt.Sprintf("at most %d restarts are in progress", limit), func(all map[string]*appsv1.Deployment) bool {
			underWay := 0
			for name, d := range all {
				if mark := d.Spec.Template.Annotations[markAnnotation]; last[name].mark != mark {
					last[name] = restart{mark, d.Generation}
				}
				s := d.Status
				isComplete := s.ObservedGeneration >= last[name].generation && s.UpdatedReplicas >= 1 && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= s.UpdatedReplicas
				if last[name].mark != "" && !isComplete {
					underWay++
				}
			}
			return underWay <= limit
		})
	}
	r.start(t, "elected-2", options, elected...)
	mark, end := change("1", func() {
		await(ctx, t, "the first restart", func(ctx context.Context) error {
			list, err := r.Typed.AppsV1().Deployments(r.namespace).List(ctx, metav1.ListOptions{})
			if err == nil && !slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return d.Spec.Template.Annotations[markAnnotation] != "" }) {
				err = fmt.Errorf("nothing is restarted")
			}
			return err
		})
		r.Adapter("elected-1").Kill()
		delete(r.adapters, "elected-1")
	})
	check(mark, end, maximum)
	r.stop(t, "elected-2")

	r.start(t, "alone-1", options)
	r.start(t, "alone-2", options)
	mark, end = change("2", func() {})
	check(mark, end, 2*maximum)
	for i := range deployments {
		if sets := r.sets(ctx, t, name(i)); len(sets) != 3 {
			t.Errorf("%s has %d ReplicaSets, want 3: two restarts", name(i), len(sets))
		}
	}
	r.stop(t, "alone-1")
	r.stop(t, "alone-2")
}

// reloaderSelectors has one row for each case of test/e2e/flags of stakater/Reloader about which namespaces and labels are
// watched. The other cases are rows of src/restart/tests/reloader.rs.
func reloaderSelectors(ctx context.Context, t *testing.T, s *System, kubeconfig string) {
	type row struct {
		file, name string
		// namespace is the namespace of the workload: "own" is that of the adapter.
		namespace string
		// isLabeled reports whether the ConfigMap has the label.
		isLabeled, restarts bool
	}
	for _, group := range []struct {
		name  string
		flags []string
		rows  []row
	}{
		{"ignored", []string{"--namespaces=", "--ignored-namespaces=rows-other"}, []row{
			{"flags/namespace_ignore_test.go", "ignored namespace", "other", false, false},
			{"flags/namespace_ignore_test.go", "watched (non-ignored) namespace", "own", false, true},
		}},
		{"labels", []string{"--namespaces=", "--namespace-selector=restarts=on"}, []row{
			{"flags/namespace_selector_test.go", "matching namespaces", "own", false, true},
			{"flags/namespace_selector_test.go", "non-matching namespaces", "other", false, false},
		}},
		{"resources", []string{"--configuration-selector=restarts=on"}, []row{
			{"flags/resource_selector_test.go", "labeled ConfigMap", "own", true, true},
			{"flags/resource_selector_test.go", "unlabeled ConfigMap", "own", false, false},
		}},
		{"own", []string{"--namespaces=rows-own"}, []row{
			{"flags/watch_globally_test.go", "Reloader's namespace when watchGlobally=false", "own", false, true},
			{"flags/watch_globally_test.go", "other namespaces when watchGlobally=false", "other", false, false},
		}},
		{"list", []string{"--namespaces=rows-own,rows-listed"}, []row{
			{"flags/watch_globally_test.go", "listed namespace", "listed", false, true},
			{"flags/watch_globally_test.go", "Reloader's auto-included release namespace", "own", false, true},
			{"flags/watch_globally_test.go", "unlisted namespace", "other", false, false},
		}},
		{"all", []string{"--namespaces="}, []row{
			{"flags/watch_globally_test.go", "any namespace when watchGlobally=true", "other", false, true},
		}},
	} {
		namespaces := map[string]*restarts{}
		for _, namespace := range []string{"own", "other", "listed"} {
			if _, err := s.Kubectl(ctx, "get", "namespace", "rows-"+namespace); err != nil {
				var labels []string
				if namespace == "own" {
					labels = []string{"restarts=on"}
				}
				newRestarts(ctx, t, s, kubeconfig, "rows-"+namespace, labels...)
			}
			namespaces[namespace] = &restarts{kubectl: kubectl{s, "rows-" + namespace}, kubeconfig: kubeconfig}
		}
		name := func(i int) string { return fmt.Sprintf("%s-%d", group.name, i) }
		config := func(i int, value string) map[string]any {
			object := configMap(name(i), value)
			if group.rows[i].isLabeled {
				object["metadata"].(map[string]any)["labels"] = map[string]any{"restarts": "on"}
			}
			return object
		}
		for i, row := range group.rows {
			annotations := map[string]any{"configmap.reloader.stakater.com/reload": name(i)}
			namespaces[row.namespace].apply(ctx, t, config(i, "1"))
			namespaces[row.namespace].apply(ctx, t, workload("Deployment", name(i), annotations, nil, from("configMapRef", name(i), false)))
			namespaces[row.namespace].rolledOut(ctx, t, name(i))
		}
		own := namespaces["own"]
		// If a rollout completes before the skew has passed since the creation, a restart may follow it.
		own.start(t, group.name, `"profile":"RESTART_PROFILE_RELOADER","skew":"0s"`, append([]string{fmt.Sprintf("--selector=app in (%s)", strings.Join(
			slices.Collect(func(yield func(string) bool) {
				for i := range group.rows {
					if !yield(name(i)) {
						return
					}
				}
			}), ","))}, group.flags...)...)
		before := map[int]int64{}
		generation := func(i int) int64 {
			d, err := s.Typed.AppsV1().Deployments("rows-"+group.rows[i].namespace).Get(ctx, name(i), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return d.Generation
		}
		for i, row := range group.rows {
			if row.restarts {
				namespaces[row.namespace].recorded(ctx, t, "deployment/"+name(i), stateAnnotation)
			}
			before[i] = generation(i)
		}
		for i, row := range group.rows { // those that must restart are changed last
			if !row.restarts {
				namespaces[row.namespace].apply(ctx, t, config(i, "2"))
			}
		}
		for i, row := range group.rows {
			if !row.restarts {
				continue
			}
			namespaces[row.namespace].apply(ctx, t, config(i, "2"))
			await(ctx, t, row.file+": "+row.name, func(context.Context) error {
				if generation(i) == before[i] {
					return fmt.Errorf("not restarted")
				}
				return nil
			})
		}
		for i, row := range group.rows {
			if generation(i) != before[i] && !row.restarts {
				t.Errorf("%s: %s: restarted", row.file, row.name)
			}
		}
		own.stop(t, group.name)
	}
}

// podsOf returns the pods of a namespace by the name of their workload.
func podsOf(pods []corev1.Pod) map[string][]corev1.Pod {
	found := map[string][]corev1.Pod{}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			found[pod.Labels["app"]] = append(found[pod.Labels["app"]], pod)
		}
	}
	return found
}

// sortedKeys returns the keys of a map in order, so that a seed always gives the same run.
func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
