package rollplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
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

// planner answers each request with the next of some plans, and keeps the requests.
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

// world is an API server, a cache of it that shows what it showed when it last caught up, and rollouts on both.
type world struct {
	*Rollouts
	t       *testing.T
	planner *planner
	server  client.WithWatch
	events  *record.FakeRecorder
	// refuse answers calls in the server's place.
	refuse map[string]error
	calls  []string
	// lists are how often the server itself was read.
	lists int
}

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, planner: &planner{}, events: record.NewFakeRecorder(100), refuse: map[string]error{}}
	called := func(verb string, object client.Object) error {
		call := verb + " " + object.GetName()
		w.calls = append(w.calls, call)
		return w.refuse[call]
	}
	w.server = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
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
			w.lists++
			return c.List(ctx, list, options...)
		},
	}).Build()
	w.Rollouts = &Rollouts{Kind: Deployment, Planner: w.planner, Writer: w.server, Recorder: w.events}
	w.catchUp()
	return w
}

// catchUp has the cache show what the server has.
func (w *world) catchUp() {
	w.t.Helper()
	var objects []client.Object
	for _, kind := range []schema.GroupVersionKind{Deployment, ReplicaSet, corev1.SchemeGroupVersion.WithKind("Pod")} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.server.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	pods := runtime.NewScheme() // of what else is typed, the stand-in would drop unknown fields
	if err := corev1.AddToScheme(pods); err != nil {
		w.t.Fatal(err)
	}
	w.Reader = fake.NewClientBuilder().WithScheme(pods).WithObjects(objects...).Build()
}

// sync looks once, with these plans next, and returns the request.
func (w *world) sync(wantErr bool, steps ...*rollplanv1.Step) (*rollplanv1.PlanRolloutRequest, Result) {
	w.t.Helper()
	w.planner.plans = append(w.planner.plans, steps)
	w.calls = nil
	result, err := w.Sync(w.t.Context(), key)
	if err != nil != wantErr {
		w.t.Fatalf("sync: %v", err)
	}
	return w.planner.requests[len(w.planner.requests)-1], result
}

// sizes are the ReplicaSets of a request.
func sizes(request *rollplanv1.PlanRolloutRequest) string {
	var text []string
	for _, set := range request.GetSnapshot().GetReplicaSets() {
		text = append(text, fmt.Sprintf("%s=%d", set.GetMetadata().GetName(), set.GetSpec().GetReplicas()))
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

// web is a Deployment, with a field that no client knows.
func web() *unstructured.Unstructured {
	return parse(`{"apiVersion":"apps/v1","kind":"Deployment",
		"metadata":{"name":"web","namespace":"shop","uid":"web-uid","resourceVersion":"10","generation":1},
		"spec":{"replicas":3,"fieldOfTheFuture":{"a":1},"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}],"fieldOfTheFuture":2}}}}`)
}

// set is a ReplicaSet of it; one without an owner if orphan is set.
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

func refusal(code int32, reason metav1.StatusReason, causes ...metav1.CauseType) error {
	details := &metav1.StatusDetails{}
	for _, cause := range causes {
		details.Causes = append(details.Causes, metav1.StatusCause{Type: cause})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no", Details: details}}
}

func TestSnapshot(t *testing.T) {
	other := set("other", 1, false, "web")
	other.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other", Controller: new(true)}})
	w := newWorld(t, web(), set("web-1", 3, false, "web"), set("orphan", 2, true, "web"), set("stranger", 1, true, "api"), other)
	request, _ := w.sync(false)
	if got := sizes(request); got != "orphan=2 web-1=3" {
		t.Errorf("ReplicaSets are %s", got)
	}
	deployment := request.GetSnapshot().GetDeployment()
	if deployment.GetSpec().GetReplicas() != 3 || deployment.GetSpec().GetTemplate().AsMap()["spec"].(map[string]any)["fieldOfTheFuture"] != 2.0 {
		t.Errorf("the Deployment is %v", deployment)
	}
	if request.GetSnapshot().GetPodsComplete() || request.GetSnapshot().GetNow() == nil {
		t.Errorf("the snapshot is %v", request.GetSnapshot())
	}
	// What has not changed is not converted again.
	if again, _ := w.sync(false); again.GetSnapshot().GetDeployment() != deployment {
		t.Error("the Deployment was converted twice")
	}
}

func TestPodsForRecreate(t *testing.T) {
	owner := web()
	if err := unstructured.SetNestedField(owner.Object, "Recreate", "spec", "strategy", "type"); err != nil {
		t.Fatal(err)
	}
	pod := parse(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"pod","resourceVersion":"30",
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"uid-of-web-1","controller":true}]},"status":{"phase":"Running"}}`)
	w := newWorld(t, owner, set("web-1", 1, false, "web"), pod)
	request, _ := w.sync(false)
	if pods := request.GetSnapshot().GetPods(); len(pods) != 1 || pods[0].GetStatus().GetPhase() != "Running" || !request.GetSnapshot().GetPodsComplete() {
		t.Errorf("pods are %v", pods)
	}
}

func TestOwnWritesAreSeenBeforeTheCacheShowsThem(t *testing.T) {
	w := newWorld(t, web(), set("web-1", 3, false, "web"), set("web-0", 0, false, "web"))
	w.sync(false, create("web-2", 1), scale("web-1", 2), remove("web-0"))
	request, _ := w.sync(false)
	if got := sizes(request); got != "web-1=2 web-2=1" {
		t.Errorf("with a cache that lags: %s", got)
	}
	// What others write meanwhile counts once the cache has it.
	if err := w.server.Patch(t.Context(), set("web-2", 1, false, "web"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	if request, _ = w.sync(false); sizes(request) != "web-1=2 web-2=7" {
		t.Errorf("once it has caught up: %s", sizes(request))
	}
	if len(w.state(key).written) > 0 {
		t.Errorf("still remembered: %v", w.state(key).written)
	}
}

func TestSizesAreConfirmedBeforeTheFirstWrite(t *testing.T) {
	owner := web()
	w := newWorld(t, owner, set("web-1", 2, false, "web"))
	// Another copy has gone on meanwhile, and its ReplicaSets have not come by the watch yet.
	for name, size := range map[string]int{"web-1": 4, "web-2": 1} {
		o := set(name, size, false, "web")
		o.SetResourceVersion("")
		if name == "web-2" {
			if err := w.server.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		} else if err := w.server.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))); err != nil {
			t.Fatal(err)
		}
	}
	// A plan that changes no ReplicaSet needs no proof.
	if request, _ := w.sync(false); sizes(request) != "web-1=2" {
		t.Fatalf("the cache shows %s", sizes(request))
	}
	w.planner.plans = append(w.planner.plans, []*rollplanv1.Step{create("web-3", 9)})
	if request, _ := w.sync(false); sizes(request) != "web-1=4 web-2=1" || len(w.planner.requests) != 3 || len(w.calls) > 0 {
		t.Errorf("the plan is made with %s, after %d requests, and makes %v", sizes(request), len(w.planner.requests), w.calls)
	}
	// Until the cache has caught up, the newer ones count.
	if request, _ := w.sync(false, create("web-3", 1)); sizes(request) != "web-1=4 web-2=1" || len(w.planner.requests) != 4 {
		t.Errorf("the next plan is made with %s, after %d requests", sizes(request), len(w.planner.requests))
	}
	// What we write ourselves we know; what came of a call that failed we do not.
	for _, test := range []struct {
		what  string
		after func()
		reads int
	}{
		{"our own writes", func() {}, 0},
		{"a call without an answer", func() {
			w.refuse["patch web-1"] = errors.New("connection reset")
			w.sync(false, scale("web-1", 2))
			delete(w.refuse, "patch web-1")
		}, 1},
		{"that read", func() {}, 0},
	} {
		test.after()
		before := w.lists
		if w.sync(false, scale("web-1", 4)); w.lists-before != test.reads {
			t.Errorf("after %s: %d reads, want %d", test.what, w.lists-before, test.reads)
		}
	}
}

func TestACreatedObjectThatIsGone(t *testing.T) {
	w := newWorld(t, web())
	w.sync(false, create("web-1", 1))
	if err := w.server.Delete(t.Context(), set("web-1", 1, false, "web")); err != nil {
		t.Fatal(err)
	}
	// The API server knows better than we do.
	w.sync(true, scale("web-1", 2))
	if request, _ := w.sync(false); sizes(request) != "" {
		t.Errorf("ReplicaSets are %s", sizes(request))
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		what string
		err  error
		told bool
	}{
		{"stale version", refusal(409, metav1.StatusReasonConflict), false},
		{"failed test of a JSON patch", refusal(422, metav1.StatusReasonInvalid), false},
		{"no answer", errors.New("connection refused"), false},
		{"no answer in time", refusal(504, metav1.StatusReasonTimeout), false},
		{"validation", refusal(422, metav1.StatusReasonInvalid, metav1.CauseTypeFieldValueInvalid), true},
		{"quota", refusal(403, metav1.StatusReasonForbidden), true},
		{"terminating namespace", refusal(403, metav1.StatusReasonForbidden, corev1.NamespaceTerminatingCause), true},
		{"webhook", refusal(500, metav1.StatusReasonInternalError), true},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := newWorld(t, web(), set("web-1", 3, false, "web"))
			w.refuse["patch web-1"] = test.err
			_, result := w.sync(test.told, scale("web-1", 2), create("web-2", 1))
			if strings.Join(w.calls, ", ") != "patch web-1" || !result.Retry || len(w.events.Events) > 0 {
				t.Errorf("calls are %v, result is %v, %d events", w.calls, result, len(w.events.Events))
			}
			delete(w.refuse, "patch web-1")
			request, result := w.sync(false)
			failures := request.GetSnapshot().GetFailures()
			if len(failures) > 0 != test.told || result.Retry != test.told {
				t.Fatalf("told are %v, result is %v", failures, result)
			}
			if test.told {
				answer, _ := statusOf(test.err)
				if f := failures[0]; f.GetCall().GetName() != "web-1" || f.GetHttpCode() != answer.Code || f.GetMessage() != "no" || len(f.GetCauses()) != len(answer.Details.Causes) {
					t.Errorf("told is %v", f)
				}
			}
			// Told once; then the next look may reset the rate limit.
			if request, result = w.sync(false); len(request.GetSnapshot().GetFailures()) > 0 || result.Retry {
				t.Errorf("told again: %v, result is %v", request.GetSnapshot().GetFailures(), result)
			}
		})
	}
}

func TestWhoseNameIsTaken(t *testing.T) {
	w := newWorld(t, web(), set("web-2", 5, true, "api"))
	w.sync(true, create("web-2", 1))
	request, _ := w.sync(false)
	failures := request.GetSnapshot().GetFailures()
	if len(failures) != 1 || failures[0].GetReason() != "AlreadyExists" || failures[0].GetExisting().GetSpec().GetReplicas() != 5 {
		t.Errorf("told are %v", failures)
	}
}

func TestGoingOn(t *testing.T) {
	for _, test := range []struct {
		what      string
		goOn      bool
		tolerated []int32
		remove    bool
		err       error
		calls     int
		retry     bool
	}{
		{what: "gone before it was deleted", remove: true, err: refusal(404, metav1.StatusReasonNotFound), calls: 2},
		{what: "any failure passed over", goOn: true, err: refusal(409, metav1.StatusReasonConflict), calls: 2, retry: true},
		{what: "a tolerated answer", goOn: true, tolerated: []int32{404, 422}, err: refusal(404, metav1.StatusReasonNotFound), calls: 2},
		{what: "another answer", goOn: true, tolerated: []int32{422}, err: refusal(409, metav1.StatusReasonConflict), calls: 1, retry: true},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := newWorld(t, web(), set("web-1", 3, false, "web"))
			first := scale("web-1", 2)
			if test.remove {
				first = remove("web-1")
			}
			first.ContinueOnFailure, first.ToleratedHttpCodes = test.goOn, test.tolerated
			w.refuse["patch web-1"], w.refuse["delete web-1"] = test.err, test.err
			_, result := w.sync(false, first, create("web-2", 1))
			if len(w.calls) != test.calls || result.Retry != test.retry {
				t.Errorf("calls are %v, result is %v", w.calls, result)
			}
		})
	}
}

func TestEventsFollowTheirCalls(t *testing.T) {
	w := newWorld(t, web())
	w.sync(false, create("web-1", 1), &rollplanv1.Step{Events: []*rollplanv1.Event{{Type: "Warning", Reason: "Why", Message: "so"}}})
	for _, want := range []string{"Normal ScalingReplicaSet web-1", "Warning Why so"} {
		if got := <-w.events.Events; got != want {
			t.Errorf("event is %q, want %q", got, want)
		}
	}
}

func TestBesideKubernetesOwnController(t *testing.T) {
	wrote := func(at string) *unstructured.Unstructured {
		owner := web()
		owner.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Subresource: "status", Time: new(metav1.Time{Time: must(time.Parse(time.RFC3339, at))})}})
		return owner
	}
	watch, now := nativeWatch{}, time.Now()
	for _, look := range []struct {
		owner *unstructured.Unstructured
		at    time.Duration
		held  bool
	}{
		{wrote("2026-01-01T00:00:00Z"), 0, false}, // before we came
		{wrote("2026-01-01T00:00:00Z"), time.Second, false},
		{wrote("2026-01-01T00:00:01Z"), 2 * time.Second, true},
		{web(), 3 * time.Second, true}, // our own write has taken all fields over
		{wrote("2026-01-01T00:00:01Z"), 2*time.Second + nativeQuiet, false},
	} {
		if err := watch.check(look.owner, now.Add(look.at)); errors.Is(err, ErrNativeController) != look.held {
			t.Errorf("after %s: %v", look.at, err)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestGone(t *testing.T) {
	w := newWorld(t)
	if result, err := w.Sync(t.Context(), key); err != nil || result.Response != nil || len(w.planner.requests) > 0 {
		t.Errorf("no Deployment: %v, %v", result, err)
	}
	if len(w.states) > 0 {
		t.Errorf("still remembered: %v", w.states)
	}
}

func TestProgressWaits(t *testing.T) {
	const interval = time.Second
	status := &rollplanv1.Step{Action: &rollplanv1.Step_UpdateDeploymentStatus{UpdateDeploymentStatus: &rollplanv1.UpdateDeploymentStatus{}}}
	progress := []*rollplanv1.Step{status}
	now := time.Now()
	s := newState()
	for _, look := range []struct {
		what     string
		at       time.Duration
		phase    rollplanv1.Phase
		steps    []*rollplanv1.Step
		failures int
		wait     time.Duration
	}{
		{"progress", 0, rollplanv1.Phase_PHASE_PROGRESSING, progress, 0, interval},
		{"more of it", interval / 4, rollplanv1.Phase_PHASE_PROGRESSING, progress, 0, interval * 3 / 4},
		{"the time is over", interval, rollplanv1.Phase_PHASE_PROGRESSING, progress, 0, 0},
		{"progress after it", interval, rollplanv1.Phase_PHASE_PROGRESSING, progress, 0, interval},
		{"another write", interval * 3 / 2, rollplanv1.Phase_PHASE_PROGRESSING, []*rollplanv1.Step{scale("web-1", 2), status}, 0, 0},
		{"progress after that", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, progress, 0, interval},
		{"the end", interval * 2, rollplanv1.Phase_PHASE_COMPLETE, progress, 0, 0},
		{"no progress any more", interval * 2, rollplanv1.Phase_PHASE_STALLED, progress, 0, 0},
		{"what was refused", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, progress, 1, 0},
		{"nothing to write", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, nil, 0, 0},
		{"an event", interval * 2, rollplanv1.Phase_PHASE_PROGRESSING, []*rollplanv1.Step{{
			Action: status.Action, Events: []*rollplanv1.Event{{Reason: "Why"}}}}, 0, 0},
	} {
		s.failures = make([]*rollplanv1.StepFailure, look.failures)
		plan := &rollplanv1.PlanRolloutResponse{Steps: look.steps, Report: &rollplanv1.RolloutReport{Phase: look.phase}}
		if wait := s.putOff(plan, interval, now.Add(look.at)); wait != look.wait {
			t.Errorf("%s waits %s, want %s", look.what, wait, look.wait)
		}
	}
}
