"""Carrying out the steps of a plan: docs/api.md, "How to carry out a plan"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rollplan._answer import Answer, read_answer
from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, CancelledError
from rollplan._state import OwnerState
from rollplan.objects import REPLICA_SET, TERMINATING_REPLICAS, Key, Kind, Object
from rollplan.v1 import plan_pb2

if TYPE_CHECKING:
    from rollplan.kubernetes import Api

METHODS = {
    plan_pb2.VERB_CREATE: "POST",
    plan_pb2.VERB_PATCH: "PATCH",
    plan_pb2.VERB_DELETE: "DELETE",
    plan_pb2.VERB_GET: "GET",
}
# The longest body that the planner accepts in an answer.
ANSWER_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class Failure:
    """A call of a plan that failed."""

    step: plan_pb2.Step
    answer: Answer
    # The object that already has the name, if it could be read.
    existing: bytes = b""

    def __str__(self) -> str:
        return str(ApiError(self.step.summary, self.answer.code, self.answer.message))

    @property
    def reason(self) -> str:
        """The reason of the API server, for example "Conflict"."""
        return str(self.answer.json().get("reason", ""))

    @property
    def _causes(self) -> list[str]:
        details = self.answer.json().get("details") or {}
        return [str(it.get("reason", "")) for it in details.get("causes") or []]

    @property
    def rejected(self) -> bool:
        """Whether the API server rejected the call, which users should know.

        Otherwise the plan was made from an outdated snapshot, or the outcome is unknown, and the next plan handles it.
        What the planner makes of the answer does not depend on this.
        """
        code, reason = self.answer.code, self.reason
        if not reason or reason in ("Timeout", "ServerTimeout"):
            return False
        if code == 409:
            return reason == "AlreadyExists"
        # Validation errors list causes; a failed `test` operation of a JSON patch does not.
        return bool(self._causes) if code == 422 else True

    @property
    def namespace_terminating(self) -> bool:
        """Whether nothing more can be created, because the namespace is being deleted."""
        return "NamespaceTerminating" in self._causes

    @property
    def raises_doubts(self) -> bool:
        """Whether the ReplicaSets may differ from the cache and the adapter's own writes.

        A rejection by a quota or an admission rule does not mean that they do.
        """
        rejected = self.rejected and self.answer.code not in (404, 409) and self.answer.code < 500
        return self.step.call.kind == REPLICA_SET.kind and not rejected

    def message(self) -> plan_pb2.StepAnswer:
        """The answer for the next request."""
        return plan_pb2.StepAnswer(
            call=self.step.call,
            http_code=self.answer.code,
            body=self.answer.body[:ANSWER_BYTES_MAX],
            existing_json=self.existing,
        )


def carry_out(api: Api, steps: Iterable[plan_pb2.Step], state: OwnerState, cancel: Cancellation | None) -> Iterator[Failure]:
    """Makes the calls in order, and yields the failed ones. A cancelled call has no answer."""
    for step in steps:
        if step.HasField("call"):
            answer = _send(api, step.call, cancel)
            done = step.on_failure == plan_pb2.ON_FAILURE_DONE_IF and answer.code in step.done_http_codes
            if answer.ok:
                _record(step.call, answer, state)
            elif not done:
                failure = Failure(step, answer, _existing(api, step, answer, cancel))
                if answer.code == 404:
                    state.forget_missing(step.call.kind, step.call.name)
                state.verified = state.verified and not failure.raises_doubts
                yield failure
                if step.on_failure == plan_pb2.ON_FAILURE_CONTINUE and not (cancel and cancel.cancelled):
                    continue
                return
        for call in step.event_calls:
            _send(api, call, cancel)  # a plan does not depend on events


def _send(api: Api, call: plan_pb2.ApiCall, cancel: Cancellation | None) -> Answer:
    try:
        body = call.body_json.encode()
        return api.request(METHODS[call.verb], call.path, call.query, call.content_type, body, cancel)
    except CancelledError:
        return Answer(0)


def _existing(api: Api, step: plan_pb2.Step, answer: Answer, cancel: Cancellation | None) -> bytes:
    if answer.code != 409 or not step.HasField("read_on_conflict"):
        return b""
    read = _send(api, step.read_on_conflict, cancel)
    return read.body if read.ok else b""


def _record(call: plan_pb2.ApiCall, answer: Answer, state: OwnerState) -> None:
    if call.verb == plan_pb2.VERB_DELETE:
        uid = json.loads(call.body_json)["preconditions"]["uid"]
        gone = Object(call.api_version, call.kind, Key(call.namespace, call.name), uid, 0, "", deleting=True)
        state.record_write(gone, deleted=True)
        return
    kind = Kind(call.api_version, call.kind, "")
    try:
        written = read_answer(f"write {call.kind} {call.name}", answer, lambda body: Object.from_text(body, kind))
    except ApiError:
        state.verified = False  # the result of the write is unknown
        raise
    field = TERMINATING_REPLICAS + ":"
    if field in call.body_json and field + "null" not in call.body_json:
        state.drops_terminating = TERMINATING_REPLICAS not in written.json
    state.record_write(written, created=call.verb == plan_pb2.VERB_CREATE)
