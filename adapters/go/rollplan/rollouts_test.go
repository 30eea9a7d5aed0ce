package rollplan

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

func TestSnapshotIncludesOwnedAndAdoptableReplicaSets(t *testing.T) {
	other := set("other", 1, false, "web")
	other.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other", Controller: new(true)}})
	f := newFixture(t, web(), set("web-1", 3, false, "web"), set("orphan", 2, true, "web"), set("unselected", 1, true, "api"), other)
	request, _ := f.sync(false)
	if got := sizes(request); got != "orphan=2 web-1=3" {
		t.Errorf("ReplicaSets are %s", got)
	}
	snapshot := request.GetSnapshot()
	deployment := objects(request, Deployment)[0]
	if size, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); size != 3 {
		t.Errorf("the Deployment is %v", deployment)
	}
	if future, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "template", "spec", "futureField"); future != 2 {
		t.Errorf("the Deployment lacks a field: %v", deployment)
	}
	if target := snapshot.GetTarget(); target.GetKind() != "Deployment" || target.GetApiVersion() != "apps/v1" || target.GetName() != "web" || target.GetNamespace() != "shop" {
		t.Errorf("the target is %v", target)
	}
	if snapshot.GetPodsComplete() || !snapshot.GetReplicaSetsComplete() || snapshot.GetNow() == nil {
		t.Errorf("the snapshot is %v", snapshot)
	}
}

func TestUnchangedObjectsNeedNoPlan(t *testing.T) {
	status := step(rollplanv1.Verb_VERB_PATCH, "web", "application/merge-patch+json", `{"status":{"observedGeneration":1}}`)
	status.Call.Kind, status.Call.Path = "Deployment", "/apis/apps/v1/namespaces/shop/deployments/web"
	status.Action = &rollplanv1.Step_UpdateDeploymentStatus{UpdateDeploymentStatus: &rollplanv1.UpdateDeploymentStatus{}}
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, web(), set("web-1", 3, false, "web"))
		timer := time.Duration(0)
		sync := func(what string, plans int) {
			t.Helper()
			before := len(f.planner.requests)
			result, err := f.Sync(t.Context(), key)
			if got := len(f.planner.requests) - before; err != nil || got != plans || result.Unchanged != (plans == 0) || plans == 0 && result.RequeueAfter != timer {
				t.Errorf("%s: %d plans, want %d; %v, %v", what, got, plans, result, err)
			}
		}
		f.planner.plans = [][]*rollplanv1.Step{{status}}
		sync("the first plan publishes the status", 1)
		// A plan may publish only the beginning of a rollout, and leave the other writes of the Deployment to the next one.
		sync("before the cache shows it", 1)
		sync("after a plan without calls", 0)
		f.syncCache()
		sync("after the cache shows it", 0)

		f.planner.plans = [][]*rollplanv1.Step{{scale("web-1", 2)}}
		if err := f.store.Patch(t.Context(), web(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))); err != nil {
			t.Fatal(err)
		}
		f.syncCache()
		sync("another client's change", 1)
		sync("after the write", 1)
		f.syncCache()
		sync("after the cache shows it", 0)

		f.states[key].planned = nil
		f.planner.requeueAfter, timer = time.Hour, time.Hour
		sync("a plan with a timer", 1)
		sync("before the timer ends", 0)
		time.Sleep(time.Hour)
		sync("after the timer has ended", 1)
	})
}

func TestSnapshotOfRecreateIncludesPods(t *testing.T) {
	owner := web()
	if err := unstructured.SetNestedField(owner.Object, "Recreate", "spec", "strategy", "type"); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, owner, set("web-1", 1, false, "web"), pod())
	request, _ := f.sync(false)
	if pods := objects(request, Pod); len(pods) != 1 || !request.GetSnapshot().GetPodsComplete() {
		t.Errorf("pods are %v", pods)
	}
}

func TestForecastHasPodsAndOptions(t *testing.T) {
	f := newFixture(t, web(), set("web-1", 1, false, "web"), pod())
	f.Options = &rollplanv1.PlanOptions{TerminatingReplicas: new(false)}
	change := &rollplanv1.DeploymentChange{Change: &rollplanv1.DeploymentChange_Replicas{Replicas: 5}}
	for _, given := range []*rollplanv1.ForecastRolloutRequest{
		nil, {Changes: []*rollplanv1.DeploymentChange{change}, Samples: 10, Options: &rollplanv1.PlanOptions{Horizon: rollplanv1.Horizon_HORIZON_SETTLED}},
	} {
		response, err := f.Forecast(t.Context(), key, given)
		if err != nil || response.GetEffect() != rollplanv1.ChangeEffect_CHANGE_EFFECT_SCALE_ONLY {
			t.Fatalf("the forecast is %v, %v", response, err)
		}
		request := f.planner.forecasts[len(f.planner.forecasts)-1]
		snapshot := request.GetSnapshot()
		if len(snapshot.GetObjects()) != 3 || !snapshot.GetPodsComplete() || !snapshot.GetReplicaSetsComplete() {
			t.Errorf("the snapshot is %v", snapshot)
		}
		options := request.GetOptions()
		if len(request.GetChanges()) != len(given.GetChanges()) || request.GetSamples() != given.GetSamples() ||
			options.TerminatingReplicas == nil || options.GetHorizon() != given.GetOptions().GetHorizon() {
			t.Errorf("the request is %v", request)
		}
		// The native Deployment controller may carry out what is forecast.
		f.Reader.(snapshotReader)[Deployment][0].nativeStatusWrite = time.Now()
	}
	if _, err := f.Sync(t.Context(), key); !errors.Is(err, ErrNativeController) {
		t.Errorf("the native controller is not detected: %v", err)
	}
	if f.Options.GetHorizon() != rollplanv1.Horizon_HORIZON_UNSPECIFIED {
		t.Errorf("the options have changed: %v", f.Options)
	}
	if response, err := f.Forecast(t.Context(), types.NamespacedName{Namespace: "shop", Name: "missing"}, nil); response != nil || err != nil {
		t.Errorf("the forecast of a missing Deployment is %v, %v", response, err)
	}
}

func TestCanaryIsPlannedAndApplied(t *testing.T) {
	f := newFixture(t, web(), set("web-1", 1, false, "web"), pod())
	reader := f.Reader.(snapshotReader)
	reader[Deployment][0].nativeStatusWrite = time.Now() // it is the native Deployment controller that does the work
	start := scale("web", 5)
	start.Call.Kind, start.Call.Path, start.Call.Query = "Deployment", "/apis/apps/v1/namespaces/shop/deployments/web", "fieldManager=rollplan-canary"
	start.Call.BodyJson = `[{"op":"add","path":"/metadata/annotations","value":{"rollplan.dev/canary":"{}"}}]`
	f.planner.plans = [][]*rollplanv1.Step{{start}}
	given := &rollplanv1.PlanCanaryRequest{
		Policy:   &rollplanv1.CanaryPolicy{Pods: "2"},
		Command:  &rollplanv1.CanaryCommand{Action: rollplanv1.CanaryAction_CANARY_ACTION_PROMOTE},
		Verdicts: []*rollplanv1.CanaryVerdict{{Name: "smoke"}},
	}
	response, err := f.PlanCanary(t.Context(), key, given)
	if err != nil || response.GetReport().GetPhase() != rollplanv1.CanaryPhase_CANARY_PHASE_HOLD {
		t.Fatalf("the plan is %v, %v", response, err)
	}
	request := f.planner.canaries[0]
	snapshot := request.GetSnapshot()
	if len(snapshot.GetObjects()) != 3 || !snapshot.GetPodsComplete() || !snapshot.GetReplicaSetsComplete() {
		t.Errorf("the snapshot is %v", snapshot)
	}
	if request.GetPolicy().GetPods() != "2" || request.GetCommand().GetAction() != given.Command.Action || len(request.GetVerdicts()) != 1 {
		t.Errorf("the request is %v", request)
	}
	if given.Snapshot != nil {
		t.Error("the given request has changed")
	}
	if err := f.Apply(t.Context(), key, response.GetSteps()); err != nil {
		t.Fatal(err)
	}
	// The guard recognizes the field manager, which must not be that of the client.
	if want := []string{"rollplan-canary"}; !slices.Equal(f.managers, want) {
		t.Errorf("field managers are %v, want %v", f.managers, want)
	}
	// The cache does not show the patch yet.
	if _, err := f.PlanCanary(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	if owner := f.planner.canaries[1].GetSnapshot().GetObjects()[0]; !strings.Contains(owner, "rollplan.dev/canary") {
		t.Errorf("the own write is not in the next request: %s", owner)
	}
	if response, err := f.PlanCanary(t.Context(), types.NamespacedName{Namespace: "shop", Name: "missing"}, nil); response != nil || err != nil {
		t.Errorf("the canary of a missing Deployment is %v, %v", response, err)
	}
}

func TestOwnWritesOverrideStaleCache(t *testing.T) {
	f := newFixture(t, web(), set("web-1", 3, false, "web"), set("web-0", 0, false, "web"))
	f.sync(false, create("web-2", 1), scale("web-1", 2), remove("web-0"))
	request, _ := f.sync(false)
	if got := sizes(request); got != "web-1=2 web-2=1" {
		t.Errorf("with a stale cache: %s", got)
	}
	// Writes of other clients take effect once the cache shows them.
	if err := f.store.Patch(t.Context(), set("web-2", 1, false, "web"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))); err != nil {
		t.Fatal(err)
	}
	f.syncCache()
	if request, _ = f.sync(false); sizes(request) != "web-1=2 web-2=7" {
		t.Errorf("with a current cache: %s", sizes(request))
	}
	if len(f.state(key).writes) > 0 {
		t.Errorf("writes that the cache shows are kept: %v", f.state(key).writes)
	}
}

func TestReplicaSetsOfOthersPrecedeTheFirstWriteOfACustomResource(t *testing.T) {
	owner := web()
	owner.SetAPIVersion("apps.rollplan.dev/v1alpha1")
	owner.SetKind("PlannedDeployment")
	owner.SetUID("planned-uid")
	owner.SetResourceVersion("")
	f := newFixture(t, set("web-1", 3, false, "web"), set("db-1", 3, false, "db"))
	if err := f.store.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	f.Kind = PlannedDeployment
	f.syncCache()
	// The service refuses it. The refusal must last, although nothing of the Deployment is in the cache.
	for range 2 {
		f.planner.plans = append(f.planner.plans, []*rollplanv1.Step{create("web-2", 1)})
		requests := len(f.planner.requests)
		if request, _ := f.sync(false); sizes(request) != "web-1=3" || len(f.planner.requests) != requests+2 || len(f.calls) > 0 {
			t.Fatalf("the plan is made from %q after %d requests, and makes the calls %v", sizes(request), len(f.planner.requests)-requests, f.calls)
		}
	}
	// A plan that writes although there are others needs no second list.
	f.planner.plans = append(f.planner.plans, []*rollplanv1.Step{create("web-2", 1)})
	f.sync(false, create("web-2", 1))
	lists := f.lists
	if f.sync(false, scale("web-2", 2)); f.lists != lists || len(f.calls) != 1 {
		t.Errorf("%d lists, calls %v", f.lists-lists, f.calls)
	}
}

func TestReplicaSetsAreVerifiedBeforeFirstWrite(t *testing.T) {
	owner := web()
	f := newFixture(t, owner, set("web-1", 2, false, "web"))
	// The previous leader has made writes that the watch has not delivered yet.
	for name, size := range map[string]int{"web-1": 4, "web-2": 1} {
		o := set(name, size, false, "web")
		o.SetResourceVersion("")
		if name == "web-2" {
			if err := f.store.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		} else if err := f.store.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))); err != nil {
			t.Fatal(err)
		}
	}
	// A plan that writes no ReplicaSet needs no verification.
	if request, _ := f.sync(false); sizes(request) != "web-1=2" {
		t.Fatalf("the cache shows %s", sizes(request))
	}
	f.planner.plans = append(f.planner.plans, []*rollplanv1.Step{create("web-3", 9)})
	if request, _ := f.sync(false); sizes(request) != "web-1=4 web-2=1" || len(f.planner.requests) != 3 || len(f.calls) > 0 {
		t.Errorf("the plan is made from %s after %d requests, and makes the calls %v", sizes(request), len(f.planner.requests), f.calls)
	}
	// The sizes from the API server are used until the cache shows them.
	if request, _ := f.sync(false, create("web-3", 1)); sizes(request) != "web-1=4 web-2=1" || len(f.planner.requests) != 4 {
		t.Errorf("the next plan is made from %s after %d requests", sizes(request), len(f.planner.requests))
	}
	// Successful writes of our own need no verification. After a failed call, the outcome is unknown.
	for _, test := range []struct {
		what  string
		after func()
		reads int
	}{
		{"successful writes", func() {}, 0},
		{"call without a response", func() {
			f.callErrors["patch web-1"] = errors.New("connection reset")
			f.sync(false, scale("web-1", 2))
			delete(f.callErrors, "patch web-1")
		}, 1},
		{"verification", func() {}, 0},
	} {
		test.after()
		before := f.lists
		if f.sync(false, scale("web-1", 4)); f.lists-before != test.reads {
			t.Errorf("after %s: %d reads, want %d", test.what, f.lists-before, test.reads)
		}
	}
}

func TestCreatedObjectIsForgottenAfterNotFound(t *testing.T) {
	f := newFixture(t, web())
	f.sync(false, create("web-1", 1))
	if err := f.store.Delete(t.Context(), set("web-1", 1, false, "web")); err != nil {
		t.Fatal(err)
	}
	f.sync(true, scale("web-1", 2))
	if request, _ := f.sync(false); sizes(request) != "" {
		t.Errorf("ReplicaSets are %s", sizes(request))
	}
}

func TestFailedCallsAreReported(t *testing.T) {
	for _, test := range []struct {
		what string
		err  error
		// rejected is whether Sync returns an error and the sync after it requests a backoff, too.
		rejected bool
		// body is part of the body of the reported answer. It is empty if there was none.
		body string
	}{
		{"conflict", statusError(409, metav1.StatusReasonConflict), false, `"reason":"Conflict"`},
		{"failed test operation of a JSON patch", statusError(422, metav1.StatusReasonInvalid), false, `"kind":"Status"`},
		{"no response", errors.New("connection refused"), false, ""},
		{"timeout", statusError(504, metav1.StatusReasonTimeout), false, `"reason":"Timeout"`},
		{"validation", statusError(422, metav1.StatusReasonInvalid, metav1.CauseTypeFieldValueInvalid), true, `"reason":"FieldValueInvalid"`},
		{"quota", statusError(403, metav1.StatusReasonForbidden), true, `"message":"no"`},
		{"webhook", statusError(500, metav1.StatusReasonInternalError), true, `"code":500`},
		{"HTML of a proxy", htmlError("<html>"), false, "<html>"},
	} {
		t.Run(test.what, func(t *testing.T) {
			f := newFixture(t, web(), set("web-1", 3, false, "web"))
			f.callErrors["patch web-1"] = test.err
			_, result := f.sync(test.rejected, scale("web-1", 2), create("web-2", 1))
			if strings.Join(f.calls, ", ") != "patch web-1" || !result.Retry || len(f.events.Events) > 0 {
				t.Errorf("calls are %v, result is %v, %d events", f.calls, result, len(f.events.Events))
			}
			delete(f.callErrors, "patch web-1")
			request, result := f.sync(false)
			answers := request.GetSnapshot().GetAnswers()
			if len(answers) != 1 || result.Retry != test.rejected {
				t.Fatalf("reported answers are %v, result is %v", answers, result)
			}
			response, _ := statusOf(test.err)
			got := answers[0]
			if got.GetCall().GetName() != "web-1" || got.GetHttpCode() != response.Code || !strings.Contains(string(got.GetBody()), test.body) {
				t.Errorf("reported answer is %v", got)
			}
			// Answers are reported once. The result without Retry then allows the caller to reset the backoff.
			if request, result = f.sync(false); len(request.GetSnapshot().GetAnswers()) > 0 || result.Retry {
				t.Errorf("reported again: %v, result is %v", request.GetSnapshot().GetAnswers(), result)
			}
		})
	}
}

func TestTerminatingNamespaceIsNeitherErrorNorRetried(t *testing.T) {
	f := newFixture(t, web(), set("web-1", 3, false, "web"))
	f.callErrors["create web-2"] = statusError(403, metav1.StatusReasonForbidden, corev1.NamespaceTerminatingCause)
	if _, result := f.sync(false, create("web-2", 1)); result.Retry || len(f.calls) != 1 {
		t.Errorf("result is %v, calls are %v", result, f.calls)
	}
	if request, _ := f.sync(false); len(request.GetSnapshot().GetAnswers()) > 0 {
		t.Errorf("reported answers are %v", request.GetSnapshot().GetAnswers())
	}
}

func TestOnlyDoubtsCauseAnotherList(t *testing.T) {
	for _, test := range []struct {
		what  string
		err   error
		lists int
	}{
		{"quota", statusError(403, metav1.StatusReasonForbidden), 1},
		{"validation", statusError(422, metav1.StatusReasonInvalid, metav1.CauseTypeFieldValueInvalid), 1},
		{"conflict", statusError(409, metav1.StatusReasonConflict), 2},
		{"name in use", statusError(409, metav1.StatusReasonAlreadyExists), 2},
		{"object is gone", statusError(404, metav1.StatusReasonNotFound), 2},
		{"no response", errors.New("connection refused"), 2},
		{"HTML of a proxy", htmlError("<html>"), 2},
	} {
		t.Run(test.what, func(t *testing.T) {
			f := newFixture(t, web(), set("web-1", 3, false, "web"))
			f.lists = 0
			f.callErrors["patch web-1"] = test.err
			for range 2 {
				f.planner.plans = append(f.planner.plans, []*rollplanv1.Step{scale("web-1", 2)})
				_, _ = f.Sync(t.Context(), key) // the errors are tested above
			}
			if f.lists != test.lists {
				t.Errorf("%d lists, want %d", f.lists, test.lists)
			}
		})
	}
}

func TestForgottenStateIsNotUsed(t *testing.T) {
	r := &Rollouts{}
	first := r.lock(key)
	locked := make(chan *state)
	go func() { locked <- r.lock(key) }() // waits for the mutex
	r.forget(key, first)
	first.mu.Unlock()
	if second := <-locked; second == first || second.forgotten || second != r.state(key) {
		t.Error("a waiting caller has got the forgotten state")
	}
}

func TestAlreadyExistsReportsExistingObject(t *testing.T) {
	f := newFixture(t, web(), set("web-2", 5, true, "api"))
	step := create("web-2", 1)
	step.ReadOnConflict = &rollplanv1.ApiCall{Verb: rollplanv1.Verb_VERB_GET, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: step.Call.Namespace, Name: "web-2",
		Path: step.Call.Path + "/web-2"}
	f.sync(true, step)
	request, _ := f.sync(false)
	answers := request.GetSnapshot().GetAnswers()
	if len(answers) != 1 || !strings.Contains(string(answers[0].GetBody()), "AlreadyExists") {
		t.Fatalf("reported answers are %v", answers)
	}
	var existing appsv1.ReplicaSet
	if err := json.Unmarshal(answers[0].GetExistingJson(), &existing); err != nil || *existing.Spec.Replicas != 5 {
		t.Errorf("existing ReplicaSet is %v (%v)", existing, err)
	}
}

func TestOnFailure(t *testing.T) {
	for _, test := range []struct {
		what      string
		onFailure rollplanv1.OnFailure
		done      []int32
		err       error
		calls     int
		retry     bool
	}{
		{what: "stop", onFailure: rollplanv1.OnFailure_ON_FAILURE_STOP, err: statusError(404, metav1.StatusReasonNotFound), calls: 1, retry: true},
		{what: "any failure is ignored", onFailure: rollplanv1.OnFailure_ON_FAILURE_CONTINUE, err: statusError(409, metav1.StatusReasonConflict), calls: 2, retry: true},
		{what: "a code that counts as done", onFailure: rollplanv1.OnFailure_ON_FAILURE_DONE_IF, done: []int32{404, 422}, err: statusError(404, metav1.StatusReasonNotFound), calls: 2},
		{what: "another code", onFailure: rollplanv1.OnFailure_ON_FAILURE_DONE_IF, done: []int32{422}, err: statusError(409, metav1.StatusReasonConflict), calls: 1, retry: true},
	} {
		t.Run(test.what, func(t *testing.T) {
			f := newFixture(t, web(), set("web-1", 3, false, "web"))
			first := scale("web-1", 2)
			first.OnFailure, first.DoneHttpCodes = test.onFailure, test.done
			f.callErrors["patch web-1"] = test.err
			rejected := test.onFailure == rollplanv1.OnFailure_ON_FAILURE_STOP
			_, result := f.sync(rejected, first, create("web-2", 1))
			if len(f.calls) != test.calls || result.Retry != test.retry {
				t.Errorf("calls are %v, result is %v", f.calls, result)
			}
		})
	}
}

func TestEventsAreRecorded(t *testing.T) {
	f := newFixture(t, web())
	f.sync(false, create("web-1", 1), &rollplanv1.Step{Events: []*rollplanv1.Event{{Type: "Warning", Reason: "SomeReason", Message: "some message"}}})
	for _, want := range []string{"Normal ScalingReplicaSet web-1", "Warning SomeReason some message"} {
		if got := <-f.events.Events; got != want {
			t.Errorf("event is %q, want %q", got, want)
		}
	}
}

func TestNativeControllerDetection(t *testing.T) {
	object := func(o *unstructured.Unstructured) *Object {
		return must(ParseObject(must(o.MarshalJSON()), Deployment))
	}
	wrote := func(at string) *Object {
		owner := web()
		owner.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Subresource: "status", Time: new(metav1.Time{Time: must(time.Parse(time.RFC3339, at))})}})
		return object(owner)
	}
	detector, now := nativeDetector{}, time.Now()
	for _, test := range []struct {
		owner    *Object
		at       time.Duration
		detected bool
	}{
		{wrote("2026-01-01T00:00:00Z"), 0, false}, // before the first observation
		{wrote("2026-01-01T00:00:00Z"), time.Second, false},
		{wrote("2026-01-01T00:00:01Z"), 2 * time.Second, true},
		{object(web()), 3 * time.Second, true}, // our own write now owns all fields
		{wrote("2026-01-01T00:00:01Z"), 2*time.Second + nativeQuietPeriod, false},
	} {
		if err := detector.check(test.owner, now.Add(test.at)); errors.Is(err, ErrNativeController) != test.detected {
			t.Errorf("after %s: %v", test.at, err)
		}
	}
}

func TestSyncForgetsDeletedDeployment(t *testing.T) {
	f := newFixture(t)
	if result, err := f.Sync(t.Context(), key); err != nil || result.Response != nil || len(f.planner.requests) > 0 {
		t.Errorf("result is %v, error is %v", result, err)
	}
	if len(f.states) > 0 {
		t.Errorf("state is kept: %v", f.states)
	}
}

func TestStatusIntervalDelaysOnlyProgress(t *testing.T) {
	const interval = time.Second
	status := &rollplanv1.Step{Action: &rollplanv1.Step_UpdateDeploymentStatus{UpdateDeploymentStatus: &rollplanv1.UpdateDeploymentStatus{}}}
	progress := []*rollplanv1.Step{status}
	now := time.Now()
	s := newState()
	for _, test := range []struct {
		what     string
		at       time.Duration
		phase    rollplanv1.Phase
		steps    []*rollplanv1.Step
		rejected bool
		delay    time.Duration
	}{
		{"progress", 0, rollplanv1.Phase_PHASE_PROGRESSING, progress, false, interval},
		{"more progress", interval / 4, rollplanv1.Phase_PHASE_PROGRESSING, progress, false, interval * 3 / 4},
		{"the interval has elapsed", interval, rollplanv1.Phase_PHASE_PROGRESSING, progress, false, 0},
		{"progress after that write", interval, rollplanv1.Phase_PHASE_PROGRESSING, progress, false, interval},
		{"another write", interval * 3 / 2, rollplanv1.Phase_PHASE_PROGRESSING, []*rollplanv1.Step{scale("web-1", 2), status}, false, 0},
		{"progress after another write", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, progress, false, interval},
		{"completion", interval * 2, rollplanv1.Phase_PHASE_COMPLETE, progress, false, 0},
		{"stall", interval * 2, rollplanv1.Phase_PHASE_STALLED, progress, false, 0},
		{"rejected call", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, progress, true, 0},
		{"no steps", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, nil, false, 0},
		{"status with an event", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, []*rollplanv1.Step{{
			Action: status.Action, Events: []*rollplanv1.Event{{Reason: "SomeReason"}}}}, false, 0},
	} {
		s.rejected = test.rejected
		plan := &rollplanv1.PlanRolloutResponse{Steps: test.steps, Report: &rollplanv1.RolloutReport{Phase: test.phase}}
		if delay := s.statusDelay(plan, interval, now.Add(test.at)); delay != test.delay {
			t.Errorf("%s is delayed by %s, want %s", test.what, delay, test.delay)
		}
	}
}

func TestReportsAreRequestedForTheStatusInterval(t *testing.T) {
	terminating := false
	for _, test := range []struct {
		interval time.Duration
		options  *rollplanv1.PlanOptions
		report   bool
	}{
		{0, nil, false},
		{0, &rollplanv1.PlanOptions{Report: true}, true},
		{time.Second, nil, true},
		{time.Second, &rollplanv1.PlanOptions{TerminatingReplicas: &terminating}, true},
	} {
		r := Rollouts{StatusInterval: test.interval, Options: test.options}
		got := r.syncOptions(newState())
		if got.GetReport() != test.report || got.GetTerminatingReplicas() != test.options.GetTerminatingReplicas() {
			t.Errorf("options %v and interval %s become %v", test.options, test.interval, got)
		}
	}
	unchanged := &rollplanv1.PlanOptions{}
	r := Rollouts{StatusInterval: time.Second, Options: unchanged}
	if r.syncOptions(newState()); unchanged.GetReport() {
		t.Error("the caller's options are changed")
	}
}

// statusPlanner returns the given reports one after the other, and records the previous verdicts in the requests.
type statusPlanner struct {
	rollplanv1.RolloutPlannerClient
	reports  []*rollplanv1.RolloutReport
	previous []*rollplanv1.Verdict
}

func (p *statusPlanner) ComputeStatus(_ context.Context, request *rollplanv1.ComputeStatusRequest, _ ...grpc.CallOption) (*rollplanv1.ComputeStatusResponse, error) {
	p.previous = append(p.previous, request.GetPreviousVerdict())
	report := p.reports[0]
	p.reports = p.reports[1:]
	return &rollplanv1.ComputeStatusResponse{Report: report}, nil
}

func TestWaitEndsWithTheVerdict(t *testing.T) {
	report := func(phase rollplanv1.Phase, outlook rollplanv1.Outlook, certain bool) *rollplanv1.RolloutReport {
		return &rollplanv1.RolloutReport{Phase: phase, Verdict: &rollplanv1.Verdict{Outlook: outlook, Certain: certain}}
	}
	progressing := rollplanv1.Phase_PHASE_PROGRESSING
	undecided := report(progressing, rollplanv1.Outlook_OUTLOOK_UNDECIDED, false)
	for _, test := range []struct {
		what string
		last *rollplanv1.RolloutReport
		err  error
	}{
		{"complete", report(rollplanv1.Phase_PHASE_COMPLETE, rollplanv1.Outlook_OUTLOOK_COMPLETE, true), nil},
		{"certainly stuck", report(progressing, rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE, true), ErrStalled},
		{"deadline passed", report(rollplanv1.Phase_PHASE_STALLED, rollplanv1.Outlook_OUTLOOK_UNDECIDED, false), ErrStalled},
		{"refused", report(rollplanv1.Phase_PHASE_REFUSED, rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE, true), ErrStalled},
	} {
		t.Run(test.what, func(t *testing.T) {
			f := newFixture(t, web())
			// Likely stuck, but not certainly, does not end the wait.
			likely := report(progressing, rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE, false)
			p := &statusPlanner{reports: []*rollplanv1.RolloutReport{undecided, likely, test.last}}
			f.Planner = p
			got, err := f.Wait(t.Context(), key, time.Millisecond)
			if got != test.last || !errors.Is(err, test.err) {
				t.Errorf("report is %v, error is %v", got, err)
			}
			if want := []*rollplanv1.Verdict{nil, undecided.Verdict, likely.Verdict}; !slices.Equal(p.previous, want) {
				t.Errorf("previous verdicts are %v, want %v", p.previous, want)
			}
		})
	}
}
