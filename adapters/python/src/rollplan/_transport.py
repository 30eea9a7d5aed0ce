"""The common interface of gRPC and HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import Message

from rollplan._cancel import Cancellation

SERVICE = "rollplan.v1.RolloutPlanner"

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """A method of the service."""

    name: str
    request: type[Request]
    response: type[Response]


class Transport(Protocol):
    """Makes one attempt of a call, and raises PlannerError if it fails."""

    def unary(
        self, method: Method[Request, Response], request: Request, timeout: float, cancel: Cancellation | None
    ) -> Response: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The same in an event loop. Cancelling the task cancels the call."""

    async def unary(self, method: Method[Request, Response], request: Request, timeout: float) -> Response: ...

    async def close(self) -> None: ...
