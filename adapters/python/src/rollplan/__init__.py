"""Client library of rollplan, and a controller built on it: `python -m rollplan.controller`."""

from rollplan._cancel import Cancellation
from rollplan._errors import (
    ApiError,
    CancelledError,
    NativeControllerError,
    NotFoundError,
    PlannerError,
    RollplanError,
    StalledError,
    WaitTimeoutError,
)
from rollplan._steps import Failure
from rollplan.kubernetes import Api
from rollplan.objects import DEPLOYMENT, PLANNED_DEPLOYMENT, Key, Kind, Object
from rollplan.planner import AsyncPlanner, Planner
from rollplan.rollouts import Reader, Rollouts, SyncResult

__all__ = [
    "DEPLOYMENT",
    "PLANNED_DEPLOYMENT",
    "Api",
    "ApiError",
    "AsyncPlanner",
    "Cancellation",
    "CancelledError",
    "Failure",
    "Key",
    "Kind",
    "NativeControllerError",
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
