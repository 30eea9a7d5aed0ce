#!/usr/bin/env python3
"""Write the page, target/rollplan.html: one file with the planner, which works without a network.

`bash tests/run build_page` builds target/page.wasm, which it contains (bindings/wasm with the feature `page`). Requires zopfli
and Node.js 24, which removes the types of TypeScript. The same inputs give the same bytes.
"""

import base64
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
from images import ROOT  # noqa: E402

SOURCE = ROOT / "bindings/page"
WASM = ROOT / "target/page.wasm"
ENGINE = ROOT / "adapters/typescript/src/wasm.ts"
OUT = ROOT / "target/rollplan.html"


def sample(path: pathlib.Path) -> dict[str, str]:
    """An example, as it was when its last event happened."""
    text = path.read_text()
    return {"text": text, "now": max(re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text))}


def packed() -> bytes:
    """The module and the samples, as gzip."""
    module = WASM.read_bytes()
    samples = {path.stem: sample(path) for path in sorted((ROOT / "examples").glob("*.json"))}
    data = struct.pack("<I", len(module)) + module + json.dumps(samples).encode()
    # Several stages need the page, and this takes a quarter of a minute.
    cached = ROOT / f"target/page-{hashlib.sha256(data).hexdigest()[:16]}.gz"
    if not cached.exists():
        with tempfile.NamedTemporaryFile(dir=ROOT / "target") as file:
            file.write(data)
            file.flush()
            # A twentieth smaller than by gzip -9.
            compressed = pathlib.Path(f"{file.name}.gz")
            compressed.write_bytes(subprocess.check_output(["zopfli", "--i5", "--gzip", "-c", file.name]))
            compressed.replace(cached)
    return cached.read_bytes()


def without_types(path: pathlib.Path) -> str:
    script = 'process.stdout.write(require("module").stripTypeScriptTypes(require("fs").readFileSync(process.argv[1], "utf8")))'
    return subprocess.check_output(["node", "--no-warnings", "-e", script, str(path)], text=True)


def source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def main() -> None:
    if not WASM.exists():
        sys.exit(f"{WASM.relative_to(ROOT)} is missing; run: bash tests/run build_page")
    style = (SOURCE / "style.css").read_text()
    engine = re.sub(r"^export ", "", without_types(ENGINE), flags=re.MULTILINE)
    script = f'"use strict";\n{engine}\n{(SOURCE / "page.js").read_text()}'
    assert "</script" not in script and "</style" not in style
    policy = (
        f"default-src 'none'; script-src {source_hash(script)} 'wasm-unsafe-eval'; style-src {source_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    data = packed()
    # Without the character that begins the end of a script.
    encoded = base64.b85encode(data, pad=True).decode().replace("<", ",")
    values = {"POLICY": policy, "STYLE": style, "VERSION": images.version(), "LENGTH": str(len(data)), "DATA": encoded, "SCRIPT": script}
    template = (SOURCE / "template.html").read_text()
    page = re.sub(r"\b(POLICY|STYLE|VERSION|LENGTH|DATA|SCRIPT)\b", lambda found: values[found[0]], template)
    OUT.write_text(page)
    print(f"{OUT.stat().st_size / 1e6:.2f} MB  {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
