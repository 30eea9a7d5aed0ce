"""The control loop of one Deployment: observe it, request a plan, carry it out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rollplan._cancel import Cancellation
from rollplan._errors import ApiError, NotFoundError, StalledError, WaitTimeoutError
from rollplan._state import OwnerState, States
from rollplan._steps import Failure, carry_out
from rollplan.objects import DEPLOYMENT, EVENT, POD, REPLICA_SET, TERMINATING_REPLICAS, Key, Kind, Object
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
    """The result of a sync."""

    # The plan. None if the Deployment does not exist.
    response: plan_pb2.PlanRolloutResponse | None = None
    # When to sync again even if nothing changes, in seconds. None if no timer is needed.
    requeue_after: float | None = None
    # Whether to sync again with a backoff, which must not be reset until a result without this.
    again: bool = False
    # The calls that the API server rejected. Sync again at once, so that the next plan reports them.
    rejected: list[Failure] = field(default_factory=list)
    # Whether the run was cancelled, perhaps in the middle of the plan.
    cancelled: bool = False


class Rollouts:
    """Reads Deployments of one kind, requests plans for them, and carries the plans out. It is thread-safe."""

    def __init__(
        self,
        planner: Planner,
        api: Api,
        kind: Kind = DEPLOYMENT,
        *,
        reader: Reader | None = None,
        options: plan_pb2.PlanOptions | None = None,
        status_interval: float = 0.0,
    ) -> None:
        """Without a reader, objects are read from the API server.

        The status interval, in seconds, delays a status update that only reports progress, so that one write covers all
        changes within it. One that reports the end of a rollout, or accompanies another write, is not delayed.
        """
        self._planner, self._api, self.kind = planner, api, kind
        self._reader: Reader = reader or api
        self._options = plan_pb2.PlanOptions(events_as_calls=True, report=True)
        self._options.MergeFrom(options or plan_pb2.PlanOptions())
        self._status_interval = status_interval
        self._states = States()

    # --- for controllers

    def sync(self, key: Key, cancel: Cancellation | None = None) -> SyncResult:
        """Requests a plan and carries it out.

        After an error, which means that reading or planning failed, sync again with a backoff.
        """
        with self._states.locked(key) as state:
            observed = self._plan(key, state, cancel)
            if observed is None:
                return SyncResult()
            owner, response = observed
            if not state.verified and _writes_replica_sets(response):
                outdated, others = self._verify(owner, state, cancel)
                if outdated or others:
                    observed = self._plan(key, state, cancel, others)
                    if observed is None:
                        return SyncResult()
                    response = observed[1]
                    # The next snapshot does not have the others. If they prevent all writes, they must be listed again.
                    state.verified = not others or _writes_replica_sets(response)
            if delay := self._status_delay(response, state):
                return SyncResult(response, delay)
            return self._carry_out(response, state, cancel)

    def forget(self, key: Key) -> None:
        """Discards the state of a Deployment. `sync` does so itself if the Deployment does not exist."""
        self._states.forget(key)

    # --- for scripts

    def plan(self, key: Key) -> plan_pb2.PlanRolloutResponse:
        """The next writes, without making them."""
        return self._planner.plan_rollout(plan_pb2.PlanRolloutRequest(snapshot=self.snapshot(key), options=self._options))

    def apply(self, key: Key, steps: Iterable[plan_pb2.Step]) -> list[Failure]:
        """Makes the calls of a plan or a rollback in order. Returns the failed calls. The last of them may have ended it."""
        with self._states.locked(key) as state:
            return list(carry_out(self._api, steps, state, None))

    def status(
        self,
        key: Key,
        previous: report_pb2.Verdict | None = None,
        fail_on: Iterable[plan_pb2.FailureRule] = (),
    ) -> plan_pb2.ComputeStatusResponse:
        """The state of the rollout, with its pods and, if they may explain it, events.

        Pass the previous verdict when polling. `fail_on` changes when failures are certain: docs/verdict.md.
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
        with self._states.locked(key) as state:
            observed = self._observe(key, state, pods=pods)
        if observed is None:
            raise NotFoundError(f"{self.kind.kind} {key} not found")
        return observed[1]

    # --- the parts of a sync

    def _plan(
        self, key: Key, state: OwnerState, cancel: Cancellation | None, others: Iterable[Object] = ()
    ) -> tuple[Object, plan_pb2.PlanRolloutResponse] | None:
        observed = self._observe(key, state, controlling=True)
        if observed is None:
            self._states.forget(key)
            return None
        owner, snapshot = observed
        snapshot.objects.extend(it.json for it in others)
        request = plan_pb2.PlanRolloutRequest(snapshot=snapshot, options=self._options)
        if state.drops_terminating and not self._options.HasField("terminating_replicas"):
            request.options.terminating_replicas = False
        return owner, self._planner.plan_rollout(request, cancel)

    def _observe(
        self, key: Key, state: OwnerState, *, pods: bool = False, controlling: bool = False
    ) -> tuple[Object, plan_pb2.Snapshot] | None:
        owner = self._reader.get(self.kind, key)
        if owner is None:
            return None
        if owner.uid != state.uid:
            state.reset(owner.uid)
        now = time.monotonic()
        if controlling:
            state.check_native(owner, now)
        owner = state.latest(owner)
        if owner is None:
            return None
        # The planner selects from the objects without a controller.
        sets = state.overlay(self._reader.controlled_by(REPLICA_SET, key.namespace, {owner.uid, None}), now)
        state.sent = {it.uid: it.version for it in sets}
        state.drops_terminating = state.drops_terminating and not any(TERMINATING_REPLICAS in it.json for it in sets)
        snapshot = plan_pb2.Snapshot(
            objects=[owner.json, *(it.json for it in sets)],
            target=plan_pb2.Target(
                api_version=owner.api_version,
                kind=owner.kind,
                namespace=key.namespace,
                name=key.name,
                resource=self.kind.plural,
            ),
            replica_sets_complete=True,
            answers=state.answers,
        )
        snapshot.now.GetCurrentTime()
        if pods or owner.recreate:
            found = self._reader.controlled_by(POD, key.namespace, {it.uid for it in sets})
            snapshot.objects.extend(it.json for it in found)
            snapshot.pods_complete = True
        return owner, snapshot

    def _verify(self, owner: Object, state: OwnerState, cancel: Cancellation | None) -> tuple[bool, list[Object]]:
        """Reads the ReplicaSets from the API server. Returns whether the last request had different ones.

        Watches of different kinds lag independently: after a restart of the API server, or when a standby becomes the leader,
        the cache may show the newest template together with old sizes. No precondition covers the sizes of *other*
        ReplicaSets, which limit how far one may grow. Only this adapter changes sizes, so reading once before the first write
        is enough, and again after a call whose outcome is not as planned.

        Also returns those of other controllers that the selector of a custom resource matches. The planner needs them only
        before the first write: it refuses a custom resource that would run the pods of a Deployment a second time.
        """
        outdated, others = False, []
        for it in self._api.replica_sets(owner, cancel):
            if it.controller is None or it.controller.uid == owner.uid:
                outdated = state.record_read(it) or outdated
            elif self.kind != DEPLOYMENT:
                others.append(it)
        state.verified = True
        return outdated, others

    def _status_delay(self, response: plan_pb2.PlanRolloutResponse, state: OwnerState) -> float:
        """How long to delay a plan that only reports progress. 0 for any other plan."""
        steps = response.steps
        only_progress = (
            response.report.phase == report_pb2.PHASE_PROGRESSING
            and len(steps) == 1
            and steps[0].WhichOneof("action") == "update_deployment_status"
            and not steps[0].events
        )
        if only_progress and not state.rejected:
            now = time.monotonic()
            if state.status_delayed_since is None:
                state.status_delayed_since = now
            if (delay := self._status_interval - (now - state.status_delayed_since)) > 0:
                return delay
        state.status_delayed_since = None
        return 0.0

    def _carry_out(self, response: plan_pb2.PlanRolloutResponse, state: OwnerState, cancel: Cancellation | None) -> SyncResult:
        # A plan that reacts to a rejection does not repeat the call. The next one does, after a backoff.
        result = SyncResult(response, again=state.rejected)
        if response.HasField("requeue_after"):
            result.requeue_after = response.requeue_after.ToTimedelta().total_seconds()
        state.answers, state.rejected = [], False
        for failure in carry_out(self._api, response.steps, state, cancel):
            if failure.namespace_terminating:
                continue  # nothing more can be created
            result.again = True
            state.answers.append(failure.message())
            if failure.rejected:
                state.rejected = True
                result.rejected.append(failure)
        result.cancelled = cancel is not None and cancel.cancelled
        return result

    def _add_events(self, key: Key, snapshot: plan_pb2.Snapshot, selectors: Iterable[str]) -> bool:
        """Adds the events that these field selectors match. Returns whether there are any."""
        events: list[Object] = []
        try:
            for fields in selectors:
                events += self._api.list_objects(EVENT, key.namespace, fields=fields)[0]
        except ApiError as error:
            if error.code != 403:
                raise  # a verdict without events is less certain, never wrong
        snapshot.objects.extend(it.json for it in events)
        return bool(events)


def _writes_replica_sets(response: plan_pb2.PlanRolloutResponse) -> bool:
    return any(it.call.kind == REPLICA_SET.kind for it in response.steps)
