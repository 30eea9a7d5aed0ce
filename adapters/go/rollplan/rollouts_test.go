package rollplan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

var (
	key     = types.NamespacedName{Namespace: "shop", Name: "web"}
	missing = types.NamespacedName{Namespace: "shop", Name: "missing"}
)

const setPath = "/apis/apps/v1/namespaces/shop/replicasets/web-1"

// step returns a step with a call to a path.
func step(id string, verb rollplanv1.Verb, path string, onFailure rollplanv1.OnFailure) *rollplanv1.Step {
	call := &rollplanv1.ApiCall{Verb: verb, Path: path}
	if verb != rollplanv1.Verb_VERB_GET {
		call.ContentType, call.BodyJson = "application/json", "{}"
	}
	return &rollplanv1.Step{
		Id: id, Summary: id, OnFailure: onFailure, Call: call, Events: []*rollplanv1.Event{{Type: "Normal", Reason: "Done", Message: id}},
	}
}

func patch(id, path string) *rollplanv1.Step {
	return step(id, rollplanv1.Verb_VERB_PATCH, path, rollplanv1.OnFailure_ON_FAILURE_STOP)
}

func get(id, kind, name, path, query string) *rollplanv1.Read {
	return &rollplanv1.Read{Id: id, Call: &rollplanv1.ApiCall{
		Verb: rollplanv1.Verb_VERB_GET, ApiVersion: "apps/v1", Kind: kind, Namespace: "shop", Name: name, Path: path, Query: query,
	}}
}

func plan(steps ...*rollplanv1.Step) *rollplanv1.PlanRolloutResponse {
	return &rollplanv1.PlanRolloutResponse{Steps: steps}
}

func planWith(sync *rollplanv1.SyncResponse) *rollplanv1.PlanRolloutResponse {
	return &rollplanv1.PlanRolloutResponse{Sync: sync}
}

// replicaSet returns a ReplicaSet in shop. An empty owner is none.
func replicaSet(name, owner string) *Object {
	references := ""
	if owner != "" {
		references = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"any","uid":%q,"controller":true}]`, owner)
	}
	text := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"1"%s}}`, name, name, references)
	return must(ParseObject([]byte(text), ReplicaSet))
}

// checkAnswers compares the answers in the last request.
func (p *planner) checkAnswers(t *testing.T, want ...*rollplanv1.Answer) {
	t.Helper()
	got := p.requests[len(p.requests)-1].GetSync().GetAnswers()
	if !slices.EqualFunc(got, want, func(a, b *rollplanv1.Answer) bool { return proto.Equal(a, b) }) {
		t.Errorf("the answers are\n%v, want\n%v", got, want)
	}
}

func TestRequestHasWhatTheCacheShows(t *testing.T) {
	r, planner, _, reader := newRollouts(t)
	r.StatusInterval, r.MinInterval, r.Options = time.Second, time.Minute, &rollplanv1.PlanOptions{Report: true}
	text := strings.Replace(reader[Deployment][0].JSON, `"generation":3`, `"generation":3,"managedFields":[{"manager":"kube-controller-manager"}]`, 1)
	reader[Deployment] = []*Object{must(ParseObject([]byte(text), Deployment))}
	reader[ReplicaSet] = append(reader[ReplicaSet], replicaSet("orphan", ""), replicaSet("foreign", "other"))
	for range 2 {
		must(r.Sync(t.Context(), key))
		reader[Deployment][0].ResourceVersion += "0"
	}
	request := planner.requests[0]
	snapshot, sync := request.GetSnapshot(), request.GetSync()
	if want := []string{text, reader[ReplicaSet][0].JSON, reader[ReplicaSet][1].JSON}; !slices.Equal(snapshot.GetObjects(), want) {
		t.Errorf("the objects are %v, want %v", snapshot.GetObjects(), want)
	}
	if target := snapshot.GetTarget(); target.GetApiVersion() != "apps/v1" || target.GetKind() != "Deployment" || target.GetNamespace() != "shop" || target.GetName() != "web" {
		t.Errorf("the target is %v", target)
	}
	if !snapshot.GetReplicaSetsComplete() || snapshot.GetPodsComplete() || time.Since(snapshot.GetNow().AsTime()) > time.Minute || !request.GetOptions().GetReport() {
		t.Errorf("the request is %v", request)
	}
	if sync.GetStatusInterval().AsDuration() != time.Second || sync.GetMinInterval().AsDuration() != time.Minute || len(sync.GetValue()) != 0 {
		t.Errorf("the state of the loop is %v", sync)
	}
	// The value of a response is sent with the next request. A session is of one leadership.
	next := planner.requests[1].GetSync()
	if string(next.GetValue()) != "\x01" || next.GetSession() != sync.GetSession() {
		t.Errorf("the next state of the loop is %v", next)
	}
	other, otherPlanner, _, _ := newRollouts(t)
	must(other.Sync(t.Context(), key))
	if session := otherPlanner.requests[0].GetSync().GetSession(); session == "" || session == sync.GetSession() {
		t.Errorf("the session of another leadership is %q", session)
	}
}

func TestReadsAreMadeBeforeThePlanIsRequestedAgain(t *testing.T) {
	r, planner, cluster, _ := newRollouts(t)
	list, set := `{"kind":"ReplicaSetList","items":[]}`, cluster.objects[setPath][0]
	cluster.answers = map[string]Answer{
		"GET /apis/apps/v1/namespaces/shop/replicasets?labelSelector=app%3Dweb": {http.StatusOK, []byte(list)},
		"GET " + setPath: {http.StatusOK, []byte(set)},
		"GET " + webPath: {http.StatusBadGateway, []byte("<html>")},
		"GET /lost":      {},
	}
	reads := []*rollplanv1.Read{
		get("list", "ReplicaSet", "", "/apis/apps/v1/namespaces/shop/replicasets", "labelSelector=app%3Dweb"),
		get("get.set", "ReplicaSet", "web-1", setPath, ""),
	}
	more := []*rollplanv1.Read{get("get.web", "Deployment", "web", webPath, ""), get("get.lost", "ReplicaSet", "lost", "/lost", "")}
	planner.plans = []*rollplanv1.PlanRolloutResponse{
		plan(patch("1.0", webPath)), planWith(&rollplanv1.SyncResponse{Reads: reads}), planWith(&rollplanv1.SyncResponse{Reads: more}),
	}
	must(r.Sync(t.Context(), key))
	must(r.Sync(t.Context(), key))
	if len(planner.requests) != 4 {
		t.Fatalf("%d requests", len(planner.requests))
	}
	// They are added to the answers of the last plan.
	planner.checkAnswers(t,
		planner.requests[1].GetSync().GetAnswers()[0],
		&rollplanv1.Answer{Id: "list", Made: true, HttpCode: http.StatusOK, Body: []byte(list)},
		&rollplanv1.Answer{Id: "get.set", Made: true, HttpCode: http.StatusOK, Body: []byte(set)},
		&rollplanv1.Answer{Id: "get.web", Made: true, HttpCode: http.StatusBadGateway, Body: []byte("<html>")},
		&rollplanv1.Answer{Id: "get.lost", Made: true})
	if value := planner.requests[3].GetSync().GetValue(); string(value) != "\x03" {
		t.Errorf("the value is %q", value)
	}
}

func TestAnswersAreReturnedAsReceived(t *testing.T) {
	r, planner, cluster, _ := newRollouts(t)
	events := record.NewFakeRecorder(10)
	r.Recorder = events
	long := bytes.Repeat([]byte("x"), maxAnswerBody+1)
	body := func(text string) []byte { return []byte(text) }
	cluster.answers = map[string]Answer{
		"PATCH /ok":       {http.StatusOK, long},
		"PATCH /long":     {http.StatusBadGateway, long},
		"DELETE /missing": {http.StatusNotFound, body(`{"kind":"Status","apiVersion":"v1","code":404}`)},
		"POST /taken":     {http.StatusConflict, body(`{"kind":"Status","apiVersion":"v1","code":409}`)},
		"GET /taken/web":  {http.StatusOK, body(`{"kind":"ReplicaSet"}`)},
		"PATCH /lost":     {},
	}
	create := step("1.3", rollplanv1.Verb_VERB_CREATE, "/taken", rollplanv1.OnFailure_ON_FAILURE_CONTINUE)
	create.ReadOnConflict = &rollplanv1.ApiCall{Verb: rollplanv1.Verb_VERB_GET, Path: "/taken/web"}
	remove := step("1.2", rollplanv1.Verb_VERB_DELETE, "/missing", rollplanv1.OnFailure_ON_FAILURE_DONE_IF)
	remove.DoneHttpCodes = []int32{http.StatusNotFound}
	report := &rollplanv1.Step{Events: []*rollplanv1.Event{{Type: "Normal", Reason: "Done", Message: "report"}}}
	planner.plans = []*rollplanv1.PlanRolloutResponse{plan(
		patch("1.0", "/ok"), step("1.1", rollplanv1.Verb_VERB_PATCH, "/long", rollplanv1.OnFailure_ON_FAILURE_CONTINUE), remove, create, report,
		patch("1.6", "/lost"), patch("1.7", "/never"), report,
	)}
	result := must(r.Sync(t.Context(), key))
	must(r.Sync(t.Context(), key))
	planner.checkAnswers(t,
		&rollplanv1.Answer{Id: "1.0", Made: true, HttpCode: http.StatusOK, Body: long},
		&rollplanv1.Answer{Id: "1.1", Made: true, HttpCode: http.StatusBadGateway, Body: long[:maxAnswerBody]},
		&rollplanv1.Answer{Id: "1.2", Made: true, HttpCode: http.StatusNotFound, Body: cluster.answers["DELETE /missing"].Body},
		&rollplanv1.Answer{Id: "1.3", Made: true, HttpCode: http.StatusConflict, Body: cluster.answers["POST /taken"].Body, Existing: body(`{"kind":"ReplicaSet"}`)},
		&rollplanv1.Answer{Id: "1.6", Made: true},
		&rollplanv1.Answer{Id: "1.7"})
	var recorded []string
	for len(events.Events) > 0 {
		recorded = append(recorded, strings.TrimPrefix(<-events.Events, "Normal Done "))
	}
	if want := []string{"1.0", "1.2", "report"}; !slices.Equal(recorded, want) {
		t.Errorf("events are %v, want %v", recorded, want)
	}
	var failed *CallError
	if !errors.As(result.Failed, &failed) || failed.Answer.Code != http.StatusBadGateway || strings.Count(result.Failed.Error(), "\n") != 2 {
		t.Errorf("the failed calls are %v", result.Failed)
	}
	// The answers are of the last plan only.
	reader := r.Reader.(snapshotReader)
	reader.show(cluster, Deployment, 2)
	must(r.Sync(t.Context(), key))
	planner.checkAnswers(t)
}

func TestUnchangedObjectsNeedNoPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, planner, cluster, reader := newRollouts(t)
		sync := func(what string, plans int, requeueAfter time.Duration) {
			t.Helper()
			before := len(planner.requests)
			result, err := r.Sync(t.Context(), key)
			if got := len(planner.requests) - before; err != nil || got != plans || result.Unchanged != (plans == 0) || result.RequeueAfter != requeueAfter {
				t.Errorf("%s: %d plans, want %d; %v, %v", what, got, plans, result, err)
			}
		}
		planner.plans = []*rollplanv1.PlanRolloutResponse{plan(patch("1.0", webPath))}
		sync("the first plan", 1, 0)
		sync("after a call", 1, 0)
		sync("after a plan without calls", 0, 0)
		reader.show(cluster, Deployment, 2)
		sync("a change of the owner", 1, 0)
		reader.show(cluster, ReplicaSet, 2)
		sync("a change of a ReplicaSet", 1, 0)
		reader[ReplicaSet] = append(reader[ReplicaSet], replicaSet("orphan", ""))
		sync("a new ReplicaSet", 1, 0)
		reader[ReplicaSet] = nil
		planner.plans = []*rollplanv1.PlanRolloutResponse{planWith(&rollplanv1.SyncResponse{AtLatest: durationpb.New(time.Hour)})}
		sync("no ReplicaSets", 1, time.Hour)
		time.Sleep(time.Minute)
		sync("before the timer ends", 0, 59*time.Minute)
		time.Sleep(59 * time.Minute)
		sync("after the timer has ended", 1, 0)
	})
}

func TestFailedCallIsReportedAsSoonAsPossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, planner, cluster, _ := newRollouts(t)
		cluster.reject[webPath] = http.StatusForbidden
		timers := func() *rollplanv1.SyncResponse {
			return &rollplanv1.SyncResponse{NotBefore: durationpb.New(time.Second), AtLatest: durationpb.New(time.Hour)}
		}
		planner.plans = []*rollplanv1.PlanRolloutResponse{{Steps: []*rollplanv1.Step{patch("1.0", webPath)}, Sync: timers()}, planWith(timers())}
		for _, want := range []time.Duration{time.Second, time.Hour} {
			result := must(r.Sync(t.Context(), key))
			if result.RequeueAfter != want || time.Until(result.NotBefore) != time.Second {
				t.Errorf("the result is %v, want another sync after %s", result, want)
			}
		}
	})
}

func TestSameRequestIsSentAfterAnErrorOfTheService(t *testing.T) {
	r, planner, _, _ := newRollouts(t)
	planner.plans = []*rollplanv1.PlanRolloutResponse{
		plan(patch("1.0", webPath)), planWith(&rollplanv1.SyncResponse{Value: []byte("v"), Reads: []*rollplanv1.Read{get("list", "ReplicaSet", "", setPath, "")}}),
	}
	must(r.Sync(t.Context(), key))
	planner.err = status.Error(codes.Unavailable, "connection refused")
	for range 2 {
		if result, err := r.Sync(t.Context(), key); status.Code(err) != codes.Unavailable || result.Response != nil {
			t.Errorf("the result is %v, the error %v", result, err)
		}
	}
	planner.err = nil
	must(r.Sync(t.Context(), key))
	first := planner.requests[1].GetSync()
	if len(first.GetAnswers()) != 1 {
		t.Errorf("the request is %v", first)
	}
	for _, request := range planner.requests[2:4] {
		if !proto.Equal(request.GetSync(), first) {
			t.Errorf("the request is %v, want %v", request.GetSync(), first)
		}
	}
}

func TestStepsHaveNoAnswerAfterTheSyncIsCancelled(t *testing.T) {
	for cancelled, want := range map[string][]*rollplanv1.Answer{
		"PATCH /first":  {{Id: "1.0", Made: true}},
		"PATCH /second": {{Id: "1.0", Made: true, HttpCode: http.StatusOK, Body: []byte("{}")}, {Id: "1.1", Made: true}},
	} {
		r, planner, cluster, _ := newRollouts(t)
		ctx, cancel := context.WithCancel(t.Context())
		cluster.answers = map[string]Answer{"PATCH /first": {http.StatusOK, []byte("{}")}, "PATCH /second": {http.StatusOK, []byte("{}")}}
		cluster.before = func(call string) {
			if call == cancelled {
				cancel()
			}
		}
		planner.plans = []*rollplanv1.PlanRolloutResponse{plan(patch("1.0", "/first"), patch("1.1", "/second"), patch("1.2", "/third"))}
		if _, err := r.Sync(ctx, key); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		must(r.Sync(t.Context(), key))
		planner.checkAnswers(t, want...)
	}
}

func TestPlanIsRequestedAgainAfterASyncIsCancelledBeforeItsCalls(t *testing.T) {
	r, planner, _, _ := newRollouts(t)
	must(r.Sync(t.Context(), key))
	r.states[key].due = time.Now()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	planner.plans = []*rollplanv1.PlanRolloutResponse{plan(patch("1.0", webPath))}
	if _, err := r.Sync(cancelled, key); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if result := must(r.Sync(t.Context(), key)); result.Unchanged {
		t.Error("nothing has planned again")
	}
	planner.checkAnswers(t)
}

func TestMissingOwnerIsForgotten(t *testing.T) {
	gone := Answer{http.StatusNotFound, []byte(`{"kind":"Status","apiVersion":"v1","code":404}`)}
	for what, lose := range map[string]func(planner *planner, cluster *cluster, reader snapshotReader){
		"the cache does not have it": func(_ *planner, _ *cluster, reader snapshotReader) { reader[Deployment] = nil },
		"the API server does not have it": func(planner *planner, cluster *cluster, reader snapshotReader) {
			reader.show(cluster, Deployment, 2)
			cluster.answers = map[string]Answer{"GET " + webPath: gone}
			planner.plans = []*rollplanv1.PlanRolloutResponse{planWith(&rollplanv1.SyncResponse{Reads: []*rollplanv1.Read{get("get.uid", "Deployment", "web", webPath, "")}})}
		},
	} {
		r, planner, cluster, reader := newRollouts(t)
		must(r.Sync(t.Context(), key))
		lose(planner, cluster, reader)
		if result := must(r.Sync(t.Context(), key)); result.Response != nil || result.Unchanged || len(r.states) != 0 {
			t.Errorf("%s: the result is %v, the states are %v", what, result, r.states)
		}
	}
	// A missing ReplicaSet is an answer.
	r, planner, cluster, reader := newRollouts(t)
	cluster.answers = map[string]Answer{"GET " + setPath: gone}
	planner.plans = []*rollplanv1.PlanRolloutResponse{planWith(&rollplanv1.SyncResponse{Reads: []*rollplanv1.Read{get("get.set", "ReplicaSet", "web-1", setPath, "")}})}
	must(r.Sync(t.Context(), key))
	planner.checkAnswers(t, &rollplanv1.Answer{Id: "get.set", Made: true, HttpCode: http.StatusNotFound, Body: gone.Body})
	// Another Deployment of the same name starts without a value.
	text := strings.Replace(cluster.objects[webPath][0], `"uid":"uid-shop"`, `"uid":"other"`, 1)
	reader[Deployment] = []*Object{must(ParseObject([]byte(text), Deployment))}
	must(r.Sync(t.Context(), key))
	if sync := planner.requests[len(planner.requests)-1].GetSync(); len(sync.GetValue()) != 0 || len(sync.GetAnswers()) != 0 {
		t.Errorf("the state of the loop is %v", sync)
	}
}

func TestPodsArePartOfRequestsWhileThePlannerNeedsThem(t *testing.T) {
	r, planner, cluster, reader := newRollouts(t)
	watch := func(watch bool) *rollplanv1.PlanRolloutResponse {
		return planWith(&rollplanv1.SyncResponse{WatchPods: watch})
	}
	planner.plans = []*rollplanv1.PlanRolloutResponse{plan(patch("1.0", webPath)), watch(true), watch(true), watch(false)}
	must(r.Sync(t.Context(), key))
	must(r.Sync(t.Context(), key)) // at once again, with the pods and the same answers
	reader.show(cluster, Pod, 2)
	must(r.Sync(t.Context(), key))
	must(r.Sync(t.Context(), key))
	var pods []bool
	var answers []int
	for _, request := range planner.requests {
		has := len(request.GetSnapshot().GetObjects()) == 3
		if has != request.GetSnapshot().GetPodsComplete() {
			t.Errorf("the snapshot is %v", request.GetSnapshot())
		}
		pods, answers = append(pods, has), append(answers, len(request.GetSync().GetAnswers()))
	}
	if !slices.Equal(pods, []bool{false, false, true, true, false}) || !slices.Equal(answers, []int{0, 1, 1, 0, 0}) {
		t.Errorf("requests have pods: %v, answers: %v", pods, answers)
	}
	reader.show(cluster, Pod, 3)
	if result := must(r.Sync(t.Context(), key)); !result.Unchanged {
		t.Error("a pod that no request needs counts as a change")
	}
}

func TestServiceThatDoesNotLeadIsRefused(t *testing.T) {
	r, _, cluster, _ := newRollouts(t)
	r.Planner = oldPlanner{}
	if _, err := r.Sync(t.Context(), key); err == nil || len(cluster.patches) != 0 {
		t.Errorf("the error is %v, the calls are %v", err, cluster.patches)
	}
}

func TestStepsAreApplied(t *testing.T) {
	r, _, cluster, _ := newRollouts(t)
	if err := r.Apply(t.Context(), key, []*rollplanv1.Step{patch("", webPath)}); err != nil || !slices.Equal(cluster.patches, []string{webPath + " {}"}) {
		t.Errorf("the error is %v, the calls are %v", err, cluster.patches)
	}
	cluster.reject[webPath] = http.StatusForbidden
	var failed *CallError
	if err := r.Apply(t.Context(), key, []*rollplanv1.Step{patch("", webPath)}); !errors.As(err, &failed) || failed.Answer.Code != http.StatusForbidden {
		t.Errorf("the error is %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Apply(cancelled, key, []*rollplanv1.Step{patch("", webPath)}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestForecastHasPodsAndOptions(t *testing.T) {
	r, planner, _, _ := newRollouts(t)
	r.Options = &rollplanv1.PlanOptions{TerminatingReplicas: new(false)}
	change := &rollplanv1.DeploymentChange{Change: &rollplanv1.DeploymentChange_Replicas{Replicas: 5}}
	for _, given := range []*rollplanv1.ForecastRolloutRequest{
		nil, {Changes: []*rollplanv1.DeploymentChange{change}, Samples: 10, Options: &rollplanv1.PlanOptions{Horizon: rollplanv1.Horizon_HORIZON_SETTLED}},
	} {
		response, err := r.Forecast(t.Context(), key, given)
		if err != nil || response.GetEffect() != rollplanv1.ChangeEffect_CHANGE_EFFECT_SCALE_ONLY {
			t.Fatalf("the forecast is %v, %v", response, err)
		}
		request := planner.forecasts[len(planner.forecasts)-1]
		snapshot := request.GetSnapshot()
		if len(snapshot.GetObjects()) != 3 || !snapshot.GetPodsComplete() || !snapshot.GetReplicaSetsComplete() {
			t.Errorf("the snapshot is %v", snapshot)
		}
		options := request.GetOptions()
		if len(request.GetChanges()) != len(given.GetChanges()) || request.GetSamples() != given.GetSamples() ||
			options.TerminatingReplicas == nil || options.GetHorizon() != given.GetOptions().GetHorizon() {
			t.Errorf("the request is %v", request)
		}
	}
	if r.Options.GetHorizon() != rollplanv1.Horizon_HORIZON_UNSPECIFIED {
		t.Errorf("the options have changed: %v", r.Options)
	}
	if response, err := r.Forecast(t.Context(), missing, nil); response != nil || err != nil {
		t.Errorf("the forecast of a missing Deployment is %v, %v", response, err)
	}
}

func TestCanaryIsPlannedWithPods(t *testing.T) {
	r, planner, _, _ := newRollouts(t)
	given := &rollplanv1.PlanCanaryRequest{Policy: &rollplanv1.CanaryPolicy{Pods: "2"}}
	before := proto.CloneOf(given)
	for i := range 2 {
		response, err := r.PlanCanary(t.Context(), key, given)
		if err != nil || response.GetReport().GetPhase() != rollplanv1.CanaryPhase_CANARY_PHASE_HOLD {
			t.Fatalf("the plan is %v, %v", response, err)
		}
		if request := planner.canaries[i]; request.GetPolicy().GetPods() != "2" || len(request.GetSnapshot().GetObjects()) != 3 {
			t.Errorf("the request is %v", request)
		}
	}
	if !proto.Equal(given, before) {
		t.Errorf("the given request has changed: %v", given)
	}
	if response, err := r.PlanCanary(t.Context(), missing, nil); response != nil || err != nil {
		t.Errorf("the canary of a missing Deployment is %v, %v", response, err)
	}
}

func TestWaitEndsWithTheVerdict(t *testing.T) {
	report := func(outlook rollplanv1.Outlook, final bool) *rollplanv1.RolloutReport {
		return &rollplanv1.RolloutReport{Verdict: &rollplanv1.Verdict{Outlook: outlook, Final: final}}
	}
	undecided := report(rollplanv1.Outlook_OUTLOOK_UNDECIDED, false)
	// A user may resume it.
	paused := report(rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE, false)
	for _, test := range []struct {
		what string
		last *rollplanv1.RolloutReport
		err  error
	}{
		{"complete", report(rollplanv1.Outlook_OUTLOOK_COMPLETE, true), nil},
		{"failed", report(rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE, true), ErrStalled},
	} {
		t.Run(test.what, func(t *testing.T) {
			r, planner, _, _ := newRollouts(t)
			planner.reports = []*rollplanv1.RolloutReport{undecided, paused, test.last}
			got, err := r.Wait(t.Context(), key, time.Millisecond)
			if got != test.last || !errors.Is(err, test.err) {
				t.Errorf("report is %v, error is %v", got, err)
			}
			var previous []*rollplanv1.Verdict
			for _, request := range planner.statuses {
				previous = append(previous, request.GetPreviousVerdict())
			}
			if want := []*rollplanv1.Verdict{nil, undecided.Verdict, paused.Verdict}; !slices.Equal(previous, want) {
				t.Errorf("previous verdicts are %v, want %v", previous, want)
			}
		})
	}
}
