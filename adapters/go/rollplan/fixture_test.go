package rollplan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// planner returns the given plans one after the other, then empty ones, and records the requests.
type planner struct {
	rollplanv1.RolloutPlannerClient
	requests []*rollplanv1.PlanRolloutRequest
	// forecasts are the requests of forecasts.
	forecasts []*rollplanv1.ForecastRolloutRequest
	// canaries are the requests of plans of canaries.
	canaries []*rollplanv1.PlanCanaryRequest
	plans    [][]*rollplanv1.Step
	// requeueAfter is part of each response, unless it is zero.
	requeueAfter time.Duration
}

func (p *planner) PlanRollout(_ context.Context, request *rollplanv1.PlanRolloutRequest, _ ...grpc.CallOption) (*rollplanv1.PlanRolloutResponse, error) {
	p.requests = append(p.requests, request)
	response := &rollplanv1.PlanRolloutResponse{}
	if len(p.plans) > 0 {
		response.Steps, p.plans = p.plans[0], p.plans[1:]
	}
	if p.requeueAfter > 0 {
		response.RequeueAfter = durationpb.New(p.requeueAfter)
	}
	return response, nil
}

func (p *planner) ForecastRollout(_ context.Context, request *rollplanv1.ForecastRolloutRequest, _ ...grpc.CallOption) (*rollplanv1.ForecastRolloutResponse, error) {
	p.forecasts = append(p.forecasts, request)
	return &rollplanv1.ForecastRolloutResponse{Effect: rollplanv1.ChangeEffect_CHANGE_EFFECT_SCALE_ONLY}, nil
}

// PlanCanary returns the first of the given plans.
func (p *planner) PlanCanary(_ context.Context, request *rollplanv1.PlanCanaryRequest, _ ...grpc.CallOption) (*rollplanv1.PlanCanaryResponse, error) {
	p.canaries = append(p.canaries, request)
	response := &rollplanv1.PlanCanaryResponse{Report: &rollplanv1.CanaryReport{Phase: rollplanv1.CanaryPhase_CANARY_PHASE_HOLD}}
	if len(p.plans) > 0 {
		response.Steps, p.plans = p.plans[0], p.plans[1:]
	}
	return response, nil
}

// fixture is a fake API server, a cache of it that only changes with syncCache, and Rollouts that use the two.
type fixture struct {
	*Rollouts
	t       *testing.T
	planner *planner
	// store holds the objects of the server.
	store  client.WithWatch
	events *record.FakeRecorder
	// callErrors maps a call, for example "patch web-1", to the error that it returns.
	callErrors map[string]error
	calls      []string
	// managers are the field managers of the calls.
	managers []string
	// lists counts the list requests to the server.
	lists int
}

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, planner: &planner{}, events: record.NewFakeRecorder(100), callErrors: map[string]error{}}
	f.store = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).Build()
	api, err := NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1, UserAgent: "test"}, &http.Client{Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	f.Rollouts = &Rollouts{Kind: Deployment, Planner: f.planner, API: api, Recorder: f.events}
	f.syncCache()
	return f
}

// RoundTrip answers a request to the fake API server.
func (f *fixture) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		body = must(io.ReadAll(request.Body))
	}
	object, err := f.serve(request, body)
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		answer := status.Status()
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code = answer, int(answer.Code)
	}
	response := &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(must(json.Marshal(object)))),
	}
	if html, ok := err.(htmlError); ok {
		response.Header.Set("Content-Type", "text/html")
		response.Body = io.NopCloser(strings.NewReader(string(html)))
	}
	return response, nil
}

// htmlError is the error page of a proxy.
type htmlError string

func (htmlError) Error() string { return "HTML" }

func (htmlError) Status() metav1.Status { return metav1.Status{Code: http.StatusBadGateway} }

func (f *fixture) serve(request *http.Request, body []byte) (any, error) {
	_, path, _ := strings.Cut(request.URL.Path, "/namespaces/")
	parts := strings.Split(path, "/") // namespace, resource and name
	kind := map[string]schema.GroupVersionKind{"deployments": Deployment, "planneddeployments": PlannedDeployment, "replicasets": ReplicaSet, "pods": Pod}[parts[1]]
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(kind)
	target.SetNamespace(parts[0])
	if len(parts) > 2 {
		target.SetName(parts[2])
	}
	ctx := request.Context()
	called := func(verb string) error {
		call := verb + " " + target.GetName()
		f.calls = append(f.calls, call)
		f.managers = append(f.managers, request.URL.Query().Get("fieldManager"))
		return f.callErrors[call]
	}
	switch {
	case request.Method == http.MethodPost:
		if err := target.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		if err := called("create"); err != nil {
			return nil, err
		}
		target.SetUID(types.UID("uid-of-" + target.GetName()))
		return target, f.store.Create(ctx, target)
	case request.Method == http.MethodPatch:
		if err := called("patch"); err != nil {
			return nil, err
		}
		return target, f.store.Patch(ctx, target, client.RawPatch(types.PatchType(request.Header.Get("Content-Type")), body))
	case request.Method == http.MethodDelete:
		if err := called("delete"); err != nil {
			return nil, err
		}
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, f.store.Delete(ctx, target)
	case len(parts) > 2:
		return target, f.store.Get(ctx, client.ObjectKeyFromObject(target), target)
	default:
		f.lists++
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		selector, err := labels.Parse(request.URL.Query().Get("labelSelector"))
		if err != nil {
			return nil, err
		}
		err = f.store.List(ctx, list, client.InNamespace(parts[0]), client.MatchingLabelsSelector{Selector: selector})
		for i := range list.Items {
			// As in the lists of the API server, items have no kind.
			delete(list.Items[i].Object, "kind")
			delete(list.Items[i].Object, "apiVersion")
		}
		return list.UnstructuredContent(), err
	}
}

// snapshotReader is a cache that never changes.
type snapshotReader map[schema.GroupVersionKind][]*Object

func (r snapshotReader) Get(_ context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*Object, error) {
	for _, o := range r[kind] {
		if o.Namespace == key.Namespace && o.Name == key.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind.Kind}, key.Name)
}

func (r snapshotReader) ControlledBy(_ context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) (found []*Object, _ error) {
	for _, o := range r[kind] {
		if o.Namespace == namespace && slices.Contains(controllers, controllerOf(o)) {
			found = append(found, o)
		}
	}
	return found, nil
}

// syncCache updates the cache to the state of the server.
func (f *fixture) syncCache() {
	f.t.Helper()
	reader := snapshotReader{}
	for _, kind := range []schema.GroupVersionKind{f.Kind, ReplicaSet, Pod} {
		list, err := f.API.List(f.t.Context(), kind, "shop", metav1.ListOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		reader[kind] = list.Items
	}
	f.Reader = reader
	f.lists = 0
}

// sync calls Sync once with a plan of these steps, and returns the last request.
func (f *fixture) sync(wantErr bool, steps ...*rollplanv1.Step) (*rollplanv1.PlanRolloutRequest, Result) {
	f.t.Helper()
	f.planner.plans = append(f.planner.plans, steps)
	f.calls = nil
	if s := f.states[key]; s != nil {
		s.planned = nil // the plan is made even if nothing has changed
	}
	result, err := f.Sync(f.t.Context(), key)
	if (err != nil) != wantErr {
		f.t.Fatalf("sync: %v", err)
	}
	return f.planner.requests[len(f.planner.requests)-1], result
}

// objects returns the objects of a kind in a request.
func objects(request *rollplanv1.PlanRolloutRequest, kind schema.GroupVersionKind) (found []*unstructured.Unstructured) {
	for _, text := range request.GetSnapshot().GetObjects() {
		if o := parse(text); o.GroupVersionKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// sizes lists the ReplicaSets of a request with their sizes.
func sizes(request *rollplanv1.PlanRolloutRequest) string {
	var text []string
	for _, set := range objects(request, ReplicaSet) {
		size, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
		text = append(text, fmt.Sprintf("%s=%d", set.GetName(), size))
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

// pod returns a pod of the ReplicaSet web-1.
func pod() *unstructured.Unstructured {
	return parse(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"pod","resourceVersion":"30",
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"uid-of-web-1","controller":true}]},"status":{"phase":"Running"}}`)
}

func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return o
}

func create(name string, size int) *rollplanv1.Step {
	body := string(must(set(name, size, false, "web").MarshalJSON()))
	return step(rollplanv1.Verb_VERB_CREATE, name, "application/json", strings.Replace(body, `"resourceVersion":"20",`, "", 1))
}

func scale(name string, size int) *rollplanv1.Step {
	return step(rollplanv1.Verb_VERB_PATCH, name, "application/json-patch+json",
		fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":"uid-of-%s"},{"op":"add","path":"/spec/replicas","value":%d}]`, name, size))
}

func remove(name string) *rollplanv1.Step {
	return step(rollplanv1.Verb_VERB_DELETE, name, "application/json", `{"preconditions":{"uid":"uid-of-`+name+`"}}`)
}

func step(verb rollplanv1.Verb, name, contentType, body string) *rollplanv1.Step {
	path := "/apis/apps/v1/namespaces/shop/replicasets"
	if verb != rollplanv1.Verb_VERB_CREATE {
		path += "/" + name
	}
	return &rollplanv1.Step{
		Summary: verb.String() + " " + name,
		Call: &rollplanv1.ApiCall{
			Verb: verb, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: name, ContentType: contentType, BodyJson: body,
			Path: path, Query: "fieldManager=rollplan",
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
