#!/usr/bin/env python3
"""Test install.sh with a local server that has one release."""

import functools
import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
import threading

SCRIPT = pathlib.Path(__file__).resolve().parent / "install.sh"
PROGRAM = b"#!/bin/sh\necho rollplan 1.2.3\n"
ARCHIVE = "rollplan-1.2.3-linux-amd64.tar.gz"


def archive() -> bytes:
    """The archive of a release, with only the program."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        entry = tarfile.TarInfo("rollplan")
        entry.size, entry.mode = len(PROGRAM), 0o755
        files.addfile(entry, io.BytesIO(PROGRAM))
    return buffer.getvalue()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def install(*args: str | pathlib.Path, path: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables | ({"PATH": path} if path else {})
    return subprocess.run(["/bin/sh", SCRIPT, *args], env=environment, capture_output=True, text=True, check=False)


def refused(result: subprocess.CompletedProcess[str], reason: str, target: pathlib.Path) -> None:
    assert result.returncode == 1 and reason in result.stderr, (reason, result)
    assert not target.exists(), f"{reason}: {list(target.iterdir())}"


def check(served: pathlib.Path, home: pathlib.Path, releases: str) -> None:
    release = served / "v1.2.3"
    release.mkdir()
    content = archive()
    (release / ARCHIVE).write_bytes(content)
    sums = f"{hashlib.sha256(content).hexdigest()}  {ARCHIVE}\n"
    (release / "SHA256SUMS").write_text(f"{'0' * 64}  NOTES.md\n{sums}")
    variables = {"ROLLPLAN_RELEASES": releases, "HOME": str(home)}
    target = home / "bin"

    refused(install(**variables), "usage:", target)
    refused(install("../1", target, **variables), "is not a version", target)
    refused(install("9.9.9", target, **variables), "cannot download", target)
    tools = home / "tools"
    tools.mkdir()
    (tools / "uname").write_text("#!/bin/sh\necho Plan9\n")
    (tools / "uname").chmod(0o755)
    refused(install("1.2.3", target, path=f"{tools}:{os.environ['PATH']}", **variables), "no binary for Plan9", target)
    (release / ARCHIVE).write_bytes(content + b"\0")
    refused(install("1.2.3", target, **variables), "nothing is installed", target)
    (release / ARCHIVE).write_bytes(content)
    (release / "SHA256SUMS").write_text("")
    refused(install("1.2.3", target, **variables), "does not list", target)
    (release / "SHA256SUMS").write_text(sums)

    result = install("v1.2.3", target, **variables)
    assert result.returncode == 0, result
    assert result.stdout == f"installed rollplan 1.2.3 as {target}/rollplan\nadd {target} to your PATH\n", result
    assert (target / "rollplan").read_bytes() == PROGRAM
    assert [path.name for path in target.iterdir()] == ["rollplan"]
    # Again, with wget, to the default directory, which is on the PATH.
    for tool in ("wget", "sha256sum", "tar", "gzip", "awk", "cut", "cp", "mv", "mkdir", "mktemp", "rm", "sh"):
        (tools / tool).symlink_to(pathlib.Path("/usr/bin") / tool)
    (tools / "uname").unlink()
    (tools / "uname").symlink_to("/usr/bin/uname")
    local = home / ".local/bin"
    result = install("1.2.3", path=f"{tools}:{local}", **variables)
    assert (result.returncode, result.stdout) == (0, f"installed rollplan 1.2.3 as {local}/rollplan\n"), result


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        served, home = pathlib.Path(directory) / "served", pathlib.Path(directory) / "home"
        served.mkdir()
        home.mkdir()
        handler = functools.partial(Quiet, directory=served)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            check(served, home, f"http://127.0.0.1:{server.server_port}")
            server.shutdown()


if __name__ == "__main__":
    main()
