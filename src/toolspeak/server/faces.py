"""The protocols that clients speak, by name: one row each.

Above: `exchange`. Below: the codecs under `protocols`, each imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol

import msgspec

from ..core.events import Event
from ..core.model import JSONValue, Request
from ..errors import ToolspeakError

__all__ = ["Encoder", "Face", "face"]


class Encoder(Protocol):
    """Writes one streamed answer."""

    def encode(self, events: Sequence[Event], /) -> bytes:
        """The bytes that these events are."""
        ...

    def close(self, extension: Mapping[str, JSONValue] | None = None) -> bytes:
        """The last bytes."""
        ...


class Face(msgspec.Struct, frozen=True):
    """What the server needs to know of a protocol."""

    name: str
    decode: Callable[..., Request]
    encoder: Callable[..., Encoder]
    reply: Callable[..., bytes]
    error: Callable[[ToolspeakError], tuple[int, bytes]]
    #: What an id of an answer begins with.
    id_prefix: str
    #: The content type of a stream, and what keeps an idle one alive.
    stream_type: bytes = b"text/event-stream; charset=utf-8"
    keep_alive: bytes = b": keep-alive\n\n"


class _Row(msgspec.Struct, frozen=True):
    id_prefix: str
    stream_type: bytes = b"text/event-stream; charset=utf-8"
    keep_alive: bytes = b": keep-alive\n\n"


_ROWS = {
    "openai_chat": _Row("chatcmpl-"),
    "openai_responses": _Row("resp_"),
    "anthropic": _Row("msg_", keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n'),
    "gemini": _Row(""),
    "ollama": _Row("", b"application/x-ndjson", b""),
}


@cache
def face(name: str) -> Face:
    """The face of that name."""
    row = _ROWS[name]
    codec = import_module(f"toolspeak.protocols.{name}")
    return Face(
        name,
        codec.decode_request,
        codec.ReplyEncoder,
        codec.encode_reply,
        codec.encode_error,
        row.id_prefix,
        row.stream_type,
        row.keep_alive,
    )
