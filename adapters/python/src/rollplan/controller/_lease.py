"""Leader election with a Lease, as client-go does it: only one adapter writes.

The package kubernetes (37) has a leader election too. Its requests have no deadline, so a leader whose API server does not
answer would write after its lease has expired, and an error of the connection ends it. It can neither be stopped nor release
the lease, and it drops the fields of the lease that its models do not know.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import datetime, timezone

from rollplan._answer import Answer
from rollplan.controller._metrics import observe_lease
from rollplan.kubernetes import Api
from rollplan.objects import Json, Kind

log = logging.getLogger("rollplan.controller")

# The timeout of a request whose attempt has no time left, in seconds.
TIMEOUT_MIN = 0.1
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")


class Election:
    """Holds a lease, or waits for it."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str, duration: float) -> None:
        self._api, self._namespace, self._name, self._identity, self._duration = api, namespace, name, identity, duration
        self._retry, self._renew_within = duration * 2 / 15, duration * 2 / 3
        # When the requests of an attempt must have ended.
        self._deadline = 0.0
        # The last observation of the lease, and its local time: the clocks of other machines do not matter.
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._held = False
        # The holder, and the error of the last attempt, that were logged last.
        self._reported = ("", "")

    def acquire(self, stop: threading.Event) -> bool:
        """Waits for the lease. False if stopped."""
        while not stop.is_set():
            self._deadline = time.monotonic() + self._renew_within
            if self._try():
                return True
            stop.wait(self._retry)
        return False

    def keep(self, stop: threading.Event) -> bool:
        """Renews the lease. False if it is lost, which must end all writes. True if stopped."""
        renewed = time.monotonic()
        while not stop.wait(self._retry):
            started = time.monotonic()
            self._deadline = renewed + self._renew_within
            if self._try():
                renewed = started
            elif time.monotonic() >= self._deadline:
                self._held = False
                return False
        return True

    def release(self) -> None:
        """Lets another adapter take over at once."""
        if not self._held:
            return
        self._deadline = time.monotonic() + self._renew_within
        answer = self._read()
        lease = answer.json()
        if answer.ok and lease["spec"].get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
            self._write("PUT", lease)

    def _try(self) -> bool:
        answer = self._read()
        now = time.monotonic()
        if answer.code == 404:
            meta = {"name": self._name, "namespace": self._namespace}
            lease: Json = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": {}}
            return self._acquire("POST", self._mine(lease, transitions=0))
        if not answer.ok:
            self._report(self._reported[0], f"{answer.message or 'no answer'} ({answer.code})")
            return False
        lease = answer.json()
        spec = lease.setdefault("spec", {})
        holder, renewed = spec.get("holderIdentity", ""), spec.get("renewTime", "")
        if self._seen != (holder, renewed):
            self._seen, self._seen_at = (holder, renewed), now
        if holder not in ("", self._identity) and now < self._seen_at + spec.get("leaseDurationSeconds", self._duration):
            self._held = False
            self._report(holder)
            return False
        transitions = spec.get("leaseTransitions", 0) + (holder != self._identity)
        return self._acquire("PUT", self._mine(lease, transitions))

    def _acquire(self, method: str, lease: Json) -> bool:
        self._held = self._write(method, lease)
        if self._held:
            self._report(self._identity)
        return self._held

    def _report(self, holder: str, error: str = "") -> None:
        """Reports changes: a standby is ready and does nothing, like an adapter without work."""
        if (holder, error) == self._reported:
            return
        self._reported = (holder, error)
        lease, is_self = f"{self._namespace}/{self._name}", holder == self._identity
        observe_lease(lease, holder, is_self=is_self)
        if error:
            log.warning("cannot read the lease %s: %s", lease, error)
        elif is_self:
            log.info("acquired the lease %s: %s", lease, holder)
        else:
            log.info("waiting for the lease %s, which another adapter holds: %s", lease, holder)

    def _mine(self, lease: Json, transitions: int) -> Json:
        spec = lease["spec"]
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = _now()
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }
        return lease

    def _read(self) -> Answer:
        return self._api.request("GET", LEASE.path(self._namespace, self._name), timeout=self._timeout())

    def _write(self, method: str, lease: Json) -> bool:
        path = LEASE.path(self._namespace, "" if method == "POST" else self._name)
        body = json.dumps(lease).encode()
        return self._api.request(method, path, "", "application/json", body, timeout=self._timeout()).ok

    def _timeout(self) -> float:
        return max(TIMEOUT_MIN, self._deadline - time.monotonic())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
