"""Questions for scripts, and when a sync makes a request. The corpus of tests/conformance covers the rest of the loop."""

from __future__ import annotations

import pytest
from builder import build

from rollplan import Cancellation, CancelledError, Key, NotFoundError, PlannerError, Rollouts, StalledError, WaitTimeoutError
from rollplan._answer import Answer
from rollplan.objects import DEPLOYMENT, EVENT, Kind, Object
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

    def list_objects(self, kind: Kind, namespace: str, fields: str) -> list[Object]:
        assert kind == EVENT
        self.calls.append(f"list events {fields}")
        return self.events.get(fields, [])

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
        if not self.plans:
            raise PlannerError("unavailable", "no plan")
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
    return Rollouts(planner, cluster, status_interval=0.05, min_interval=2)  # type: ignore[arg-type]


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
    assert rollouts.sync(KEY).missing
    with pytest.raises(NotFoundError):
        rollouts.plan(KEY)


def plan(at_latest: int = 0, *steps: str, value: bytes = b"v") -> plan_pb2.PlanRolloutResponse:
    """A response with this state, and with steps that have these ids."""
    response = plan_pb2.PlanRolloutResponse(sync=plan_pb2.SyncResponse(value=value))
    response.sync.not_before.FromSeconds(2)
    if at_latest:
        response.sync.at_latest.FromSeconds(at_latest)
    for it in steps:
        step = response.steps.add(id=it, on_failure=plan_pb2.ON_FAILURE_STOP)
        step.call.verb, step.call.path = plan_pb2.VERB_PATCH, f"/{it}"
    return response


def test_requests_have_the_session_the_intervals_and_the_value_of_the_last_response(
    rollouts: Rollouts, planner: FakePlanner, cluster: Cluster
) -> None:
    planner.plans = [plan(), plan()]
    rollouts.sync(KEY)
    cluster.owner = build(DEPLOYMENT, version=11)
    rollouts.sync(KEY)
    first, second = (it.sync for it in planner.requests)
    assert (first.value, second.value) == (b"", b"v")
    assert first.session == second.session != ""
    assert (first.status_interval.ToMilliseconds(), first.min_interval.ToMilliseconds()) == (50, 2000)


def test_without_a_change_no_request_is_made_until_the_timer_is_due(
    rollouts: Rollouts, planner: FakePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("rollplan.rollouts.time.monotonic", lambda: now)
    planner.plans = [plan(10), plan()]
    result = rollouts.sync(KEY)
    assert (result.not_before, result.at_latest) == (2, 10)
    now = 104.0
    result = rollouts.sync(KEY)
    assert (result.response, result.at_latest) == (None, 6)
    now = 110.0
    assert rollouts.sync(KEY).at_latest is None
    now = 1e9
    assert rollouts.sync(KEY).response is None
    assert len(planner.requests) == 2


def test_another_deployment_of_the_same_name_starts_without_a_state(
    rollouts: Rollouts, planner: FakePlanner, cluster: Cluster
) -> None:
    planner.plans = [plan(0, "a"), plan()]
    cluster.answers = [Answer(200, b"{}")]
    rollouts.sync(KEY)
    cluster.owner = build(DEPLOYMENT, uid="another")
    rollouts.sync(KEY)
    assert (planner.requests[1].sync.value, list(planner.requests[1].sync.answers)) == (b"", [])


def test_a_service_without_the_loop_is_named(rollouts: Rollouts, planner: FakePlanner) -> None:
    planner.plans = [plan_pb2.PlanRolloutResponse()]
    with pytest.raises(PlannerError, match="the service is older than this package"):
        rollouts.sync(KEY)


def test_answers_are_sent_again_after_a_failed_request(rollouts: Rollouts, planner: FakePlanner, cluster: Cluster) -> None:
    planner.plans = [plan(0, "a", "b")]
    cluster.answers = [Answer(409, b"x" * 70_000)]
    result = rollouts.sync(KEY)
    assert (result.at_latest, [it.step.id for it in result.failures]) == (2, ["a"])
    for _ in range(2):
        with pytest.raises(PlannerError):
            rollouts.sync(KEY)
    planner.plans = [plan()]
    rollouts.sync(KEY)
    failed = plan_pb2.Answer(id="a", made=True, http_code=409, body=b"x" * 65_536)
    assert [list(it.sync.answers) for it in planner.requests[1:]] == [[failed, plan_pb2.Answer(id="b")]] * 3


def test_cancelled_sync_is_repeated_without_the_answers_to_the_remaining_calls(
    rollouts: Rollouts, planner: FakePlanner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = Cancellation()

    def request(*_: object) -> Answer:
        cancel.cancel()
        raise CancelledError("cancelled")

    monkeypatch.setattr(cluster, "request", request)
    planner.plans = [plan(0, "a", "b"), plan()]
    with pytest.raises(CancelledError):
        rollouts.sync(KEY, cancel)
    rollouts.sync(KEY)
    assert list(planner.requests[1].sync.answers) == [plan_pb2.Answer(id="a", made=True)]
