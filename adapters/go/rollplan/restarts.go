package rollplan

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Restarts requests plans of restarts and carries them out. Its methods are safe for concurrent use; one plan is carried
// out at a time, so the maximum of concurrent restarts is exact.
type Restarts struct {
	// Planner makes the plans. Usually it is a [rollplan.dev/rollplan/adapters/go/planner.Client].
	Planner rollplanv1.RolloutPlannerClient
	// Cache is a cache of [NewRestartCache] with the same watches.
	Cache *Cache
	// Watches are the watches of the cache.
	Watches RestartWatches
	// API makes the API calls of the plans.
	API *API
	// Recorder records events on the workloads. If it is nil, no events are recorded.
	Recorder record.EventRecorder
	// Options are sent with each request, except the key of checksums.
	Options *rollplanv1.RestartOptions
	// Session is a random text for each leadership. If it is empty, the first Sync generates it: then discard the Restarts with
	// the lease.
	Session string
	// MinInterval is the minimum time between two syncs of a namespace, for [RestartResult.NotBefore].
	MinInterval time.Duration

	mu sync.Mutex
	// value, included and answers are the state of the loop, the namespaces to include, and the answers to the last response.
	value    []byte
	included []string
	answers  []*rollplanv1.Answer
}

// RestartResult is the outcome of [Restarts.Sync].
type RestartResult struct {
	// Namespaces are the namespaces that were planned together.
	Namespaces []string
	// Plans are the plans of the workloads with something to report.
	Plans []*rollplanv1.RestartPlan
	// Counts are the totals of the plan.
	Counts *rollplanv1.RestartCounts
	// Applied are the plans that were carried out completely.
	Applied []*rollplanv1.RestartPlan
	// Violations are the objects that the planner cannot plan for.
	Violations []*rollplanv1.ItemViolation
	// NotBefore is the earliest time of the next sync of the namespace.
	NotBefore time.Time
	// RequeueAfter is when to sync again even if nothing changes. Zero means that no timer is needed.
	RequeueAfter time.Duration
	// Failed joins a [CallError] for each call that failed. The next sync reports them to the planner.
	Failed error
}

// Sync plans the restarts of a namespace and carries the plan out: the loop in docs/guides/adapters.md. A failed call does not end it.
// After an error, sync again with a backoff.
func (r *Restarts) Sync(ctx context.Context, namespace string) (RestartResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isSelected(namespace) {
		return RestartResult{Namespaces: []string{namespace}}, nil
	}
	if r.Session == "" {
		r.Session = rand.Text()
	}
	result, workloads, timers, err := r.plan(ctx, namespace)
	if err != nil {
		return RestartResult{}, err
	}
	planned := time.Now()
	result.NotBefore, result.RequeueAfter = planned.Add(timers.GetNotBefore().AsDuration()), timers.GetAtLatest().AsDuration()
	var failures []error
	for _, plan := range result.Plans {
		workload, ok := workloads[types.UID(plan.GetUid())]
		if !ok {
			continue
		}
		answers, failed := r.API.carryOut(ctx, r.Recorder, workload, plan.GetSteps())
		r.answers = append(r.answers, answers...)
		failures = append(failures, failed)
		if ctx.Err() != nil {
			break // perhaps before the last step
		}
		if failed == nil && len(plan.GetSteps()) > 0 {
			result.Applied = append(result.Applied, plan)
		}
		r.recordConditions(workload, plan)
	}
	if result.Failed = errors.Join(failures...); result.Failed != nil {
		result.RequeueAfter = timers.GetNotBefore().AsDuration()
	}
	return result, ctx.Err()
}

// plan requests a plan, and makes the reads that the planner requests first. It returns the workloads of the request, too.
func (r *Restarts) plan(ctx context.Context, namespace string) (RestartResult, map[types.UID]*Object, *rollplanv1.SyncResponse, error) {
	for {
		namespaces := slices.Compact(slices.Sorted(slices.Values(append([]string{namespace}, r.included...))))
		request, workloads := r.request(namespaces)
		result := RestartResult{Namespaces: namespaces}
		next, err := r.pages(ctx, request, &result)
		if err != nil {
			return RestartResult{}, nil, nil, err
		}
		for _, read := range next.GetReads() {
			answer, _ := r.API.Call(ctx, read.GetCall()) // the planner handles a failure
			r.answers = append(r.answers, answer.to(read.GetId()))
		}
		isMissing := func(namespace string) bool { return !slices.Contains(namespaces, namespace) }
		if len(next.GetReads()) == 0 && !slices.ContainsFunc(r.included, isMissing) {
			return result, workloads, next, nil
		}
		if ctx.Err() != nil {
			return RestartResult{}, nil, nil, ctx.Err()
		}
	}
}

// pages requests a plan with all its pages.
func (r *Restarts) pages(ctx context.Context, request *rollplanv1.PlanRestartsRequest, result *RestartResult) (*rollplanv1.SyncResponse, error) {
	for {
		page, err := r.Planner.PlanRestarts(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("plan restarts: %w", err)
		}
		if page.GetSync() == nil {
			return nil, errOlderService
		}
		result.Plans = append(result.Plans, page.GetPlans()...)
		result.Violations = append(result.Violations, page.GetViolations()...)
		if request.ContinueAfter = page.GetContinueAfter(); request.ContinueAfter == "" {
			result.Counts = page.GetCounts()
			r.value, r.included, r.answers = page.GetSync().GetValue(), page.GetIncludeNamespaces(), nil
			return page.GetSync(), nil
		}
	}
}

// isSelected reports whether workloads of a namespace are restarted.
func (r *Restarts) isSelected(namespace string) bool {
	if slices.Contains(r.Watches.IgnoredNamespaces, namespace) {
		return false
	}
	if r.Watches.NamespaceSelector == nil {
		return true
	}
	object, err := r.Cache.Get(context.Background(), Namespace, types.NamespacedName{Name: namespace})
	return err == nil && r.Watches.NamespaceSelector.Matches(labels.Set(object.Labels))
}

// request returns the request for some namespaces, and the workloads in them.
func (r *Restarts) request(namespaces []string) (*rollplanv1.PlanRestartsRequest, map[types.UID]*Object) {
	request := &rollplanv1.PlanRestartsRequest{
		Now: timestamppb.Now(), Options: r.Options,
		ConfigurationsComplete: r.Watches.complete(),
		Sync: &rollplanv1.Sync{
			Value: r.value, Session: r.Session, Answers: r.answers, MinInterval: durationpb.New(r.MinInterval),
		},
		Scope: &rollplanv1.RestartScope{
			Namespaces: namespaces, ObservedNamespaces: r.Watches.Namespaces, LabelSelector: selectorText(r.Watches.Selector),
		},
	}
	workloads := map[types.UID]*Object{}
	for _, namespace := range namespaces {
		if !r.isSelected(namespace) {
			continue
		}
		for _, workload := range r.workloads(namespace) {
			workloads[workload.UID] = workload
			request.Objects = append(append(request.Objects, workload.JSON), r.pods(workload)...)
		}
		for _, budget := range r.Cache.InNamespace(PodDisruptionBudget, namespace) {
			request.Objects = append(request.Objects, budget.JSON)
		}
		if settings, err := r.Cache.Get(context.Background(), Namespace, types.NamespacedName{Name: namespace}); err == nil {
			request.Objects = append(request.Objects, settings.JSON)
		}
		request.Configurations = append(request.Configurations, r.configurations(namespace)...)
	}
	return request, workloads
}

// workloads returns the workloads of a namespace.
func (r *Restarts) workloads(namespace string) (found []*Object) {
	for _, kind := range r.Watches.Kinds {
		found = append(found, r.Cache.InNamespace(gvk(kind), namespace)...)
	}
	return found
}

// pods returns the pods of a workload, together with the ReplicaSets that control them.
func (r *Restarts) pods(workload *Object) (objects []string) {
	revision := annotation(workload, "deployment.kubernetes.io/revision")
	for _, set := range r.Cache.indexed(ReplicaSet, byController, string(workload.UID)) {
		if set.field("status.replicas").Int() > 0 || annotation(set, "deployment.kubernetes.io/revision") == revision {
			objects = append(objects, set.JSON)
			objects = append(objects, r.podsOf(set.UID)...)
		}
	}
	return append(objects, r.podsOf(workload.UID)...)
}

func (r *Restarts) podsOf(controller types.UID) (objects []string) {
	for _, pod := range r.Cache.indexed(Pod, byController, string(controller)) {
		objects = append(objects, pod.JSON)
	}
	return objects
}

// configurations returns the configurations of a namespace.
func (r *Restarts) configurations(namespace string) (found []*rollplanv1.Configuration) {
	for _, kind := range []schema.GroupVersionKind{ConfigMap, Secret, SecretProviderClassPodStatus} {
		for _, object := range r.Cache.InNamespace(kind, namespace) {
			found = append(found, object.Configuration)
		}
	}
	return found
}

// recordConditions records the events of conditions that have begun.
func (r *Restarts) recordConditions(workload *Object, plan *rollplanv1.RestartPlan) {
	for _, condition := range plan.GetConditions() {
		if event := condition.GetEvent(); event != nil && r.Recorder != nil {
			r.Recorder.Event(workload, event.GetType(), event.GetReason(), event.GetMessage())
		}
	}
}

func selectorText(selector labels.Selector) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}

func annotation(o *Object, key string) string {
	return o.field("metadata.annotations." + gjson.Escape(key)).String()
}
