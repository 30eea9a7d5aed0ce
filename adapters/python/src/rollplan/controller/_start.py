"""Waits at the start until the API server permits what the controller reads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from rollplan.kubernetes import Api
from rollplan.objects import PLANNED_DEPLOYMENT, Kind

log = logging.getLogger("rollplan.controller")

# How long a starting controller repeats lists that the API server does not answer or rejects, in seconds: a starting API
# server rejects everything until it has loaded the roles. It is shorter than the 60 s of the startup probe in the chart.
TIMEOUT = 30.0
# The limits of the delay between these lists.
BACKOFF_MIN, BACKOFF_MAX = 0.5, 5.0


class NoAccessError(Exception):
    """The controller cannot work with its permissions, or on this API server."""


class _NotServedError(NoAccessError):
    """The API server does not serve a kind. Waiting would not help."""


def await_access(
    api: Api,
    kinds: Iterable[Kind],
    namespaces: Iterable[str],
    stop: threading.Event,
    *,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Waits until all kinds can be listed in these namespaces: without permission, a watch would never start."""
    end, delay = now() + TIMEOUT, BACKOFF_MIN
    while not stop.is_set():
        try:
            _check(api, kinds, namespaces)
            return
        except _NotServedError:
            raise
        except NoAccessError as error:
            if now() + delay > end:
                raise NoAccessError(f"no access to the API server after {TIMEOUT:g} s: {error}") from error
            log.warning("no access to the API server yet, trying again in %g s: %s", delay, error)
        stop.wait(delay)
        delay = min(2 * delay, BACKOFF_MAX)


def _check(api: Api, kinds: Iterable[Kind], namespaces: Iterable[str]) -> None:
    for namespace in namespaces:
        for kind in kinds:
            answer = api.request("GET", kind.path(namespace), "limit=1")
            if answer.code == 404 and kind == PLANNED_DEPLOYMENT:
                raise _NotServedError(
                    f"the API server does not serve {kind.kind}: apply adapters/config/planneddeployment-crd.yaml, and wait "
                    "for it with kubectl wait --for=condition=Established crd/planneddeployments.apps.rollplan.dev"
                )
            if not answer.ok:
                raise NoAccessError(f"list {kind.plural}: {answer.message or 'no answer'} ({answer.code})")
