"""Converts an upstream's reply to an assistant message for the next request, including protocol-specific parts.

Signed thinking, encrypted reasoning and call signatures must be sent back unchanged, to the same upstream and in the
same position. `_RULES` defines for each protocol where opaque parts are placed.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..core.events import CallStart, Event, OpaqueSeen, ReasoningDelta, Reply, TextDelta
from ..core.types import JSONObject, Message, Opaque, Part, TextPart, is_array, is_object
from .anthropic import blocks as anthropic_blocks
from .anthropic import encoding_state as anthropic_wire
from .anthropic.blocks import is_block
from .gemini import messages as gemini_messages
from .gemini import wire as gemini_wire
from .gemini.messages import is_thought
from .ollama import request as ollama_request
from .ollama.reply_decoder import IMAGES
from .openai_chat.chunks import ANSWER, CALL, LOGPROBS, OPAQUE_FIELDS
from .openai_chat.messages import PROTOCOL as OPENAI_CHAT
from .openai_responses.items import ANNOTATION, CONTENT, ITEM, PHASE, separates_texts, shift_annotation
from .openai_responses.items import ORDER as ITEMS_ORDER
from .openai_responses.items import PROTOCOL as OPENAI_RESPONSES
from .shared.fields import filled, take_call_extra

#: Where to place an opaque part. `part`: as a separate part. `text`: in the preceding text. `call`: in a call. `field`:
#: in a message field. `pictures`: as images. Empty: nowhere, because the part only describes the reply.
Placement: TypeAlias = Literal["part", "text", "call", "field", "pictures", ""]


class _ProtocolRules(msgspec.Struct, frozen=True):
    placement: Callable[[Opaque], Placement]
    #: Keys in `Message.extra`: the order of parts and calls, and the extra fields of each call by position.
    order: str = ""
    calls: str = ""
    #: Key in `TextPart.extra` that stores the annotations of a text.
    annotations: str = ""
    #: Whether parts are separate items. If so, the order is always recorded.
    items: bool = False
    #: Kind of the opaque parts for thoughts. Empty if only signed thoughts keep their position.
    thought: str = ""


def _anthropic(part: Opaque) -> Placement:
    if part.kind in (anthropic_blocks.CITATIONS, anthropic_blocks.TOOL_USE):
        return "text" if part.kind == anthropic_blocks.CITATIONS else "call"
    return "part" if part.kind == anthropic_blocks.THINKING or is_block(part) else ""


def _gemini(part: Opaque) -> Placement:
    return "part" if part.kind == gemini_wire.PART else "call" if part.kind == gemini_wire.CALL else ""


def _openai_responses(part: Opaque) -> Placement:
    if part.kind.startswith(ANNOTATION):
        return "text"
    return "part" if part.kind.startswith((ITEM, CONTENT, PHASE)) else ""


def _openai_chat(part: Opaque) -> Placement:
    if part.kind in (CALL, "reasoning_details"):
        return "call" if part.kind == CALL else "field"
    return "" if part.kind in (*OPAQUE_FIELDS, LOGPROBS, ANSWER) else "part"  # other metadata is never sent back


def _ollama(part: Opaque) -> Placement:
    return "pictures" if part.kind == IMAGES else ""


_RULES = {
    anthropic_wire.PROTOCOL: _ProtocolRules(_anthropic, anthropic_wire.ORDER, anthropic_wire.CALL_EXTRAS, "citations"),
    gemini_wire.PROTOCOL: _ProtocolRules(
        _gemini, gemini_messages.ORDER, gemini_messages.CALLS, thought=gemini_wire.PART
    ),
    OPENAI_RESPONSES: _ProtocolRules(_openai_responses, ITEMS_ORDER, annotations="annotations", items=True),
    OPENAI_CHAT: _ProtocolRules(_openai_chat, calls="tool_calls"),
    ollama_request.PROTOCOL: _ProtocolRules(_ollama),
}


def assistant_message(reply: Reply, events: Sequence[Event], since: int, protocol: str) -> Message:
    """Convert a reply to an assistant message that can be sent back to the upstream.

    Args:
        reply: the reply that the events form.
        events: all events of the turn.
        since: index of the first event of the last attempt. Opaque parts of earlier attempts are dropped.
        protocol: the upstream's protocol.
    """
    rules = _RULES.get(protocol)
    builder = _MessageBuilder(rules or _ProtocolRules(lambda _: ""), {call.id for call in reply.calls})
    for at, event in enumerate(events):
        builder.add(event, last_attempt=at >= since)
    return builder.message(reply, protocol)


class _MessageBuilder:
    """Builds a message from the events of one turn."""

    def __init__(self, rules: _ProtocolRules, call_ids: set[str]) -> None:
        self._rules = rules
        self._call_ids = call_ids
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._parts: list[Part] = []
        self._order = ""
        self._call_extras: list[JSONObject] = []
        self._fields: JSONObject = {}
        #: Length of all text so far; offset of the last text part; offset from which annotations count.
        self._length = self._part_start = self._text_start = 0

    def add(self, event: Event, last_attempt: bool) -> None:
        if separates_texts(event):
            self._text_start = self._length
        if isinstance(event, TextDelta):
            self._end_thought()
            self._text.append(event.text)
            self._length += len(event.text)
        elif isinstance(event, ReasoningDelta) and last_attempt and self._rules.thought:
            if self._text:
                self._flush()
            self._thoughts.append(event.text)
        elif isinstance(event, CallStart) and event.id in self._call_ids:
            self._flush()
            self._order += "c"
        elif isinstance(event, OpaqueSeen) and last_attempt:
            self._add_opaque(event.part)

    def _flush(self) -> None:
        """End the current text. Text of only white space is dropped, because some services reject it."""
        self._end_thought()
        text = "".join(self._text)
        self._text = []
        if text.strip():
            self._part_start = self._length - len(text)
            self._append(TextPart(text))

    def _end_thought(self, metadata: JSONObject | None = None) -> None:
        """End the current thought. `metadata` contains its signature and other fields."""
        thought, self._thoughts = "".join(self._thoughts), []
        if thought or metadata is not None:
            self._append(Opaque(self._rules.thought, {**(metadata or {"thought": True}), "text": thought}))

    def _append(self, part: Part) -> None:
        self._parts.append(part)
        self._order += "p"

    def _add_opaque(self, part: Opaque) -> None:
        match self._rules.placement(part):
            case "part" if self._thoughts and is_thought(part) and not part.data.get("text"):
                self._end_thought(part.data)
            case "part":
                self._flush()
                self._append(part)
            case "text":
                self._flush()
                self._annotate(part)
            case "call" if is_object(part.data):
                self._call_extras.append(part.data)
            case "field":
                before, data = self._fields.get(part.kind), part.data
                self._fields[part.kind] = before + data if is_array(before) and is_array(data) else data
            case "pictures" if is_array(part.data):
                self._flush()
                for picture in part.data:
                    self._append(ollama_request.decode_image(picture))
            case _:
                pass

    def _annotate(self, part: Opaque) -> None:
        """Add annotations to the last text."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, TextPart):
            field = self._rules.annotations
            by = self._text_start - self._part_start
            annotations = part.data if is_array(part.data) else [part.data]
            more = [shift_annotation(one, by) if is_object(one) else one for one in annotations]
            self._parts[-1] = TextPart(last.text, {**last.extra, field: [*last.extra.get(field, []), *more]})

    def message(self, reply: Reply, protocol: str) -> Message:
        self._flush()
        rules, extra = self._rules, self._fields
        if rules.order and (rules.items or "cp" in self._order):
            extra[rules.order] = self._order
        # The extra fields of the calls by position. They are matched by call id or, without an id, by name.
        matched = [take_call_extra(self._call_extras, call.id, call.name) for call in reply.calls]
        if rules.calls and any(matched):
            extra[rules.calls] = filled({str(at): fields for at, fields in enumerate(matched)})
        return Message("assistant", tuple(self._parts), reply.reasoning, reply.calls, extra=extra, protocol=protocol)
