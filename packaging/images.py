#!/usr/bin/env python3
"""Build the images of the service and of the Go adapter as OCI archives, without a daemon.

The archives can be imported with `ctr images import`, or pushed with `skopeo copy oci-archive:FILE docker://IMAGE`.
Each image contains a static binary and CA certificates, nothing else. The same commit gives the same digests in any
directory, with any umask and at any time, if the versions of the compilers and of glibc are the same. The
Dockerfile builds the same layers from the files that this script leaves in the output directory.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CERTIFICATES = "ca-certificates.crt"
# Neither user nor group exists in the image, and none is needed.
USER = "65532:65532"
RUST_TARGETS = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}

IMAGES = {
    "rollplan": {
        "description": "The decisions of the Kubernetes Deployment controller, as a gRPC service",
        "entrypoint": ["/rollplan"],
        "cmd": ["serve", "--listen", "0.0.0.0:50051", "--http-listen", "0.0.0.0:9464"],
        "ports": ["50051/tcp", "9464/tcp"],
    },
    "rollplan-controller": {
        "description": "A controller for Deployments that carries out the plans of rollplan",
        "entrypoint": ["/rollplan-controller"],
        "cmd": [],
        "ports": ["8080/tcp", "8081/tcp"],
    },
}


def run(*command: str, **environment: str) -> str:
    """Run a program in the repository and return its standard output."""
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return result.stdout


def version() -> str:
    """The version of the workspace, which is also the appVersion of the chart."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def build_service(arch: str, revision: str) -> pathlib.Path:
    """Build the service with the page as a static binary that contains no path of this machine."""
    page = pathlib.Path(os.environ.get("ROLLPLAN_PAGE_FILE") or ROOT / "target/rollplan.html")
    if not page.exists():
        sys.exit(f"{page} is missing; run: bash tests/run build_page")
    target = RUST_TARGETS[arch]
    run(
        "packaging/release-cargo.sh", "build", "--release", "--locked", "--bin", "rollplan", "--features", "page",
        "--target", target, ROLLPLAN_COMMIT=revision, ROLLPLAN_PAGE_FILE=str(page),
    )  # fmt: skip
    target_dir = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target_dir / target / "release/rollplan"


def build_controller(arch: str, out: pathlib.Path) -> pathlib.Path:
    """Build the Go adapter as a static binary."""
    binary = out / "rollplan-controller"
    run(
        "go", "-C", "adapters/go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
        "-o", str(binary), "./cmd/rollplan-controller",
        CGO_ENABLED="0", GOOS="linux", GOARCH=arch,
    )  # fmt: skip
    return binary


def service_sbom(arch: str, epoch: int) -> dict:
    """The crates in the service, listed by cargo-cyclonedx."""
    name = "rollplan-sbom"
    run(
        "cargo", "cyclonedx", "--format", "json", "--spec-version", "1.5",
        "--no-build-deps", "--target", RUST_TARGETS[arch], "--override-filename", name,
        SOURCE_DATE_EPOCH=str(epoch),
    )  # fmt: skip
    # cargo-cyclonedx writes one file beside each Cargo.toml of the workspace.
    text = (ROOT / f"{name}.json").read_text()
    for path in ROOT.glob(f"**/{name}.json"):
        path.unlink()
    bom = json.loads(text.replace(ROOT.as_uri(), "file:///src"))
    bom.pop("serialNumber", None)  # random
    return bom


def controller_sbom(binary: pathlib.Path, epoch_text: str) -> dict:
    """The modules in the Go adapter, read from its build information."""
    info = json.loads(run("go", "version", "-m", "-json", str(binary)))

    def component(module: dict) -> dict:
        module = module.get("Replace") or module
        purl = f"pkg:golang/{module['Path']}@{module['Version']}"
        return {"type": "library", "bom-ref": purl, "name": module["Path"], "version": module["Version"], "purl": purl}

    modules = [component(module) for module in info["Deps"]]
    go = info["GoVersion"].removeprefix("go")
    modules.append({"type": "library", "bom-ref": f"pkg:golang/stdlib@{go}", "name": "stdlib", "version": go,
                    "purl": f"pkg:golang/stdlib@{go}"})  # fmt: skip
    main = {"type": "application", "bom-ref": "rollplan-controller", "name": info["Main"]["Path"], "version": version()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": epoch_text, "component": main},
        "components": sorted(modules, key=lambda it: it["bom-ref"]),
        "dependencies": [{"ref": main["bom-ref"], "dependsOn": sorted(it["bom-ref"] for it in modules)}],
    }


def tar(entries: list[tuple[str, bytes | None, int]], mtime: int) -> bytes:
    """A tar archive with fixed owners and times: (name, content or None for a directory, mode)."""
    buffer = io.BytesIO()
    for name, content, mode in entries:
        info = tarfile.TarInfo(name)
        info.mtime, info.size = mtime, len(content or b"")
        info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
        header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
        # Container tools include the type of the file in the mode, and write device numbers, here 0. The checksum follows
        # from these.
        header[100:108] = b"%07o\0" % (mode | (stat.S_IFDIR if content is None else stat.S_IFREG))
        header[329:345] = b"0000000\0" * 2
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        buffer.write(header)
        buffer.write(content or b"")
        buffer.write(bytes(-info.size % tarfile.BLOCKSIZE))
    return buffer.getvalue() + bytes(2 * tarfile.BLOCKSIZE)


def layer(name: str, binary: bytes, certificates: bytes, epoch: int) -> bytes:
    """The one layer of an image."""
    return tar(
        [
            ("etc/", None, 0o755),
            ("etc/ssl/", None, 0o755),
            ("etc/ssl/certs/", None, 0o755),
            (f"etc/ssl/certs/{CERTIFICATES}", certificates, 0o644),
            (name, binary, 0o755),
        ],
        epoch,
    )


def archive(
    name: str, reference: str, arch: str, labels: dict, content: bytes, epoch: int, created: str, compression: int = 9
) -> tuple[bytes, str]:
    """An OCI archive with one image, and the digest of its manifest."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data)}

    def encode(value: dict) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    image = IMAGES[name]
    config = {
        "created": created,
        "architecture": arch,
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": {port: {} for port in image["ports"]},
            "Entrypoint": image["entrypoint"],
            "Cmd": image["cmd"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
        "history": [{"created": created, "created_by": "packaging/images.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(encode(config), "config.v1+json"),
        # mtime=0: the header of gzip would contain the time of the build.
        "layers": [blob(gzip.compress(content, compression, mtime=0), "layer.v1.tar+gzip")],
    }
    entry = blob(encode(manifest), "manifest.v1+json")
    digest = entry["digest"]
    entry["annotations"] = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rsplit(":", 1)[1],
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    entries: list[tuple[str, bytes | None, int]] = [
        ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}', 0o644),
        ("index.json", encode(index), 0o644),
        *((f"blobs/sha256/{digest}", data, 0o644) for digest, data in sorted(blobs.items())),
    ]
    return tar(entries, epoch), digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/images", help="default: target/images")
    parser.add_argument("--arch", choices=RUST_TARGETS, default="amd64", help="default: amd64")
    parser.add_argument("--registry", default="localhost", help="prefix of the names of the images; default: localhost")
    parser.add_argument("--tag", default=version(), help="default: the version in Cargo.toml")
    parser.add_argument("--image", choices=IMAGES, action="append", help="build this image only; may be repeated")
    parser.add_argument("--rollplan", type=pathlib.Path, help="package this binary instead of building the service")
    parser.add_argument("--no-sbom", action="store_true", help="skip the SBOMs, for which cargo-cyclonedx is required")
    args = parser.parse_args()

    try:
        import certifi
    except ImportError:
        sys.exit("missing Python package certifi: pip install --require-hashes -r packaging/requirements.lock")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct"))
    revision = run("git", "rev-parse", "HEAD").strip()
    created = subprocess.check_output(["date", "--utc", f"--date=@{epoch}", "+%Y-%m-%dT%H:%M:%SZ"], text=True).strip()
    out = args.out.resolve() / args.arch
    out.mkdir(parents=True, exist_ok=True)
    certificates = pathlib.Path(certifi.where()).read_bytes()
    (out / CERTIFICATES).write_bytes(certificates)
    (out / CERTIFICATES).chmod(0o644)

    for name in args.image or IMAGES:
        binary = out / name
        if name == "rollplan":
            shutil.copyfile(args.rollplan or build_service(args.arch, revision), binary)
        else:
            build_controller(args.arch, out)
        binary.chmod(0o755)
        labels = {
            f"org.opencontainers.image.{key}": value
            for key, value in {
                "title": name,
                "description": IMAGES[name]["description"],
                "licenses": "Apache-2.0",
                "version": args.tag,
                "revision": revision,
                "created": created,
            }.items()
        }
        reference = f"{args.registry}/{name}:{args.tag}"
        content = layer(name, binary.read_bytes(), certificates, epoch)
        data, digest = archive(name, reference, args.arch, labels, content, epoch, created)
        (out / f"{name}.tar").write_bytes(data)
        if not args.no_sbom:
            sbom = service_sbom(args.arch, epoch) if name == "rollplan" else controller_sbom(binary, created)
            (out / f"{name}.cdx.json").write_text(json.dumps(sbom, indent=1, sort_keys=True) + "\n")
        print(f"{reference}@{digest}  {len(data) / 1e6:.1f} MB  {out / name}.tar")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(out.iterdir())
        if re.search(r"\.(tar|cdx\.json)$", path.name)
    ]
    (out / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
