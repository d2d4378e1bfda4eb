"""What an upstream answers to a Responses request, streamed or not, to events.

One path for both: a whole answer is what the last event of a stream holds. Items that were streamed are not read
again there, items that were not are. Every fault that servers are known for is tolerated and noted, or becomes a
`Failure`; no input raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ...core.events import (
    CallArgs,
    Event,
    Failure,
    Finish,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_array, is_object
from ..shared.fields import read_json, repair_json, shorten
from ..shared.framing import Template
from ..shared.reply_decoder import Make, ReplyReader
from .calls import CALL_ITEMS, Calls
from .items import reasoning_of
from .parts import ANNOTATION, CONTENT, ITEM, PHASE, RESPONSE, START, moved, parts_texts
from .wire import Numbered, WireEvent, decode_event, failure_of, tidied, usage_from

#: `[DONE]` with some spaces, which servers that also speak the older protocol send.
_SHORT = 16

#: Why a response is incomplete -> our reason.
_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Events that end a stream.
_ENDS = frozenset(f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled"))
#: Types of a text inside a message, and the field that holds it.
_TEXTS = {"output_text": "text", "text": "text", "refusal": "refusal"}


def _is_bare_error(event: WireEvent, kind: str) -> bool:
    """Whether a document is an error by itself, as older vLLM gives it: its type is then that of the error."""
    return bool(event.message) and event.code is not None and not kind.startswith("response.")


class ReplyDecoder(ReplyReader):
    """Reads one answer: `feed` gives the events that the bytes make certain, `close` the last ones.

    `stream` says what was asked for; an upstream that answers the other way is understood too.
    """

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._calls = Calls()
        self._usage: Usage | None = None
        #: Parts of messages whose text has been given, by the number of the message.
        self._heard: dict[JSONValue, set[JSONValue]] = {}
        #: Where in the text at hand these parts begin, and how long it is: parts that nothing parts are one text.
        self._starts: dict[JSONValue, dict[JSONValue, int]] = {}
        self._length = 0
        self._say: Make = self._said
        self._ponder: Make = self._pondered
        #: Reasoning that is being given, by the number of its item: which field, and which part of it.
        self._thoughts: dict[JSONValue, tuple[str, JSONValue]] = {}
        #: Messages of which some text has been given, by id.
        self._spoken: set[JSONValue] = set()
        #: Messages whose phase has been told, by number.
        self._phases: set[JSONValue] = set()
        #: Items that are complete, by number and by id.
        self._complete: set[JSONValue] = set()
        #: What makes an event of the text of the last event, if that is a delta.
        self._delta: Make | None = None
        self._handlers: dict[str, Callable[[WireEvent], None]] = {
            "response.output_text.delta": self._text,
            "response.output_text.done": self._text_done,
            "response.refusal.delta": self._refusal,
            "response.refusal.done": self._refusal_done,
            "response.reasoning_text.delta": self._thought,
            "response.reasoning_text.done": self._thought_done,
            "response.reasoning_summary_text.delta": self._thought,
            "response.reasoning_summary_text.done": self._thought_done,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._arguments,
            "response.custom_tool_call_input.done": self._arguments_done,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
        }

    @property
    def finished(self) -> bool:
        """Whether the upstream said that it is done: then a connection that breaks loses nothing."""
        return self._over

    # ------------------------------------------------------------------------------------------------- events

    def _event(self, name: str, payload: bytes) -> None:
        if len(payload) < _SHORT and payload.strip() == b"[DONE]":
            self._end()
            return
        event = self._decoded(payload)
        self._delta = None
        if event is None:
            self._unreadable(payload)
            return
        self._read += 1
        kind = event.type if isinstance(event.type, str) else name
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(tidied(event))
        elif kind in _ENDS:
            status = kind.removeprefix("response.")
            self._final(status, event.response if is_object(event.response) else {}, payload)
        elif kind == "error" or (not kind and event.error) or _is_bare_error(event, kind):
            said = event.error or {"message": event.message, "code": event.code, "param": event.param}
            self._fail(failure_of(said, payload, shorten(payload)))

    def _decoded(self, payload: bytes) -> WireEvent | None:
        try:
            return decode_event(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            mended = repair_json(payload)
        try:
            event = decode_event(mended) if mended else None
        except (msgspec.DecodeError, RecursionError):
            return None
        if event is not None:
            self._mended()
        return event

    def _learn(self, read: bytes, name: str, payload: bytes) -> Template | None:
        if self._delta is None:
            return None
        self._repeated = self._delta
        return Numbered.of(read, name, payload)

    def _said(self, text: str) -> Event:
        self._length += len(text)
        return TextDelta(text)

    def _pondered(self, text: str) -> Event:
        self._length = 0
        return ReasoningDelta(text)

    def _emit(self, event: Event) -> None:
        super()._emit(event)
        if parts_texts(event):
            self._length = 0

    def _start(self, output_index: JSONValue, content_index: JSONValue) -> int:
        """Where a part begins; here, unless something of it was given."""
        starts = self._starts.setdefault(output_index, {})
        if content_index not in starts:
            self._flush()
            starts[content_index] = self._length
        return starts[content_index]

    def _all(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, CallArgs):
                self._add(self._calls[event.index].piece, event.fragment)
            else:
                self._emit(event)
        if self._calls.broken and not self._over:
            self._fail(Failure(f"the arguments of `{self._calls.broken}` were said in two ways"))

    def _item_added(self, event: WireEvent) -> None:
        if is_object(event.item) and _text_of(event.item, "type") in CALL_ITEMS:
            self._all(self._calls.added(event.item, event.output_index))
        else:
            self._all(self._calls.settle())
            if is_object(event.item) and event.item.get("type") == "message":
                self._starts.pop(event.output_index, None)  # all items may have one number
                self._phase(event.item, event.output_index)

    def _item_done(self, event: WireEvent) -> None:
        if is_object(event.item):
            self._item(event.item, event.output_index)

    def _text(self, event: WireEvent) -> None:
        if not isinstance(event.delta, str):
            return
        self._heard.setdefault(event.output_index, set()).add(event.content_index)
        self._spoken.add(event.item_id)
        self._start(event.output_index, event.content_index)
        self._add(self._say, event.delta)
        self._delta = self._say

    def _text_done(self, event: WireEvent) -> None:
        self._spoken.add(event.item_id)
        self._once(event.output_index, event.content_index, event.text)

    def _refusal(self, event: WireEvent) -> None:
        self._refused()
        self._text(event)

    def _refusal_done(self, event: WireEvent) -> None:
        self._refused()
        self._spoken.add(event.item_id)
        self._once(event.output_index, event.content_index, event.refusal)

    def _refused(self) -> None:
        self._note("refusal", "the upstream marked this text as a refusal")

    def _once(self, output_index: JSONValue, content_index: JSONValue, text: JSONValue) -> None:
        """A whole text, unless its pieces have been given."""
        if not isinstance(text, str):
            return
        heard = self._heard.setdefault(output_index, set())
        if content_index not in heard:
            heard.add(content_index)
            self._start(output_index, content_index)
            self._add(self._say, text)

    def _thought(self, event: WireEvent) -> None:
        if isinstance(event.delta, str) and event.delta and self._think(event):
            self._add(self._ponder, event.delta)
            self._delta = self._ponder

    def _thought_done(self, event: WireEvent) -> None:
        known = self._thoughts.get(event.output_index)
        part = event.summary_index if _field(event) == "summary" else event.content_index
        if known != (_field(event), part) and isinstance(event.text, str) and event.text and self._think(event):
            self._add(self._ponder, event.text)

    def _think(self, event: WireEvent) -> bool:
        """Whether this is of the field that is being given: what the model thought, or else the summary of it."""
        field = _field(event)
        part = event.summary_index if field == "summary" else event.content_index
        known = self._thoughts.get(event.output_index)
        self._thoughts.setdefault(event.output_index, (field, part))
        if known is None:
            self._begin_thought(event.item_id, field)
        elif known[0] != field:
            return False
        elif known[1] != part:
            self._thoughts[event.output_index] = (field, part)
            self._add(self._ponder, "\n\n")
        return True

    def _begin_thought(self, identifier: JSONValue, field: str) -> None:
        """Who sends reasoning on must know the id of its item before its end, where the rest of the item comes."""
        if identifier:
            self._emit(OpaqueSeen(Opaque(START + "reasoning", {"id": identifier, "field": field})))

    def _arguments(self, event: WireEvent) -> None:
        if not isinstance(event.delta, str):
            return
        call = self._calls.find(event.output_index, event.item_id)
        self._all(self._calls.more(call, event.delta))
        if call.started and not call.ended:
            self._delta = call.add

    def _arguments_done(self, event: WireEvent) -> None:
        call = self._calls.find(event.output_index, event.item_id)
        self._all(self._calls.whole(call, event.arguments if event.input is None else event.input))

    # -------------------------------------------------------------------------------------------------- items

    def _item(self, item: JSONObject, at: JSONValue) -> None:
        """An item that is complete."""
        kind = _text_of(item, "type")
        self._complete |= {at, _identity(item) or at}
        if kind in CALL_ITEMS:
            self._all(self._calls.done(item, at))
        elif kind == "message":
            self._phase(item, at)
            self._message(item.get("content"), at)
        elif kind:
            if kind == "reasoning" and at not in self._thoughts and (text := reasoning_of(item)):
                self._begin_thought(_text_of(item, "id"), "content" if item.get("content") else "summary")
                self._add(self._ponder, text)
            self._emit(OpaqueSeen(Opaque(ITEM + kind, item)))
        else:
            self._note("item_dropped", shorten(str(item)))

    def _phase(self, item: JSONObject, at: JSONValue) -> None:
        """Models that are given no phases of what they said take a word in between for the answer, and stop early."""
        phase = _text_of(item, "phase")
        if not phase or at in self._phases:
            return
        self._phases.add(at)
        if at in self._heard:
            self._note("phase_dropped", f"`{shorten(phase)}` was told behind the text")
        else:
            self._emit(OpaqueSeen(Opaque(PHASE, {"phase": phase})))

    def _message(self, content: JSONValue, at: JSONValue) -> None:
        if isinstance(content, str):  # as some servers give it
            content = [{"type": "output_text", "text": content}]
        for number, part in enumerate(content if is_array(content) else ()):
            kind = part.get("type") if is_object(part) else None
            if not isinstance(kind, str):
                self._note("content_part_dropped", shorten(str(part)))
            elif kind in _TEXTS:
                if kind == "refusal":
                    self._refused()
                self._once(at, number, part.get(_TEXTS[kind]))
                self._annotations(part.get("annotations"), self._start(at, number))
            else:
                self._emit(OpaqueSeen(Opaque(CONTENT + kind, part)))

    def _annotations(self, listed: JSONValue, start: int) -> None:
        for one in listed if is_array(listed) else ():
            if is_object(one):
                self._emit(OpaqueSeen(Opaque(f"{ANNOTATION}{one.get('type')}", moved(one, start))))

    def _leftovers(self, output: list[JSONValue]) -> None:
        """The items of the final response that its stream did not give; without a stream, all of them."""
        # What these items say themselves says nothing about the stream.
        complete, heard = frozenset(self._complete), frozenset(self._heard)
        # A server that numbers its items in two ways must not say everything twice.
        alike = heard <= {at for at, item in enumerate(output) if is_object(item) and item.get("type") == "message"}
        for at, item in enumerate(output):
            if not is_object(item) or at in complete or (_identity(item) or at) in complete:
                continue
            if item.get("type") == "message" and at not in heard and (not alike or _identity(item) in self._spoken):
                continue
            self._all(self._calls.settle())
            self._item(item, at)

    # ------------------------------------------------------------------------------------------------ the end

    def _whole(self, body: bytes) -> None:
        response = read_json(body)
        if response is None and (mended := repair_json(body)):
            self._mended()
            response = read_json(mended)
        if not is_object(response):
            self._fail(Failure("the upstream did not answer with a response", body=shorten(body)))
            return
        self._read += 1
        status = response.get("status")
        if not is_array(response.get("output")) and status not in ("failed", "cancelled"):
            if response.get("error") or response.get("detail") or response.get("message"):
                self._fail(failure_of(response, body))
            else:
                self._fail(Failure("the upstream answered without an output", body=shorten(body)))
            return
        self._final(status if isinstance(status, str) else "", response, body)

    def _final(self, status: str, response: JSONObject, payload: bytes) -> None:
        """The response object that ends an answer."""
        self._usage = usage_from(response.get("usage")) or self._usage
        if status in ("failed", "cancelled") or response.get("error"):
            self._fail(failure_of(response.get("error"), payload, f"the upstream's response is `{status}`"))
            return
        if status in ("queued", "in_progress"):
            self._fail(Failure("the upstream has not finished its response", body=shorten(payload)))
            return
        output = response.get("output")
        self._leftovers(output if is_array(output) else [])
        if tier := _text_of(response, "service_tier"):
            self._emit(OpaqueSeen(Opaque(RESPONSE, {"service_tier": tier})))
        reason = self._incomplete(response.get("incomplete_details")) if status == "incomplete" else None
        if status not in ("completed", "incomplete"):
            self._note("finish_reason_derived", f"the upstream said `{shorten(status) or 'nothing'}`")
        self._finish(reason)

    def _incomplete(self, details: JSONValue) -> FinishReason:
        said = details.get("reason") if is_object(details) else None
        reason = _INCOMPLETE.get(said) if isinstance(said, str) else None
        if reason is None:
            self._note("finish_reason_derived", f"the upstream said `{shorten(str(said))}`")
        return reason or "length"

    def _finish(self, reason: FinishReason | None) -> None:
        if self._over:  # an item was wrong
            return
        if self._bad and self._calls.unsure:
            self._fail(Failure("an event inside a call could not be read", body=shorten(self._bad_body)))
            return
        self._all(self._calls.end(cut=reason is not None))
        for code, detail in self._calls.notes.items():
            self._note(code, detail)
        self._last_words()
        self._emit(Finish(reason or ("tool_calls" if self._calls else "stop")))

    def _end(self) -> None:
        self._fail(self._truncated())

    def _last_words(self) -> None:
        super()._last_words()
        if self._usage is not None:
            self._emit(UsageSeen(self._usage))


def _field(event: WireEvent) -> str:
    return "summary" if "summary" in str(event.type) else "content"


def _identity(item: JSONObject) -> str:
    """What tells an item from others: a call by its own id, since some servers give all items one."""
    return _text_of(item, "call_id") or _text_of(item, "id")


def _text_of(item: JSONObject, key: str) -> str:
    """A field that is a text, or nothing."""
    value = item.get(key)
    return value if isinstance(value, str) else ""
