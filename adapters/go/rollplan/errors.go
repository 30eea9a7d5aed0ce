package rollplan

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

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
