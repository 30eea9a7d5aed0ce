#!/usr/bin/env python3
"""Applies a manifest, waits for the rollout, prints why it is stalled, and rolls back if the failure is certain.

    deploy.py MANIFEST NAMESPACE DEPLOYMENT

The manifest must contain only the Deployment, as YAML or JSON. The program requires the package rollplan[kubernetes]
(adapters/python) and the service. Optional variables: ROLLPLAN_SERVER, the URL of the service; TIMEOUT, how long to wait,
in seconds (600); IMAGE_PULL, how long an image may be missing, in seconds. The exit codes are those of `rollplan wait`:
docs/reference/command.md.
"""

import os
import sys
from pathlib import Path

from rollplan import (
    DEPLOYMENT,
    Api,
    ApiError,
    Key,
    NotFoundError,
    Planner,
    Rollouts,
    RollplanError,
    StalledError,
    WaitTimeoutError,
)
from rollplan.v1.plan_pb2 import FailureRule
from rollplan.v1.report_pb2 import RolloutReport


class Progress:
    """Prints a line whenever the numbers or the causes change. Messages also contain ages, which change all the time."""

    def __init__(self) -> None:
        self.last: object = None

    def __call__(self, report: RolloutReport) -> None:
        state = (report.phase, report.counts, [(it.reason, it.pod_count) for it in report.blockers])
        if state != self.last:
            self.last = state
            print(report.message, flush=True)


def rules() -> list[FailureRule]:
    rule = FailureRule(failure="image-pull")
    if "IMAGE_PULL" not in os.environ:
        return []
    rule.grace.FromSeconds(int(os.environ["IMAGE_PULL"]))
    return [rule]


def deploy(rollouts: Rollouts, api: Api, manifest: bytes, key: Key) -> int:
    path, query = DEPLOYMENT.path(*key), "fieldManager=pipeline&force=true"
    applied = api.request("PATCH", path, query, "application/apply-patch+yaml", manifest)
    if not applied.ok:
        raise ApiError("apply the manifest", applied.code, applied.message)
    timeout, interval = float(os.environ.get("TIMEOUT", "600")), float(os.environ.get("INTERVAL", "2"))
    try:
        rollouts.wait(key, timeout, interval=interval, fail_on=rules(), progress=Progress())
    except WaitTimeoutError as error:
        explain(error.report)
        return 3
    except StalledError as error:
        report = error.report
        explain(report)
        # A deadline that has passed is not a reason to undo: the rollout may still complete.
        if report.verdict.certain:
            print("The failure is certain: rolling back.")
            for failure in rollouts.apply(rollouts.rollback(key).steps):
                print(failure)
        return 1
    return 0


def explain(report: RolloutReport) -> None:
    print(report.verdict.message)
    for blocker in report.blockers:
        print(f"{blocker.message} → {blocker.remedy or 'wait'}")


def main() -> int:
    manifest, namespace, name = sys.argv[1:]
    try:
        api = Api.from_config(user_agent="pipeline")
        with Planner.http(os.environ.get("ROLLPLAN_SERVER", "http://127.0.0.1:50051")) as planner:
            return deploy(Rollouts(planner, api), api, Path(manifest).read_bytes(), Key(namespace, name))
    except RollplanError as error:
        print(error, file=sys.stderr)
        is_rejected = isinstance(error, ApiError) and 400 <= error.code < 500
        return 2 if is_rejected or isinstance(error, NotFoundError) else 4


if __name__ == "__main__":
    sys.exit(main())
