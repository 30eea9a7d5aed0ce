"""The clients of the service, against the real one."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from google.protobuf import json_format

from rollplan import AsyncPlanner, Planner, PlannerError
from rollplan._details import from_connect, from_status
from rollplan._retry import retry_delay
from rollplan.v1 import plan_pb2

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/mid-rollout.json"
NOW = "2026-11-20T23:27:30Z"


@pytest.fixture(scope="session")
def expected(binary: str) -> object:
    command = [binary, "plan", "-f", str(EXAMPLE), "--now", NOW, "-o", "json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


@pytest.fixture
def request_message() -> plan_pb2.PlanRolloutRequest:
    request = plan_pb2.PlanRolloutRequest()
    request.snapshot.objects.append(EXAMPLE.read_text())
    request.snapshot.replica_sets_complete = request.snapshot.pods_complete = True
    request.options.report = True
    request.snapshot.now.FromJsonString(NOW)
    return request


@pytest.mark.parametrize("transport", ["grpc", "proto", "json"])
def test_every_transport_returns_the_plan_of_the_command_line(
    transport: str, address: str, expected: object, request_message: plan_pb2.PlanRolloutRequest
) -> None:
    planner = Planner.grpc(address) if transport == "grpc" else Planner.http(f"http://{address}", json=transport == "json")
    with planner:
        assert json_format.MessageToDict(planner.plan_rollout(request_message)) == expected
        with pytest.raises(PlannerError) as error:
            planner.plan_rollout(plan_pb2.PlanRolloutRequest())
    assert (error.value.code, error.value.reason, error.value.retryable) == ("invalid_argument", "INVALID_REQUEST", False)


@pytest.mark.parametrize("transport", ["grpc", "proto", "json"])
def test_asyncio_returns_the_plan_of_the_command_line(
    transport: str, address: str, expected: object, request_message: plan_pb2.PlanRolloutRequest
) -> None:
    async def run() -> None:
        http = f"http://{address}"
        planner = AsyncPlanner.grpc(address) if transport == "grpc" else AsyncPlanner.http(http, json=transport == "json")
        async with planner:
            assert json_format.MessageToDict(await planner.plan_rollout(request_message)) == expected
            with pytest.raises(PlannerError, match="INVALID_REQUEST"):
                await planner.plan_rollout(plan_pb2.PlanRolloutRequest())

    asyncio.run(run())


def test_unreachable_service_is_unavailable() -> None:
    observed: list[str] = []
    with (
        Planner.http("http://127.0.0.1:1", observer=lambda _, code: observed.append(code)) as planner,
        pytest.raises(PlannerError, match="unavailable"),
    ):
        planner.plan_rollout(plan_pb2.PlanRolloutRequest())
    assert observed == ["unavailable"] * 3


def test_undecodable_details_are_omitted() -> None:
    assert from_status("internal", "text", b"\xff\xff") == PlannerError("internal", "text")
    assert from_connect(502, b"<html>").code == "unavailable"
    assert from_connect(418, b"[]").code == "unknown"
    bad = b'{"code":"internal","details":[{"type":"google.rpc.RetryInfo","value":"//8"}]}'
    assert from_connect(500, bad) == PlannerError("internal", "")


@pytest.mark.parametrize(
    ("error", "attempt", "low", "high"),
    [
        (PlannerError("unavailable", ""), 1, 0.1, 0.15),
        (PlannerError("unavailable", ""), 2, 0.2, 0.3),
        (PlannerError("resource_exhausted", "", retry_after=2.0), 1, 2.0, 3.0),
    ],
)
def test_retry_delay(error: PlannerError, attempt: int, low: float, high: float) -> None:
    delay = retry_delay(error, attempt)
    assert delay is not None
    assert low <= delay <= high


@pytest.mark.parametrize("error", [PlannerError("resource_exhausted", ""), PlannerError("invalid_argument", "")])
def test_other_errors_are_not_retried(error: PlannerError) -> None:
    assert retry_delay(error, 1) is None
    assert retry_delay(PlannerError("unavailable", ""), 3) is None
