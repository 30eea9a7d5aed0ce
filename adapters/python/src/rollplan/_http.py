"""The service over plain HTTP: Connect, with protobuf or JSON."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx
from google.protobuf import json_format

from rollplan._cancel import Cancellation, interruptible
from rollplan._cause import cause_of
from rollplan._details import from_connect
from rollplan._errors import PlannerError
from rollplan._transport import PORT_MAX, SERVICE, Method, Request, Response, trusting

# A name with a label that is too long is an error of the encoding.
FAILURES = (httpx.HTTPError, UnicodeError)


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
            try:
                return json_format.MessageToJson(request, indent=None).encode()
            except json_format.Error as error:
                raise PlannerError("invalid_argument", f"cannot encode the request as JSON: {error}") from error
        return request.SerializeToString()

    def decode(self, method: Method[Request, Response], answer: httpx.Response, url: httpx.URL) -> Response:
        if answer.status_code != httpx.codes.OK:
            raise from_connect(answer.status_code, answer.content).located(_address(url))
        response = method.response()
        try:
            if self._json:
                json_format.Parse(answer.content, response, ignore_unknown_fields=True)
            else:
                response.ParseFromString(answer.content)
        except Exception as error:  # protobuf raises several kinds
            raise PlannerError("internal", f"cannot decode the response: {error}").located(_address(url)) from error
        return response


def _verify(ca_file: str | None) -> ssl.SSLContext | bool:
    return trusting(ca_file) if ca_file else True


def _parse(url: str) -> httpx.URL:
    """The base of all URLs. Refuses addresses that httpx refuses only in a call, as if the service were not available."""
    try:
        parsed = httpx.URL(url)
        if parsed.scheme in ("http", "https") and parsed.host and (parsed.port or 0) <= PORT_MAX:
            return parsed
    except (httpx.InvalidURL, TypeError):
        pass
    raise PlannerError("invalid_argument", f'address {url!r} of the service: must be a URL such as "http://127.0.0.1:50051"')


def _failure(error: Exception, url: httpx.URL) -> PlannerError:
    if isinstance(error, httpx.TimeoutException):
        return PlannerError("deadline_exceeded", "no answer within the deadline").located(_address(url))
    return PlannerError("unavailable", cause_of(error, tls=url.scheme == "https")).located(_address(url))


def _address(url: httpx.URL) -> str:
    # A password may be in the URL.
    return str(url.copy_with(userinfo=b"")).rstrip("/")


class HttpTransport:
    """Calls the service over HTTP."""

    def __init__(self, url: str, *, json: bool = False, ca_file: str | None = None) -> None:
        self._client = httpx.Client(base_url=_parse(url), verify=_verify(ca_file))
        self._codec = _Codec(json)

    def unary(
        self, method: Method[Request, Response], request: Request, timeout: float, cancel: Cancellation | None
    ) -> Response:
        body, headers = self._codec.encode(request), self._codec.headers(timeout)
        path = f"/{SERVICE}/{method.name}"
        try:
            answer = interruptible(lambda: self._client.post(path, content=body, headers=headers, timeout=timeout), cancel)
        except FAILURES as error:
            raise _failure(error, self._client.base_url) from error
        return self._codec.decode(method, answer, self._client.base_url)

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    """Calls the service over HTTP, in an event loop."""

    def __init__(self, url: str, *, json: bool = False, ca_file: str | None = None) -> None:
        self._client = httpx.AsyncClient(base_url=_parse(url), verify=_verify(ca_file))
        self._codec = _Codec(json)

    async def unary(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        body, headers = self._codec.encode(request), self._codec.headers(timeout)
        try:
            answer = await self._client.post(f"/{SERVICE}/{method.name}", content=body, headers=headers, timeout=timeout)
        except FAILURES as error:
            raise _failure(error, self._client.base_url) from error
        return self._codec.decode(method, answer, self._client.base_url)

    async def close(self) -> None:
        await self._client.aclose()
