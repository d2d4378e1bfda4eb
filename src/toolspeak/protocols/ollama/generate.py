"""Ollama's older endpoint (`/api/generate`): one prompt in, one text out. There are no tools.

A prompt is a chat of one message, so requests go through the codec of the chat, and only the words that differ are
read and written here. `context`, which a client hands back to go on, holds the conversation itself: nobody behind the
engine has the numbers that Ollama would put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event, FinishReason, OpaqueSeen, Reply, TextDelta
from ...core.types import JSONObject, JSONValue, Note, Request, is_array
from ...errors import UsageError
from ..shared.fields import Loss, array_field, bool_field, request_fields, text_field, to_line, to_wire, without
from .reply_encoder import BROKEN, last_fields, timings, wire_time
from .reply_encoder import ReplyEncoder as ChatEncoder
from .request import decode_request as decode_chat

PROTOCOL: Final = "ollama_generate"

LOSSES: tuple[Loss, ...] = (
    Loss("request", "protocol", "comes back as `ollama`, whose words the options are in"),
    Loss("request", "raw", "the prompt is sent as one message: a chat has no place for a prompt without a template"),
    Loss("request", "template", "is not sent"),
    Loss("request", "size of a picture", "`width`, `height` and `steps` are not sent; no picture is made"),
    Loss("request", "context of another server", "is not sent; numbers that we gave out are read"),
    Loss("reply", "calls", "are not sent"),
    Loss("reply", "opaque parts", "all but timings are not sent"),
    Loss("reply", "context", "holds texts only, the latest of them, and no pictures"),
)

#: Words of this endpoint alone.
_OWN = ("prompt", "suffix", "system", "template", "context", "raw", "images", "width", "height", "steps")
#: Words of the chat, which this endpoint does not have.
_FOREIGN = ("messages", "tools", "tool_choice")
#: Words that cannot be sent, and what is told of it.
_UNSENT = {
    "template": "the template of the upstream is used",
    "width": "no picture is made",
    "height": "no picture is made",
    "steps": "no picture is made",
    "messages": "this endpoint has a prompt",
    "tools": "this endpoint has no tools; /api/chat has",
    "tool_choice": "this endpoint has no tools; /api/chat has",
}

#: What a context of ours begins with.
_MARK = 0x745331
#: Bytes in one number: every client's whole numbers hold three.
_WIDTH = 3
#: Characters of conversation in a context, which a client sends back with every prompt.
_MOST_CONTEXT = 64 * 1024

_Turn = tuple[Literal["user", "assistant"], str]
_read_turns = msgspec.json.Decoder(list[_Turn]).decode


# ----------------------------------------------------------------------------------------------------- requests


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """The request that a body means. One without a prompt asks to load the model.

    Raises:
        UsageError: the body is no such request; the message names the field.
    """
    fields = {key: value for key, value in request_fields(body).items() if value is not None}
    prompt = text_field(fields.get("prompt"), "prompt")
    system = text_field(fields.get("system"), "system")
    images = [text_field(item, f"images[{at}]") for at, item in enumerate(array_field(fields.get("images"), "images"))]
    context = array_field(fields.get("context"), "context")
    if text_field(fields.get("suffix"), "suffix"):
        raise UsageError("`suffix` is not supported: a chat cannot fill in the middle", hint="leave it out")
    if bool_field(fields.get("raw"), "raw", False) and (system or context or fields.get("template")):
        raise UsageError("`raw` does not go together with `template`, `system` or `context`")
    messages: list[JSONValue] = []
    if prompt:
        messages += [{"role": "system", "content": system}] if system else []
        messages += [{"role": role, "content": text} for role, text in _unpacked(context) or ()]
        messages.append({"role": "user", "content": prompt, "images": images})
    return decode_chat({**without(fields, *_OWN, *_FOREIGN), "messages": messages})


def seen_notes(fields: Mapping[str, JSONValue]) -> tuple[Note, ...]:
    """What of a body's fields `decode_request` leaves out, or takes for something else."""
    notes = [
        Note("fields_dropped", f"`{name}`: {why}")
        for name, why in _UNSENT.items()
        if fields.get(name) not in (None, "")
    ]
    if fields.get("raw"):
        notes.append(Note("raw_as_chat", "the prompt is sent as a message, in the upstream's own template"))
    context = fields.get("context")
    if is_array(context) and context and _unpacked(context) is None:
        notes.append(Note("context_unread", "the context is not one of ours; the conversation begins anew"))
    return tuple(notes)


# ------------------------------------------------------------------------------------------------------ context


def _packed(request: Request, answer: str) -> list[int]:
    """A conversation and its answer as the numbers of a context; what is oldest gives way."""
    turns: list[tuple[str, str]] = [(m.role, m.text) for m in request.messages if m.role in ("user", "assistant")]
    turns.append(("assistant", answer))
    size, kept = 0, len(turns)
    while kept and size + len(turns[kept - 1][1]) <= _MOST_CONTEXT:
        kept -= 1
        size += len(turns[kept][1])
    data = to_wire(turns[kept:])
    padded = data + b" " * (-len(data) % _WIDTH)
    return [_MARK, *(int.from_bytes(padded[at : at + _WIDTH]) for at in range(0, len(padded), _WIDTH))]


def _unpacked(context: list[JSONValue]) -> list[_Turn] | None:
    """The conversation that a context holds; None when it is not one of ours."""
    if context[:1] != [_MARK] or not all(type(number) is int and 0 <= number < 1 << 8 * _WIDTH for number in context):
        return None
    try:
        return _read_turns(b"".join(number.to_bytes(_WIDTH) for number in context[1:]))
    except (msgspec.DecodeError, UnicodeError):
        return None


# ------------------------------------------------------------------------------------------------------ replies


class ReplyEncoder(ChatEncoder):
    """Events to the lines of a stream."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__(request, id=id, created=created, model=model)
        self._text = self._head + b',"response":'
        self._rest = b',"done":false}\n'
        self._request = request
        self._said: list[str] = []

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes to send for these events."""
        self._said += [event.text for event in events if type(event) is TextDelta]
        return super().encode(events)

    def _line(self, message: JSONObject, rest: JSONObject, extension: JSONObject | None = None) -> bytes:
        fields: JSONObject = {"response": "", **message, **rest}
        if rest["done"]:
            fields |= _end(self._request, "".join(self._said))
        if extension:
            fields["toolspeak"] = extension
        return self._head + b"," + to_line(fields)[1:] + b"\n"

    def _other(self, event: Event) -> bytes:
        if isinstance(event, CallStart | CallArgs | CallEnd):
            return b""
        if isinstance(event, OpaqueSeen):
            self._times = timings([event.part]) or self._times
            return b""
        return super()._other(event)


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: JSONObject | None = None
) -> bytes:
    """The answer to a client that did not ask for a stream; an error object when the turn broke."""
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": (reply.failure or BROKEN).message})
    body: JSONObject = {"model": model, "created_at": wire_time(created), "response": reply.text}
    if reply.reasoning:
        body["thinking"] = reply.reasoning
    reason: FinishReason = reply.finish_reason
    body |= last_fields(reason, reply.usage, timings(reply.opaque), bool(request.messages))
    body |= _end(request, reply.text)
    return to_wire(body | {"toolspeak": extension} if extension else body)


def _end(request: Request, text: str) -> JSONObject:
    """What the last line says besides: how to go on, or that the model was let go."""
    if request.messages:
        return {"context": _packed(request, text)}
    return {"done_reason": "unload"} if request.options.extra.get("keep_alive") == 0 else {}
