"""ASGI types and helpers: request bodies, complete responses, error headers."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from math import ceil
from typing import Any, TypeAlias

from ..errors import ToolspeakError, UsageError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

#: Maximum request body, as large as the vendors allow. Coding agents send 100 kB, but images are base64 text.
MAX_BODY = 32 * 1024 * 1024

_MAX_RETRY_AFTER = 86_400.0  # upper bound for `Retry-After`: one day


class ClientDisconnected(ToolspeakError):
    status = 499


class BodyTooLarge(UsageError):
    """The request body exceeds the size limit."""

    status = 413


def header(scope: Scope, name: bytes) -> str:
    """Return a request header, or an empty string."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


def error_headers(error: ToolspeakError, *, final: bool = False) -> Headers:
    """Return the headers of an error response; `final` tells the client not to retry."""
    retry_after: float | None = getattr(error, "retry_after", None)
    headers: Headers = []
    if retry_after is not None:
        headers.append((b"retry-after", str(ceil(min(max(1.0, retry_after), _MAX_RETRY_AFTER))).encode()))
    if final or error.final:
        # Retries are exhausted, or tools have already run. SDKs that know this header then do not retry.
        headers.append((b"x-should-retry", b"false"))
    return [*headers, (b"www-authenticate", b"Bearer")] if error.status == 401 else headers


async def read_body(scope: Scope, receive: Receive, max_bytes: int = MAX_BODY) -> bytes:
    content_length = header(scope, b"content-length")
    if content_length.isdigit() and int(content_length) > max_bytes:
        raise BodyTooLarge(f"the body has {content_length} bytes; the limit is {max_bytes}")
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected("the client disconnected before its request was complete")
        piece = message.get("body", b"")
        size += len(piece)
        if size > max_bytes:
            raise BodyTooLarge(f"the body exceeds {max_bytes} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces) if len(pieces) > 1 else piece


async def respond(
    send: Send, status: int, body: bytes, kind: bytes = b"application/json", headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    length = str(len(body)).encode()
    start = [(b"content-type", kind), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
