"""Prints what a plan costs in this process, and with the service at the address given: tests/local/measure.py."""

import json
import sys
import time
from pathlib import Path

ROUNDS = 500
CALLS = 5


def memory_mib() -> float:
    [resident] = [it for it in Path("/proc/self/status").read_text().splitlines() if it.startswith("VmRSS:")]
    return int(resident.split()[1]) / 1024


def main() -> None:
    address, example = sys.argv[1:]
    # Imported before the clock starts: the client of the service needs it, too.
    from rollplan import Planner
    from rollplan.v1 import plan_pb2

    snapshot = plan_pb2.Snapshot(objects=[Path(example).read_text()], replica_sets_complete=True, pods_complete=True)
    snapshot.now.GetCurrentTime()
    request = plan_pb2.PlanRolloutRequest(snapshot=snapshot)

    def best(planner: Planner) -> float:
        """The microseconds of a plan in the best round. Rounds are short, so that other load does not affect all of them."""
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for _ in range(CALLS):
                assert planner.plan_rollout(request).steps
            times.append((time.perf_counter() - begin) / CALLS * 1e6)
        return min(times)

    memory, begin = memory_mib(), time.perf_counter()
    local = Planner.local()
    assert local.plan_rollout(request).steps
    start = (time.perf_counter() - begin) * 1e3
    in_process = best(local)
    measured = {"startMs": start, "localUs": in_process, "memoryMiB": memory_mib() - memory}
    with Planner.grpc(address) as service:
        measured["serviceUs"] = best(service)
    print(json.dumps(measured))


main()
