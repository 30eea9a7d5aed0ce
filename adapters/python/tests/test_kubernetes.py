"""Answers of the API server that are not objects, and clusters that cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kubernetes.client
import pytest

from rollplan import Api, ApiError, Key
from rollplan._steps import carry_out
from rollplan.objects import DEPLOYMENT, REPLICA_SET
from rollplan.v1 import plan_pb2

KEY = Key("shop", "web")


@pytest.fixture(params=[b"<html>", b"", b"[]", b"{}", b'{"metadata":{"name":"web"}}', b'{"items":[{}],"metadata":{}}'])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """An API server that answers every request with the same body, and 200."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(request.param)))
            self.end_headers()
            self.wfile.write(request.param)

        do_GET = _answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configuration = kubernetes.client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    client = kubernetes.client.ApiClient(configuration)
    yield Api(client)
    client.rest_client.pool_manager.clear()
    server.shutdown()
    server.server_close()


def test_a_body_that_cannot_be_read_is_an_error_of_the_library(api: Api) -> None:
    with pytest.raises(ApiError, match=r"read Deployment shop/web: unreadable body.* \(200\)"):
        api.get(DEPLOYMENT, KEY)
    with pytest.raises(ApiError, match=r"list replicasets: unreadable body.* \(200\)"):
        api.list_objects(REPLICA_SET, "shop")


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home directory of a user without a kubeconfig."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("variable", [None, ""])
def test_missing_kubeconfig_names_where_it_was_searched(
    variable: str | None, no_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("KUBECONFIG", variable)
    with pytest.raises(ApiError, match=f"KUBECONFIG is not set, {no_cluster}/.kube/config does not exist"):
        Api.from_config()


@pytest.mark.parametrize("text", [None, "", "{{{", "[]", "text", "apiVersion: v1\nkind: Config\n"])
def test_unusable_kubeconfig_is_named(text: str | None, no_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = no_cluster / "kubeconfig"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ApiError, match=f"read the kubeconfig {file}: ."):
        Api.from_config(str(file))
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(ApiError, match=f"read the kubeconfig {file}: ."):
        Api.from_config()


@pytest.mark.parametrize(
    ("server", "cause"),
    [("https://127.0.0.1:1", "Connection refused"), ("http://no-such-host.invalid", "not known|resolution")],
)
def test_api_server_that_does_not_answer_is_named_with_the_cause(server: str, cause: str) -> None:
    api = Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=server)))
    with pytest.raises(ApiError, match=f"read Deployment shop/web: {server}: .*({cause})"):
        api.get(DEPLOYMENT, KEY)
    call = plan_pb2.ApiCall(verb=plan_pb2.VERB_PATCH, path=DEPLOYMENT.path(*KEY))
    [failed] = carry_out(api, [plan_pb2.Step(summary="scale", call=call)])
    assert str(failed).startswith(f"scale: {server}: ")
