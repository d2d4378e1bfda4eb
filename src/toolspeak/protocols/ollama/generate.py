"""Codec for Ollama's older `/api/generate`: one prompt in, one text out, no tools.

A prompt is a chat with one message, so this module handles only the fields that differ from the chat codec. Clients
send `context` back to continue a conversation. It contains the encoded conversation, because the token ids that Ollama
would store there are unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from ...core.events import CallEvent, Event, OpaqueSeen, Reply, TextDelta
from ...core.types import JSONObject, JSONValue, Note, Request, is_array
from ...errors import UsageError
from ..shared.fields import filled, request_fields, to_line, to_wire, without
from ..shared.reply_encoder import FAILED_TURN
from ..shared.validation import array_field, bool_field, text_field, texts_field
from .reply_encoder import ReplyEncoder as ChatEncoder
from .reply_encoder import last_fields, timings, wire_time
from .request import decode_request as decode_chat

PROTOCOL: Final = "ollama_generate"

#: Fields that only this endpoint has.
_GENERATE_FIELDS = ("prompt", "suffix", "system", "template", "context", "raw", "images", "width", "height", "steps")
#: Fields that only the chat endpoint has.
_CHAT_FIELDS = ("messages", "tools", "tool_choice")
#: Dropped fields -> the reason that a note reports.
_DROPPED_FIELDS = {
    "template": "the upstream uses its own template",
    **dict.fromkeys(("width", "height", "steps"), "image generation is not supported"),
    "messages": "this endpoint expects a prompt; use /api/chat",
    **dict.fromkeys(("tools", "tool_choice"), "this endpoint does not support tools; use /api/chat"),
}

#: First number of every context that toolspeak creates.
_CONTEXT_MARK = 0x745331
#: Bytes stored in each number of a context; small enough for any client's integers.
_WIDTH = 3
#: Maximum size of a context, which clients send back with every prompt.
_MAX_CONTEXT_CHARS = 64 * 1024

_Turn = tuple[Literal["user", "assistant"], str]
_read_turns = msgspec.json.Decoder(list[_Turn]).decode


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode a body. Without a prompt, it only loads the model. Raises UsageError, which names the invalid field."""
    fields = {key: value for key, value in request_fields(body).items() if value is not None}
    prompt = text_field(fields.get("prompt"), "prompt")
    system = text_field(fields.get("system"), "system")
    images = texts_field(fields.get("images"), "images")
    context = array_field(fields.get("context"), "context")
    if text_field(fields.get("suffix"), "suffix"):
        raise UsageError("`suffix` is not supported, because a chat cannot fill in the middle", hint="remove it")
    if bool_field(fields.get("raw"), "raw", False) and (system or context or fields.get("template")):
        raise UsageError("`raw` cannot be combined with `template`, `system` or `context`")
    messages: list[JSONValue] = []
    if prompt:
        messages += [{"role": "system", "content": system}] if system else []
        messages += [{"role": role, "content": text} for role, text in _unpack_context(context) or ()]
        messages.append({"role": "user", "content": prompt, "images": list(images)})
    return decode_chat({**without(fields, *_GENERATE_FIELDS, *_CHAT_FIELDS), "messages": messages})


def field_notes(fields: Mapping[str, JSONValue]) -> tuple[Note, ...]:
    """Return notes about fields that `decode_request` drops or reinterprets."""
    notes = [
        Note("fields_dropped", f"`{name}`: {why}")
        for name, why in _DROPPED_FIELDS.items()
        if fields.get(name) not in (None, "")
    ]
    if fields.get("raw"):
        notes.append(Note("raw_as_chat", "the prompt was sent as a chat message, using the upstream's template"))
    context = fields.get("context")
    if is_array(context) and context and _unpack_context(context) is None:
        notes.append(Note("context_unread", "the context was ignored because toolspeak did not create it"))
    return tuple(notes)


def _pack_context(request: Request, answer: str) -> list[int]:
    """Encode a conversation, including the new answer, as a context. Drop the oldest turns if it is too long."""
    turns: list[tuple[str, str]] = [(m.role, m.text) for m in request.messages if m.role in ("user", "assistant")]
    turns.append(("assistant", answer))
    size, start = 0, len(turns)
    while start and size + len(turns[start - 1][1]) <= _MAX_CONTEXT_CHARS:
        start -= 1
        size += len(turns[start][1])
    data = to_wire(turns[start:])
    padded = data + b" " * (-len(data) % _WIDTH)
    return [_CONTEXT_MARK, *(int.from_bytes(padded[at : at + _WIDTH]) for at in range(0, len(padded), _WIDTH))]


def _unpack_context(context: list[JSONValue]) -> list[_Turn] | None:
    """Decode the conversation in a context. Return None if toolspeak did not create the context."""
    if context[:1] != [_CONTEXT_MARK] or not all(
        type(number) is int and 0 <= number < 1 << 8 * _WIDTH for number in context
    ):
        return None
    try:
        return _read_turns(b"".join(number.to_bytes(_WIDTH) for number in context[1:]))
    except (msgspec.DecodeError, UnicodeError):
        return None


class ReplyEncoder(ChatEncoder):
    """Encodes events as newline-delimited JSON."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__(request, id=id, created=created, model=model)
        self._text_head = self._head + b',"response":'
        self._text_tail = b',"done":false}\n'
        self._request = request
        self._texts: list[str] = []

    def encode(self, events: Sequence[Event]) -> bytes:
        self._texts += [event.text for event in events if type(event) is TextDelta]
        return super().encode(events)

    def _line(self, message: JSONObject, rest: JSONObject, extension: JSONObject | None = None) -> bytes:
        fields: JSONObject = {"response": "", **message, **rest}
        if rest["done"]:
            fields |= _end_fields(self._request, "".join(self._texts))
        fields |= filled({"toolspeak": extension})
        return self._head + b"," + to_line(fields)[1:] + b"\n"

    def _encode_event(self, event: Event) -> bytes:
        if isinstance(event, CallEvent):
            return b""
        if isinstance(event, OpaqueSeen):
            self._times = timings([event.part]) or self._times
            return b""
        return super()._encode_event(event)


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: JSONObject | None = None
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": (reply.failure or FAILED_TURN).message})
    body: JSONObject = {"model": model, "created_at": wire_time(created), "response": reply.text}
    body |= filled({"thinking": reply.reasoning})
    body |= last_fields(reply.finish_reason, reply.usage, timings(reply.opaque), bool(request.messages))
    body |= _end_fields(request, reply.text)
    return to_wire(body | filled({"toolspeak": extension}))


def _end_fields(request: Request, text: str) -> JSONObject:
    """Return extra fields for the last line: the context, or `done_reason` if the model was unloaded."""
    if request.messages:
        return {"context": _pack_context(request, text)}
    return {"done_reason": "unload"} if request.options.extra.get("keep_alive") == 0 else {}
