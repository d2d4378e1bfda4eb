"""HTTP for MCP servers: no way into an inner network that the configuration does not name, no body without end.

Every request is checked and goes to the addresses that were checked; redirects stay at the same host, which the SDK
sees to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ...errors import ToolError
from ...upstreams.ssrf_guard import Resolver, check_address
from .config import McpServer

if TYPE_CHECKING:
    import httpx2

#: Bytes of one answer; as much as of one line of a child process.
MOST_BODY = 16 * 1024 * 1024
#: Who writes one of these means this machine, and nothing else can be meant.
_HERE = ("localhost", "127.0.0.1", "::1")
_CONNECT = 10.0
#: Under what the key of a call goes along with it, in its `_meta`.
KEY = "toolspeak/idempotency-key"


class _Params(msgspec.Struct, frozen=True):
    meta: dict[str, Any] = msgspec.field(name="_meta", default={})


class _Message(msgspec.Struct, frozen=True):
    """What is looked at of a message."""

    params: _Params = _Params()


def key_header(body: bytes) -> dict[str, str]:
    """The header that says again what a call's `_meta` says, for what stands before the server and reads no bodies.

    The spelling, in quotes, is that of the draft `draft-ietf-httpapi-idempotency-key-header`.
    """
    if KEY.encode() not in body:
        return {}
    try:
        key = msgspec.json.decode(body, type=_Message).params.meta.get(KEY)
    except msgspec.DecodeError:
        return {}
    return {"Idempotency-Key": f'"{key}"'} if isinstance(key, str) and key.isalnum() and key.isascii() else {}


def allowed(server: McpServer) -> tuple[str, ...]:
    """The inner hosts that the configuration names: this machine, where the URL says so, and those it allows."""
    host = (urlsplit(server.url).hostname or "").lower()
    return (*server.allow, host) if host in _HERE else server.allow


def guarded_client(
    server: McpServer, resolver: Resolver | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """A client for one server. The environment names no proxy for it, and no certificate."""
    import httpx2

    return httpx2.AsyncClient(
        transport=_guarded(server, resolver),
        headers=server.headers,
        auth=auth,
        follow_redirects=False,
        trust_env=False,
        # A stream may be silent for as long as a call may take.
        timeout=httpx2.Timeout(_CONNECT, read=server.timeout + _CONNECT),
    )


def _guarded(server: McpServer, resolver: Resolver | None) -> httpx2.AsyncBaseTransport:
    import httpx2

    names, secure = allowed(server), server.url.lower().startswith("https:")

    class Body(httpx2.AsyncByteStream):
        """An answer that breaks off when it has no end."""

        def __init__(self, inner: httpx2.AsyncByteStream) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._inner:
                size += len(piece)
                if size > MOST_BODY:
                    raise httpx2.ReadError(f"the answer has more than {MOST_BODY} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Guarded(httpx2.AsyncHTTPTransport):
        """Looks up and checks each host, and connects to what was checked."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if secure and request.url.scheme != "https":  # a redirect, or where its login is said to be
                raise ToolError(f"the MCP server `{server.name}` leads to http, where others can read along")
            pinned = await check_address(str(request.url), allow=names, resolver=resolver)
            checked = httpx2.Request(
                request.method,
                request.url.copy_with(host=pinned.addresses[0]),
                # Its `Host` still is the name.
                headers={**request.headers, **key_header(await request.aread())},
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": pinned.host},
            )
            response = await super().handle_async_request(checked)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = Body(response.stream)
            return response

    return Guarded(trust_env=False, retries=0)
