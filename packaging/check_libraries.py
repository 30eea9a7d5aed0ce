#!/usr/bin/env python3
"""Install each package of target/libraries in a bare environment, without a compiler or a service, and run the first example of
its README."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from libraries import MODULE, OUT, ROOT, images  # noqa: E402

# The maximum sizes in MB.
SIZES_MAX = {
    r"rollplan_local-.*\.whl": 3.0,
    r"rollplan-.*-py3-none-any\.whl": 0.3,
    r"rollplan-.*\.tgz": 2.0,
    r"rollplan-go-.*\.tar": 3.0,
    r"rollplan-.*\.html": 1.5,
}
NO_COMPILER = dict.fromkeys(("CC", "CXX", "CARGO", "RUSTC"), "false") | {"CGO_ENABLED": "0"}


def first_example(readme: str, language: str) -> str:
    (first, *_) = re.findall(rf"```{language}\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    return first


def check(name: str, directory: pathlib.Path, *commands: list[str], **environment: str) -> None:
    """Runs commands in a directory with the objects of the example. The last one must print the plan."""
    shutil.copy(ROOT / "examples/mid-rollout.json", directory / "shop.json")
    done = None
    for command in commands:
        done = subprocess.run(
            command, cwd=directory, env=os.environ | NO_COMPILER | environment, capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            sys.exit(f"{name}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    assert done and re.match(r"scale .*\n", done.stdout), (name, done)
    print(f"{name}: {done.stdout.splitlines()[0]}")


def check_python(directory: pathlib.Path) -> None:
    python = str(directory / "venv/bin/python")
    (directory / "first.py").write_text(first_example("adapters/python/README.md", "python"))
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    wheels = ["--find-links", str(OUT), f"rollplan[local]=={images.version()}"]
    check("Python", directory, [sys.executable, "-m", "venv", "venv"], [*install, *wheels], [python, "first.py"])


def check_node(directory: pathlib.Path) -> None:
    (directory / "package.json").write_text('{"name":"empty","private":true,"type":"module"}')
    (directory / "first.js").write_text(first_example("adapters/typescript/README.md", "ts"))
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", str(OUT / f"rollplan-{images.version()}.tgz")]
    check("Node.js", directory, install, ["node", "first.js"])


def check_go(directory: pathlib.Path) -> None:
    proxy = directory / "proxy"
    with tarfile.open(OUT / f"rollplan-go-{images.version()}.tar") as archive:
        archive.extractall(proxy, filter="data")
    (directory / "main.go").write_text(first_example("adapters/go/local/README.md", "go"))
    # Other modules come from the cache that the tests of the Go libraries fill, and without paths, from that of builds.
    downloaded = f"{images.run('go', 'env', 'GOMODCACHE').strip()}/cache/download"
    proxies = f"file://{proxy},file://{downloaded},{os.environ.get('GOPROXY') or 'https://proxy.golang.org,direct'}"
    # The checksum database does not know a version that is not published.
    check(
        "Go", directory, ["go", "mod", "init", "example.com/shop"], ["go", "get", f"{MODULE}/local@v{images.version()}"],
        ["go", "mod", "tidy"], ["go", "run", "."],
        GOPROXY=proxies, GOSUMDB="off", GOMODCACHE=str(directory / "cache"), GOFLAGS="-modcacherw -trimpath",
    )  # fmt: skip


def check_sizes() -> None:
    for pattern, maximum in SIZES_MAX.items():
        found = [path for path in OUT.iterdir() if re.fullmatch(pattern, path.name)]
        assert len(found) == 1, (pattern, found)
        megabytes = found[0].stat().st_size / 1e6
        assert megabytes <= maximum, f"{found[0].name} has {megabytes:.2f} MB, more than {maximum}"


def main() -> None:
    check_sizes()
    for check_one in (check_python, check_node, check_go):
        with tempfile.TemporaryDirectory() as directory:
            check_one(pathlib.Path(directory))


if __name__ == "__main__":
    main()
