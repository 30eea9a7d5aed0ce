"""An API server for the examples of the READMEs and their controllers, with ReplicaSets whose pods are ready at once.

    cluster.py FILE

Serves the objects of a file, prints the URL, and ends at the end of its input.
"""

from __future__ import annotations

import copy
import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from world import KINDS, World

# How often a watch looks for changes, in seconds.
WATCH_POLL = 0.02


class Cluster:
    """Serves the objects of an example."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._world = World([it for it in objects if it["kind"] != "Pod"], "2026-11-20T23:30:30Z")
        self._lock = threading.Lock()
        self._closed = threading.Event()
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # for chunks

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if "watch=true" in self.path:
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    cluster.watch(self.path, lambda line: self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line)))
                    self.close_connection = True
                    return
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
            if content_type == "application/merge-patch+json" and "resourceVersion" not in body.decode():
                # A change of the probe for the native controller, which does not run here. The world would reject it,
                # because it requires preconditions.
                return 200, json.dumps({"metadata": {"generation": 1}, "status": {}}).encode()
            if resource == "rollplan-native-controller-probe":
                return 200, json.dumps({"metadata": {"generation": 1}, "status": {}}).encode()
            answer = self._world.call(method, _in_namespace(path), content_type, body)
            if method != "GET":
                self._start_pods()
            return answer.code, answer.body

    def watch(self, path: str, write: Callable[[bytes], object]) -> None:
        """Writes a line for each change after the resourceVersion of the query, until the connection ends."""
        kind = KINDS.get(urlsplit(path).path.rpartition("/")[2])
        since = int(parse_qs(urlsplit(path).query)["resourceVersion"][0])
        known = {uid: it for uid, it in self._objects(kind).items() if int(it["metadata"]["resourceVersion"]) <= since}
        try:
            while not self._closed.is_set():
                found = self._objects(kind)
                events = [("MODIFIED" if uid in known else "ADDED", it) for uid, it in found.items() if it != known.get(uid)]
                events += [("DELETED", it) for uid, it in known.items() if uid not in found]
                known = found
                for event, it in events:
                    write(json.dumps({"type": event, "object": it}).encode() + b"\n")
                time.sleep(WATCH_POLL)
        except OSError:
            return

    def _objects(self, kind: str | None) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {it["metadata"]["uid"]: it for it in self._world.all() if it["kind"] == kind}

    def _start_pods(self) -> None:
        for it in self._world.all():
            size = it["spec"].get("replicas", 1)
            status = {**dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), size)}
            status |= {"observedGeneration": it["metadata"]["generation"], "terminatingReplicas": 0}
            if it["kind"] == "ReplicaSet" and it["status"] != status:
                self._world.put({**copy.deepcopy(it), "status": status})

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()


def _in_namespace(path: str) -> str:
    """The path of a list with the namespace, which is the same for all objects."""
    return path if "/namespaces/" in path else "/namespaces/shop/".join(path.rsplit("/", 1))


def main() -> None:
    [file] = sys.argv[1:]
    cluster = Cluster(json.loads(Path(file).read_text())["items"])
    print(cluster.url, flush=True)
    sys.stdin.read()
    cluster.close()


if __name__ == "__main__":
    main()
