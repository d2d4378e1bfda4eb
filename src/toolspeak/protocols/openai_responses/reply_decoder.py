"""Decoder for upstream replies, streamed or not.

The last event of a stream contains the same response object as a non-streamed reply; items that were already streamed
are skipped.
"""

from collections.abc import Callable, Iterable

from ...core.events import CallArgs, Event, Failure, Finish, FinishReason, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.types import JSONObject, JSONValue, Opaque, is_array, is_object
from ..shared.fields import list_or_empty, object_or_empty, shorten, text_or_empty
from ..shared.framing import FrameTemplate
from ..shared.reply_decoder import BaseReplyDecoder, EventFactory, is_done
from .call_assembler import ARGUMENT_FIELDS, ItemCallAssembler
from .items import ANNOTATION, CONTENT, ITEM, PHASE, RESPONSE, START, reasoning_of, separates_texts, shift_annotation
from .stream_events import NumberedTemplate, StreamEvent, decode_event, failure_from_error, normalize, usage_from

#: Reason in `incomplete_details` -> finish reason.
_INCOMPLETE_REASONS: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Types of the events that end a stream.
_END_EVENTS = frozenset(f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled"))
#: Type of a text part -> the field that contains the text.
_TEXT_FIELDS = {"output_text": "text", "text": "text", "refusal": "refusal"}


class ReplyDecoder(BaseReplyDecoder):
    """Decodes one reply."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._calls = ItemCallAssembler()
        #: Content indexes of the texts that were emitted, by output index.
        self._texts_by_item: dict[JSONValue, set[JSONValue]] = {}
        #: Offsets of these texts in the current text, and its length. Adjacent texts count as one.
        self._part_starts: dict[JSONValue, dict[JSONValue, int]] = {}
        self._length = 0
        self._make_text: EventFactory = self._text_event
        self._make_reasoning: EventFactory = self._reasoning_event
        #: The field and part index that each reasoning item currently streams, by output index.
        self._reasoning_parts: dict[JSONValue, tuple[str, JSONValue]] = {}
        #: Ids of messages whose text was emitted.
        self._text_item_ids: set[JSONValue] = set()
        #: Output indexes of messages whose phase was handled.
        self._items_with_phase: set[JSONValue] = set()
        #: Output indexes and ids of complete items.
        self._complete_items: set[JSONValue] = set()
        #: Creates an event for the text of the last stream event; None if that was not a delta.
        self._delta_factory: EventFactory | None = None
        self._handlers: dict[str, Callable[[StreamEvent], None]] = {
            "response.output_text.delta": self._text,
            "response.output_text.done": self._text_done,
            "response.refusal.delta": self._refusal,
            "response.refusal.done": self._refusal_done,
            "response.reasoning_text.delta": self._reasoning,
            "response.reasoning_text.done": self._reasoning_done,
            "response.reasoning_summary_text.delta": self._reasoning,
            "response.reasoning_summary_text.done": self._reasoning_done,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._arguments,
            "response.custom_tool_call_input.done": self._arguments_done,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
        }

    def _event(self, name: str, payload: bytes) -> None:
        if is_done(payload):
            self._end()
            return
        event = self._decoded(decode_event, payload)
        self._delta_factory = None
        if event is None:
            self._unreadable(payload)
            return
        self._read += 1
        kind = event.type if isinstance(event.type, str) else name
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(normalize(event))
        elif kind in _END_EVENTS:
            self._end_response(kind.removeprefix("response."), object_or_empty(event.response), payload)
        elif (
            kind == "error"
            or (not kind and event.error)
            # Older versions of vLLM send an error object as an event.
            or (event.message and event.code is not None and not kind.startswith("response."))
        ):
            error = event.error or {"message": event.message, "code": event.code, "param": event.param}
            self._fail(failure_from_error(error, payload, shorten(payload)))

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        if self._delta_factory is None:
            return None
        self._template_factory = self._delta_factory
        return NumberedTemplate.from_frame(read, name, payload)

    def _text_event(self, text: str) -> Event:
        self._length += len(text)
        return TextDelta(text)

    def _reasoning_event(self, text: str) -> Event:
        self._length = 0
        return ReasoningDelta(text)

    def _emit(self, event: Event) -> None:
        super()._emit(event)
        if separates_texts(event):
            self._length = 0

    def _part_start(self, output_index: JSONValue, content_index: JSONValue) -> int:
        """Return the offset of a text part in the current text. A new part starts at the current end."""
        starts = self._part_starts.setdefault(output_index, {})
        if content_index not in starts:
            self._flush()
            starts[content_index] = self._length
        return starts[content_index]

    def _emit_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, CallArgs):
                self._add(self._calls[event.index].make_event, event.fragment)
            else:
                self._emit(event)
        if self._calls.conflict and not self._over:
            self._fail(Failure(f"the upstream sent contradictory arguments for `{self._calls.conflict}`"))

    def _item_added(self, event: StreamEvent) -> None:
        if is_object(event.item) and _string(event.item, "type") in ARGUMENT_FIELDS:
            self._emit_all(self._calls.item_added(event.item, event.output_index))
        else:
            self._emit_all(self._calls.end_custom_calls())
            if is_object(event.item) and event.item.get("type") == "message":
                self._part_starts.pop(event.output_index, None)  # some servers use one index for all items
                self._phase(event.item, event.output_index)

    def _item_done(self, event: StreamEvent) -> None:
        if is_object(event.item):
            self._item(event.item, event.output_index)

    def _text(self, event: StreamEvent) -> None:
        if not isinstance(event.delta, str):
            return
        self._texts_by_item.setdefault(event.output_index, set()).add(event.content_index)
        self._text_item_ids.add(event.item_id)
        self._part_start(event.output_index, event.content_index)
        self._add(self._make_text, event.delta)
        self._delta_factory = self._make_text

    def _text_done(self, event: StreamEvent) -> None:
        self._text_item_ids.add(event.item_id)
        self._text_unless_streamed(event.output_index, event.content_index, event.text)

    def _refusal(self, event: StreamEvent) -> None:
        self._note_refusal()
        self._text(event)

    def _refusal_done(self, event: StreamEvent) -> None:
        self._note_refusal()
        self._text_item_ids.add(event.item_id)
        self._text_unless_streamed(event.output_index, event.content_index, event.refusal)

    def _note_refusal(self) -> None:
        self._note("refusal", "the upstream marked this text as a refusal")

    def _text_unless_streamed(self, output_index: JSONValue, content_index: JSONValue, text: JSONValue) -> None:
        """Emit a complete text unless its pieces were already emitted."""
        if not isinstance(text, str):
            return
        parts = self._texts_by_item.setdefault(output_index, set())
        if content_index not in parts:
            parts.add(content_index)
            self._part_start(output_index, content_index)
            self._add(self._make_text, text)

    def _reasoning(self, event: StreamEvent) -> None:
        if isinstance(event.delta, str) and event.delta and self._select_reasoning(event):
            self._add(self._make_reasoning, event.delta)
            self._delta_factory = self._make_reasoning

    def _reasoning_done(self, event: StreamEvent) -> None:
        text, streamed = event.text, self._reasoning_parts.get(event.output_index) == _reasoning_part(event)
        if not streamed and isinstance(text, str) and text and self._select_reasoning(event):
            self._add(self._make_reasoning, text)

    def _select_reasoning(self, event: StreamEvent) -> bool:
        """Whether to emit this event. Of reasoning text and summary, only the one that arrives first is emitted."""
        field, part = _reasoning_part(event)
        current = self._reasoning_parts.get(event.output_index)
        self._reasoning_parts.setdefault(event.output_index, (field, part))
        if current is None:
            self._begin_reasoning(event.item_id, field)
        elif current[0] != field:
            return False
        elif current[1] != part:
            self._reasoning_parts[event.output_index] = (field, part)
            self._add(self._make_reasoning, "\n\n")
        return True

    def _begin_reasoning(self, identifier: JSONValue, field: str) -> None:
        """Emit the id of a reasoning item, which encoders need before the item is complete."""
        if identifier:
            self._emit(OpaqueSeen(Opaque(START + "reasoning", {"id": identifier, "field": field})))

    def _arguments(self, event: StreamEvent) -> None:
        if not isinstance(event.delta, str):
            return
        call = self._calls.find(event.output_index, event.item_id)
        self._emit_all(self._calls.add_arguments(call, event.delta))
        if call.started and not call.ended:
            self._delta_factory = call.add

    def _arguments_done(self, event: StreamEvent) -> None:
        call = self._calls.find(event.output_index, event.item_id)
        self._emit_all(self._calls.whole(call, event.arguments if event.input is None else event.input))

    def _item(self, item: JSONObject, at: JSONValue) -> None:
        kind = _string(item, "type")
        self._complete_items |= {at, _identity(item) or at}
        if kind in ARGUMENT_FIELDS:
            self._emit_all(self._calls.complete_item(item, at))
        elif kind == "message":
            self._phase(item, at)
            self._message(item.get("content"), at)
        elif kind:
            if kind == "reasoning" and at not in self._reasoning_parts and (text := reasoning_of(item)):
                self._begin_reasoning(_string(item, "id"), "content" if item.get("content") else "summary")
                self._add(self._make_reasoning, text)
            self._emit(OpaqueSeen(Opaque(ITEM + kind, item)))
        else:
            self._note("item_dropped", shorten(str(item)))

    def _phase(self, item: JSONObject, at: JSONValue) -> None:
        """Emit the phase of a message. Without it, models mistake commentary for the final answer and stop early."""
        phase = _string(item, "phase")
        if not phase or at in self._items_with_phase:
            return
        self._items_with_phase.add(at)
        if at in self._texts_by_item:
            self._note("phase_dropped", f"the phase `{shorten(phase)}` arrived after the text")
        else:
            self._emit(OpaqueSeen(Opaque(PHASE, {"phase": phase})))

    def _message(self, content: JSONValue, at: JSONValue) -> None:
        if isinstance(content, str):  # some servers send a plain string
            content = [{"type": "output_text", "text": content}]
        for number, part in enumerate(list_or_empty(content)):
            kind = part.get("type") if is_object(part) else None
            if not isinstance(kind, str):
                self._note("content_part_dropped", shorten(str(part)))
            elif kind in _TEXT_FIELDS:
                if kind == "refusal":
                    self._note_refusal()
                self._text_unless_streamed(at, number, part.get(_TEXT_FIELDS[kind]))
                self._annotations(part.get("annotations"), self._part_start(at, number))
            else:
                self._emit(OpaqueSeen(Opaque(CONTENT + kind, part)))

    def _annotations(self, annotations: JSONValue, start: int) -> None:
        for annotation in filter(is_object, list_or_empty(annotations)):
            kind = f"{ANNOTATION}{annotation.get('type')}"
            self._emit(OpaqueSeen(Opaque(kind, shift_annotation(annotation, start))))

    def _remaining_items(self, output: list[JSONValue]) -> None:
        """Emit the items of the final response that were not streamed."""
        # Copied before the loop, which adds to these sets.
        complete, streamed = frozenset(self._complete_items), frozenset(self._texts_by_item)
        # Inconsistent item numbers from a server must not lead to duplicate messages.
        messages = {at for at, item in enumerate(output) if is_object(item) and item.get("type") == "message"}
        consistent, unstreamed = streamed <= messages, messages - streamed
        for at, item in enumerate(output):
            if not is_object(item) or at in complete or (_identity(item) or at) in complete:
                continue
            if at in unstreamed and (not consistent or _identity(item) in self._text_item_ids):
                continue
            self._emit_all(self._calls.end_custom_calls())
            self._item(item, at)

    def _whole(self, body: bytes) -> None:
        response = self._json(body)
        if not is_object(response):
            self._fail(Failure("the upstream's reply is not a response object", body=shorten(body)))
            return
        self._read += 1
        status = response.get("status")
        if not is_array(response.get("output")) and status not in ("failed", "cancelled"):
            if response.get("error") or response.get("detail") or response.get("message"):
                self._fail(failure_from_error(response, body))
            else:
                self._fail(Failure("the upstream's response has no output", body=shorten(body)))
            return
        self._end_response(text_or_empty(status), response, body)

    def _end_response(self, status: str, response: JSONObject, payload: bytes) -> None:
        """Handle the response object at the end of a reply."""
        self._usage = usage_from(response.get("usage")) or self._usage
        if status in ("failed", "cancelled") or response.get("error"):
            default = f"the upstream's response has the status `{status}`"
            self._fail(failure_from_error(response.get("error"), payload, default))
            return
        if status in ("queued", "in_progress"):
            self._fail(Failure("the upstream has not finished its response", body=shorten(payload)))
            return
        self._remaining_items(list_or_empty(response.get("output")))
        if tier := _string(response, "service_tier"):
            self._emit(OpaqueSeen(Opaque(RESPONSE, {"service_tier": tier})))
        reason = self._incomplete(response.get("incomplete_details")) if status == "incomplete" else None
        if status not in ("completed", "incomplete"):
            self._note("finish_reason_derived", f"the upstream's status was `{shorten(status) or 'missing'}`")
        self._finish(reason)

    def _incomplete(self, details: JSONValue) -> FinishReason:
        detail = object_or_empty(details).get("reason")
        reason = _INCOMPLETE_REASONS.get(text_or_empty(detail))
        if reason is None:
            self._note("finish_reason_derived", f"the upstream's finish reason was `{shorten(str(detail))}`")
        return reason or "length"

    def _finish(self, reason: FinishReason | None) -> None:
        if self._over:  # one of the items was invalid
            return
        if self._bad and self._calls.has_unconfirmed:
            self._fail(Failure("an event inside a call could not be decoded", body=shorten(self._bad_body)))
            return
        self._emit_all(self._calls.end(cut=reason is not None))
        for code, detail in self._calls.notes.items():
            self._note(code, detail)
        self._wrap_up()
        self._emit(Finish(reason or ("tool_calls" if self._calls else "stop")))

    def _end(self) -> None:
        self._fail(self._truncated())


def _reasoning_part(event: StreamEvent) -> tuple[str, JSONValue]:
    """Return the field and index of the reasoning part to which an event belongs."""
    return ("summary", event.summary_index) if "summary" in str(event.type) else ("content", event.content_index)


def _identity(item: JSONObject) -> str:
    """Return the call id of an item or, without one, its id. Some servers give all items the same id."""
    return _string(item, "call_id") or _string(item, "id")


def _string(item: JSONObject, key: str) -> str:
    return text_or_empty(item.get(key))
