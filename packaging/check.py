#!/usr/bin/env python3
"""Check the images that packaging/images.py has written to target/images: contents, size, user and SBOMs; that a second
checkout of another user, at another path and time and with another umask, gives the same bytes; and that buildah gives the same
layers."""

import gzip
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "target/images/amd64"
# The adapter contains the client libraries of Kubernetes, and those that authenticate the clients of its metrics.
SIZE_MAX = {"rollplan": 15_000_000, "rollplan-controller": 18_000_000}
TARGETS = {"rollplan": "service", "rollplan-controller": "adapter"}


def read_archive(path: pathlib.Path) -> tuple[dict, bytes]:
    """The configuration and the one layer of the image in an OCI archive."""
    with tarfile.open(path) as archive:

        def blob(descriptor: dict) -> bytes:
            return archive.extractfile("blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")).read()

        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]
        manifest = json.loads(blob(entry))
        (layer,) = manifest["layers"]
        return json.loads(blob(manifest["config"])), gzip.decompress(blob(layer))


def is_static(binary: bytes) -> bool:
    """Whether a 64-bit ELF file needs no interpreter."""
    assert binary[:5] == b"\x7fELF\x02"
    offset, size, count = *struct.unpack_from("<Q", binary, 32), *struct.unpack_from("<HH", binary, 54)
    types = [struct.unpack_from("<I", binary, offset + i * size)[0] for i in range(count)]
    return 3 not in types  # PT_INTERP


def check_image(name: str) -> None:
    path = OUT / f"{name}.tar"
    assert path.stat().st_size < SIZE_MAX[name], f"{path} has {path.stat().st_size} bytes"
    config, layer = read_archive(path)
    assert config["config"]["User"] == "65532:65532", config
    for label in ("title", "description", "licenses", "version", "revision", "created"):
        assert config["config"]["Labels"][f"org.opencontainers.image.{label}"], label
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        members = {member.name: member for member in files}
        certificates = "etc/ssl/certs/ca-certificates.crt"
        assert sorted(members) == ["etc", "etc/ssl", "etc/ssl/certs", certificates, name], sorted(members)
        assert all(member.uid == member.gid == 0 and not member.mode & 0o022 for member in members.values())
        assert b"BEGIN CERTIFICATE" in files.extractfile(certificates).read()
        binary = files.extractfile(name).read()
    assert is_static(binary), f"{name} is not static"
    for directory in (str(ROOT), os.path.expanduser("~") + "/"):
        assert directory.encode() not in binary, f"{name} contains the path {directory}"
    print(f"{name}: {path.stat().st_size} bytes, static, user {config['config']['User']}")


def check_sboms() -> None:
    crates = subprocess.check_output(
        ["cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", "rollplan", "--format", "{p}",
         "--target", "x86_64-unknown-linux-gnu"],
        cwd=ROOT, text=True,
    )  # fmt: skip
    want = {tuple(line.split()[:2]) for line in crates.splitlines()} - {("rollplan", "")}
    bom = json.loads((OUT / "rollplan.cdx.json").read_text())
    have = {(it["name"], "v" + it["version"]) for it in bom["components"]}
    missing = {it for it in want if it[0] != "rollplan"} - have
    assert not missing, f"not in the SBOM of the service: {missing}"
    modules = json.loads((OUT / "rollplan-controller.cdx.json").read_text())["components"]
    names = {it["name"] for it in modules}
    assert {"google.golang.org/grpc", "sigs.k8s.io/controller-runtime", "stdlib"} <= names, names
    print(f"SBOMs: {len(bom['components'])} crates, {len(modules)} Go modules")


def check_reproducible(full: bool) -> None:
    """Build again in a second checkout. The service takes minutes to build, so only a full check builds it again, from a copy
    of the compiled dependencies."""
    with tempfile.TemporaryDirectory(prefix="another-checkout-") as directory:
        copy = pathlib.Path(directory) / "elsewhere"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
        subprocess.run(["git", "-C", str(copy), "checkout", "--quiet", head()], check=True)
        if full:
            for part in ("release", "x86_64-unknown-linux-gnu"):
                (copy / "target").mkdir(exist_ok=True)
                subprocess.run(["cp", "-a", ROOT / "target" / part, copy / "target" / part], check=True)
                for unit in (copy / "target" / part).glob("**/.fingerprint/rollplan*"):
                    shutil.rmtree(unit)
        # Files of another user, with another umask and time zone.
        subprocess.run(["chown", "--recursive", "65534:65534", str(copy)], check=True)
        environment = os.environ | {
            # Building WebAssembly again would take minutes.
            "ROLLPLAN_PAGE_FILE": str(ROOT / "target/rollplan.html"),
            "GOFLAGS": "-buildvcs=false", "TZ": "Pacific/Auckland", "USER": "somebody", "LOGNAME": "somebody",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }  # fmt: skip
        environment.pop("CARGO_TARGET_DIR", None)
        arguments = [] if full else ["--rollplan", str(OUT / "rollplan")]
        subprocess.run(
            [sys.executable, str(copy / "packaging/images.py"), *arguments],
            env=environment, umask=0o077, check=True,
        )  # fmt: skip
        for name in ("rollplan", "rollplan-controller", "SHA256SUMS"):
            assert (OUT / name).read_bytes() == (copy / "target/images/amd64" / name).read_bytes(), f"{name} differs"
    print("a second checkout gives the same bytes:", (OUT / "SHA256SUMS").read_text(), sep="\n")


def head() -> str:
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def check_buildah(name: str) -> None:
    """Build the Dockerfile with buildah, which needs no daemon. Nothing is run or pulled by it."""
    config, layer = read_archive(OUT / f"{name}.tar")
    epoch = subprocess.check_output(["date", "--date", config["created"], "+%s"], text=True).strip()
    with tempfile.TemporaryDirectory() as directory:
        buildah = ["buildah", "--storage-driver", "vfs", "--root", f"{directory}/root", "--runroot", f"{directory}/run"]
        subprocess.run(
            [*buildah, "build", "--quiet", "--isolation", "chroot", "--timestamp", epoch,
             "--target", TARGETS[name], "--tag", f"localhost/{name}:test", "--file", str(ROOT / "Dockerfile"), str(OUT)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        archive = pathlib.Path(directory) / "image.tar"
        subprocess.run(
            [*buildah, "push", "--quiet", f"localhost/{name}:test", f"oci-archive:{archive}"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        built, built_layer = read_archive(archive)
    assert built["rootfs"] == config["rootfs"] and built_layer == layer, f"{name}: buildah makes another layer"
    for key in ("User", "Entrypoint", "Cmd", "ExposedPorts"):
        assert (built["config"].get(key) or []) == (config["config"].get(key) or []), f"{name}: {key} differs"
    print(f"{name}: buildah makes the same layer, {config['rootfs']['diff_ids'][0]}")


def main() -> None:
    full = sys.argv[1:] == ["--full"]
    for name in TARGETS:
        check_image(name)
        check_buildah(name)
    check_sboms()
    check_reproducible(full)


if __name__ == "__main__":
    main()
