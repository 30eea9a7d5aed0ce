"""Events of the controller itself. The events of plans are calls of the plans."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone

from rollplan.kubernetes import Api
from rollplan.objects import EVENT, Object

# The minimum interval between two recordings of the same event, in seconds.
INTERVAL = 60.0


class Events:
    """Records warnings about Deployments."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._last: dict[tuple[str, str], float] = {}

    def warn(self, about: Object | None, reason: str, message: str) -> None:
        """Records a warning, unless it was recorded recently."""
        now = time.monotonic()
        if about is None or now - self._last.get((about.uid, reason), float("-inf")) < INTERVAL:
            return
        self._last[about.uid, reason] = now
        at = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        namespace, name = about.key
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"namespace": namespace, "name": f"{name}.{time.time_ns():x}"},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": namespace,
                "name": name,
                "uid": about.uid,
                "resourceVersion": str(about.version),
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "rollplan-controller"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        self._api.request("POST", EVENT.path(namespace), "", "application/json", json.dumps(event).encode())
