#!/usr/bin/env python3
"""Make a release twice from a tag in a copy of this repository, and test its files."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = ROOT / "target/libraries"
BINARY = ROOT / "target/images/amd64/rollplan"


def run(*command: str | pathlib.Path, **options) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def release(copy: pathlib.Path, tag: str) -> pathlib.Path:
    # Without a network, because a release downloads and publishes nothing.
    offline = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-current-user"]
    run(*offline, sys.executable, copy / "packaging/release.py", tag, "--rollplan", BINARY, "--libraries", LIBRARIES)
    return copy / f"target/release-{tag}"


def refuses(copy: pathlib.Path, tag: str, reason: str) -> None:
    result = subprocess.run(
        [sys.executable, copy / "packaging/release.py", tag, "--rollplan", BINARY, "--libraries", LIBRARIES],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0 and reason in result.stderr, (reason, result)


def expected(version: str) -> set[str]:
    """The files of a release."""
    images = {
        f"{name}-{version}{end}"
        for name in ("rollplan", "rollplan-controller")
        for end in ("-image-amd64.tar", ".cdx.json")
    }
    contract = {f"rollplan.v1.{kind}" for kind in ("binpb", "openapi.json", "schema.json")}
    others = {
        f"rollplan-{version}-linux-amd64.tar.gz",
        f"rollplan-chart-{version}.tgz",
        "rollplan.yaml",
        "NOTES.md",
        "install.sh",
        "SHA256SUMS",
    }
    return images | contract | others | {path.name for path in LIBRARIES.iterdir()}


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
    completions = (unpacked / "completions/rollplan.fish").read_text()
    commands = re.findall(r"__fish_rollplan_needs_command.* -a \"(\w+)\"", completions)
    assert len(commands) > 8, commands
    for command in commands:
        page = "rollplan" if command == "help" else f"rollplan-{command}"
        assert ".SH" in (unpacked / f"man/{page}.1").read_text(), page
    # The shells complete the commands of a command, too.
    nested = re.findall(r"__fish_rollplan_using_subcommand (\w+);.* -a \"(\w+)\"", completions)
    assert ("canary", "start") in nested, nested
    for parent, command in (pair for pair in nested if pair[0] != "help"):
        page = f"rollplan-{parent}" if command == "help" else f"rollplan-{parent}-{command}"
        assert ".SH" in (unpacked / f"man/{page}.1").read_text(), page
    for name in ("rollplan.bash", "_rollplan", "rollplan.fish"):
        assert "rollplan" in (unpacked / "completions" / name).read_text(), name
    run("bash", "-n", unpacked / "completions/rollplan.bash")


def check_install(out: pathlib.Path, version: str, directory: pathlib.Path) -> None:
    """Install the command with the script of the release."""
    (directory / "releases").mkdir()
    (directory / f"releases/v{version}").symlink_to(out)
    environment = os.environ | {"ROLLPLAN_RELEASES": f"file://{directory}/releases"}
    printed = run("sh", out / "install.sh", version, directory / "installed", env=environment)
    assert printed.startswith(f"installed rollplan {version}"), printed


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
        assert listed == expected(version), listed ^ expected(version)
        section = changelog.read_text().split(f"\n## {version}\n")[1].split("\n## ")[0]
        assert (out / "NOTES.md").read_text().strip() == section.strip(), "notes"
        assert f"version: {version}\n" in run(helm, "show", "chart", out / f"rollplan-chart-{version}.tgz")
        check_plugin(out, kubectl, pathlib.Path(directory))
        check_install(out, version, pathlib.Path(directory))
        assert (release(copy, tag) / "SHA256SUMS").read_text() == sums, "a second release has other digests"
        print(sums, end="")


if __name__ == "__main__":
    main()
