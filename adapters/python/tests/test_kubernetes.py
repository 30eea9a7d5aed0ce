"""Answers of the API server that are not objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kubernetes.client
import pytest

from rollplan import Api, ApiError, Key
from rollplan._state import OwnerState
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

        do_GET = do_PATCH = _answer  # noqa: N815

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


@pytest.mark.parametrize("api", [b"<html>\n", b"[]\n", b"{}\n", b'{"type":"ADDED","object":{}}\n'], indirect=True)
def test_a_watch_that_cannot_be_read_is_an_error_of_the_library(api: Api) -> None:
    with pytest.raises(ApiError, match=r"watch replicasets: unreadable body.* \(200\)"):
        list(api.watch(REPLICA_SET, "shop", "1", "", 30.0))


def test_a_write_with_an_unreadable_answer_raises_doubts(api: Api) -> None:
    call = plan_pb2.ApiCall(verb=plan_pb2.VERB_PATCH, path=REPLICA_SET.path(*KEY), kind="ReplicaSet", name="web")
    state = OwnerState("u", verified=True)
    with pytest.raises(ApiError, match="write ReplicaSet web: unreadable body"):
        list(carry_out(api, [plan_pb2.Step(call=call)], state, None))
    assert not state.verified
