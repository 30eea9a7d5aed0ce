package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// defaultPlanner reads one JSON request per line and writes one JSON response per line.
const defaultPlanner = "../target/debug/examples/plan_lines"

// Planner is our planner. It gets a JSON request and returns a JSON response.
type Planner interface {
	Plan(request []byte) ([]byte, error)
	Close()
}

// process is a planner that runs as a child process.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPlanner(command string) (Planner, error) {
	args := strings.Fields(command)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReaderSize(out, 1<<20)}, nil
}

func (p *process) Plan(request []byte) ([]byte, error) {
	if bytes.IndexByte(request, '\n') >= 0 {
		return nil, errors.New("the request contains a line break")
	}
	if _, err := p.in.Write(append(request, '\n')); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	return line, nil
}

func (p *process) Close() {
	p.in.Close()
	_ = p.cmd.Wait()
}

// Ours runs the planner and carries out its steps on a server of its own, as an adapter must: in order, and only until
// the first failure unless the step allows the plan to continue.
type Ours struct {
	planner Planner
}

// plan requests a plan.
func (o *Ours) plan(w *World, horizon string, failures []StepAnswer) (*PlanResponse, error) {
	data, err := w.forPlanner(horizon, failures)
	if err != nil {
		return nil, err
	}
	line, err := o.planner.Plan(data)
	if err != nil {
		return nil, &plannerGone{err}
	}
	resp := &PlanResponse{}
	if err := json.Unmarshal(line, resp); err != nil {
		return nil, fmt.Errorf("cannot decode the response as PlanRolloutResponse: %w: %.200s", err, line)
	}
	if len(resp.Error) > 0 && string(resp.Error) != "null" {
		return nil, fmt.Errorf("the planner returned an error: %s", resp.Error)
	}
	return resp, nil
}

// plannerGone means that the planner process has exited, so that the run must end.
type plannerGone struct{ error }

// Pass carries out one plan with HORIZON_PASS. If the server rejects a create, Pass reports the failure as the contract
// requires and carries out another plan for the same snapshot, which is then the result.
func (o *Ours) Pass(w *World, up *Result) (*Result, error) {
	var back func(*Result)
	var err error
	if collided(up) {
		if w, back, err = o.collide(w); err != nil {
			return nil, err
		}
	}
	r, failure, err := o.carryOut(w, "HORIZON_PASS", nil)
	if err == nil && failure != nil {
		attempts := r.Attempts
		r, failure, err = o.carryOut(w, "HORIZON_PASS", []StepAnswer{*failure})
		if err == nil {
			r.Attempts = append(attempts, r.Attempts...)
		}
		if err == nil && failure != nil {
			r.Refused = append(r.Refused, "the rejected create is planned again although its failure was reported")
			r.Err = errors.New("infinite loop after a rejected create")
		}
	}
	if err != nil {
		return nil, err
	}
	if back != nil {
		back(r)
	}
	return r, nil
}

// carryOut requests a plan and makes its calls. It returns the failure that must be reported, if any.
func (o *Ours) carryOut(w *World, horizon string, failures []StepAnswer) (*Result, *StepAnswer, error) {
	resp, err := o.plan(w, horizon, failures)
	if err != nil {
		return nil, nil, err
	}
	server := NewServer(w)
	var events []Event
	var failed *StepAnswer
	var failedErr error
	ended, endedAt, continued := false, "", false
	for i, step := range resp.Steps {
		if step.Call != nil {
			if err := o.call(w, server, step.Call); err != nil {
				if w.Fault != nil && server.fired || w.Newer != nil {
					if !step.continuesAfter(err) {
						endedAt = string(kindOfCall(step))
					} else if step.OnFailure == "ON_FAILURE_CONTINUE" {
						continued = true
					}
					if definite(err) && (endedAt != "" || continued) && w.Newer == nil && failed == nil {
						failed = failureOf(w, server, step.Call, err)
					}
					if endedAt != "" {
						ended = true
						break
					}
					continue
				}
				if step.Call.Verb == "VERB_CREATE" && definite(err) {
					failed = failureOf(w, server, step.Call, err)
					break
				}
				if !step.continuesAfter(err) && server.refuse == RefuseDelete && step.Call.Verb == "VERB_DELETE" {
					ended = true // upstream ends its pass too
					break
				}
				if !step.continuesAfter(err) {
					failedErr = fmt.Errorf("step %d (%s): %w", i, step.Summary, err)
					break
				}
				continue
			}
		}
		events = append(events, step.Events...)
	}
	r := server.result()
	if len(failures) > 0 {
		statusLast(r)
	}
	r.Events, r.Err, r.Response = events, failedErr, resp
	r.Deployment = server.deployments[key(w.Deployment.Namespace, w.Deployment.Name)]
	if r.Deployment == nil { // deleted from the server
		r.Deployment = w.Deployment.DeepCopy()
	}
	r.Ended, r.EndedAt, r.Continued = ended, endedAt, continued
	r.NowFrom, r.NowTo = w.Now.Truncate(time.Second), w.Now
	if len(resp.Status) > 0 {
		st := &appsv1.DeploymentStatus{}
		dec := json.NewDecoder(bytes.NewReader(resp.Status))
		if err := dec.Decode(st); err != nil {
			return nil, nil, fmt.Errorf("decode response.status: %w", err)
		}
		// remove fractions of seconds and empty lists, as everywhere
		r.Status = &throughProtobufD(&appsv1.Deployment{Status: *st}).Status
	}
	if resp.RequeueAfter != "" {
		if r.Requeue, err = time.ParseDuration(resp.RequeueAfter); err != nil {
			return nil, nil, fmt.Errorf("requeueAfter: %w", err)
		}
	}
	return r, failed, nil
}

// definite reports whether the contract requires that an error is reported. Stale preconditions and timeouts are not.
func definite(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == 422 && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) {
		return false
	}
	return !apierrors.IsConflict(err) && !apierrors.IsTimeout(err)
}

// kindOfCall returns the kind of the call of a step.
func kindOfCall(step PlanStep) FaultOn {
	for _, k := range []struct {
		set bool
		on  FaultOn
	}{
		{step.CreateReplicaSet != nil, OnCreate}, {step.ScaleReplicaSet != nil, OnScale}, {step.UpdateReplicaSet != nil, OnAnnotate},
		{step.AdoptReplicaSet != nil || step.ReleaseReplicaSet != nil, OnClaim}, {step.DeleteReplicaSet != nil, OnDelete},
		{step.CheckOwner != nil, OnCheck}, {step.UpdateDeploymentStatus != nil, OnStatus}, {step.UpdateDeployment != nil, OnOwner},
	} {
		if k.set {
			return k.on
		}
	}
	return "a step without an action"
}

func failureOf(w *World, server *Server, call *ApiCall, err error) *StepAnswer {
	s := metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s = status.Status()
	}
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	f := &StepAnswer{Call: call, HTTPCode: s.Code, Body: mustJSON(s)}
	if apierrors.IsAlreadyExists(err) {
		if existing, ok := server.sets[key(call.Namespace, call.Name)]; ok {
			c := *existing
			c.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}
			f.ExistingJSON = mustJSON(&c)
		}
	}
	return f
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// call makes an API call on the server.
func (o *Ours) call(w *World, s *Server, c *ApiCall) error {
	body := []byte(c.BodyJSON)
	kind := c.Kind
	switch (metav1.TypeMeta{APIVersion: c.APIVersion, Kind: c.Kind}) {
	case w.owner():
		kind = native.Kind
		if w.Owner != nil && c.Subresource == "status" {
			var err error
			if body, err = selectorApart(w, body); err != nil {
				return err
			}
			if err := metadataDropped(body); err != nil {
				return err
			}
		}
	case metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}:
	default:
		return fmt.Errorf("call to %s %s: unsupported kind", c.APIVersion, c.Kind)
	}
	switch c.Verb + " " + kind {
	case "VERB_CREATE ReplicaSet":
		rs := &appsv1.ReplicaSet{}
		if err := strict(body, rs); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		if rs.Name != c.Name || rs.Namespace != "" && rs.Namespace != c.Namespace {
			return fmt.Errorf("create: call is for %s/%s, but body for %s/%s", c.Namespace, c.Name, rs.Namespace, rs.Name)
		}
		if rs.APIVersion != "apps/v1" || rs.Kind != "ReplicaSet" {
			return fmt.Errorf("create: body is %s %s", rs.APIVersion, rs.Kind)
		}
		rs.TypeMeta = metav1.TypeMeta{}
		rs.Namespace = c.Namespace
		_, err := s.CreateReplicaSet(rs)
		return err
	case "VERB_PATCH ReplicaSet":
		_, err := s.PatchReplicaSet(c.Namespace, c.Name, c.Subresource, types.PatchType(c.ContentType), body)
		return err
	case "VERB_PATCH Deployment":
		_, err := s.PatchDeployment(c.Namespace, c.Name, c.Subresource, types.PatchType(c.ContentType), body)
		return err
	case "VERB_DELETE ReplicaSet":
		opts := metav1.DeleteOptions{}
		if len(body) > 0 {
			if err := strict(body, &opts); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
		return s.DeleteReplicaSet(c.Namespace, c.Name, opts)
	}
	return fmt.Errorf("unsupported call: %s %s", c.Verb, c.Kind)
}

func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// collided reports whether upstream found that the name of the new ReplicaSet was already in use. (If upstream creates no
// ReplicaSet, an existing one of that name is not special, and renaming it would change how ties by name are broken.)
func collided(up *Result) bool {
	for _, r := range up.Refused {
		if strings.HasPrefix(r, "create") && strings.HasSuffix(r, "already exists") {
			return true
		}
	}
	return false
}

// collide does the part of the normalization of hashes (createdHash) that must happen before the run: if the snapshot
// contains a ReplicaSet with the name that upstream will use, our side gets it with the name that our planner will use.
// The hash for that name comes from a plan for the same Deployment without ReplicaSets. The returned function undoes the
// renaming in the result.
func (o *Ours) collide(w *World) (*World, func(*Result), error) {
	theirs := w.upstreamHash()
	theirName := cut(w.Deployment.Name, theirs)
	taken := false
	for _, rs := range w.ReplicaSets {
		taken = taken || rs.Name == theirName
	}
	if !taken {
		return w, nil, nil
	}
	probe := w.DeepCopy()
	probe.ReplicaSets, probe.Pods, probe.PodsComplete, probe.Refuse, probe.Fault, probe.Newer = nil, nil, true, RefuseNothing, nil, nil
	d := probe.Deployment
	d.Spec.Paused, d.DeletionTimestamp, d.Finalizers = false, nil, nil
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	d.Status.Conditions = nil
	resp, err := o.plan(probe, "HORIZON_PASS", nil)
	if err != nil {
		return nil, nil, err
	}
	ours := ""
	for _, step := range resp.Steps {
		if step.Call != nil && step.Call.Verb == "VERB_CREATE" {
			rs := &appsv1.ReplicaSet{}
			if err := json.Unmarshal([]byte(step.Call.BodyJSON), rs); err != nil {
				return nil, nil, err
			}
			ours = rs.Labels[hashLabel]
		}
	}
	if ours == "" {
		return w, nil, nil // the plan creates no ReplicaSet, for example because the selector is empty
	}
	there := renaming{cut(d.Name, theirs): cut(d.Name, ours)}
	there.hash(theirs, ours)
	back := renaming{cut(d.Name, ours): cut(d.Name, theirs)}
	back.hash(ours, theirs)
	out := w.DeepCopy()
	for _, rs := range out.ReplicaSets {
		there.set(rs)
	}
	for _, p := range out.Pods {
		there.pod(p)
	}
	there.deployment(out.Deployment)
	if out.Fault != nil {
		fault := *out.Fault
		fault.Name = there.text(fault.Name)
		out.Fault = &fault
	}
	if out.Newer != nil {
		newer := *out.Newer
		newer.Set = there.text(newer.Set)
		out.Newer = &newer
	}
	return out, back.result, nil
}
