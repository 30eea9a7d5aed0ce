package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// Difference is a difference between the two sides.
type Difference struct {
	What     string
	Upstream string
	Ours     string
}

// Compare compares one pass of both sides: the writes and events in order, the final objects, and the status of our
// response. It normalizes both results first; each normalization is one of the functions below.
func Compare(w *World, up, our *Result) []Difference {
	var diffs []Difference
	add := func(what, u, o string) { diffs = append(diffs, Difference{what, u, o}) }

	if our.Err != nil {
		add("the server rejected one of our writes", strings.Join(up.Refused, "\n"), our.Err.Error()+"\n"+strings.Join(our.Refused, "\n"))
	}
	normalise(w, up)
	normalise(w, our)

	if u, o := writeLines(up.Writes), writeLines(our.Writes); u != o {
		add("writes", u, o)
	} else {
		for i := range up.Writes {
			uw, ow := up.Writes[i], our.Writes[i]
			if !apiequality.Semantic.DeepEqual(uw.Set, ow.Set) || !apiequality.Semantic.DeepEqual(uw.Deployment, ow.Deployment) {
				add(fmt.Sprintf("write %d", i), dump(uw), dump(ow))
			}
		}
	}
	if !apiequality.Semantic.DeepEqual(up.Events, our.Events) {
		add("events", dump(up.Events), dump(our.Events))
	}
	if !apiequality.Semantic.DeepEqual(up.Deployment, our.Deployment) {
		add("final Deployment", dump(up.Deployment), dump(our.Deployment))
	}
	if !apiequality.Semantic.DeepEqual(up.Sets, our.Sets) {
		for _, k := range sortedKeys(merged(up.Sets, our.Sets)) {
			if !apiequality.Semantic.DeepEqual(up.Sets[k], our.Sets[k]) {
				add("final ReplicaSet "+k, dump(up.Sets[k]), dump(our.Sets[k]))
			}
		}
	}
	if our.Ended {
		// the pass ended before the status write
	} else if our.Status == nil {
		add("response.status", dump(up.Status), "absent")
	} else if !apiequality.Semantic.DeepEqual(up.Status, our.Status) {
		add("response.status", dump(up.Status), dump(our.Status))
	}
	// If upstream makes no writes and sets a timer, ours must be the same. It cannot be compared in other cases: after
	// writes, upstream relies on the watch while our plan has a timer, and below one second upstream retries with backoff.
	// Our plan also has no timer after NewReplicaSetAvailable. Upstream sets one although nothing depends on the deadline,
	// which leads to a hot loop.
	progressing := util.GetDeploymentCondition(up.Deployment.Status, appsv1.DeploymentProgressing)
	if len(up.Writes) == 0 && up.Err == nil && up.Requeue > 0 && up.Requeue != our.Requeue && progressing.Reason != util.NewRSAvailableReason {
		add("requeueAfter", up.Requeue.String(), our.Requeue.String())
	}
	return diffs
}

func merged[V any](a, b map[string]V) map[string]V {
	out := map[string]V{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

func writeLines(ws []Write) string {
	var b strings.Builder
	for _, w := range ws {
		fmt.Fprintf(&b, "%s %s", w.Op, w.Kind)
		if w.Subresource != "" {
			b.WriteString("/" + w.Subresource)
		}
		fmt.Fprintf(&b, " %s/%s\n", w.Namespace, w.Name)
	}
	return b.String()
}

// --- Normalizations. Rejected writes and writes without changes need no normalization, because Server.writes only contains
// writes that changed an object. A pass of either side ends at its first error, and a PUT equals a PATCH with the same
// result. CheckOwner is a PATCH without changes, so it is not recorded either; with a stale precondition it is rejected.

func normalise(w *World, r *Result) {
	if r.Status != nil { // it may be the status of r.Deployment
		r.Status = r.Status.DeepCopy()
	}
	r.Deployment = r.Deployment.DeepCopy()
	sets := map[string]*appsv1.ReplicaSet{}
	for k, rs := range r.Sets {
		sets[k] = rs.DeepCopy()
	}
	r.Sets = sets
	claimOrder(r)
	createdHash(w, r)
	conditionTimes(w, r)
	serverCounters(r)
}

// statusLast moves the status write to the end. After a reported failure, a plan writes the status right after the
// checks, so that no other rejected call can prevent it. Upstream writes the same status last.
func statusLast(r *Result) {
	slices.SortStableFunc(r.Writes, func(a, b Write) int {
		last := func(w Write) int {
			if w.Kind == "Deployment" {
				return 1
			}
			return 0
		}
		return last(a) - last(b)
	})
}

// claimOrder sorts adoptions and releases by name. They are the first writes of a pass, and upstream makes them in the
// order of a Go map. They are the ReplicaSet writes that change ownerReferences.
func claimOrder(r *Result) {
	n := 0
	for n < len(r.Writes) && r.Writes[n].Claim {
		n++
	}
	sort.SliceStable(r.Writes[:n], func(i, j int) bool { return r.Writes[i].Name < r.Writes[j].Name })
}

// createdHash replaces the hash in the names and labels of created ReplicaSets, wherever they appear. Our hash function
// differs from that of upstream, which depends on its Go types.
func createdHash(w *World, r *Result) {
	// Always replace the name that upstream would use. If it is already in use, our side may know that from the snapshot
	// and not have attempted the create. (The renaming of Ours.collide has been undone at this point.)
	taken := w.upstreamHash()
	attempts := append([]*appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{Name: cut(w.Deployment.Name, taken), Labels: map[string]string{hashLabel: taken}}}}, r.Attempts...)
	for _, rs := range attempts {
		hash := rs.Labels[hashLabel]
		if hash == "" {
			continue
		}
		names := renaming{rs.Name: cut(w.Deployment.Name, "HASH")}
		names.hash(hash, "HASH")
		names.result(r)
	}
}

// conditionTimes replaces timestamps of the run in conditions with the second of the snapshot. Upstream sets them from
// the wall clock, which cannot be changed, and our planner from snapshot.now. (The clock for deadlines can be changed,
// so deadlines are compared exactly.)
func conditionTimes(w *World, r *Result) {
	now := metav1.NewTime(w.Now.Truncate(time.Second))
	fix := func(t *metav1.Time) {
		if !t.Time.Before(r.NowFrom) && !t.Time.After(r.NowTo) {
			*t = now
		}
	}
	status := func(s *appsv1.DeploymentStatus) {
		for i := range s.Conditions {
			fix(&s.Conditions[i].LastUpdateTime)
			fix(&s.Conditions[i].LastTransitionTime)
		}
	}
	status(&r.Deployment.Status)
	if r.Status != nil {
		status(r.Status)
	}
	for i := range r.Writes {
		if d := r.Writes[i].Deployment; d != nil {
			status(&d.Status)
		}
	}
}

// serverCounters removes resourceVersion and generation. The server sets them, and one PUT may increase them differently
// than several PATCHes with the same result.
func serverCounters(r *Result) {
	clear := func(m *metav1.ObjectMeta) { m.ResourceVersion, m.Generation, m.ManagedFields = "", 0, nil }
	clear(&r.Deployment.ObjectMeta)
	for _, rs := range r.Sets {
		clear(&rs.ObjectMeta)
	}
	for i := range r.Writes {
		if d := r.Writes[i].Deployment; d != nil {
			clear(&d.ObjectMeta)
		}
		if rs := r.Writes[i].Set; rs != nil {
			clear(&rs.ObjectMeta)
		}
	}
}

// renaming replaces names, also inside messages, and hashes, which must match exactly.
type renaming map[string]string

func (n renaming) hash(from, to string) { n["\x00"+from] = to }

func (n renaming) text(s string) string {
	for from, to := range n {
		if from[0] != 0 {
			s = strings.ReplaceAll(s, from, to)
		}
	}
	return s
}

func (n renaming) labels(m map[string]string) {
	if v, ok := m[hashLabel]; ok {
		if to, ok := n["\x00"+v]; ok {
			m[hashLabel] = to
		}
	}
}

func (n renaming) set(rs *appsv1.ReplicaSet) {
	rs.Name = n.text(rs.Name)
	n.labels(rs.Labels)
	if rs.Spec.Selector != nil {
		n.labels(rs.Spec.Selector.MatchLabels)
	}
	n.labels(rs.Spec.Template.Labels)
	for i := range rs.Status.Conditions {
		rs.Status.Conditions[i].Message = n.text(rs.Status.Conditions[i].Message)
	}
}

func (n renaming) pod(p *corev1.Pod) {
	n.labels(p.Labels)
	for i := range p.OwnerReferences {
		p.OwnerReferences[i].Name = n.text(p.OwnerReferences[i].Name)
	}
}

func (n renaming) status(s *appsv1.DeploymentStatus) {
	for i := range s.Conditions {
		s.Conditions[i].Message = n.text(s.Conditions[i].Message)
	}
}

func (n renaming) deployment(d *appsv1.Deployment) { n.status(&d.Status) }

func (n renaming) result(r *Result) {
	for i := range r.Writes {
		w := &r.Writes[i]
		if w.Kind == "ReplicaSet" {
			w.Name = n.text(w.Name)
		}
		if w.Set != nil {
			n.set(w.Set)
		}
		if w.Deployment != nil {
			n.deployment(w.Deployment)
		}
	}
	for i := range r.Events {
		r.Events[i].Message = n.text(r.Events[i].Message)
	}
	n.deployment(r.Deployment)
	if r.Status != nil {
		n.status(r.Status)
	}
	sets := map[string]*appsv1.ReplicaSet{}
	for _, rs := range r.Sets {
		c := rs.DeepCopy()
		n.set(c)
		sets[key(c.Namespace, c.Name)] = c
	}
	r.Sets = sets
	for i := range r.Attempts {
		a := r.Attempts[i].DeepCopy()
		n.set(a)
		r.Attempts[i] = a
	}
}

func dump(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// Explain returns the lines that differ, with some context.
func (d Difference) Explain() string {
	u, o := strings.Split(strings.TrimRight(d.Upstream, "\n"), "\n"), strings.Split(strings.TrimRight(d.Ours, "\n"), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s differs (- upstream, + ours):\n", d.What)
	for _, line := range lineDiff(u, o) {
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}

// lineDiff returns a diff with three lines of context. It uses the longest common subsequence, because texts are short.
func lineDiff(a, b []string) []string {
	if len(a)*len(b) > 4_000_000 {
		return append([]string{"(too long to diff)"}, append(prefix("-", a[:min(20, len(a))]), prefix("+", b[:min(20, len(b))])...)...)
	}
	lcs := make([][]int, len(a)+1)
	for i := range lcs {
		lcs[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	var all []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, "  "+a[i])
			i, j = i+1, j+1
		case j >= len(b) || i < len(a) && lcs[i+1][j] >= lcs[i][j+1]:
			all = append(all, "- "+a[i])
			i++
		default:
			all = append(all, "+ "+b[j])
			j++
		}
	}
	var out []string
	last := -1
	for k := range all {
		near := false
		for m := max(0, k-3); m <= min(len(all)-1, k+3); m++ {
			near = near || all[m][0] != ' '
		}
		if near {
			if last >= 0 && k > last+1 {
				out = append(out, "  …")
			}
			out = append(out, all[k])
			last = k
		}
	}
	return out
}

func prefix(p string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = p + " " + l
	}
	return out
}
