"""The control loop: watches feed a queue, and each key of it is handled by `Rollouts.sync`."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass

from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, CancelledError, NativeControllerError, PlannerError
from rollplan.controller._cache import Cache
from rollplan.controller._events import Events
from rollplan.controller._metrics import QUEUE_LENGTH, REJECTED_CALLS, SYNCS, Phases
from rollplan.controller._probe import LABEL, POLL, Probe
from rollplan.controller._queue import BACKOFF_MAX, BACKOFF_MIN, Queue
from rollplan.kubernetes import Api
from rollplan.objects import POD, REPLICA_SET, Key, Kind, Object
from rollplan.planner import Planner
from rollplan.rollouts import Rollouts
from rollplan.v1 import plan_pb2

log = logging.getLogger("rollplan.controller")

# The delay in seconds while the service is unavailable. Waiting keys are spread over the same time again, so that they do
# not all call a recovered service at once.
PLANNER_BACKOFF = 1.0
# The time in which syncs may finish when the controller stops, in seconds.
STOP_GRACE = 5.0


@dataclass(frozen=True)
class Options:
    """Options of the controller. Times are in seconds."""

    namespaces: tuple[str, ...] = ("",)
    selector: str = ""
    workers: int = 5
    # The minimum time between two syncs of a Deployment. One plan at its end covers all changes within it.
    min_interval: float = 0.1
    status_interval: float = 0.5
    # The interval in which every Deployment is synced even if nothing changes.
    resync_interval: float = 3600.0
    plan: plan_pb2.PlanOptions | None = None
    # Nothing is written until the native controller is known not to be running.
    probe: Probe | None = None


class Controller:
    """Watches Deployments of one kind, and syncs them."""

    def __init__(self, api: Api, planner: Planner, kind: Kind, options: Options) -> None:
        self._options = options
        self._queue = Queue()
        self._cancel = Cancellation()
        self._phases = Phases()
        self._events = Events(api)
        self._last_sync: dict[Key, float] = {}
        selector = ",".join(it for it in (options.selector, f"!{LABEL}") if it)
        self._owners = [Cache(api, kind, it, self._owner_changed, selector) for it in options.namespaces]
        self._sets = [Cache(api, REPLICA_SET, it, self._set_changed) for it in options.namespaces]
        self._pods = [Cache(api, POD, it, self._pod_changed) for it in options.namespaces]
        self._caches = [*self._owners, *self._sets, *self._pods]
        self._kind = kind
        self._rollouts = Rollouts(
            planner, api, kind, reader=self, options=options.plan, status_interval=options.status_interval
        )
        self._workers: list[threading.Thread] = []

    # --- starting and stopping

    def start_caches(self, stop: threading.Event) -> None:
        """Starts the watches, and returns when all have listed their objects."""
        for cache in self._caches:
            cache.start()
        for cache in self._caches:
            cache.wait_for_sync(stop)

    def start_workers(self) -> None:
        """Starts the workers. Deployments that changed before are in the queue."""
        targets = [self._work] * self._options.workers + [self._resync]
        if self._options.probe:
            targets.append(self._watch_native)
        self._workers = [threading.Thread(target=it, name=f"{it.__name__}-{i}", daemon=True) for i, it in enumerate(targets)]
        for worker in self._workers:
            worker.start()

    def stop(self, *, at_once: bool = False) -> None:
        """Lets syncs finish for a while, or cancels them at once because another adapter may already be writing."""
        self._queue.close()
        if at_once:
            self._cancel.cancel()
        end = time.monotonic() + STOP_GRACE
        for worker in self._workers[: self._options.workers]:
            worker.join(max(0.0, end - time.monotonic()))
        self._cancel.cancel()
        for worker in self._workers:
            worker.join(STOP_GRACE)
        for cache in self._caches:
            cache.stop()

    # --- reading, for Rollouts

    def get(self, kind: Kind, key: Key) -> Object | None:
        """An object of a cache."""
        found = (it.get(key) for it in self._caches if it.kind == kind)
        return next((it for it in found if it), None)

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        """The objects of a cache with these controllers."""
        return [
            it for cache in self._caches if cache.kind == kind for uid in uids for it in cache.controlled_by(namespace, uid)
        ]

    # --- changes

    def _owner_changed(self, before: Object | None, after: Object | None) -> None:
        for it in (before, after):
            if it:
                self._queue.add(it.key)

    def _set_changed(self, before: Object | None, after: Object | None) -> None:
        for it in (before, after):
            if it and it.controller is None:
                # Any Deployment of the namespace may adopt it. The planner decides which one does.
                for owner in self._all_owners(it.key.namespace):
                    self._queue.add(owner.key)
            elif it and it.controller and it.controller.kind == self._kind.kind:
                self._queue.add(Key(it.key.namespace, it.controller.name))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        """Recreate waits until all old pods are deleted. ReplicaSets do not show that, because their size is 0 much earlier."""
        if before is None or after is not None or before.controller is None:
            return
        owned = self.get(REPLICA_SET, Key(before.key.namespace, before.controller.name))
        if owned and owned.controller:
            owner = self.get(self._kind, Key(owned.key.namespace, owned.controller.name))
            if owner and owner.recreate:
                self._queue.add(owner.key)

    def _all_owners(self, namespace: str = "") -> list[Object]:
        return [it for cache in self._owners for it in cache.all() if namespace in ("", it.key.namespace)]

    # --- the workers

    def _resync(self) -> None:
        while True:
            try:
                self._cancel.sleep(self._options.resync_interval)
            except CancelledError:
                return
            for owner in self._all_owners():
                self._queue.add(owner.key)

    def _watch_native(self) -> None:
        if self._options.probe:
            self._options.probe.run(self._cancel)

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            QUEUE_LENGTH.set(len(self._queue))
            try:
                delay = self._handle(key)
            except CancelledError:
                return
            except Exception:
                log.exception("%s: unexpected error", key)
                delay = self._queue.backoff(key)
            finally:
                self._queue.done(key)
            if delay is not None:
                self._queue.add_after(key, delay)

    def _handle(self, key: Key) -> float | None:
        """Syncs a Deployment, and returns when to sync it again."""
        wait = self._last_sync.get(key, float("-inf")) + self._options.min_interval - time.monotonic()
        if wait > 0:
            return wait
        if self._options.probe and not self._options.probe.clear:
            SYNCS.labels("native_controller").inc()
            return POLL * (1 + random.random())
        outcome, delay = self._sync(key)
        SYNCS.labels(outcome).inc()
        return delay

    def _sync(self, key: Key) -> tuple[str, float | None]:
        try:
            result = self._rollouts.sync(key, self._cancel)
        except NativeControllerError as error:
            log.warning("%s: %s", key, error)
            self._events.warn(self.get(self._kind, key), "NativeController", str(error))
            return "native_controller", BACKOFF_MAX
        except PlannerError as error:
            log.warning("%s: %s", key, error)
            if error.code == "unavailable":
                return "planner_unavailable", PLANNER_BACKOFF * (1 + random.random())
            return "error", self._queue.backoff(key)
        except ApiError as error:
            log.warning("%s: %s", key, error)
            return "error", self._queue.backoff(key)
        finally:
            self._last_sync[key] = time.monotonic()
        if result.response is None:
            self._phases.set(key, None)
            self._queue.forget(key)
            self._last_sync.pop(key, None)
            return "synced", None
        self._phases.set(key, result.response.report)
        if result.rejected:
            for failure in result.rejected:
                log.warning("%s: %s", key, failure)
                REJECTED_CALLS.labels(failure.reason or "Unknown").inc()
            # The next sync reports the rejection and requests the backoff, so a rejection counts once.
            return "rejected", max(self._options.min_interval, BACKOFF_MIN)
        if result.again:
            return "retry", self._queue.backoff(key)
        self._queue.forget(key)
        return "synced", result.requeue_after
