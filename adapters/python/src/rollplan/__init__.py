"""Client library of rollplan."""

from typing import TYPE_CHECKING, Any

from rollplan._cancel import Cancellation
from rollplan._errors import (
    ApiError,
    CancelledError,
    NotFoundError,
    PlannerError,
    RollplanError,
    StalledError,
    WaitTimeoutError,
)
from rollplan._steps import CallResult
from rollplan.objects import DEPLOYMENT, PLANNED_DEPLOYMENT, Key, Kind, Object
from rollplan.planner import AsyncPlanner, Planner
from rollplan.rollouts import Reader, Rollouts, SyncResult

if TYPE_CHECKING:
    from rollplan.kubernetes import Api

__all__ = [
    "DEPLOYMENT",
    "PLANNED_DEPLOYMENT",
    "Api",
    "ApiError",
    "AsyncPlanner",
    "CallResult",
    "Cancellation",
    "CancelledError",
    "Key",
    "Kind",
    "NotFoundError",
    "Object",
    "Planner",
    "PlannerError",
    "Reader",
    "Rollouts",
    "RollplanError",
    "StalledError",
    "SyncResult",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> Any:
    """Imports `Api` on demand: it needs the extra `kubernetes`, and takes longer than everything else."""
    if name != "Api":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollplan.kubernetes import Api  # noqa: PLC0415

    return Api
