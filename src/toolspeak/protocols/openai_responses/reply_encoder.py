"""What our own face answers to a client of the Responses API: events to its events, a reply to a response.

Text, the bulk of a stream, goes out by a byte template. The response object at the end of a stream is the one that
would have been given without a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from ...core.types import JSONObject, JSONValue, Opaque, Request, Usage, is_object
from ..shared.fields import read_arguments, to_line, to_wire
from ..shared.openai_errors import error_of
from .output import (
    DETAILS,
    Maker,
    call_item,
    call_type,
    is_reasoning,
    message_item,
    reasoning_item,
    text_part,
    thought_part,
)
from .parts import ANNOTATION, ITEM, RESPONSE, START

_encode = msgspec.json.Encoder().encode
#: What stands between the delta of a message and its number, and behind that.
_LOGPROBS = b',"logprobs":[]'
_BEFORE_NUMBER = _LOGPROBS + b',"sequence_number":'
_END = b"}\n\n"


class _Call:
    """A call that is being sent."""

    __slots__ = ("fragments", "head", "id", "item_id", "kind", "name", "number")

    def __init__(self, start: CallStart, kind: str, number: int, item_id: str) -> None:
        self.name = start.name
        self.id = start.id
        self.kind = kind
        self.number = number
        self.item_id = item_id
        self.fragments: list[str] = []
        self.head = b""


class _Said:
    """The message or the reasoning that is being sent; its one part is number 0."""

    __slots__ = ("annotations", "field", "head", "item_id", "kind", "number", "phase", "texts")

    def __init__(self, kind: str, mark: JSONObject, number: int, item_id: str) -> None:
        self.kind = kind
        #: Where reasoning stands: `content` or `summary`.
        self.field: str = mark.get("field", "summary")
        self.phase: JSONValue = mark.get("phase")
        self.number = number
        self.item_id = item_id
        self.texts: list[str] = []
        self.annotations: list[JSONValue] = []
        self.head = b""

    def part(self) -> JSONObject:
        text = "".join(self.texts)
        return text_part(text, self.annotations) if self.kind == "message" else thought_part(self.field, text)

    def item(self, status: str, parts: list[JSONObject]) -> JSONObject:
        if self.kind == "message":
            return message_item(self.item_id, status, parts, self.phase)
        return reasoning_item(self.item_id, self.field, parts)

    def words(self) -> tuple[str, str, JSONObject]:
        """What its part, its text and the number of its part are called in events."""
        if self.kind == "message":
            return "content_part", "output_text", {"content_index": 0}
        if self.field == "summary":
            return "reasoning_summary_part", "reasoning_summary_text", {"summary_index": 0}
        return "content_part", "reasoning_text", {"content_index": 0}


class ReplyEncoder:
    """Events to the server-sent events of the Responses API."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        self._maker = Maker(request, id, created, model)
        self._sequence = 0
        self._opened = self._closed = False
        self._numbers = 0
        self._items: dict[int, JSONObject] = {}
        self._said: _Said | None = None
        #: The texts of the message that is open, if one is.
        self._live: list[str] | None = None
        self._head = b""
        #: Id and field of the reasoning that comes next, or the phase of the message, where the upstream gave them.
        self._next: JSONObject = {}
        self._calls: dict[int, _Call] = {}
        self._usage = Usage()
        self._about: JSONObject = {}
        self._reason: FinishReason = "unknown"

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes to send for these events."""
        out: list[bytes] = []
        for event in events:
            live = self._live
            # The bulk of every stream comes first and makes no detours.
            if live is not None and type(event) is TextDelta:
                text = event.text
                live.append(text)
                number = self._sequence
                self._sequence = number + 1
                payload = _encode(text) if text.isascii() else to_line(text)
                out += (self._head, payload, _BEFORE_NUMBER, _encode(number), _END)
            elif not self._closed:
                out += self._other(event)
        return b"".join(out)

    def close(self, extension: JSONObject | None = None) -> bytes:
        """The ends of what is open, and the response. `extension` goes into the response."""
        if self._closed:
            return b""
        if self._reason == "error":
            return b"".join(self._fail(Failure("the turn ended in an error")))
        ends, response = self._end(extension)
        return b"".join(ends) + self._event(f"response.{response['status']}", response=response)

    def response(self, events: Sequence[Event], extension: JSONObject | None = None) -> JSONObject:
        """The response that a stream of these events, which are all, would end with."""
        self.encode(events)
        return self._end(extension)[1]

    def _end(self, extension: JSONObject | None) -> tuple[list[bytes], JSONObject]:
        """The ends of what is open, and the response."""
        # A call that was begun and has no end was cut, whatever the upstream says; it is no part of the response.
        reason = "length" if self._reason not in DETAILS and self._cut() else self._reason
        ends = [*self._open(), *self._shut("incomplete" if reason in DETAILS else "completed")]
        self._closed = True
        return ends, self._maker.ended(self._output(), reason, self._usage, extension, self._about)

    def _cut(self) -> bool:
        return any(call.kind == "function_call" for call in self._calls.values())

    def _output(self) -> list[JSONObject]:
        return [self._items[number] for number in sorted(self._items)]

    # ------------------------------------------------------------------------------------------------ writing

    def _event(self, kind: str, **fields: JSONValue) -> bytes:
        payload = to_line({"type": kind, **fields, "sequence_number": self._sequence})
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)

    def _head_of(self, kind: str, **fields: JSONValue) -> bytes:
        """The bytes of an event up to its delta."""
        return b'event: %b\ndata: %b,"delta":' % (kind.encode(), to_line({"type": kind, **fields})[:-1])

    def _delta(self, head: bytes, text: str, more: bytes = b"") -> bytes:
        payload = b'%b%b%b,"sequence_number":%d}\n\n' % (head, to_line(text), more, self._sequence)
        self._sequence += 1
        return payload

    def _open(self) -> Iterator[bytes]:
        if not self._opened:
            self._opened = True
            for stage in ("created", "in_progress"):
                yield self._event(f"response.{stage}", response=self._maker.begun())

    def _fail(self, failure: Failure) -> Iterator[bytes]:
        yield from self._open()
        self._live = None
        self._closed = True
        yield self._event("response.failed", response=self._maker.failed(self._output(), failure, self._usage))
        # Some clients look for this event only, and for its words in one place or the other.
        error = error_of(failure)
        yield self._event("error", code=error["code"], message=error["message"], param=error["param"], error=error)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers - 1

    def _added(self, number: int, item: JSONObject) -> bytes:
        return self._event("response.output_item.added", output_index=number, item=item)

    def _done(self, number: int, item: JSONObject) -> bytes:
        self._items[number] = item
        return self._event("response.output_item.done", output_index=number, item=item)

    # ------------------------------------------------------------------------------------------------- events

    def _other(self, event: Event) -> Iterator[bytes]:
        match event:
            case TextDelta(text):
                yield from self._say("message", text)
            case ReasoningDelta(text):
                yield from self._say("reasoning", text)
            case CallStart() | CallArgs() | CallEnd():
                yield from self._call(event)
            case OpaqueSeen(part):
                yield from self._carried(part)
            case UsageSeen(usage):
                self._usage = usage
            case Finish(reason):
                self._reason = reason
            case Failure():
                yield from self._fail(event)
            case _:  # notes and judgements are for the extension
                pass

    def _say(self, kind: str, text: str) -> Iterator[bytes]:
        if not text:
            return
        said = self._said
        if said is None or said.kind != kind:
            yield from self._open()
            yield from self._shut()
            said = self._begin(kind)
            yield self._added(said.number, said.item("in_progress", []))
            part, _, number = said.words()
            yield self._event(f"response.{part}.added", **_place(said), **number, part=said.part())
        said.texts.append(text)
        yield self._delta(said.head, text, b"" if kind == "reasoning" else _LOGPROBS)

    def _begin(self, kind: str) -> _Said:
        # A mark that is meant for something else tells nothing.
        mark = self._next if (kind == "message") == ("phase" in self._next) else {}
        number = self._number()
        item_id = mark.get("id") or self._maker.item_id(kind, number)
        said = self._said = _Said(kind, mark, number, item_id)
        _, text, part = said.words()
        said.head = self._head_of(f"response.{text}.delta", **_place(said), **part)
        if kind == "message":
            self._live = said.texts
            self._head = said.head
        self._next = {}
        return said

    def _shut(self, status: str = "completed", item: JSONObject | None = None) -> Iterator[bytes]:
        """End what is being said; `item` is its item where that is known to say more."""
        said, self._said, self._live = self._said, None, None
        if said is None:
            return
        part, text, number = said.words()
        whole = said.part()
        place = {**_place(said), **number}
        more: JSONObject = {"logprobs": []} if said.kind == "message" else {}
        yield self._event(f"response.{text}.done", **place, text=whole["text"], **more)
        yield self._event(f"response.{part}.done", **place, part=whole)
        yield self._done(said.number, item or said.item(status, [whole]))

    def _carried(self, part: Opaque) -> Iterator[bytes]:
        data = part.data
        if not is_object(data):
            return
        if part.kind.startswith(ITEM):
            yield from self._open()
            self._next = {}
            said = self._said
            if is_reasoning(part) and said is not None and said.item_id == data.get("id"):
                yield from self._shut(item=data)
                return
            yield from self._shut()
            number = self._number()
            yield self._added(number, data)
            yield self._done(number, data)
        elif part.kind == RESPONSE:
            self._about = data
        elif part.kind.startswith(START):
            yield from self._shut()
            self._next = data
        elif part.kind.startswith(ANNOTATION) and self._said is not None and self._live is not None:
            self._said.annotations.append(data)
            at = len(self._said.annotations) - 1
            place = {**_place(self._said), "content_index": 0, "annotation_index": at}
            yield self._event("response.output_text.annotation.added", **place, annotation=data)

    # -------------------------------------------------------------------------------------------------- calls

    def _call(self, event: CallStart | CallArgs | CallEnd) -> Iterator[bytes]:
        match event:
            case CallStart(index, name):
                yield from self._open()
                yield from self._shut()
                kind = call_type(self._maker.names, name)
                # The one text of a custom tool is inside JSON until its end, so it is sent then.
                number = self._number() if kind == "function_call" else -1
                call = self._calls[index] = _Call(event, kind, number, self._maker.item_id("function_call", number))
                if kind == "function_call":
                    call.head = self._head_of("response.function_call_arguments.delta", **_place(call))
                    yield self._added(number, self._call_item(call, "", "in_progress"))
            case CallArgs(index, fragment):
                call = self._calls[index]
                call.fragments.append(fragment)
                if call.head and fragment:
                    yield self._delta(call.head, fragment)
            case _:
                call = self._calls.pop(event.index, None)
                if call is not None:
                    yield from (self._end_call if call.head else self._custom_call)(call, event.valid)

    def _call_item(self, call: _Call, given: str, status: str) -> JSONObject:
        return call_item(self._maker.names, call.name, (call.item_id, call.id), given, status)

    def _end_call(self, call: _Call, valid: bool) -> Iterator[bytes]:
        if not any(call.fragments):
            call.fragments.append("{}")
            yield self._delta(call.head, "{}")
        given = "".join(call.fragments)
        yield self._event("response.function_call_arguments.done", **_place(call), arguments=given)
        yield self._done(call.number, self._call_item(call, given, "completed" if valid else "incomplete"))

    def _custom_call(self, call: _Call, valid: bool) -> Iterator[bytes]:
        given = (read_arguments("".join(call.fragments)) or {}).get("input") if valid else None
        if not isinstance(given, str):
            return
        call.number = self._number()
        call.item_id = self._maker.item_id(call.kind, call.number)
        yield self._added(call.number, self._call_item(call, "", ""))
        yield self._delta(self._head_of("response.custom_tool_call_input.delta", **_place(call)), given)
        yield self._event("response.custom_tool_call_input.done", **_place(call), input=given)
        yield self._done(call.number, self._call_item(call, given, ""))


def _place(of: _Said | _Call) -> JSONObject:
    return {"item_id": of.item_id, "output_index": of.number}


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
        return to_wire({"error": error_of(reply.failure or Failure("the turn ended in an error"))})
    if events:
        encoder = ReplyEncoder(request, id=id, created=created, model=model)
        return to_wire(encoder.response(events, extension))
    maker = Maker(request, id, created, model)
    return to_wire(maker.ended(maker.output(reply), reply.finish_reason, reply.usage, extension, maker.about(reply)))
