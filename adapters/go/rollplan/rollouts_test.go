package rollplan

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// These tests are of what the transcripts in tests/conformance do not cover: time, the requests of forecasts, waiting, and the
// native Deployment controller.

var (
	key     = types.NamespacedName{Namespace: "shop", Name: "web"}
	missing = types.NamespacedName{Namespace: "shop", Name: "missing"}
)

// patch returns a step that patches an object in shop.
func patch(kind, resource, name, body string) *rollplanv1.Step {
	path := fmt.Sprintf("/apis/apps/v1/namespaces/shop/%s/%s", resource, name)
	return &rollplanv1.Step{Call: &rollplanv1.ApiCall{
		Verb: rollplanv1.Verb_VERB_PATCH, ApiVersion: "apps/v1", Kind: kind, Namespace: "shop", Name: name, Path: path,
		ContentType: "application/merge-patch+json", BodyJson: body,
	}}
}

func TestUnchangedObjectsNeedNoPlan(t *testing.T) {
	status := patch("Deployment", "deployments", "web", `{"status":{"observedGeneration":1}}`)
	status.Action = &rollplanv1.Step_UpdateDeploymentStatus{UpdateDeploymentStatus: &rollplanv1.UpdateDeploymentStatus{}}
	synctest.Test(t, func(t *testing.T) {
		r, planner, cluster, reader := newRollouts(t)
		timer := time.Duration(0)
		sync := func(what string, plans int) {
			t.Helper()
			before := len(planner.requests)
			result, err := r.Sync(t.Context(), key)
			if got := len(planner.requests) - before; err != nil || got != plans || result.Unchanged != (plans == 0) || plans == 0 && result.RequeueAfter != timer {
				t.Errorf("%s: %d plans, want %d; %v, %v", what, got, plans, result, err)
			}
		}
		planner.plans = [][]*rollplanv1.Step{{status}}
		sync("the first plan publishes the status", 1)
		// A plan may publish only the beginning of a rollout, and leave the other writes of the Deployment to the next one.
		sync("before the cache shows it", 1)
		sync("after a plan without calls", 0)
		reader.show(cluster, Deployment, 2)
		sync("after the cache shows it", 0)

		planner.plans = [][]*rollplanv1.Step{{patch("ReplicaSet", "replicasets", "web-1", `{"spec":{"replicas":2}}`)}}
		reader.show(cluster, Deployment, 3)
		sync("another client's change", 1)
		sync("after the write", 1)
		reader.show(cluster, ReplicaSet, 2)
		sync("after the cache shows it", 0)

		r.states[key].planned = nil
		planner.requeueAfter, timer = time.Hour, time.Hour
		sync("a plan with a timer", 1)
		sync("before the timer ends", 0)
		time.Sleep(time.Hour)
		sync("after the timer has ended", 1)
	})
}

func TestForecastHasPodsAndOptions(t *testing.T) {
	r, planner, _, reader := newRollouts(t)
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
		// The native Deployment controller may carry out what is forecast.
		reader[Deployment][0].nativeStatusWrite = time.Now()
	}
	if r.Options.GetHorizon() != rollplanv1.Horizon_HORIZON_UNSPECIFIED {
		t.Errorf("the options have changed: %v", r.Options)
	}
	if response, err := r.Forecast(t.Context(), missing, nil); response != nil || err != nil {
		t.Errorf("the forecast of a missing Deployment is %v, %v", response, err)
	}
}

func TestCanaryOfANativeDeploymentIsPlanned(t *testing.T) {
	r, planner, _, reader := newRollouts(t)
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
		// The native Deployment controller carries out the rollout.
		reader[Deployment][0].nativeStatusWrite = time.Now()
	}
	if !proto.Equal(given, before) {
		t.Errorf("the given request has changed: %v", given)
	}
	if response, err := r.PlanCanary(t.Context(), missing, nil); response != nil || err != nil {
		t.Errorf("the canary of a missing Deployment is %v, %v", response, err)
	}
}

func TestNativeControllerStopsSyncs(t *testing.T) {
	r, planner, cluster, reader := newRollouts(t)
	events := record.NewFakeRecorder(1)
	r.Recorder = events
	must(r.Sync(t.Context(), key))
	r.states[key].verified = true
	reader.show(cluster, Deployment, 2)
	reader[Deployment][0].nativeStatusWrite = time.Now()
	if _, err := r.Sync(t.Context(), key); !errors.Is(err, ErrNativeController) || len(planner.requests) != 1 {
		t.Errorf("the native controller is not detected: %v, %d plans", err, len(planner.requests))
	}
	if len(events.Events) != 1 || r.states[key].verified {
		t.Errorf("%d events; the ReplicaSets count as known: %t", len(events.Events), r.states[key].verified)
	}
}

func TestRejectionIsAnErrorAndRetriedAfterTheNextPlan(t *testing.T) {
	r, planner, cluster, _ := newRollouts(t)
	cluster.reject[webPath] = http.StatusForbidden
	planner.plans = [][]*rollplanv1.Step{{patch("Deployment", "deployments", "web", `{}`)}}
	result, err := r.Sync(t.Context(), key)
	var failed *CallError
	if !errors.As(err, &failed) || failed.Answer.Code != http.StatusForbidden || !result.Retry {
		t.Fatalf("the error is %v, the result %v", err, result)
	}
	for _, retry := range []bool{true, false} {
		if result, err := r.Sync(t.Context(), key); err != nil || result.Retry != retry {
			t.Errorf("the error is %v, the result %v", err, result)
		}
	}
}

func TestReplicaSetsAreListedOnce(t *testing.T) {
	r, planner, cluster, _ := newRollouts(t)
	step := patch("ReplicaSet", "replicasets", "web-1", `{}`)
	for range 2 {
		planner.plans = [][]*rollplanv1.Step{{step}}
		must(r.Sync(t.Context(), key))
	}
	if want := []string{"/apis/apps/v1/namespaces/shop/replicasets"}; !slices.Equal(cluster.lists, want) {
		t.Errorf("lists are %v, want %v", cluster.lists, want)
	}
}

func TestCreatedObjectThatTheCacheNeverShowsRaisesDoubts(t *testing.T) {
	s, now := newState(), time.Now()
	created := must(ParseObject([]byte(shop().objects[replicaSetsPath][0]), ReplicaSet))
	s.recordWrite(created, rollplanv1.Verb_VERB_CREATE, now)
	s.verified = true
	if objects := s.overlayWrites(ReplicaSet.Kind, nil, now.Add(maxCacheLag-1)); len(objects) != 1 || !s.verified {
		t.Errorf("before the limit: %v, %t", objects, s.verified)
	}
	if objects := s.overlayWrites(ReplicaSet.Kind, nil, now.Add(maxCacheLag)); len(objects) != 0 || s.verified {
		t.Errorf("after the limit: %v, %t", objects, s.verified)
	}
}

func TestDeletionIsForgottenOnceTheCacheShowsIt(t *testing.T) {
	s, now := newState(), time.Now()
	set := must(ParseObject([]byte(shop().objects[replicaSetsPath][0]), ReplicaSet))
	call := &rollplanv1.ApiCall{
		Verb: rollplanv1.Verb_VERB_DELETE, ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", BodyJson: `{"preconditions":{"uid":"set"}}`,
	}
	if err := s.recordAnswer(call, Answer{}, now); err != nil {
		t.Fatal(err)
	}
	if objects := s.overlayWrites(ReplicaSet.Kind, []*Object{set}, now); len(objects) != 0 {
		t.Errorf("the deleted ReplicaSet is in %v", objects)
	}
	if s.overlayWrites(ReplicaSet.Kind, nil, now); len(s.writes) != 0 {
		t.Errorf("the deletion is kept: %v", s.writes)
	}
}

func TestMissingDeploymentIsForgotten(t *testing.T) {
	r, planner, _, reader := newRollouts(t)
	must(r.Sync(t.Context(), key))
	reader[Deployment] = nil
	for _, call := range []func() (any, error){
		func() (any, error) { result, err := r.Sync(t.Context(), key); return result.Response, err },
		func() (any, error) { plan, err := r.Plan(t.Context(), key); return plan, err },
	} {
		if plan, err := call(); !reflect.ValueOf(plan).IsNil() || err != nil || len(planner.requests) != 1 || len(r.states) > 0 {
			t.Errorf("the plan is %v, the error %v, %d requests, states are %v", plan, err, len(planner.requests), r.states)
		}
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

func TestNativeControllerDetection(t *testing.T) {
	object := func(managedFields string) *Object {
		text := fmt.Sprintf(`{"metadata":{"name":"web","namespace":"shop","uid":"u","managedFields":[%s]}}`, managedFields)
		return must(ParseObject([]byte(text), Deployment))
	}
	wrote := func(at string) *Object {
		return object(fmt.Sprintf(`{"manager":"kube-controller-manager","operation":"Update","subresource":"status","time":%q}`, at))
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
		{object(""), 3 * time.Second, true}, // our own write now owns all fields
		{wrote("2026-01-01T00:00:01Z"), 2*time.Second + nativeQuietPeriod, false},
	} {
		if err := detector.check(test.owner, now.Add(test.at)); errors.Is(err, ErrNativeController) != test.detected {
			t.Errorf("after %s: %v", test.at, err)
		}
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
		{"another write", interval * 3 / 2, rollplanv1.Phase_PHASE_PROGRESSING, []*rollplanv1.Step{patch("ReplicaSet", "replicasets", "web-1", `{"spec":{"replicas":2}}`), status}, false, 0},
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
