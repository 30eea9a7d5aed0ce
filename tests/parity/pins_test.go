package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// The rows under "Deliberate differences" in docs/contributors/parity.md have worlds here, with the writes of upstream and
// those of our planner. The test fails if a row no longer describes both.

// both returns a worker with the planner of this checkout.
func both(t *testing.T) *worker {
	t.Helper()
	setUpstreamClock(baseTime)
	planner := os.Getenv("ROLLPLAN_PARITY_PLANNER")
	if planner == "" {
		planner = filepath.Join("..", defaultPlanner)
	}
	w, err := newWorker(&config{planner: planner, start: func() (Planner, error) { return startPlanner(planner) }})
	if err != nil {
		t.Fatalf("%v\nbuild it first: cargo build --profile test --example plan_lines", err)
	}
	t.Cleanup(w.close)
	return w
}

// rolling returns a Deployment with a revision, but without sets.
func rolling(replicas int32, surge, unavailable intstr.IntOrString) *World {
	g := newGenerator(1, 0, baseTime)
	t := defaulted(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:new"}}}})
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, UID: deploymentUID, ResourceVersion: "500", Generation: 1, CreationTimestamp: g.ago(9000), Annotations: map[string]string{util.RevisionAnnotation: "9"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Template: t, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}},
			RevisionHistoryLimit: ptr(int32(10)), ProgressDeadlineSeconds: ptr(int32(600)),
		},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: util.ReplicaSetUpdatedReason, LastUpdateTime: g.ago(10), LastTransitionTime: g.ago(10)}}},
	}
	return &World{Now: baseTime, Deployment: d, PodsComplete: true}
}

func count(n int) intstr.IntOrString { return intstr.FromInt(n) }

// set adds a set whose pods are all available. With the image "new", it has the template of the Deployment.
func (w *World) set(image string, size int32, change ...func(*appsv1.ReplicaSet)) *World {
	i := len(w.ReplicaSets) + 1
	d := w.Deployment
	name := fmt.Sprintf("web-%d", i)
	t := *d.Spec.Template.DeepCopy()
	t.Spec.Containers[0].Image = "web:" + image
	t.Labels[hashLabel] = name
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[hashLabel] = name
	g := newGenerator(1, 0, baseTime)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID(fmt.Sprintf("a0000000-0000-0000-0000-%012d", i)), ResourceVersion: fmt.Sprint(100 + i), Generation: 1, CreationTimestamp: g.ago(8000 - 100*i), Labels: t.Labels,
			Annotations:     map[string]string{util.RevisionAnnotation: fmt.Sprint(i), util.DesiredReplicasAnnotation: fmt.Sprint(*d.Spec.Replicas), util.MaxReplicasAnnotation: fmt.Sprint(*d.Spec.Replicas + util.MaxSurge(*d))},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentGVK)},
		},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &size, Template: t, Selector: selector},
		Status: appsv1.ReplicaSetStatus{Replicas: size, FullyLabeledReplicas: size, ReadyReplicas: size, AvailableReplicas: size, ObservedGeneration: 1},
	}
	if image == "new" {
		rs.Annotations[util.RevisionAnnotation] = "9"
	}
	for _, c := range change {
		c(rs)
	}
	w.ReplicaSets = append(w.ReplicaSets, rs)
	return w
}

// with changes the Deployment.
func (w *World) with(change func(*appsv1.Deployment)) *World {
	change(w.Deployment)
	return w
}

// did describes the result in one line: writes to ReplicaSets, calls that were rejected for another reason than an earlier
// write of the pass, warnings, a timer that expires immediately, and the final revision.
func did(w *World, r *Result) string {
	var out []string
	for _, x := range r.Writes {
		if x.Kind == "ReplicaSet" {
			line := string(w.on(x)) + " " + x.Name
			if x.Op == "create" {
				line = "create"
			}
			if x.Op != "delete" {
				line += fmt.Sprintf("=%d", *x.Set.Spec.Replicas)
			}
			out = append(out, line)
		}
	}
	for _, x := range r.Refused {
		if !strings.Contains(x, "has been modified") {
			out = append(out, "refused "+strings.Fields(x)[0])
		}
	}
	for _, e := range r.Events {
		if e.Type == corev1.EventTypeWarning {
			out = append(out, e.Reason)
		}
	}
	if r.RateLimited || r.Requeue > 0 && r.Requeue < 2*time.Second {
		out = append(out, "again at once")
	}
	return strings.Join(append(out, "revision "+r.Deployment.Annotations[util.RevisionAnnotation]), ", ")
}

func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

type pin struct {
	row            string // the first column of the table
	world          func() *World
	upstream, ours string // their writes to the sets
	settled        bool
	once           bool // upstream runs one sync only
}

var pins = []pin{
	{
		row: "overflow", // util/deployment_util.go:525
		world: func() *World {
			w := rolling(33801, intstr.FromString("285%"), count(0)).set("old", 33801).set("new", 33801)
			for _, rs := range w.ReplicaSets {
				rs.Annotations[util.DesiredReplicasAnnotation] = "67602"
				rs.Annotations[util.MaxReplicasAnnotation] = "260000"
			}
			return w
		},
		upstream: "scale web-2=129735, scale web-1=399, revision 9", ours: "scale web-2=113216, scale web-1=16918, revision 9",
	},
	{
		row: "revision overflow", // sync.go:153
		world: func() *World {
			return rolling(1, count(1), count(0)).set("old", 1, func(rs *appsv1.ReplicaSet) {
				rs.Annotations[util.RevisionAnnotation] = fmt.Sprint(int64(math.MaxInt64))
			}).with(func(d *appsv1.Deployment) { d.Annotations = nil })
		},
		upstream: "create=1, revision -9223372036854775808", ours: "create=1, revision 9223372036854775807",
	},
	{
		row: "Recreate, lagging old set", // recreate.go:100
		world: func() *World {
			return rolling(2, count(1), count(0)).with(recreate).set("old", 0, func(rs *appsv1.ReplicaSet) { rs.Generation = 2 })
		},
		upstream: "create=2, revision 2", ours: "revision 9",
	},
	{
		row: "Recreate, pods unknown", // recreate.go:103
		world: func() *World {
			w := rolling(2, count(1), count(0)).with(recreate).set("old", 0)
			w.PodsComplete = false
			return w
		},
		upstream: "create=2, revision 2", ours: "revision 9",
	},
	{
		row: "paused, history limit 0", // sync.go:79
		world: func() *World {
			return rolling(3, count(1), count(0)).set("old", 0, func(rs *appsv1.ReplicaSet) { rs.Annotations = nil }).with(func(d *appsv1.Deployment) {
				d.Spec.Paused, d.Spec.RevisionHistoryLimit = true, ptr(int32(0))
				c := &d.Status.Conditions[0]
				c.Status, c.Reason = corev1.ConditionUnknown, util.PausedDeployReason
			})
		},
		upstream: "scale web-1=3, delete web-1, revision 9", ours: "scale web-1=3, revision 9",
	},
	{
		row: "selector that cannot match", // sync.go:199
		world: func() *World {
			return rolling(1, count(1), count(0)).with(func(d *appsv1.Deployment) {
				d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: hashLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}
			})
		},
		upstream: "refused create, ReplicaSetCreateError, revision 9", ours: "ReplicaSetCreateError, revision 9",
	},
	{
		row: "timer after completion", // progress.go:190
		world: func() *World {
			w := rolling(2, count(1), count(0)).set("new", 2, func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas, rs.Status.ReadyReplicas = 1, 1 })
			return w.with(func(d *appsv1.Deployment) {
				long := newGenerator(1, 0, baseTime).ago(5000)
				d.Status = appsv1.DeploymentStatus{
					ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1, UnavailableReplicas: 1,
					Conditions: []appsv1.DeploymentCondition{
						{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: util.NewRSAvailableReason, Message: "done", LastUpdateTime: long, LastTransitionTime: long},
						{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: util.MinimumReplicasUnavailable, Message: "Deployment does not have minimum availability.", LastUpdateTime: long, LastTransitionTime: long},
					},
				}
			})
		},
		upstream: "again at once, revision 9", ours: "revision 9",
	},
	{
		row: "failed scale-down of an old set", // rolling.go:136, 146
		world: func() *World {
			w := rolling(3, count(1), count(1)).set("old", 1).set("older", 1).set("new", 3)
			w.Fault = &Fault{On: OnScale, Name: "web-1", Code: 504}
			return w
		},
		upstream: "refused update, revision 9", ours: "scale web-2=0, refused update, revision 9",
	},
	{
		row: "size of a set whose status has changed", // sync.go:423
		world: func() *World {
			w := rolling(3, count(1), count(1)).set("new", 1)
			w.Newer = &Change{Set: "web-1", How: Busy}
			return w
		},
		upstream: "revision 9", ours: "scale web-1=3, revision 9",
	},
	{
		row: "adoption or release of a set that has changed", // controller_ref_manager.go:354, 366
		world: func() *World {
			w := rolling(1, count(1), count(1)).set("new", 1, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
			w.Newer = &Change{Set: "web-1", How: Busy}
			return w
		},
		upstream: "claim web-1=1, revision 9", ours: "revision 9",
	},
	{
		row: "adoption for a Deployment that has changed", // deployment_controller.go:537
		world: func() *World {
			w := rolling(1, count(1), count(1)).set("new", 1, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
			w.Newer = &Change{How: Busy}
			return w
		},
		upstream: "claim web-1=1, revision 9", ours: "revision 9",
	},
	{
		row: "deletion of another set of the same name", // sync.go:468
		world: func() *World {
			w := rolling(1, count(1), count(1)).set("old", 0).set("new", 1).with(func(d *appsv1.Deployment) {
				d.Spec.RevisionHistoryLimit = ptr(int32(0))
				d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1, 1, 1
			})
			w.Newer = &Change{Set: "web-1", How: Replaced}
			return w
		},
		upstream: "delete web-1, revision 9", ours: "refused delete, revision 9",
	},
	{
		row: "create that timed out", // sync.go:271
		world: func() *World {
			w := rolling(1, count(1), count(1))
			w.Fault = &Fault{On: OnCreate, Code: 504}
			return w
		},
		upstream: "refused create, ReplicaSetCreateError, revision 9", ours: "refused create, revision 9",
	},
	{
		row: "status after a create that changes nothing", // sync.go:297
		world: func() *World {
			w := rolling(0, count(0), count(1)).set("old", 1).with(func(d *appsv1.Deployment) {
				d.Annotations[util.RevisionAnnotation] = "2"
				d.Status.Conditions[0].Reason = util.NewReplicaSetReason
			})
			w.Newer = &Change{How: Busy}
			return w
		},
		upstream: "create=0, revision 2", ours: "create=0, scale web-1=0, revision 2",
	},
	{
		row: "count of available pods", // rolling.go:200: a later pass counts pods that an earlier one has removed
		world: func() *World {
			unavailable := func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas, rs.Status.ReadyReplicas = 0, 0 }
			w := rolling(2, count(0), count(1)).set("new", 0).set("older", 1, unavailable).set("old", 2)
			for _, rs := range w.ReplicaSets {
				rs.Annotations[util.DesiredReplicasAnnotation], rs.Annotations[util.MaxReplicasAnnotation] = "3", "3"
			}
			return w
		},
		upstream: "scale web-3=1, annotate web-2=1, scale web-2=0, scale web-3=0, scale web-1=2, revision 9",
		ours:     "scale web-2=0, scale web-3=1, scale web-1=1, revision 9", settled: true,
	},
	{
		row: "reversed size", // sync.go:314: then recreate.go removes all of them
		world: func() *World {
			return rolling(17, count(1), count(0)).with(recreate).set("old", 7, func(rs *appsv1.ReplicaSet) {
				rs.Annotations[util.DesiredReplicasAnnotation], rs.Annotations[util.MaxReplicasAnnotation] = "7", "7"
			})
		},
		upstream: "scale web-1=17, scale web-1=0, revision 9", ours: "scale web-1=0, revision 9", settled: true,
	},
	{
		row: "reversed size", // sync.go:393: then rolling.go removes the unavailable ones
		world: func() *World {
			w := rolling(60, count(0), intstr.FromString("100%"))
			w.set("old", 13, func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas, rs.Status.ReadyReplicas = 0, 0 }).set("new", 3)
			for _, rs := range w.ReplicaSets {
				rs.Annotations[util.DesiredReplicasAnnotation], rs.Annotations[util.MaxReplicasAnnotation] = "16", "16"
			}
			return w
		},
		upstream: "scale web-1=49, scale web-2=11, scale web-1=0, scale web-2=60, revision 9", ours: "scale web-1=0, scale web-2=60, revision 9", settled: true,
	},
	{
		row: "stale `desired-replicas`", // sync.go:550
		world: func() *World {
			stale := func(rs *appsv1.ReplicaSet) { rs.Annotations[util.DesiredReplicasAnnotation] = "7" }
			return rolling(2, count(1), count(0)).with(recreate).set("old", 1, stale).set("new", 1, stale)
		},
		upstream: "revision 9", ours: "annotate web-2=1, scale web-1=0, revision 9", settled: true,
	},
	{
		row: "resized old set", // util/deployment_util.go:525
		world: func() *World {
			w := rolling(4, count(0), count(2))
			w.set("new", 4, func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = 0 })
			w.set("old", 4, func(rs *appsv1.ReplicaSet) { rs.Annotations[util.MaxReplicasAnnotation] = "1" })
			return w.with(func(d *appsv1.Deployment) {
				d.Spec.Paused = true
				c := &d.Status.Conditions[0]
				c.Status, c.Reason = corev1.ConditionUnknown, util.PausedDeployReason
			})
		},
		upstream: "scale web-1=0, scale web-2=16, annotate web-2=4, revision 9", ours: "annotate web-2=4, scale web-1=0, revision 9", settled: true,
	},
	{
		row: "adopted and shared", // sync.go:352
		world: func() *World {
			w := rolling(2, count(1), count(0)).with(func(d *appsv1.Deployment) { d.Spec.Paused = true })
			orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
			untold := func(rs *appsv1.ReplicaSet) { delete(rs.Annotations, util.MaxReplicasAnnotation) }
			return w.set("old", 1, orphan, untold).set("new", 1, untold)
		},
		upstream: "claim web-1=1, scale web-2=2, revision 9", ours: "claim web-1=1, revision 9", settled: true, once: true,
	},
}

func TestDeliberateDifferences(t *testing.T) {
	w := both(t)
	for _, p := range pins {
		t.Run(p.row, func(t *testing.T) {
			world := p.world().AsStored()
			var up, our *Result
			var err error
			switch {
			case p.settled && p.once:
				up = w.up.Pass(world, NewServer(world))
				our, err = w.ours.settle(world)
			case p.settled:
				up = again(w.up, world)
				our, err = w.ours.settle(world)
			case world.Fault != nil || world.Newer != nil:
				up = w.up.Pass(world, NewServer(world))
				our, _, err = w.ours.carryOut(world, "HORIZON_PASS", nil)
			default:
				up = w.up.Pass(world, NewServer(world))
				our, err = w.ours.Pass(world, up)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := did(world, up); got != p.upstream {
				t.Errorf("upstream: %q, want %q", got, p.upstream)
			}
			if got := did(world, our); got != p.ours {
				t.Errorf("ours: %q, want %q", got, p.ours)
			}
		})
	}
}

// TestPausedRecreateIsLeftAlone pins "a paused Deployment is left alone": while a Deployment with the strategy Recreate and
// several active sets is paused, neither upstream nor a settled plan changes the sets. No exemption applies.
func TestPausedRecreateIsLeftAlone(t *testing.T) {
	w := both(t)
	world := rolling(3, count(1), count(0)).with(recreate).set("old", 1).set("new", 3, func(rs *appsv1.ReplicaSet) {
		rs.Annotations[util.DesiredReplicasAnnotation] = "2"
	}).with(func(d *appsv1.Deployment) {
		d.Spec.Paused = true
		c := &d.Status.Conditions[0]
		c.Status, c.Reason = corev1.ConditionUnknown, util.PausedDeployReason
	}).AsStored()
	if name := exempt(world, true); name != "" {
		t.Errorf("a difference here would be excused as %q", name)
	}
	if got := did(world, again(w.up, world)); got != "revision 9" {
		t.Errorf("upstream: %q", got)
	}
	our, err := w.ours.settle(world)
	if err != nil {
		t.Fatal(err)
	}
	if got := did(world, our); got != "revision 9" {
		t.Errorf("ours: %q", got)
	}
	diffs, _, _, err := w.settled(world)
	if err != nil || len(diffs) > 0 {
		t.Errorf("%v, %v", diffs, err)
	}
}

// TestTimerAfterCompletion pins the part of "timer after completion" about the time before the deadline: upstream sets a
// timer, our planner does not.
func TestTimerAfterCompletion(t *testing.T) {
	w := both(t)
	at := slices.IndexFunc(pins, func(p pin) bool { return p.row == "timer after completion" })
	world := pins[at].world().with(func(d *appsv1.Deployment) {
		for i := range d.Status.Conditions {
			d.Status.Conditions[i].LastUpdateTime = newGenerator(1, 0, baseTime).ago(10)
		}
	}).AsStored()
	up := w.up.Pass(world, NewServer(world))
	our, err := w.ours.Pass(world, up)
	if err != nil {
		t.Fatal(err)
	}
	if up.Requeue != 591*time.Second || our.Requeue != 0 {
		t.Errorf("upstream has a timer of %v, ours of %v; want 9m51s and none", up.Requeue, our.Requeue)
	}
}

// again runs upstream until it makes no more writes. Nothing but these writes changes the world: no pod has terminated yet.
func again(u *Upstream, world *World) *Result {
	now, writes := world, []Write(nil)
	for range 10 {
		r := u.Pass(now, NewServer(now))
		writes = append(writes, r.Writes...)
		if len(r.Writes) == 0 {
			r.Writes, r.Refused = writes, nil
			return r
		}
		now = next(now, r)
		for _, rs := range now.ReplicaSets { // without the clamp
			rs.Status.AvailableReplicas = r.Sets[key(rs.Namespace, rs.Name)].Status.AvailableReplicas
		}
	}
	panic("upstream does not stop writing")
}

// TestIncompleteReplicaSets pins "ReplicaSets unknown" (sync.go:199): upstream creates a ReplicaSet for each one that is
// missing from its cache. Our planner plans nothing from an incomplete list, whichever ReplicaSets are missing. What a
// deletion waits for does not depend on them.
func TestIncompleteReplicaSets(t *testing.T) {
	w := both(t)
	planned := 0
	for seed := range uint64(500) {
		world := newGenerator(1, seed, baseTime).World().AsStored()
		blocker := "REPLICA_SETS_INCOMPLETE"
		if world.Deployment.DeletionTimestamp != nil && len(world.Deployment.Finalizers) > 0 {
			blocker = "DELETING"
		}
		for left := range len(world.ReplicaSets) + 1 {
			partial := world.DeepCopy()
			partial.ReplicaSets = partial.ReplicaSets[:left]
			for _, horizon := range []string{"HORIZON_PASS", "HORIZON_SETTLED"} {
				request := mustBytes(partial.forPlanner(horizon, nil))
				answer, err := w.ours.planner.Plan(request)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(answer), `"steps"`) {
					planned++
				}
				answer, err = w.ours.planner.Plan([]byte(strings.Replace(string(request), `"replicaSetsComplete":true`, `"replicaSetsComplete":false`, 1)))
				if err != nil {
					t.Fatal(err)
				}
				resp := map[string]json.RawMessage{}
				if err := json.Unmarshal(answer, &resp); err != nil || len(resp) != 1 || !strings.Contains(string(resp["report"]), `"reason":"`+blocker+`"`) {
					t.Fatalf("seed %d, %d ReplicaSets: %s, %v", seed, left, answer, err)
				}
			}
		}
	}
	if planned < 500 {
		t.Errorf("%d plans from complete lists", planned)
	}
}

// TestUnknownTemplateFields pins "template fields unknown to v1.37" (util/deployment_util.go:622): the typed client
// drops them (generated.pb.go of k8s.io/api/core/v1 skips unknown fields), so upstream sees the old template. Our planner
// compares them, and starts a rollout.
func TestUnknownTemplateFields(t *testing.T) {
	w := both(t)
	world := rolling(1, count(1), count(0)).set("new", 1).AsStored()
	if got := did(world, w.up.Pass(world, NewServer(world))); got != "revision 9" {
		t.Errorf("upstream: %q", got)
	}
	request := strings.Replace(string(mustBytes(world.forPlanner("HORIZON_PASS", nil))), `\"spec\":{\"containers\"`, `\"spec\":{\"fromTheFuture\":\"x\",\"containers\"`, 1)
	answer, err := w.ours.planner.Plan([]byte(request))
	if err != nil || !strings.Contains(string(answer), "VERB_CREATE") {
		t.Errorf("ours: %s, %v", answer, err)
	}
}

// TestCleanUpOrder pins "the order of clean-up": with more than twelve sets, one of which has a revision that is not a number,
// the order in which upstream deletes depends on the order of a map. In our order, upstream's own comparison would not swap
// any two neighbors.
func TestCleanUpOrder(t *testing.T) {
	w := both(t)
	world := rolling(1, count(1), count(0)).set("new", 1).with(func(d *appsv1.Deployment) {
		d.Spec.RevisionHistoryLimit, d.Annotations[util.RevisionAnnotation] = ptr(int32(0)), "20"
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1, 1, 1
	})
	world.ReplicaSets[0].Annotations[util.RevisionAnnotation] = "20"
	for i := range 14 {
		world.set(fmt.Sprint("old", i), 0, func(rs *appsv1.ReplicaSet) { rs.Annotations[util.RevisionAnnotation] = fmt.Sprint(i * 5 % 14) })
	}
	world.ReplicaSets[9].Annotations[util.RevisionAnnotation] = "none"
	world = world.AsStored()

	old := slices.Clone(world.ReplicaSets[1:])
	orders := map[string]bool{}
	for range 10 {
		sorted := slices.Clone(old)
		sort.Sort(util.ReplicaSetsByRevision(sorted))
		orders[names(sorted)] = true
		old = append(old[1:], old[0])
	}
	if len(orders) < 2 {
		t.Error("upstream has an order: the exemption has no reason")
	}
	our, _, err := w.ours.carryOut(world, "HORIZON_PASS", nil)
	if err != nil {
		t.Fatal(err)
	}
	deleted := []*appsv1.ReplicaSet{}
	for _, x := range our.Writes {
		if x.Op == "delete" {
			deleted = append(deleted, world.ReplicaSets[slices.IndexFunc(world.ReplicaSets, func(rs *appsv1.ReplicaSet) bool { return rs.Name == x.Name })])
		}
	}
	if len(deleted) != 14 {
		t.Errorf("ours deletes %s", names(deleted))
	}
	for i := range len(deleted) - 1 {
		if util.ReplicaSetsByRevision(deleted).Less(i+1, i) {
			t.Errorf("ours deletes %s: %s is before %s", names(deleted), deleted[i].Name, deleted[i+1].Name)
		}
	}
}

func names(sets []*appsv1.ReplicaSet) string {
	out := make([]string, len(sets))
	for i, rs := range sets {
		out[i] = rs.Name
	}
	return strings.Join(out, " ")
}

// One of the 200 rollouts of CI, which has stale annotations under Recreate. Like upstream, our passes are stuck forever,
// but settled plans complete the rollout.
func TestSettledPlansCompleteWhatPassesCannot(t *testing.T) {
	w := both(t)
	_, parted, diffs, _, err := w.rollout(1871838649, 140)
	if err != nil || len(diffs) > 0 || !strings.HasPrefix(parted, "stale-desired-replicas") {
		t.Errorf("%v, %v, parted %q; want equal sides that are stuck in stale desired-replicas", err, diffs, parted)
	}
}
