package rollplan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// restartUnderWay is the time for which a restart may be in progress: an hour in the planner, plus the maximum clock skew.
const restartUnderWay = time.Hour + 10*time.Minute

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

	mu sync.Mutex
	// writes holds the workloads that the adapter's own writes returned, until the cache shows them.
	writes map[types.UID]*Object
	// verified is true if writes contains all writes of an earlier leader that the cache may lack.
	verified bool
	// held holds the reported reasons by workload.
	held map[types.UID]heldRestart
}

// heldRestart holds the reported reasons of a workload.
type heldRestart struct {
	namespace string
	reasons   []string
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
	// RequeueAfter is when to sync again even if nothing changes. Zero means that no timer is needed.
	RequeueAfter time.Duration
	// Failed joins a [CallError] for each call that failed: sync again with a backoff. It is nil if nothing can be created
	// anymore, because the namespace is being deleted.
	Failed error
}

// Sync plans the restarts of a namespace and carries the plan out. A failed call does not end it.
func (r *Restarts) Sync(ctx context.Context, namespace string) (RestartResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isSelected(namespace) {
		return RestartResult{Namespaces: []string{namespace}}, nil
	}
	if err := r.verify(ctx); err != nil {
		return RestartResult{}, err
	}
	namespaces := r.namespaces(namespace, time.Now())
	request, workloads := r.request(namespaces, time.Now())
	result, err := r.plan(ctx, request)
	if err != nil {
		return RestartResult{}, err
	}
	result.Namespaces = namespaces
	var failures []error
	for _, plan := range result.Plans {
		workload, ok := workloads[types.UID(plan.GetUid())]
		if !ok {
			continue
		}
		failed := r.carryOut(ctx, workload, plan)
		switch {
		case failed == nil:
			if len(plan.GetSteps()) > 0 {
				result.Applied = append(result.Applied, plan)
			}
		case !apierrors.HasStatusCause(failed.Err, corev1.NamespaceTerminatingCause):
			failures = append(failures, failed)
		}
	}
	r.reportHeld(namespaces, workloads, result.Plans)
	result.Failed = errors.Join(failures...)
	return result, nil
}

// plan requests a plan with all its pages.
func (r *Restarts) plan(ctx context.Context, request *rollplanv1.PlanRestartsRequest) (result RestartResult, err error) {
	for {
		page, err := r.Planner.PlanRestarts(ctx, request)
		if err != nil {
			return RestartResult{}, fmt.Errorf("plan restarts: %w", err)
		}
		result.Plans = append(result.Plans, page.GetPlans()...)
		result.Violations = append(result.Violations, page.GetViolations()...)
		if request.ContinueAfter = page.GetContinueAfter(); request.ContinueAfter == "" {
			result.Counts, result.RequeueAfter = page.GetCounts(), page.GetRequeueAfter().AsDuration()
			return result, nil
		}
	}
}

// namespaces returns the namespaces to plan together: the given one and, with a maximum of concurrent restarts, those that
// may have restarts in progress.
func (r *Restarts) namespaces(namespace string, now time.Time) []string {
	found := map[string]bool{namespace: true}
	if r.Options.GetMaxConcurrent() > 0 {
		for _, workload := range r.workloads("") {
			if restartedWithin(workload, restartUnderWay, now) && r.isSelected(workload.Namespace) {
				found[workload.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
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
func (r *Restarts) request(namespaces []string, now time.Time) (*rollplanv1.PlanRestartsRequest, map[types.UID]*Object) {
	request := &rollplanv1.PlanRestartsRequest{
		Now: timestamppb.New(now), Options: r.Options,
		ConfigurationsComplete: r.Watches.complete(),
	}
	workloads := map[types.UID]*Object{}
	for _, namespace := range namespaces {
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
	r.forgetDeleted(namespaces, workloads)
	return request, workloads
}

// workloads returns the workloads of a namespace, or of all, overlaid with the adapter's own writes.
func (r *Restarts) workloads(namespace string) (found []*Object) {
	for _, kind := range r.Watches.Kinds {
		cached := r.Cache.all(gvk(kind))
		if namespace != "" {
			cached = r.Cache.InNamespace(gvk(kind), namespace)
		}
		for _, workload := range cached {
			if own, ok := r.writes[workload.UID]; ok && isOlder(workload, own) {
				workload = own
			} else {
				delete(r.writes, workload.UID)
			}
			found = append(found, workload)
		}
	}
	return found
}

// forgetDeleted drops writes to workloads that no longer exist.
func (r *Restarts) forgetDeleted(namespaces []string, workloads map[types.UID]*Object) {
	maps.DeleteFunc(r.writes, func(uid types.UID, own *Object) bool {
		return slices.Contains(namespaces, own.Namespace) && workloads[uid] == nil
	})
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

// configurations returns the configurations of a namespace. Each pod has its own status of a SecretProviderClass: the
// latest one counts.
func (r *Restarts) configurations(namespace string) (found []*rollplanv1.Configuration) {
	for _, kind := range []schema.GroupVersionKind{ConfigMap, Secret} {
		for _, object := range r.Cache.InNamespace(kind, namespace) {
			found = append(found, object.Configuration)
		}
	}
	classes := map[string]*rollplanv1.Configuration{}
	for _, object := range r.Cache.InNamespace(SecretProviderClassPodStatus, namespace) {
		class := object.Configuration
		if known, ok := classes[class.GetName()]; !ok || known.GetChangedAt().AsTime().Before(class.GetChangedAt().AsTime()) {
			classes[class.GetName()] = class
		}
	}
	return slices.AppendSeq(found, maps.Values(classes))
}

// carryOut makes the calls of a plan and records their events.
func (r *Restarts) carryOut(ctx context.Context, workload *Object, plan *rollplanv1.RestartPlan) *CallError {
	for _, step := range plan.GetSteps() {
		answer, err := r.API.Call(ctx, step.GetCall())
		if !succeeded(step, answer, err) {
			return &CallError{step, answer, err}
		}
		if written, err := ParseObject(answer.Body, workload.GVK()); err == nil && written.UID == workload.UID {
			r.recordWrite(written)
		}
		for _, event := range step.GetEvents() {
			r.record(workload, event.GetType(), event.GetReason(), event.GetMessage())
		}
	}
	return nil
}

func (r *Restarts) record(workload *Object, kind, reason, message string) {
	if r.Recorder != nil {
		r.Recorder.Event(workload, kind, reason, message)
	}
}

// recordWrite stores a workload that the API server returned.
func (r *Restarts) recordWrite(written *Object) {
	for _, kind := range r.Watches.Kinds {
		if gvk(kind) == written.GVK() {
			trimmer(r.Watches.Checksums.Profile, kind)(written)
		}
	}
	if r.writes == nil {
		r.writes = map[types.UID]*Object{}
	}
	r.writes[written.UID] = written
}

// verify reads all workloads from the API server once, before the first plan. When a standby replica becomes the leader, its
// cache may lack restarts that the previous leader has just made, and more than the maximum could be in progress.
func (r *Restarts) verify(ctx context.Context) error {
	if r.verified || r.Options.GetMaxConcurrent() == 0 {
		return nil
	}
	options := metav1.ListOptions{}
	if r.Watches.Selector != nil {
		options.LabelSelector = r.Watches.Selector.String()
	}
	namespaces := r.Watches.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, kind := range r.Watches.Kinds {
		for _, namespace := range namespaces {
			list, err := r.API.List(ctx, gvk(kind), namespace, options)
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.GetKind(), err)
			}
			for _, workload := range list.Items {
				r.recordWrite(workload)
			}
		}
	}
	r.verified = true
	return nil
}

// reportHeld records the events of the conditions that the last plans of their workloads did not have.
func (r *Restarts) reportHeld(namespaces []string, workloads map[types.UID]*Object, plans []*rollplanv1.RestartPlan) {
	before := maps.Clone(r.held)
	maps.DeleteFunc(r.held, func(_ types.UID, held heldRestart) bool { return slices.Contains(namespaces, held.namespace) })
	if r.held == nil {
		r.held = map[types.UID]heldRestart{}
	}
	for _, plan := range plans {
		uid := types.UID(plan.GetUid())
		workload, ok := workloads[uid]
		if !ok {
			continue
		}
		held := heldRestart{namespace: workload.Namespace}
		for _, condition := range plan.GetConditions() {
			event := condition.GetEvent()
			if event == nil {
				continue
			}
			held.reasons = append(held.reasons, condition.GetReason())
			if !slices.Contains(before[uid].reasons, condition.GetReason()) {
				r.record(workload, event.GetType(), event.GetReason(), event.GetMessage())
			}
		}
		r.held[uid] = held
	}
}

// restartedWithin reports whether the state of a workload contains a restart within the period.
func restartedWithin(workload *Object, period time.Duration, now time.Time) bool {
	restarts := gjson.Get(annotation(workload, "rollplan.dev/restart-state"), "restarts").Array()
	return len(restarts) > 0 && now.Sub(time.UnixMilli(restarts[len(restarts)-1].Int())) < period
}

func annotation(o *Object, key string) string {
	return o.field("metadata.annotations." + gjson.Escape(key)).String()
}

// all returns the objects of a kind.
func (c *Cache) all(kind schema.GroupVersionKind) (objects []*Object) {
	for _, informer := range c.informers[kind] {
		for _, each := range informer.GetStore().List() {
			objects = append(objects, each.(*Object))
		}
	}
	return objects
}

// isOlder reports whether a is an older version of an object than b. Kubernetes 1.35 and later guarantee that the
// resourceVersions of a kind can be compared, and every API server on etcd allows it. Otherwise the cached version wins.
func isOlder(a, b *Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}
