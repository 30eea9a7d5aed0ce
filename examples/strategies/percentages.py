"""Releases a change by exact percentages, with a pause at each: percentages.py OWNER PATCH PAUSE_SECONDS PERCENT...

For example: percentages.py pdeploy/web '{"spec":{"template":…}}' 600 10 50. It uses your kubectl, and its namespace.
"""

import json
import subprocess
import sys
import time
from typing import Any

owner, patch, pause, *percentages = sys.argv[1:]


def kubectl(*args: str) -> Any:
    """Return the object that kubectl prints."""
    command = ["kubectl", *args, owner, "-o", "json"]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603 (your kubectl, your arguments)
    return json.loads(run.stdout)


def release(change: Any, new_max: str | None, old_min: str | None) -> int:
    """Write caps together with a change. Return the generation to wait for."""
    annotations = {"rollplan.dev/new-max": new_max, "rollplan.dev/old-min": old_min}
    change = {**change, "metadata": {"annotations": annotations}}
    written = kubectl("patch", "--type=merge", "-p", json.dumps(change))
    return int(written["metadata"]["generation"])


def wait(generation: int, reason: str, updated: int) -> None:
    """Wait until the rollout is where its caps stop it, or complete."""
    while True:
        status = kubectl("get").get("status", {})
        is_observed = status.get("observedGeneration", 0) >= generation
        reasons = {it["type"]: it["reason"] for it in status.get("conditions", [])}
        if reasons.get("Progressing") == "ProgressDeadlineExceeded":
            sys.exit(f"{owner} makes no progress at {updated} new pods")
        if is_observed and status.get("updatedReplicas", 0) == updated and reasons.get("Progressing") == reason:
            return
        time.sleep(1)


replicas = kubectl("get")["spec"]["replicas"]
change = json.loads(patch)
for percentage in percentages:
    new = -(-replicas * int(percentage) // 100)
    wait(release(change, str(new), str(replicas - new)), "DeploymentCapped", new)
    print(f"{new} of {replicas} pods are new", flush=True)
    change = {}
    time.sleep(float(pause))  # Check the new pods here, and roll back if they are not good.
wait(release(change, None, None), "NewReplicaSetAvailable", replicas)
