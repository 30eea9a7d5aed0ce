"""Records the transcripts: runs each scenario of scenarios.py against the real service.

    bash tests/run generate_conformance

writes tests/conformance/transcripts. `python3 generate.py BINARY --check` compares them instead, and fails if the service
now answers differently.
"""

from __future__ import annotations

import argparse
import base64
import copy
import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import scenarios
from adapter import Adapter, Answer, Json, Owner, PlannerError
from scenarios import Planner, Scenario, Server
from world import World

HERE = Path(__file__).parent
SERVICE = "/rollplan.v1.RolloutPlanner/"


class Service:
    """The real service."""

    def __init__(self, binary: str) -> None:
        command = [binary, "serve", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        for line in self.process.stderr:
            if (found := "listening on ") in (message := json.loads(line)["message"]):
                self.connection = http.client.HTTPConnection(message.removeprefix(found))
                return
        sys.exit("the service did not start")

    def plan(self, method: str, request: Json) -> Json:
        self.connection.request("POST", SERVICE + method, json.dumps(request), {"content-type": "application/json"})
        answer = self.connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 200:
            raise AssertionError(f"the service refuses the request of a scenario: {body}")
        return dict(body)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Recorder:
    """Runs a scenario and records the requests and answers."""

    def __init__(self, scenario: Scenario, service: Service) -> None:
        self.scenario, self.service = scenario, service
        self.world = World(scenario.objects, scenario.clock)
        self.clock = scenario.clock
        self.objects: dict[str, Json] = {}
        self.syncs: list[Json] = []
        self.doubted = True
        # The last request and its time, if there was nothing to do. A client may omit the next one if nothing has changed.
        self.at_rest: tuple[Json, str] | None = None
        self.cache: list[Json] = []
        self.planner_faults: list[Planner] = []
        self.server_faults: list[Server] = []
        options = {"eventsAsCalls": True, **scenario.options}
        self.adapter = Adapter(scenario.owner, self.plan, self.call, self.events_append, lambda: self.clock, options)

    # --- called by scenarios

    def show(self) -> None:
        """Updates the cache to the current state."""
        self.cache = self.world.all()

    def sync(self, about: str, *faults: Planner | Server) -> None:
        """Runs one sync with these faults, which occur in this order."""
        self.rejected = any(is_rejection(it) for it in self.adapter.answers)
        current = self.begin(about, faults)
        self.end(current, *self.adapter.sync(copy.deepcopy(self.cache)))
        if current["outcomes"] == ["again"] and not self.adapter.answers and not self.rejected:
            # The plan reacts to answers, and none of them was a rejection, so there is nothing to retry.
            current["outcomes"] = ["again", "done"]

    def canary(self, about: str, request: Json, *faults: Planner | Server) -> Json:
        """Plans a canary with this policy, command and verdicts. Returns the report."""
        current = self.begin(about, faults)
        current["canary"] = request
        self.end(current, *self.adapter.canary(copy.deepcopy(self.cache), request))
        report: Json = self.exchanges()[0]["response"]["report"]
        return report

    def begin(self, about: str, faults: Iterable[Planner | Server]) -> Json:
        self.planner_faults = [it for it in faults if isinstance(it, Planner)]
        self.server_faults = [it for it in faults if isinstance(it, Server)]
        current: Json = {"about": about, "cache": [self.key(it) for it in self.cache], "exchanges": [], "events": []}
        self.syncs.append(current)
        self.cancelled = False
        return current

    def end(self, current: Json, outcome: str, requeue_after: str) -> None:
        if self.cancelled:
            outcome, requeue_after = "cancelled", ""
        left = [*self.planner_faults, *(it for it in self.server_faults if not it.used)]
        assert not left, f"{self.scenario.name}: faults that did not happen: {left}"
        current["outcomes"] = [outcome]
        if requeue_after:
            current["requeueAfter"] = requeue_after

    def service_creates(self) -> str:
        """The name of the ReplicaSet that a plan for the stored objects creates."""
        objects = [json.dumps(it) for it in self.world.all()]
        snapshot = {"now": self.clock, "objects": objects, "replicaSetsComplete": True}
        return str(self.service.plan("PlanRollout", {"snapshot": snapshot})["steps"][0]["call"]["name"])

    # --- called by the adapter

    def plan(self, method: str, request: Json) -> Json:
        for _ in range(3):
            fault = self.planner_faults.pop(0) if self.planner_faults else None
            exchange: Json = {"plan": self.describe(method, request)}
            if (exchange["plan"], self.clock) == self.at_rest:
                exchange["optional"] = True
            self.exchanges().append(exchange)
            if fault is None:
                response = exchange["response"] = self.service.plan(method, request)
                self.at_rest = None if "steps" in response else (exchange["plan"], self.clock)
                return copy.deepcopy(exchange["response"])
            exchange |= fault.exchange
            self.cancelled = fault.cancels
            if not fault.retried:
                break
        raise PlannerError

    def describe(self, method: str, request: Json) -> Json:
        """The request in the form in which the runner compares it: the objects that the planner selects, and the others."""
        snapshot = request["snapshot"]
        sent = [json.loads(text) for text in snapshot["objects"]]
        with_pods = method == "PlanCanary" or recreate(sent, self.scenario.owner)
        needed = selected(sent, self.scenario.owner, with_pods)
        plan: Json = {"objects": [self.key(it) for it in needed]}
        if others := [self.key(it) for it in sent if it not in needed]:
            plan["others"] = others
        if with_pods:
            plan["podsComplete"] = True
        if "terminatingReplicas" in request.get("options", {}):
            plan["terminatingReplicas"] = request["options"]["terminatingReplicas"]
        if snapshot.get("answers"):
            plan["answers"] = [describe_answer(it, self.key) for it in snapshot["answers"]]
        return plan

    def call(self, method: str, path: str, query: str, content_type: str, body: bytes) -> Answer:
        fault = next((it for it in self.server_faults if not it.used and it.hits(method, path)), None)
        if fault:
            fault.used = True
        exchange: Json = {"call": {"method": method, "path": path}}
        if query:
            exchange["call"]["query"] = query
        if content_type:
            exchange["call"]["contentType"] = content_type
        if body:
            exchange["call"]["body"] = json.loads(body)
        if method == "GET" and path.endswith("replicasets"):
            exchange = {"list": path}
            if not self.doubted:
                exchange["optional"] = True
        self.exchanges().append(exchange)
        if fault and fault.meanwhile:
            fault.meanwhile(self.world)
            fault = None
        answer = Answer(0)
        if fault is None or fault.applied:
            answer = self.world.call(method, path, content_type, body)
        if fault:
            exchange["answer"] = copy.deepcopy(fault.answer)
            # A caller that cancels a call in progress does not learn its outcome.
            self.cancelled = self.cancelled or fault.cancels
            answer = Answer(fault.answer.get("code", 0), fault.body())
        else:
            exchange["answer"] = {"code": answer.code, **self.body(answer)}
        if "list" in exchange:
            # As long as there are others, a custom resource gets no ReplicaSets.
            self.doubted = any(self.is_of_others(it) for it in self.world.all())
        elif method != "GET" and "replicasets" in path:
            self.doubted = self.doubted or raises_doubts(answer)
        return answer

    def is_of_others(self, it: Json) -> bool:
        owner = self.scenario.owner
        uids = (None, self.world.find(owner.kind, owner.name)["metadata"]["uid"])
        return owner.kind != "Deployment" and it["kind"] == "ReplicaSet" and controller(it) not in uids

    def events_append(self, event: Json) -> None:
        self.syncs[-1]["events"].append(event)

    def exchanges(self) -> list[Json]:
        exchanges: list[Json] = self.syncs[-1]["exchanges"]
        return exchanges

    # --- objects, each of them once

    def key(self, it: Json) -> str:
        meta = it["metadata"]
        key = f"{it['kind']} {meta['name']} {meta['resourceVersion']}"
        assert self.objects.setdefault(key, it) == it, f"two objects are {key}"
        return key

    def body(self, answer: Answer) -> Json:
        body = json.loads(answer.body)
        if body["kind"] == "Status":
            return {"body": body}
        if body["kind"].endswith("List"):
            kind = body["kind"].removesuffix("List")
            keys = [self.key({"apiVersion": body["apiVersion"], "kind": kind, **it}) for it in body["items"]]
            return {"list": keys}
        return {"object": self.key(body)}

    def transcript(self) -> Json:
        written: Json = {"about": self.scenario.about, "owner": self.scenario.owner.target()}
        if self.scenario.options:
            written["options"] = self.scenario.options
        written |= {"plannerTimeoutMs": self.scenario.planner_timeout_ms, "syncs": self.syncs, "objects": self.objects}
        return written


def raises_doubts(answer: Answer) -> bool:
    """Whether the ReplicaSets must be read again after a call. After a rejection they may be read, but need not be."""
    if answer.code == 422:
        return "causes" not in answer.object()["details"]
    return answer.code in (0, 404, 409) or answer.code >= 500


def is_rejection(answer: Json) -> bool:
    """Whether the API server rejected the call. The next plan then reports that, and the plan after it repeats the call."""
    if answer["httpCode"] not in (403, 409, 422, 500):
        return False
    body = json.loads(base64.b64decode(answer["body"]))
    return body["reason"] in ("Forbidden", "AlreadyExists", "InternalError") or "causes" in body["details"]


def selected(objects: list[Json], owner: Owner, with_pods: bool) -> list[Json]:
    """The Deployment, the ReplicaSets that it controls or may adopt and, where the plan depends on them, their pods.

    A custom resource also needs the ReplicaSets of other controllers that its selector matches.
    """
    deployment = next(it for it in objects if owner.is_of(it))
    labels = deployment["spec"]["selector"]["matchLabels"].items()
    sets = [
        it
        for it in objects
        if it["kind"] == "ReplicaSet"
        and (
            controller(it) == deployment["metadata"]["uid"]
            or ((controller(it) is None or owner.kind != "Deployment") and labels <= it["metadata"].get("labels", {}).items())
        )
    ]
    uids = {it["metadata"]["uid"] for it in sets} if with_pods else set()
    return [deployment, *sets, *(it for it in objects if it["kind"] == "Pod" and controller(it) in uids)]


def recreate(objects: list[Json], owner: Owner) -> bool:
    deployment = next(it for it in objects if owner.is_of(it))
    return bool(deployment["spec"].get("strategy", {}).get("type") == "Recreate")


def controller(it: Json) -> str | None:
    return next((ref["uid"] for ref in it["metadata"].get("ownerReferences", []) if ref.get("controller")), None)


def describe_answer(answer: Json, key: Callable[[Json], str]) -> Json:
    described: Json = {"call": answer["call"], "httpCode": answer["httpCode"]}
    if answer.get("body"):
        text = base64.b64decode(answer["body"]).decode()
        try:
            described["body"] = json.loads(text)
        except json.JSONDecodeError:
            described["text"] = text
    if answer.get("existingJson"):
        described["existing"] = key(json.loads(base64.b64decode(answer["existingJson"])))
    return described


def record(scenario: Scenario, service: Service) -> str:
    recorder = Recorder(scenario, service)
    recorder.show()
    scenario.run(recorder)
    transcript = recorder.transcript()
    # One object per line: objects are long, and differences are easier to read this way.
    objects = transcript.pop("objects")
    lines = [f"  {json.dumps(key)}: {json.dumps(it, ensure_ascii=False)}" for key, it in objects.items()]
    head = json.dumps(transcript, indent=1, ensure_ascii=False).removesuffix("\n}")
    return head + ',\n "objects": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    directory = HERE / "transcripts"
    service = Service(arguments.binary)
    try:
        texts = {f"{it.name}.json": record(it, service) for it in scenarios.all_scenarios()}
    finally:
        service.stop()
    drifted = {path.name for path in directory.glob("*.json")} - texts.keys()
    for name, text in texts.items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            drifted.add(name)
            if not arguments.check:
                path.write_text(text)
    if arguments.check and drifted:
        sys.exit(f"out of date: {', '.join(sorted(drifted))}; run: bash tests/run generate_conformance")
    if not arguments.check:
        for name in drifted - texts.keys():
            (directory / name).unlink()
    print(f"{len(texts)} transcripts" + ("" if arguments.check else f", {len(drifted)} changed"))


if __name__ == "__main__":
    main()
