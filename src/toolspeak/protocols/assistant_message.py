"""What an upstream said, as a message of the next request: with the parts that only its own protocol has words for.

Signed thinking, encrypted reasoning and the signatures of calls are worth something only if they go back as they came,
to whom they came from, and in their places. Each protocol is one row that tells what becomes of a carried part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..core.events import CallStart, Event, OpaqueSeen, ReasoningDelta, Reply, TextDelta
from ..core.types import JSONObject, Media, Message, Opaque, Part, TextPart, ToolCall, is_array, is_object
from .anthropic import blocks as anthropic_blocks
from .anthropic import wire as anthropic_wire
from .anthropic.blocks import is_block
from .gemini import messages as gemini_messages
from .gemini import wire as gemini_wire
from .gemini.parts import is_thought
from .ollama import messages as ollama_messages
from .ollama.reply_decoder import IMAGES
from .openai_chat.chunks import ANSWER, CALL, CARRIED, LOGPROBS
from .openai_chat.fields import PROTOCOL as OPENAI_CHAT
from .openai_responses.items import ORDER as ITEMS_ORDER
from .openai_responses.parts import ANNOTATION, CONTENT, ITEM, PHASE, moved, parts_texts
from .openai_responses.parts import PROTOCOL as OPENAI_RESPONSES
from .shared.fields import without

#: `part`: it stands in its place among the texts. `text`: it belongs to the text before it. `call`: to a call.
#: `field`: it is a field of the message. `pictures`: the model painted them. Empty: it is about the answer only.
Place: TypeAlias = Literal["part", "text", "call", "field", "pictures", ""]


class _Row(msgspec.Struct, frozen=True):
    """One protocol."""

    place: Callable[[Opaque], Place]
    #: Words in `Message.extra`: how parts and calls follow each other, and what calls say besides, by position.
    order: str = ""
    calls: str = ""
    #: The word in the `extra` of a text for what belongs to it.
    about: str = ""
    #: Parts are items of their own, so that even their order among texts must be told.
    items: bool = False
    #: The kind of a part that is a thought, where those stand among the others even if nobody signed them.
    thought: str = ""


def _anthropic(part: Opaque) -> Place:
    if part.kind in (anthropic_blocks.CITATIONS, anthropic_blocks.USE):
        return "text" if part.kind == anthropic_blocks.CITATIONS else "call"
    return "part" if part.kind == anthropic_blocks.THINKING or is_block(part) else ""


def _gemini(part: Opaque) -> Place:
    return "part" if part.kind == gemini_wire.PART else "call" if part.kind == gemini_wire.CALL else ""


def _openai_responses(part: Opaque) -> Place:
    if part.kind.startswith(ANNOTATION):
        return "text"
    return "part" if part.kind.startswith((ITEM, CONTENT, PHASE)) else ""


def _openai_chat(part: Opaque) -> Place:
    if part.kind in (CALL, "reasoning_details"):
        return "call" if part.kind == CALL else "field"
    return "" if part.kind in (*CARRIED, LOGPROBS, ANSWER) else "part"  # what else is carried may not be sent


def _ollama(part: Opaque) -> Place:
    return "pictures" if part.kind == IMAGES else ""


_ROWS = {
    anthropic_wire.PROTOCOL: _Row(_anthropic, anthropic_wire.ORDER, anthropic_wire.USES, "citations"),
    gemini_wire.PROTOCOL: _Row(_gemini, gemini_messages.ORDER, gemini_messages.CALLS, thought=gemini_wire.PART),
    OPENAI_RESPONSES: _Row(_openai_responses, ITEMS_ORDER, about="annotations", items=True),
    OPENAI_CHAT: _Row(_openai_chat, calls="tool_calls"),
    ollama_messages.PROTOCOL: _Row(_ollama),
}


def message_of(reply: Reply, events: Sequence[Event], since: int, protocol: str) -> Message:
    """The reply as a message that can be sent back.

    Args:
        reply: what the events fold to.
        events: all events of the turn.
        since: where those of the last answer begin; what earlier ones carried belongs to no message.
        protocol: the one that the upstream speaks.
    """
    row = _ROWS.get(protocol)
    said = _Said(row or _Row(lambda _: ""), {call.id for call in reply.calls})
    for at, event in enumerate(events):
        said.add(event, carried=at >= since)
    return said.message(reply, protocol)


class _Said:
    """Events of one turn, put in the places that they have in a message."""

    def __init__(self, row: _Row, ids: set[str]) -> None:
        self._row = row
        self._ids = ids
        self._text: list[str] = []
        self._thought: list[str] = []
        self._parts: list[Part] = []
        self._order = ""
        self._beside: list[JSONObject] = []  # of calls
        self._fields: JSONObject = {}
        #: How much text there was; where in it the last text part begins, and where what annotations count from.
        self._length = self._part_start = self._text_start = 0

    def add(self, event: Event, carried: bool) -> None:
        if parts_texts(event):
            self._text_start = self._length
        if isinstance(event, TextDelta):
            self._think()
            self._text.append(event.text)
            self._length += len(event.text)
        elif isinstance(event, ReasoningDelta) and carried and self._row.thought:
            if self._text:
                self._flush()
            self._thought.append(event.text)
        elif isinstance(event, CallStart) and event.id in self._ids:
            self._flush()
            self._order += "c"
        elif isinstance(event, OpaqueSeen) and carried:
            self._carry(event.part)

    def _flush(self) -> None:
        """End the text at hand. One of nothing but white space says nothing, and some services refuse it."""
        self._think()
        text = "".join(self._text)
        self._text = []
        if text.strip():
            self._part_start = self._length - len(text)
            self._put(TextPart(text))

    def _think(self, signed: JSONObject | None = None) -> None:
        """End the thought at hand; `signed` is the part that tells what else was said of it."""
        thought, self._thought = "".join(self._thought), []
        if thought or signed is not None:
            self._put(Opaque(self._row.thought, {**(signed or {"thought": True}), "text": thought}))

    def _put(self, part: Part) -> None:
        self._parts.append(part)
        self._order += "p"

    def _carry(self, part: Opaque) -> None:
        match self._row.place(part):
            case "part" if self._thought and is_thought(part) and not part.data.get("text"):
                self._think(part.data)
            case "part":
                self._flush()
                self._put(part)
            case "text":
                self._flush()
                self._cite(part)
            case "call" if is_object(part.data):
                self._beside.append(part.data)
            case "field":
                before, data = self._fields.get(part.kind), part.data
                self._fields[part.kind] = before + data if is_array(before) and is_array(data) else data
            case "pictures" if is_array(part.data):
                self._flush()
                for picture in part.data:
                    self._put(_picture(picture))
            case _:
                pass

    def _cite(self, part: Opaque) -> None:
        """Add to what is said about the last text."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, TextPart):
            about = self._row.about
            by = self._text_start - self._part_start
            listed = part.data if is_array(part.data) else [part.data]
            more = [moved(one, by) if is_object(one) else one for one in listed]
            self._parts[-1] = TextPart(last.text, {**last.extra, about: [*last.extra.get(about, []), *more]})

    def message(self, reply: Reply, protocol: str) -> Message:
        self._flush()
        row, extra = self._row, self._fields
        if row.order and (row.items or "cp" in self._order):
            extra[row.order] = self._order
        beside = self._calls(reply)
        if row.calls and beside:
            extra[row.calls] = beside
        return Message("assistant", tuple(self._parts), reply.reasoning, reply.calls, extra=extra, protocol=protocol)

    def _calls(self, reply: Reply) -> JSONObject:
        """What each call says besides, by its position; told by its id or else by its name, the first of them first."""
        found: JSONObject = {}
        left = list(self._beside)
        for at, call in enumerate(reply.calls):
            own = next((one for one in left if _belongs(one, call)), None)
            if own is not None:
                left.remove(own)
                found[str(at)] = without(own, "id", "name")
        return found


def _belongs(beside: JSONObject, call: ToolCall) -> bool:
    return beside.get("id", call.id) == call.id and beside.get("name", call.name) == call.name


def _picture(data: str) -> Media:
    return ollama_messages.decode_image(data)
