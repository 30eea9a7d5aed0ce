"""Waiting, delays and the native controller, which the corpus of tests/conformance does not cover."""

from __future__ import annotations

import json

import pytest
from builder import build

from rollplan import Failure, Key, NativeControllerError, NotFoundError, Rollouts, StalledError, WaitTimeoutError
from rollplan._answer import Answer
from rollplan.objects import DEPLOYMENT, EVENT, REPLICA_SET, Kind, Object
from rollplan.v1 import canary_pb2, forecast_pb2, plan_pb2, report_pb2

KEY = Key("shop", "web")


class Cluster:
    """An API server with one Deployment."""

    def __init__(self) -> None:
        self.owner: Object | None = build(DEPLOYMENT)
        self.answers: list[Answer] = []
        self.calls: list[str] = []
        self.events: dict[str, list[Object]] = {}

    def get(self, kind: Kind, key: Key) -> Object | None:
        return self.owner

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        return []

    def list_objects(self, kind: Kind, namespace: str, fields: str) -> tuple[list[Object], str]:
        assert kind == EVENT
        self.calls.append(f"list events {fields}")
        return self.events.get(fields, []), "1"

    def request(self, method: str, path: str, *_: object) -> Answer:
        self.calls.append(f"{method} {path}")
        return self.answers.pop(0)


class FakePlanner:
    """A service that returns these responses."""

    def __init__(self) -> None:
        self.plans: list[plan_pb2.PlanRolloutResponse] = []
        self.reports: list[report_pb2.RolloutReport] = []
        self.previous: list[report_pb2.Verdict] = []
        self.requests: list[plan_pb2.PlanRolloutRequest] = []
        self.forecasts: list[forecast_pb2.ForecastRolloutRequest] = []
        self.canaries: list[canary_pb2.PlanCanaryRequest] = []

    def plan_rollout(self, request: plan_pb2.PlanRolloutRequest, cancel: object = None) -> plan_pb2.PlanRolloutResponse:
        self.requests.append(request)
        return self.plans.pop(0)

    def compute_status(self, request: plan_pb2.ComputeStatusRequest) -> plan_pb2.ComputeStatusResponse:
        assert request.snapshot.pods_complete
        self.previous.append(request.previous_verdict)
        return plan_pb2.ComputeStatusResponse(report=self.reports.pop(0))

    def forecast_rollout(self, request: forecast_pb2.ForecastRolloutRequest) -> forecast_pb2.ForecastRolloutResponse:
        self.forecasts.append(request)
        return forecast_pb2.ForecastRolloutResponse(effect=forecast_pb2.CHANGE_EFFECT_SCALE_ONLY)

    def plan_canary(self, request: canary_pb2.PlanCanaryRequest) -> canary_pb2.PlanCanaryResponse:
        self.canaries.append(request)
        report = canary_pb2.CanaryReport(phase=canary_pb2.CANARY_PHASE_HOLD, event_selectors=["type=Warning"])
        return canary_pb2.PlanCanaryResponse(report=report)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def planner() -> FakePlanner:
    return FakePlanner()


@pytest.fixture
def rollouts(cluster: Cluster, planner: FakePlanner) -> Rollouts:
    return Rollouts(planner, cluster, status_interval=0.05)  # type: ignore[arg-type]


def report(outlook: report_pb2.Outlook, final: bool, selectors: tuple[str, ...] = ()) -> report_pb2.RolloutReport:
    verdict = report_pb2.Verdict(outlook=outlook, final=final, event_selectors=selectors)
    return report_pb2.RolloutReport(message="m", verdict=verdict)


UNDECIDED = report(report_pb2.OUTLOOK_UNDECIDED, False)
# A user may resume it.
PAUSED = report(report_pb2.OUTLOOK_NEEDS_CHANGE, False)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (report(report_pb2.OUTLOOK_COMPLETE, True), None),
        (report(report_pb2.OUTLOOK_NEEDS_CHANGE, True), StalledError),
        (UNDECIDED, WaitTimeoutError),
    ],
)
def test_wait_ends_with_a_final_verdict(
    rollouts: Rollouts, planner: FakePlanner, last: report_pb2.RolloutReport, error: type[Exception] | None
) -> None:
    planner.reports = [UNDECIDED, PAUSED, last]
    timeout = 0.05 if error is WaitTimeoutError else 60
    interval = 0.02 if error is WaitTimeoutError else 0.001
    if error is None:
        assert rollouts.wait(KEY, timeout, interval=interval) == last
    else:
        with pytest.raises(error) as raised:
            rollouts.wait(KEY, timeout, interval=interval)
        assert raised.value.report in (last, PAUSED)
        assert str(raised.value) == "m"
    assert planner.previous[:2] == [report_pb2.Verdict(), UNDECIDED.verdict]


def test_status_is_computed_again_with_the_events_that_may_explain_it(
    rollouts: Rollouts, cluster: Cluster, planner: FakePlanner
) -> None:
    selectors = ("type=Warning", "type=Normal,reason=Pulling")
    unexplained = report(report_pb2.OUTLOOK_UNDECIDED, False, selectors)
    planner.reports = [unexplained, report(report_pb2.OUTLOOK_NEEDS_CHANGE, True)]
    # Without events, there is no second request.
    assert rollouts.status(KEY).report == unexplained
    assert cluster.calls == [f"list events {fields}" for fields in selectors]
    planner.reports.insert(0, unexplained)
    cluster.events = {"type=Normal,reason=Pulling": [build(EVENT)]}
    assert rollouts.status(KEY).report.verdict.final
    assert not planner.reports


def test_forecast_has_the_pods_and_the_changes(rollouts: Rollouts, planner: FakePlanner) -> None:
    change = forecast_pb2.DeploymentChange(replicas=5)
    limits = forecast_pb2.ClusterLimits(pods_in_quota=1)
    assert rollouts.forecast(KEY, [change], limits=limits, samples=10, seed=7).effect == forecast_pb2.CHANGE_EFFECT_SCALE_ONLY
    rollouts.forecast(KEY)
    with_change, in_progress = planner.forecasts
    assert with_change.snapshot.pods_complete
    assert with_change.snapshot.replica_sets_complete
    assert (list(with_change.changes), with_change.samples, with_change.seed) == ([change], 10, 7)
    assert with_change.limits == limits
    assert not in_progress.changes
    assert not in_progress.HasField("limits")
    assert not in_progress.HasField("pod_times")


def test_plan_of_a_canary_has_pods_events_and_the_parts_of_the_request(
    rollouts: Rollouts, planner: FakePlanner, cluster: Cluster
) -> None:
    event = build(EVENT, "web.1")
    cluster.events = {"type=Warning": [event]}
    policy, verdict = canary_pb2.CanaryPolicy(pods="2"), canary_pb2.CanaryVerdict(name="smoke")
    command = canary_pb2.CanaryCommand(action=canary_pb2.CANARY_ACTION_PROMOTE)
    response = rollouts.plan_canary(KEY, policy=policy, command=command, verdicts=[verdict])
    assert response.report.phase == canary_pb2.CANARY_PHASE_HOLD
    cluster.events = {}
    rollouts.plan_canary(KEY)
    _, given, plain = planner.canaries
    assert given.snapshot.pods_complete
    assert given.snapshot.replica_sets_complete
    assert event.json in given.snapshot.objects
    assert (given.policy, given.command, list(given.verdicts)) == (policy, command, [verdict])
    assert not plain.HasField("policy")
    assert not plain.HasField("command")


def test_a_missing_deployment_is_an_error_for_scripts_only(rollouts: Rollouts, cluster: Cluster) -> None:
    cluster.owner = None
    assert rollouts.sync(KEY).response is None
    with pytest.raises(NotFoundError):
        rollouts.plan(KEY)


def status_update(phase: report_pb2.Phase) -> plan_pb2.PlanRolloutResponse:
    step = plan_pb2.Step(update_deployment_status=plan_pb2.UpdateDeploymentStatus(), on_failure=plan_pb2.ON_FAILURE_STOP)
    step.call.verb, step.call.path, step.call.kind = plan_pb2.VERB_PATCH, "/status", "Deployment"
    return plan_pb2.PlanRolloutResponse(steps=[step], report=report_pb2.RolloutReport(phase=phase))


def test_status_of_progress_is_delayed_once(rollouts: Rollouts, planner: FakePlanner, cluster: Cluster) -> None:
    planner.plans = [status_update(report_pb2.PHASE_PROGRESSING), status_update(report_pb2.PHASE_COMPLETE)]
    cluster.answers = [Answer(200, build(DEPLOYMENT, version=11).json.encode())]
    first = rollouts.sync(KEY)
    assert first.requeue_after is not None
    assert 0 < first.requeue_after <= 0.05
    assert cluster.calls == []
    rollouts.sync(KEY)
    assert cluster.calls == ["PATCH /status"]


def test_native_controller_suspends_the_work(rollouts: Rollouts, planner: FakePlanner, cluster: Cluster) -> None:
    def written(time: str) -> Object:
        fields = {"manager": "kube-controller-manager", "subresource": "status", "time": time}
        return build(DEPLOYMENT, managedFields=[fields])

    planner.plans = [plan_pb2.PlanRolloutResponse()] * 2
    cluster.owner = written("2026-11-20T10:00:00Z")
    rollouts.sync(KEY)  # writes before the first observation are allowed
    rollouts.sync(KEY)
    cluster.owner = written("2026-11-20T10:00:05Z")
    for _ in range(2):
        with pytest.raises(NativeControllerError, match="disable it"):
            rollouts.sync(KEY)
    # Reading a status does not matter.
    planner.reports = [UNDECIDED]
    assert rollouts.status(KEY).report == UNDECIDED


def rejection(code: int, reason: str, *causes: str) -> Answer:
    details = {"causes": [{"reason": it} for it in causes]} if causes else {}
    return Answer(code, json.dumps({"kind": "Status", "reason": reason, "details": details, "code": code}).encode())


@pytest.mark.parametrize(
    ("answer", "rejected", "doubts"),
    [
        (rejection(403, "Forbidden"), True, False),
        (rejection(422, "Invalid", "FieldValueInvalid"), True, False),
        (rejection(422, "Invalid"), False, True),
        (rejection(409, "Conflict"), False, True),
        (rejection(409, "AlreadyExists"), True, True),
        (rejection(404, "NotFound"), True, True),
        (rejection(500, "InternalError"), True, True),
        (rejection(504, "Timeout"), False, True),
        (Answer(502, b"<html>"), False, True),
        (Answer(0), False, True),
    ],
)
def test_failures_are_classified(answer: Answer, rejected: bool, doubts: bool) -> None:
    step = plan_pb2.Step()
    step.call.kind = REPLICA_SET.kind
    failure = Failure(step, answer)
    assert (failure.rejected, failure.raises_doubts) == (rejected, doubts)
