"""The driver of tests/conformance for this package: one sync of one Deployment at a time, with each transport."""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import threading
from typing import Any

import kubernetes.client
from google.protobuf import json_format

from rollplan import Api, AsyncPlanner, Cancellation, CancelledError, Key, Kind, Object, Planner, Rollouts, RollplanError
from rollplan.objects import POD, REPLICA_SET
from rollplan.v1 import canary_pb2, plan_pb2


class Cache:
    """The objects that the watches show."""

    def __init__(self, owner: Kind) -> None:
        self._owner, self._objects = owner, []

    def replace(self, texts: list[str]) -> None:
        objects = []
        for text in texts:
            it = json.loads(text)
            known = {kind.kind: kind for kind in (self._owner, REPLICA_SET, POD)}
            objects.append(Object.parse(it, known[it["kind"]]))
        self._objects = objects

    def get(self, kind: Kind, key: Key) -> Object | None:
        return next((it for it in self._objects if (it.kind, it.key) == (kind.kind, key)), None)

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        return [it for it in self._objects if it.kind == kind.kind and (it.controller and it.controller.uid) in uids]


class FromAsync:
    """An AsyncPlanner, as Rollouts calls a planner."""

    def __init__(self, connect: Any) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

        async def create() -> AsyncPlanner:
            return connect()

        self._planner = asyncio.run_coroutine_threadsafe(create(), self._loop).result()

    def plan_rollout(self, request: plan_pb2.PlanRolloutRequest, cancel: Cancellation) -> plan_pb2.PlanRolloutResponse:
        future = asyncio.run_coroutine_threadsafe(self._planner.plan_rollout(request), self._loop)
        try:
            with cancel.calling(future.cancel):
                return future.result()
        except (asyncio.CancelledError, CancelledError) as error:
            raise CancelledError from error
        except BaseException as error:
            if type(error).__name__ == "CancelledError":
                raise CancelledError from error
            raise

    def plan_canary(self, request: canary_pb2.PlanCanaryRequest) -> canary_pb2.PlanCanaryResponse:
        return asyncio.run_coroutine_threadsafe(self._planner.plan_canary(request), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._planner.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)


def connect(protocol: str, url: str, timeout: float) -> Any:
    address = url.removeprefix("http://")
    return {
        "grpc": lambda: Planner.grpc(address, timeout=timeout),
        "connect-proto": lambda: Planner.http(url, timeout=timeout),
        "connect-json": lambda: Planner.http(url, json=True, timeout=timeout),
        "asyncio-grpc": lambda: FromAsync(lambda: AsyncPlanner.grpc(address, timeout=timeout)),
        "asyncio-connect-json": lambda: FromAsync(lambda: AsyncPlanner.http(url, json=True, timeout=timeout)),
    }[protocol]()


class Run:
    """One transcript."""

    def __init__(self, start: dict[str, Any]) -> None:
        it = start["owner"]
        kind = Kind(it["apiVersion"], it["kind"], it["resource"])
        self.key, self.cache = Key(it["namespace"], it["name"]), Cache(kind)
        self.planner = connect(start["protocol"], start["planner"], start["plannerTimeoutMs"] / 1000)
        client = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=start["api"]))
        options = json_format.ParseDict(start.get("options", {}), plan_pb2.PlanOptions())
        intervals = {
            "status_interval": start.get("statusIntervalMs", 0) / 1000,
            "min_interval": start.get("minIntervalMs", 0) / 1000,
        }
        self.rollouts = Rollouts(self.planner, Api(client), kind, reader=self.cache, options=options, **intervals)
        self.cancellation = Cancellation()

    def repeat(self, syncs: int) -> dict[str, Any]:
        """Forgets the owner, decodes the objects of the last sync again, and syncs."""
        for _ in range(syncs):
            self.rollouts.forget(self.key)
            reply = self.sync(self.texts)
            assert reply["outcome"] == "done", reply
        return {}

    def sync(self, cache: list[str]) -> dict[str, Any]:
        self.texts = cache
        self.cancellation = Cancellation()
        self.cache.replace(cache)
        try:
            result = self.rollouts.sync(self.key, self.cancellation)
        except CancelledError:
            return {"outcome": "cancelled"}
        except RollplanError as error:
            return {"outcome": "failed", "error": str(error)}
        if result.missing:
            return {"outcome": "missing"}
        reply: dict[str, Any] = {"outcome": "again" if result.failures else "done", "notBeforeMs": result.not_before * 1000}
        if result.at_latest is not None:
            reply["requeueAfterMs"] = result.at_latest * 1000
        return reply

    def canary(self, cache: list[str], request: dict[str, Any]) -> dict[str, Any]:
        self.cache.replace(cache)
        given = json_format.ParseDict(request, canary_pb2.PlanCanaryRequest())
        parts = {"policy": given.policy, "command": given.command if given.HasField("command") else None}
        try:
            response = self.rollouts.plan_canary(self.key, **parts, verdicts=given.verdicts)
        except RollplanError as error:
            return {"outcome": "failed", "error": str(error)}
        failures = self.rollouts.apply(response.steps)
        milliseconds = response.requeue_after.ToTimedelta().total_seconds() * 1000
        return {"outcome": "again" if failures else "done", "requeueAfterMs": milliseconds}

    def close(self) -> None:
        self.planner.close()


def main() -> None:
    commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
    run: Run | None = None

    def read() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["command"] == "cancel":
                assert run
                run.cancellation.cancel()
            else:
                commands.put(command)
        commands.put(None)

    threading.Thread(target=read, daemon=True).start()
    while command := commands.get():
        reply: dict[str, Any] = {}
        if command["command"] == "start":
            if run:
                run.close()
            run = Run(command)
        elif run and command["command"] == "canary":
            reply = run.canary(command["cache"], command["request"])
        else:
            assert run
            reply = run.repeat(command["syncs"]) if command["command"] == "repeat" else run.sync(command["cache"])
        print(json.dumps(reply), flush=True)
    if run:
        run.close()


if __name__ == "__main__":
    main()
