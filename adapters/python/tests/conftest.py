import json
import os
import subprocess
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def binary() -> str:
    return os.environ["ROLLPLAN_BIN"]


@pytest.fixture(scope="session")
def address(binary: str) -> Iterator[str]:
    """The address of a service."""
    with subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        for line in server.stderr:
            if (found := "listening on ") in (message := json.loads(line)["message"]):
                yield message.removeprefix(found)
                break
        server.kill()  # a graceful shutdown would wait for load balancers
