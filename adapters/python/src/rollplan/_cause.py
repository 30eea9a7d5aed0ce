"""Why a connection failed."""

from __future__ import annotations

import os

# What a client without TLS reports about a server with TLS: gRPC, httpx and urllib3.
_NOT_PLAIN = ("Socket closed", "illegal request line", "BadStatusLine")


def cause_of(error: BaseException, *, tls: bool) -> str:
    """The cause of the failure of a call. Libraries wrap it in errors that do not always name it."""
    return with_hint(_of_system(error) or f"{type(error).__name__}: {error}", tls=tls)


def with_hint(text: str, *, tls: bool) -> str:
    """The text, and what it means if only one of the client and the server uses TLS."""
    if tls and "WRONG_VERSION_NUMBER" in text:
        return f"the server does not use TLS ({text})"
    if not tls and any(it in text for it in _NOT_PLAIN):
        return f"the connection was closed, perhaps because the server requires TLS ({text})"
    return text


def _of_system(error: BaseException | None) -> str:
    """The error of the operating system or of TLS that another one wraps, or an empty text."""
    while error:
        if isinstance(error, ConnectionError) and error.errno:
            return os.strerror(error.errno)  # the text of asyncio does not name the cause
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        grouped: tuple[BaseException, ...] = getattr(error, "exceptions", ())
        error = error.__cause__ or error.__context__ or next(iter(grouped), None)
    return ""
