#!/usr/bin/env python3
"""Package the client libraries with the planner for its caller's process, in target/libraries. Nothing is published.

`bash tests/run libraries` builds what they contain (target/wheels, target/rollplan.wasm, target/rollplan.html) and calls this. Prints the sizes.

- rollplan-local: the wheel for this platform. Others, on a machine of that platform: `maturin build --manifest-path
  bindings/python/Cargo.toml`, for musl in an Alpine container, for macOS and Windows there.
- rollplan for Python: wheel and sdist, for all platforms.
- rollplan for TypeScript: the npm package with the WebAssembly, for all platforms.
- The Go modules adapters/go and adapters/go/local as files of a module proxy, the second one with the WebAssembly, which is not
  in the repository: for all platforms.
- The page, for every browser.
"""

import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
from images import ROOT, run  # noqa: E402

OUT = ROOT / "target/libraries"
WASM = ROOT / "target/rollplan.wasm"
WHEELS = ROOT / "target/wheels"
PAGE = ROOT / "target/rollplan.html"
MODULE = "rollplan.dev/rollplan/adapters/go"


def epoch() -> int:
    """The time of the commit, which is that of all files."""
    return int(run("git", "log", "-1", "--format=%ct"))


def tracked(directory: str) -> list[str]:
    """The files of a directory that are in the repository, relative to it."""
    names = run("git", "-C", directory, "ls-files").splitlines()
    return [name for name in names if (ROOT / directory / name).exists()]


def module_zip(path: pathlib.Path, prefix: str, files: dict[str, bytes], time: int) -> None:
    """A module as the go command downloads it."""
    date = datetime.datetime.fromtimestamp(time, datetime.UTC).timetuple()[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{prefix}/{name}", date)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])


def go_module(proxy: pathlib.Path, module: str, version: str, files: dict[str, bytes], time: int) -> None:
    """The files of a version in a module proxy: https://go.dev/ref/mod#goproxy-protocol."""
    directory = proxy / module / "@v"
    directory.mkdir(parents=True)
    stamp = datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (directory / "list").write_text(f"{version}\n")
    (directory / f"{version}.info").write_text(json.dumps({"Version": version, "Time": stamp}) + "\n")
    (directory / f"{version}.mod").write_bytes(files["go.mod"])
    module_zip(directory / f"{version}.zip", f"{module}@{version}", files, time)


def released_go_mod(text: str, version: str) -> str:
    """The go.mod of `local` for a release: it requires the other module at this version instead of the checkout."""
    text, replaced = re.subn(r"\nreplace .*\n", "\n", text)
    text, required = re.subn(rf"({re.escape(MODULE)}) v0\.0\.0", rf"\1 {version}", text)
    if (replaced, required) != (1, 1):
        sys.exit("adapters/go/local/go.mod: expected one replacement and one requirement of adapters/go")
    return text.rstrip() + "\n"


def go_modules(version: str, time: int) -> pathlib.Path:
    """Both Go modules, as an archive of a module proxy."""
    proxy = OUT / "go"
    license_text = (ROOT / "LICENSE").read_bytes()
    root = ROOT / "adapters/go"
    # A directory with a go.mod is a module of its own.
    nested = {str(pathlib.PurePath(it).parent) for it in tracked("adapters/go") if it.endswith("/go.mod")}
    own = [it for it in tracked("adapters/go") if not any(it.startswith(f"{directory}/") for directory in nested)]
    go_module(proxy, MODULE, version, {it: (root / it).read_bytes() for it in own} | {"LICENSE": license_text}, time)
    local = {it: (root / "local" / it).read_bytes() for it in tracked("adapters/go/local") if it != ".gitignore"}
    local["go.mod"] = released_go_mod(local["go.mod"].decode(), version).encode()
    go_module(proxy, f"{MODULE}/local", version, local | {"rollplan.wasm": WASM.read_bytes(), "LICENSE": license_text}, time)
    archive = OUT / f"rollplan-go-{version.removeprefix('v')}.tar"
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in proxy.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(proxy)))
            entry.size, entry.mtime, entry.mode = path.stat().st_size, time, 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return archive


def main() -> None:
    version, time = images.version(), epoch()
    for path in (WASM, WHEELS, PAGE):
        if not path.exists():
            sys.exit(f"{path.relative_to(ROOT)} is missing; run: bash tests/run libraries")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for wheel in WHEELS.glob("*.whl"):
        shutil.copy(wheel, OUT)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", OUT, ROOT / "adapters/python"],
        check=True, stdout=subprocess.DEVNULL, env=images.os.environ | {"SOURCE_DATE_EPOCH": str(time)},
    )  # fmt: skip
    run("npm", "pack", "--silent", "--pack-destination", str(OUT), "./adapters/typescript")
    go_modules(f"v{version}", time)
    shutil.copy(PAGE, OUT / f"rollplan-{version}.html")
    shutil.rmtree(OUT / "go")
    for path in sorted(OUT.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


if __name__ == "__main__":
    main()
