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
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

from adapter import Adapter, Answer, Json, Owner, PlannerError

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
    """One transcript."""

    def __init__(self, start: Json, wrong: str) -> None:
        self.start, self.wrong = start, wrong
        self.events: list[Json] = []
        self.connection = Connection()
        owner = start["owner"]
        names = (owner["apiVersion"], owner["kind"], owner["resource"], owner["namespace"], owner["name"])
        options = start.get("options", {})
        self.adapter = Adapter(Owner(*names), self.plan, self.call, self.events.append, rfc3339_now, options)

    def run(self, command: Json) -> Json:
        """One sync, or one plan of a canary."""
        self.connection.cancelled = False
        self.events.clear()
        objects = [json.loads(text, parse_int=self.parse_int()) for text in command["cache"]]
        if command["command"] == "canary":
            outcome, requeue_after = self.adapter.canary(objects, command["request"])
        else:
            outcome, requeue_after = self.adapter.sync(objects)
        if self.connection.cancelled:
            outcome = "cancelled"
        seconds = float(requeue_after.removesuffix("s") or 0)
        return {"outcome": outcome, "requeueAfterMs": seconds * 1000, "events": self.events}

    def parse_int(self) -> Callable[[str], Any]:
        return (lambda digits: int(float(digits))) if self.wrong == "rounds-integers" else int

    def plan(self, method: str, request: Json) -> Json:
        timeout = self.start["plannerTimeoutMs"]
        headers = {"content-type": "application/json", "connect-protocol-version": "1", "connect-timeout-ms": str(timeout)}
        for attempt in range(ATTEMPTS_MAX):
            body = json.dumps(request).encode()
            answer = self.connection.request(self.start["planner"], "POST", SERVICE + method, body, headers, timeout / 1000)
            if answer.ok:
                return self.reorder(answer.object())
            delay = retry_delay(answer, attempt)
            if delay is None or attempt == ATTEMPTS_MAX - 1 or self.connection.cancelled:
                break
            time.sleep(delay)
        raise PlannerError(answer.body.decode())

    def reorder(self, response: Json) -> Json:
        if self.wrong == "reorders-calls":
            response.get("steps", []).sort(key=lambda step: "scale up" not in step["summary"])
        return response

    def call(self, method: str, path: str, query: str, content_type: str, body: bytes) -> Answer:
        headers = {"content-type": content_type} if content_type else {}
        if self.wrong == "replaces-field-managers":
            query = query.replace("rollplan-canary", "rollplan")
        url = path + (f"?{query}" if query else "")
        if self.wrong == "drops-unknown-fields" and method == "POST":
            body = drop_unknown_fields(body)
        answer = self.connection.request(self.start["api"], method, url, body, headers, 30)
        if answer.code == 0 and self.wrong == "retries-blindly":
            answer = self.connection.request(self.start["api"], method, url, body, headers, 30)
        if self.wrong == "drops-bodies" and not answer.body.startswith(b"{"):
            answer = Answer(answer.code)
        return answer


def rfc3339_now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def drop_unknown_fields(body: bytes) -> bytes:
    it = json.loads(body)
    spec = it["spec"]["template"]["spec"]
    it["spec"]["template"]["spec"] = {key: value for key, value in spec.items() if not key.startswith("future")}
    return json.dumps(it).encode()


def retry_delay(answer: Answer, attempt: int) -> float | None:
    """The delay before the next attempt, or None if a retry would not help."""
    backoff = FIRST_DELAY * 2.0**attempt
    try:
        error = answer.object()
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
                run.connection.cancel()
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
