"""The smallest complete adapter: the loop of docs/guides/adapters.md for one owner, on the standard library alone.

The transcripts are recorded with it (generate.py), it passes them as a program (client.py), and it can serve as the model for
an adapter in another language. It does not have watches, a work queue, or leader election, which are up to its caller.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

# A Kubernetes object, or a message of the contract in protobuf's JSON.
Json = dict[str, Any]

METHODS = {"VERB_CREATE": "POST", "VERB_PATCH": "PATCH", "VERB_DELETE": "DELETE", "VERB_GET": "GET"}
ANSWER_BYTES_MAX = 64 * 1024


class PlannerError(Exception):
    """The service returned no plan."""


@dataclass(frozen=True)
class Answer:
    """An answer of the API server. The code is 0 if there was none."""

    code: int
    body: bytes = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300


@dataclass
class Result:
    """How a sync ended, and when to sync again."""

    outcome: str
    at_latest: timedelta | None = None
    not_before: timedelta | None = None


@dataclass
class Adapter:
    """The state of one owner that the next sync needs."""

    # Snapshot.target, with all fields that identify the owner.
    owner: Json
    # Calls a method of the service: takes its name and the request as JSON, and returns the response.
    plan: Callable[[str, Json], Json]
    # Makes an ApiCall.
    call: Callable[[Json], Answer]
    # Records an event on the owner.
    record: Callable[[Json], None]
    now: Callable[[], datetime]
    # The fields that every Sync has: session, statusInterval and minInterval.
    settings: Json
    options: Json = field(default_factory=dict)
    # Another thread sets this to cancel the sync that is in progress.
    cancelled: bool = False

    uid: str = ""
    value: str = ""
    answers: list[Json] = field(default_factory=list)
    watches_pods: bool = False
    # The versions of the objects in the last request, by UID.
    versions: dict[str, str] = field(default_factory=dict)
    due: datetime | None = None

    def sync(self, cache: list[Json]) -> Result:
        """Requests a plan and carries it out."""
        self.cancelled = False
        uid = next((it["metadata"]["uid"] for it in cache if self._is_owner(it)), "")
        if uid != self.uid:
            self._forget(uid)
        if not uid:
            return Result("missing")
        left = self.due - self.now() if self.due else None
        is_due = left is not None and left <= timedelta()
        if not self.answers and not is_due and self.versions == _versions(self._objects(cache)):
            return Result("done", left)
        try:
            response = self._plan(cache)
        except PlannerError:
            return Result("cancelled" if self.cancelled else "failed")
        if not self.uid:
            return Result("missing")
        failed, self.answers = self._carry_out(response.get("steps", []))
        if self.cancelled:
            return Result("cancelled")
        at_latest = _duration(response["sync"].get("atLatest"))
        self.versions, self.due = _versions(self._objects(cache)), self.now() + at_latest if at_latest else None
        return Result("again" if failed else "done", at_latest, _duration(response["sync"].get("notBefore")))

    def canary(self, cache: list[Json], request: Json) -> Result:
        """Requests the plan of a canary, with this policy, command and verdicts, and carries it out."""
        try:
            response = self.plan("PlanCanary", {"snapshot": self._snapshot(cache, with_pods=True), **request})
        except PlannerError:
            return Result("failed")
        failed, _ = self._carry_out(response.get("steps", []))
        return Result("again" if failed else "done", _duration(response.get("requeueAfter")))

    def _is_owner(self, it: Json) -> bool:
        identity = {"apiVersion": it["apiVersion"], "kind": it["kind"], **it["metadata"]}
        return all(identity[key] == self.owner[key] for key in ("apiVersion", "kind", "namespace", "name"))

    def _forget(self, uid: str) -> None:
        self.uid, self.value, self.answers, self.watches_pods, self.versions, self.due = uid, "", [], False, {}, None

    def _objects(self, cache: list[Json]) -> list[Json]:
        """The owner, the ReplicaSets that it controls and those without a controller and, once they are needed, their pods."""
        sets = [it for it in cache if it["kind"] == "ReplicaSet" and _controller(it) in (self.uid, None)]
        uids = {it["metadata"]["uid"] for it in sets}
        pods = [it for it in cache if self.watches_pods and it["kind"] == "Pod" and _controller(it) in uids]
        return [*filter(self._is_owner, cache), *sets, *pods]

    def _snapshot(self, objects: list[Json], with_pods: bool) -> Json:
        return {
            "now": self.now().isoformat().replace("+00:00", "Z"),
            "objects": [json.dumps(it) for it in objects],
            "target": self.owner,
            "replicaSetsComplete": True,
            "podsComplete": with_pods,
        }

    def _plan(self, cache: list[Json]) -> Json:
        """Requests a plan until nothing more must be read."""
        while True:
            snapshot = self._snapshot(self._objects(cache), self.watches_pods)
            sync = {**self.settings, "value": self.value, "answers": self.answers}
            response = self.plan("PlanRollout", {"snapshot": snapshot, "options": self.options, "sync": sync})
            had_pods, self.watches_pods = self.watches_pods, response["sync"].get("watchPods", False)
            self.value = response["sync"].get("value", "")
            if self.watches_pods and not had_pods:
                continue
            reads = response["sync"].get("reads", [])
            for read in reads:
                answer = self.call(read["call"])
                if answer.code == 404 and read["call"]["kind"] == self.owner["kind"]:
                    self._forget("")
                    return response
                self.answers = [*self.answers, _answer(read, answer)]
            if not reads:
                return response

    def _carry_out(self, steps: list[Json]) -> tuple[bool, list[Json]]:
        """Makes the calls in order. Returns whether one has failed, and the answers."""
        failed = ended = False
        answers: list[Json] = []
        for step in steps:
            if self.cancelled:
                break
            if ended:
                answers += [{"id": step.get("id"), "made": False}] if "call" in step else []
                continue
            if "call" in step:
                answer = self.call(step["call"])
                existing = self.call(step["readOnConflict"]) if answer.code == 409 and "readOnConflict" in step else None
                answers.append(_answer(step, answer, existing))
                if not answer.ok and answer.code not in step.get("doneHttpCodes", []):
                    failed, ended = True, step["onFailure"] != "ON_FAILURE_CONTINUE"
                    continue
            for event in step.get("events", []):
                self.record(event)
        return failed, answers


def _answer(step: Json, answer: Answer, existing: Answer | None = None) -> Json:
    body = answer.body if answer.ok else answer.body[:ANSWER_BYTES_MAX]
    returned = {"id": step.get("id"), "made": True, "httpCode": answer.code, "body": base64.b64encode(body).decode()}
    if existing and existing.ok:
        returned["existing"] = base64.b64encode(existing.body).decode()
    return returned


def _versions(objects: list[Json]) -> dict[str, str]:
    return {it["metadata"]["uid"]: it["metadata"]["resourceVersion"] for it in objects}


def _controller(it: Json) -> str | None:
    return next((ref["uid"] for ref in it["metadata"].get("ownerReferences", []) if ref.get("controller")), None)


def _duration(text: str | None) -> timedelta | None:
    return timedelta(seconds=float(text.removesuffix("s"))) if text else None
