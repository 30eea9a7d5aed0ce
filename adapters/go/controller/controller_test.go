package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// planner returns the given plans one after the other and counts the requests.
type planner struct {
	rollplanv1.RolloutPlannerClient
	plans    []*rollplanv1.PlanRolloutResponse
	requests int
	err      error
}

func (p *planner) PlanRollout(context.Context, *rollplanv1.PlanRolloutRequest, ...grpc.CallOption) (*rollplanv1.PlanRolloutResponse, error) {
	p.requests++
	if p.err != nil {
		return nil, p.err
	}
	plan := p.plans[0]
	p.plans = p.plans[1:]
	return plan, nil
}

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}

func newReconciler(plans ...*rollplanv1.PlanRolloutResponse) (*reconciler, *planner) {
	api, err := rollplan.NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1}, &http.Client{Transport: &cluster{}})
	if err != nil {
		panic(err)
	}
	p := &planner{plans: plans}
	return &reconciler{
		rollouts: &rollplan.Rollouts{Kind: rollplan.Deployment, Planner: p, Reader: api, API: api},
		throttle: throttle{interval: time.Second, limiter: newLimiter()},
	}, p
}

// cluster is an API server with a Deployment, whose version changes with each read, and without ReplicaSets.
type cluster struct{ version int }

func (c *cluster) RoundTrip(request *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, ""
	switch path := request.URL.Path; {
	case strings.HasSuffix(path, "/deployments/web"):
		c.version++
		body = fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"%d"},
			"spec":{"selector":{"matchLabels":{"app":"web"}}}}`, c.version)
	case strings.HasSuffix(path, "/replicasets"):
		body = `{"apiVersion":"apps/v1","kind":"ReplicaSetList","metadata":{},"items":[]}`
	default:
		code, body = http.StatusNotFound, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404,"details":{}}`
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
}

// rejectedPlan returns a plan whose call fails with NotFound, because the ReplicaSet does not exist.
func rejectedPlan() *rollplanv1.PlanRolloutResponse {
	return &rollplanv1.PlanRolloutResponse{Steps: []*rollplanv1.Step{{Call: &rollplanv1.ApiCall{
		Verb: rollplanv1.Verb_VERB_PATCH, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
		ContentType: "application/merge-patch+json", BodyJson: "{}", Path: "/apis/apps/v1/namespaces/shop/replicasets/web-1",
	}}}}
}

func TestEachRejectionDoublesTheBackoffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := &rollplanv1.PlanRolloutResponse{RequeueAfter: durationpb.New(time.Hour)}
		r, _ := newReconciler(rejectedPlan(), timer, rejectedPlan(), timer, timer)
		queue := manualResetLimiter{r.limiter}
		for _, want := range []struct {
			what         string
			requeueAfter time.Duration
			rejections   int
		}{
			{"rejected call", r.interval, 0},
			{"plan that reports the rejection", minBackoff, 1},
			{"another rejected call", r.interval, 1},
			{"plan that reports this one", 2 * minBackoff, 2},
			{"plan without failures", time.Hour, 0},
		} {
			time.Sleep(r.interval)
			result, err := r.Reconcile(t.Context(), request)
			queue.Forget(request) // the controller does so after a reconciliation without an error
			if n := r.limiter.NumRequeues(request); err != nil || result.RequeueAfter != want.requeueAfter || n != want.rejections {
				t.Errorf("%s: RequeueAfter is %s, error is %v, %d rejections are counted; want %+v", want.what, result.RequeueAfter, err, n, want)
			}
		}
	})
}

func TestUnavailableServiceCausesNoExponentialBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newReconciler()
		p.err = status.Error(codes.Unavailable, "connection refused")
		seen := map[time.Duration]bool{}
		for range 20 {
			time.Sleep(r.interval)
			result, err := r.Reconcile(t.Context(), request)
			if err != nil || result.RequeueAfter < plannerBackoff || result.RequeueAfter >= 2*plannerBackoff {
				t.Fatalf("RequeueAfter is %s, error is %v", result.RequeueAfter, err)
			}
			seen[result.RequeueAfter] = true
		}
		if n := r.limiter.NumRequeues(request); n != 0 {
			t.Errorf("%d rejections are counted", n)
		}
		if len(seen) < 10 {
			t.Errorf("only %d different delays", len(seen))
		}
	})
}

func TestStopWhileTheCacheIsReadIsNotAnError(t *testing.T) {
	r, _ := newReconciler()
	cache, err := rollplan.NewCache(r.rollouts.API, rollplan.Deployment, labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&source{r, cache}).WaitForSync(canceled); err != nil {
		t.Errorf("canceled: %v", err)
	}
	expired, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	if err := (&source{r, cache}).WaitForSync(expired); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expired: %v", err)
	}
}

func TestMinIntervalDelaysSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := &rollplanv1.PlanRolloutResponse{}
		r, p := newReconciler(plan, plan)
		for _, step := range []struct {
			elapsed      time.Duration
			requeueAfter time.Duration
			requests     int
		}{
			{0, 0, 1},
			{400 * time.Millisecond, 600 * time.Millisecond, 1},
			{600 * time.Millisecond, 0, 2},
		} {
			time.Sleep(step.elapsed)
			if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != step.requeueAfter || p.requests != step.requests {
				t.Errorf("after %s: result is %v, error is %v, %d requests; want %+v", step.elapsed, result, err, p.requests, step)
			}
		}
	})
}

func TestSyncsAreCountedByOutcomeAndPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		complete := &rollplanv1.PlanRolloutResponse{Report: &rollplanv1.RolloutReport{
			Phase: rollplanv1.Phase_PHASE_COMPLETE, Verdict: &rollplanv1.Verdict{Outlook: rollplanv1.Outlook_OUTLOOK_COMPLETE, Certain: true},
		}}
		r, p := newReconciler(rejectedPlan(), complete, complete)
		before := map[string]float64{}
		outcomes := []string{outcomeRejected, outcomeRetry, outcomeSynced, outcomeUnavailable}
		for _, outcome := range outcomes {
			before[outcome] = testutil.ToFloat64(syncs.WithLabelValues(outcome))
		}
		notFound := testutil.ToFloat64(rejectedCalls.WithLabelValues("NotFound"))
		for i := range outcomes {
			if outcomes[i] == outcomeUnavailable {
				p.err = status.Error(codes.Unavailable, "connection refused")
			}
			time.Sleep(r.interval)
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		for _, outcome := range outcomes {
			if n := testutil.ToFloat64(syncs.WithLabelValues(outcome)) - before[outcome]; n != 1 {
				t.Errorf("%v syncs are %s, want 1", n, outcome)
			}
		}
		if n := testutil.ToFloat64(rejectedCalls.WithLabelValues("NotFound")) - notFound; n != 1 {
			t.Errorf("%v rejected calls, want 1", n)
		}
		if n := testutil.ToFloat64(rollouts.WithLabelValues("complete", "complete", "true")); n != 1 {
			t.Errorf("%v rollouts are complete, want 1", n)
		}
		r.phases.set(request, nil)
		if n := testutil.ToFloat64(rollouts.WithLabelValues("complete", "complete", "true")); n != 0 {
			t.Errorf("%v rollouts are complete after the Deployment was deleted", n)
		}
		blocked := &rollplanv1.RolloutReport{Phase: rollplanv1.Phase_PHASE_PROGRESSING, Verdict: &rollplanv1.Verdict{Outlook: rollplanv1.Outlook_OUTLOOK_NEEDS_CHANGE}}
		for _, certain := range []bool{false, true} {
			blocked.Verdict.Certain = certain
			r.phases.set(request, blocked)
			for _, value := range []bool{false, true} {
				n := testutil.ToFloat64(rollouts.WithLabelValues("progressing", "needs_change", strconv.FormatBool(value)))
				if want := map[bool]float64{true: 1}[value == certain]; n != want {
					t.Errorf("the verdict is certain: %t; %v rollouts have certain=%t, want %v", certain, n, value, want)
				}
			}
		}
		// The metric is one for all tests.
		r.phases.set(request, nil)
	})
}
