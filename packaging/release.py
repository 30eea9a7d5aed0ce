#!/usr/bin/env python3
"""Make a release from a tag, in target/release-TAG. Nothing is published.

The checkout must be clean and at the tag, which is `v` and the version of the crates and of the chart; the CHANGELOG must
have a section of this version. Besides what packaging/images.py needs, HELM4 (or helm), help2man, and the client libraries that
`bash tests/run libraries` has made in target/libraries are required.
"""

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
from images import ROOT, run  # noqa: E402

COMPLETIONS = {"bash": "rollplan.bash", "zsh": "_rollplan", "fish": "rollplan.fish"}

# What packaging/libraries.py makes.
LIBRARIES = (
    "rollplan_local-{version}-cp310-abi3-*.whl",
    "rollplan-{version}-py3-none-any.whl",
    "rollplan-{version}.tar.gz",
    "rollplan-{version}.tgz",
    "rollplan-go-{version}.tar",
    "rollplan-{version}.html",
)


def check_tag(tag: str) -> str:
    """The version of the tag, if this is a clean checkout of it."""
    version = images.version()
    chart = (ROOT / "helm/rollplan/Chart.yaml").read_text()
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, and the version in Cargo.toml is {version}")
    for key in ("version", "appVersion"):
        if not re.search(rf"^{key}: {re.escape(version)}$", chart, re.MULTILINE):
            sys.exit(f"{key} in helm/rollplan/Chart.yaml is not {version}")
    if run("git", "rev-parse", f"{tag}^{{commit}}") != run("git", "rev-parse", "HEAD"):
        sys.exit(f"{tag} is not checked out")
    if changes := run("git", "status", "--porcelain"):
        sys.exit(f"the checkout has changes:\n{changes}")
    return version


def notes(version: str) -> str:
    """The section of a version in the CHANGELOG."""
    text = (ROOT / "CHANGELOG.md").read_text()
    match = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not match or not match[1].strip():
        sys.exit(f"CHANGELOG.md has no section {version}")
    return match[1].strip() + "\n"


def commands(binary: pathlib.Path, *parent: str) -> list[tuple[str, ...]]:
    """The command with these words, and those that its help lists, with their own: all but `help` itself."""
    text = subprocess.check_output([binary, *parent, "-h"], text=True)
    listed = text.split("Commands:\n")[1].split("\n\n")[0] if "Commands:\n" in text else ""
    names = [name for name in re.findall(r"^  (\w+) ", listed, re.MULTILINE) if name != "help"]
    return [parent, *(command for name in names for command in commands(binary, *parent, name))]


def man_page(binary: pathlib.Path, command: tuple[str, ...], version: str, epoch: int) -> bytes:
    """A manual page from the help of a command."""
    with tempfile.TemporaryDirectory() as directory:
        # help2man takes the title of the page from the name of the program, and commands have no --version.
        program = pathlib.Path(directory) / "-".join(["rollplan", *command])
        program.write_text(f'#!/bin/sh\nCOLUMNS=80 exec "{binary}" {" ".join(command)} "$@"\n')
        program.chmod(0o755)
        summary = subprocess.check_output([binary, *command, "-h"], text=True).splitlines()[0]
        return subprocess.check_output(
            ["help2man", "--no-info", "--section=1", f"--version-string={version}", f"--name={summary}", program],
            env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )


def binaries(binary: pathlib.Path, version: str, epoch: int) -> bytes:
    """The archive of the command line: the static binary, completions, manual pages and the license."""
    files: dict[str, tuple[bytes, int]] = {
        "rollplan": (binary.read_bytes(), 0o755),
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
    }
    for shell, name in COMPLETIONS.items():
        files[f"completions/{name}"] = (subprocess.check_output([binary, "completions", shell]), 0o644)
    for command in commands(binary):
        name = "-".join(["rollplan", *command])
        files[f"man/{name}.1"] = (man_page(binary, command, version, epoch), 0o644)
    directories = [(f"{name}/", None, 0o755) for name in ("completions", "man")]
    entries = directories + [(name, content, mode) for name, (content, mode) in sorted(files.items())]
    return gzip.compress(images.tar(entries, epoch), 9, mtime=0)


def krew_manifest(tag: str, archive: str, digest: str, url: str) -> str:
    """The manifest of the kubectl plugin. JSON is YAML."""
    return json.dumps(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "rollplan"},
            "spec": {
                "version": tag,
                "shortDescription": "Explain, plan and undo rollouts of Deployments",
                "description": "Shows where a rollout stands and what blocks it, what the Deployment controller would do "
                "next, and how to roll back.",
                "platforms": [
                    {
                        "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
                        "uri": f"{url}/{archive}",
                        "sha256": digest,
                        "files": [{"from": "rollplan", "to": "."}, {"from": "LICENSE", "to": "."}],
                        "bin": "rollplan",
                    }
                ],
            },
        },
        indent=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag")
    parser.add_argument("--url", help="where the files will be; default: https://rollplan.dev/releases/TAG")
    parser.add_argument("--libraries", type=pathlib.Path, default=ROOT / "target/libraries", help="the client libraries")
    parser.add_argument("--rollplan", type=pathlib.Path, help="package this binary instead of building the service")
    args = parser.parse_args()
    version = check_tag(args.tag)
    text = notes(version)
    libraries = sorted(args.libraries.glob("*")) if args.libraries.is_dir() else []
    for pattern in LIBRARIES:
        if len([path for path in libraries if path.match(pattern.format(version=version))]) != 1:
            sys.exit(f"{args.libraries} has no {pattern.format(version=version)}; run: bash tests/run libraries")
    epoch = int(run("git", "log", "-1", "--format=%ct"))
    out = ROOT / f"target/release-{args.tag}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    built = ["--rollplan", str(args.rollplan.resolve())] if args.rollplan else []
    run(sys.executable, "packaging/images.py", *built)
    run(sys.executable, "packaging/chart.py")
    packaged = ROOT / "target/images/amd64"
    for name in images.IMAGES:
        shutil.copyfile(packaged / f"{name}.tar", out / f"{name}-{version}-image-amd64.tar")
        shutil.copyfile(packaged / f"{name}.cdx.json", out / f"{name}-{version}.cdx.json")
    shutil.copyfile(ROOT / f"target/chart/rollplan-{version}.tgz", out / f"rollplan-chart-{version}.tgz")
    for path in libraries:
        shutil.copyfile(path, out / path.name)
    # The contract, as the stage `generated` keeps it.
    contract = sorted((ROOT / "docs/contract").glob("rollplan.v1.*"))
    for path in contract:
        shutil.copyfile(path, out / path.name)
    for kind in ("binpb", "openapi.json"):
        if not (out / f"rollplan.v1.{kind}").exists():
            sys.exit(f"docs/contract/rollplan.v1.{kind} is missing")
    archive = f"rollplan-{version}-linux-amd64.tar.gz"
    (out / archive).write_bytes(binaries(packaged / "rollplan", version, epoch))
    digest = hashlib.sha256((out / archive).read_bytes()).hexdigest()
    url = args.url or f"https://rollplan.dev/releases/{args.tag}"
    (out / "rollplan.yaml").write_text(krew_manifest(args.tag, archive, digest, url) + "\n")
    (out / "NOTES.md").write_text(text)
    shutil.copy(ROOT / "packaging/install.sh", out)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums))
    print(out, "".join(sums), sep="\n", end="")


if __name__ == "__main__":
    main()
