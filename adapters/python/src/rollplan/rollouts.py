"""The loop of one Deployment, which the service leads (docs/guides/adapters.md), and single questions for scripts."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, NotFoundError, PlannerError, StalledError, WaitTimeoutError
from rollplan._steps import CallResult, carry_out, send, to_message
from rollplan.objects import DEPLOYMENT, EVENT, POD, REPLICA_SET, Key, Kind, Object
from rollplan.planner import Planner
from rollplan.v1 import canary_pb2, forecast_pb2, plan_pb2, report_pb2, revision_pb2

if TYPE_CHECKING:
    from rollplan.kubernetes import Api


class Reader(Protocol):
    """Where objects are read: the API server, or a cache of watches."""

    def get(self, kind: Kind, key: Key) -> Object | None:
        """An object, or None if it does not exist."""

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        """The objects with these controllers. None stands for objects without a controller."""


@dataclass
class SyncResult:
    """The result of a sync. Times are in seconds."""

    # The plan. None if no version of an object has changed, so that no plan was needed.
    response: plan_pb2.PlanRolloutResponse | None = None
    # Whether the Deployment does not exist.
    missing: bool = False
    # Time that must pass before the next sync.
    not_before: float = 0.0
    # Time after which to sync again even if nothing changes. None if no timer is needed.
    at_latest: float | None = None
    # The calls that failed. The next sync reports them to the service.
    failures: list[CallResult] = field(default_factory=list)


@dataclass
class State:
    """What is kept of a Deployment between two syncs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    uid: str = ""
    # The state of the loop in the service.
    value: bytes = b""
    # The answers to the last plan, and to the reads of the last response.
    answers: list[plan_pb2.Answer] = field(default_factory=list)
    # The versions of the objects in the last request, by their UIDs.
    versions: dict[str, str] = field(default_factory=dict)
    watch_pods: bool = False
    # When a request is due even if nothing has changed, by the monotonic clock.
    due: float = -math.inf


class Rollouts:
    """Reads Deployments of one kind, requests plans for them, and carries the plans out. It is thread-safe.

    The states that `sync` keeps belong to one leadership: after another process may have written, create another instance.
    """

    def __init__(
        self,
        planner: Planner,
        api: Api,
        kind: Kind = DEPLOYMENT,
        *,
        reader: Reader | None = None,
        options: plan_pb2.PlanOptions | None = None,
        status_interval: float = 0.0,
        min_interval: float = 0.0,
    ) -> None:
        """Without a reader, objects are read from the API server.

        The status interval, in seconds, delays a status update that only reports progress, so that one write covers all
        changes within it. The minimum interval is the time between two requests about a Deployment.
        """
        self._planner, self._api, self.kind = planner, api, kind
        self._reader: Reader = reader or api
        self._options = plan_pb2.PlanOptions(events_as_calls=True, report=True)
        self._options.MergeFrom(options or plan_pb2.PlanOptions())
        self._sync = plan_pb2.Sync(session=uuid.uuid4().hex)
        if status_interval:
            self._sync.status_interval.FromNanoseconds(int(status_interval * 1e9))
        if min_interval:
            self._sync.min_interval.FromNanoseconds(int(min_interval * 1e9))
        self._lock = threading.Lock()
        self._states: dict[Key, State] = {}

    # --- for controllers

    def sync(self, key: Key, cancel: Cancellation | None = None) -> SyncResult:
        """Requests a plan and carries it out. Syncs of one Deployment exclude each other.

        Sync again when an object changes, but not before `not_before`, and after `at_latest`. After a PlannerError or an
        ApiError, sync again with a backoff.
        """
        with self._locked(key) as state:
            owner = self._reader.get(self.kind, key)
            if owner is None:
                self.forget(key)
                return SyncResult(missing=True)
            if owner.uid != state.uid:
                state.__dict__.update(State(state.lock, owner.uid).__dict__)
            objects = [owner, *self._replica_sets(owner)]
            if state.watch_pods:
                objects += self._pods(objects)
            if not state.answers and state.versions == _versions(objects) and time.monotonic() < state.due:
                return SyncResult(at_latest=None if state.due == math.inf else state.due - time.monotonic())
            state.due = -math.inf  # until this sync has succeeded
            while True:
                state.versions = _versions(objects)
                request = plan_pb2.PlanRolloutRequest(snapshot=self._snapshot(objects, state.watch_pods), options=self._options)
                request.sync.MergeFrom(self._sync)
                request.sync.MergeFrom(plan_pb2.Sync(value=state.value, answers=state.answers))
                response = self._planner.plan_rollout(request, cancel)
                if not response.HasField("sync"):
                    raise PlannerError("unimplemented", "the service is older than this package: it does not know sync")
                state.value = response.sync.value
                if response.sync.watch_pods and not state.watch_pods:
                    state.watch_pods = True
                    objects += self._pods(objects)
                    continue
                if not response.sync.reads:
                    break
                for read in response.sync.reads:
                    answer = send(self._api, read.call, cancel)
                    if answer.code == 404 and (read.call.kind, read.call.name) == (owner.kind, key.name):
                        self.forget(key)
                        return SyncResult(missing=True)
                    state.answers.append(to_message(read.id, answer))
                    if cancel:
                        cancel.check()
            return self._carry_out(response, state, cancel)

    def forget(self, key: Key) -> None:
        """Discards the state of a Deployment. `sync` does so itself if the Deployment does not exist."""
        with self._lock:
            self._states.pop(key, None)

    def _carry_out(self, response: plan_pb2.PlanRolloutResponse, state: State, cancel: Cancellation | None) -> SyncResult:
        result = SyncResult(response, not_before=response.sync.not_before.ToTimedelta().total_seconds())
        if response.sync.HasField("at_latest"):
            result.at_latest = response.sync.at_latest.ToTimedelta().total_seconds()
        due = math.inf if result.at_latest is None else time.monotonic() + result.at_latest
        state.answers = []
        for it in carry_out(self._api, response.steps, cancel):
            state.answers.append(it.message())
            if it.failed:
                result.failures.append(it)
        if cancel:
            cancel.check()
        state.due = due
        if result.failures:
            result.at_latest = result.not_before
        return result

    @contextmanager
    def _locked(self, key: Key) -> Iterator[State]:
        while True:
            with self._lock:
                state = self._states.setdefault(key, State())
            with state.lock:
                if self._states.get(key) is state:
                    yield state
                    return
            # It was discarded in the meantime.

    # --- for scripts

    def plan(self, key: Key) -> plan_pb2.PlanRolloutResponse:
        """The next writes, without making them."""
        return self._planner.plan_rollout(plan_pb2.PlanRolloutRequest(snapshot=self.snapshot(key), options=self._options))

    def apply(self, steps: Iterable[plan_pb2.Step]) -> list[CallResult]:
        """Makes the calls of a plan or a rollback in order. Returns the failed calls. The last of them may have ended it."""
        return [it for it in carry_out(self._api, steps) if it.failed]

    def status(
        self,
        key: Key,
        previous: report_pb2.Verdict | None = None,
        fail_on: Iterable[plan_pb2.FailureRule] = (),
    ) -> plan_pb2.ComputeStatusResponse:
        """The state of the rollout, with its pods and, if they may explain it, events.

        Pass the previous verdict when polling. `fail_on` changes when failures are certain: docs/reference/verdict.md.
        """
        request = plan_pb2.ComputeStatusRequest(snapshot=self.snapshot(key, pods=True), options=self._options, fail_on=fail_on)
        if previous is not None:
            request.previous_verdict.CopyFrom(previous)
        response = self._planner.compute_status(request)
        if self._add_events(key, request.snapshot, response.report.verdict.event_selectors):
            response = self._planner.compute_status(request)
        return response

    def wait(
        self,
        key: Key,
        timeout: float,
        *,
        interval: float = 2.0,
        fail_on: Sequence[plan_pb2.FailureRule] = (),
        progress: Callable[[report_pb2.RolloutReport], None] = lambda _: None,
    ) -> report_pb2.RolloutReport:
        """Polls until the rollout is complete.

        Raises StalledError if it certainly needs a change to complete, or if its deadline has passed,
        and WaitTimeoutError after `timeout` seconds. Both have the `report`.
        """
        end, verdict = time.monotonic() + timeout, None
        while True:
            report = self.status(key, verdict, fail_on).report
            verdict = report.verdict
            progress(report)
            if verdict.final and verdict.outlook == report_pb2.OUTLOOK_COMPLETE:
                return report
            if verdict.final:
                raise StalledError(report)
            if time.monotonic() + interval > end:
                raise WaitTimeoutError(report)
            time.sleep(interval)

    def rollback(self, key: Key, to_revision: int = 0) -> revision_pb2.RollbackResponse:
        """The steps that roll a Deployment back to a revision, by default the previous one. Pass them to `apply`."""
        request = revision_pb2.RollbackRequest(snapshot=self.snapshot(key), to_revision=to_revision, options=self._options)
        return self._planner.rollback(request)

    def revisions(self, key: Key) -> list[revision_pb2.Revision]:
        """The revisions of a Deployment, oldest first."""
        request = revision_pb2.ListRevisionsRequest(snapshot=self.snapshot(key))
        return list(self._planner.list_revisions(request).revisions)

    def forecast(
        self,
        key: Key,
        changes: Iterable[forecast_pb2.DeploymentChange] = (),
        *,
        pod_times: forecast_pb2.PodTimes | None = None,
        limits: forecast_pb2.ClusterLimits | None = None,
        samples: int = 0,
        seed: int = 0,
    ) -> forecast_pb2.ForecastRolloutResponse:
        """What changes of a Deployment will do, before they are applied.

        Without changes, how the rollout in progress continues.
        """
        request = forecast_pb2.ForecastRolloutRequest(
            snapshot=self.snapshot(key, pods=True),
            changes=changes,
            options=self._options,
            pod_times=pod_times,
            limits=limits,
            samples=samples,
            seed=seed,
        )
        return self._planner.forecast_rollout(request)

    def plan_canary(
        self,
        key: Key,
        *,
        policy: canary_pb2.CanaryPolicy | None = None,
        command: canary_pb2.CanaryCommand | None = None,
        verdicts: Iterable[canary_pb2.CanaryVerdict] = (),
    ) -> canary_pb2.PlanCanaryResponse:
        """The next write of the canary of a Deployment that the native Deployment controller manages, and a report.

        Pass the steps to `apply`, and plan again after each change, and after the `requeue_after` of the response.
        """
        request = canary_pb2.PlanCanaryRequest(
            snapshot=self.snapshot(key, pods=True), policy=policy, command=command, verdicts=verdicts
        )
        response = self._planner.plan_canary(request)
        if not response.steps and self._add_events(key, request.snapshot, response.report.event_selectors):
            response = self._planner.plan_canary(request)
        return response

    def snapshot(self, key: Key, *, pods: bool = False) -> plan_pb2.Snapshot:
        """The Deployment and its objects. A report, a forecast and a canary need the pods."""
        owner = self._reader.get(self.kind, key)
        if owner is None:
            raise NotFoundError(f"{self.kind.kind} {key} not found")
        objects = [owner, *self._replica_sets(owner)]
        return self._snapshot(objects + self._pods(objects) if pods else objects, pods)

    # --- the objects of a request

    def _replica_sets(self, owner: Object) -> list[Object]:
        """The planner selects from those without a controller."""
        return self._reader.controlled_by(REPLICA_SET, owner.key.namespace, {owner.uid, None})

    def _pods(self, objects: Iterable[Object]) -> list[Object]:
        sets = [it for it in objects if it.kind == REPLICA_SET.kind]
        return self._reader.controlled_by(POD, sets[0].key.namespace, {it.uid for it in sets}) if sets else []

    def _snapshot(self, objects: Sequence[Object], pods: bool) -> plan_pb2.Snapshot:
        """The first object is the owner."""
        owner = objects[0]
        snapshot = plan_pb2.Snapshot(
            objects=[it.json for it in objects],
            target=plan_pb2.Target(
                api_version=owner.api_version,
                kind=owner.kind,
                namespace=owner.key.namespace,
                name=owner.key.name,
                resource=self.kind.plural,
            ),
            replica_sets_complete=True,
            pods_complete=pods,
        )
        snapshot.now.GetCurrentTime()
        return snapshot

    def _add_events(self, key: Key, snapshot: plan_pb2.Snapshot, selectors: Iterable[str]) -> bool:
        """Adds the events that these field selectors match. Returns whether there are any."""
        events: list[Object] = []
        try:
            for fields in selectors:
                events += self._api.list_objects(EVENT, key.namespace, fields)
        except ApiError as error:
            if error.code != 403:
                raise  # a verdict without events is less certain, never wrong
        snapshot.objects.extend(it.json for it in events)
        return bool(events)


def _versions(objects: Iterable[Object]) -> dict[str, str]:
    return {it.uid: it.version for it in objects}
