package rollplan

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// CallError is an API call of a plan that failed.
type CallError struct {
	// Step is the step of the plan.
	Step *rollplanv1.Step
	// Err is the response of the API server, or the reason why there is none.
	Err error
}

func (e *CallError) Error() string { return fmt.Sprintf("%s: %v", e.Step.GetSummary(), e.Err) }

func (e *CallError) Unwrap() error { return e.Err }

// Stale reports whether the plan was made from an outdated snapshot or the outcome of the call is unknown, so that the
// Deployment must be read again. Otherwise the API server rejected the call, and the next request must include that.
func (e *CallError) Stale() bool {
	response, ok := statusOf(e.Err)
	switch {
	case !ok, apierrors.IsTimeout(e.Err), apierrors.IsServerTimeout(e.Err):
		return true
	case response.Code == http.StatusConflict:
		return response.Reason != metav1.StatusReasonAlreadyExists
	case response.Code == http.StatusUnprocessableEntity:
		// Validation errors list causes; a failed `test` operation of a JSON patch does not.
		return response.Details == nil || len(response.Details.Causes) == 0
	default:
		return response.Code < 400 || response.Code > 599
	}
}

// stepFailure converts a rejected call to the message that the next request includes.
func (e *CallError) stepFailure() *rollplanv1.StepFailure {
	response, _ := statusOf(e.Err)
	failure := &rollplanv1.StepFailure{
		Call: e.Step.GetCall(), HttpCode: response.Code, Reason: string(response.Reason), Message: response.Message,
	}
	if response.Details != nil {
		for _, cause := range response.Details.Causes {
			failure.Causes = append(failure.Causes, string(cause.Type))
		}
	}
	return failure
}

// statusOf returns the response of the API server that an error wraps, if any.
func statusOf(err error) (metav1.Status, bool) {
	var response apierrors.APIStatus
	if !errors.As(err, &response) {
		return metav1.Status{}, false
	}
	return response.Status(), true
}

// succeeded reports whether the outcome of a call counts as success. Deleting an object that no longer exists does.
func succeeded(step *rollplanv1.Step, err error) bool {
	if err == nil {
		return true
	}
	response, ok := statusOf(err)
	if !ok {
		return false
	}
	return step.GetCall().GetVerb() == rollplanv1.Verb_VERB_DELETE && response.Code == http.StatusNotFound ||
		step.GetContinueOnFailure() && slices.Contains(step.GetToleratedHttpCodes(), response.Code)
}

// continuesAfterFailure reports whether the plan continues after this step has failed.
func continuesAfterFailure(step *rollplanv1.Step) bool {
	return step.GetContinueOnFailure() && len(step.GetToleratedHttpCodes()) == 0
}
