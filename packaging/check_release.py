#!/usr/bin/env python3
"""Make a release from a tag in a copy of this repository, twice, and use what it has made."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/images/amd64/rollplan"


def run(*command: str | pathlib.Path, **options) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def release(copy: pathlib.Path, tag: str) -> pathlib.Path:
    run(sys.executable, copy / "packaging/release.py", tag, "--rollplan", BINARY)
    return copy / f"target/release-{tag}"


def refuses(copy: pathlib.Path, tag: str, reason: str) -> None:
    result = subprocess.run(
        [sys.executable, copy / "packaging/release.py", tag, "--rollplan", BINARY], capture_output=True, text=True
    )
    assert result.returncode != 0 and reason in result.stderr, (reason, result)


def check_plugin(out: pathlib.Path, kubectl: str, directory: pathlib.Path) -> None:
    """Install the plugin as krew does, from the manifest, and have kubectl find it."""
    (platform,) = json.loads((out / "rollplan.yaml").read_text())["spec"]["platforms"]
    archive = out / platform["uri"].rsplit("/", 1)[1]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == platform["sha256"]
    unpacked, store, path = directory / "unpacked", directory / "store", directory / "bin"
    for created in (store, path):
        created.mkdir()
    with tarfile.open(archive) as files:
        files.extractall(unpacked)
    for rule in platform["files"]:
        shutil.copy(unpacked / rule["from"], store / rule["to"])
    (path / "kubectl-rollplan").symlink_to(store / platform["bin"])
    environment = os.environ | {"PATH": f"{path}:/usr/bin:/bin"}
    listed = run(kubectl, "plugin", "list", env=environment)
    assert str(path / "kubectl-rollplan") in listed, listed
    assert run(kubectl, "rollplan", "--version", env=environment).startswith("rollplan "), "kubectl rollplan"
    for page in ("rollplan", "rollplan-status"):
        assert ".SH" in (unpacked / f"man/{page}.1").read_text(), page
    for name in ("rollplan.bash", "_rollplan", "rollplan.fish"):
        assert "rollplan" in (unpacked / "completions" / name).read_text(), name
    run("bash", "-n", unpacked / "completions/rollplan.bash")


def main() -> None:
    kubectl, helm = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "rollplan"
        run("git", "clone", "--quiet", ROOT, copy)
        git = ["git", "-C", copy, "-c", "user.name=test", "-c", "user.email=test@example.com"]
        version = run(sys.executable, "-c", "import images; print(images.version())", cwd=copy / "packaging").strip()
        tag = f"v{version}"
        run(*git, "tag", tag)
        refuses(copy, "v9.9.9", f"the version in Cargo.toml is {version}")
        refuses(copy, tag, f"CHANGELOG.md has no section {version}")
        changelog = copy / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("## Unreleased\n", f"## Unreleased\n\n## {version}\n", 1))
        refuses(copy, tag, "the checkout has changes")
        run(*git, "commit", "--quiet", "--all", "--message", "Release")
        refuses(copy, tag, "is not checked out")
        run(*git, "tag", "--force", tag, stderr=subprocess.DEVNULL)
        out = release(copy, tag)
        run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=out)
        sums = (out / "SHA256SUMS").read_text()
        listed = {line.split()[1] for line in sums.splitlines()} | {"SHA256SUMS"}
        assert listed == {path.name for path in out.iterdir()}, listed
        assert (out / "NOTES.md").read_text().startswith("- "), "notes"
        assert f"version: {version}\n" in run(helm, "show", "chart", out / f"rollplan-chart-{version}.tgz")
        check_plugin(out, kubectl, pathlib.Path(directory))
        assert (release(copy, tag) / "SHA256SUMS").read_text() == sums, "a second release has other digests"
        print(sums, end="")


if __name__ == "__main__":
    main()
