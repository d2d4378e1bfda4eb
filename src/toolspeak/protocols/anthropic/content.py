"""The content of a whole message, as our own face writes it: from the events of its turn, or from its reply alone.

Events tell in which order the blocks came, and a client that sends them back must send them in that order: the service
refuses thinking that was moved. A reply alone has no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...core.events import CallStart, Event, OpaqueSeen, ReasoningDelta, Reply, TextDelta
from ...core.types import JSONObject, Opaque, ToolCall, is_array, is_object
from ..shared.fields import without
from .blocks import CITATIONS, THINKING, USE, is_block


def new_id(message: str, number: int) -> str:
    """The id of a call that has none: the block of this number of that message."""
    return f"toolu_{message}_{number}"


def tool_use(identifier: str, name: str, given: JSONObject, uses: Mapping[str, JSONObject]) -> JSONObject:
    """The block of a call. `uses`: what calls say besides, by id."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": given, **uses.get(identifier, {})}


class _Uses:
    """The blocks of a reply's calls, with what these say besides."""

    def __init__(self, reply: Reply, message: str) -> None:
        self._message = message
        noted = [part.data for part in reply.opaque if part.kind == USE and is_object(part.data)]
        self._beside = {str(data.get("id")): without(data, "id") for data in noted}

    def block(self, call: ToolCall, number: int) -> JSONObject:
        return tool_use(call.id or new_id(self._message, number), call.name, call.arguments, self._beside)


# -------------------------------------------------------------------------------------------------- in order


def content_of(events: Iterable[Event], reply: Reply, message: str) -> list[JSONObject]:
    """The blocks in the order in which they came. `message`: its id."""
    calls = {call.id: call for call in reply.calls}
    uses = _Uses(reply, message)
    content = _Content()
    for event in events:
        match event:
            case TextDelta(text):
                content.say("text", text)
            case ReasoningDelta(text):
                content.say(THINKING, text)
            case OpaqueSeen(part):
                content.carry(part)
            case CallStart() if event.id in calls:
                content.put(uses.block(calls[event.id], len(content.blocks)))
            case _:  # the reply tells it
                pass
    content.shut()
    return content.blocks


class _Content:
    def __init__(self) -> None:
        self.blocks: list[JSONObject] = []
        self._open = ""  # the kind of the last block, if that may go on, and what has been said in it
        self._pieces: list[str] = []

    def shut(self) -> None:
        """The last block does not go on."""
        if self._open:
            self.blocks[-1][self._open] = "".join(self._pieces)
            self._open, self._pieces = "", []

    def put(self, block: JSONObject) -> None:
        """A block that is whole."""
        self.shut()
        self.blocks.append(block)

    def say(self, kind: str, text: str) -> None:
        """A piece of a text or of a thought."""
        if not text and kind != self._open:
            return
        self._switch(kind)
        self._pieces.append(text)

    def _switch(self, kind: str) -> None:
        if kind != self._open:
            self.put({"type": "text", "text": ""} if kind == "text" else {"type": kind, kind: "", "signature": ""})
            self._open = kind

    def carry(self, part: Opaque) -> None:
        """A part that is carried, if it belongs here."""
        data = part.data
        if is_block(part):
            self.put(data)
        elif part.kind == THINKING and is_object(data):
            if self._open == THINKING:
                self.shut()
                self.blocks.pop()
            self.put(data)
        elif part.kind == CITATIONS and is_array(data):
            self._switch("text")
            self.blocks[-1][CITATIONS] = data
            self.shut()


# ------------------------------------------------------------------------------------------- without an order


def usual_content(reply: Reply, message: str) -> list[JSONObject]:
    """The blocks in their usual order: thoughts, what is carried, text, calls. `message`: its id."""
    content = [*_thoughts(reply), *(part.data for part in reply.opaque if is_block(part)), *_texts(reply)]
    uses = _Uses(reply, message)
    for call in reply.calls:
        content.append(uses.block(call, len(content)))
    return content


def _thoughts(reply: Reply) -> list[JSONObject]:
    """Thoughts as they were signed, or as one that nobody signed."""
    signed = [part.data for part in reply.opaque if part.kind == THINKING and is_object(part.data)]
    if signed or not reply.reasoning:
        return signed
    return [{"type": THINKING, THINKING: reply.reasoning, "signature": ""}]


def _texts(reply: Reply) -> list[JSONObject]:
    cited = [one for part in reply.opaque if part.kind == CITATIONS and is_array(part.data) for one in part.data]
    if not reply.text and not cited:
        return []
    return [{"type": "text", "text": reply.text, **({"citations": cited} if cited else {})}]
