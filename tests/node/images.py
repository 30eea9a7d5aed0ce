#!/usr/bin/env python3
"""images.py DIRECTORY NAME=BINARY...: OCI archives of static binaries, for containers beside those of the chart."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "packaging"))
import images  # noqa: E402


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    for argument in sys.argv[2:]:
        name, binary = argument.split("=")
        images.IMAGES[name] = {"entrypoint": [f"/{name}"], "cmd": [], "ports": []}
        layer = images.layer(name, pathlib.Path(binary).read_bytes(), b"", 0)
        data, _ = images.archive(name, f"localhost/{name}:1", "amd64", {}, layer, 0, "1970-01-01T00:00:00Z")
        (out / f"{name}.tar").write_bytes(data)


if __name__ == "__main__":
    main()
