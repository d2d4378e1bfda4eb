"""What an upstream answers to a Messages request, streamed or not, to events.

One path for both: a whole message is read as blocks that begin and end at once. Faults that servers are known for are
tolerated and noted, or become a `Failure`; no input raises.
"""

from __future__ import annotations

from functools import partial

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Failure,
    Finish,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Note, Opaque, is_array, is_object
from ..shared.fields import MAX_CALLS, read_json, repair_json, shorten, to_wire, without
from ..shared.framing import Template, encode_sse
from ..shared.passthrough_bytes import Quotes
from ..shared.reply_decoder import EventTemplate, Make, ReplyReader
from .blocks import (
    CITATIONS,
    STOP,
    THINKING,
    USAGE,
    USE,
    WireDelta,
    WireEvent,
    block_kind,
    decode_event,
    error_failure,
    finish_from,
    usage_from,
    usage_rest,
)

_DONE = b"[DONE]"
_DELTA = "content_block_delta"
#: Deltas that are one text: its field, and the key before it.
_TEXTS = {
    "text_delta": ("text", b'"text":'),
    "thinking_delta": ("thinking", b'"thinking":'),
    "input_json_delta": ("partial_json", b'"partial_json":'),
}
#: Kinds of blocks whose deltas are one text of the answer.
_QUOTED = ("text", THINKING)
_USE_KNOWN = ("type", "id", "name", "input")
#: Who calls a tool unless it says otherwise.
_DIRECT = {"type": "direct"}


class _Block:
    """A block that is being received."""

    __slots__ = ("call", "citations", "fields", "kind", "make", "notes", "pieces", "signature", "start")

    def __init__(self, kind: str, start: JSONObject, make: Make, call: int = -1) -> None:
        self.kind = kind
        self.start = start
        #: Makes the event of a piece of it.
        self.make = make
        #: The number of the call that it is; -1: none.
        self.call = call
        self.pieces: list[str] = []
        #: Texts that grow by deltas of a kind that we do not know, by field.
        self.fields: dict[str, list[str]] = {}
        self.citations: list[JSONValue] = []
        self.signature = ""
        self.notes: list[Note] = []

    def keep(self, text: str) -> CallArgs | ReasoningDelta | TextDelta:
        """The event of a piece, which is kept as well."""
        self.pieces.append(text)
        if self.call >= 0:
            return CallArgs(self.call, text)
        return ReasoningDelta(text) if self.kind == THINKING else TextDelta(text)


class ReplyDecoder(ReplyReader):
    """Reads one answer of the Messages API."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._blocks: dict[int | str | None, _Block] = {}
        self._calls = 0
        self._ids: set[str] = set()
        #: Calls that ended without a whole object: the reason for stopping tells what they are.
        self._doubtful: list[_Block] = []
        self._usage: JSONObject = {}
        self._reason = ""
        self._stop: JSONObject = {}
        #: The last event that was read.
        self._wire = WireEvent()

    @property
    def finished(self) -> bool:
        """Whether the upstream said why it stopped: then a connection that breaks loses nothing."""
        return self._over or bool(self._reason)

    # ---------------------------------------------------------------------------------------------- events

    def _event(self, name: str, payload: bytes) -> None:
        event = self._decoded(payload)
        if event is None:
            self._odd(name, payload)
            return
        self._read += 1
        self._wire = event
        kind = event.type if isinstance(event.type, str) and event.type else name
        if kind == _DELTA and event.delta is not None:
            if self._quotes is not None and name == event.type and b"\n" not in payload:
                self._quote(self._quotes, event.index, event.delta, payload)
            self._delta(_key(event.index), event.delta, payload)
            return
        match kind:
            case "content_block_start":
                self._begin(_key(event.index), event.content_block)
            case "content_block_stop":
                self._stopped(_key(event.index))
            case "message_start":
                self._opening(event.message)
            case "message_delta":
                self._used(event.usage)
                self._stops(event.delta or WireDelta())
            case "message_stop":
                self._reason = self._reason or "missing"
                self._end()
            case "message":
                self._message(event, payload)
            case _:
                self._other(kind, event, payload)

    def _decoded(self, payload: bytes) -> WireEvent | None:
        try:
            return decode_event(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            repaired = repair_json(payload)
        try:
            event = decode_event(repaired or b"")
        except (msgspec.DecodeError, RecursionError):
            return None
        self._mended()
        return event

    def _quote(self, quotes: Quotes, index: JSONValue, delta: WireDelta, payload: bytes) -> None:
        """Pass a delta on as it is, if it is a text of the block that it names."""
        block = self._blocks.get(index) if type(index) is int else None
        kind = block.kind if block is not None else ""
        if kind in _QUOTED and delta.type == f"{kind}_delta" and isinstance(getattr(delta, kind), str):
            quotes.add(encode_sse(payload, _DELTA), {"index": index, "type": kind})

    def _odd(self, name: str, payload: bytes) -> None:
        """An event that is no JSON object."""
        if payload.strip() == _DONE:  # some servers end every stream with it
            return
        if name == "error":
            self._fail(Failure(shorten(payload) or "the upstream gave an error without a word", body=shorten(payload)))
            return
        self._unreadable(payload)
        if not self._closing and any(block.call >= 0 for block in self._blocks.values()):
            # What was lost may be a part of the call.
            self._fail(Failure("an event inside a call could not be read", body=shorten(payload)))

    def _other(self, kind: str, event: WireEvent, payload: bytes) -> None:
        if kind == "error" or event.error:
            self._fail(error_failure(read_json(payload), body=payload))
        elif kind not in ("ping", _DELTA):
            self._note("unknown_event", f"an event of type `{shorten(kind)}` was skipped")

    def _opening(self, message: JSONValue) -> None:
        if not is_object(message):
            return
        self._used(message.get("usage"))
        for at, block in enumerate(_list(message.get("content"))):  # a server that begins with what it has
            self._begin(at, block)

    def _used(self, usage: JSONValue) -> None:
        """Counts are totals: a later one replaces an earlier one."""
        if is_object(usage):
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _stops(self, end: WireDelta | WireEvent) -> None:
        reason = end.stop_reason
        if isinstance(reason, str) and reason and not self._reason:
            self._reason = reason
            said = {"stop_sequence": end.stop_sequence, "stop_details": end.stop_details, "container": end.container}
            self._stop = {key: value for key, value in said.items() if value is not None}

    # ---------------------------------------------------------------------------------------------- blocks

    def _begin(self, key: int | str | None, value: JSONValue) -> None:
        self._stopped(key)  # a server that gives all blocks one number
        start: JSONObject = value if is_object(value) else {}
        match start.get("type"):
            case "text":
                block = _Block("text", start, TextDelta)
                block.citations += _list(start.get("citations"))
                self._add(TextDelta, _text(start.get("text")))
            case "thinking":
                block = _Block(THINKING, start, ReasoningDelta)
                block.signature = _text(start.get("signature"))
                self._more(block, _text(start.get("thinking")))
            case "tool_use":
                found = self._call(start)
                if found is None:
                    return
                block = found
            case kind:
                block = _Block(_text(kind), dict(start), TextDelta)
                if not block.kind:
                    self._note("unknown_block", "a block without a type was skipped")
        self._blocks[key] = block

    def _call(self, start: JSONObject) -> _Block | None:
        name, identifier = _text(start.get("name")), _text(start.get("id"))
        if not name:
            self._note("call_without_name", "a call that names no tool was dropped")
            return None
        if self._calls >= MAX_CALLS:
            self._note("calls_dropped", f"more than {MAX_CALLS} calls")
            return None
        number = self._calls
        block = _Block("tool_use", start, partial(CallArgs, number), number)
        if identifier in self._ids:
            block.notes.append(Note("duplicate_call_id", f"`{identifier}` was used twice"))
            identifier = ""
        self._ids |= {identifier} - {""}
        rest = {key: value for key, value in without(start, *_USE_KNOWN).items() if value and value != _DIRECT}
        if rest:
            self._emit(OpaqueSeen(Opaque(USE, {"id": identifier, **rest})))
        self._emit(CallStart(number, name, identifier))
        self._calls += 1
        return block

    def _more(self, block: _Block, text: str) -> None:
        if text:
            block.pieces.append(text)
            self._add(block.make, text)

    def _delta(self, key: int | str | None, delta: WireDelta, payload: bytes) -> None:
        block = self._blocks.get(key)
        match delta.type:
            case "text_delta":
                self._add(TextDelta, _text(delta.text))
            case "thinking_delta":
                if block is None or block.kind != THINKING:
                    block = self._blocks[key] = _Block(THINKING, {}, ReasoningDelta)
                self._more(block, _text(delta.thinking))
            case "input_json_delta" if block is not None:
                self._input(block, delta.partial_json)
            case "signature_delta" if block is not None:
                block.signature = _text(delta.signature)
            case "citations_delta" if block is not None:
                block.citations.append(delta.citation)
            case kind:
                self._unknown(block, _text(kind), payload)

    def _input(self, block: _Block, given: JSONValue) -> None:
        text = given if isinstance(given, str) else "" if given is None else to_wire(given).decode()
        if text and not isinstance(given, str):
            block.notes.append(Note("arguments_object", "the arguments came as JSON, not as text"))
        if block.call >= 0:
            self._more(block, text)
        else:
            block.pieces.append(text)

    def _unknown(self, block: _Block | None, kind: str, payload: bytes) -> None:
        """A delta of a kind that we do not know: what it says is added to the block, if that is only carried."""
        if block is None or block.kind in ("text", THINKING) or block.call >= 0:
            self._note("unknown_delta", f"a delta of type `{shorten(kind)}` was skipped")
            return
        event = read_json(payload)
        delta = event.get("delta") if is_object(event) else None
        for name, value in without(delta if is_object(delta) else {}, "type").items():
            if isinstance(value, str):
                block.fields.setdefault(name, [_text(block.start.get(name))]).append(value)
            else:
                block.start[name] = value

    def _stopped(self, key: int | str | None) -> None:
        block = self._blocks.pop(key, None)
        if block is None:
            return
        if block.call >= 0:
            self._call_stopped(block)
        elif block.kind == "text":
            if block.citations:
                self._emit(OpaqueSeen(Opaque(CITATIONS, block.citations)))
        elif block.kind == THINKING:
            if block.signature:
                data = {"thinking": "".join(block.pieces), "signature": block.signature}
                self._emit(OpaqueSeen(Opaque(THINKING, {**block.start, "type": THINKING, **data})))
        elif block.kind:
            given = read_json("".join(block.pieces))
            if is_object(given):
                block.start["input"] = given
            block.start |= {name: "".join(texts) for name, texts in block.fields.items()}
            self._emit(OpaqueSeen(Opaque(block_kind(block.kind), block.start)))

    def _call_stopped(self, block: _Block) -> None:
        text = "".join(block.pieces)
        given = block.start.get("input")
        if not text.strip() and is_object(given) and given:  # a server that gives the arguments at once
            self._more(block, to_wire(given).decode())
        elif not is_object(read_json(text)):
            self._doubtful.append(block)
            return
        self._emit(CallEnd(block.call, notes=tuple(block.notes)))

    # ----------------------------------------------------------------------------------------- whole answers

    def _whole(self, body: bytes) -> None:
        event = self._decoded(body)
        if event is None:
            self._fail(Failure("the upstream did not answer with a message", body=shorten(body)))
        elif event.type == "error" or event.error:
            self._fail(error_failure(read_json(body), body=body))
        else:
            self._message(event, body)

    def _message(self, event: WireEvent, body: bytes) -> None:
        if not is_array(event.content):
            failure = error_failure(read_json(body), body=body, otherwise="the upstream answered without content")
            self._fail(failure)
            return
        self._read += 1
        self._used(event.usage)
        self._stops(event)
        self._reason = self._reason or "missing"
        cut = finish_from(self._reason) == "length"
        for at, block in enumerate(event.content):
            self._begin(at, block)
            # What the last call of an answer that was cut holds may be half of its arguments.
            if not (cut and at == len(event.content) - 1):
                self._stopped(at)
        self._end()

    # ------------------------------------------------------------------------------------------ the template

    def _learn(self, read: bytes, name: str, payload: bytes) -> Template | None:
        event = self._wire
        if event.delta is None or (event.type or name) != _DELTA:
            return None
        field, key = _TEXTS.get(_text(event.delta.type), ("", b""))
        text = getattr(event.delta, field) if field else None
        block = self._blocks.get(_key(event.index))
        if not isinstance(text, str) or block is None or (block.call < 0 and field == "partial_json"):
            return None
        self._repeated = block.keep if field != "text" else TextDelta
        return EventTemplate.learn_named(read, name, payload, key, text)

    # ----------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        reason = finish_from(self._reason)
        cut = reason in ("length", "content_filter")
        for key in list(self._blocks):
            if not (cut and self._blocks[key].call >= 0):
                self._stopped(key)
        for block in self._doubtful:
            self._settle(block, cut)
        settled = self._settled(reason)
        if self._stop or (self._reason not in _PLAIN and reason == settled):
            self._emit(OpaqueSeen(Opaque(STOP, {"stop_reason": self._reason, **self._stop})))
        self._last_words()
        self._emit(Finish(settled))

    def _settle(self, block: _Block, cut: bool) -> None:
        """The end of a call that holds no whole object: none if the answer was cut."""
        empty = not "".join(block.pieces).strip()
        if cut and (not empty or block.call == self._calls - 1):
            return
        if empty:
            self._emit(block.keep("{}"))
        self._emit(CallEnd(block.call, notes=tuple(block.notes)))

    def _settled(self, reason: FinishReason) -> FinishReason:
        """The reason, where it fits what was said; else what was said tells it."""
        told: FinishReason = "tool_calls" if self._calls else "stop"
        if reason in ("length", "content_filter", told):
            return reason
        self._note("finish_reason_derived", f"the upstream said `{shorten(self._reason)}`")
        return told

    def _last_words(self) -> None:
        super()._last_words()
        if self._usage:
            rest = usage_rest(self._usage)
            if rest:
                self._emit(OpaqueSeen(Opaque(USAGE, rest)))
            self._emit(UsageSeen(usage_from(self._usage)))


#: Reasons that the common words say as well.
_PLAIN = frozenset({"end_turn", "tool_use", "max_tokens", "refusal"})


def _key(index: JSONValue) -> int | str | None:
    return index if isinstance(index, int | str) else None


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else ""


def _list(value: JSONValue) -> list[JSONValue]:
    return value if is_array(value) else []
