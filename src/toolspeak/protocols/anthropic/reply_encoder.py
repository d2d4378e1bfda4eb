"""What our own face answers to a Messages client: events to its stream, a reply to a message, errors to theirs.

Blocks follow each other: a text, a thought and a call each open one, and another kind closes it. Text, the bulk of a
stream, goes out by byte templates. It begins with an estimate of what the request takes, and ends with what the
upstream counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from ...core.types import JSONObject, JSONValue, Opaque, Request, Usage, is_array, is_object
from ...errors import NotKeptError, ToolspeakError
from ..shared.fields import read_json, shorten, status_of, to_line, to_wire, without
from ..shared.passthrough_bytes import Name, QuotingEncoder
from .blocks import STOP, THINKING, USAGE, error_failure, error_type, is_block, stop_fields, usage_to_wire
from .content import content_of, new_id, tool_use, usual_content
from .estimate import estimated_input

_encode = msgspec.json.Encoder().encode
_TAIL = b"}}\n\n"
_BROKEN = "the turn ended in an error"


def _frame(kind: str, **fields: JSONValue) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + to_line({"type": kind, **fields}) + b"\n\n"


def _delta_head(index: int, kind: str, field: str) -> bytes:
    """A delta up to its one text."""
    head = f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":'
    return b"event: content_block_delta\ndata: " + head.encode()


class _Call:
    """A call whose block is open."""

    __slots__ = ("fragments", "head", "number", "overtaken")

    def __init__(self, number: int) -> None:
        self.number = number
        self.head = _delta_head(number, "input_json_delta", "partial_json")
        self.fragments: list[str] = []
        #: Another call began before this one was whole.
        self.overtaken = False

    def whole(self) -> bool:
        """Whether its arguments are complete; looked at once, when the next call begins."""
        whole = not self.overtaken and is_object(read_json("".join(self.fragments)))
        self.overtaken = True
        return whole


class ReplyEncoder(QuotingEncoder):
    """Events to the server-sent events of the Messages API."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__()
        self._id = id
        self._model = model
        self._request = request
        self._opened = self._closed = False
        #: The number of the next block; the kind of the open one, if it is a text or a thought; what its pieces share.
        self._next = 0
        self._kind = ""
        self._head = b""
        #: The same, while a text is open.
        self._text = b""
        self._calls: dict[int, _Call] = {}
        self._called = False
        #: What an upstream of this protocol says besides: of calls by id, of the end, of usage.
        self._uses: dict[str, JSONObject] = {}
        self._stop: JSONValue = None
        self._beside: JSONObject = {}
        self._usage = Usage()
        self._reason: FinishReason = "unknown"

    def encode(self, events: Sequence[Event]) -> bytes:
        """The bytes to send for these events."""
        if len(events) == 1 and type(only := events[0]) is TextDelta and self._text:
            text = only.text
            return self._text + (_encode(text) if text.isascii() else to_line(text)) + _TAIL
        out: list[bytes] = []
        for event in events:
            if type(event) is TextDelta and self._text:
                text = event.text
                out += (self._text, _encode(text) if text.isascii() else to_line(text), _TAIL)
            elif not self._closed:
                out.append(self._other(event))
        return b"".join(out)

    def _meet(self, name: Name) -> None:
        """Not used: only the first event, which is ours, names the message."""

    def _fit(self, name: Name, wire: bytes) -> bytes | None:
        """Deltas fit where the block that is open, or opens, has the number that the upstream gave to theirs."""
        kind = name["type"]
        number = self._next - 1 if kind == self._kind else self._next
        return self._switch(kind) if name["index"] == number else None

    def close(self, extension: JSONObject | None = None) -> bytes:
        """The end of the open blocks and of the message. `extension` goes into the last event."""
        if self._closed:
            return b""
        if self._reason == "error":
            return self._fail(Failure(_BROKEN))
        ends = self._shut() + b"".join(map(self._end_call, list(self._calls)))
        delta = stop_fields(self._reason, self._called, self._stop)
        ends += _frame("message_delta", delta=delta, usage=usage_to_wire(self._usage, self._beside))
        last = _frame("message_stop", toolspeak=extension) if extension else _frame("message_stop")
        opening = self._open()
        self._closed = True
        return opening + ends + last

    def _open(self) -> bytes:
        """The beginning of the message, if it has not been sent."""
        if self._opened:
            return b""
        self._opened = True
        known = self._usage if self._usage.input_tokens else Usage(estimated_input(self._request))
        usage = usage_to_wire(msgspec.structs.replace(known, output_tokens=0, reasoning_tokens=0), {})
        return _frame("message_start", message=_message(self._id, self._model, [], {"stop_reason": None}, usage))

    def _other(self, event: Event) -> bytes:
        match event:
            case TextDelta(text):
                return self._piece("text", text)
            case ReasoningDelta(text):
                return self._piece(THINKING, text)
            case CallStart() | CallArgs() | CallEnd():
                return self._call(event)
            case OpaqueSeen(part):
                return self._opaque(part)
            case UsageSeen(usage):
                self._usage = usage
            case Finish(reason):
                self._reason = reason
            case Failure():
                return self._fail(event)
            case _:  # notes and judgements are for the extension
                pass
        return b""

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        self._kind, self._text, self._flowing = "", b"", None
        return _frame("error", error=_error(failure))

    # ---------------------------------------------------------------------------------------------- blocks

    def _start(self, block: JSONObject) -> bytes:
        number = self._next
        self._next += 1
        return self._open() + _frame("content_block_start", index=number, content_block=block)

    def _switch(self, kind: str) -> bytes:
        """A block of this kind, open."""
        if self._kind == kind:
            return b""
        shut = self._open() + self._shut()
        empty = {"type": "text", "text": ""} if kind == "text" else {"type": kind, kind: "", "signature": ""}
        self._kind = kind
        self._head = _delta_head(self._next, f"{kind}_delta", kind)
        self._text = self._head if kind == "text" else b""
        return shut + self._start(empty)

    def _piece(self, kind: str, text: str) -> bytes:
        return self._switch(kind) + self._head + to_line(text) + _TAIL if text else b""

    def _delta(self, delta: JSONObject) -> bytes:
        return _frame("content_block_delta", index=self._next - 1, delta=delta)

    def _shut(self) -> bytes:
        """The end of the open text or thought."""
        if not self._kind:
            return b""
        self._kind, self._text, self._flowing = "", b"", None
        return _frame("content_block_stop", index=self._next - 1)

    def _call(self, event: CallStart | CallArgs | CallEnd) -> bytes:
        match event:
            case CallStart(index, name, identifier):
                # Some upstreams end all calls at the end; clients of this protocol want one block behind the other.
                done = [self._end_call(key) for key, call in list(self._calls.items()) if call.whole()]
                shut = self._shut()
                self._called = True
                self._calls[index] = _Call(self._next)
                identifier = identifier or new_id(self._id, self._next)
                return b"".join(done) + shut + self._start(tool_use(identifier, name, {}, self._uses))
            case CallArgs(index, fragment):
                call = self._calls.get(index)
                if call is None:  # white space behind a whole object
                    return b""
                call.fragments.append(fragment)
                return call.head + to_line(fragment) + _TAIL
            case _:
                return self._end_call(event.index, ended=True)

    def _end_call(self, index: int, ended: bool = False) -> bytes:
        call = self._calls.pop(index, None)
        if call is None:
            return b""
        # Clients that put the pieces together want JSON, also of no arguments.
        nothing = call.head + b'"{}"' + _TAIL if ended and not call.fragments else b""
        return nothing + _frame("content_block_stop", index=call.number)

    def _opaque(self, part: Opaque) -> bytes:
        data = part.data
        if is_block(part):
            return self._carried(data)
        match part.kind:
            case "thinking" if is_object(data):
                late = b"" if self._kind == THINKING else self._switch(THINKING)
                text = data.get("thinking")
                if late and isinstance(text, str) and text:
                    late += self._piece(THINKING, text)
                return (
                    late + self._delta({"type": "signature_delta", "signature": data.get("signature")}) + self._shut()
                )
            case "citations" if is_array(data):
                opened = self._switch("text")
                cited = [self._delta({"type": "citations_delta", "citation": one}) for one in data]
                return opened + b"".join(cited) + self._shut()
            case _:
                self._remember(part)
                return b""

    def _remember(self, part: Opaque) -> None:
        if not is_object(part.data):
            return
        match part.kind:
            case "tool_use":
                self._uses[str(part.data.get("id"))] = without(part.data, "id")
            case "stop":
                self._stop = part.data
            case "usage":
                self._beside = part.data
            case _:  # of another protocol
                pass

    def _carried(self, block: JSONObject) -> bytes:
        shut = self._shut()
        given = block.get("input")
        if not is_object(given):
            return shut + self._start(block) + _frame("content_block_stop", index=self._next - 1)
        started = self._start({**block, "input": {}})
        delta = self._delta({"type": "input_json_delta", "partial_json": to_wire(given).decode()})
        return shut + started + delta + _frame("content_block_stop", index=self._next - 1)


def _message(id: str, model: str, content: list[JSONObject], end: JSONObject, usage: JSONObject) -> JSONObject:
    head: JSONObject = {"id": id, "type": "message", "role": "assistant", "model": model, "content": content}
    return {**head, "stop_sequence": None, **end, "usage": usage}


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
        return to_wire({"type": "error", "error": _error(reply.failure or Failure(_BROKEN))})
    said = {part.kind: part.data for part in reply.opaque if is_object(part.data)}
    content = content_of(events, reply, id) if events else usual_content(reply, id)
    end = stop_fields(reply.finish_reason, bool(reply.calls), said.get(STOP))
    body = _message(id, model, content, end, usage_to_wire(reply.usage, said.get(USAGE, {})))
    return to_wire(body | {"toolspeak": extension} if extension else body)


# ------------------------------------------------------------------------------------------------------ errors


def _error(failure: Failure) -> JSONObject:
    return {"type": error_type(failure.status, failure.kind, failure.error_type), "message": failure.message}


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """The failure that an answer with an error status stands for. The names of the headers are in lower case."""
    value = read_json(body)
    if value is None:
        text = shorten(body)
        value = "" if text.startswith("<") else text  # a page says nothing in one line
    failure = error_failure(value, status, body, f"the upstream answered with status {status}")
    given = value.get("request_id") if is_object(value) else None
    identifier = headers.get("request-id") or (given if isinstance(given, str) else "")
    if not identifier:
        return failure
    return msgspec.structs.replace(failure, message=f"{failure.message} (request {shorten(identifier)})")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """The status and body that tell a client of an error; an upstream's own status is passed on."""
    status = status_of(error)
    told: JSONObject = {"type": error_type(status), "message": str(error)}
    if isinstance(error, NotKeptError):  # the SDKs then send the whole conversation
        told["details"] = {"error_code": "thread_not_found"}
    return status, to_wire({"type": "error", "error": told})
