#!/usr/bin/env python3
"""Package the chart as target/chart/rollplan-VERSION.tgz: the files that `helm package` would include, with fixed owners,
modes and times, so that the same commit gives the same digest."""

import gzip
import hashlib
import os
import pathlib
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402


def main() -> None:
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or images.run("git", "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as directory:
        helm = os.environ.get("HELM4", "helm")
        images.run(helm, "package", "helm/rollplan", "--destination", directory)
        (packaged,) = pathlib.Path(directory).iterdir()
        with tarfile.open(packaged) as archive:
            files = {file.name: archive.extractfile(file).read() for file in archive if file.isfile()}
        name = packaged.name
    # Helm expects Chart.yaml first.
    order = sorted(files, key=lambda path: (not path.endswith("/Chart.yaml"), path))
    data = gzip.compress(images.tar([(path, files[path], 0o644) for path in order], epoch), 9, mtime=0)
    out = images.ROOT / "target/chart"
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {out / name}")


if __name__ == "__main__":
    main()
