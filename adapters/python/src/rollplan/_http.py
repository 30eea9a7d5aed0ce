"""The service over plain HTTP: Connect, with protobuf or JSON."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx
from google.protobuf import json_format

from rollplan._cancel import Cancellation, interruptible
from rollplan._details import from_connect
from rollplan._errors import PlannerError
from rollplan._transport import SERVICE, Method, Request, Response


class _Codec:
    """The encoding of requests and responses."""

    def __init__(self, json: bool) -> None:
        self._json = json

    def headers(self, timeout: float) -> Mapping[str, str]:
        return {
            "content-type": "application/json" if self._json else "application/proto",
            "connect-protocol-version": "1",
            "connect-timeout-ms": str(max(1, int(timeout * 1000))),
        }

    def encode(self, request: Request) -> bytes:
        if self._json:
            return json_format.MessageToJson(request, indent=None).encode()
        return request.SerializeToString()

    def decode(self, method: Method[Request, Response], answer: httpx.Response) -> Response:
        if answer.status_code != httpx.codes.OK:
            raise from_connect(answer.status_code, answer.content)
        response = method.response()
        try:
            if self._json:
                json_format.Parse(answer.content, response, ignore_unknown_fields=True)
            else:
                response.ParseFromString(answer.content)
        except Exception as error:  # protobuf raises several kinds
            raise PlannerError("internal", f"cannot decode the response: {error}") from error
        return response


def _verify(ca_file: str | None) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=ca_file) if ca_file else True


def _failure(error: httpx.HTTPError) -> PlannerError:
    if isinstance(error, httpx.TimeoutException):
        return PlannerError("deadline_exceeded", "no answer within the deadline")
    return PlannerError("unavailable", str(error) or type(error).__name__)


class HttpTransport:
    """Calls the service over HTTP."""

    def __init__(self, url: str, *, json: bool = False, ca_file: str | None = None) -> None:
        self._client = httpx.Client(base_url=url, verify=_verify(ca_file))
        self._codec = _Codec(json)

    def unary(
        self, method: Method[Request, Response], request: Request, timeout: float, cancel: Cancellation | None
    ) -> Response:
        body, headers = self._codec.encode(request), self._codec.headers(timeout)
        path = f"/{SERVICE}/{method.name}"
        try:
            answer = interruptible(lambda: self._client.post(path, content=body, headers=headers, timeout=timeout), cancel)
        except httpx.HTTPError as error:
            raise _failure(error) from error
        return self._codec.decode(method, answer)

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    """Calls the service over HTTP, in an event loop."""

    def __init__(self, url: str, *, json: bool = False, ca_file: str | None = None) -> None:
        self._client = httpx.AsyncClient(base_url=url, verify=_verify(ca_file))
        self._codec = _Codec(json)

    async def unary(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        body, headers = self._codec.encode(request), self._codec.headers(timeout)
        try:
            answer = await self._client.post(f"/{SERVICE}/{method.name}", content=body, headers=headers, timeout=timeout)
        except httpx.HTTPError as error:
            raise _failure(error) from error
        return self._codec.decode(method, answer)

    async def close(self) -> None:
        await self._client.aclose()
