"""Writes requests with the answers of the service, which every face in the caller's process must give, byte for byte.

    python3 tests/local/corpus.py target/debug/rollplan target/local/corpus.jsonl

Requests are those of the scenarios of tests/conformance, those about the files of examples/, the fuzz corpora as the request
of every method in protobuf and in JSON and as an object of a snapshot, and hostile ones. A line is

    {"method", "json": bool, "request": base64, "code": number of gRPC, "answer": base64}

with the response, or the google.rpc.Status. For errors of requests in JSON there is no `answer`: Connect has a form of its own.
Nor is there one if a request takes too much memory, which depends on the platform.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc import code_pb2

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "adapters/python/src"), str(ROOT / "tests/conformance")]

import generate  # noqa: E402
import scenarios  # noqa: E402
from adapter import Json  # noqa: E402
from rollplan import planner  # noqa: E402
from rollplan.v1 import forecast_pb2  # noqa: E402

NOW = "2026-11-20T23:27:30Z"
METHODS = {
    it.name: it
    for it in (
        planner.PLAN_ROLLOUT,
        planner.COMPUTE_STATUS,
        planner.ROLLBACK,
        planner.LIST_REVISIONS,
        planner.PLAN_RESTARTS,
        planner.FORECAST_ROLLOUT,
        planner.PLAN_CANARY,
    )
}
# The corpora are long, and a forecast with their numbers of samples would take seconds.
SAMPLES_MAX = 2
# More than any recursion limit, and more than a stack would hold.
DEPTH = 100_000

# A method, whether the request is JSON, and the request.
Request = tuple[str, bool, bytes]


class Service(generate.Service):
    """The real service. Keeps the requests of the scenarios."""

    def __init__(self, binary: str) -> None:
        super().__init__(binary)
        self.address = f"{self.connection.host}:{self.connection.port}"
        self.channel = grpc.insecure_channel(self.address, [("grpc.max_send_message_length", -1)])
        self.requests: list[Request] = []

    def plan(self, method: str, request: Json) -> Json:
        self.requests.append((method, False, encoded(method, request)))
        self.requests.append((method, True, json.dumps(request).encode()))
        return super().plan(method, request)

    def answer(self, request: Request) -> dict[str, Any]:
        method, is_json, body = request
        code, answer = (self.answer_json if is_json else self.answer_proto)(method, body)
        line = {"method": method, "json": is_json, "request": base64.b64encode(body).decode(), "code": code}
        return line if answer is None else line | {"answer": base64.b64encode(answer).decode()}

    def answer_proto(self, method: str, body: bytes) -> tuple[int, bytes | None]:
        call: Any = self.channel.unary_unary(generate.SERVICE + method)
        try:
            return 0, call(body, timeout=60)
        except grpc.RpcError as error:
            failed: Any = error
            status: bytes = dict(failed.trailing_metadata())["grpc-status-details-bin"]
            # The memory that a request would take depends on the size of pointers.
            return failed.code().value[0], None if b"bytes in memory" in status else status

    def answer_json(self, method: str, body: bytes) -> tuple[int, bytes | None]:
        connection = http.client.HTTPConnection(self.address)
        connection.request("POST", generate.SERVICE + method, body, {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if response.status == 200:
            return 0, text
        return code_pb2.Code.Value(json.loads(text)["code"].upper()), None


def encoded(method: str, request: Json) -> bytes:
    message = json_format.ParseDict(request, METHODS[method].request())
    return bytes(message.SerializeToString(deterministic=True))


def about(text: str, **more: Any) -> Json:
    snapshot = {"now": NOW, "objects": [text], "replicaSetsComplete": True, "podsComplete": True}
    return {"snapshot": snapshot, **more}


def of_examples() -> Iterator[Request]:
    for path in sorted((ROOT / "examples").glob("*.json")):
        text = path.read_text()
        requests = [
            ("PlanRollout", about(text, options={"report": True})),
            ("ComputeStatus", about(text)),
            ("ListRevisions", about(text)),
            ("Rollback", about(text)),
            ("ForecastRollout", about(text, seed="7")),
            ("PlanRestarts", {"now": NOW, "objects": [text], "configurationsComplete": True}),
        ]
        for method, request in requests:
            yield method, False, encoded(method, request)
            yield method, True, json.dumps(request).encode()


def of_fuzz_corpora() -> Iterator[Request]:
    for path in sorted((ROOT / "tests/fuzz").glob("*/*/*")):
        if path.parent.parent.name not in ("corpus", "regressions"):
            continue
        body = path.read_bytes()
        for method in METHODS:
            if takes_seconds(method, body):
                continue
            yield method, False, body
            yield method, True, body
        try:
            text = body.decode()
        except UnicodeDecodeError:
            continue
        for method in ("PlanRollout", "ComputeStatus"):
            yield method, False, encoded(method, about(text))


def takes_seconds(method: str, body: bytes) -> bool:
    if method != "ForecastRollout":
        return False
    try:
        return forecast_pb2.ForecastRolloutRequest.FromString(body).samples > SAMPLES_MAX
    except DecodeError:
        return False


def hostile() -> Iterator[Request]:
    nested = ["[" * DEPTH, '{"a":' * DEPTH, '{"spec":' * 60 + "{}" + "}" * 60, "a: " + "[" * DEPTH, "- " * DEPTH]
    for text in nested:
        yield "PlanRollout", False, encoded("PlanRollout", about(text))
        yield "PlanRollout", True, text.encode()
    yield "PlanRollout", True, b'{"snapshot":' * DEPTH
    # Groups within groups, which a decoder must skip.
    yield "PlanRollout", False, b"\x7b" * DEPTH
    # A message within a message, without end.
    yield "PlanRollout", False, b"\x0a\xff\xff\xff\x07" * 1000
    # As long as a request may be.
    padding = '{"kind": "Pod", "metadata": {"name": "' + "a" * ((16 << 20) - 200) + '"}}'
    yield "PlanRollout", False, encoded("PlanRollout", about(padding))
    # Longer, and with more entries than there may be.
    yield "PlanRollout", False, encoded("PlanRollout", about("a" * (16 << 20)))
    yield "PlanRollout", False, encoded("PlanRollout", {"snapshot": {"answers": [{}] * 1_001}})
    # Objects that would take more memory than a request may.
    dense = "{" + '"a":[],' * ((3 << 20) // 8) + '"b":[]}'
    yield "PlanRollout", False, encoded("PlanRollout", {"snapshot": {"objects": [dense] * 4}})


def main() -> None:
    binary, out = sys.argv[1:]
    service = Service(binary)
    try:
        for it in scenarios.all_scenarios():
            generate.record(it, service)
        requests = [*service.requests, *of_examples(), *of_fuzz_corpora(), *hostile()]
        # Many corpora contain the same inputs.
        answers = [service.answer(request) for request in dict.fromkeys(requests)]
    finally:
        service.stop()
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    # At once: tests may read it while another stage writes it again.
    written = Path(f"{out}.{os.getpid()}")
    written.write_text("".join(json.dumps(it) + "\n" for it in answers))
    written.replace(out)
    succeeded = sum(it["code"] == 0 for it in answers)
    print(f"{len(answers)} requests, {succeeded} of them with a response")


if __name__ == "__main__":
    main()
