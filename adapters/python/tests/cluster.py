"""An API server for the examples of the README, with ReplicaSets whose pods are ready at once."""

from __future__ import annotations

import copy
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/conformance"))

from world import World  # noqa: E402


class Cluster:
    """Serves the objects of an example."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._world = World([it for it in objects if it["kind"] != "Pod"], "2026-11-20T23:30:30Z")
        self._lock = threading.Lock()
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                code, text = cluster.answer(self.command, self.path, self.headers.get("Content-Type", ""), body)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, bytes]:
        resource = urlsplit(path).path.rpartition("/")[2]
        with self._lock:
            if resource == "events" and method == "POST":
                return 201, body
            if resource in ("pods", "events"):
                return 200, json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}).encode()
            answer = self._world.call(method, path, content_type, body)
            if method != "GET":
                self._start_pods()
            return answer.code, answer.body

    def _start_pods(self) -> None:
        for it in self._world.all():
            size = it["spec"].get("replicas", 1)
            status = {**dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), size)}
            status |= {"observedGeneration": it["metadata"]["generation"], "terminatingReplicas": 0}
            if it["kind"] == "ReplicaSet" and it["status"] != status:
                self._world.put({**copy.deepcopy(it), "status": status})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
