"""The planner in this process gives the answers of the service, byte for byte, and survives whatever happens in it."""

import asyncio
import base64
import json
import sys
import threading
import time
from pathlib import Path

import pytest
import rollplan_local
from google.rpc import code_pb2

from rollplan import AsyncPlanner, Cancellation, CancelledError, Planner, PlannerError
from rollplan.v1 import forecast_pb2, plan_pb2

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/mid-rollout.json"
# Written by tests/local/corpus.py.
CORPUS = ROOT / "target/local/corpus.jsonl"


def snapshot() -> plan_pb2.Snapshot:
    """That of a rollout in progress."""
    it = plan_pb2.Snapshot(objects=[EXAMPLE.read_text()], replica_sets_complete=True, pods_complete=True)
    it.now.GetCurrentTime()
    return it


def endless() -> forecast_pb2.ForecastRolloutRequest:
    """A request whose answer takes seconds."""
    change = forecast_pb2.DeploymentChange(replicas=5000)
    return forecast_pb2.ForecastRolloutRequest(snapshot=snapshot(), changes=[change], samples=1000)


def test_answers_are_those_of_the_service_for_every_request_of_the_corpus() -> None:
    count, codes = 0, set()
    with CORPUS.open() as lines:
        for text in lines:
            line = json.loads(text)
            if line["json"]:
                continue  # only pages send JSON
            count += 1
            request = base64.b64decode(line["request"])
            code, answer = rollplan_local.call(line["method"], request, 60, rollplan_local.Cancellation())
            assert code == line["code"], text[:200]
            if "answer" in line:
                assert answer == base64.b64decode(line["answer"]), text[:200]
            codes.add(code_pb2.Code.Name(code))
    assert count > 1_500
    assert codes == {"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"}


def test_a_deadline_ends_a_call() -> None:
    start = time.monotonic()
    with pytest.raises(PlannerError) as error:
        Planner.local(timeout=0.2).forecast_rollout(endless())
    assert (error.value.code, error.value.reason, error.value.retryable) == ("deadline_exceeded", "DEADLINE_EXCEEDED", False)
    assert time.monotonic() - start < 2


def test_a_cancellation_ends_a_call() -> None:
    cancel = Cancellation()
    start = time.monotonic()
    threading.Timer(0.2, cancel.cancel).start()
    with pytest.raises(CancelledError):
        Planner.local().forecast_rollout(endless(), cancel)
    assert time.monotonic() - start < 2
    with pytest.raises(CancelledError):
        Planner.local().plan_rollout(plan_pb2.PlanRolloutRequest(), cancel)


def test_other_threads_run_during_a_call() -> None:
    def run() -> None:
        with pytest.raises(PlannerError):
            Planner.local(timeout=1).forecast_rollout(endless())

    thread = threading.Thread(target=run)
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.01)
        turns += 1
    assert turns > 10


def test_asyncio_cancels_a_call_with_its_task() -> None:
    async def run() -> None:
        async with AsyncPlanner.local() as planner:
            request = plan_pb2.PlanRolloutRequest(snapshot=snapshot())
            assert (await planner.plan_rollout(request)).steps
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(planner.forecast_rollout(endless()), 0.2)

    start = time.monotonic()
    # The end of the loop waits for its threads.
    asyncio.run(run())
    assert time.monotonic() - start < 2


def test_a_large_request_exceeds_a_limit() -> None:
    request = plan_pb2.PlanRolloutRequest(snapshot=plan_pb2.Snapshot(objects=["a" * (16 << 20)]))
    with pytest.raises(PlannerError, match="REQUEST_TOO_LARGE"):
        Planner.local().plan_rollout(request)


def test_an_unknown_method_is_unimplemented() -> None:
    code, answer = rollplan_local.call("Guess", b"", 60, rollplan_local.Cancellation())
    assert code == code_pb2.UNIMPLEMENTED
    assert b"UNKNOWN_METHOD" in answer


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rollplan_local", None)
    with pytest.raises(PlannerError, match=r"failed_precondition: .*: pip install 'rollplan\[local\]'"):
        Planner.local()
