"""The errors of this package."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rollplan.v1.report_pb2 import RolloutReport


class RollplanError(Exception):
    """Base of all errors of this package."""


@dataclass
class PlannerError(RollplanError):
    """The service did not answer, or answered with an error. docs/reference/api.md lists them."""

    # A code of gRPC in lower case, for example "unavailable".
    code: str
    message: str
    # The stable reason, for example "INVALID_REQUEST". Empty if the error is not one of the service.
    reason: str = ""
    # When to try again, in seconds, if the service says so (RetryInfo).
    retry_after: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.reason})" if self.reason else "")

    def located(self, address: str) -> PlannerError:
        """The error with the address, unless the service itself reported it."""
        return self if self.reason else replace(self, message=f"{address}: {self.message}")

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed at once, perhaps on another server."""
        return self.code == "unavailable" or (self.code == "resource_exhausted" and self.retry_after is not None)


class CancelledError(RollplanError):
    """The run was cancelled."""


@dataclass
class ApiError(RollplanError):
    """The API server did not answer a read request, refused it, or answered with something other than an object.

    Also raised if the kubeconfig is missing or cannot be read. If the API server did not answer, the code is 0.
    """

    what: str
    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.what}: {self.message or 'no answer'}" + (f" ({self.code})" if self.code else "")


class NotFoundError(RollplanError):
    """The Deployment does not exist."""


class _WaitError(RollplanError):
    """A wait that ended before the rollout was complete."""

    def __init__(self, report: RolloutReport) -> None:
        super().__init__(report.message)
        self.report = report


class StalledError(_WaitError):
    """A rollout needs a change to complete."""


class WaitTimeoutError(_WaitError):
    """A rollout is not complete yet."""
