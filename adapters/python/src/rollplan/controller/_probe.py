"""The probe for the native Deployment controller."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable

from rollplan._answer import Answer
from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, CancelledError, NativeControllerError
from rollplan.kubernetes import Api
from rollplan.objects import DEPLOYMENT, Json

log = logging.getLogger("rollplan.controller")

# Marks a Deployment that only shows whether the native controller is running. No adapter manages it.
LABEL = "rollplan.dev/probe"
NAME = "rollplan-native-controller-probe"
# The interval in which the status of the probe is read, in seconds.
POLL = 2.0
# The interval in which the probe is changed. The native controller observes changes within a second, also after its start.
INTERVAL = 180.0


class Probe:
    """Determines whether the native Deployment controller is running before the adapter makes its first write.

    It changes a Deployment without pods, which no adapter manages, and checks whether its status is written. Then it
    continues to check. `wait` is how long the status must not be written: longer than a leader change of
    kube-controller-manager takes.
    """

    def __init__(self, api: Api, namespace: str, wait: float, *, now: Callable[[], float] = time.monotonic) -> None:
        self._api, self._namespace, self._wait, self._now = api, namespace, wait, now
        self._clear = threading.Event()
        self._decided = False

    @property
    def clear(self) -> bool:
        """Whether the native controller is known not to be running."""
        return self._clear.is_set()

    def run(self, cancel: Cancellation) -> None:
        """Probes until it is cancelled."""
        while not cancel.cancelled:
            try:
                self._probe(cancel)
            except CancelledError:
                return
            except ApiError as error:
                log.warning("the probe for the native Deployment controller failed: %s", error)
                try:
                    cancel.sleep(POLL)
                except CancelledError:
                    return

    def _probe(self, cancel: Cancellation) -> None:
        """Changes the Deployment, and waits until its status is written or until the next change is due."""
        generation = self._touch(cancel)
        end = self._now() + (max(INTERVAL, self._wait) if self.clear else self._wait)
        while self._now() < end:
            cancel.sleep(POLL)
            observed, manager = self._observe(cancel)
            if observed >= generation:
                self._decide(NativeControllerError(f"{manager} has written the status of {self._namespace}/{NAME}"))
                return
        self._decide(None)

    def _decide(self, found: NativeControllerError | None) -> None:
        first, was_clear = not self._decided, self.clear
        self._decided = True
        if found:
            self._clear.clear()
            if first or was_clear:
                log.error("Stopped the work on all Deployments: %s", found)
        else:
            self._clear.set()
            if not was_clear:
                log.info("The native Deployment controller is not running")

    def _touch(self, cancel: Cancellation) -> int:
        """Changes the spec of the probe, or creates it, and returns its generation."""
        # The limit has no effect on a Deployment without ReplicaSets, but each value increments the generation.
        limit = time.time_ns() // 1_000_000 & 0x7FFFFFFF
        patch: Json = {"spec": {"revisionHistoryLimit": limit}}
        answer = self._call("PATCH", "application/merge-patch+json", patch, cancel)
        if answer.code == 404:
            answer = self._call("POST", "application/json", self._deployment(limit), cancel)
        return int(_read("change", answer)["metadata"]["generation"])

    def _observe(self, cancel: Cancellation) -> tuple[int, str]:
        """The generation of the probe's status, and the manager that wrote it."""
        it = _read("read", self._api.request("GET", DEPLOYMENT.path(self._namespace, NAME), cancel=cancel))
        managed = it["metadata"].get("managedFields", [])
        managers = [str(entry["manager"]) for entry in managed if entry.get("subresource") == "status"]
        return int(it.get("status", {}).get("observedGeneration", 0)), next(iter(managers), "another controller")

    def _call(self, method: str, content_type: str, body: Json, cancel: Cancellation) -> Answer:
        path = DEPLOYMENT.path(self._namespace, NAME if method == "PATCH" else "")
        return self._api.request(method, path, "fieldManager=rollplan", content_type, json.dumps(body).encode(), cancel)

    def _deployment(self, limit: int) -> Json:
        labels = {LABEL: "native-controller"}
        # It complies with the restricted Pod Security Standard: otherwise the API server would warn about it.
        context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod = {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "never-started", "image": "never-started", "securityContext": context}],
        }
        return {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "metadata": {"namespace": self._namespace, "name": NAME, "labels": labels},
            "spec": {
                "replicas": 0,
                "paused": True,
                "revisionHistoryLimit": limit,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }


def _read(verb: str, answer: Answer) -> Json:
    it = answer.json()
    if not answer.ok or "generation" not in it.get("metadata", {}):
        raise ApiError(f"{verb} Deployment {NAME}", answer.code, answer.message)
    return it
