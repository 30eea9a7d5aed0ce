"""Answers of the API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rollplan._errors import ApiError
from rollplan.objects import Json

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """An answer of the API server. The code is 0 if there was none."""

    code: int
    body: bytes = b""
    # The cause if the API server did not answer.
    error: str = ""
    # The address of the API server.
    server: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300

    def json(self) -> Json:
        """The body if it is a JSON object, or otherwise an empty one."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    @property
    def message(self) -> str:
        """The message of the API server, or the address with what was received instead of one."""
        if message := str(self.json().get("message", "")):
            return message
        text = self.error or self.body[:200].decode(errors="replace")
        return f"{self.server}: {text}" if self.server and text else text


def read_answer(what: str, answer: Answer, read: Callable[[bytes], T]) -> T:
    """Reads a body. Raises ApiError if it is unexpected, for example the error page of a proxy."""
    try:
        return read(answer.body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ApiError(what, answer.code, f"unreadable body: {type(error).__name__}: {error}") from error
