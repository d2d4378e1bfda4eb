"""The little of ASGI that the hot path needs: types, reading a body, answering at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from math import ceil
from typing import Any, TypeAlias

from ..errors import ToolspeakError, UsageError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

#: Coding agents send 100 kB as a matter of course, pictures come as text: as large as the vendors allow.
MAX_BODY = 32 * 1024 * 1024

#: Nobody is told to wait longer than a day.
_LONGEST_WAIT = 86_400.0


class ClientGone(ToolspeakError):
    """The client closed its connection; there is nobody to answer."""

    status = 499


class BodyTooLarge(UsageError):
    """The body of a request is larger than this server takes."""

    status = 413


def header(scope: Scope, name: bytes) -> str:
    """A header of the request, or nothing."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


def error_headers(error: ToolspeakError, *, final: bool = False) -> Headers:
    """What clients look for in the head of an answer that is an error. `final`: to ask again would do harm."""
    wait: float | None = getattr(error, "retry_after", None)
    headers: Headers = []
    if wait is not None:
        headers.append((b"retry-after", str(ceil(min(max(1.0, wait), _LONGEST_WAIT))).encode()))
    if final or error.final:
        # It was asked again already, as often as is allowed, or tools have run: SDKs that see this do not do it again.
        headers.append((b"x-should-retry", b"false"))
    return [*headers, (b"www-authenticate", b"Bearer")] if error.status == 401 else headers


async def read_body(scope: Scope, receive: Receive, most: int = MAX_BODY) -> bytes:
    """The whole body of a request."""
    announced = header(scope, b"content-length")
    if announced.isdigit() and int(announced) > most:
        raise BodyTooLarge(f"the body has {announced} bytes; at most {most} are taken")
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client left before its request was complete")
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise BodyTooLarge(f"the body has more than {most} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces) if len(pieces) > 1 else piece


async def respond(
    send: Send, status: int, body: bytes, kind: bytes = b"application/json", headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """A whole answer."""
    length = str(len(body)).encode()
    start = [(b"content-type", kind), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
