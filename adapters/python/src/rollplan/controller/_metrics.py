"""Metrics, with the names of the Go adapter."""

from __future__ import annotations

import threading

from prometheus_client import Counter, Gauge, Histogram

from rollplan.objects import Key
from rollplan.v1 import report_pb2

PLANNER_SECONDS = Histogram(
    "rollplan_controller_planner_request_duration_seconds",
    "Duration of attempts to call the rollplan service, by code.",
    ["code"],
    buckets=[0.0005 * 4**i for i in range(8)],
)
SYNCS = Counter("rollplan_controller_syncs", "Syncs of Deployments, by outcome.", ["outcome"])
REJECTED_CALLS = Counter(
    "rollplan_controller_rejected_calls", "Calls that the API server rejected, by the reason of the rejection.", ["reason"]
)
ROLLOUTS = Gauge(
    "rollplan_controller_rollouts",
    "Deployments by the phase and the verdict of their rollout in the last plan.",
    ["phase", "verdict", "certain"],
)
QUEUE_LENGTH = Gauge("rollplan_controller_queue_length", "Deployments that are waiting to be synced.")

LEASE_HOLDER = Gauge(
    "rollplan_controller_lease_holder",
    "Always 1. The label holder has the holder of the lease, and self whether that is this process. Other processes wait for"
    " the lease.",
    ["lease", "holder", "self"],
)


def observe_lease(lease: str, holder: str, *, is_self: bool) -> None:
    """Records the holder of the lease. It is empty after the lease has been released."""
    LEASE_HOLDER.clear()
    if holder:
        LEASE_HOLDER.labels(lease, holder, str(is_self).lower()).set(1)


def observe_planner(seconds: float, code: str) -> None:
    """Measures an attempt to call the service."""
    PLANNER_SECONDS.labels("".join(part.capitalize() for part in code.split("_")) if code != "ok" else "OK").observe(seconds)


class Phases:
    """Keeps the gauge of rollouts by phase and verdict."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[Key, tuple[str, str, str]] = {}

    def set(self, key: Key, report: report_pb2.RolloutReport | None) -> None:
        """Records the report of a Deployment, or that it no longer exists."""
        with self._lock:
            before = self._latest.pop(key, None)
            if before:
                ROLLOUTS.labels(*before).dec()
            if report is not None:
                phase = report_pb2.Phase.Name(report.phase).removeprefix("PHASE_").lower()
                outlook = report_pb2.Outlook.Name(report.verdict.outlook).removeprefix("OUTLOOK_").lower()
                labels = (phase, outlook, str(report.verdict.certain).lower())
                self._latest[key] = labels
                ROLLOUTS.labels(*labels).inc()
