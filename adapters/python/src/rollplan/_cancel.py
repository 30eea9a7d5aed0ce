"""Cancels a run between its calls, or during a call."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeVar

from rollplan._errors import CancelledError

T = TypeVar("T")


class Cancellation:
    """Cancels the calls that it was passed to. Its methods may be called from any thread and from signal handlers."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Reentrant, because a signal handler may run while its thread holds the lock.
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
    """Makes a call that cannot be interrupted. After a cancellation, the call is abandoned, and its outcome is unknown."""
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
        _WORKERS.run(run)
        return outcome.result()


class _Workers:
    """Threads that wait for the next call: starting one takes longer than a call of the service.

    Unlike those of concurrent.futures, they do not delay the end of the program.
    """

    def __init__(self) -> None:
        self._idle: deque[SimpleQueue[Callable[[], None]]] = deque()

    def run(self, call: Callable[[], None]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="call", daemon=True).start()
        inbox.put(call)

    def _work(self, inbox: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            inbox.get()()
            self._idle.append(inbox)


_WORKERS = _Workers()


def _fail(outcome: Future[T], error: BaseException) -> None:
    with suppress(InvalidStateError):
        outcome.set_exception(error)
