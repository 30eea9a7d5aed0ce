"""Probes: /healthz, and /readyz, which fails while the service is unreachable."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rollplan._errors import PlannerError

log = logging.getLogger("rollplan.controller")


class Readiness:
    """Checks whether the controller is ready. It logs each change, with the reason."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._lock = threading.Lock()
        self._reported: str | None = None

    def __call__(self) -> None:
        """Raises PlannerError while the service is not reachable or not healthy."""
        try:
            self._check()
        except PlannerError as error:
            self._report(str(error))
            raise
        self._report("")

    def _report(self, reason: str) -> None:
        with self._lock:
            if reason == self._reported:
                return
            self._reported = reason
        if reason:
            log.warning("not ready: the service does not answer: %s", reason)
        else:
            log.info("ready")


def serve(address: tuple[str, int], check: Callable[[], None]) -> ThreadingHTTPServer:
    """Serves the probes in a thread."""
    readiness = Readiness(check)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = 404, "not found"
            if self.path == "/healthz":
                code, text = 200, "ok"
            elif self.path == "/readyz":
                try:
                    readiness()
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
