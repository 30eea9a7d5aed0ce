"""Prints what a plan costs in the caller's process, and with a service on loopback from the same language, as a table.

    python3 tests/local/measure.py SERVER [--write FILE] NAME=SIZED_FILES=COMMAND...

SERVER is the release build of the program. Each COMMAND is given the address of a service and a file with objects, and prints
JSON: milliseconds until the first plan, microseconds of a plan in both ways, and MiB of memory. SIZED_FILES, separated by
commas, are what it installs for planning in the process. With --write, the table replaces the one between the marks of FILE.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance"))

from generate import Service  # noqa: E402

HEAD = """| in the process of | installs | first plan | a plan | a plan by the service | memory |
| --- | ---: | ---: | ---: | ---: | ---: |
"""
MARKS = re.compile(r"(<!-- local: [^\n]*\n).*?(<!-- local ends)", re.DOTALL)


def row(face: str, address: str) -> str:
    name, files, command = face.split("=", 2)
    megabytes = sum((ROOT / it).stat().st_size for it in files.split(",")) / 1e6
    # The service is named by its address for gRPC, except in TypeScript.
    words = [it.replace("ADDRESS", address) for it in shlex.split(command)]
    done = subprocess.run([*words, str(ROOT / "examples/mid-rollout.json")], check=True, stdout=subprocess.PIPE, text=True)
    it = json.loads(done.stdout)
    return (
        f"| {name} | {megabytes:.1f} MB | {it['startMs']:,.0f} ms | {it['localUs']:,.0f} µs | {it['serviceUs']:,.0f} µs "
        f"| {it['memoryMiB']:.0f} MiB |\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("faces", nargs="+")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    service = Service(arguments.server)
    try:
        address = f"{service.connection.host}:{service.connection.port}"
        table = HEAD + "".join(row(it, address) for it in arguments.faces)
    finally:
        service.stop()
    print(table, end="")
    if arguments.write:
        text = arguments.write.read_text()
        assert MARKS.search(text), f"{arguments.write} has no marks"
        arguments.write.write_text(MARKS.sub(lambda found: f"{found[1]}{table}{found[2]}", text))


if __name__ == "__main__":
    main()
