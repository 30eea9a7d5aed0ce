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
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import scenarios
from adapter import METHODS, Adapter, Answer, Json, PlannerError, Result
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
        self.clock = datetime.fromisoformat(scenario.clock)
        self.objects: dict[str, Json] = {}
        self.syncs: list[Json] = []
        self.cache: list[Json] = []
        self.planner_faults: list[Planner] = []
        self.server_faults: list[Server] = []
        # The calls of the last response, with what their exchanges have besides the call.
        self.calls: list[tuple[Json, str, Json]] = []
        self.leaderships = 0
        self.due: timedelta | None = None
        # What the next sync has besides its exchanges.
        self.preceding: Json = {}
        self.lead()

    # --- called by scenarios

    def show(self) -> None:
        """Updates the cache to the current state."""
        self.cache = self.world.all()

    def lead(self) -> None:
        """Begins a leadership, before the next sync."""
        self.leaderships += 1
        settings: Json = {"session": f"session {self.leaderships}"}
        for name, milliseconds in self.scenario.intervals.items():
            settings[name] = f"{milliseconds / 1000}s"
        options = {"eventsAsCalls": True, **self.scenario.options}
        self.adapter = Adapter(
            self.scenario.owner, self.plan, self.call, self.events_append, lambda: self.clock, settings, options
        )
        if self.syncs:
            self.preceding["start"] = True

    def wait(self) -> None:
        """Waits until the timer is due. The runner does so as well, so this must not take long."""
        assert self.due, f"{self.scenario.name}: no timer is set"
        assert self.due <= timedelta(seconds=1), f"{self.scenario.name}: the timer is due after {self.due}"
        self.clock += self.due
        self.preceding["due"] = True

    def sync(self, about: str, *faults: Planner | Server) -> None:
        """Runs one sync with these faults, which occur in this order."""
        current = self.begin(about, faults)
        self.end(current, self.adapter.sync(copy.deepcopy(self.cache)))

    def canary(self, about: str, request: Json, *faults: Planner | Server) -> Json:
        """Plans a canary with this policy, command and verdicts. Returns the report."""
        current = self.begin(about, faults)
        current["canary"] = request
        self.end(current, self.adapter.canary(copy.deepcopy(self.cache), request))
        report: Json = self.exchanges()[0]["response"]["report"]
        return report

    def begin(self, about: str, faults: Iterable[Planner | Server]) -> Json:
        self.planner_faults = [it for it in faults if isinstance(it, Planner)]
        self.server_faults = [it for it in faults if isinstance(it, Server)]
        cache = [self.key(it) for it in self.cache]
        current: Json = {"about": about, **self.preceding, "cache": cache, "exchanges": [], "events": []}
        self.preceding = {}
        self.syncs.append(current)
        return current

    def end(self, current: Json, result: Result) -> None:
        left = [*self.planner_faults, *(it for it in self.server_faults if not it.used)]
        assert not left, f"{self.scenario.name}: faults that did not happen: {left}"
        current["outcome"] = result.outcome
        self.due = result.at_latest
        for name, after in (("requeueAfterMs", result.at_latest), ("notBeforeMs", result.not_before)):
            if after is not None:
                current[name] = round(after.total_seconds() * 1000)

    def service_creates(self) -> str:
        """The name of the ReplicaSet that a plan for the stored objects creates."""
        objects = [json.dumps(it) for it in self.world.all()]
        snapshot = {"now": self.scenario.clock, "objects": objects, "replicaSetsComplete": True}
        return str(self.service.plan("PlanRollout", {"snapshot": snapshot})["steps"][0]["call"]["name"])

    # --- called by the adapter

    def plan(self, method: str, request: Json) -> Json:
        for _ in range(3):
            fault = self.planner_faults[0] if self.planner_faults else None
            if fault and fault.skipped:
                fault.skipped, fault = fault.skipped - 1, None
            if fault:
                self.planner_faults.pop(0)
            exchange: Json = {"plan": self.describe(request)}
            self.exchanges().append(exchange)
            if fault is None or fault.truncates:
                response = exchange["response"] = self.service.plan(method, request)
                if fault:
                    value = base64.b64decode(response["sync"]["value"])
                    response["sync"]["value"] = base64.b64encode(value[: len(value) // 2]).decode()
                self.calls = [*calls_of(response)]
                return copy.deepcopy(response)
            exchange |= fault.exchange
            self.adapter.cancelled = fault.cancels
            if not fault.retried:
                break
        raise PlannerError

    def describe(self, request: Json) -> Json:
        """The request in the form in which the runner compares it. It knows the bodies of the answers already."""
        snapshot = request["snapshot"]
        plan: Json = {"objects": [self.key(json.loads(text)) for text in snapshot["objects"]]}
        if snapshot["podsComplete"]:
            plan["podsComplete"] = True
        if sync := request.get("sync"):
            plan["value"] = sync["value"]
            fields = ("id", "made", "httpCode")
            plan["answers"] = [
                {key: it[key] for key in fields if key in it} | ({"existing": True} if "existing" in it else {})
                for it in sync["answers"]
            ]
        return plan

    def call(self, call: Json) -> Answer:
        method, path, query = METHODS[call["verb"]], call["path"], call.get("query", "")
        content_type, body = call.get("contentType", ""), call.get("bodyJson", "")
        fault = next((it for it in self.server_faults if not it.used and it.hits(method, path)), None)
        if fault:
            fault.used = True
        described = {"method": method, "path": path, "query": query, "contentType": content_type}
        described = {key: text for key, text in described.items() if text}
        if body:
            described["body"] = json.loads(body)
        # The first one, because a response may have two equal calls.
        index = next(index for index, (planned, *_) in enumerate(self.calls) if planned == call)
        _, name, more = self.calls.pop(index)
        exchange = {name: described, **more}
        self.exchanges().append(exchange)
        if fault and fault.meanwhile:
            fault.meanwhile(self.world)
            fault = None
        answer = Answer(0)
        if fault is None or fault.applied:
            answer = self.world.call(method, f"{path}?{query}", content_type, body.encode())
        if fault:
            exchange["answer"] = copy.deepcopy(fault.answer)
            if name == "read" and fault.answer.get("lost"):
                # HTTP libraries may repeat reads, but not writes. That of Kubernetes for Go makes 11 attempts.
                exchange["attemptsMax"] = 20
            self.adapter.cancelled = fault.cancels
            return Answer(fault.answer.get("code", 0), fault.body())
        exchange["answer"] = {"code": answer.code, **self.body(answer)}
        return answer

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
        written: Json = {"about": self.scenario.about, "owner": self.scenario.owner}
        if self.scenario.options:
            written["options"] = self.scenario.options
        written |= {f"{name}Ms": milliseconds for name, milliseconds in self.scenario.intervals.items()}
        written |= {"plannerTimeoutMs": self.scenario.planner_timeout_ms, "syncs": self.syncs, "objects": self.objects}
        return written


def calls_of(response: Json) -> Iterator[tuple[Json, str, Json]]:
    """The calls of a response, with the name of their exchange and the id of their answer."""
    for read in response.get("sync", {}).get("reads", []):
        yield read["call"], "read", {"id": read["id"]}
    for step in response.get("steps", []):
        identified = {"id": step["id"]} if "id" in step else {}
        if "call" in step:
            yield step["call"], "call", identified
        if "readOnConflict" in step:
            yield step["readOnConflict"], "call", {**identified, "existing": True}


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
