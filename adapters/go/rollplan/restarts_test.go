package rollplan

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// planted are the values that no request, cache or event may contain.
var planted = []string{"hunter2-config", "hunter2-secret?&", "hunter2-binary", "hunter2-env", "hunter2-command", "hunter2-applied"}

// disguises are the forms in which a value could appear.
func disguises(value string) []string {
	return []string{
		value, hex.EncodeToString([]byte(value)), url.QueryEscape(value), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "="),
	}
}

// restartPlanner returns the given responses one after the other, then empty ones, and records the requests.
type restartPlanner struct {
	rollplanv1.RolloutPlannerClient
	requests  []*rollplanv1.PlanRestartsRequest
	responses []*rollplanv1.PlanRestartsResponse
}

func (p *restartPlanner) PlanRestarts(_ context.Context, request *rollplanv1.PlanRestartsRequest, _ ...grpc.CallOption) (*rollplanv1.PlanRestartsResponse, error) {
	p.requests = append(p.requests, proto.CloneOf(request))
	response := &rollplanv1.PlanRestartsResponse{}
	if len(p.responses) > 0 {
		response, p.responses = p.responses[0], p.responses[1:]
	}
	if response.Sync == nil {
		response.Sync = &rollplanv1.SyncResponse{}
	}
	return response, nil
}

func newRestarts(t *testing.T, cluster *cluster, options *rollplanv1.RestartOptions) (*Restarts, *restartPlanner, *record.FakeRecorder) {
	t.Helper()
	api := must(NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1}, &http.Client{Transport: cluster}))
	watches := RestartWatches{
		Kinds: WorkloadKinds(options.GetProfile()), Secrets: true, Classes: true, Budgets: true, Checksums: Checksums{Profile: options.GetProfile()},
	}
	cache := must(NewRestartCache(api, watches))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = cache.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := cache.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	cluster.lists = nil
	planner, events := &restartPlanner{}, record.NewFakeRecorder(100)
	return &Restarts{Planner: planner, Cache: cache, Watches: watches, API: api, Recorder: events, Options: options}, planner, events
}

func TestRequestOfRestartsHasChecksumsAndNoValues(t *testing.T) {
	for _, profile := range []rollplanv1.RestartProfile{0, rollplanv1.RestartProfile_RESTART_PROFILE_XING, rollplanv1.RestartProfile_RESTART_PROFILE_RELOADER} {
		r, planner, _ := newRestarts(t, shop(), &rollplanv1.RestartOptions{Profile: profile})
		must(r.Sync(t.Context(), "shop"))
		request := planner.requests[0]
		sent := string(must(proto.Marshal(request)))
		for _, kind := range r.Cache.Kinds() {
			for _, informer := range r.Cache.informers[kind] {
				for _, object := range informer.GetStore().List() {
					sent += fmt.Sprintf("%+v", *object.(*Object))
				}
			}
		}
		for _, value := range planted {
			for _, disguise := range disguises(value) {
				if strings.Contains(sent, disguise) {
					t.Errorf("%s: the request or the cache contains %q", profile, disguise)
				}
			}
		}
		var kinds []string
		for _, object := range request.GetObjects() {
			kinds = append(kinds, gjson.Get(object, "kind").String())
		}
		if want := []string{"Deployment", "ReplicaSet", "Pod", "PodDisruptionBudget", "Namespace"}; !slices.Equal(kinds, want) {
			t.Errorf("%s: objects are %v, want %v", profile, kinds, want)
		}
		if len(request.GetConfigurations()) != 3 || !request.GetConfigurationsComplete() {
			t.Fatalf("%s: configurations are %v", profile, request.GetConfigurations())
		}
		app := request.GetConfigurations()[0]
		if len(app.GetKeyChecksums()) != 2 || app.GetKeyChecksums()["KEY"] != (Checksums{}).hex([]byte("hunter2-config")) ||
			app.GetAnnotations()["rollplan.dev/change-set"] != "7" || app.GetChangedAt().AsTime().Day() != 2 {
			t.Errorf("%s: the summary is %v", profile, app)
		}
	}
}

func TestTrimmedTemplateKeepsReferencesAndPositions(t *testing.T) {
	deployment := must(ParseObject([]byte(webDeployment("shop", "{}")), Deployment))
	trimmer(0, WorkloadKinds(0)[0])(deployment)
	for path, want := range map[string]string{
		"spec.template.spec.containers.0.env.#.name":                                `["PLAIN","STAKATER_APP_CONFIGMAP","DB"]`,
		"spec.template.spec.containers.0.env.1.value":                               `"0123"`,
		"spec.template.spec.containers.0.env.2.valueFrom.secretKeyRef.name":         `"db"`,
		"spec.template.spec.containers.0.envFrom.0.configMapRef.name":               `"app"`,
		"spec.template.spec.volumes.0.projected.sources.0.secret.name":              `"tls"`,
		"spec.template.metadata.labels.app":                                         `"web"`,
		"spec.replicas":                                                             `2`,
		"metadata.annotations.rollplan\\.dev/restart":                               `"enabled"`,
		"metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration": `""`,
		"status.conditions":                                                         `[{"reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}]`,
	} {
		if found := deployment.field(path).Raw; found != want {
			t.Errorf("%s is %s, want %s", path, found, want)
		}
	}
	before := deployment.JSON
	if trimmer(0, WorkloadKinds(0)[0])(deployment); deployment.JSON != before {
		t.Error("trimming twice drops more")
	}

	custom := must(ParseObject([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","uid":"w"},"spec":{"deep":{"pod":{"spec":{"containers":[{"name":"a","image":"x"}]}},"other":1}}}`), Deployment))
	trimmer(0, &rollplanv1.WorkloadKind{ApiVersion: "example.com/v1", Kind: "Widget", TemplatePath: "spec.deep.pod"})(custom)
	if found := custom.field("spec").Raw; found != `{"deep":{"pod":{"spec":{"containers":[{"name":"a"}]}}}}` {
		t.Errorf("the spec is %s", found)
	}

	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","uid":"j"},"spec":{"template":{"spec":{"containers":[{"command":["run"]}]}}}}`
	whole := must(ParseObject([]byte(job), Deployment))
	trimmer(rollplanv1.RestartProfile_RESTART_PROFILE_RELOADER, WorkloadKinds(0)[4])(whole)
	if found := whole.field("spec.template.spec.containers.0.command.0").String(); found != "run" {
		t.Errorf("a Job that Reloader creates again lacks its command: %s", whole.JSON)
	}
}

func TestChecksumsMatchTheOriginalControllers(t *testing.T) {
	const xing, reloader = rollplanv1.RestartProfile_RESTART_PROFILE_XING, rollplanv1.RestartProfile_RESTART_PROFILE_RELOADER
	for _, c := range []struct {
		profile    rollplanv1.RestartProfile
		kind, data string
		want       string
	}{
		{xing, "ConfigMap", `"data":{"key":"value"}`, "e43abcf337524483"},
		{xing, "Secret", `"data":{"key":"dmFsdWU="}`, "fed7a27106a07691"},
		{xing, "ConfigMap", `"other":1`, "74234e98afe7498f"},
		{xing, "ConfigMap", `"binaryData":{"b":"AAEC"}`, "74234e98afe7498f"},
		{xing, "ConfigMap", `"data":{}`, "44136fa355b3678a"},
		{xing, "ConfigMap", `"data":{"k":"<a&b>"}`, "003c0c5fb1a83eab"},
		{xing, "ConfigMap", `"data":{"k":"\u2028\u2029\u0001\u0008\"\\\n\r\tä"}`,
			(Checksums{}).hex([]byte(`{"k":"\u2028\u2029\u0001\u0008\"\\\n\r\tä"}`))[:16]},
		{xing, "ConfigMap", `"data":{"k":"\\b\b\f"}`, (Checksums{}).hex([]byte(`{"k":"\\b\u0008\u000c"}`))[:16]},
		{reloader, "ConfigMap", `"data":{"b":"2","a":"1"}`, "f83e99e324ba68ccc373a58ef1eb42f8ab88646a"},
		{reloader, "Secret", `"data":{"a":"MQ==","b":"Mg=="}`, "f83e99e324ba68ccc373a58ef1eb42f8ab88646a"},
		{reloader, "ConfigMap", `"data":{"a":"1"},"binaryData":{"b":"2222"}`, "6823e6607539aa7d6e08ef2ee4bc2fadc3204000"},
	} {
		object := must(ParseObject([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"c","uid":"c"},%s}`, c.kind, c.data)), ConfigMap))
		checksums := Checksums{Profile: c.profile}
		keyed := *object
		checksums.summarize(object)
		if found := object.Configuration.GetChecksum(); found != c.want {
			t.Errorf("%s of %s %s is %s, want %s", c.profile, c.kind, c.data, found, c.want)
		}
		checksums.Key = []byte("key")
		checksums.summarize(&keyed)
		if found := keyed.Configuration.GetChecksum(); found == object.Configuration.GetChecksum() || len(found) != len(object.Configuration.GetChecksum()) {
			t.Errorf("%s with a key is %s", c.data, found)
		}
	}
}

// restartOfWeb is a plan that restarts the Deployment, in a namespace.
func restartOfWeb(namespace string) *rollplanv1.RestartPlan {
	return &rollplanv1.RestartPlan{
		Namespace: namespace, Kind: "Deployment", Name: "web", Uid: "uid-" + namespace, Decision: rollplanv1.RestartDecision_RESTART_DECISION_RESTART,
		Steps: []*rollplanv1.Step{{
			Id:      "restart " + namespace,
			Summary: "restart Deployment web",
			Call: &rollplanv1.ApiCall{
				Verb: rollplanv1.Verb_VERB_PATCH, ApiVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web",
				ContentType: "application/json-patch+json", BodyJson: "[]", Path: "/apis/apps/v1/namespaces/" + namespace + "/deployments/web",
			},
			Events: []*rollplanv1.Event{{Type: "Normal", Reason: "ConfigurationChanged", Message: "Restarted: KEY of ConfigMap shop/app changed"}},
		}},
	}
}

func TestRestartIsCarriedOutAndItsAnswerReturned(t *testing.T) {
	cluster := shop()
	r, planner, events := newRestarts(t, cluster, &rollplanv1.RestartOptions{})
	r.MinInterval = time.Second
	planner.responses = []*rollplanv1.PlanRestartsResponse{
		{ContinueAfter: "shop Deployment a"},
		{
			Plans: []*rollplanv1.RestartPlan{restartOfWeb("shop")},
			Sync:  &rollplanv1.SyncResponse{Value: []byte("state"), NotBefore: durationpb.New(time.Second), AtLatest: durationpb.New(time.Minute)},
		},
	}
	result := must(r.Sync(t.Context(), "shop"))
	if len(result.Applied) != 1 || result.Failed != nil || result.RequeueAfter != time.Minute || time.Until(result.NotBefore) > time.Second {
		t.Errorf("the result is %+v", result)
	}
	if len(planner.requests) != 2 || planner.requests[1].GetContinueAfter() != "shop Deployment a" {
		t.Errorf("%d requests, the second continues after %q", len(planner.requests), planner.requests[1].GetContinueAfter())
	}
	if want := webPath + " []"; len(cluster.patches) != 1 || cluster.patches[0] != want {
		t.Errorf("patches are %v", cluster.patches)
	}
	if event := <-events.Events; event != "Normal ConfigurationChanged Restarted: KEY of ConfigMap shop/app changed" {
		t.Errorf("the event is %q", event)
	}
	must(r.Sync(t.Context(), "shop"))
	first, second := planner.requests[0].GetSync(), planner.requests[2].GetSync()
	if first.GetSession() == "" || second.GetSession() != first.GetSession() || first.GetMinInterval().AsDuration() != time.Second || len(first.GetAnswers()) != 0 {
		t.Errorf("the first sync is %v, the second %v", first, second)
	}
	answers := second.GetAnswers()
	if string(second.GetValue()) != "state" || len(answers) != 1 || answers[0].GetId() != "restart shop" || !answers[0].GetMade() ||
		answers[0].GetHttpCode() != http.StatusOK || !strings.Contains(string(answers[0].GetBody()), `"resourceVersion":"2"`) {
		t.Errorf("the second sync is %v", second)
	}
}

func TestFailedRestartIsReportedAndDoesNotStopOthers(t *testing.T) {
	for _, code := range []int{http.StatusUnprocessableEntity, http.StatusForbidden} {
		cluster := shop()
		cluster.reject[webPath] = code
		r, planner, events := newRestarts(t, cluster, &rollplanv1.RestartOptions{})
		planner.responses = []*rollplanv1.PlanRestartsResponse{{Plans: []*rollplanv1.RestartPlan{restartOfWeb("shop"), restartOfWeb("shop")}}}
		result := must(r.Sync(t.Context(), "shop"))
		if result.Failed == nil || len(result.Applied) != 0 {
			t.Errorf("%d: the result is %+v", code, result)
		}
		if len(cluster.patches) != 2 || len(events.Events) != 0 {
			t.Errorf("%d: %d patches, %d events", code, len(cluster.patches), len(events.Events))
		}
		must(r.Sync(t.Context(), "shop"))
		for _, answer := range planner.requests[1].GetSync().GetAnswers() {
			if !answer.GetMade() || answer.GetHttpCode() != int32(code) {
				t.Errorf("%d: the answer is %v", code, answer)
			}
		}
	}
}

func TestOnlyRestartsThatWereCarriedOutAreReported(t *testing.T) {
	cluster := shop()
	r, planner, events := newRestarts(t, cluster, &rollplanv1.RestartOptions{})
	plan := restartOfWeb("shop")
	plan.Conditions = []*rollplanv1.RestartCondition{{Reason: "PAUSED", Event: &rollplanv1.Event{Type: "Warning", Reason: "RestartPaused", Message: "message"}}}
	planner.responses = []*rollplanv1.PlanRestartsResponse{{Plans: []*rollplanv1.RestartPlan{plan}}}
	expired, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	result, err := r.Sync(expired, "shop")
	if !errors.Is(err, context.DeadlineExceeded) || len(result.Applied) != 0 || len(cluster.patches) != 0 || len(events.Events) != 0 {
		t.Errorf("the result is %+v, the error %v, with %d patches and %d events", result, err, len(cluster.patches), len(events.Events))
	}
}

func TestReadsAreMadeAndNamespacesIncludedBeforeThePlan(t *testing.T) {
	cluster := shop()
	cluster.objects[deploymentsPath] = append(cluster.objects[deploymentsPath], webDeployment("bank", "{}"), webDeployment("old", "{}"))
	r, planner, _ := newRestarts(t, cluster, &rollplanv1.RestartOptions{MaxConcurrent: 1})
	r.Watches.IgnoredNamespaces = []string{"old"}
	page := &rollplanv1.Read{Id: "page", Call: &rollplanv1.ApiCall{Verb: rollplanv1.Verb_VERB_GET, Path: deploymentsPath, Query: "limit=500"}}
	planner.responses = []*rollplanv1.PlanRestartsResponse{
		{Sync: &rollplanv1.SyncResponse{Value: []byte("1"), Reads: []*rollplanv1.Read{page}}},
		{Sync: &rollplanv1.SyncResponse{Value: []byte("2")}, IncludeNamespaces: []string{"bank", "old"}},
		{Sync: &rollplanv1.SyncResponse{Value: []byte("3")}, IncludeNamespaces: []string{"bank"}},
	}
	result := must(r.Sync(t.Context(), "shop"))
	if want := []string{"bank", "old", "shop"}; !slices.Equal(result.Namespaces, want) || len(planner.requests) != 3 {
		t.Fatalf("%d requests, planned together: %v, want %v", len(planner.requests), result.Namespaces, want)
	}
	answers := planner.requests[1].GetSync().GetAnswers()
	if len(answers) != 1 || answers[0].GetId() != "page" || !strings.Contains(string(answers[0].GetBody()), `"uid-bank"`) {
		t.Errorf("the answers are %v", answers)
	}
	last := planner.requests[2]
	objects := strings.Join(last.GetObjects(), "")
	if len(last.GetSync().GetAnswers()) != 0 || !strings.Contains(objects, `"uid-bank"`) || strings.Contains(objects, `"uid-old"`) {
		t.Errorf("the last request has the answers %v and the objects %s", last.GetSync().GetAnswers(), objects)
	}
	must(r.Sync(t.Context(), "shop"))
	if found := planner.requests[3].GetScope().GetNamespaces(); !slices.Equal(found, []string{"bank", "shop"}) {
		t.Errorf("the next request has the namespaces %v", found)
	}
}

func TestEventsOfConditionsAreRecorded(t *testing.T) {
	r, planner, events := newRestarts(t, shop(), &rollplanv1.RestartOptions{})
	plan := restartOfWeb("shop")
	plan.Steps = nil
	plan.Conditions = []*rollplanv1.RestartCondition{
		{Reason: "ROLLOUT_IN_PROGRESS"}, {Reason: "PAUSED", Event: &rollplanv1.Event{Type: "Warning", Reason: "RestartPaused", Message: "message"}},
	}
	planner.responses = []*rollplanv1.PlanRestartsResponse{{Plans: []*rollplanv1.RestartPlan{plan}}}
	must(r.Sync(t.Context(), "shop"))
	close(events.Events)
	var found []string
	for event := range events.Events {
		found = append(found, event)
	}
	if want := []string{"Warning RestartPaused message"}; !slices.Equal(found, want) {
		t.Errorf("events are %q, want %q", found, want)
	}
}

func TestConfigurationsAreNotCompleteIfSomeAreNotWatched(t *testing.T) {
	r, planner, _ := newRestarts(t, shop(), &rollplanv1.RestartOptions{})
	r.Watches.Secrets = false
	must(r.Sync(t.Context(), "shop"))
	r.Watches.Secrets, r.Watches.ConfigurationSelector = true, labels.Everything()
	must(r.Sync(t.Context(), "shop"))
	for _, request := range planner.requests {
		if request.GetConfigurationsComplete() {
			t.Error("a configuration that is not watched counts as deleted")
		}
	}
}

func TestNamespacesAreSelectedByNameAndLabel(t *testing.T) {
	cluster := shop()
	cluster.objects["/api/v1/namespaces"] = append(cluster.objects["/api/v1/namespaces"],
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"bank","uid":"bank","resourceVersion":"1","labels":{"restarts":"on"}}}`)
	r, planner, _ := newRestarts(t, cluster, &rollplanv1.RestartOptions{})
	selector := must(labels.Parse("restarts=on"))
	for _, c := range []struct {
		namespace string
		selector  labels.Selector
		ignored   []string
		want      bool
	}{
		{"shop", nil, nil, true}, {"shop", nil, []string{"shop"}, false}, {"shop", nil, []string{"bank"}, true},
		{"shop", selector, nil, false}, {"bank", selector, nil, true}, {"bank", selector, []string{"bank"}, false}, {"unknown", selector, nil, false},
	} {
		planner.requests, r.Watches.NamespaceSelector, r.Watches.IgnoredNamespaces = nil, c.selector, c.ignored
		must(r.Sync(t.Context(), c.namespace))
		if isPlanned := len(planner.requests) > 0; isPlanned != c.want {
			t.Errorf("%+v: planned is %t", c, isPlanned)
		}
	}
}

func TestTimeOfDataIsItsLastWrite(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{`"managedFields":[{"time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{}}},{"time":"2026-01-05T00:00:00Z","fieldsV1":{"f:metadata":{}}}]},"data":{}`, "2026-01-01"},
		{`"managedFields":[{"time":"2026-01-01T00:00:00Z","fieldsV1":{"f:binaryData":{}}},{"time":"2026-01-02T00:00:00Z","fieldsV1":{"f:data":{}}}]},"data":{}`, "2026-01-02"},
		{`"managedFields":[{"time":"2026-01-05T00:00:00Z","fieldsV1":{"f:metadata":{}}}]}`, "2026-01-05"},
		{`"creationTimestamp":"2026-01-07T00:00:00Z","managedFields":[{"time":"2026-01-05T00:00:00Z","fieldsV1":{"f:data":{}}}]},"immutable":true`, "2026-01-07"},
		{`"creationTimestamp":"2026-01-07T00:00:00Z"}`, "0001-01-01"},
	} {
		object := must(ParseObject([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"c",`+c.fields+`}`), ConfigMap))
		if found := object.dataChangedAt().Format(time.DateOnly); found != c.want {
			t.Errorf("%s: %s, want %s", c.fields, found, c.want)
		}
	}
}
