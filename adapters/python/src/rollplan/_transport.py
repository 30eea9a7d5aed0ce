"""The common interface of gRPC, HTTP, and the planner in this process."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import Message

from rollplan._cancel import Cancellation
from rollplan._errors import PlannerError

SERVICE = "rollplan.v1.RolloutPlanner"
PORT_MAX = 65_535

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """A method of the service."""

    name: str
    request: type[Request]
    response: type[Response]

    def check(self, request: object) -> None:
        """Raises PlannerError unless this is a request of the method: with gRPC, the error would not have a cause."""
        if not isinstance(request, self.request):
            expected = f"{self.name} requires a {self.request.__name__}"
            raise PlannerError("invalid_argument", f"{expected}, not {type(request).__name__}")


def trusting(ca_file: str) -> ssl.SSLContext:
    """Trusts the authorities in a file. Raises PlannerError if it cannot be read: the error of TLS would not name it."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise PlannerError("invalid_argument", f"CA certificates {ca_file}: {error.strerror}") from error


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
