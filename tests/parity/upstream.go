package main

import (
	"context"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment"
)

// progressNow and deadlineNow are the clocks that upstream uses for deadlines. The times of conditions come from
// metav1.Now, which cannot be replaced; see conditionTimes.
//
//go:linkname progressNow k8s.io/kubernetes/pkg/controller/deployment.nowFn
var progressNow func() time.Time

//go:linkname deadlineNow k8s.io/kubernetes/pkg/controller/deployment/util.nowFn
var deadlineNow func() time.Time

// setUpstreamClock sets the clocks of upstream. They are global to the process, so all concurrent snapshots share one
// `now`.
func setUpstreamClock(now time.Time) {
	fn := func() time.Time { return now }
	progressNow, deadlineNow = fn, fn
}

// Event is an event on the Deployment.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Result is the result of one pass of either side.
type Result struct {
	Writes       []Write
	Events       []Event
	Deployment   *appsv1.Deployment
	Sets         map[string]*appsv1.ReplicaSet
	Attempts     []*appsv1.ReplicaSet
	Refused      []string // calls that the server rejected
	Err          error
	Ended        bool          // ours only: a rejected call ended the plan
	EndedAt      string        // ours only: the kind of that call (FaultOn), with a fault or a newer object
	Continued    bool          // ours only: the plan continued after a failed call
	OwnerChecked bool          // upstream only: the Deployment was read before an adoption
	Requeue      time.Duration // 0 for none
	RateLimited  bool
	NowFrom      time.Time // times of conditions in [NowFrom, NowTo] mean `now`
	NowTo        time.Time
	Response     *PlanResponse // ours only
	Status       *appsv1.DeploymentStatus
}

// Upstream is the real Deployment controller with a Server as its API server.
type Upstream struct {
	sync   func(ctx context.Context, key string) error
	server *Server
	events []Event
	queue  *queue
	dIdx   cache.Indexer
	rsIdx  cache.Indexer
	podIdx cache.Indexer
	client *fake.Clientset
	ctx    context.Context
}

// unexported returns a pointer to an unexported field of the controller.
func unexported[T any](dc *deployment.DeploymentController, name string) *T {
	v := reflect.ValueOf(dc).Elem().FieldByName(name)
	var want T
	if v.Type() != reflect.TypeOf(&want).Elem() {
		panic(fmt.Sprintf("DeploymentController.%s is a %s: upstream has changed", name, v.Type()))
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr()))
}

func NewUpstream() *Upstream {
	u := &Upstream{client: &fake.Clientset{}, queue: &queue{}}
	u.client.AddReactor("*", "*", u.react)
	u.ctx = quiet
	factory := informers.NewSharedInformerFactory(u.client, 0)
	d, rs, pods := factory.Apps().V1().Deployments(), factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods()
	dc, err := deployment.NewDeploymentController(u.ctx, d, rs, pods, u.client)
	must(err)
	u.dIdx, u.rsIdx, u.podIdx = d.Informer().GetIndexer(), rs.Informer().GetIndexer(), pods.Informer().GetIndexer()

	(*unexported[workqueue.TypedRateLimitingInterface[string]](dc, "queue")).ShutDown()
	*unexported[workqueue.TypedRateLimitingInterface[string]](dc, "queue") = u.queue
	(*unexported[record.EventBroadcaster](dc, "eventBroadcaster")).Shutdown()
	*unexported[record.EventRecorder](dc, "eventRecorder") = u
	*unexported[controller.RSControlInterface](dc, "rsControl") = controller.RealRSControl{KubeClient: u.client, Recorder: u}
	u.sync = *unexported[func(ctx context.Context, dKey string) error](dc, "syncHandler") // = syncDeployment
	return u
}

// Pass runs syncDeployment once. The caches contain exactly the snapshot.
func (u *Upstream) Pass(w *World, server *Server) *Result {
	u.server, u.events = server, nil
	*u.queue = queue{}
	u.client.ClearActions()
	must(u.dIdx.Replace([]any{w.Deployment}, ""))
	sets := make([]any, len(w.ReplicaSets))
	for i, rs := range w.ReplicaSets {
		sets[i] = rs
	}
	must(u.rsIdx.Replace(sets, ""))
	pods := make([]any, len(w.Pods))
	for i, p := range w.Pods {
		pods[i] = p
	}
	must(u.podIdx.Replace(pods, ""))

	from := time.Now()
	err := u.sync(u.ctx, key(w.Deployment.Namespace, w.Deployment.Name))
	r := server.result()
	r.Events, r.Err, r.Requeue, r.RateLimited = u.events, err, u.queue.after, u.queue.limited
	r.NowFrom, r.NowTo = from.Truncate(time.Second), time.Now()
	r.OwnerChecked = server.ownerChecked
	r.Deployment = server.deployments[key(w.Deployment.Namespace, w.Deployment.Name)]
	if r.Deployment == nil { // deleted from the server
		r.Deployment = w.Deployment.DeepCopy()
	}
	r.Status = &r.Deployment.Status
	return r
}

func (s *Server) result() *Result {
	return &Result{Writes: s.writes, Sets: s.sets, Attempts: s.attempts, Refused: s.refused}
}

func (u *Upstream) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "create" || action.GetVerb() == "update" || action.GetVerb() == "patch" || action.GetVerb() == "delete" || action.GetVerb() == "get" {
		switch action.GetResource().Resource {
		case "deployments":
			switch a := action.(type) {
			case clienttesting.GetActionImpl:
				return result(u.server.GetDeployment(a.GetNamespace(), a.GetName()))
			case clienttesting.UpdateActionImpl:
				return result(u.server.UpdateDeployment(a.GetObject().(*appsv1.Deployment), a.GetSubresource()))
			}
		case "replicasets":
			switch a := action.(type) {
			case clienttesting.CreateActionImpl:
				return result(u.server.CreateReplicaSet(a.GetObject().(*appsv1.ReplicaSet)))
			case clienttesting.UpdateActionImpl:
				return result(u.server.UpdateReplicaSet(a.GetObject().(*appsv1.ReplicaSet), a.GetSubresource()))
			case clienttesting.PatchActionImpl:
				return result(u.server.PatchReplicaSet(a.GetNamespace(), a.GetName(), a.GetSubresource(), a.GetPatchType(), a.GetPatch()))
			case clienttesting.DeleteActionImpl:
				return true, nil, u.server.DeleteReplicaSet(a.GetNamespace(), a.GetName(), a.GetDeleteOptions())
			}
		}
	}
	panic(fmt.Sprintf("unsupported call of upstream: %s %s", action.GetVerb(), action.GetResource()))
}

func result[T interface {
	comparable
	runtime.Object
}](obj T, err error) (bool, runtime.Object, error) {
	if err != nil {
		return true, nil, err
	}
	return true, obj, nil
}

// --- record.EventRecorder

func (u *Upstream) Event(_ runtime.Object, eventtype, reason, message string) {
	u.events = append(u.events, Event{eventtype, reason, message})
}

func (u *Upstream) Eventf(_ runtime.Object, eventtype, reason, format string, args ...any) {
	u.events = append(u.events, Event{eventtype, reason, fmt.Sprintf(format, args...)})
}

func (u *Upstream) AnnotatedEventf(o runtime.Object, _ map[string]string, eventtype, reason, format string, args ...any) {
	u.Eventf(o, eventtype, reason, format, args...)
}

// --- workqueue.TypedRateLimitingInterface[string], which records the requests of the pass

type queue struct {
	after   time.Duration
	limited bool
}

func (q *queue) Add(string)                         { q.limited = true }
func (q *queue) AddRateLimited(string)              { q.limited = true }
func (q *queue) AddAfter(_ string, d time.Duration) { q.after = d }
func (q *queue) Forget(string)                      {}
func (q *queue) NumRequeues(string) int             { return 0 }
func (q *queue) Len() int                           { return 0 }
func (q *queue) Get() (string, bool)                { return "", true }
func (q *queue) Done(string)                        {}
func (q *queue) ShutDown()                          {}
func (q *queue) ShutDownWithDrain()                 {}
func (q *queue) ShuttingDown() bool                 { return false }
