package rollplan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// terminatingReplicas is a field that API servers before Kubernetes 1.35 do not store by default.
const terminatingReplicas = "status.terminatingReplicas"

// Apply makes the API calls of the steps of a plan or a rollback in order, and records their events on the owner. A
// failed call ends it, unless the step allows it to continue. The error joins a [CallError] for each failed call.
func (r *Rollouts) Apply(ctx context.Context, key types.NamespacedName, steps []*rollplanv1.Step) error {
	owner, err := r.Reader.Get(ctx, r.Kind, key)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s := r.lock(key)
	defer s.mu.Unlock()
	s.resetIfReplaced(owner.UID)
	var failed []error
	for _, failure := range r.applySteps(ctx, owner, steps, s) {
		failed = append(failed, failure)
	}
	return errors.Join(failed...)
}

// applySteps makes the API calls in order, records the objects that they return, and returns the calls that failed.
func (r *Rollouts) applySteps(ctx context.Context, owner *Object, steps []*rollplanv1.Step, s *state) []*CallError {
	var failed []*CallError
	for _, step := range steps {
		if call := step.GetCall(); call != nil {
			answer, err := r.API.Call(ctx, call)
			if err == nil {
				err = s.recordAnswer(call, answer, time.Now())
			}
			if !succeeded(step, answer, err) {
				failure := &CallError{step, answer, err}
				s.forgetMissing(call, answer)
				s.verified = s.verified && !failure.raisesDoubts()
				failed = append(failed, failure)
				if step.GetOnFailure() == rollplanv1.OnFailure_ON_FAILURE_CONTINUE {
					continue
				}
				return failed
			}
		}
		if r.Recorder == nil {
			continue
		}
		for _, event := range step.GetEvents() {
			r.Recorder.Event(owner, event.GetType(), event.GetReason(), event.GetMessage())
		}
	}
	return failed
}

// recordAnswer stores the object that a successful write returned. A delete returns the object or a Status; the UID is then
// that of its precondition.
func (s *state) recordAnswer(call *rollplanv1.ApiCall, answer Answer, now time.Time) error {
	kind := schema.FromAPIVersionAndKind(call.GetApiVersion(), call.GetKind())
	if call.GetVerb() == rollplanv1.Verb_VERB_DELETE {
		deleted := &Object{}
		deleted.SetGroupVersionKind(kind)
		deleted.Name = call.GetName()
		deleted.UID = types.UID(gjson.Get(call.GetBodyJson(), "preconditions.uid").String())
		s.recordWrite(deleted, call.GetVerb(), now)
		return nil
	}
	written, err := ParseObject(answer.Body, kind)
	if err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	if gjson.Get(call.GetBodyJson(), terminatingReplicas).Type == gjson.Number {
		s.dropsTerminating = !written.field(terminatingReplicas).Exists()
	}
	s.recordWrite(written, call.GetVerb(), now)
	return nil
}

// answer returns the answer to a failed call for the next request. If the name of a created object is already in use, it contains
// the existing object.
func (r *Rollouts) answer(ctx context.Context, failed *CallError) *rollplanv1.StepAnswer {
	answer := failed.answer()
	if call := failed.Step.GetReadOnConflict(); call != nil && answer.GetHttpCode() == http.StatusConflict {
		// Without the object, the planner waits until the snapshot contains it.
		if existing, err := r.API.Call(ctx, call); err == nil {
			answer.ExistingJson = existing.Body
		}
	}
	return answer
}
