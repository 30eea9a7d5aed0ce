"""A controller on kopf: rollplan's loop in a framework.

    pip install kopf './adapters/python[kubernetes]'
    python adapters/python/examples/controller.py --mode=custom-resource --planner=127.0.0.1:50051

It only uses kopf's events and indices. Handlers such as @kopf.on.update store their progress in annotations of the owner, which
the planner would copy to ReplicaSets, as the Deployment controller does.

Run a single replica, because it does not use a lease. It does not check whether the native controller runs before it
writes, does not serve metrics or health probes, and watches the pods of the whole cluster. kopf does not notice an
object that is deleted while a watch is interrupted for so long that the API server no longer has the change: restart
the controller after a long interruption. rollplan-controller (adapters/go) has none of these limits.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable
from typing import Any, TypeVar

import kopf

from rollplan import DEPLOYMENT, PLANNED_DEPLOYMENT, Api, Cancellation, CancelledError, Key, Kind, Object, Planner, Rollouts
from rollplan.objects import POD, REPLICA_SET

T = TypeVar("T")
MODES = {"custom-resource": PLANNED_DEPLOYMENT, "takeover": DEPLOYMENT}
log = logging.getLogger("controller")


class Controller:
    """Has a task for each owner, and reads objects from kopf's indices."""

    def __init__(self, kind: Kind, planner: Planner, api: Api) -> None:
        self._kind, self._cancel = kind, Cancellation()
        self._rollouts = Rollouts(planner, api, kind, reader=self, min_interval=0.1, status_interval=0.5)
        self._owners: dict[Key, tuple[asyncio.Event, asyncio.Task[None]]] = {}
        kopf.on.startup()(self.start)
        kopf.on.cleanup()(self.stop)
        # By default, kopf uses the package kubernetes, which reads KUBECONFIG when it is imported.
        kopf.on.login()(kopf.login_with_kubeconfig)
        kopf.on.login()(kopf.login_with_service_account)
        for it in (kind, REPLICA_SET, POD):
            kopf.index(it.api_version, it.plural, id=it.plural, param=it)(self.index)
            kopf.on.event(it.api_version, it.plural, id=f"{it.plural}-changed", param=it)(self.observe)

    async def start(self, settings: kopf.OperatorSettings, **indices: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True  # it requires permissions for namespaces and definitions
        settings.watching.server_timeout, settings.watching.client_timeout = 300, 330  # a connection may be broken
        self._loop, self._indices = asyncio.get_running_loop(), indices

    async def stop(self, **_: Any) -> None:
        self._cancel.cancel()
        for owner in self._owners.values():
            owner[1].cancel()

    async def index(self, *, body: kopf.Body, param: Any = None, **_: Any) -> dict[object, Object]:
        it = Object.parse(dict(body), param)
        return {it.key if param == self._kind else (it.key.namespace, it.controller and it.controller.uid): it}

    async def observe(self, *, event: kopf.RawEvent, body: kopf.Body, param: Any = None, **_: Any) -> None:
        it = Object.parse(dict(body), param)
        if param == self._kind:
            self._wake(it.key)
        elif param == REPLICA_SET and it.controller:
            if it.controller.kind == self._kind.kind:
                self._wake(Key(it.key.namespace, it.controller.name))
        elif param == REPLICA_SET or event["type"] == "DELETED":
            # It may concern every owner of the namespace. Those of which no version has changed do not ask the service.
            for key in [key for key in self._owners if key.namespace == it.key.namespace]:
                self._wake(key)

    def _wake(self, key: Key) -> None:
        if key not in self._owners:
            changed = asyncio.Event()
            self._owners[key] = changed, asyncio.create_task(self._run(key, changed))
        self._owners[key][0].set()

    async def _run(self, key: Key, changed: asyncio.Event) -> None:
        while True:
            changed.clear()
            try:
                result = await asyncio.to_thread(self._rollouts.sync, key, self._cancel)
            except CancelledError:
                return
            except Exception as error:
                log.warning("%s: %s: %s", key, type(error).__name__, error)
                await asyncio.sleep(1 + random.random())
                continue
            if result.missing and not changed.is_set():
                del self._owners[key]
                return
            for failure in result.failures:
                log.warning("%s: %s", key, failure)
            await asyncio.sleep(result.not_before)
            left = None if result.at_latest is None else max(0.0, result.at_latest - result.not_before)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), left)

    # --- the reader of Rollouts, which calls it in other threads: indices must not change meanwhile

    def get(self, kind: Kind, key: Key) -> Object | None:
        found = self._read(lambda: list(self._indices[kind.plural].get(key, ())))
        return found[-1] if found else None  # kopf may not have processed the deletion of an earlier one yet

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        index = self._indices[kind.plural]
        return self._read(lambda: [it for uid in uids for it in index.get((namespace, uid), ())])

    def _read(self, read: Callable[[], T]) -> T:
        async def run() -> T:
            return read()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def main() -> None:
    parser = argparse.ArgumentParser(description="A controller on kopf that uses rollplan.")
    parser.add_argument("--mode", required=True, choices=MODES)
    parser.add_argument("--planner", help="address of the service, for example 127.0.0.1:50051")
    parser.add_argument("--in-process", action="store_true", help="plan in this process, without a service")
    parser.add_argument("--kubeconfig", help="path of the kubeconfig; defaults to KUBECONFIG, or to the service account")
    # The end-to-end tests pass all flags of rollplan-controller.
    arguments, _ = parser.parse_known_args()
    if not (arguments.planner or arguments.in_process):
        parser.error("--planner or --in-process is required")
    if arguments.kubeconfig:
        os.environ["KUBECONFIG"] = arguments.kubeconfig
    kopf.configure()
    with Planner.local() if arguments.in_process else Planner.grpc(arguments.planner) as planner:
        Controller(MODES[arguments.mode], planner, Api.from_config(arguments.kubeconfig))
        kopf.run(clusterwide=True, standalone=True)


if __name__ == "__main__":
    main()
