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

// CallError is a call of a plan that the API server did not carry out.
type CallError struct {
	// Step is what the plan said.
	Step *rollplanv1.Step
	// Err is what the API server answered, or why there was no answer.
	Err error
}

func (e *CallError) Error() string { return fmt.Sprintf("%s: %v", e.Step.GetSummary(), e.Err) }

func (e *CallError) Unwrap() error { return e.Err }

// Stale says that the plan was made from what is no longer so, or that the outcome is not known: look again. Otherwise
// the call was refused, and the next plan must know.
func (e *CallError) Stale() bool {
	answer, ok := statusOf(e.Err)
	switch {
	case !ok, apierrors.IsTimeout(e.Err), apierrors.IsServerTimeout(e.Err):
		return true
	case answer.Code == http.StatusConflict:
		return answer.Reason != metav1.StatusReasonAlreadyExists
	case answer.Code == http.StatusUnprocessableEntity:
		// A failed `test` of a JSON patch names no causes; validation does.
		return answer.Details == nil || len(answer.Details.Causes) == 0
	default:
		return answer.Code < 400 || answer.Code > 599
	}
}

// failure is what the next request says of a refused call.
func (e *CallError) failure() *rollplanv1.StepFailure {
	answer, _ := statusOf(e.Err)
	failure := &rollplanv1.StepFailure{
		Call: e.Step.GetCall(), HttpCode: answer.Code, Reason: string(answer.Reason), Message: answer.Message,
	}
	if answer.Details != nil {
		for _, cause := range answer.Details.Causes {
			failure.Causes = append(failure.Causes, string(cause.Type))
		}
	}
	return failure
}

// statusOf is the API server's answer in an error, if there is one.
func statusOf(err error) (metav1.Status, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return metav1.Status{}, false
	}
	return answer.Status(), true
}

// done says whether an answer counts as success: the object that is to go may be gone.
func done(step *rollplanv1.Step, err error) bool {
	if err == nil {
		return true
	}
	answer, ok := statusOf(err)
	if !ok {
		return false
	}
	return step.GetCall().GetVerb() == rollplanv1.Verb_VERB_DELETE && answer.Code == http.StatusNotFound ||
		step.GetContinueOnFailure() && slices.Contains(step.GetToleratedHttpCodes(), answer.Code)
}

// goesOn says whether a plan goes on although a call of it failed.
func goesOn(step *rollplanv1.Step) bool {
	return step.GetContinueOnFailure() && len(step.GetToleratedHttpCodes()) == 0
}
