import threading
import time

import pytest

from rollplan import Cancellation, CancelledError
from rollplan._cancel import interruptible


def test_hanging_call_is_abandoned() -> None:
    cancel, release = Cancellation(), threading.Event()
    started = threading.Event()

    def call() -> int:
        started.set()
        release.wait()
        return 1

    threading.Thread(target=lambda: (started.wait(), cancel.cancel())).start()
    with pytest.raises(CancelledError):
        interruptible(call, cancel)
    release.set()


def test_results_and_errors_are_returned() -> None:
    assert interruptible(lambda: 1, Cancellation()) == 1
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, Cancellation())
    assert interruptible(lambda: 2, None) == 2


def test_nothing_is_called_after_a_cancellation() -> None:
    cancel = Cancellation()
    cancel.cancel()
    cancel.cancel()
    assert cancel.cancelled
    with pytest.raises(CancelledError):
        interruptible(lambda: pytest.fail("called"), cancel)
    start = time.monotonic()
    with pytest.raises(CancelledError):
        cancel.sleep(60)
    assert time.monotonic() - start < 30
