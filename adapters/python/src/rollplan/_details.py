"""Details of errors: the same messages with gRPC and with Connect."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from contextlib import suppress

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from rollplan._errors import PlannerError

# Codes of Connect for answers that are not those of the service but, for example, of a proxy.
HTTP_CODES = {400: "internal", 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented"}
HTTP_CODES |= dict.fromkeys((429, 502, 503, 504), "unavailable")


def from_status(code: str, message: str, status: bytes | None) -> PlannerError:
    """An error of gRPC, with the bytes of grpc-status-details-bin."""
    details: list[tuple[str, bytes]] = []
    if status:
        with suppress(DecodeError):
            details = [(it.type_url.rpartition("/")[2], it.value) for it in Status.FromString(status).details]
    return _error(code, message, details)


def from_connect(http_code: int, body: bytes) -> PlannerError:
    """An error of Connect, or the page of a proxy."""
    try:
        error = json.loads(body)
        code, message = str(error["code"]), str(error.get("message", ""))
        details = [(str(it["type"]), _base64(str(it["value"]))) for it in error.get("details", [])]
    except (ValueError, KeyError, TypeError):
        return PlannerError(HTTP_CODES.get(http_code, "unknown"), f"HTTP {http_code}, but not from the service")
    return _error(code, message, details)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""


def _error(code: str, message: str, details: Iterable[tuple[str, bytes]]) -> PlannerError:
    found = PlannerError(code, message)
    for name, value in details:
        with suppress(DecodeError):
            if name == "google.rpc.RetryInfo":
                delay = RetryInfo.FromString(value).retry_delay
                found.retry_after = delay.seconds + delay.nanos / 1e9
            elif name == "google.rpc.ErrorInfo":
                info = ErrorInfo.FromString(value)
                found.reason, found.metadata = info.reason, dict(info.metadata)
    return found
