package rollplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Apply makes the calls of some steps in order, as of a plan or a rollback, and records their events on the owner. It
// stops where the steps say so. The error joins a [CallError] for each call that failed.
func (r *Rollouts) Apply(ctx context.Context, key types.NamespacedName, steps []*rollplanv1.Step) error {
	owner := object(r.Kind)
	if err := r.Reader.Get(ctx, key, owner); err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind.Kind, key, err)
	}
	s := r.state(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.belongsTo(owner.GetUID())
	var failed []error
	for _, failure := range r.carryOut(ctx, owner, steps, s) {
		failed = append(failed, failure)
	}
	return errors.Join(failed...)
}

// carryOut makes the calls in order, remembers what they return, and tells which failed.
func (r *Rollouts) carryOut(ctx context.Context, owner *unstructured.Unstructured, steps []*rollplanv1.Step, s *state) []*CallError {
	var failed []*CallError
	for _, step := range steps {
		if step.GetCall() != nil {
			written, err := r.call(ctx, step.GetCall())
			if err == nil {
				s.wrote(written, step.GetCall().GetVerb(), time.Now())
			}
			if !done(step, err) {
				s.refuted(step.GetCall(), err)
				s.confirmed = s.confirmed && step.GetCall().GetKind() != ReplicaSet.Kind
				failed = append(failed, &CallError{step, err})
				if goesOn(step) {
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

// call makes one call, and returns the object as it left it.
func (r *Rollouts) call(ctx context.Context, call *rollplanv1.ApiCall) (*unstructured.Unstructured, error) {
	target := object(schema.FromAPIVersionAndKind(call.GetApiVersion(), call.GetKind()))
	target.SetNamespace(call.GetNamespace())
	target.SetName(call.GetName())
	body := []byte(call.GetBodyJson())
	switch call.GetVerb() {
	case rollplanv1.Verb_VERB_CREATE:
		if err := target.UnmarshalJSON(body); err != nil {
			return nil, fmt.Errorf("read body: %w", err)
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
			return nil, fmt.Errorf("read body: %w", err)
		}
		if options.Preconditions != nil && options.Preconditions.UID != nil {
			target.SetUID(*options.Preconditions.UID)
		}
		return target, r.Writer.Delete(ctx, target, &client.DeleteOptions{Raw: &options})
	default:
		return nil, fmt.Errorf("the plan has a call with verb %s, which this library does not know", call.GetVerb())
	}
}

// report is what the next request says of a refused call. Whose name is taken, the planner must see.
func (r *Rollouts) report(ctx context.Context, refused *CallError) *rollplanv1.StepFailure {
	failure := refused.failure()
	if !apierrors.IsAlreadyExists(refused.Err) {
		return failure
	}
	call := refused.Step.GetCall()
	existing := object(schema.FromAPIVersionAndKind(call.GetApiVersion(), call.GetKind()))
	if err := r.Writer.Get(ctx, types.NamespacedName{Namespace: call.GetNamespace(), Name: call.GetName()}, existing); err != nil {
		return failure // the planner then waits for the object to show up
	}
	if message, err := convert(nil, map[types.UID]conversion{}, existing, &rollplanv1.ReplicaSet{}); err == nil {
		failure.Existing = message
	}
	return failure
}
