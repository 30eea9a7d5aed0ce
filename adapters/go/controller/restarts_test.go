package controller

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// restartPlanner returns the given response to each request, or the error.
type restartPlanner struct {
	rollplanv1.RolloutPlannerClient
	response *rollplanv1.PlanRestartsResponse
	err      error
}

func (p *restartPlanner) PlanRestarts(context.Context, *rollplanv1.PlanRestartsRequest, ...grpc.CallOption) (*rollplanv1.PlanRestartsResponse, error) {
	return p.response, p.err
}

var shopRequest = reconcile.Request{NamespacedName: types.NamespacedName{Name: "shop"}}

// newRestarter returns a restarter whose cache is empty.
func newRestarter(profile rollplanv1.RestartProfile) (*restarter, *restartPlanner) {
	api, err := rollplan.NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1}, &http.Client{Transport: &cluster{}})
	if err != nil {
		panic(err)
	}
	cache, err := rollplan.NewRestartCache(api, rollplan.RestartWatches{Kinds: rollplan.WorkloadKinds(profile), Secrets: true})
	if err != nil {
		panic(err)
	}
	p := &restartPlanner{response: &rollplanv1.PlanRestartsResponse{Sync: &rollplanv1.SyncResponse{NotBefore: durationpb.New(time.Second), AtLatest: durationpb.New(time.Hour)}}}
	return &restarter{
		restarts: &rollplan.Restarts{Planner: p, Cache: cache, API: api, Options: &rollplanv1.RestartOptions{Profile: profile}},
		metrics:  newRestartMetrics(profile),
	}, p
}

func TestRestartsAreThrottledAndFollowTheTimerOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newRestarter(0)
		for _, step := range []struct {
			what         string
			elapsed      time.Duration
			err          error
			min, max     time.Duration
			isReconciled bool
		}{
			{"first plan", 0, nil, time.Hour, time.Hour, true},
			{"too early", 400 * time.Millisecond, nil, 600 * time.Millisecond, 600 * time.Millisecond, false},
			{"service unavailable", 600 * time.Millisecond, status.Error(codes.Unavailable, "connection refused"), plannerBackoff, 2 * plannerBackoff, true},
			{"next plan", 2 * plannerBackoff, nil, time.Hour, time.Hour, true},
		} {
			time.Sleep(step.elapsed)
			p.err = step.err
			result, err := r.Reconcile(t.Context(), shopRequest)
			if err != nil || result.RequeueAfter < step.min || result.RequeueAfter > step.max {
				t.Errorf("%s: result is %v, error is %v; want %+v", step.what, result, err, step)
			}
		}
	})
}

func TestSyncOfRestartsThatTakesTooLongIsRepeated(t *testing.T) {
	r, p := newRestarter(0)
	checkEnds(t, r, shopRequest, &p.err)
}

// appliedRestart is the result of a sync that has restarted a Deployment, while another one waits.
func appliedRestart(namespaces ...string) rollplan.RestartResult {
	restarted := &rollplanv1.RestartPlan{
		Kind: "Deployment", Namespace: "shop", Decision: rollplanv1.RestartDecision_RESTART_DECISION_RESTART,
		Steps: []*rollplanv1.Step{{Summary: "restart Deployment web"}},
		Changes: []*rollplanv1.ConfigurationChange{
			{Kind: rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET, Type: "changed"},
			{Kind: rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET, Type: "changed"},
		},
	}
	waiting := &rollplanv1.RestartPlan{
		Kind: "Deployment", Namespace: "shop", Decision: rollplanv1.RestartDecision_RESTART_DECISION_WAIT,
		Conditions: []*rollplanv1.RestartCondition{{Reason: "QUIET_WINDOW"}},
	}
	return rollplan.RestartResult{
		Namespaces: namespaces, Counts: &rollplanv1.RestartCounts{Selected: 5},
		Plans: []*rollplanv1.RestartPlan{restarted, waiting}, Applied: []*rollplanv1.RestartPlan{restarted},
	}
}

func TestRestartsAreCountedByKindAndCause(t *testing.T) {
	r, _ := newRestarter(0)
	restarts := testutil.ToFloat64(restartsTotal.WithLabelValues("Deployment"))
	causes := testutil.ToFloat64(restartCauses.WithLabelValues("Secret", "changed"))
	for range 2 { // gauges are of the last plan
		r.metrics.observe(appliedRestart("shop"), r.restarts.Cache)
	}
	for what, value := range map[string][2]float64{
		"restarts":        {testutil.ToFloat64(restartsTotal.WithLabelValues("Deployment")) - restarts, 2},
		"causes":          {testutil.ToFloat64(restartCauses.WithLabelValues("Secret", "changed")) - causes, 4},
		"waiting":         {testutil.ToFloat64(restartDecisions.WithLabelValues("wait")), 1},
		"in quiet window": {testutil.ToFloat64(restartConditions.WithLabelValues("quiet_window")), 1},
	} {
		if value[0] != value[1] {
			t.Errorf("%s: %v, want %v", what, value[0], value[1])
		}
	}
	r.metrics.observe(rollplan.RestartResult{Namespaces: []string{"bank", "shop"}}, r.restarts.Cache)
	if n := testutil.ToFloat64(restartDecisions.WithLabelValues("wait")); n != 0 {
		t.Errorf("%v workloads wait after they were planned with another namespace", n)
	}
}

func TestMetricsOfTheXingControllerAreThoseOfItsProfile(t *testing.T) {
	r, _ := newRestarter(rollplanv1.RestartProfile_RESTART_PROFILE_XING)
	r.metrics.observe(appliedRestart("shop"), r.restarts.Cache)
	r.metrics.observeVersion(&rollplan.Object{})
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if name, ok := strings.CutPrefix(family.GetName(), "deployment_restart_controller_"); ok {
			metric := family.GetMetric()[0]
			found[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"resource_versions_total": 1, "deployment_annotation_updates_total": 1, "deployment_restarts_total": 1, "changes_processed_total": 2,
		"configs_total": 0, "deployments_total": 5, "changes_waiting_total": 1,
	} {
		if value, ok := found[name]; !ok || value != want {
			t.Errorf("%s is %v (%t), want %v", name, value, ok, want)
		}
	}
	if len(found) != 7 {
		t.Errorf("%d metrics of the xing controller, want 7: %v", len(found), found)
	}
}

func TestNamespaceIsPlannedOnlyIfSomethingRelevantHasChanged(t *testing.T) {
	object := func(uid, json, checksum string) *rollplan.Object {
		o := &rollplan.Object{JSON: json, Configuration: &rollplanv1.Configuration{Checksum: checksum}}
		o.UID, o.ResourceVersion = types.UID(uid), uid+json+checksum
		return o
	}
	before := object("u", "{}", "1")
	same := object("u", "{}", "1")
	same.ResourceVersion = "9"
	for want, after := range map[bool][]*rollplan.Object{
		false: {same}, true: {object("v", "{}", "1"), object("u", "[]", "1"), object("u", "{}", "2")},
	} {
		for _, after := range after {
			if isRelevant(before, after) != want {
				t.Errorf("%+v: relevant is %t", after, !want)
			}
		}
	}
	namespace := &rollplan.Object{}
	namespace.SetGroupVersionKind(rollplan.Namespace)
	namespace.Name = "shop"
	pod := &rollplan.Object{}
	pod.Namespace, pod.Name = "shop", "web"
	if keys := []reconcile.Request{keyOf(namespace), keyOf(pod)}; !slices.Equal(keys, []reconcile.Request{shopRequest, shopRequest}) {
		t.Errorf("keys are %v", keys)
	}
}
