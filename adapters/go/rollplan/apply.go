package rollplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Apply makes the API calls of the steps of a plan or a rollback in order, and records their events on the owner. A
// failed call ends it, unless the step allows it to continue. The error joins a [CallError] for each failed call.
func (r *Rollouts) Apply(ctx context.Context, key types.NamespacedName, steps []*rollplanv1.Step) error {
	owner := object(r.Kind)
	if err := r.Reader.Get(ctx, key, owner); err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s := r.lock(key)
	defer s.mu.Unlock()
	s.resetIfReplaced(owner.GetUID())
	var failed []error
	for _, failure := range r.applySteps(ctx, owner, steps, s) {
		failed = append(failed, failure)
	}
	return errors.Join(failed...)
}

// applySteps makes the API calls in order, records the objects that they return, and returns the calls that failed.
func (r *Rollouts) applySteps(ctx context.Context, owner *unstructured.Unstructured, steps []*rollplanv1.Step, s *state) []*CallError {
	var failed []*CallError
	for _, step := range steps {
		if step.GetCall() != nil {
			written, err := r.send(ctx, step.GetCall())
			if err == nil {
				s.recordWrite(written, step.GetCall().GetVerb(), time.Now())
			}
			if !succeeded(step, err) {
				failure := &CallError{step, err}
				s.forgetMissing(step.GetCall(), err)
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

// send makes one API call and returns the resulting object. The field manager is that of Writer, not that of the call.
func (r *Rollouts) send(ctx context.Context, call *rollplanv1.ApiCall) (*unstructured.Unstructured, error) {
	target := object(schema.FromAPIVersionAndKind(call.GetApiVersion(), call.GetKind()))
	target.SetNamespace(call.GetNamespace())
	target.SetName(call.GetName())
	body := []byte(call.GetBodyJson())
	switch call.GetVerb() {
	case rollplanv1.Verb_VERB_CREATE:
		if err := target.UnmarshalJSON(body); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		return target, r.Writer.Create(ctx, target)
	case rollplanv1.Verb_VERB_PATCH:
		patch := client.RawPatch(types.PatchType(call.GetContentType()), body)
		if sub := call.GetSubresource(); sub != "" {
			return target, r.Writer.SubResource(sub).Patch(ctx, target, patch)
		}
		return target, r.Writer.Patch(ctx, target, patch)
	case rollplanv1.Verb_VERB_DELETE:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		if options.Preconditions != nil && options.Preconditions.UID != nil {
			target.SetUID(*options.Preconditions.UID)
		}
		return target, r.Writer.Delete(ctx, target, &client.DeleteOptions{Raw: &options})
	default:
		return nil, fmt.Errorf("unsupported verb %s", call.GetVerb())
	}
}

// answer is what the next request says about a failed call. If the name of a created object is already in use, it contains
// the existing object.
func (r *Rollouts) answer(ctx context.Context, failed *CallError) *rollplanv1.StepAnswer {
	answer := failed.answer()
	call := failed.Step.GetReadOnConflict()
	if call == nil || answer.GetHttpCode() != http.StatusConflict {
		return answer
	}
	existing := object(schema.FromAPIVersionAndKind(call.GetApiVersion(), call.GetKind()))
	if err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: call.GetNamespace(), Name: call.GetName()}, existing); err != nil {
		return answer // without the object, the planner waits until the snapshot contains it
	}
	if body, err := existing.MarshalJSON(); err == nil {
		answer.ExistingJson = body
	}
	return answer
}
