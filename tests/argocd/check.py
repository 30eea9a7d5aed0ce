"""Checks that docs/argocd/health.lua and the program report equal states for random objects (docs/guides/argocd.md)."""

import collections
import json
import subprocess
import sys

HEALTH = {
    "PHASE_COMPLETE": "Healthy",
    "PHASE_PROGRESSING": "Progressing",
    "PHASE_DELETING": "Progressing",
    "PHASE_PAUSED": "Suspended",
    "PHASE_STALLED": "Degraded",
    "PHASE_DEGRADED": "Degraded",
    "PHASE_REFUSED": "Degraded",
    "PHASE_NOT_JUDGED": "Unknown",
}


def main() -> None:
    lua, program, seed = sys.argv[1:]
    made = subprocess.check_output([lua, "tests/argocd/driver.lua", "docs/argocd/health.lua", seed], text=True)
    cases = [line.split("\t") for line in made.splitlines()]
    items = [json.loads(text) for _, text in cases]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    # The exit code depends on the states of the objects.
    ran = subprocess.run([program, "status", "-f", "-", "-o", "json"], input=listed, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    phases = {answer["object"]["name"]: answer["report"]["phase"] for answer in answers}
    seen: collections.Counter[str] = collections.Counter()
    wrong = []
    for (health, text), item in zip(cases, items, strict=True):
        phase = phases.get(item["metadata"]["name"])
        if phase is None:
            sys.exit(f"not judged by the program: {text}\n{ran.stderr}")
        seen[health] += 1
        if HEALTH[phase] != health:
            wrong.append(f"{health}, and the program says {phase}: {text}")
    for line in wrong[:10]:
        print(line)
    if wrong:
        sys.exit(f"{len(wrong)} of {len(cases)} differ")
    if len(seen) < len(set(HEALTH.values())):
        sys.exit(f"some states never occur: {seen}")
    print(f"{len(cases)} objects have the same state: {dict(seen)}")


main()
