"""Clients of the service, with deadlines and retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

from typing_extensions import Self

from rollplan._cancel import Cancellation
from rollplan._errors import PlannerError
from rollplan._grpc import AsyncGrpcTransport, GrpcTransport
from rollplan._http import AsyncHttpTransport, HttpTransport
from rollplan._local import AsyncLocalTransport, LocalTransport
from rollplan._retry import retry_delay
from rollplan._transport import AsyncTransport, Method, Request, Response, Transport
from rollplan.v1 import canary_pb2, forecast_pb2, plan_pb2, restart_pb2, revision_pb2

# The deadline of one attempt in seconds. The largest plans take well under a second.
DEFAULT_TIMEOUT = 10.0

PLAN_ROLLOUT = Method("PlanRollout", plan_pb2.PlanRolloutRequest, plan_pb2.PlanRolloutResponse)
COMPUTE_STATUS = Method("ComputeStatus", plan_pb2.ComputeStatusRequest, plan_pb2.ComputeStatusResponse)
ROLLBACK = Method("Rollback", revision_pb2.RollbackRequest, revision_pb2.RollbackResponse)
LIST_REVISIONS = Method("ListRevisions", revision_pb2.ListRevisionsRequest, revision_pb2.ListRevisionsResponse)
PLAN_RESTARTS = Method("PlanRestarts", restart_pb2.PlanRestartsRequest, restart_pb2.PlanRestartsResponse)
FORECAST_ROLLOUT = Method("ForecastRollout", forecast_pb2.ForecastRolloutRequest, forecast_pb2.ForecastRolloutResponse)
PLAN_CANARY = Method("PlanCanary", canary_pb2.PlanCanaryRequest, canary_pb2.PlanCanaryResponse)

# Called after each attempt, with its duration in seconds and its code.
Observer = Callable[[float, str], None]


class Planner:
    """A client of the service. It is thread-safe.

    Attempts that fail with "unavailable", or with "resource_exhausted" and a RetryInfo, are repeated, three in all. This is
    safe because no call of the service has a side effect. After any other error the same request would fail again.
    """

    def __init__(self, transport: Transport, *, timeout: float = DEFAULT_TIMEOUT, observer: Observer | None = None) -> None:
        self._transport, self._timeout, self._observer = transport, timeout, observer

    @classmethod
    def grpc(
        cls,
        address: str,
        *,
        ca_file: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        observer: Observer | None = None,
    ) -> Self:
        """A client over gRPC, for an address like "rollplan.rollplan-system.svc:50051". Without a CA there is no TLS."""
        return cls(GrpcTransport(address, ca_file), timeout=timeout, observer=observer)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        json: bool = False,
        ca_file: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        observer: Observer | None = None,
    ) -> Self:
        """A client over HTTP (Connect), for a URL like "http://127.0.0.1:50051", with protobuf or JSON."""
        return cls(HttpTransport(url, json=json, ca_file=ca_file), timeout=timeout, observer=observer)

    @classmethod
    def local(cls, *, timeout: float = DEFAULT_TIMEOUT, observer: Observer | None = None) -> Self:
        """A planner in this process, without a service. It requires the extra `local`."""
        return cls(LocalTransport(), timeout=timeout, observer=observer)

    def plan_rollout(
        self, request: plan_pb2.PlanRolloutRequest, cancel: Cancellation | None = None
    ) -> plan_pb2.PlanRolloutResponse:
        """The next writes for a Deployment."""
        return self._call(PLAN_ROLLOUT, request, cancel)

    def compute_status(
        self, request: plan_pb2.ComputeStatusRequest, cancel: Cancellation | None = None
    ) -> plan_pb2.ComputeStatusResponse:
        """The status and the report of a Deployment."""
        return self._call(COMPUTE_STATUS, request, cancel)

    def rollback(
        self, request: revision_pb2.RollbackRequest, cancel: Cancellation | None = None
    ) -> revision_pb2.RollbackResponse:
        """The writes that roll a Deployment back."""
        return self._call(ROLLBACK, request, cancel)

    def list_revisions(
        self, request: revision_pb2.ListRevisionsRequest, cancel: Cancellation | None = None
    ) -> revision_pb2.ListRevisionsResponse:
        """The revisions of a Deployment."""
        return self._call(LIST_REVISIONS, request, cancel)

    def plan_restarts(
        self, request: restart_pb2.PlanRestartsRequest, cancel: Cancellation | None = None
    ) -> restart_pb2.PlanRestartsResponse:
        """Which workloads to restart because their configuration has changed, and the writes for it."""
        return self._call(PLAN_RESTARTS, request, cancel)

    def forecast_rollout(
        self, request: forecast_pb2.ForecastRolloutRequest, cancel: Cancellation | None = None
    ) -> forecast_pb2.ForecastRolloutResponse:
        """What changes of a Deployment will do, before they are applied."""
        return self._call(FORECAST_ROLLOUT, request, cancel)

    def plan_canary(
        self, request: canary_pb2.PlanCanaryRequest, cancel: Cancellation | None = None
    ) -> canary_pb2.PlanCanaryResponse:
        """The next write of a canary, or of an automatic rollback."""
        return self._call(PLAN_CANARY, request, cancel)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _call(self, method: Method[Request, Response], request: Request, cancel: Cancellation | None) -> Response:
        method.check(request)
        attempt = 0
        while True:
            attempt += 1
            start, code = time.monotonic(), "ok"
            try:
                return self._transport.unary(method, request, self._timeout, cancel)
            except PlannerError as error:
                code = error.code
                delay = retry_delay(error, attempt)
                if delay is None:
                    raise
            finally:
                if self._observer:
                    self._observer(time.monotonic() - start, code)
            if cancel:
                cancel.sleep(delay)
            else:
                time.sleep(delay)


class AsyncPlanner:
    """The same client for an event loop. Cancelling the task cancels the call."""

    def __init__(self, transport: AsyncTransport, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._transport, self._timeout = transport, timeout

    @classmethod
    def grpc(cls, address: str, *, ca_file: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> Self:
        """A client over gRPC."""
        return cls(AsyncGrpcTransport(address, ca_file), timeout=timeout)

    @classmethod
    def http(cls, url: str, *, json: bool = False, ca_file: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> Self:
        """A client over HTTP (Connect)."""
        return cls(AsyncHttpTransport(url, json=json, ca_file=ca_file), timeout=timeout)

    @classmethod
    def local(cls, *, timeout: float = DEFAULT_TIMEOUT) -> Self:
        """A planner in this process, without a service, which works in a thread. It requires the extra `local`."""
        return cls(AsyncLocalTransport(), timeout=timeout)

    async def plan_rollout(self, request: plan_pb2.PlanRolloutRequest) -> plan_pb2.PlanRolloutResponse:
        """The next writes for a Deployment."""
        return await self._call(PLAN_ROLLOUT, request)

    async def compute_status(self, request: plan_pb2.ComputeStatusRequest) -> plan_pb2.ComputeStatusResponse:
        """The status and the report of a Deployment."""
        return await self._call(COMPUTE_STATUS, request)

    async def rollback(self, request: revision_pb2.RollbackRequest) -> revision_pb2.RollbackResponse:
        """The writes that roll a Deployment back."""
        return await self._call(ROLLBACK, request)

    async def list_revisions(self, request: revision_pb2.ListRevisionsRequest) -> revision_pb2.ListRevisionsResponse:
        """The revisions of a Deployment."""
        return await self._call(LIST_REVISIONS, request)

    async def plan_restarts(self, request: restart_pb2.PlanRestartsRequest) -> restart_pb2.PlanRestartsResponse:
        """Which workloads to restart because their configuration has changed, and the writes for it."""
        return await self._call(PLAN_RESTARTS, request)

    async def forecast_rollout(self, request: forecast_pb2.ForecastRolloutRequest) -> forecast_pb2.ForecastRolloutResponse:
        """What changes of a Deployment will do, before they are applied."""
        return await self._call(FORECAST_ROLLOUT, request)

    async def plan_canary(self, request: canary_pb2.PlanCanaryRequest) -> canary_pb2.PlanCanaryResponse:
        """The next write of a canary, or of an automatic rollback."""
        return await self._call(PLAN_CANARY, request)

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, method: Method[Request, Response], request: Request) -> Response:
        method.check(request)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._transport.unary(method, request, self._timeout)
            except PlannerError as error:
                delay = retry_delay(error, attempt)
                if delay is None:
                    raise
            await asyncio.sleep(delay)
