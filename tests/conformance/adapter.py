"""The smallest complete adapter: one sync of one Deployment, on the standard library alone.

It is the executable form of "How to carry out a plan" in docs/api.md. The transcripts are recorded with it (generate.py), it
passes them as a program (client.py), and it can serve as the model for an adapter in another language. It does not have
watches, a work queue with a backoff, or leader election, which are up to its caller.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

# A Kubernetes object, or a message of the contract in protobuf's JSON.
Json = dict[str, Any]

REPLICA_SETS = "/apis/apps/v1/namespaces/{}/replicasets"
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

    def object(self) -> Json:
        parsed: Json = json.loads(self.body)
        return parsed


@dataclass(frozen=True)
class Owner:
    """The object that is rolled out."""

    api_version: str
    kind: str
    resource: str
    namespace: str
    name: str

    def is_of(self, it: Json) -> bool:
        meta = it["metadata"]
        have = (it["apiVersion"], it["kind"], meta["namespace"], meta["name"])
        return have == (self.api_version, self.kind, self.namespace, self.name)

    def target(self) -> Json:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "resource": self.resource,
        }


@dataclass
class Write:
    """An object that one of the adapter's own calls returned, kept until the cache shows it."""

    object: Json
    created: bool
    deleted: bool


@dataclass
class Adapter:
    """The state of one Deployment that the next sync needs."""

    owner: Owner
    # Calls a method of the service: takes its name and the request as JSON, and returns the response.
    plan: Callable[[str, Json], Json]
    # Makes an API call: method, path, query, content type and body.
    call: Callable[[str, str, str, str, bytes], Answer]
    # Records an event on the Deployment.
    record: Callable[[Json], None]
    now: Callable[[], str]
    options: Json = field(default_factory=dict)

    uid: str = ""
    writes: dict[str, Write] = field(default_factory=dict)
    answers: list[Json] = field(default_factory=list)
    # Whether cache and writes together are known to have all sizes of the ReplicaSets.
    verified: bool = False
    # Whether the API server has dropped terminatingReplicas from a status write, until a ReplicaSet has this field.
    drops_terminating: bool = False

    def sync(self, cache: list[Json]) -> tuple[str, str]:
        """Requests a plan and carries it out. Returns the outcome, and the time after which to sync again."""
        if not self._find(cache):
            return "missing", ""
        try:
            objects, response = self._plan(cache)
            if not self.verified and _writes_replica_sets(response):
                outdated, others = self._read_replica_sets(objects)
                if outdated or others:
                    _, response = self._plan(cache, others)
                # The next request does not have the others. If they prevent all writes, they must be read again.
                self.verified = not others or _writes_replica_sets(response)
        except PlannerError:
            return "failed", ""
        # A plan that reacts to a rejection does not repeat the call. The next plan does, after a backoff.
        reacted, self.answers = bool(self.answers), self._carry_out(response.get("steps", []))
        return ("again" if reacted or self.answers else "done"), response.get("requeueAfter", "")

    def canary(self, cache: list[Json], request: Json) -> tuple[str, str]:
        """Requests the plan of a canary, with this policy, command and verdicts, and carries it out."""
        if not self._find(cache):
            return "missing", ""
        try:
            response = self.plan("PlanCanary", {"snapshot": self._snapshot(self._observe(cache)), **request})
        except PlannerError:
            return "failed", ""
        failed = self._carry_out(response.get("steps", []))
        return ("again" if failed else "done"), response.get("requeueAfter", "")

    def _find(self, cache: list[Json]) -> bool:
        """Whether the Deployment exists. Without it, or with another UID, nothing is kept."""
        uid = next((it["metadata"]["uid"] for it in cache if self.owner.is_of(it)), "")
        if uid != self.uid:
            self._reset(uid)
        return bool(uid)

    def _reset(self, uid: str) -> None:
        self.uid, self.writes, self.answers, self.verified, self.drops_terminating = uid, {}, [], False, False

    def _plan(self, cache: list[Json], others: Iterable[Json] = ()) -> tuple[list[Json], Json]:
        objects = [*self._observe(cache), *others]
        if any(it["kind"] == "ReplicaSet" and self._is_ours(it) and _terminating(it) is not None for it in objects):
            self.drops_terminating = False
        options = {"terminatingReplicas": False, **self.options} if self.drops_terminating else self.options
        snapshot = {**self._snapshot(objects), "answers": self.answers}
        return objects, self.plan("PlanRollout", {"snapshot": snapshot, "options": options})

    def _snapshot(self, objects: list[Json]) -> Json:
        # An adapter may send all objects that it has, because the planner selects those of the Deployment.
        return {
            "now": self.now(),
            "objects": [json.dumps(it) for it in objects],
            "target": self.owner.target(),
            "replicaSetsComplete": True,
            "podsComplete": True,
        }

    def _observe(self, cache: list[Json]) -> list[Json]:
        """The cache as it will be once it shows the adapter's own writes."""
        objects, shown = [], set()
        for it in cache:
            uid = it["metadata"]["uid"]
            shown.add(uid)
            own = self.writes.get(uid)
            if own is None:
                objects.append(it)
            elif own.deleted and "deletionTimestamp" not in it["metadata"]:
                continue
            elif not own.deleted and _version(it) < _version(own.object):
                own.created = False
                objects.append(own.object)
            else:
                del self.writes[uid]
                objects.append(it)
        for uid, own in list(self.writes.items()):
            if uid in shown:
                continue
            if own.created:
                objects.append(own.object)
            else:
                del self.writes[uid]
        return objects

    def _read_replica_sets(self, seen: list[Json]) -> tuple[bool, list[Json]]:
        """Reads the ReplicaSets that the selector matches from the API server.

        Returns whether the plan was made from other versions, and those of other controllers if the owner is a custom
        resource: it must not run the pods of a Deployment a second time.
        """
        versions = {it["metadata"]["uid"]: _version(it) for it in seen}
        owner = next(it for it in seen if self.owner.is_of(it))
        query = urlencode({"labelSelector": _label_selector(owner["spec"]["selector"])})
        answer = self.call("GET", REPLICA_SETS.format(self.owner.namespace), query, "", b"")
        if not answer.ok:
            raise PlannerError(f"list of ReplicaSets: {answer.code}")
        outdated, others = False, []
        for it in answer.object()["items"]:
            it |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
            if not self._is_ours(it):
                if self.owner.kind != "Deployment":
                    others.append(it)
            elif versions.get(it["metadata"]["uid"], -1) < _version(it):
                self.writes[it["metadata"]["uid"]] = Write(it, created=True, deleted=False)
                outdated = True
        return outdated, others

    def _is_ours(self, it: Json) -> bool:
        controllers = [ref["uid"] for ref in it["metadata"].get("ownerReferences", []) if ref.get("controller")]
        return not controllers or controllers == [self.uid]

    def _carry_out(self, steps: Iterable[Json]) -> list[Json]:
        """Makes the calls in order. Returns the answers to the calls that failed."""
        failed = []
        for step in steps:
            if call := step.get("call"):
                answer = self._make(call)
                done = step["onFailure"] == "ON_FAILURE_DONE_IF" and answer.code in step.get("doneHttpCodes", [])
                if answer.ok:
                    self._remember(call, answer.object())
                elif not done:
                    if not _namespace_terminating(answer):
                        failed.append(self._failure(step, answer))
                    if call["kind"] == "ReplicaSet":
                        self.verified = False
                    if step["onFailure"] == "ON_FAILURE_CONTINUE":
                        continue
                    break
            for event in step.get("events", []):
                self.record(event)
        return failed

    def _make(self, call: Json) -> Answer:
        method, body = METHODS[call["verb"]], call.get("bodyJson", "").encode()
        return self.call(method, call["path"], call.get("query", ""), call.get("contentType", ""), body)

    def _failure(self, step: Json, answer: Answer) -> Json:
        failure: Json = {"call": step["call"], "httpCode": answer.code}
        failure["body"] = base64.b64encode(answer.body[:ANSWER_BYTES_MAX]).decode()
        if answer.code == 409 and (call := step.get("readOnConflict")):
            existing = self._make(call)
            if existing.ok:
                failure["existingJson"] = base64.b64encode(existing.body).decode()
        elif answer.code == 404:
            self.writes = {
                uid: own
                for uid, own in self.writes.items()
                if (own.object["kind"], own.object["metadata"]["name"]) != (step["call"]["kind"], step["call"]["name"])
            }
        return failure

    def _remember(self, call: Json, it: Json) -> None:
        if call["verb"] == "VERB_DELETE":
            # The answer is the object, or a Status whose details have its UID.
            uid = it["metadata"].get("uid") or it["details"]["uid"]
            self.writes[uid] = Write(it, created=False, deleted=True)
            return
        if _terminating(json.loads(call["bodyJson"])) is not None:
            self.drops_terminating = _terminating(it) is None
        created = call["verb"] == "VERB_CREATE"
        if own := self.writes.get(it["metadata"]["uid"]):
            created = created or own.created
        self.writes[it["metadata"]["uid"]] = Write(it, created, deleted=False)


def _writes_replica_sets(plan: Json) -> bool:
    return any(step.get("call", {}).get("kind") == "ReplicaSet" for step in plan.get("steps", []))


def _label_selector(selector: Json) -> str:
    """The selector as a parameter of a list."""
    forms = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}
    labels = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    expressions = [
        forms[it["operator"]].format(key=it["key"], values=",".join(it.get("values", [])))
        for it in selector.get("matchExpressions", [])
    ]
    return ",".join([*labels, *expressions])


def _namespace_terminating(answer: Answer) -> bool:
    """Whether nothing can be created anymore, because the namespace is being deleted."""
    if answer.code != 403:
        return False
    try:
        causes = answer.object().get("details", {}).get("causes", [])
    except ValueError:
        return False  # the page of a proxy
    return any(it.get("reason") == "NamespaceTerminating" for it in causes)


def _terminating(it: Json | list[Json]) -> int | None:
    return it.get("status", {}).get("terminatingReplicas") if isinstance(it, dict) else None  # a JSON Patch is a list


def _version(it: Json) -> int:
    return int(it["metadata"]["resourceVersion"])
