"""Retries of calls to the service. Every call can be retried, because none has side effects."""

from __future__ import annotations

import random

from rollplan._errors import PlannerError

# Low, because callers have a work queue or a loop that retries later.
ATTEMPTS_MAX = 3
# In seconds; doubles with each attempt.
FIRST_DELAY = 0.1


def retry_delay(error: PlannerError, attempt: int) -> float | None:
    """The seconds until the next attempt, or None if there is none. Attempts are counted from 1."""
    if not error.retryable or attempt >= ATTEMPTS_MAX:
        return None
    delay = FIRST_DELAY * 2 ** (attempt - 1) if error.retry_after is None else error.retry_after
    # Jitter keeps the clients of a restarted service from calling it all at once.
    return delay * (1 + random.random() / 2)
