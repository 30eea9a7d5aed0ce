"""Carrying out the steps of a plan: docs/guides/adapters.md, "The loop"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rollplan._answer import Answer
from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, CancelledError
from rollplan.v1 import plan_pb2

if TYPE_CHECKING:
    from rollplan.kubernetes import Api

METHODS = {
    plan_pb2.VERB_CREATE: "POST",
    plan_pb2.VERB_PATCH: "PATCH",
    plan_pb2.VERB_DELETE: "DELETE",
    plan_pb2.VERB_GET: "GET",
}
# The longest body of a failed call that the planner accepts.
BODY_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class CallResult:
    """The result of a call of a plan."""

    step: plan_pb2.Step
    # None if the call was not made, because an earlier one ended the plan.
    answer: Answer | None
    # The object that already has the name, if it could be read.
    existing: bytes = b""

    def __str__(self) -> str:
        answer = self.answer or Answer(0, error="not made")
        return str(ApiError(self.step.summary, answer.code, answer.message))

    @property
    def failed(self) -> bool:
        """Whether the call was made, and its step does not count as carried out."""
        step, answer = self.step, self.answer
        if answer is None or answer.ok:
            return False
        return step.on_failure != plan_pb2.ON_FAILURE_DONE_IF or answer.code not in step.done_http_codes

    def message(self) -> plan_pb2.Answer:
        """The answer for the next request."""
        if self.answer is None:
            return plan_pb2.Answer(id=self.step.id)
        return to_message(self.step.id, self.answer, self.existing)


def to_message(id_: str, answer: Answer, existing: bytes = b"") -> plan_pb2.Answer:
    """The answer to a call, as it was received."""
    body = answer.body if answer.ok else answer.body[:BODY_BYTES_MAX]
    return plan_pb2.Answer(id=id_, made=True, http_code=answer.code, body=body, existing=existing)


def carry_out(api: Api, steps: Iterable[plan_pb2.Step], cancel: Cancellation | None = None) -> Iterator[CallResult]:
    """Makes the calls in order, and yields the result of each. After a cancellation, the remaining calls have no result."""
    has_ended = False
    for step in steps:
        if cancel and cancel.cancelled:
            return
        if step.HasField("call"):
            if has_ended:
                yield CallResult(step, None)
                continue
            answer, existing = send(api, step.call, cancel), b""
            if answer.code == 409 and step.HasField("read_on_conflict"):
                read = send(api, step.read_on_conflict, cancel)
                existing = read.body if read.ok else b""
            result = CallResult(step, answer, existing)
            yield result
            if result.failed:
                has_ended = step.on_failure != plan_pb2.ON_FAILURE_CONTINUE
                continue
        if not has_ended:
            for call in step.event_calls:
                send(api, call, cancel)  # a plan does not depend on events


def send(api: Api, call: plan_pb2.ApiCall, cancel: Cancellation | None = None) -> Answer:
    """Makes a call once. A cancelled call has no answer."""
    try:
        return api.request(METHODS[call.verb], call.path, call.query, call.content_type, call.body_json.encode(), cancel)
    except CancelledError as error:
        return Answer(0, error=str(error))
