"""Renders pictures and pages of forecasts, and the report of `wait`, with Chromium, in light and dark mode, and with resvg, and
checks what is visible: the colors of both modes, and that no two texts overlap or leave the picture. axe-core must find nothing
in the pages, on narrow and wide screens.

  pictures.py [DIRECTORY]     also leaves the images in the directory, to be looked at
"""

import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import screens

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target/debug/rollplan"
TIMES = ["--start-time=8s,9s,10s,12s,20s", "--termination-time=2s"]
IMAGE = ["--image=*=registry.example/web:9"]
# The example and its options.
SCENES = {
    "small": ("after-undo", IMAGE + TIMES),
    "rollover": ("rollover", IMAGE + TIMES),
    "days": ("after-undo", IMAGE + ["--start-time=8h,10h,12h,20h,40h"]),
    "steps": ("recreate-waiting", []),
}
# The background, and the color of the new pods.
COLORS = {"light": ((255, 255, 255), (47, 111, 214)), "dark": ((13, 17, 23), (68, 147, 248))}
# Chromium's numbers of the color schemes.
SCHEMES = {"light": 1, "dark": 0}

MEASURE = """
const boxes = [...document.querySelectorAll('svg text')].map(it => [it.textContent, it.getBoundingClientRect()]);
const box = document.querySelector('svg').getBoundingClientRect();
const wrong = boxes.filter(([, b]) => b.left < box.left || b.right > box.right || b.bottom > box.bottom).map(([t]) => 'outside: ' + t);
boxes.forEach(([t, a], i) => boxes.slice(i + 1).forEach(([u, b]) => {
  if (a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom) wrong.push(t + ' overlaps ' + u);
}));
document.body.replaceChildren(JSON.stringify({texts: boxes.length, wrong}));
"""


AXE = """
axe.run().then(result => {
  const found = result.violations.map(it => it.id + ': ' + it.nodes.map(node => node.html).join(' '));
  document.body.replaceChildren(JSON.stringify({rules: result.passes.length, found}));
});
"""


def now(example):
    times = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", (ROOT / f"examples/{example}.json").read_text())
    return max(times)


def forecast(example, options, output):
    args = [PROGRAM, "forecast", "--snapshot", ROOT / f"examples/{example}.json", "--now", now(example), *options, "-o", output]
    run = subprocess.run(args, capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr, run
    return run.stdout


def chromium(*args):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def pixels(file):
    """The colors in a PNG with 8 bits for each of red, green, blue and perhaps alpha."""
    data = file.read_bytes()
    at, parts, width, channels = 8, b"", 0, 0
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, channels = int.from_bytes(body[:4]), {2: 3, 6: 4}[body[9]]
        parts += body if kind == b"IDAT" else b""
        at += size + 12
    raw, stride = zlib.decompress(parts), width * channels
    above, colors = bytearray(stride), set()
    for start in range(0, len(raw), stride + 1):
        line = bytearray(raw[start + 1 : start + 1 + stride])
        for i in range(stride):
            a = line[i - channels] if i >= channels else 0
            b, c = above[i], above[i - channels] if i >= channels else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[raw[start]]) & 255
        colors.update(zip(line[::channels], line[1::channels], line[2::channels]))
        above = line
    return colors


def accessible(page, directory):
    """Fails if axe-core finds a violation in a page."""
    script = (ROOT / "tests/tools/node_modules/axe-core/axe.min.js").read_text() + AXE
    # The policy of the page permits no scripts.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    assert text.count("</body>") == 1, page.name
    copy = directory / f"{page.stem}.axe.html"
    copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    for width in (360, 768, 1440):
        for mode, scheme in SCHEMES.items():
            options = [f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={scheme}"]
            dumped = chromium(*options, "--virtual-time-budget=20000", "--dump-dom", copy.as_uri())
            found = json.loads(html.unescape(re.search(r"<body[^>]*>(\{.*\})", dumped)[1]))
            assert found["rules"] > 10 and not found["found"], (page.name, width, mode, found)
            chromium(f"--window-size={width},1600", options[1], f"--screenshot={directory}/{page.stem}.{width}.{mode}.png", page.as_uri())


def reports(directory):
    """Pages of `wait`: a rollout that does not end in time, and one that needs a change."""
    for name in ("stuck-crash-loop", "mid-rollout"):
        page = directory / f"{name}.report.html"
        with tempfile.TemporaryDirectory() as folder:
            screens.cluster(folder, screens.load(name))
            environment = {**os.environ, "FAKE_KUBECTL": folder, "KUBECTL": f"{folder}/kubectl"}
            args = [PROGRAM, "wait", "web", "-n", "shop", "--timeout", "3s", "--report", f"html={page}"]
            run = subprocess.run(args, capture_output=True, text=True, env=environment)
        assert run.returncode in (1, 3), run
        accessible(page, directory)
        print(f"{name}: no violations in the report")


def check(directory):
    for name, (example, options) in SCENES.items():
        svg = directory / f"{name}.svg"
        svg.write_text(forecast(example, options, "svg"))
        page = directory / f"{name}.html"
        page.write_text(forecast(example, options, "html"))
        measured = directory / f"{name}.measure.html"
        measured.write_text(f"<!DOCTYPE html><body>{svg.read_text()}<script>{MEASURE}</script>")
        found = json.loads(re.search(r"\{.*\}", chromium("--dump-dom", measured.as_uri()))[0])
        assert found["texts"] > 10 and not found["wrong"], (name, found)
        for mode, wanted in COLORS.items():
            for file, size in ((svg, "800,400"), (page, "1000,600")):
                image = directory / f"{file.name}.{mode}.png"
                scheme = f"--blink-settings=preferredColorScheme={SCHEMES[mode]}"
                chromium(f"--window-size={size}", scheme, f"--screenshot={image}", file.as_uri())
                # The style of a page counts only if its hash is the one in its policy.
                assert pixels(image).issuperset(wanted), image.name
        accessible(page, directory)
        image = directory / f"{name}.resvg.png"
        subprocess.run(["resvg", "--quiet", svg, image], check=True)
        assert pixels(image).issuperset(COLORS["light"]), image.name
        print(f"{name}: {found['texts']} texts, no violations in the page")
    reports(directory)


if len(sys.argv) > 1:
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    check(pathlib.Path(sys.argv[1]).resolve())
else:
    with tempfile.TemporaryDirectory() as directory:
        check(pathlib.Path(directory))
