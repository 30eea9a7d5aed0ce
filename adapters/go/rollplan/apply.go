package rollplan

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Apply makes the API calls of the steps of a plan or a rollback in order, and records their events on the owner. A
// failed call ends it, unless the step allows it to continue. The error joins a [CallError] for each failed call.
func (r *Rollouts) Apply(ctx context.Context, key types.NamespacedName, steps []*rollplanv1.Step) error {
	owner, err := r.Reader.Get(ctx, r.Kind, key)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	_, failed := r.API.carryOut(ctx, r.Recorder, owner, steps)
	return errors.Join(failed, ctx.Err())
}

// carryOut makes the API calls in order, records the events on the owner if there is a recorder, and returns the answers. The error joins a [CallError] for each
// failed call. Once the context has ended, the remaining calls have no answers.
func (a *API) carryOut(ctx context.Context, recorder record.EventRecorder, owner *Object, steps []*rollplanv1.Step) (answers []*rollplanv1.Answer, _ error) {
	var failed []error
	ended := false
	for _, step := range steps {
		if ctx.Err() != nil {
			break
		}
		if step.GetCall() != nil {
			answer := &rollplanv1.Answer{Id: step.GetId()}
			var err error
			if !ended {
				answer, err = a.call(ctx, step)
			}
			answers = append(answers, answer)
			if err != nil {
				failed = append(failed, err)
				ended = step.GetOnFailure() != rollplanv1.OnFailure_ON_FAILURE_CONTINUE
				continue
			}
		}
		if ended || recorder == nil {
			continue
		}
		for _, event := range step.GetEvents() {
			recorder.Event(owner, event.GetType(), event.GetReason(), event.GetMessage())
		}
	}
	return answers, errors.Join(failed...)
}

// call makes the call of a step. The error is a [CallError] unless the step counts as carried out.
func (a *API) call(ctx context.Context, step *rollplanv1.Step) (*rollplanv1.Answer, error) {
	received, err := a.Call(ctx, step.GetCall())
	answer := received.to(step.GetId())
	if read := step.GetReadOnConflict(); read != nil && received.Code == http.StatusConflict {
		if existing, err := a.Call(ctx, read); err == nil {
			answer.Existing = existing.Body
		}
	}
	if !succeeded(step, received, err) {
		return answer, &CallError{step, received, err}
	}
	return answer, nil
}
