"""Decoder for upstream replies, streamed or not.

The blocks of a non-streamed message are started and ended immediately.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Note, Opaque, is_array, is_object
from ..shared.fields import (
    MAX_CALLS,
    list_or_empty,
    object_or_empty,
    read_json,
    shorten,
    text_or_empty,
    to_wire,
    without,
)
from ..shared.framing import FrameTemplate, encode_sse
from ..shared.passthrough_bytes import RawCapture
from ..shared.reply_decoder import BaseReplyDecoder, EventFactory, EventTemplate
from . import blocks

_DONE = b"[DONE]"
_DELTA = "content_block_delta"
#: Delta types that contain a single text -> the field with the text, and its JSON key as bytes.
_TEXT_DELTAS = {
    "text_delta": ("text", b'"text":'),
    "thinking_delta": ("thinking", b'"thinking":'),
    "input_json_delta": ("partial_json", b'"partial_json":'),
}
#: Block kinds whose deltas may be passed through unchanged.
_PASSTHROUGH_KINDS = ("text", blocks.THINKING)
_CALL_FIELDS = ("type", "id", "name", "input")
#: Default value of a call's `caller` field.
_DIRECT_CALLER = {"type": "direct"}


class _IncomingBlock(msgspec.Struct):
    kind: str
    start: JSONObject
    #: Creates the event for a piece of this block's text.
    make: EventFactory
    #: Index of the call, or -1 if the block is not a call.
    call: int = -1
    pieces: list[str] = []
    #: Strings from deltas of unknown types, by field name.
    fields: dict[str, list[str]] = {}
    citations: list[JSONValue] = []
    signature: str = ""
    notes: list[Note] = []

    def append(self, text: str) -> Event:
        """Append a piece of text and return the event for it."""
        self.pieces.append(text)
        return self.make(text)


class ReplyDecoder(BaseReplyDecoder):
    """Decodes one reply."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._blocks: dict[int | str | None, _IncomingBlock] = {}
        self._calls = 0
        self._ids: set[str] = set()
        #: Calls that ended without complete arguments. The stop reason shows whether they were truncated.
        self._incomplete_calls: list[_IncomingBlock] = []
        self._usage_fields: JSONObject = {}
        self._stop: JSONObject = {}
        self._last_event = blocks.MessagesEvent()

    def _event(self, name: str, payload: bytes) -> None:
        event = self._decoded(blocks.decode_event, payload)
        if event is None:
            self._invalid_event(name, payload)
            return
        self._read += 1
        self._last_event = event
        kind = event.type if isinstance(event.type, str) and event.type else name
        if kind == _DELTA and event.delta is not None:
            if self._raw is not None and name == event.type and b"\n" not in payload:
                self._capture(self._raw, event.index, event.delta, payload)
            self._delta(_key(event.index), event.delta, payload)
            return
        match kind:
            case "content_block_start":
                self._start_block(_key(event.index), event.content_block)
            case "content_block_stop":
                self._end_block(_key(event.index))
            case "message_start":
                self._message_start(event.message)
            case "message_delta":
                self._add_usage(event.usage)
                self._stop_reason(event.delta or blocks.MessagesDelta())
            case "message_stop":
                self._reason = self._reason or "missing"
                self._end()
            case "message":
                self._message(event, payload)
            case _:
                self._other_event(kind, event, payload)

    def _capture(self, capture: RawCapture, index: JSONValue, delta: blocks.MessagesDelta, payload: bytes) -> None:
        """Capture a delta for pass-through if it contains only text or thinking for an open block of that kind."""
        block = self._blocks.get(index) if type(index) is int else None
        kind = block.kind if block is not None else ""
        if kind in _PASSTHROUGH_KINDS and delta.type == f"{kind}_delta" and isinstance(getattr(delta, kind), str):
            capture.add(encode_sse(payload, _DELTA), {"index": index, "type": kind})

    def _invalid_event(self, name: str, payload: bytes) -> None:
        """Handle an event that is not a JSON object."""
        if payload.strip() == _DONE:  # some servers end the stream with [DONE]
            return
        if name == "error":
            text = shorten(payload)
            self._fail(Failure(text or "the upstream returned an error without a message", body=text))
            return
        self._unreadable(payload)
        if not self._closing and any(block.call >= 0 for block in self._blocks.values()):
            # The undecodable event may have been part of the call.
            self._fail(Failure("an event inside a call could not be decoded", body=shorten(payload)))

    def _other_event(self, kind: str, event: blocks.MessagesEvent, payload: bytes) -> None:
        if kind == "error" or event.error:
            self._fail(blocks.error_failure(read_json(payload), body=payload))
        elif kind not in ("ping", _DELTA):
            self._note("unknown_event", f"an event of type `{shorten(kind)}` was skipped")

    def _message_start(self, message: JSONValue) -> None:
        if not is_object(message):
            return
        self._add_usage(message.get("usage"))
        for at, block in enumerate(list_or_empty(message.get("content"))):  # some servers send content in this event
            self._start_block(at, block)

    def _add_usage(self, usage: JSONValue) -> None:
        """Update the usage. Counts are cumulative, so later values replace earlier ones."""
        if is_object(usage):
            self._usage_fields |= {key: value for key, value in usage.items() if value is not None}

    def _stop_reason(self, end: blocks.MessageEnd) -> None:
        reason = end.stop_reason
        if isinstance(reason, str) and reason and not self._reason:
            self._reason = reason
            fields = {"stop_sequence": end.stop_sequence, "stop_details": end.stop_details, "container": end.container}
            self._stop = {key: value for key, value in fields.items() if value is not None}

    def _start_block(self, key: int | str | None, value: JSONValue) -> None:
        self._end_block(key)  # some servers give all blocks the same index
        start = object_or_empty(value)
        match start.get("type"):
            case "text":
                block = _IncomingBlock("text", start, TextDelta)
                block.citations += list_or_empty(start.get("citations"))
                self._add(TextDelta, text_or_empty(start.get("text")))
            case "thinking":
                block = _IncomingBlock(blocks.THINKING, start, ReasoningDelta)
                block.signature = text_or_empty(start.get("signature"))
                self._append(block, text_or_empty(start.get("thinking")))
            case "tool_use":
                call_block = self._start_call(start)
                if call_block is None:
                    return
                block = call_block
            case kind:
                block = _IncomingBlock(text_or_empty(kind), dict(start), TextDelta)
                if not block.kind:
                    self._note("unknown_block", "a block without a type was skipped")
        self._blocks[key] = block

    def _start_call(self, start: JSONObject) -> _IncomingBlock | None:
        name, identifier = text_or_empty(start.get("name")), text_or_empty(start.get("id"))
        if not name:
            self._note("call_without_name", "a call without a tool name was dropped")
            return None
        if self._calls >= MAX_CALLS:
            self._note("calls_dropped", f"calls after the first {MAX_CALLS} were dropped")
            return None
        number = self._calls
        block = _IncomingBlock("tool_use", start, partial(CallArgs, number), number)
        if identifier in self._ids:
            block.notes.append(Note("duplicate_call_id", f"the call id `{identifier}` was used twice"))
            identifier = ""
        self._ids |= {identifier} - {""}
        rest = {key: value for key, value in without(start, *_CALL_FIELDS).items() if value and value != _DIRECT_CALLER}
        if rest:
            self._emit(OpaqueSeen(Opaque(blocks.TOOL_USE, {"id": identifier, **rest})))
        self._emit(CallStart(number, name, identifier))
        self._calls += 1
        return block

    def _append(self, block: _IncomingBlock, text: str) -> None:
        if text:
            block.pieces.append(text)
            self._add(block.make, text)

    def _delta(self, key: int | str | None, delta: blocks.MessagesDelta, payload: bytes) -> None:
        block = self._blocks.get(key)
        match delta.type:
            case "text_delta":
                self._add(TextDelta, text_or_empty(delta.text))
            case "thinking_delta":
                if block is None or block.kind != blocks.THINKING:
                    block = self._blocks[key] = _IncomingBlock(blocks.THINKING, {}, ReasoningDelta)
                self._append(block, text_or_empty(delta.thinking))
            case "input_json_delta" if block is not None:
                self._append_arguments(block, delta.partial_json)
            case "signature_delta" if block is not None:
                block.signature = text_or_empty(delta.signature)
            case "citations_delta" if block is not None:
                block.citations.append(delta.citation)
            case kind:
                self._unknown_delta(block, text_or_empty(kind), payload)

    def _append_arguments(self, block: _IncomingBlock, fragment: JSONValue) -> None:
        text = fragment if isinstance(fragment, str) else "" if fragment is None else to_wire(fragment).decode()
        if text and not isinstance(fragment, str):
            block.notes.append(Note("arguments_object", "the arguments were sent as JSON, not as text"))
        if block.call >= 0:
            self._append(block, text)
        else:
            block.pieces.append(text)

    def _unknown_delta(self, block: _IncomingBlock | None, kind: str, payload: bytes) -> None:
        """Add the fields of an unknown delta to an opaque block. For other blocks, skip the delta."""
        if block is None or block.kind in ("text", blocks.THINKING) or block.call >= 0:
            self._note("unknown_delta", f"a delta of type `{shorten(kind)}` was skipped")
            return
        delta = object_or_empty(object_or_empty(read_json(payload)).get("delta"))
        for name, value in without(delta, "type").items():
            if isinstance(value, str):
                block.fields.setdefault(name, [text_or_empty(block.start.get(name))]).append(value)
            else:
                block.start[name] = value

    def _end_block(self, key: int | str | None) -> None:
        block = self._blocks.pop(key, None)
        if block is None:
            return
        if block.call >= 0:
            self._end_call(block)
        elif block.kind == "text":
            if block.citations:
                self._emit(OpaqueSeen(Opaque(blocks.CITATIONS, block.citations)))
        elif block.kind == blocks.THINKING:
            if block.signature:
                data = {"thinking": "".join(block.pieces), "signature": block.signature}
                self._emit(OpaqueSeen(Opaque(blocks.THINKING, {**block.start, "type": blocks.THINKING, **data})))
        elif block.kind:
            arguments = read_json("".join(block.pieces))
            if is_object(arguments):
                block.start["input"] = arguments
            block.start |= {name: "".join(texts) for name, texts in block.fields.items()}
            self._emit(OpaqueSeen(Opaque(blocks.block_kind(block.kind), block.start)))

    def _end_call(self, block: _IncomingBlock) -> None:
        text = "".join(block.pieces)
        arguments = block.start.get("input")
        if not text.strip() and is_object(arguments) and arguments:  # some servers send all arguments at the start
            self._append(block, to_wire(arguments).decode())
        elif not is_object(read_json(text)):
            self._incomplete_calls.append(block)
            return
        self._emit(CallEnd(block.call, notes=tuple(block.notes)))

    def _whole(self, body: bytes) -> None:
        event = self._decoded(blocks.decode_event, body)
        if event is None:
            self._fail(Failure("the upstream's reply is not an Anthropic message", body=shorten(body)))
        elif event.type == "error" or event.error:
            self._fail(blocks.error_failure(read_json(body), body=body))
        else:
            self._message(event, body)

    def _message(self, event: blocks.MessagesEvent, body: bytes) -> None:
        if not is_array(event.content):
            message = "the upstream's reply has no content"
            self._fail(blocks.error_failure(read_json(body), body=body, default_message=message))
            return
        self._read += 1
        self._add_usage(event.usage)
        self._stop_reason(event)
        self._reason = self._reason or "missing"
        cut = blocks.finish_from(self._reason) == "length"
        for at, block in enumerate(event.content):
            self._start_block(at, block)
            # In a truncated reply, the arguments of the last call may be incomplete.
            if not (cut and at == len(event.content) - 1):
                self._end_block(at)
        self._end()

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        event = self._last_event
        if event.delta is None or (event.type or name) != _DELTA:
            return None
        field, key = _TEXT_DELTAS.get(text_or_empty(event.delta.type), ("", b""))
        text = getattr(event.delta, field) if field else None
        block = self._blocks.get(_key(event.index))
        if not isinstance(text, str) or block is None or (block.call < 0 and field == "partial_json"):
            return None
        self._template_factory = block.append if field != "text" else TextDelta
        return EventTemplate.learn_named(read, name, payload, key, text)

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        reason = blocks.finish_from(self._reason)
        cut = reason in ("length", "content_filter")
        for key in list(self._blocks):
            if not (cut and self._blocks[key].call >= 0):
                self._end_block(key)
        for block in self._incomplete_calls:
            self._end_incomplete_call(block, cut)
        finish_reason = self._checked_reason(reason, bool(self._calls))
        if self._stop or (self._reason not in _COMMON_REASONS and reason == finish_reason):
            self._emit(OpaqueSeen(Opaque(blocks.STOP, {"stop_reason": self._reason, **self._stop})))
        self._wrap_up()
        self._emit(Finish(finish_reason))

    def _end_incomplete_call(self, block: _IncomingBlock, cut: bool) -> None:
        """End a call with incomplete arguments, unless the reply was truncated within the call."""
        empty = not "".join(block.pieces).strip()
        if cut and (not empty or block.call == self._calls - 1):
            return
        if empty:
            self._emit(block.append("{}"))
        self._emit(CallEnd(block.call, notes=tuple(block.notes)))

    def _last_events(self) -> Iterator[Event]:
        if self._usage_fields:
            rest = blocks.usage_rest(self._usage_fields)
            if rest:
                yield OpaqueSeen(Opaque(blocks.USAGE, rest))
            yield UsageSeen(blocks.usage_from(self._usage_fields))


#: Stop reasons that a `FinishReason` expresses without loss.
_COMMON_REASONS = frozenset({"end_turn", "tool_use", "max_tokens", "refusal"})


def _key(index: JSONValue) -> int | str | None:
    return index if isinstance(index, int | str) else None
