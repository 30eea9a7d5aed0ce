package rollplan

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// maxAnswerBody is the size of the longest body that the planner accepts in an answer.
const maxAnswerBody = 64 << 10

// CallError is an API call of a plan that failed.
type CallError struct {
	// Step is the step of the plan.
	Step *rollplanv1.Step
	// Answer is the answer of the API server.
	Answer Answer
	// Err describes the answer, or the reason why there is none.
	Err error
}

func (e *CallError) Error() string { return fmt.Sprintf("%s: %v", e.Step.GetSummary(), e.Err) }

func (e *CallError) Unwrap() error { return e.Err }

// Rejected reports whether the API server rejected the call, which users should know. Otherwise the plan was made from an
// outdated snapshot, or the outcome is unknown, and the next plan handles it. The planner does not depend on this
// distinction.
func (e *CallError) Rejected() bool {
	response, ok := statusOf(e.Err)
	switch {
	case !ok, apierrors.IsTimeout(e.Err), apierrors.IsServerTimeout(e.Err), apierrors.IsUnexpectedServerError(e.Err):
		return false // the last one is the page of a proxy
	case response.Code == http.StatusConflict:
		return response.Reason == metav1.StatusReasonAlreadyExists
	case response.Code == http.StatusUnprocessableEntity:
		// Validation errors list causes; a failed `test` operation of a JSON patch does not.
		return response.Details != nil && len(response.Details.Causes) > 0
	default:
		return true
	}
}

// namespaceTerminating reports whether the call was rejected because the namespace is being deleted.
func (e *CallError) namespaceTerminating() bool {
	return apierrors.HasStatusCause(e.Err, corev1.NamespaceTerminatingCause)
}

// raisesDoubts reports whether the failure may mean that the ReplicaSets differ from the cache and the adapter's own writes.
// A rejection by a quota or an admission rule does not. An internal error does: if etcd does not answer in time, the write may
// nevertheless have been made.
func (e *CallError) raisesDoubts() bool {
	code := e.Answer.Code
	refused := e.Rejected() && code != http.StatusConflict && code != http.StatusNotFound && code < http.StatusInternalServerError
	return e.Step.GetCall().GetKind() == ReplicaSet.Kind && !refused
}

// answer returns the answer to the call for the next request.
func (e *CallError) answer() *rollplanv1.StepAnswer {
	return &rollplanv1.StepAnswer{
		Call: e.Step.GetCall(), HttpCode: int32(e.Answer.Code), Body: e.Answer.Body[:min(len(e.Answer.Body), maxAnswerBody)],
	}
}

// statusOf returns the response of the API server that an error wraps, if any.
func statusOf(err error) (metav1.Status, bool) {
	var response apierrors.APIStatus
	if !errors.As(err, &response) {
		return metav1.Status{}, false
	}
	return response.Status(), true
}

// succeeded reports whether a step counts as carried out, perhaps although its call failed.
func succeeded(step *rollplanv1.Step, answer Answer, err error) bool {
	return err == nil || step.GetOnFailure() == rollplanv1.OnFailure_ON_FAILURE_DONE_IF &&
		slices.Contains(step.GetDoneHttpCodes(), int32(answer.Code))
}
