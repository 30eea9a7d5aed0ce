"""Raw calls to the Kubernetes API. The official package provides the credentials, but its models would drop fields."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

try:
    import kubernetes.client
    import kubernetes.config
    import urllib3
except ImportError as error:
    raise ImportError("calls to the Kubernetes API need more packages: pip install 'rollplan[kubernetes]'") from error

from rollplan._answer import Answer, read_answer
from rollplan._cancel import Cancellation, interruptible
from rollplan._cause import cause_of
from rollplan._errors import ApiError
from rollplan.objects import REPLICA_SET, Key, Kind, Object

# In seconds. The API server ends a request after a minute.
REQUEST_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
# The number of objects in a page of a list.
PAGE = 500


class Limiter:
    """Limits the rate of requests with a token bucket."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._tokens, self._at = float(burst), time.monotonic()
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
            self._at = now
            self._tokens -= 1
            delay = max(0.0, -self._tokens / self._rate)
        if delay:
            time.sleep(delay)


class Api:
    """An API server."""

    def __init__(
        self,
        client: kubernetes.client.ApiClient,
        *,
        user_agent: str = "rollplan-python",
        limiter: Limiter | None = None,
    ) -> None:
        self._client, self._user_agent, self._limiter = client, user_agent, limiter
        self._host = str(client.configuration.host).rstrip("/")

    @classmethod
    def from_config(
        cls, kubeconfig: str | None = None, *, user_agent: str = "rollplan-python", limiter: Limiter | None = None
    ) -> Api:
        """The cluster of a kubeconfig, or of KUBECONFIG or ~/.kube/config; inside a cluster without one, that cluster.

        Raises ApiError if there is none, or if it cannot be read.
        """
        configuration = kubernetes.client.Configuration()
        named = kubeconfig or os.environ.get("KUBECONFIG")
        path = named or os.path.expanduser("~/.kube/config")
        what = f"read the kubeconfig {path}"
        try:
            if named or os.path.exists(path):
                kubernetes.config.load_kube_config(path, client_configuration=configuration)
            else:
                what = f"find a cluster: KUBECONFIG is not set, {path} does not exist, and this is not a pod of a cluster"
                kubernetes.config.load_incluster_config(client_configuration=configuration)
        except Exception as error:  # of the package, of its parser of YAML, and of the operating system
            raise ApiError(what, 0, f"{type(error).__name__}: {error}") from error
        configuration.connection_pool_maxsize = 64
        return cls(kubernetes.client.ApiClient(configuration), user_agent=user_agent, limiter=limiter)

    def request(
        self,
        method: str,
        path: str,
        query: str = "",
        content_type: str = "",
        body: bytes = b"",
        cancel: Cancellation | None = None,
        *,
        timeout: float = REQUEST_TIMEOUT,
    ) -> Answer:
        """Makes a request once. The caller decides whether to repeat it. Never raises for a failed one."""
        if self._limiter:
            self._limiter.wait()

        def send() -> Answer:
            try:
                response = self._send(method, path, query, content_type, body, min(timeout, CONNECT_TIMEOUT), timeout)
                return Answer(response.status, response.data, server=self._host)
            except urllib3.exceptions.HTTPError as error:
                return self._no_answer(error)

        return interruptible(send, cancel)

    def get(self, kind: Kind, key: Key) -> Object | None:
        """Reads an object. None if it does not exist."""
        answer = self.request("GET", kind.path(key.namespace, key.name))
        if answer.code == 404 and answer.json().get("kind") == "Status":
            return None
        what = f"read {kind.kind} {key}"
        if not answer.ok:
            raise ApiError(what, answer.code, answer.message)
        return read_answer(what, answer, lambda body: Object.from_text(body, kind))

    def list_objects(
        self, kind: Kind, namespace: str = "", selector: str = "", fields: str = "", cancel: Cancellation | None = None
    ) -> tuple[list[Object], str]:
        """Reads all objects of a kind, and the resourceVersion of the list."""
        what = f"list {kind.plural}"
        objects: list[Object] = []
        token = ""
        while True:
            query = _query(limit=str(PAGE), labelSelector=selector, fieldSelector=fields, **{"continue": token})
            answer = self.request("GET", kind.path(namespace), query, cancel=cancel)
            if not answer.ok:
                raise ApiError(what, answer.code, answer.message)
            page, token, version = read_answer(what, answer, lambda body: _read_page(body, kind))
            objects += page
            if not token:
                return objects, version

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        """The objects with these controllers. None stands for objects without a controller."""
        objects, _ = self.list_objects(kind, namespace)
        return [it for it in objects if (it.controller.uid if it.controller else None) in uids]

    def watch(self, kind: Kind, namespace: str, version: str, selector: str, timeout: float) -> Watch:
        """Starts a watch, which the API server ends after a time in seconds."""
        query = _query(
            watch="true",
            resourceVersion=version,
            labelSelector=selector,
            allowWatchBookmarks="true",
            timeoutSeconds=str(int(timeout)),
        )
        try:
            response = self._send("GET", kind.path(namespace), query, "", b"", CONNECT_TIMEOUT, timeout + 30, stream=True)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"watch {kind.plural}", 0, self._no_answer(error).message) from error
        if response.status != 200:
            answer = Answer(response.status, response.data, server=self._host)
            response.release_conn()
            raise ApiError(f"watch {kind.plural}", answer.code, answer.message)
        return Watch(response, kind)

    def replica_sets(self, owner: Object, cancel: Cancellation | None = None) -> list[Object]:
        """The ReplicaSets that the selector of a Deployment matches."""
        if not owner.selector:
            return []
        return self.list_objects(REPLICA_SET, owner.key.namespace, owner.selector, cancel=cancel)[0]

    def _no_answer(self, error: Exception) -> Answer:
        return Answer(0, error=cause_of(error, tls=self._host.startswith("https:")), server=self._host)

    def _send(
        self,
        method: str,
        path: str,
        query: str,
        content_type: str,
        body: bytes,
        connect: float,
        read: float,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers: dict[str, str] = {"Accept": "application/json", "User-Agent": self._user_agent}
        if content_type:
            headers["Content-Type"] = content_type
        # The token may have been renewed since the last request.
        if token := self._client.configuration.auth_settings().get("BearerToken"):
            headers["Authorization"] = token["value"]
        pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        return pool.request(
            method,
            self._host + path + (f"?{query}" if query else ""),
            body=body or None,
            headers=headers,
            timeout=urllib3.Timeout(connect=connect, read=read),
            # The library must not repeat writes.
            retries=False,
            preload_content=not stream,
        )


class Watch:
    """A watch in progress. Iterating gives (type, object) until it ends; a bookmark has the object None."""

    def __init__(self, response: urllib3.BaseHTTPResponse, kind: Kind) -> None:
        self._response, self._kind = response, kind

    def __iter__(self) -> Iterator[tuple[str, Object | None, str]]:
        for line in self._lines():
            yield read_answer(f"watch {self._kind.plural}", Answer(200, line), self._read)

    def _read(self, line: bytes) -> tuple[str, Object | None, str]:
        event = json.loads(line)
        it: Any = event["object"]
        if event["type"] == "ERROR":
            raise ApiError(f"watch {self._kind.plural}", int(it.get("code", 0)), str(it.get("message", "")))
        version = it["metadata"]["resourceVersion"]
        return event["type"], None if event["type"] == "BOOKMARK" else Object.parse(it, self._kind), version

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in self._response.stream(1 << 16, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line)
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            return  # the connection has ended, or close was called

    def close(self) -> None:
        """Ends the watch, even while a thread is waiting for the next event."""
        self._response.shutdown()


def _read_page(body: bytes, kind: Kind) -> tuple[list[Object], str, str]:
    """The objects of a list, the token of the next page, and the resourceVersion."""
    page = json.loads(body)
    objects = [Object.parse(it, kind) for it in page.get("items") or []]
    return objects, page["metadata"].get("continue", ""), page["metadata"]["resourceVersion"]


def _query(**parameters: str) -> str:
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items() if value)
