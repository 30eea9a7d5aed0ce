"""A cache of the objects of a kind, kept up to date by a watch.

The informer of the package kubernetes (37) is not used. While watches fail, it repeats them without a delay. Its watches have
no deadline, so a broken connection can stop them forever, and its lists have no pages. It does not resume raw objects at the
last version, does not pass the old object to handlers, and continues after a bug in one.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from rollplan._errors import ApiError
from rollplan.kubernetes import Api, Watch
from rollplan.objects import Key, Kind, Object

log = logging.getLogger("rollplan.controller")

# The duration of a watch in seconds. The API server spreads the ends of watches. The first and the longest delay after
# a failure.
WATCH_TIME = 300.0
RETRY_MIN, RETRY_MAX = 0.1, 5.0

# Called with the old and the new version of an object. None if it was created or deleted.
Handler = Callable[[Object | None, Object | None], None]


class Cache:
    """The objects of a kind, in one namespace or in all."""

    def __init__(self, api: Api, kind: Kind, namespace: str, handler: Handler, selector: str = "") -> None:
        self.kind = kind
        self._api, self._namespace, self._selector, self._handler = api, namespace, selector, handler
        self._lock = threading.Lock()
        self._objects: dict[Key, Object] = {}
        self._controlled: dict[tuple[str, str | None], dict[Key, Object]] = {}
        self._stopping = threading.Event()
        self._synced = threading.Event()
        self._watch: Watch | None = None
        # The resourceVersion up to which the objects are known. Empty if they must be listed.
        self._version = ""
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)

    # --- reading

    def get(self, key: Key) -> Object | None:
        with self._lock:
            return self._objects.get(key)

    def controlled_by(self, namespace: str, uid: str | None) -> list[Object]:
        """The objects of a controller. None stands for objects without one."""
        with self._lock:
            return list(self._controlled.get((namespace, uid), {}).values())

    def all(self) -> list[Object]:
        with self._lock:
            return list(self._objects.values())

    # --- the watch

    def start(self) -> None:
        self._thread.start()

    def wait_for_sync(self, stop: threading.Event) -> None:
        """Waits until the first list has been read, or until it is stopped."""
        while not self._synced.wait(0.1) and not stop.is_set():
            pass

    def stop(self) -> None:
        self._stopping.set()
        if self._watch:
            self._watch.close()

    def _run(self) -> None:
        delay = RETRY_MIN
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._version = self._list()
                self._follow()
                delay = RETRY_MIN
            except ApiError as error:
                if error.code in (404, 410):
                    self._version = ""  # it is too old
                level = logging.INFO if error.code == 410 else logging.WARNING
                log.log(level, "%s", error)
                self._stopping.wait(delay * (1 + random.random()))
                delay = min(delay * 2, RETRY_MAX)

    def _list(self) -> str:
        objects, version = self._api.list_objects(self.kind, self._namespace, self._selector)
        listed = {it.key for it in objects}
        for it in objects:
            self._put(it)
        for gone in [it for it in self.all() if it.key not in listed]:
            self._remove(gone)
        self._synced.set()
        return version

    def _follow(self) -> None:
        """Follows a watch to its end."""
        self._watch = watch = self._api.watch(self.kind, self._namespace, self._version, self._selector, WATCH_TIME)
        for event, it, version in watch:
            self._version = version
            if it and event == "DELETED":
                self._remove(it)
            elif it:
                self._put(it)
            if self._stopping.is_set():
                watch.close()

    def _put(self, it: Object) -> None:
        with self._lock:
            before = self._objects.get(it.key)
            if before and before.uid == it.uid and before.version >= it.version:
                return
            if before:
                self._unindex(before)
            self._objects[it.key] = it
            self._controlled.setdefault(_index(it), {})[it.key] = it
        self._handler(before, it)

    def _remove(self, it: Object) -> None:
        with self._lock:
            before = self._objects.get(it.key)
            if before is None or before.uid != it.uid:
                return
            del self._objects[it.key]
            self._unindex(before)
        self._handler(before, None)

    def _unindex(self, it: Object) -> None:
        index = _index(it)
        self._controlled[index].pop(it.key, None)
        if not self._controlled[index]:
            del self._controlled[index]


def _index(it: Object) -> tuple[str, str | None]:
    return it.key.namespace, it.controller.uid if it.controller else None
