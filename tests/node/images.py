#!/usr/bin/env python3
"""images.py DIRECTORY NAME=BINARY...: writes OCI archives of binaries and their libraries, for containers that are not part
of the chart."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "packaging"))
import images  # noqa: E402


def libraries(binary: pathlib.Path) -> list[pathlib.Path]:
    """Returns the loader and the shared libraries of a binary."""
    result = subprocess.run(["ldd", binary], capture_output=True, text=True)
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", result.stdout)]


def layer(name: str, binary: pathlib.Path) -> bytes:
    files = {path.relative_to("/"): path for path in libraries(binary)} | {pathlib.Path(name): binary}
    directories = sorted({parent for path in files for parent in path.parents if parent != pathlib.Path(".")})
    return images.tar(
        [(f"{path}/", None, 0o755) for path in directories]
        + [(str(path), source.read_bytes(), 0o755) for path, source in sorted(files.items())],
        0,
    )


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    for argument in sys.argv[2:]:
        name, binary = argument.split("=")
        images.IMAGES[name] = {"entrypoint": [f"/{name}"], "cmd": [], "ports": []}
        content = layer(name, pathlib.Path(binary))
        data, _ = images.archive(
            name, f"localhost/{name}:1", "amd64", {}, content, 0, "1970-01-01T00:00:00Z", compression=1
        )
        (out / f"{name}.tar").write_bytes(data)


if __name__ == "__main__":
    main()
