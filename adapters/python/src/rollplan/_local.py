"""The planner in this process, from the package rollplan-local: the same answers as the service, without one."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status

from rollplan._cancel import Cancellation
from rollplan._details import from_status
from rollplan._errors import PlannerError
from rollplan._transport import Method, Request, Response

if TYPE_CHECKING:
    import rollplan_local


def _new_cancellation() -> rollplan_local.Cancellation:
    # Imported when it is needed: the package is optional.
    try:
        from rollplan_local import Cancellation as LocalCancellation  # noqa: PLC0415
    except ImportError as error:
        hint = "the local planner requires one more package: pip install 'rollplan[local]'"
        raise PlannerError("failed_precondition", f"{hint} ({error})") from error
    return LocalCancellation()


def _call(
    method: Method[Request, Response], request: Request, timeout: float, cancellation: rollplan_local.Cancellation
) -> Response:
    from rollplan_local import call  # noqa: PLC0415

    code, answer = call(method.name, request.SerializeToString(), timeout, cancellation)
    if code:
        raise from_status(code_pb2.Code.Name(code).lower(), Status.FromString(answer).message, answer)
    response = method.response()
    try:
        response.ParseFromString(answer)
    except DecodeError as error:
        raise PlannerError("internal", f"cannot decode the response: {error}") from error
    return response


class LocalTransport:
    """Calls the planner in this process. Other threads run during a call."""

    def __init__(self) -> None:
        _new_cancellation()

    def unary(
        self, method: Method[Request, Response], request: Request, timeout: float, cancel: Cancellation | None
    ) -> Response:
        own = _new_cancellation()
        try:
            with cancel.calling(own.cancel) if cancel else nullcontext():
                return _call(method, request, timeout, own)
        finally:
            # The error of a cancelled call is another one.
            if cancel:
                cancel.check()

    def close(self) -> None:
        """There is nothing to close."""


class AsyncLocalTransport:
    """Calls the planner in this process, in a thread."""

    def __init__(self) -> None:
        _new_cancellation()

    async def unary(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        own = _new_cancellation()
        try:
            return await asyncio.to_thread(_call, method, request, timeout, own)
        except asyncio.CancelledError:
            own.cancel()
            raise

    async def close(self) -> None:
        """There is nothing to close."""
