"""The adapter of adapter.py as a driver, which calls the service over HTTP with Connect and JSON.

To run it, in tests: go run ./conformance python3 conformance/client.py. With --wrong, it is one of the incorrect clients
that must not pass.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import queue
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

from adapter import METHODS, Adapter, Answer, Json, PlannerError

SERVICE = "/rollplan.v1.RolloutPlanner/"
ATTEMPTS_MAX = 3
FIRST_DELAY = 0.1

# The mistakes of clients that the transcripts must detect.
WRONG = (
    "drops-unknown-fields",
    "retries-blindly",
    "rounds-integers",
    "reorders-calls",
    "drops-bodies",
    "replaces-field-managers",
    "reorders-answers",
    "omits-answers",
    "returns-earlier-values",
    "never-changes-session",
    "reads-from-cache",
    "plans-without-changes",
)


class Connection:
    """Sends requests that can be cancelled: closing the socket ends the one that is in progress."""

    def __init__(self) -> None:
        self.current: http.client.HTTPConnection | None = None
        self.cancelled = False

    def request(self, url: str, method: str, path: str, body: bytes, headers: Json, timeout: float) -> Answer:
        if self.cancelled:
            return Answer(0)
        self.current = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)
        try:
            self.current.request(method, path, body, headers)
            answer = self.current.getresponse()
            return Answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            return Answer(0)
        finally:
            self.current.close()

    def cancel(self) -> None:
        self.cancelled = True
        if self.current and self.current.sock:
            self.current.sock.shutdown(socket.SHUT_RDWR)


class Run:
    """One leadership."""

    def __init__(self, start: Json, wrong: str) -> None:
        self.start, self.wrong = start, wrong
        self.events: list[Json] = []
        self.cache: list[Json] = []
        # Those of the last response and of the one before.
        self.values = ["", ""]
        self.connection = Connection()
        settings = {
            "session": "constant" if wrong == "never-changes-session" else secrets.token_hex(),
            "statusInterval": f"{start['statusIntervalMs'] / 1000}s",
            "minInterval": f"{start['minIntervalMs'] / 1000}s",
        }
        self.adapter = Adapter(
            start["owner"], self.plan, self.call, self.events.append, utc_now, settings, start.get("options", {})
        )

    def run(self, command: Json) -> Json:
        """One sync, or one plan of a canary."""
        self.connection.cancelled = False
        self.events.clear()
        self.cache = [json.loads(text, parse_int=self.parse_int()) for text in command["cache"]]
        if command["command"] == "canary":
            result = self.adapter.canary(self.cache, command["request"])
        else:
            if self.wrong == "plans-without-changes":
                self.adapter.versions = {}
            result = self.adapter.sync(self.cache)
        times = {"requeueAfterMs": result.at_latest, "notBeforeMs": result.not_before}
        milliseconds = {name: time / timedelta(milliseconds=1) for name, time in times.items() if time is not None}
        return {"outcome": result.outcome, **milliseconds, "events": self.events}

    def cancel(self) -> None:
        self.adapter.cancelled = True
        self.connection.cancel()

    def parse_int(self) -> Callable[[str], Any]:
        return (lambda digits: int(float(digits))) if self.wrong == "rounds-integers" else int

    def plan(self, method: str, request: Json) -> Json:
        if "sync" in request:
            request["sync"] = self.wrong_sync(request["sync"])
        timeout = self.start["plannerTimeoutMs"]
        headers = {"content-type": "application/json", "connect-protocol-version": "1", "connect-timeout-ms": str(timeout)}
        for attempt in range(ATTEMPTS_MAX):
            body = json.dumps(request).encode()
            answer = self.connection.request(self.start["planner"], "POST", SERVICE + method, body, headers, timeout / 1000)
            if answer.ok:
                response: Json = json.loads(answer.body)
                self.values = [self.values[1], response.get("sync", {}).get("value", "")]
                return self.reorder(response)
            delay = retry_delay(answer, attempt)
            if delay is None or attempt == ATTEMPTS_MAX - 1 or self.connection.cancelled:
                break
            time.sleep(delay)
        raise PlannerError(answer.body.decode())

    def wrong_sync(self, sync: Json) -> Json:
        answers = sync["answers"]
        if self.wrong == "reorders-answers":
            answers = answers[::-1]
        elif self.wrong == "omits-answers":
            answers = [it for it in answers if it["made"]]
        value = self.values[0] if self.wrong == "returns-earlier-values" else sync["value"]
        return {**sync, "value": value, "answers": answers}

    def reorder(self, response: Json) -> Json:
        if self.wrong == "reorders-calls":
            response.get("steps", []).sort(key=lambda step: "scale up" not in step["summary"])
        return response

    def call(self, call: Json) -> Answer:
        method, query, body = METHODS[call["verb"]], call.get("query", ""), call.get("bodyJson", "").encode()
        headers = {"content-type": call["contentType"]} if "contentType" in call else {}
        if self.wrong == "reads-from-cache" and method == "GET":
            return self.cached(call)
        if self.wrong == "replaces-field-managers":
            query = query.replace("rollplan-canary", "rollplan")
        url = call["path"] + (f"?{query}" if query else "")
        if self.wrong == "drops-unknown-fields" and method == "POST":
            body = drop_unknown_fields(body)
        answer = self.connection.request(self.start["api"], method, url, body, headers, 30)
        if answer.code == 0 and self.wrong == "retries-blindly":
            answer = self.connection.request(self.start["api"], method, url, body, headers, 30)
        if self.wrong == "drops-bodies" and not answer.body.startswith(b"{"):
            answer = Answer(answer.code)
        return answer

    def cached(self, call: Json) -> Answer:
        """The answer to a read, without asking the API server."""
        found = [it for it in self.cache if it["kind"] == call["kind"]]
        if "name" not in call:
            return Answer(200, json.dumps({"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": found}).encode())
        found = [it for it in found if it["metadata"]["name"] == call["name"]]
        return Answer(200, json.dumps(found[0]).encode()) if found else Answer(404)


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def drop_unknown_fields(body: bytes) -> bytes:
    it = json.loads(body)
    spec = it["spec"]["template"]["spec"]
    it["spec"]["template"]["spec"] = {key: value for key, value in spec.items() if not key.startswith("future")}
    return json.dumps(it).encode()


def retry_delay(answer: Answer, attempt: int) -> float | None:
    """The delay before the next attempt, or None if a retry would not help."""
    backoff = FIRST_DELAY * 2.0**attempt
    try:
        error = json.loads(answer.body)
    except ValueError:
        # There is no answer, or it is the page of a proxy.
        return backoff if answer.code in (429, 502, 503, 504) else None
    retry_info = next((it for it in error.get("details", []) if it["type"] == "google.rpc.RetryInfo"), None)
    if retry_info is not None:
        return backoff + seconds_of(retry_info["value"])
    return backoff if error["code"] == "unavailable" else None


def seconds_of(value: str) -> float:
    """The delay of a google.rpc.RetryInfo, a Duration in field 1, decoded without a protobuf library."""
    data = base64.b64decode(value + "=" * (-len(value) % 4))[2:]
    numbers = {}
    while data:
        field, data = data[0] >> 3, data[1:]
        number = shift = 0
        while True:
            byte, data = data[0], data[1:]
            number, shift = number | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        numbers[field] = number
    return float(numbers.get(1, 0) + numbers.get(2, 0) / 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wrong", choices=WRONG, default="")
    wrong = parser.parse_args().wrong
    run: Run | None = None
    commands: queue.Queue[Json | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["command"] == "cancel" and run:
                run.cancel()
            else:
                commands.put(command)
        commands.put(None)

    threading.Thread(target=read, daemon=True).start()
    while command := commands.get():
        if command["command"] == "start":
            run, reply = Run(command, wrong), {}
        else:
            assert run
            reply = run.run(command)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
