"""The parts of the controller. As a whole it is tested on a real control plane (tests/e2e/adapter)."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from builder import build

from rollplan import Key, Object, PlannerError
from rollplan._answer import Answer
from rollplan._errors import ApiError, CancelledError
from rollplan.controller import _health
from rollplan.controller.__main__ import address, boolean, duration, end_process, options_of, parse
from rollplan.controller._cache import Cache
from rollplan.controller._lease import Election
from rollplan.controller._metrics import LEASE_HOLDER
from rollplan.controller._probe import POLL, Probe
from rollplan.controller._queue import BACKOFF_MAX, Queue
from rollplan.controller._start import NoAccessError, await_access
from rollplan.objects import PLANNED_DEPLOYMENT, REPLICA_SET

A, B = Key("shop", "a"), Key("shop", "b")


def test_a_key_is_in_the_queue_once() -> None:
    queue = Queue()
    for key in (A, B, A):
        queue.add(key)
    assert [queue.get(), queue.get(), len(queue)] == [A, B, 0]


def test_a_key_that_changes_while_it_is_handled_comes_back_afterwards() -> None:
    queue = Queue()
    queue.add(A)
    assert queue.get() == A
    queue.add(A)
    queue.add(B)
    assert queue.get() == B
    queue.done(A)
    assert queue.get() == A


def test_delays_and_the_end_of_the_queue() -> None:
    queue = Queue()
    queue.add_after(B, 0.05)
    queue.add_after(A, 0.0)
    assert [queue.get(), queue.get()] == [A, B]
    threading.Timer(0.05, queue.close).start()
    assert queue.get() is None


def test_backoff_doubles_until_it_is_reset() -> None:
    queue = Queue()
    assert [queue.backoff(A) for _ in range(3)] == [0.005, 0.01, 0.02]
    assert queue.backoff(B) == 0.005
    assert [queue.backoff(A) for _ in range(2000)][-1] == BACKOFF_MAX
    queue.forget(A)
    assert queue.backoff(A) == 0.005


def replica_set(name: str, version: int, uid: str = "", owner: str = "u") -> Object:
    return build(REPLICA_SET, name, version, uid=uid, owner=owner)


class Events(list[Any]):
    """A watch."""

    def close(self) -> None: ...


class Watches:
    """An API server with prepared lists and watches."""

    def __init__(self) -> None:
        self.lists = [([replica_set("a", 1), replica_set("b", 2)], "10"), ([replica_set("b", 2, "other")], "30")]
        self.watches: list[Any] = [
            [
                ("MODIFIED", replica_set("a", 11, owner=""), "11"),
                ("BOOKMARK", None, "12"),
                ("DELETED", replica_set("b", 13), "13"),
            ],
            [("ADDED", replica_set("c", 14), "14"), ("MODIFIED", replica_set("a", 5), "15")],
            ApiError("watch", 410, "too old"),
        ]
        self.asked: list[str] = []
        self.finished = threading.Event()

    def list_objects(self, *_: object) -> tuple[list[Object], str]:
        return self.lists.pop(0)

    def watch(self, kind: object, namespace: str, version: str, *_: object) -> Any:
        self.asked.append(version)
        if not self.watches:
            self.finished.set()
            raise ApiError("watch", 0, "no more")
        events = self.watches.pop(0)
        if isinstance(events, ApiError):
            raise events
        return Events(events)


def test_a_cache_follows_its_watch_and_lists_again_when_it_is_too_old() -> None:
    api = Watches()
    changes: list[tuple[str, str]] = []

    def changed(before: Object | None, after: Object | None) -> None:
        changes.append((before.uid if before else "-", after.uid if after else "-"))

    cache = Cache(api, REPLICA_SET, "shop", changed)  # type: ignore[arg-type]
    cache.start()
    assert api.finished.wait(30)
    cache.stop()
    assert api.asked[:4] == ["10", "13", "15", "30"]
    assert [it.uid for it in cache.all()] == ["other"]
    assert cache.controlled_by("shop", "u") == [cache.get(Key("shop", "b"))]
    assert cache.controlled_by("shop", None) == []
    expected = [("-", "a"), ("-", "b"), ("a", "a"), ("b", "-"), ("-", "c"), ("-", "other"), ("a", "-"), ("c", "-")]
    assert changes == expected


def test_an_unexpected_error_of_a_watch_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(*_: object) -> None:
        raise AssertionError("a bug")

    codes: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(threading, "excepthook", end_process)
    Cache(Watches(), REPLICA_SET, "shop", changed).start()  # type: ignore[arg-type]
    assert ended.wait(30)
    assert codes == [1]
    # The thread of an earlier test may still log a warning.
    critical = [it.getMessage() for it in caplog.records if it.levelno == logging.CRITICAL]
    assert critical == ["watch-replicasets: unexpected error, exiting"]
    assert "a bug" in caplog.text


class Leases:
    """An API server with one lease, which enforces resourceVersion."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.broken = self.forbidden = False

    def request(self, method: str, path: str, query: str = "", content_type: str = "", body: bytes = b"", **_: Any) -> Answer:
        if self.broken:
            return Answer(0)
        if self.forbidden:
            return Answer(403, b'{"message":"leases is forbidden"}')
        if method == "GET":
            return Answer(200, json.dumps(self.lease).encode()) if self.lease else Answer(404)
        sent = json.loads(body)
        if (self.lease is None) != (method == "POST"):
            return Answer(409)
        if self.lease and sent["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return Answer(409)
        version = int(self.lease["metadata"]["resourceVersion"]) + 1 if self.lease else 1
        sent["metadata"]["resourceVersion"] = str(version)
        self.lease = sent
        return Answer(200, body)


def test_one_of_two_leads_until_it_releases_the_lease() -> None:
    leases, stop = Leases(), threading.Event()
    first, second = (Election(leases, "system", "lease", it, 0.4) for it in ("first", "second"))  # type: ignore[arg-type]
    assert first.acquire(stop)
    assert not second._try()
    first.release()
    assert leases.lease
    assert leases.lease["spec"]["holderIdentity"] == ""
    assert second.acquire(stop)
    assert leases.lease["spec"]["leaseTransitions"] == 1
    first.release()  # no longer its own
    assert leases.lease["spec"]["holderIdentity"] == "second"


def test_a_standby_reports_the_holder_of_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rollplan.controller")
    leases, stop = Leases(), threading.Event()
    first, second = (Election(leases, "system", "lease", it, 60.0) for it in ("first", "second"))  # type: ignore[arg-type]

    def holders() -> list[dict[str, str]]:
        return [it.labels for it in next(iter(LEASE_HOLDER.collect())).samples]

    assert first.acquire(stop)
    assert holders() == [{"lease": "system/lease", "holder": "first", "self": "true"}]
    for _ in range(3):
        assert not second._try()
    assert holders() == [{"lease": "system/lease", "holder": "first", "self": "false"}]
    leases.forbidden = True
    assert not second._try()
    leases.forbidden = False
    first.release()
    assert second.acquire(stop)
    assert holders() == [{"lease": "system/lease", "holder": "second", "self": "true"}]
    assert [it.getMessage() for it in caplog.records] == [
        "acquired the lease system/lease: first",
        "waiting for the lease system/lease, which another adapter holds: first",
        "cannot read the lease system/lease: leases is forbidden (403)",
        "acquired the lease system/lease: second",
    ]


def test_a_lease_that_is_not_renewed_is_taken_over_and_lost() -> None:
    leases, stop = Leases(), threading.Event()
    first, second = (Election(leases, "system", "lease", it, 0.4) for it in ("first", "second"))  # type: ignore[arg-type]
    assert first.acquire(stop)
    assert leases.lease
    leases.lease["spec"]["leaseDurationSeconds"] = 0.2
    start = time.monotonic()
    assert second.acquire(stop)
    assert time.monotonic() - start >= 0.2
    assert not first.keep(stop)
    leases.broken = True
    assert not second.keep(stop)
    stop.set()
    assert second.keep(stop)
    assert not first.acquire(stop)


class Slow(Leases):
    """An API server whose requests take this long, and the clock of the test, which is also the event that stops the leader."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.takes = 0.0, iter([0.0, 0.0, 9.0, 60.0])

    def request(self, method: str, *arguments: Any, timeout: float = 0.0, **options: Any) -> Answer:
        takes = next(self.takes)
        self.now += min(takes, timeout)
        return Answer(0) if takes > timeout else super().request(method, *arguments, **options)

    def monotonic(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def test_a_leader_gives_up_before_its_lease_ends_while_the_api_server_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Slow()
    monkeypatch.setattr("rollplan.controller._lease.time", server)
    leader = Election(server, "system", "lease", "leader", 15.0)  # type: ignore[arg-type]
    assert leader.acquire(server)  # type: ignore[arg-type]
    assert not leader.keep(server)  # type: ignore[arg-type]
    assert 10 <= server.now < 15


class Probed:
    """An API server with the probe, and a clock that the test controls. The native controller may be running."""

    def __init__(self) -> None:
        self.generation = self.observed = self.created = 0
        self.native = self.down = False
        self.now = 0.0
        # The events by time.
        self.plan: list[tuple[float, Callable[[], object]]] = []

    def request(
        self, method: str, path: str, query: str = "", content_type: str = "", body: bytes = b"", cancel: Any = None
    ) -> Answer:
        if self.down:
            return Answer(0)
        if method == "POST":
            assert json.loads(body)["spec"]["replicas"] == 0
            self.generation, self.created = 1, self.created + 1
        elif self.generation == 0:
            return Answer(404)
        elif method == "PATCH":
            self.generation += 1
        if self.native:
            self.observed = self.generation
        managed = [{"manager": "kube-controller-manager", "subresource": "status"}]
        metadata = {"generation": self.generation, "managedFields": managed}
        return Answer(200, json.dumps({"metadata": metadata, "status": {"observedGeneration": self.observed}}).encode())

    # --- the clock, as a Cancellation

    cancelled = False

    def sleep(self, seconds: float) -> None:
        assert seconds == POLL
        self.now += seconds
        while self.plan and self.plan[0][0] <= self.now:
            self.plan.pop(0)[1]()
        if not self.plan:
            raise CancelledError("cancelled")


def probed(server: Probed, *plan: tuple[float, Callable[[], object]]) -> Probe:
    """Runs a probe, and everything that is planned meanwhile."""
    probe = Probe(server, "system", 25.0, now=lambda: server.now)  # type: ignore[arg-type]
    server.plan = list(plan)
    return probe


def test_the_probe_waits_through_a_change_of_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    server, clear = Probed(), []
    probe = probed(
        server,
        (24.0, lambda: (clear.append(probe.clear), setattr(server, "native", True))),
        (28.0, lambda: (clear.append(probe.clear), setattr(server, "native", False))),
        (60.0, lambda: clear.append(probe.clear)),
    )
    probe.run(server)  # type: ignore[arg-type]
    assert clear == [False, False, True]
    assert "Stopped the work on all Deployments" in caplog.text
    assert "kube-controller-manager has written the status of system/" in caplog.text


def test_the_probe_detects_a_native_controller_that_starts_later() -> None:
    server, clear = Probed(), []
    probe = probed(
        server,
        (600.0, lambda: (clear.append(probe.clear), setattr(server, "native", True))),
        (604.0, lambda: clear.append(probe.clear)),
    )
    probe.run(server)  # type: ignore[arg-type]
    assert clear == [True, False]
    assert server.created == 1


def test_the_probe_is_not_clear_without_an_answer() -> None:
    server, clear = Probed(), []
    server.down = True
    probe = probed(
        server,
        (300.0, lambda: (clear.append(probe.clear), setattr(server, "down", False))),
        (360.0, lambda: clear.append(probe.clear)),
    )
    probe.run(server)  # type: ignore[arg-type]
    assert clear == [False, True]


@pytest.mark.parametrize(("text", "seconds"), [("100ms", 0.1), ("1m30s", 90), ("2h", 7200), ("0", 0), ("1.5s", 1.5)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("parse_value", "text"), [(duration, "5"), (duration, "s"), (boolean, "yes"), (address, "host:x")])
def test_values_of_flags_that_are_not_valid(parse_value: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="invalid"):
        parse_value(text)


def test_flags() -> None:
    arguments = parse(
        ["--mode=custom-resource", "--planner", "p:1", "--leader-elect=false", "--namespaces=a, b", "--metrics-bind-address=0"]
    )
    assert options_of(arguments, object()).namespaces == ("a", "b")  # type: ignore[arg-type]
    assert arguments.metrics_bind_address is None
    assert arguments.health_probe_bind_address == ("0.0.0.0", 8081)
    with pytest.raises(SystemExit):
        parse(["--mode=takeover", "--planner=p:1"])
    # The probe needs a namespace too.
    with pytest.raises(SystemExit):
        parse(["--mode=takeover", "--planner=p:1", "--leader-elect=false"])
    assert parse(["--mode=takeover", "--planner=p:1", "--leader-elect=false", "--native-controller-probe=0"])
    arguments = parse(["--mode=takeover", "--planner=p:1", "--leader-elect-namespace=system"])
    assert options_of(arguments, object()).probe is not None  # type: ignore[arg-type]


class Starting:
    """An API server that answers lists with a status code until a time, and the clock of the test."""

    def __init__(self, code: int, until: float) -> None:
        self.code, self.until, self.now = code, until, 0.0
        self.lists: list[str] = []

    def request(self, _: str, path: str, query: str) -> Answer:
        assert query == "limit=1"
        self.lists.append(path)
        return Answer(200) if self.now >= self.until else Answer(self.code, b'{"message":"no roles yet"}')

    # --- the clock, as the event that stops the controller

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.now += seconds


def start(server: Starting) -> None:
    kinds = (PLANNED_DEPLOYMENT, REPLICA_SET)
    await_access(server, kinds, ("a", "b"), server, now=lambda: server.now)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [403, 503, 0])
def test_a_start_waits_for_roles(code: int, caplog: pytest.LogCaptureFixture) -> None:
    server = Starting(code, 20.0)
    start(server)
    assert "no access to the API server yet, trying again in 0.5 s: list planneddeployments: no roles yet" in caplog.text
    # Every namespace has its own roles.
    assert server.lists[-1] == "/apis/apps/v1/namespaces/b/replicasets"


def test_a_start_ends_without_permission() -> None:
    server = Starting(403, 3600.0)
    with pytest.raises(NoAccessError, match=r"after 30 s: list planneddeployments: no roles yet \(403\)"):
        start(server)
    assert 20 < server.now <= 30


def test_a_start_ends_at_once_without_the_kind() -> None:
    server = Starting(404, 3600.0)
    with pytest.raises(NoAccessError, match=r"apply adapters/config/planneddeployment-crd\.yaml"):
        start(server)
    assert server.now == 0


def test_readiness_logs_each_change_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rollplan.controller")
    errors = [PlannerError("unavailable", "draining"), None, None, *[PlannerError("unavailable", "refused")] * 2]

    def check() -> None:
        if error := errors.pop():
            raise error

    readiness = _health.Readiness(check)
    while errors:
        with contextlib.suppress(PlannerError):
            readiness()
    assert [it.getMessage() for it in caplog.records] == [
        "not ready: the service does not answer: unavailable: refused",
        "ready",
        "not ready: the service does not answer: unavailable: draining",
    ]


def test_readiness_follows_the_service() -> None:
    errors = [PlannerError("unavailable", "away")]

    def check() -> None:
        if errors:
            raise errors.pop()

    server = _health.serve(("127.0.0.1", 0), check)
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(HTTPError) as error:
        urlopen(f"{url}/readyz")
    assert error.value.read() == b"unavailable: away"
    assert urlopen(f"{url}/readyz").read() == b"ok"
    assert urlopen(f"{url}/healthz").read() == b"ok"
    server.shutdown()
    server.server_close()
