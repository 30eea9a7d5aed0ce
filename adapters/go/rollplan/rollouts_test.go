package rollplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// planner returns the given plans one after the other, then empty ones, and records the requests.
type planner struct {
	rollplanv1.RolloutPlannerClient
	requests []*rollplanv1.PlanRolloutRequest
	plans    [][]*rollplanv1.Step
}

func (p *planner) PlanRollout(_ context.Context, request *rollplanv1.PlanRolloutRequest, _ ...grpc.CallOption) (*rollplanv1.PlanRolloutResponse, error) {
	p.requests = append(p.requests, request)
	if len(p.plans) == 0 {
		return &rollplanv1.PlanRolloutResponse{}, nil
	}
	response := &rollplanv1.PlanRolloutResponse{Steps: p.plans[0]}
	p.plans = p.plans[1:]
	return response, nil
}

// fixture is a fake API server, a cache of it that only changes with syncCache, and Rollouts that use the two.
type fixture struct {
	*Rollouts
	t       *testing.T
	planner *planner
	server  client.WithWatch
	events  *record.FakeRecorder
	// callErrors maps a call, for example "patch web-1", to the error that it returns.
	callErrors map[string]error
	calls      []string
	// lists counts the list requests to the server.
	lists int
}

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, planner: &planner{}, events: record.NewFakeRecorder(100), callErrors: map[string]error{}}
	called := func(verb string, object client.Object) error {
		call := verb + " " + object.GetName()
		f.calls = append(f.calls, call)
		return f.callErrors[call]
	}
	f.server = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := called("create", object); err != nil {
				return err
			}
			object.SetUID(types.UID("uid-of-" + object.GetName()))
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := called("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := called("delete", object); err != nil {
				return err
			}
			return c.Delete(ctx, object)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			f.lists++
			return c.List(ctx, list, options...)
		},
	}).Build()
	f.Rollouts = &Rollouts{Kind: Deployment, Planner: f.planner, APIReader: f.server, Writer: f.server, Recorder: f.events}
	f.syncCache()
	return f
}

// syncCache updates the cache to the state of the server.
func (f *fixture) syncCache() {
	f.t.Helper()
	var objects []client.Object
	for _, kind := range []schema.GroupVersionKind{Deployment, ReplicaSet, corev1.SchemeGroupVersion.WithKind("Pod")} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := f.server.List(f.t.Context(), list); err != nil {
			f.t.Fatal(err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	pods := runtime.NewScheme() // the fake client drops unknown fields of all types in its scheme
	if err := corev1.AddToScheme(pods); err != nil {
		f.t.Fatal(err)
	}
	f.Reader = fake.NewClientBuilder().WithScheme(pods).WithObjects(objects...).Build()
}

// sync calls Sync once with a plan of these steps, and returns the last request.
func (f *fixture) sync(wantErr bool, steps ...*rollplanv1.Step) (*rollplanv1.PlanRolloutRequest, Result) {
	f.t.Helper()
	f.planner.plans = append(f.planner.plans, steps)
	f.calls = nil
	result, err := f.Sync(f.t.Context(), key)
	if err != nil != wantErr {
		f.t.Fatalf("sync: %v", err)
	}
	return f.planner.requests[len(f.planner.requests)-1], result
}

// sizes lists the ReplicaSets of a request with their sizes.
func sizes(request *rollplanv1.PlanRolloutRequest) string {
	var text []string
	for _, set := range request.GetSnapshot().GetReplicaSets() {
		text = append(text, fmt.Sprintf("%s=%d", set.GetMetadata().GetName(), set.GetSpec().GetReplicas()))
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

// web returns a Deployment with fields that no typed client knows.
func web() *unstructured.Unstructured {
	return parse(`{"apiVersion":"apps/v1","kind":"Deployment",
		"metadata":{"name":"web","namespace":"shop","uid":"web-uid","resourceVersion":"10","generation":1},
		"spec":{"replicas":3,"futureField":{"a":1},"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}],"futureField":2}}}}`)
}

// set returns a ReplicaSet that web controls, or an orphan.
func set(name string, size int, orphan bool, labels string) *unstructured.Unstructured {
	owners := `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"web-uid","controller":true}]`
	if orphan {
		owners = "[]"
	}
	return parse(fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"ReplicaSet",
		"metadata":{"name":%q,"namespace":"shop","uid":"uid-of-%[1]s","resourceVersion":"20","labels":{"app":%q},"ownerReferences":%s},
		"spec":{"replicas":%d,"selector":{"matchLabels":{"app":%[2]q}}}}`, name, labels, owners, size))
}

func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return o
}

func create(name string, size int) *rollplanv1.Step {
	body, err := set(name, size, false, "web").MarshalJSON()
	if err != nil {
		panic(err)
	}
	body = []byte(strings.Replace(string(body), `"resourceVersion":"20",`, "", 1))
	return step(rollplanv1.Verb_VERB_CREATE, name, "application/json", string(body))
}

func scale(name string, size int) *rollplanv1.Step {
	return step(rollplanv1.Verb_VERB_PATCH, name, "application/json-patch+json",
		fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":"uid-of-%s"},{"op":"add","path":"/spec/replicas","value":%d}]`, name, size))
}

func remove(name string) *rollplanv1.Step {
	return step(rollplanv1.Verb_VERB_DELETE, name, "application/json", `{"preconditions":{"uid":"uid-of-`+name+`"}}`)
}

func step(verb rollplanv1.Verb, name, contentType, body string) *rollplanv1.Step {
	return &rollplanv1.Step{
		Summary: verb.String() + " " + name,
		Call: &rollplanv1.ApiCall{
			Verb: verb, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: name, ContentType: contentType, BodyJson: body,
		},
		Events: []*rollplanv1.Event{{Type: "Normal", Reason: "ScalingReplicaSet", Message: name}},
	}
}

func statusError(code int32, reason metav1.StatusReason, causes ...metav1.CauseType) error {
	details := &metav1.StatusDetails{}
	for _, cause := range causes {
		details.Causes = append(details.Causes, metav1.StatusCause{Type: cause})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no", Details: details}}
}

func TestSnapshotIncludesOwnedAndAdoptableReplicaSets(t *testing.T) {
	other := set("other", 1, false, "web")
	other.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other", Controller: new(true)}})
	f := newFixture(t, web(), set("web-1", 3, false, "web"), set("orphan", 2, true, "web"), set("unselected", 1, true, "api"), other)
	request, _ := f.sync(false)
	if got := sizes(request); got != "orphan=2 web-1=3" {
		t.Errorf("ReplicaSets are %s", got)
	}
	deployment := request.GetSnapshot().GetDeployment()
	if deployment.GetSpec().GetReplicas() != 3 || deployment.GetSpec().GetTemplate().AsMap()["spec"].(map[string]any)["futureField"] != 2.0 {
		t.Errorf("the Deployment is %v", deployment)
	}
	if request.GetSnapshot().GetPodsComplete() || request.GetSnapshot().GetNow() == nil {
		t.Errorf("the snapshot is %v", request.GetSnapshot())
	}
	// Unchanged objects are not converted again.
	if again, _ := f.sync(false); again.GetSnapshot().GetDeployment() != deployment {
		t.Error("the Deployment was converted twice")
	}
}

func TestSnapshotOfRecreateIncludesPods(t *testing.T) {
	owner := web()
	if err := unstructured.SetNestedField(owner.Object, "Recreate", "spec", "strategy", "type"); err != nil {
		t.Fatal(err)
	}
	pod := parse(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"pod","resourceVersion":"30",
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"uid-of-web-1","controller":true}]},"status":{"phase":"Running"}}`)
	f := newFixture(t, owner, set("web-1", 1, false, "web"), pod)
	request, _ := f.sync(false)
	if pods := request.GetSnapshot().GetPods(); len(pods) != 1 || pods[0].GetStatus().GetPhase() != "Running" || !request.GetSnapshot().GetPodsComplete() {
		t.Errorf("pods are %v", pods)
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
	if err := f.server.Patch(t.Context(), set("web-2", 1, false, "web"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))); err != nil {
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

func TestReplicaSetsAreVerifiedBeforeFirstWrite(t *testing.T) {
	owner := web()
	f := newFixture(t, owner, set("web-1", 2, false, "web"))
	// The previous leader has made writes that the watch has not delivered yet.
	for name, size := range map[string]int{"web-1": 4, "web-2": 1} {
		o := set(name, size, false, "web")
		o.SetResourceVersion("")
		if name == "web-2" {
			if err := f.server.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		} else if err := f.server.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))); err != nil {
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
	if err := f.server.Delete(t.Context(), set("web-1", 1, false, "web")); err != nil {
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
		{"HTML of a proxy", statusError(502, metav1.StatusReasonInternalError, metav1.CauseTypeUnexpectedServerResponse), true, ""},
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
			if got.GetCall().GetName() != "web-1" || got.GetHttpCode() != response.Code || !strings.Contains(string(got.GetBody()), test.body) || test.body == "" && len(got.GetBody()) > 0 {
				t.Errorf("reported answer is %v", got)
			}
			// Answers are reported once. The result without Retry then allows the caller to reset the backoff.
			if request, result = f.sync(false); len(request.GetSnapshot().GetAnswers()) > 0 || result.Retry {
				t.Errorf("reported again: %v, result is %v", request.GetSnapshot().GetAnswers(), result)
			}
		})
	}
}

func TestTerminatingNamespaceIsNoErrorAndNotRetried(t *testing.T) {
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
	step.ReadOnConflict = &rollplanv1.ApiCall{Verb: rollplanv1.Verb_VERB_GET, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: step.Call.Namespace, Name: "web-2"}
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
	wrote := func(at string) *unstructured.Unstructured {
		owner := web()
		owner.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Subresource: "status", Time: new(metav1.Time{Time: must(time.Parse(time.RFC3339, at))})}})
		return owner
	}
	detector, now := nativeDetector{}, time.Now()
	for _, test := range []struct {
		owner    *unstructured.Unstructured
		at       time.Duration
		detected bool
	}{
		{wrote("2026-01-01T00:00:00Z"), 0, false}, // before the first observation
		{wrote("2026-01-01T00:00:00Z"), time.Second, false},
		{wrote("2026-01-01T00:00:01Z"), 2 * time.Second, true},
		{web(), 3 * time.Second, true}, // our own write now owns all fields
		{wrote("2026-01-01T00:00:01Z"), 2*time.Second + nativeQuietPeriod, false},
	} {
		if err := detector.check(test.owner, now.Add(test.at)); errors.Is(err, ErrNativeController) != test.detected {
			t.Errorf("after %s: %v", test.at, err)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
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
		got := r.syncOptions()
		if got.GetReport() != test.report || got.GetTerminatingReplicas() != test.options.GetTerminatingReplicas() {
			t.Errorf("options %v and interval %s become %v", test.options, test.interval, got)
		}
	}
	unchanged := &rollplanv1.PlanOptions{}
	r := Rollouts{StatusInterval: time.Second, Options: unchanged}
	if r.syncOptions(); unchanged.GetReport() {
		t.Error("the caller's options are changed")
	}
}

// statusPlanner returns the given reports one after the other, and records the verdicts that come back.
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
