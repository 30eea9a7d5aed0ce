"""Cancelling a run: between its calls, and while one is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import TypeVar

from rollplan._errors import CancelledError

T = TypeVar("T")


class Cancellation:
    """Cancels whatever it was given to. Its methods may be called from any thread, and from signal handlers."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Reentrant: a signal handler may run while its own thread is in here.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """Cancels. Repeating it has no effect."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raises CancelledError if it was cancelled."""
        if self._event.is_set():
            raise CancelledError("cancelled")

    def sleep(self, seconds: float) -> None:
        """Sleeps, and raises CancelledError as soon as it is cancelled."""
        self._event.wait(seconds)
        self.check()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Calls back when it is cancelled within the block."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)


def interruptible(call: Callable[[], T], cancel: Cancellation | None) -> T:
    """Makes a call that cannot be interrupted itself. When it is cancelled it is left alone, and its outcome is unknown."""
    if cancel is None:
        return call()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            _fail(outcome, error)
        else:
            with suppress(InvalidStateError):  # it was cancelled before
                outcome.set_result(result)

    with cancel.calling(lambda: _fail(outcome, CancelledError("cancelled"))):
        threading.Thread(target=run, daemon=True).start()
        return outcome.result()


def _fail(outcome: Future[T], error: BaseException) -> None:
    with suppress(InvalidStateError):
        outcome.set_exception(error)
