"""What our own face answers to a Gemini client: events to its stream, a reply to a response, errors to theirs.

A call goes out when it is complete, in one part; one that was cut is dropped. Text, the bulk of a stream, goes out by
byte templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Opaque, Request, ToolCall, Usage, is_object
from ...errors import ToolspeakError, UpstreamError
from ..shared.fields import read_json, shorten, status_of, to_line, to_wire, without
from ..shared.passthrough_bytes import NamingEncoder
from ..shared.whole_calls import WholeCalls
from . import wire as gemini_wire
from .wire import error_failure, error_object, finish_word, usage_to_wire

_encode = msgspec.json.Encoder().encode
_BROKEN = Failure("the turn ended in an error")


class _Beside:
    """What an upstream that speaks this protocol said besides, kept until it has its place."""

    def __init__(self) -> None:
        self._calls: list[JSONObject] = []
        self._said: JSONObject = {}
        self._usage: JSONObject = {}
        self.blocked: JSONObject = {}

    def add(self, part: Opaque) -> JSONObject | None:
        """A part of a content that can be sent at once; everything else is kept."""
        data = part.data
        if not is_object(data):
            return None
        match part.kind:
            case gemini_wire.PART:
                return data
            case gemini_wire.CALL:
                self._calls.append(data)
            case gemini_wire.CANDIDATE:
                self._said |= data
            case gemini_wire.USAGE:
                self._usage = data
            case gemini_wire.PROMPT:
                self.blocked = data
            case _:  # of another protocol
                pass
        return None

    def call_part(self, call: ToolCall) -> JSONObject:
        """The part of a call, with what belongs to the first call of its name that has none yet."""
        body: JSONObject = {"name": call.name, "args": call.arguments}
        if call.id:
            body["id"] = call.id
        found = next((said for said in self._calls if said.get("name") == call.name), None)
        if found is None:
            return {"functionCall": body}
        self._calls.remove(found)
        return {"functionCall": body, **without(found, "name")}

    def last(self, reason: FinishReason, usage: Usage, content: JSONObject) -> JSONObject:
        """The fields of a response that ends a turn."""
        word = finish_word(reason, self._said.get("finishReason"))
        candidate: JSONObject = {
            "content": content,
            "finishReason": word,
            "index": 0,
            **without(self._said, "finishReason"),
        }
        fields: JSONObject = {"candidates": [candidate], "usageMetadata": usage_to_wire(usage, self._usage)}
        if self.blocked:
            fields["promptFeedback"] = self.blocked
        return fields


class _Parts:
    """The parts that events stand for, one after the other."""

    def __init__(self, beside: _Beside) -> None:
        self._beside = beside
        self._calls = WholeCalls()

    def part(self, event: Event) -> JSONObject | None:
        """The part of an event; None where it has none, or not yet."""
        match event:
            case TextDelta(text):
                return {"text": text}
            case ReasoningDelta(text):
                return {"text": text, "thought": True}
            case CallStart() | CallArgs() | CallEnd():
                call = self._calls.feed(event)
                return self._beside.call_part(call) if call is not None else None
            case OpaqueSeen(opaque):
                return self._beside.add(opaque)
            case _:
                return None

    def whole(self, events: Iterable[Event]) -> list[JSONObject]:
        """All parts of an answer. What came beside a text stands at it again; other pieces of a text are one."""
        parts: list[JSONObject] = []
        for event in events:
            part = self.part(event)
            if part is None:
                continue
            signs = part.get("text") == "" and not _is_plain(part)
            if signs and parts and _is_plain(parts[-1]) and _thinks(parts[-1]) == _thinks(part):
                part = {**part, "text": parts.pop()["text"]}
            parts.append(part)
        return _joined(parts)


def _joined(parts: Iterable[JSONObject]) -> list[JSONObject]:
    joined: list[JSONObject] = []
    for (plain, _), group in groupby(parts, lambda part: (_is_plain(part), _thinks(part))):
        run = list(group)
        joined += [{**run[-1], "text": "".join(part["text"] for part in run)}] if plain else run
    return joined


def _thinks(part: JSONObject) -> bool:
    return bool(part.get("thought"))


def _is_plain(part: JSONObject) -> bool:
    """Whether a part is a text, or a thought, and says nothing besides."""
    return "text" in part and not without(part, "text", "thought")


class ReplyEncoder(NamingEncoder):
    """Events to the responses of a stream: server-sent events, or, for a client that did not ask for `alt=sse`, the
    elements of one array. This protocol has no place for `created`.
    """

    def __init__(self, request: Request, *, id: str, created: int, model: str, sse: bool = True) -> None:
        super().__init__()
        self._adopt({"modelVersion": model, "responseId": id})
        self._head, self._tail = (b"data: ", b"\r\n\r\n") if sse else (b"[", b"")
        self._sse = sse
        self._before = b'{"candidates":[{"content":{"parts":[{"text":'
        self._beside = _Beside()
        self._parts = _Parts(self._beside)
        self._closed = False
        self._spoken = False
        self._usage = Usage()
        self._reason: FinishReason = "unknown"

    def _adopt(self, name: JSONObject) -> None:
        self._about = name
        self._behind = b'}],"role":"model"},"index":0}],' + to_line(name)[1:]

    def relay(self, batch: Sequence[Event]) -> bytes:
        """The bytes to send for a batch: its own where they can be; in an array other things stand between elements."""
        return super().relay(batch) if self._sse else self.encode(batch)

    def _lead(self, wire: bytes) -> bytes:
        self._spoken = True
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes to send for these events."""
        out: list[bytes] = []
        for event in events:
            if self._closed:
                break
            if type(event) is TextDelta:
                text = event.text
                body = _encode(text) if text.isascii() else to_line(text)
                out.append(self._frame(self._before + body + self._behind))
            else:
                out.append(self._other(event))
        return b"".join(out)

    def close(self, extension: JSONObject | None = None) -> bytes:
        """The last response, with the finish reason and the usage. `extension` goes into it."""
        if self._closed:
            return b""
        if self._reason == "error":
            return self._fail(_BROKEN)
        self._closed = True
        fields = self._beside.last(self._reason, self._usage, {"parts": [{"text": ""}], "role": "model"})
        if self._beside.blocked and not self._spoken:
            del fields["candidates"]  # a prompt that is blocked has no answer
        fields |= self._about
        if extension:
            fields["toolspeak"] = extension
        return self._frame(to_line(fields)) + (b"" if self._sse else b"]")

    def _frame(self, payload: bytes) -> bytes:
        self._spoken = True
        frame = self._head + payload + self._tail
        if not self._sse:
            self._head = b",\r\n"
        return frame

    def _part(self, part: JSONObject) -> bytes:
        content: JSONObject = {"parts": [part], "role": "model"}
        return self._frame(to_line({"candidates": [{"content": content, "index": 0}], **self._about}))

    def _other(self, event: Event) -> bytes:
        part: JSONObject | None = None
        match event:
            case ReasoningDelta() | CallStart() | CallArgs() | CallEnd() | OpaqueSeen():
                part = self._parts.part(event)
            case UsageSeen(usage):
                self._usage = usage
            case Finish(reason):
                self._reason = reason
            case Failure():
                return self._fail(event)
            case _:  # notes and judgements are for the extension
                pass
        return b"" if part is None else self._part(part)

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        return self._frame(to_line(_failure(failure))) + (b"" if self._sse else b"]")


def encode_reply(
    reply: Reply,
    request: Request,
    *,
    id: str,
    created: int,
    model: str,
    extension: JSONObject | None = None,
    events: Sequence[Event] = (),
) -> bytes:
    """The answer to a client that did not ask for a stream; an error object when the turn broke.

    `events`: those that the reply was made of, where their order matters.
    """
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire(_failure(reply.failure or _BROKEN))
    beside = _Beside()
    parts = _Parts(beside).whole(events) if events else _usual_parts(reply, beside)
    content: JSONObject = {"parts": parts or [{"text": ""}], "role": "model"}
    body = beside.last(reply.finish_reason, reply.usage, content)
    if beside.blocked and not parts:
        del body["candidates"]
    body |= {"modelVersion": model, "responseId": id}
    return to_wire(body | {"toolspeak": extension} if extension else body)


def _usual_parts(reply: Reply, beside: _Beside) -> list[JSONObject]:
    """The parts of a reply of which nobody knows in which order it came."""
    parts: list[JSONObject] = [{"text": reply.reasoning, "thought": True}] if reply.reasoning else []
    carried = [part for opaque in reply.opaque if (part := beside.add(opaque)) is not None]
    parts += _thoughts(carried, True)
    if reply.text:
        parts.append({"text": reply.text})
    parts += _thoughts(carried, False)
    parts += map(beside.call_part, reply.calls)
    return parts


def _thoughts(parts: Iterable[JSONObject], wanted: bool) -> list[JSONObject]:
    return [part for part in parts if _thinks(part) == wanted]


# ------------------------------------------------------------------------------------------------------ errors


def _failure(failure: Failure) -> JSONObject:
    return error_object(failure.message, failure.status, failure.kind, failure.code)


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """The failure that an answer with an error status stands for. The names of the headers are in lower case."""
    value: JSONValue = read_json(body)
    if value is None:
        text = shorten(body)
        value = "" if text.startswith("<") else text  # a page says nothing in one line
    return error_failure(value, status, body, f"the upstream answered with status {status}")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """The status and body that tell a client of an error; an upstream's own status is passed on."""
    status = status_of(error)
    code = error.code if isinstance(error, UpstreamError) else ""
    return status, to_wire(error_object(str(error), status, code=code))
