"""Probes: /healthz, and /readyz, which fails while the service is unreachable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rollplan._errors import PlannerError


def serve(address: tuple[str, int], check: Callable[[], None]) -> ThreadingHTTPServer:
    """Serves the probes in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = 404, "not found"
            if self.path == "/healthz":
                code, text = 200, "ok"
            elif self.path == "/readyz":
                try:
                    check()
                    code, text = 200, "ok"
                except PlannerError as error:
                    code, text = 500, str(error)
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Probes are not logged."""

    server = ThreadingHTTPServer(address, Handler)
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server
