"""The clients of the service, against the real one."""

import asyncio
import json
import re
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest
from google.protobuf import json_format

from rollplan import AsyncPlanner, Planner, PlannerError
from rollplan._details import from_connect, from_status
from rollplan._retry import retry_delay
from rollplan.v1 import plan_pb2, restart_pb2, service_pb2

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


@pytest.mark.parametrize("client", [Planner, AsyncPlanner])
def test_every_method_of_the_service_can_be_called(client: type[Planner | AsyncPlanner]) -> None:
    methods = [it.name for it in service_pb2.DESCRIPTOR.services_by_name["RolloutPlanner"].methods]
    assert methods
    assert [it for it in methods if not hasattr(client, re.sub(r"(?<!^)(?=[A-Z])", "_", it).lower())] == []


def test_unreachable_service_is_unavailable() -> None:
    observed: list[str] = []
    with (
        Planner.http("http://127.0.0.1:1", observer=lambda _, code: observed.append(code)) as planner,
        pytest.raises(PlannerError, match="unavailable"),
    ):
        planner.plan_rollout(plan_pb2.PlanRolloutRequest())
    assert observed == ["unavailable"] * 3


# A client of the service for an address without a scheme, with TLS and without.
CONNECT: dict[str, Callable[[str, bool], Planner]] = {
    "grpc": lambda address, tls: Planner.grpc(address, ca_file=certifi.where() if tls else None),
    "http": lambda address, tls: Planner.http(f"{'https' if tls else 'http'}://{address}"),
}
CONNECT_ASYNC: dict[str, Callable[[str, bool], AsyncPlanner]] = {
    "asyncio-grpc": lambda address, tls: AsyncPlanner.grpc(address, ca_file=certifi.where() if tls else None),
    "asyncio-http": lambda address, tls: AsyncPlanner.http(f"{'https' if tls else 'http'}://{address}"),
}


def failure(transport: str, address: str, *, tls: bool) -> PlannerError:
    """The error of a call."""
    request = plan_pb2.PlanRolloutRequest()

    async def run() -> None:
        async with CONNECT_ASYNC[transport](address, tls) as planner:
            await planner.plan_rollout(request)

    try:
        if transport in CONNECT_ASYNC:
            asyncio.run(run())
        else:
            with CONNECT[transport](address, tls) as planner:
                planner.plan_rollout(request)
    except PlannerError as error:
        return error
    raise AssertionError("the call did not fail")


@pytest.fixture
def tls_only() -> Iterator[str]:
    """The address of a server that answers as one with TLS does to a client without: with an alert."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(bytes.fromhex("15030300020232"))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("transport", [*CONNECT, *CONNECT_ASYNC])
class TestUnreachableService:
    """Errors name the address and the cause."""

    def check(self, error: PlannerError, address: str, cause: str) -> None:
        assert (error.code, error.reason) == ("unavailable", "")
        assert re.match(rf"(https?://)?{re.escape(address)}: .*{cause}", error.message), error.message

    def test_nothing_listens(self, transport: str) -> None:
        self.check(failure(transport, "127.0.0.1:1", tls=False), "127.0.0.1:1", "Connection refused")

    def test_the_name_does_not_resolve(self, transport: str) -> None:
        address = "no-such-host.invalid:50051"
        self.check(failure(transport, address, tls=False), address, "(resolving|lookup|not known|name resolution)")

    def test_the_name_is_too_long(self, transport: str) -> None:
        address = "n" * 64 + ".example:50051"
        self.check(failure(transport, address, tls=False), address, "(resolving|too long|not known|name resolution)")

    def test_the_server_requires_tls(self, transport: str, tls_only: str) -> None:
        self.check(failure(transport, tls_only, tls=False), tls_only, "perhaps because the server requires TLS")

    def test_the_server_does_not_use_tls(self, transport: str, address: str) -> None:
        self.check(failure(transport, address, tls=True), address, "the server does not use TLS")


@pytest.mark.parametrize("address", ["http://127.0.0.1:50051", "https://rollplan.example", "", "127.0.0.1:65536"])
@pytest.mark.parametrize("client", [Planner, AsyncPlanner])
def test_address_that_grpc_cannot_use_is_refused(client: type[Planner | AsyncPlanner], address: str) -> None:
    with pytest.raises(PlannerError, match=f"invalid_argument: address {address!r} of the service"):
        client.grpc(address)


@pytest.mark.parametrize("url", ["127.0.0.1:50051", "localhost:50051", "dns:///rollplan:80", "", "http://", "http://h:65536"])
@pytest.mark.parametrize("client", [Planner, AsyncPlanner])
def test_address_that_is_not_a_url_is_refused_for_http(client: type[Planner | AsyncPlanner], url: str) -> None:
    with pytest.raises(PlannerError, match=f"invalid_argument: address {url!r} of the service: must be a URL"):
        client.http(url)


@pytest.mark.parametrize("text", [None, "", "text"])
@pytest.mark.parametrize("client", [Planner, AsyncPlanner])
def test_unusable_ca_file_is_named(client: type[Planner | AsyncPlanner], text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    for connect, address in ((client.grpc, "127.0.0.1:50051"), (client.http, "https://127.0.0.1:50051")):
        with pytest.raises(PlannerError, match=f"invalid_argument: CA certificates {file}: ."):
            connect(address, ca_file=str(file))


def test_answer_of_another_server_names_the_address_without_the_password() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        with Planner.http(f"http://user:secret@{address}") as planner, pytest.raises(PlannerError) as caught:
            planner.plan_rollout(plan_pb2.PlanRolloutRequest())
        server.shutdown()
    assert str(caught.value) == f"unimplemented: http://{address}: HTTP 404, but not from the service"


@pytest.mark.parametrize("request_type", [dict, str, plan_pb2.ComputeStatusRequest])
@pytest.mark.parametrize("transport", ["grpc", "proto", "json"])
def test_request_of_another_type_is_an_invalid_argument(transport: str, request_type: Callable[[], Any]) -> None:
    planner = (
        Planner.grpc("127.0.0.1:1") if transport == "grpc" else Planner.http("http://127.0.0.1:1", json=transport == "json")
    )
    expected = f"invalid_argument: PlanRollout requires a PlanRolloutRequest, not {request_type.__name__}"
    with planner, pytest.raises(PlannerError, match=expected):
        planner.plan_rollout(request_type())


def test_time_that_json_cannot_encode_is_an_invalid_argument_that_names_the_field() -> None:
    request = plan_pb2.PlanRolloutRequest()
    request.snapshot.now.seconds = 10**15
    with (
        Planner.http("http://127.0.0.1:1", json=True) as planner,
        pytest.raises(PlannerError, match=r"invalid_argument: .*\bnow\b"),
    ):
        planner.plan_rollout(request)


CONTAINER = {"name": "web", "image": "web", "envFrom": [{"configMapRef": {"name": "app"}}]}
CONFIGURED = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "namespace": "shop"}, "data": {"key": "value"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": {"rollplan.dev/restart": "enabled"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}},
        },
    },
]


def test_restarts_are_planned(address: str) -> None:
    request = restart_pb2.PlanRestartsRequest(objects=[json.dumps(it) for it in CONFIGURED], configurations_complete=True)
    request.now.FromJsonString(NOW)

    async def run() -> restart_pb2.PlanRestartsResponse:
        async with AsyncPlanner.grpc(address) as planner:
            return await planner.plan_restarts(request)

    with Planner.grpc(address) as planner:
        response = planner.plan_restarts(request)
    assert [it.name for it in response.plans] == ["web"]
    assert asyncio.run(run()) == response


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
