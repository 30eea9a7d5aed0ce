"""The state of a Deployment between syncs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rollplan._errors import NativeControllerError
from rollplan.objects import REPLICA_SET, Key, Object
from rollplan.v1.plan_pb2 import StepAnswer

# How long a created object is assumed to exist although the cache does not show it, in seconds. If it is deleted while the
# watch is interrupted, the cache never shows it.
CACHE_LAG_MAX = 60.0
# How long the native controller must not have written before work on a Deployment is resumed, in seconds.
NATIVE_QUIET_PERIOD = 60.0


@dataclass
class Write:
    """An object that a call of the adapter returned, until the cache shows it."""

    object: Object
    created: bool
    deleted: bool
    at: float


@dataclass
class OwnerState:
    """The state is discarded when a Deployment is deleted and another one is created with the same name."""

    uid: str = ""
    # Without these, a lagging watch would make the planner repeat steps that were already carried out.
    writes: dict[str, Write] = field(default_factory=dict)
    # The versions of the ReplicaSets in the last request.
    sent: dict[str, int] = field(default_factory=dict)
    # Whether the cache, together with writes, is known to have all changes of the ReplicaSets.
    verified: bool = False
    # When the first of the delayed status updates was due. None if there is none.
    status_delayed_since: float | None = None
    # The answers to the calls of the last plan that failed, and whether one of them is a rejection.
    answers: list[StepAnswer] = field(default_factory=list)
    rejected: bool = False
    # Whether the API server has dropped terminatingReplicas from a status write, until a ReplicaSet has this field.
    drops_terminating: bool = False
    native_observed: bool = False
    native_write: str = ""
    native_until: float = 0.0

    def reset(self, uid: str) -> None:
        """Resets the state for another Deployment."""
        self.__dict__.update(OwnerState(uid).__dict__)

    def check_native(self, owner: Object, now: float) -> None:
        """Raises if the native controller has written the status since the first observation of the Deployment."""
        if owner.native_status_write > self.native_write:
            if self.native_observed:
                self.native_until = now + NATIVE_QUIET_PERIOD
            self.native_write = owner.native_status_write
        self.native_observed = True
        if now < self.native_until:
            self.verified = False
            raise NativeControllerError

    def record_write(self, it: Object, *, created: bool = False, deleted: bool = False) -> None:
        """Stores the object that a write returned."""
        before = self.writes.get(it.uid)
        created = created or (before is not None and before.created)
        self.writes[it.uid] = Write(it, created, deleted, time.monotonic())

    def record_read(self, it: Object) -> bool:
        """Stores a ReplicaSet from the API server. Returns whether the last request lacked it or had another version."""
        if self.sent.get(it.uid) == it.version:
            return False
        own = self.writes.get(it.uid)
        if own is None or own.object.version < it.version:
            self.record_write(it, created=True)
        return True

    def forget_missing(self, kind: str, name: str) -> None:
        """Drops the adapter's own write to an object that, according to the API server, does not exist."""
        for uid, own in list(self.writes.items()):
            if (own.object.kind, own.object.key.name) == (kind, name):
                del self.writes[uid]

    def latest(self, cached: Object) -> Object | None:
        """The newer of the cached object and the result of the adapter's own write. None if the adapter deleted it."""
        own = self.writes.get(cached.uid)
        if own is None:
            return cached
        if own.deleted and not cached.deleting:
            return None
        if own.deleted or cached.version >= own.object.version:
            del self.writes[cached.uid]
            return cached
        return own.object

    def overlay(self, cached: Iterable[Object], now: float) -> list[Object]:
        """The ReplicaSets that the cache will show once it has caught up."""
        cached = list(cached)
        shown = {it.uid for it in cached}
        objects = [latest for it in cached if (latest := self.latest(it)) is not None]
        for uid, own in list(self.writes.items()):
            if own.object.kind != REPLICA_SET.kind:
                continue
            if uid in shown:
                own.created = False
            elif own.created and not own.deleted and now - own.at < CACHE_LAG_MAX:
                objects.append(own.object)
            else:
                # Either the cache has seen the deletion, or a created object is overdue and must be read again.
                del self.writes[uid]
                self.verified = self.verified and not own.created
        return objects


class States:
    """The states of all Deployments. Syncs of one Deployment exclude each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[Key, tuple[threading.RLock, OwnerState]] = {}

    def locked(self, key: Key) -> _Locked:
        return _Locked(self._get, key)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._states.pop(key, None)

    def _get(self, key: Key) -> tuple[threading.RLock, OwnerState]:
        with self._lock:
            return self._states.setdefault(key, (threading.RLock(), OwnerState()))


class _Locked:
    """Holds the lock of a state during a block."""

    def __init__(self, get: Callable[[Key], tuple[threading.RLock, OwnerState]], key: Key) -> None:
        self._get, self._key = get, key

    def __enter__(self) -> OwnerState:
        while True:
            self._lock, state = self._get(self._key)
            self._lock.acquire()
            if self._get(self._key)[0] is self._lock:
                return state
            self._lock.release()  # the state was discarded in the meantime

    def __exit__(self, *_: object) -> None:
        self._lock.release()
