"""Leader election with a Lease, as client-go does it: only one adapter writes."""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import datetime, timezone

from rollplan.kubernetes import Answer, Api
from rollplan.objects import Json, Kind

log = logging.getLogger("rollplan.controller")

LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")


class Election:
    """Holds a lease, or waits for it."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str, duration: float) -> None:
        self._api, self._namespace, self._name, self._identity, self._duration = api, namespace, name, identity, duration
        self._retry, self._renew_within = duration * 2 / 15, duration * 2 / 3
        # The last observation of the lease, and its local time: the clocks of other machines do not matter.
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._held = False

    def acquire(self, stop: threading.Event) -> bool:
        """Waits for the lease. False if stopped."""
        while not stop.is_set():
            if self._try():
                log.info("became the leader: %s", self._identity)
                return True
            stop.wait(self._retry)
        return False

    def keep(self, stop: threading.Event) -> bool:
        """Renews the lease. False if it is lost, which must end all writes. True if stopped."""
        renewed = time.monotonic()
        while not stop.wait(self._retry):
            if self._try():
                renewed = time.monotonic()
            elif time.monotonic() - renewed > self._renew_within:
                self._held = False
                return False
        return True

    def release(self) -> None:
        """Lets another adapter take over at once."""
        if not self._held:
            return
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
            self._held = self._write("POST", self._mine(lease, transitions=0))
            return self._held
        if not answer.ok:
            return False
        lease = answer.json()
        spec = lease.setdefault("spec", {})
        holder, renewed = spec.get("holderIdentity", ""), spec.get("renewTime", "")
        if self._seen != (holder, renewed):
            self._seen, self._seen_at = (holder, renewed), now
        if holder not in ("", self._identity) and now < self._seen_at + spec.get("leaseDurationSeconds", self._duration):
            self._held = False
            return False
        transitions = spec.get("leaseTransitions", 0) + (holder != self._identity)
        self._held = self._write("PUT", self._mine(lease, transitions))
        return self._held

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
        return self._api.request("GET", LEASE.path(self._namespace, self._name), timeout=self._renew_within)

    def _write(self, method: str, lease: Json) -> bool:
        path = LEASE.path(self._namespace, "" if method == "POST" else self._name)
        body = json.dumps(lease).encode()
        return self._api.request(method, path, "", "application/json", body, timeout=self._renew_within).ok


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
