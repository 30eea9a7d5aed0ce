"""Raw calls to the Kubernetes API. The official package provides the credentials, but its models would drop fields."""

from __future__ import annotations

import json
import os
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
from rollplan.objects import Key, Kind, Object

# In seconds. The API server ends a request after a minute.
REQUEST_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
# The number of objects in a page of a list.
PAGE = 500


class Api:
    """An API server."""

    def __init__(self, client: kubernetes.client.ApiClient, *, user_agent: str = "rollplan-python") -> None:
        self._client, self._user_agent = client, user_agent
        self._host = str(client.configuration.host).rstrip("/")

    @classmethod
    def from_config(cls, kubeconfig: str | None = None, *, user_agent: str = "rollplan-python") -> Api:
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
        return cls(kubernetes.client.ApiClient(configuration), user_agent=user_agent)

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
        headers: dict[str, str] = {"Accept": "application/json", "User-Agent": self._user_agent}
        if content_type:
            headers["Content-Type"] = content_type
        # The token may have been renewed since the last request.
        if token := self._client.configuration.auth_settings().get("BearerToken"):
            headers["Authorization"] = token["value"]
        pool: urllib3.PoolManager = self._client.rest_client.pool_manager

        def send() -> Answer:
            try:
                response = pool.request(
                    method,
                    self._host + path + (f"?{query}" if query else ""),
                    body=body or None,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=min(timeout, CONNECT_TIMEOUT), read=timeout),
                    # The library must not repeat writes.
                    retries=False,
                )
                return Answer(response.status, response.data, server=self._host)
            except urllib3.exceptions.HTTPError as error:
                return Answer(0, error=cause_of(error, tls=self._host.startswith("https:")), server=self._host)

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

    def list_objects(self, kind: Kind, namespace: str = "", fields: str = "") -> list[Object]:
        """Reads all objects of a kind that a field selector matches."""
        objects: list[Object] = []
        token = ""
        while True:
            answer = self.request(
                "GET", kind.path(namespace), _query(limit=str(PAGE), fieldSelector=fields, **{"continue": token})
            )
            what = f"list {kind.plural}"
            if not answer.ok:
                raise ApiError(what, answer.code, answer.message)
            page, token = read_answer(what, answer, lambda body: _read_page(body, kind))
            objects += page
            if not token:
                return objects

    def controlled_by(self, kind: Kind, namespace: str, uids: set[str | None]) -> list[Object]:
        """The objects with these controllers. None stands for objects without a controller."""
        objects = self.list_objects(kind, namespace)
        return [it for it in objects if (it.controller.uid if it.controller else None) in uids]


def _read_page(body: bytes, kind: Kind) -> tuple[list[Object], str]:
    """The objects of a list, and the token of the next page."""
    page = json.loads(body)
    return [Object.parse(it, kind) for it in page["items"] or []], page["metadata"].get("continue", "")


def _query(**parameters: str) -> str:
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items() if value)
