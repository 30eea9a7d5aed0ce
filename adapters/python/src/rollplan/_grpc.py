"""The service over gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio

from rollplan._cancel import Cancellation, interruptible
from rollplan._cause import with_hint
from rollplan._details import from_status
from rollplan._errors import PlannerError
from rollplan._transport import PORT_MAX, Method, Request, Response, trusting
from rollplan.v1.service_pb2_grpc import RolloutPlannerStub

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.lb_policy_name", "round_robin"),
    # The limit of the service; with the default of gRPC, the largest responses would fail.
    ("grpc.max_receive_message_length", 16 << 20),
    # Without keepalives, calls on a connection whose peer has silently disappeared would hang for about 15 minutes.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # By default, gRPC waits up to two minutes before it reconnects to a service that is available again.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3_000),
]


def _credentials(ca_file: str | None) -> grpc.ChannelCredentials | None:
    if not ca_file:
        return None
    trusting(ca_file)  # gRPC would report only in a call that TLS does not work
    return grpc.ssl_channel_credentials(Path(ca_file).read_bytes())


def _check(address: str) -> None:
    """Refuses addresses for which gRPC reports only that a name cannot be resolved, or that it takes for other ones."""
    scheme, is_url, _ = address.partition("://")
    if not address or (is_url and scheme in ("http", "https")):
        expected = 'must be HOST:PORT, for example "127.0.0.1:50051"; a URL requires Planner.http'
        raise PlannerError("invalid_argument", f"address {address!r} of the service: {expected}")
    port = address.rpartition(":")[2]
    if port.isdecimal() and int(port) > PORT_MAX:
        raise PlannerError("invalid_argument", f"address {address!r} of the service: the largest port is {PORT_MAX}")


def _error(error: grpc.RpcError | grpc.aio.AioRpcError, address: str, ca_file: str | None) -> PlannerError:
    call = cast("grpc.Call", error)
    trailers: Any = call.trailing_metadata() or ()
    status = next((value for key, value in trailers if key == "grpc-status-details-bin"), None)
    details = with_hint(call.details() or "", tls=ca_file is not None)
    return from_status(call.code().name.lower(), details, status).located(address)


class GrpcTransport:
    """Calls the service over gRPC."""

    def __init__(self, address: str, ca_file: str | None = None) -> None:
        _check(address)
        self._address, self._ca_file = address, ca_file
        credentials = _credentials(ca_file)
        if credentials:
            self._channel = grpc.secure_channel(address, credentials, OPTIONS)
        else:
            self._channel = grpc.insecure_channel(address, OPTIONS)
        self._stub = RolloutPlannerStub(self._channel)

    def unary(
        self, method: Method[Request, Response], request: Request, timeout: float, cancel: Cancellation | None
    ) -> Response:
        call: grpc.UnaryUnaryMultiCallable[Request, Response] = getattr(self._stub, method.name)
        try:
            # A future could be cancelled itself, but needs its own thread for each call.
            return interruptible(lambda: call(request, timeout=timeout), cancel)
        except grpc.RpcError as error:
            raise _error(error, self._address, self._ca_file) from error

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcTransport:
    """Calls the service over gRPC, in an event loop."""

    def __init__(self, address: str, ca_file: str | None = None) -> None:
        _check(address)
        self._address, self._ca_file = address, ca_file
        credentials = _credentials(ca_file)
        if credentials:
            self._channel = grpc.aio.secure_channel(address, credentials, OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(address, OPTIONS)
        self._stub = RolloutPlannerStub(self._channel)

    async def unary(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        call: grpc.aio.UnaryUnaryMultiCallable[Request, Response] = getattr(self._stub, method.name)
        try:
            return await call(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise _error(error, self._address, self._ca_file) from error

    async def close(self) -> None:
        await self._channel.close()
