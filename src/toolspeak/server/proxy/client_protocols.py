"""The protocols that clients speak, by name: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Protocol
from urllib.parse import parse_qsl

import msgspec

from ...core.events import Event
from ...core.types import JSONValue, Note, Request
from ...errors import NotKeptError, ToolspeakError


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
    #: Whether a request means what only a store of earlier answers can tell.
    needs_store: Callable[[Request], bool]
    #: What an id of an answer begins with.
    id_prefix: str
    #: The content type of a stream, what keeps an idle one alive, and what does before anything else was said.
    stream_type: bytes
    keep_alive: bytes
    filler: bytes
    #: What of a body the request cannot say.
    seen: Callable[[Mapping[str, JSONValue]], tuple[Note, ...]]
    #: Whether a request without messages asks for a model to be loaded, and nothing else.
    loads: bool
    #: Whether the parts of an answer follow each other in an order that means something: `reply` then takes `events`.
    ordered: bool

    def check(self, request: Request, plan: str, upstream: str) -> None:
        """Refuse what nobody can answer.

        Raises:
            NotKeptError: the request speaks of an earlier answer that nobody has kept.
        """
        if self.needs_store(request) and not self.takes_untouched(plan, upstream):
            hint = "send the whole conversation, and not in the background"
            raise NotKeptError("the response that it goes on from is not kept here, or not any more", hint=hint)

    def takes_untouched(self, plan: str, upstream: str) -> bool:
        """Whether an upstream and a client speak to each other as if nobody stood between them."""
        return upstream == self.name and plan in _UNTOUCHED


#: Plans with which an upstream of the same protocol gets what its own client would send.
_UNTOUCHED = ("pass", "native")


class _Row(msgspec.Struct, frozen=True):
    id_prefix: str
    stream_type: bytes = b"text/event-stream; charset=utf-8"
    filler: bytes = b": keep-alive\n\n"
    #: Where it differs once the answer has begun.
    keep_alive: bytes = b""
    #: The codec, where it is called differently, and what its encoder is told.
    codec: str = ""
    #: Where the codec stands, if not under its own name.
    module: str = ""
    fields: Mapping[str, JSONValue] = {}
    loads: bool = False
    ordered: bool = False


_ROWS = {
    "openai_chat": _Row("chatcmpl-"),
    "openai_responses": _Row("resp_", ordered=True),
    "anthropic": _Row("msg_", keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n', ordered=True),
    # Google's clients take every line that is not empty for data, a comment too.
    "gemini": _Row("", filler=b"\r\n", ordered=True),
    # A line holds one value, and white space before a value means nothing, in lines as in a list.
    "ollama": _Row("", b"application/x-ndjson", b" ", loads=True),
    "ollama_generate": _Row("", b"application/x-ndjson", b" ", module="ollama.generate", loads=True),
    "gemini_list": _Row("", b"application/json", b" ", codec="gemini", fields={"sse": False}, ordered=True),
}


def face(name: str, query: bytes = b"") -> Face:
    """The face of that name, for a client that asks with this query."""
    if name == "gemini" and ("alt", "sse") not in parse_qsl(query.decode("latin-1")):
        return _made("gemini_list")  # without `alt=sse` a stream of Google's is one long list
    return _made(name)


@cache
def _made(name: str) -> Face:
    row = _ROWS[name]
    codec = import_module(f"toolspeak.protocols.{row.module or row.codec or name}")
    return Face(
        row.codec or name,
        codec.decode_request,
        partial(codec.ReplyEncoder, **row.fields) if row.fields else codec.ReplyEncoder,
        codec.encode_reply,
        codec.encode_error,
        getattr(codec, "needs_store", _never),
        row.id_prefix,
        row.stream_type,
        row.keep_alive or row.filler,
        row.filler,
        getattr(codec, "seen_notes", _nothing),
        row.loads,
        row.ordered,
    )


def _never(request: Request) -> bool:
    return False


def _nothing(fields: Mapping[str, JSONValue]) -> tuple[Note, ...]:
    return ()
