package main

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fault is a call that the server always rejects, from either side. Calls are identified by what they change, because
// upstream sends PUTs of whole objects and our side sends patches.
type Fault struct {
	On   FaultOn `json:"on"`
	Name string  `json:"name,omitempty"` // of the object; empty for a create
	Code int     `json:"code"`
	Lost bool    `json:"lost,omitempty"` // the write is made but the response is lost
}

// FaultOn is the kind of a call.
type FaultOn string

const (
	OnCreate   FaultOn = "create"
	OnScale    FaultOn = "scale"
	OnAnnotate FaultOn = "annotate" // annotations or minReadySeconds of a ReplicaSet
	OnClaim    FaultOn = "claim"    // adopt or release
	OnDelete   FaultOn = "delete"
	OnCheck    FaultOn = "check" // the check of the Deployment before an adoption: a GET of upstream, our empty PATCH
	OnStatus   FaultOn = "status"
	OnOwner    FaultOn = "owner" // the Deployment itself, for a rollback
)

// on returns the kind of a write.
func (w *World) on(x Write) FaultOn {
	switch {
	case x.Op == "create":
		return OnCreate
	case x.Op == "delete":
		return OnDelete
	case x.Claim:
		return OnClaim
	case x.Kind == "Deployment" && x.Subresource == "status":
		return OnStatus
	case x.Kind == "Deployment":
		return OnOwner
	}
	for _, rs := range w.ReplicaSets {
		if rs.Name == x.Name && rs.Namespace == x.Namespace && *rs.Spec.Replicas != *x.Set.Spec.Replicas {
			return OnScale
		}
	}
	return OnAnnotate
}

// fails returns the error of a call if the server must reject it.
func (s *Server) fails(on FaultOn, gr schema.GroupResource, name string) error {
	f := s.fault
	if f == nil || f.On != on || f.Name != name {
		return nil
	}
	s.fired = true
	switch f.Code {
	case 403:
		return apierrors.NewForbidden(gr, name, errors.New("exceeded quota"))
	case 404:
		return apierrors.NewNotFound(gr, name)
	case 409:
		return apierrors.NewConflict(gr, name, errors.New("the object has been modified"))
	case 422:
		return apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, name, field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "rejected by a webhook")})
	case 504:
		return apierrors.NewTimeoutError("the server did not respond in time", 0)
	}
	return apierrors.NewInternalError(errors.New("a webhook is unavailable"))
}

// --- A server with newer objects than the snapshot.

// Change is a change on the server after the snapshot was taken.
type Change struct {
	Set string `json:"set,omitempty"` // name of the ReplicaSet; empty for the Deployment
	How How    `json:"how"`
}

// How is a kind of change.
type How string

const (
	Busy     How = "busy"     // the status was written, which changes resourceVersion
	Resized  How = "resized"  // the spec was written, which also changes generation
	Gone     How = "gone"     // the object was deleted
	Replaced How = "replaced" // the object was deleted, and another one has its name
	Deleting How = "deleting" // the object is being deleted
)

func (c *Change) do(s *Server) {
	s.rv++
	change := func(m *metav1.ObjectMeta) {
		m.ResourceVersion = fmt.Sprint(s.rv)
		switch c.How {
		case Resized:
			m.Generation++
		case Replaced:
			m.UID += "9"
		case Deleting:
			m.Generation++
			m.DeletionTimestamp, m.DeletionGracePeriodSeconds = s.now.DeepCopy(), new(int64)
			m.Finalizers = append(m.Finalizers, metav1.FinalizerDeleteDependents)
		}
	}
	if c.Set == "" {
		for k, d := range s.deployments {
			if c.How == Gone {
				delete(s.deployments, k)
			}
			change(&d.ObjectMeta)
		}
		return
	}
	for k, rs := range s.sets {
		if rs.Name != c.Set {
			continue
		}
		change(&rs.ObjectMeta)
		switch c.How {
		case Gone:
			delete(s.sets, k)
		case Resized:
			rs.Spec.MinReadySeconds += 3
		case Busy: // no decision depends on this condition
			rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{Type: "Busy", Status: corev1.ConditionTrue, LastTransitionTime: s.now})
		}
	}
}

// --- Comparison in these worlds.

// addFault returns a copy of a world with a fault or a newer object that affects one of the calls in r, which is the
// result of upstream in the original world. It returns nil if there is no suitable call.
func (g *generator) addFault(w *World, r *Result, ownerChecked bool) *World {
	type call struct {
		on   FaultOn
		name string
	}
	var calls []call
	for _, x := range r.Writes {
		c := call{w.on(x), x.Name}
		if c.on == OnCreate {
			c.name = ""
		}
		calls = append(calls, c)
	}
	if ownerChecked {
		calls = append(calls, call{OnCheck, w.Deployment.Name})
	}
	if len(calls) == 0 || w.Refuse != RefuseNothing || collided(r) {
		return nil
	}
	out := *w
	c := calls[g.r.IntN(len(calls))]
	if c.on == OnCreate || g.p(0.6) {
		out.Fault = &Fault{On: c.on, Name: c.name, Code: pick(g, 403, 404, 409, 422, 500, 504)}
		if c.on == OnCreate && out.Fault.Code == 409 { // a create has no precondition that could be stale
			out.Fault.Code = 500
		}
		out.Fault.Lost = out.Fault.Code == 504 && c.on != OnCheck && g.p(0.5)
		return &out
	}
	out.Newer = &Change{How: pick(g, Busy, Resized, Gone, Replaced, Deleting)}
	if c.on != OnStatus && c.on != OnOwner && c.on != OnCheck {
		out.Newer.Set = c.name
		for _, rs := range w.ReplicaSets {
			if rs.Name == c.name && rs.DeletionTimestamp != nil && out.Newer.How == Deleting {
				return nil
			}
		}
	} else if w.Deployment.DeletionTimestamp != nil && out.Newer.How == Deleting {
		return nil
	}
	return &out
}

// stricter are the deliberate differences that only occur with a fault or a newer object, each with the rule for its
// comparison.
var stricter = []struct {
	Name, Reason string
	Applies      func(w *World, up, our *Result) bool
}{
	{"busy-set", "a write to a ReplicaSet of which only the status has changed: the PUT of upstream is rejected because of its resourceVersion, our patch tests uid and generation; ours must do what upstream does with a fresh cache", busySet},
	{"strict-claim", "adoptions and releases of upstream merge the list of owners and only test the uid, ours replace the list and also test resourceVersion; our writes must be a subset of those of upstream", func(w *World, up, our *Result) bool {
		return w.Newer != nil && w.Newer.Set != "" && our.EndedAt == string(OnClaim)
	}},
	{"strict-check", "before an adoption, upstream checks the uid and deletionTimestamp of the Deployment, ours also checks resourceVersion; our writes must be a subset of those of upstream", func(w *World, up, our *Result) bool {
		return w.Newer != nil && w.Newer.Set == "" && our.EndedAt == string(OnCheck)
	}},
	{"strict-delete", "upstream deletes any object with the name, ours tests uid and resourceVersion; our writes must be a subset of those of upstream", func(w *World, up, our *Result) bool {
		return w.Newer != nil && our.EndedAt == string(OnDelete)
	}},
	{"failed-scale-down", "after a failed scale-down of an old ReplicaSet, upstream makes no more scale-downs and cleans up, ours continues with the plan; except for more scale-downs, our writes must be a subset of those of upstream", func(w *World, up, our *Result) bool {
		return our.Continued
	}},
	{"create-timeout", "a create whose outcome is unknown: upstream reports ReplicaSetCreateError, ours reads the objects again; our side must make no other writes", func(w *World, up, our *Result) bool {
		return w.Fault != nil && w.Fault.On == OnCreate && w.Fault.Code == 504
	}},
	{"idle-status", "after a create, upstream writes an unchanged status, which is rejected because the Deployment has changed; ours has no such write and continues. The writes of upstream must be the first ones of ours, and its next one must not be to the Deployment", func(w *World, up, our *Result) bool {
		return w.Newer != nil && w.Newer.Set == "" && len(our.Writes) > len(up.Writes) && len(up.Writes) > 0 && up.Writes[len(up.Writes)-1].Op == "create"
	}},
}

func busySet(w *World, up, our *Result) bool {
	return w.Newer != nil && w.Newer.Set != "" && w.Newer.How == Busy && our.EndedAt == ""
}

// compareWithFault compares a pass against a server that rejects a call, or that has newer objects than the snapshot.
//
//   - Until the call is rejected, both sides make the same writes. After a rejected adoption or release, upstream
//     continues with the others, while our first plan may lack them.
//   - After the failure is reported as the contract requires, our second plan for the same snapshot contains all writes
//     of upstream. (Conflicts and lost responses are not reported, because they require a new snapshot.)
func (w *worker) compareWithFault(world *World, up *Result) ([]Difference, *Result, string, error) {
	theirs, back := world, func(*Result) {}
	if collided(up) {
		mapped, undo, err := w.ours.collide(world)
		if err != nil {
			return nil, nil, "", err
		}
		if theirs = mapped; undo != nil {
			back = undo
		}
	}
	first, failure, err := w.ours.carryOut(theirs, "HORIZON_PASS", nil)
	if err != nil {
		return nil, first, "", err
	}
	var second *Result
	if failure != nil {
		var again *StepAnswer
		if second, again, err = w.ours.carryOut(theirs, "HORIZON_PASS", []StepAnswer{*failure}); err != nil {
			return nil, first, "", err
		}
		if again != nil {
			return []Difference{{"the rejected call is planned again although its failure was reported", "", dump(again.Call)}}, first, "", nil
		}
		second.Attempts = append(second.Attempts, first.Attempts...)
		back(second)
	}
	back(first)
	for _, s := range stricter {
		if !s.Applies(world, up, first) {
			continue
		}
		var diffs []Difference
		switch s.Name {
		case "busy-set":
			server := NewServer(world)
			fresh := *world
			fresh.Newer = nil
			fresh.ReplicaSets = nil
			for _, k := range sortedKeys(server.sets) {
				fresh.ReplicaSets = append(fresh.ReplicaSets, server.sets[k])
			}
			fresh.ReplicaSets = inOrderOf(world.ReplicaSets, fresh.ReplicaSets)
			diffs = Compare(&fresh, w.up.Pass(&fresh, NewServer(&fresh)), first)
		case "idle-status":
			// If the Deployment has not changed, the next write of upstream after the create must not be a status.
			unmoved := *world
			unmoved.Newer = nil
			all := w.up.Pass(&unmoved, NewServer(&unmoved)).Writes
			if len(all) <= len(up.Writes) || all[len(up.Writes)].Kind == "Deployment" {
				return []Difference{{"the rejected status is not unchanged", dump(all), dump(up.Writes)}}, first, s.Name, nil
			}
			diffs = partOf(world, first, up, true)
		case "failed-scale-down":
			withoutScaleDowns(world, up, first)
			diffs = partOf(world, up, first, true)
			if second != nil {
				diffs = append(diffs, compareAfterFailure(world, up, second)...)
			}
		default:
			diffs = partOf(world, up, first, true)
		}
		return diffs, first, s.Name, nil
	}
	if second == nil && first.EndedAt == "" && !first.Continued {
		return Compare(world, up, first), first, "", nil
	}
	diffs := partOf(world, up, first, first.EndedAt != "" && moreFollows(world, first))
	if second != nil && len(diffs) == 0 {
		diffs = compareAfterFailure(world, up, second)
		first = second
	}
	return diffs, first, "", nil
}

// compareAfterFailure compares a plan that was made with a reported failure, whose status write comes first (see
// statusLast).
func compareAfterFailure(w *World, up, our *Result) []Difference {
	c := *up
	c.Writes = append([]Write(nil), up.Writes...)
	statusLast(&c)
	return Compare(w, &c, our)
}

// moreFollows reports whether upstream may make more writes in this pass: other claims, or the status that reports a
// rejected create. Our side makes them after the failure is reported.
func moreFollows(w *World, r *Result) bool {
	return r.EndedAt == string(OnClaim) || r.EndedAt == string(OnCheck) || r.EndedAt == string(OnCreate)
}

// partOf checks that our writes are the same as those of upstream or, if less is set, a subset of them.
func partOf(w *World, up, our *Result, less bool) []Difference {
	up, our = normalised(w, up), normalised(w, our)
	u, o := up.Writes, our.Writes
	if less {
		u = nil
		for _, x := range up.Writes { // claims have no fixed order
			for _, y := range o {
				if x.Op == y.Op && x.Kind == y.Kind && x.Name == y.Name && x.Subresource == y.Subresource {
					u = append(u, x)
					break
				}
			}
		}
	}
	if a, b := writeLines(u), writeLines(o); a != b {
		return []Difference{{"writes", a, b}}
	}
	for i := range u {
		if a, b := dump(u[i]), dump(o[i]); a != b {
			return []Difference{{fmt.Sprintf("write %d", i), a, b}}
		}
	}
	return nil
}

// normalised returns a normalized copy.
func normalised(w *World, r *Result) *Result {
	c := *r
	c.Writes = append([]Write(nil), r.Writes...)
	for i := range c.Writes {
		c.Writes[i].Set, c.Writes[i].Deployment = c.Writes[i].Set.DeepCopy(), c.Writes[i].Deployment.DeepCopy()
	}
	c.Events = append([]Event(nil), r.Events...)
	c.Attempts = append([]*appsv1.ReplicaSet(nil), r.Attempts...)
	normalise(w, &c)
	return &c
}

// withoutScaleDowns removes the scale-downs that only our side made after one of them failed.
func withoutScaleDowns(w *World, up, our *Result) {
	made := map[string]int{}
	for _, x := range up.Writes {
		if w.on(x) == OnScale {
			made[x.Name]++
		}
	}
	var writes []Write
	for _, x := range our.Writes {
		if w.on(x) == OnScale {
			if made[x.Name] == 0 && *x.Set.Spec.Replicas < sizeOf(w, x.Name) {
				continue
			}
			made[x.Name]--
		}
		writes = append(writes, x)
	}
	our.Writes = writes
}

func sizeOf(w *World, set string) int32 {
	for _, rs := range w.ReplicaSets {
		if rs.Name == set {
			return *rs.Spec.Replicas
		}
	}
	return 0
}

// inOrderOf sorts ReplicaSets by their order in the snapshot.
func inOrderOf(order, sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, o := range order {
		for _, rs := range sets {
			if rs.Namespace == o.Namespace && rs.Name == o.Name {
				out = append(out, rs)
			}
		}
	}
	return out
}
