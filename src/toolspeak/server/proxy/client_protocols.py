"""The client protocols: one table row for each, with the codec functions that the server needs."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl

import msgspec

from ...core.events import Event
from ...core.types import JSONObject, JSONValue, Note, Request
from ...errors import NotKeptError, ToolspeakError
from ...protocols import plugin_protocols
from ...protocols.shared.fields import to_line
from ...runtime.turn import AnyTurn


class Encoder(Protocol):
    """Encodes one streamed answer."""

    def encode(self, events: Sequence[Event], /) -> bytes:
        """Encode events to wire bytes."""
        ...

    def close(self, extension: Mapping[str, JSONValue] | None = None) -> bytes:
        """Encode the end of the stream."""
        ...


class _ProtocolRow(msgspec.Struct, frozen=True):
    id_prefix: str  # prefix of answer ids
    stream_type: bytes = b"text/event-stream; charset=utf-8"
    filler: bytes = b": keep-alive\n\n"  # keep-alive before the first event of a stream
    keep_alive: bytes = b""  # keep-alive once the answer has begun; defaults to `filler`
    #: Name of the codec, if different. `fields` are the extra arguments of its encoder.
    codec: str = ""
    #: Module of the codec, if different.
    module: str = ""
    fields: Mapping[str, JSONValue] = {}
    loads_models: bool = False  # whether a request without messages is a request to load a model
    #: Whether the order of the parts of an answer matters. If so, `reply` accepts `events`.
    ordered: bool = False
    answers: str = ""  # name of the list of answers in a reply, if a request can ask for several


class ClientProtocol(_ProtocolRow, frozen=True, kw_only=True):
    name: str
    decode: Callable[..., Request]
    encoder: Callable[..., Encoder]
    reply: Callable[..., bytes]
    error: Callable[[ToolspeakError], tuple[int, bytes]]
    needs_store: Callable[[Request], bool]  # returns whether a request refers to stored responses
    #: Returns notes about fields of the body that cannot be represented.
    request_notes: Callable[[Mapping[str, JSONValue]], tuple[Note, ...]]
    #: Decodes an ordinary body faster than `decode`; returns None for all others.
    decode_body: Callable[..., Request | None] | None

    def check(self, request: Request, plan: str, upstream: str) -> None:
        """Raise NotKeptError if a request needs stored state that neither toolspeak nor the upstream has."""
        if self.needs_store(request) and not self.takes_untouched(plan, upstream):
            hint = "send the whole conversation, without `background`"
            raise NotKeptError("the previous response is not stored here or has expired", hint=hint)

    def takes_untouched(self, plan: str, upstream: str) -> bool:
        """Whether requests and replies pass through as they would without a proxy."""
        return upstream == self.name and plan in _UNTOUCHED_PLANS


_UNTOUCHED_PLANS = ("pass", "native")  # plans that forward requests unchanged


_ROWS = {
    "openai_chat": _ProtocolRow("chatcmpl-", answers="choices"),
    "openai_responses": _ProtocolRow("resp_", ordered=True),
    "anthropic": _ProtocolRow("msg_", keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n', ordered=True),
    # Google's clients treat every non-empty line as data, even comments, so only blank lines are safe.
    "gemini": _ProtocolRow("", filler=b"\r\n", ordered=True, answers="candidates"),
    # Whitespace before a JSON value is ignored, both in JSON lines and in a JSON list.
    "ollama": _ProtocolRow("", b"application/x-ndjson", b" ", loads_models=True),
    "ollama_generate": _ProtocolRow("", b"application/x-ndjson", b" ", module="ollama.generate", loads_models=True),
    "gemini_list": _ProtocolRow(
        "", b"application/json", b" ", codec="gemini", fields={"sse": False}, ordered=True, answers="candidates"
    ),
}


def client_protocol(name: str, query: bytes = b"") -> ClientProtocol:
    if name == "gemini" and ("alt", "sse") not in parse_qsl(query.decode("latin-1")):
        return _build("gemini_list")  # without `alt=sse`, Gemini streams a JSON array
    return _build(name)


def _plugin_row(plugin: Any) -> _ProtocolRow:
    """Return the row of a plugin's protocol, from the names that it defines (see `toolspeak.protocols`)."""
    names = ("ID_PREFIX", "STREAM_TYPE", "FILLER", "KEEP_ALIVE", "ORDERED")
    fields: dict[str, Any] = {name.lower(): getattr(plugin, name) for name in names if hasattr(plugin, name)}
    return _ProtocolRow(fields.pop("id_prefix", ""), **fields)


@cache
def _build(name: str) -> ClientProtocol:
    plugin = None if name in _ROWS else plugin_protocols()[name]
    row = _ROWS[name] if plugin is None else _plugin_row(plugin)
    row = msgspec.structs.replace(row, keep_alive=row.keep_alive or row.filler)
    module = row.module or row.codec or name
    codec = plugin or import_module(f"toolspeak.protocols.{module}")
    package = plugin or import_module(f"toolspeak.protocols.{module.partition('.')[0]}")
    return ClientProtocol(
        **msgspec.structs.asdict(row),
        name=row.codec or name,
        decode=codec.decode_request,
        encoder=partial(codec.ReplyEncoder, **row.fields) if row.fields else codec.ReplyEncoder,
        reply=codec.encode_reply,
        error=package.encode_error,
        needs_store=getattr(codec, "needs_store", lambda request: False),
        request_notes=getattr(codec, "field_notes", lambda fields: ()),
        decode_body=getattr(codec, "decode_body", None),
    )


@runtime_checkable
class _ReportsProgress(Protocol):
    """A turn that reports progress: the calls that the server runs, and their results."""

    pending_progress: list[JSONObject]


class _ProgressEncoder:
    """Encodes an answer, with progress events between its parts.

    A progress event is a chunk without choices and with an extra field, which other clients of the protocol ignore.
    """

    def __init__(self, encoder: Encoder, turn: _ReportsProgress) -> None:
        self._encoder = encoder
        self._turn = turn

    def encode(self, events: Sequence[Event], /) -> bytes:
        """Encode the pending progress, then the events, which happened later."""
        reports, self._turn.pending_progress = self._turn.pending_progress, []
        progress = (b"data: %s\n\n" % to_line({"choices": [], "toolspeak": each}) for each in reports)
        return b"".join([*progress, self._encoder.encode(events)])

    def close(self, extension: Mapping[str, JSONValue] | None = None) -> bytes:
        """Encode the end of the stream."""
        return self._encoder.close(extension)


def with_progress_events(encoder: Encoder, turn: AnyTurn, protocol: str) -> Encoder:
    """Wrap an encoder to add progress events, if the turn reports progress and the client is the web page."""
    # The page uses this protocol. It is the only client that requests progress events.
    return (
        _ProgressEncoder(encoder, turn) if protocol == "openai_chat" and isinstance(turn, _ReportsProgress) else encoder
    )
