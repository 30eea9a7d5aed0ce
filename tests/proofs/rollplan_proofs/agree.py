"""Compares the proved arithmetic with the Rust code: `python -m rollplan_proofs.agree PLANNER`.

PLANNER is the program built from tests/plan_lines.rs. It reads complete requests and prints complete plans. The sizes
in these plans must be those that `plan` computes, for single passes and for settled plans.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import worlds
from .plan import Limit, Seen, World, Write, plan_pass, plan_settled

BATCH = 1000
"""Number of worlds for each run of the planner."""
SHOWN_MAX = 5

HORIZONS = [("HORIZON_PASS", plan_pass), ("HORIZON_SETTLED", plan_settled)]


@dataclass(frozen=True)
class Batch:
    """Worlds to compare: random worlds from a seed, or a part of the small worlds."""

    planner: str
    seed: int | None
    start: int
    count: int
    stride: int = 1

    def worlds(self) -> Iterator[World]:
        """Generate the worlds."""
        if self.seed is None:
            stop = self.start + self.count * self.stride
            yield from itertools.islice(worlds.small(), self.start, stop, self.stride)
            return
        for index in range(self.start, self.start + self.count):
            # Every world has its own generator, so that it can be reproduced without the others.
            yield worlds.anything(random.Random(f"{self.seed}/{index}"))


def request(world: World, horizon: str) -> str:
    """Return the request as JSON."""
    highest = len(world.sets)
    total = min(sum(seen.size for seen in world.sets), 2**31 - 1)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "w", "namespace": "n", "uid": "d", "resourceVersion": "1", "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": str(highest)},
        },
        "spec": {
            "replicas": world.replicas,
            "revisionHistoryLimit": 2**31 - 1,
            "selector": {"matchLabels": {"app": "w"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": limit(world.surge), "maxUnavailable": limit(world.unavailable)},
            },
            "template": template("new"),
        },
        "status": {
            "observedGeneration": 1, "replicas": total,
            "conditions": [{
                "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                "lastUpdateTime": "2026-01-01T01:00:00Z", "lastTransitionTime": "2026-01-01T01:00:00Z",
            }],
        },
    }  # fmt: skip
    sets = [replica_set(index, seen, world) for index, seen in enumerate(world.sets)]
    snapshot = {
        "now": "2026-01-01T01:00:01Z",
        "objects": [json.dumps(it) for it in (deployment, *sets)],
        "replicaSetsComplete": True,
    }
    options: dict[str, Any] = {"horizon": horizon}
    if world.caps:
        options["caps"] = {"newMax": world.caps.new_max, "oldMin": world.caps.old_min}
    return json.dumps({"snapshot": snapshot, "options": options})


def replica_set(index: int, seen: Seen, world: World) -> dict[str, Any]:
    """Return a ReplicaSet. Higher indices are younger, and the new ReplicaSet has the highest revision."""
    new, revision = world.new, index + 1
    if new is not None and index >= new:
        revision = len(world.sets) if index == new else index
    annotations = {"desired-replicas": seen.desired, "max-replicas": seen.max_total, "revision": revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"w-{index}", "namespace": "n", "uid": f"s{index}", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": f"2026-01-01T00:00:{index:02}Z", "labels": {"app": "w"},
            "annotations": {
                f"deployment.kubernetes.io/{key}": str(value)
                for key, value in annotations.items() if value is not None
            },
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "d", "controller": True}
            ],
        },
        "spec": {"replicas": seen.size, "template": template("new" if index == new else f"old{index}")},
        "status": {"replicas": seen.size, "availableReplicas": seen.reported, "observedGeneration": 1},
    }  # fmt: skip


def template(image: str) -> dict[str, Any]:
    """Return a pod template that is determined by its image."""
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "m", "image": image}]}}


def limit(given: Limit) -> int | str:
    """Return a limit in Kubernetes notation."""
    return f"{given.number}%" if given.percent else given.number


def writes_of(answer: str, world: World) -> list[Write]:
    """Return the sizes that a plan writes."""
    plan = json.loads(answer)
    if "error" in plan:
        raise ValueError(plan["error"])
    writes = []
    for step in plan.get("steps", []):
        if scale := step.get("scaleReplicaSet"):
            index = len(world.sets)
            if scale["name"].removeprefix("w-").isdigit():
                index = int(scale["name"].removeprefix("w-"))
            writes.append(Write(index, scale.get("fromReplicas", 0), scale.get("toReplicas", 0)))
        if create := step.get("createReplicaSet"):
            writes.append(Write(len(world.sets), None, create.get("replicas", 0)))
    return writes


def compare(batch: Batch) -> tuple[int, int, list[str]]:
    """Return the number of compared plans, the number of plans that write sizes, and the differences."""
    both = [(world, horizon, model) for world in batch.worlds() for horizon, model in HORIZONS]
    lines = "".join(request(world, horizon) + "\n" for world, horizon, _ in both)
    run = subprocess.run([batch.planner], input=lines, capture_output=True, text=True, check=True)
    answers = run.stdout.splitlines()
    busy, differences = 0, []
    for (world, horizon, model), answer in zip(both, answers, strict=True):
        theirs, ours = writes_of(answer, world), model(world)
        busy += bool(theirs)
        if ours != theirs:
            differences.append(f"{horizon} for {world}\n  proved: {ours}\n  planned: {theirs}")
    return len(both), busy, differences


def batches(planner: str, seed: int, random_count: int, stride: int) -> Iterator[Batch]:
    """Divide all worlds into batches."""
    small_count = sum(1 for _ in worlds.small())
    for start in range(0, small_count, BATCH * stride):
        count = len(range(start, min(start + BATCH * stride, small_count), stride))
        yield Batch(planner, None, start, count, stride)
    for start in range(0, random_count, BATCH):
        yield Batch(planner, seed, start, min(BATCH, random_count - start))


def main() -> int:
    """Compare all worlds, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("planner", help="program built from tests/plan_lines.rs")
    parser.add_argument("--random", type=int, default=20_000, help="number of random worlds (default 20000)")
    parser.add_argument("--stride", type=int, default=1, help="compare one in this many small worlds (default 1)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("ROLLPLAN_SEED", "1")))
    args = parser.parse_args()
    started = time.monotonic()
    plans = busy = different = 0
    with multiprocessing.Pool() as pool:
        work = batches(args.planner, args.seed, args.random, args.stride)
        for compared, busy_ones, differences in pool.imap_unordered(compare, work):
            plans, busy, different = plans + compared, busy + busy_ones, different + len(differences)
            for difference in differences[: max(0, SHOWN_MAX - different + len(differences))]:
                print(difference)
    took = time.monotonic() - started
    print(f"compared {plans} plans in {took:.0f} s; {busy} write sizes, {different} differ")
    print(f"one in {args.stride} small worlds; {args.random} random worlds, ROLLPLAN_SEED={args.seed}")
    # Fail if too few plans write sizes, because the comparison would be meaningless.
    return 1 if different or busy < plans / 4 else 0


if __name__ == "__main__":
    sys.exit(main())
