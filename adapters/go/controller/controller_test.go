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

// plan returns a plan without steps, after which the next sync may start in a second, and is due in an hour.
func plan() *rollplanv1.PlanRolloutResponse {
	return &rollplanv1.PlanRolloutResponse{Sync: &rollplanv1.SyncResponse{
		NotBefore: durationpb.New(time.Second), AtLatest: durationpb.New(time.Hour),
	}}
}

// failedPlan returns a plan whose call fails with NotFound, because the ReplicaSet does not exist.
func failedPlan() *rollplanv1.PlanRolloutResponse {
	plan := plan()
	plan.Steps = []*rollplanv1.Step{{Call: &rollplanv1.ApiCall{
		Verb: rollplanv1.Verb_VERB_PATCH, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
		ContentType: "application/merge-patch+json", BodyJson: "{}", Path: "/apis/apps/v1/namespaces/shop/replicasets/web-1",
	}}}
	return plan
}

func TestSyncsFollowTheTimersOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newReconciler(plan(), failedPlan(), plan())
		for _, step := range []struct {
			what         string
			elapsed      time.Duration
			requeueAfter time.Duration
			requests     int
		}{
			{"first plan", 0, time.Hour, 1},
			{"too early", 400 * time.Millisecond, 600 * time.Millisecond, 1},
			{"failed call", 600 * time.Millisecond, time.Second, 2},
			{"plan that reports the failure", time.Second, time.Hour, 3},
		} {
			time.Sleep(step.elapsed)
			if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != step.requeueAfter || p.requests != step.requests {
				t.Errorf("%s: result is %v, error is %v, %d requests; want %+v", step.what, result, err, p.requests, step)
			}
		}
	})
}

func TestUnavailableServiceCausesNoExponentialBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newReconciler()
		p.err = status.Error(codes.Unavailable, "connection refused")
		seen := map[time.Duration]bool{}
		for i := range 20 {
			result, err := r.Reconcile(t.Context(), request)
			if err != nil || result.RequeueAfter < plannerBackoff || result.RequeueAfter >= 2*plannerBackoff {
				t.Fatalf("RequeueAfter is %s, error is %v", result.RequeueAfter, err)
			}
			seen[result.RequeueAfter] = true
			// A change in the meantime does not call the service.
			if early, err := r.Reconcile(t.Context(), request); err != nil || early != result || p.requests != i+1 {
				t.Errorf("too early: the result is %v, the error %v, %d requests", early, err, p.requests)
			}
			time.Sleep(result.RequeueAfter)
		}
		if len(seen) < 10 {
			t.Errorf("only %d different delays", len(seen))
		}
	})
}

func TestSyncThatTakesTooLongIsRepeated(t *testing.T) {
	r, p := newReconciler()
	checkEnds(t, r, request, &p.err)
}

// checkEnds checks that a sync is repeated if it takes too long, and not if the process stops. planned is the error of the planner.
func checkEnds(t *testing.T, r reconcile.Reconciler, request reconcile.Request, planned *error) {
	expired, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	*planned = status.FromContextError(expired.Err()).Err()
	if _, err := r.Reconcile(expired, request); err == nil {
		t.Error("the sync is not repeated")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	*planned = status.FromContextError(stopped.Err()).Err()
	if result, err := r.Reconcile(stopped, request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("after the end of the process: the result is %v, the error %v", result, err)
	}
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

func TestSyncsAreCountedByOutcomeAndPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		complete := plan()
		complete.Report = &rollplanv1.RolloutReport{
			Phase: rollplanv1.Phase_PHASE_COMPLETE, Verdict: &rollplanv1.Verdict{Outlook: rollplanv1.Outlook_OUTLOOK_COMPLETE, Certain: true},
		}
		r, p := newReconciler(failedPlan(), complete)
		before := map[string]float64{}
		outcomes := []string{outcomeCallFailed, outcomeSynced, outcomeUnavailable}
		for _, outcome := range outcomes {
			before[outcome] = testutil.ToFloat64(syncs.WithLabelValues(outcome))
		}
		notFound := testutil.ToFloat64(failedCalls.WithLabelValues("NotFound"))
		for i := range outcomes {
			if outcomes[i] == outcomeUnavailable {
				p.err = status.Error(codes.Unavailable, "connection refused")
			}
			time.Sleep(time.Second)
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		for _, outcome := range outcomes {
			if n := testutil.ToFloat64(syncs.WithLabelValues(outcome)) - before[outcome]; n != 1 {
				t.Errorf("%v syncs are %s, want 1", n, outcome)
			}
		}
		if n := testutil.ToFloat64(failedCalls.WithLabelValues("NotFound")) - notFound; n != 1 {
			t.Errorf("%v failed calls, want 1", n)
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
