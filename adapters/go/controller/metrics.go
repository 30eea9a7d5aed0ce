package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

var (
	plannerSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rollplan_controller_planner_request_duration_seconds",
		Help:    "Duration of attempts to call the rollplan service, by gRPC status code.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
	}, []string{"code"})
	syncs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollplan_controller_syncs_total",
		Help: "Syncs of Deployments, or of namespaces in the mode restarts, by outcome: synced, unchanged (no plan was needed), call_failed (a call of the plan failed), native_controller (the probe prevents all work), planner_unavailable or error.",
	}, []string{"outcome"})
	failedCalls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollplan_controller_failed_calls_total",
		Help: "Calls that failed, by the reason that the API server gave, or Unknown.",
	}, []string{"reason"})
	rollouts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollplan_controller_rollouts",
		Help: "Deployments by the phase and the verdict of their rollout in the last plan, and whether the verdict is certain.",
	}, []string{"phase", "verdict", "certain"})
)

func init() {
	ctrlmetrics.Registry.MustRegister(plannerSeconds, syncs, failedCalls, rollouts)
}

// MeasurePlanner is an interceptor that measures the calls to the service.
func MeasurePlanner(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	start := time.Now()
	err := invoke(ctx, method, request, reply, conn, options...)
	plannerSeconds.WithLabelValues(status.Code(err).String()).Observe(time.Since(start).Seconds())
	return err
}

// Outcomes of a sync, the values of a label.
const (
	outcomeSynced           = "synced"
	outcomeUnchanged        = "unchanged"
	outcomeCallFailed       = "call_failed"
	outcomeNativeController = "native_controller"
	outcomeUnavailable      = "planner_unavailable"
	outcomeError            = "error"
)

// outcome classifies a sync.
func outcome(unchanged bool, failed, err error) string {
	switch {
	case status.Code(err) == codes.Unavailable:
		return outcomeUnavailable
	case err != nil:
		return outcomeError
	case failed != nil:
		return outcomeCallFailed
	case unchanged:
		return outcomeUnchanged
	default:
		return outcomeSynced
	}
}

// countFailed counts the failed calls that an error joins.
func countFailed(err error) {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return
	}
	for _, each := range joined.Unwrap() {
		reason := string(apierrors.ReasonForError(each))
		if reason == "" {
			reason = "Unknown"
		}
		failedCalls.WithLabelValues(reason).Inc()
	}
}

// phases keeps the gauge of rollouts by phase and verdict.
type phases struct {
	mu     sync.Mutex
	latest map[reconcile.Request]prometheus.Gauge
}

// set records the report of a Deployment, or that it no longer exists.
func (p *phases) set(request reconcile.Request, report *rollplanv1.RolloutReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.latest[request]; ok {
		before.Dec()
		delete(p.latest, request)
	}
	if report == nil {
		return
	}
	if p.latest == nil {
		p.latest = map[reconcile.Request]prometheus.Gauge{}
	}
	verdict := report.GetVerdict()
	gauge := rollouts.WithLabelValues(label(report.GetPhase(), "PHASE_"), label(verdict.GetOutlook(), "OUTLOOK_"), strconv.FormatBool(verdict.GetCertain()))
	gauge.Inc()
	p.latest[request] = gauge
}

// label returns the label value of an enum, for example "progressing".
func label(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}
