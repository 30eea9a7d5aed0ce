"""A work queue: it contains each key once, one worker handles a key at a time, and keys can be delayed.

Neither the package kubernetes nor the standard library has one, and that of kopf is internal.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque

from rollplan.objects import Key

# The first and the longest delay after a failure in seconds. The native Deployment controller starts at the same delay, but
# gives up on a Deployment once the delay reaches 82 s. This one keeps retrying.
BACKOFF_MIN = 0.005
BACKOFF_MAX = 30.0


class Queue:
    """A work queue for threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._ready: deque[Key] = deque()
        # Keys in `_ready`, keys that a worker is handling, and keys among them that were added in the meantime.
        self._waiting: set[Key] = set()
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._delayed: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._closed = False

    def add(self, key: Key) -> None:
        """Adds a key, unless it is waiting already."""
        with self._condition:
            self._add(key)

    def add_after(self, key: Key, delay: float) -> None:
        """Adds a key after some seconds."""
        with self._condition:
            heapq.heappush(self._delayed, (time.monotonic() + delay, key))
            self._condition.notify()

    def backoff(self, key: Key) -> float:
        """The delay after another failure of a key. It doubles each time."""
        with self._condition:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        return min(BACKOFF_MIN * 2.0 ** min(failures, 30), BACKOFF_MAX)

    def forget(self, key: Key) -> None:
        """Resets the backoff of a key."""
        with self._condition:
            self._failures.pop(key, None)

    def get(self) -> Key | None:
        """Waits for a key, which the caller returns with `done`. None once the queue is closed."""
        with self._condition:
            while not self._closed:
                wait = self._take_due()
                if self._ready:
                    key = self._ready.popleft()
                    self._waiting.discard(key)
                    self._working.add(key)
                    return key
                self._condition.wait(wait)
            return None

    def done(self, key: Key) -> None:
        """Returns a key. If it was added in the meantime, it is handled again."""
        with self._condition:
            self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._add(key)

    def close(self) -> None:
        """Ends all workers."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def __len__(self) -> int:
        with self._condition:
            return len(self._ready)

    def _add(self, key: Key) -> None:
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._condition.notify()

    def _take_due(self) -> float | None:
        """Moves the keys that are due, and returns the seconds until the next one is due."""
        while self._delayed:
            wait = self._delayed[0][0] - time.monotonic()
            if wait > 0:
                return wait
            self._add(heapq.heappop(self._delayed)[1])
        return None
