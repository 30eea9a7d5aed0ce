"""Shows the program in a terminal (tmux), with a cluster that replays objects of examples/.

  screens.py                  prints the screens of `wait` for examples that are stuck, a rollout of 40 pods and 12 objects,
                              at 80x24 and 120x40, to be looked at
  screens.py --record FILE    records a rollout that is stuck and rolled back, as an animated SVG

`bash tests/run screens` and `bash tests/run record` build the program first.
"""

import argparse
import copy
import datetime
import html
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target/debug/rollplan"

# A kubectl that prints parts of a list: FOLDER/objects.json, which the scenario replaces. A list as a selector names it: the
# objects of one namespace are enough here.
KUBECTL = """#!/usr/bin/env python3
import json, os, sys

def main():
    folder = os.environ["FAKE_KUBECTL"]
    objects = json.load(open(folder + "/objects.json"))
    words = sys.argv[1:]
    kinds = {"deploy": "Deployment", "rs": "ReplicaSet", "pods": "Pod", "events": "Event"}
    selector = next((w.split("=", 1)[1] for w in words if w.startswith("--selector=")), "")
    labels = dict(pair.split("=") for pair in selector.split(",") if pair)
    if words[0] == "logs":
        pod = next(o for o in objects if o["metadata"]["name"] == words[1])
        print(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"], end="")
        return
    kind = kinds.get(words[1].split(".")[0], words[1])
    has = lambda o: labels.items() <= o["metadata"].get("labels", {}).items()
    found = [o for o in objects if o["kind"] == kind and has(o)]
    if len(words) > 2 and not words[2].startswith("-"):
        found = [o for o in found if o["metadata"]["name"] == words[2]]
        if not found:
            sys.exit('Error from server (NotFound): deployments.apps "%s" not found' % words[2])
        print(json.dumps(found[0]))
    else:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))

main()
"""


def example(name):
    return json.loads((ROOT / f"examples/{name}.json").read_text())["items"]


def load(name):
    """The objects of an example, moved in time so that it was taken a moment ago."""
    items = example(name)
    times = [parsed(t) for t in re.findall(TIME, json.dumps(items))]
    # A second after the last change.
    return moved(items, datetime.datetime.now(datetime.UTC) - max(times) - datetime.timedelta(seconds=1))


def moved(items, delta):
    return json.loads(re.sub(TIME, lambda t: printed(parsed(t.group()) + delta), json.dumps(items)))


TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def parsed(text):
    return datetime.datetime.fromisoformat(text)


def printed(when):
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def in_time(items):
    """The same rollouts before their deadline."""
    for deployment in of_kind(items, "Deployment"):
        deployment["spec"]["progressDeadlineSeconds"] = 600
        for condition in deployment["status"]["conditions"]:
            if condition["type"] == "Progressing":
                condition.update(status="True", reason="ReplicaSetUpdated")
    return items


def of_kind(items, kind):
    return [item for item in items if item["kind"] == kind]


def renamed(items, old, new):
    """The same objects with other names and UIDs."""
    text = json.dumps(items)
    text = re.sub(rf"\b{old}\b(?=[-\"/ ])", new, text)
    uids = {item["metadata"]["uid"] for item in items}
    for uid in uids:
        text = text.replace(uid, uid[: -len(new)] + new if len(new) < 12 else uid)
    return json.loads(text)


def large():
    """A rollout of 40 pods that crash, with the pods of the old revision."""
    items = load("stuck-crash-loop")
    (deployment,) = of_kind(items, "Deployment")
    pods = of_kind(items, "Pod")
    owner = lambda pod: pod["metadata"]["ownerReferences"][0]["name"]
    sets = {item["metadata"]["name"]: item for item in of_kind(items, "ReplicaSet")}
    is_ready = lambda pod: any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
    old = next(pod for pod in pods if is_ready(pod))
    new = next(pod for pod in pods if not is_ready(pod))
    result = [item for item in items if item["kind"] != "Pod"]
    for pod, count, ready in ((old, 30, 30), (new, 20, 0)):
        for number in range(count):
            other = copy.deepcopy(pod)
            name = f"{owner(pod)}-{number:05x}"
            other["metadata"].update(name=name, uid=f"{pod['metadata']['uid'][:-4]}{number:04x}")
            other["spec"]["nodeName"] = f"node-{number % 5}"
            result.append(other)
        replicas = sets[owner(pod)]
        replicas["spec"]["replicas"] = count
        replicas["status"].update(replicas=count, fullyLabeledReplicas=count, readyReplicas=ready, availableReplicas=ready)
    deployment["spec"]["replicas"] = 40
    deployment["status"].update(replicas=50, updatedReplicas=20, readyReplicas=30, availableReplicas=30, unavailableReplicas=20)
    for item in sets.values():
        annotations = item["metadata"]["annotations"]
        annotations["deployment.kubernetes.io/desired-replicas"] = "40"
        annotations["deployment.kubernetes.io/max-replicas"] = "50"
    return result


def twelve():
    """Twelve Deployments in different states."""
    names = ["stuck-bad-image", "stuck-crash-loop", "stuck-quota", "stuck-readiness", "stuck-unschedulable"]
    names += ["mid-rollout", "paused-midway", "rollover", "min-ready-seconds", "history-cleanup", "after-undo", "recreate-waiting"]
    items = []
    for number, stem in enumerate(names):
        objects = load(stem)
        name = of_kind(objects, "Deployment")[0]["metadata"]["name"]
        for item in renamed(objects, name, f"app-{number:02}"):
            item["metadata"].setdefault("labels", {})["group"] = f"app-{number:02}"
            items.append(item)
    return items


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, columns, rows, folder):
        self.socket = f"{folder}/tmux"
        environment = {
            "FAKE_KUBECTL": folder,
            "KUBECTL": f"{folder}/kubectl",
            "LC_ALL": "C.UTF-8",
            "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
            "PS1": "$ ",
        }
        size = ["-x", str(columns), "-y", str(rows)]
        given = [f"{name}={value}" for name, value in environment.items()]
        shell = ["env", *given, "TERM=xterm-256color", "bash", "--norc", "--noprofile"]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, shlex.join(shell))
        self.tmux("set-option", "-g", "status", "off")

    def tmux(self, *args):
        command = ["tmux", "-S", self.socket, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def keys(self, text):
        self.tmux("send-keys", "-l", text)

    def enter(self):
        self.tmux("send-keys", "Enter")

    def screen(self, escapes=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def wait(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.screen()
            if re.search(wanted, screen):
                return screen
            time.sleep(0.05)
        raise SystemExit(f"not on the screen: {wanted}\n{screen}")

    def close(self):
        self.tmux("kill-server")


def cluster(folder, items):
    path = pathlib.Path(folder, "objects.json")
    part = path.with_suffix(".part")
    part.write_text(json.dumps(items))
    part.replace(path)
    program = pathlib.Path(folder, "kubectl")
    program.write_text(KUBECTL)
    program.chmod(0o755)


def screens():
    stuck = sorted(path.stem for path in ROOT.glob("examples/stuck-*.json"))
    scenes = [(name, "web", lambda name=name: load(name)) for name in stuck]
    scenes += [("40 pods", "web", large), ("12 objects", "--all", twelve)]
    for title, which, objects in scenes:
        for columns, rows in ((80, 24), (120, 40)):
            for fail_fast in ("off", "on"):
                with tempfile.TemporaryDirectory() as folder:
                    cluster(folder, objects() if fail_fast == "on" else in_time(objects()))
                    terminal = Terminal(columns, rows, folder)
                    # The view while it waits, and what it leaves behind.
                    limit = "--timeout 5s" if fail_fast == "on" else "--fail-on not-ready=1h,unschedulable=1h,image-pull=1h,refused=1h,crash-loop=99"
                    terminal.keys(f"clear; rollplan wait {which} -n shop {limit}; echo exit $?")
                    terminal.enter()
                    screen = terminal.wait(r"exit \d" if fail_fast == "on" else r"at most|decided  [1-9]")
                    terminal.close()
                kind = "end" if fail_fast == "on" else "live"
                print(f"=== {title}, {columns}x{rows}, {kind}\n{screen.rstrip()}")


# === The recording ===

COLORS = {31: "#f85149", 32: "#3fb950", 33: "#d29922"}
CELL = (8.4, 18)


def spans(line):
    """The parts of a line with their style."""
    style = ""
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if not part.startswith("\x1b"):
            if part:
                yield part, style
            continue
        for code in (int(code or 0) for code in part[2:-1].split(";")):
            if code in (0, 39, 22):
                style = ""
            elif code == 1:
                style = 'font-weight="bold"'
            elif code == 2:
                style = 'opacity=".6"'
            elif code in COLORS:
                style = f'fill="{COLORS[code]}"'


def drawn(screen):
    lines = []
    for row, line in enumerate(screen.rstrip("\n").split("\n")):
        column = 0
        for text, style in spans(line):
            if text.strip():
                x, y = 12 + column * CELL[0], 28 + row * CELL[1]
                length = len(text) * CELL[0]
                lines.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" {style}>{html.escape(text)}</text>'.replace(" >", ">")
                )
            column += len(text)
    return "\n".join(lines)


def svg(frames, columns, rows):
    """Frames with the seconds for which each is shown, one after another, in a loop."""
    total = sum(seconds for _, seconds in frames)
    width, height = columns * CELL[0] + 24, rows * CELL[1] + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-size="14" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" fill="#e6edf3" xml:space="preserve">',
        "<title>rollplan wait follows a rollout, names the cause that blocks it, and prints how to roll it back</title>",
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        "<style>text{white-space:pre}g{visibility:hidden}",
    ]
    begin = 0.0
    for number, (_, seconds) in enumerate(frames):
        start, end = 100 * begin / total, 100 * (begin + seconds) / total
        out.append(f"@keyframes f{number}{{0%,100%{{visibility:{'visible' if number == 0 else 'hidden'}}}")
        if number:
            out.append(f"{start:.2f}%{{visibility:visible}}")
        out.append(f"{end:.2f}%{{visibility:hidden}}}}#f{number}{{animation:f{number} {total:.1f}s step-end infinite}}")
        begin += seconds
    # A viewer without animations shows the last frame.
    out.append(f"#f{len(frames) - 1}{{visibility:visible}}@media (prefers-reduced-motion){{g{{animation:none!important}}}}")
    out.append("</style>")
    for number, (screen, _) in enumerate(frames):
        out.append(f'<g id="f{number}">\n{drawn(screen)}\n</g>')
    out.append("</svg>\n")
    return "\n".join(out)


def crashing(restarts):
    """The rollout of the example before its deadline, when its new pods had been restarted this often."""
    items = example("stuck-crash-loop")
    started = max(item["metadata"]["creationTimestamp"] for item in of_kind(items, "ReplicaSet"))
    ended = printed(parsed(started) + datetime.timedelta(seconds=4 * restarts))
    items = json.loads(re.sub(TIME, lambda t: min(t.group(), max(started, ended)), json.dumps(items)))
    (deployment,) = of_kind(items, "Deployment")
    for condition in deployment["status"]["conditions"]:
        if condition["type"] == "Progressing":
            condition.update(status="True", reason="ReplicaSetUpdated", lastUpdateTime=started, lastTransitionTime=started)
    for pod in of_kind(items, "Pod"):
        for status in pod["status"]["containerStatuses"]:
            if status["ready"]:
                continue
            status["restartCount"] = restarts
            if restarts == 0:
                status.update(state={"waiting": {"reason": "ContainerCreating"}}, lastState={})
    return items


def record(file):
    columns, rows = 100, 26
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        stuck = example("stuck-crash-loop")
        started = max(item["metadata"]["creationTimestamp"] for item in of_kind(stuck, "ReplicaSet"))
        begin = datetime.datetime.now(datetime.UTC)
        delta = begin - parsed(started)

        def until(seconds):
            time.sleep(max(0, seconds - (datetime.datetime.now(datetime.UTC) - begin).total_seconds()))

        cluster(folder, moved(crashing(0), delta))
        terminal = Terminal(columns, rows, folder)
        terminal.wait(r"\$")
        frames.append((terminal.screen(escapes=True), 1.0))
        terminal.keys("rollplan wait deploy/web -n shop --logs")
        frames.append((terminal.screen(escapes=True), 1.0))
        terminal.enter()
        terminal.wait("starting")
        frames.append((terminal.screen(escapes=True), 2.0))
        until(5)
        cluster(folder, moved(crashing(1), delta))
        terminal.wait("restart")
        frames.append((terminal.screen(escapes=True), 3.0))
        until(25)
        cluster(folder, moved(crashing(2), delta))
        terminal.wait("2 restarts")
        frames.append((terminal.screen(escapes=True), 3.0))
        until(39)
        cluster(folder, moved(stuck, delta))
        # The last lines of the log, and the prompt.
        terminal.wait(r"web 1\.1 starting(.|\n)*\n\$")
        frames.append((terminal.screen(escapes=True), 6.0))
        terminal.keys("clear; rollplan undo web -n shop")
        frames.append((terminal.screen(escapes=True), 1.5))
        terminal.enter()
        terminal.wait("roll back from")
        frames.append((terminal.screen(escapes=True), 6.0))
        terminal.close()
    pathlib.Path(file).write_text(svg(frames, columns, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="FILE")
    args = parser.parse_args()
    if args.record:
        record(args.record)
    else:
        screens()


if __name__ == "__main__":
    main()
