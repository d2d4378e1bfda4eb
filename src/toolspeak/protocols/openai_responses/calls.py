"""Tool calls of a reply, put together from the events that servers of the Responses API send.

A call is said three times: piece by piece, whole at the end of its arguments, and whole in its item. What came first
is used, the rest fills gaps: pieces that never came, a name that came late. What contradicts the pieces breaks the
reply, for nobody knows which is right. A call that has ended stays as it is: what comes behind its end is dropped and
noted, or begins a call of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.json_repair.literals import escape_text
from ...core.types import JSONObject, JSONValue, Note
from ..shared.fields import MAX_CALLS, read_arguments, read_json, to_wire
from .tools import flattened

#: Items that are calls -> the field of their arguments.
CALL_ITEMS = {"function_call": "arguments", "custom_tool_call": "input"}


class OpenCall:
    """A call that is being received."""

    __slots__ = (
        "_text",
        "confirmed",
        "custom",
        "cut",
        "ended",
        "id",
        "index",
        "item_done",
        "name",
        "notes",
        "piece",
        "started",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.custom = self.started = self.ended = self.confirmed = self.cut = self.item_done = False
        self.name = self.id = ""
        self.notes: dict[str, str] = {}
        #: Makes the event of a fragment.
        self.piece = partial(CallArgs, index)
        self._text: list[str] = []

    def add(self, text: str) -> CallArgs:
        """A piece of the arguments, or of the one text that a custom tool takes."""
        self._text.append(text)
        return CallArgs(self.index, escape_text(text) if self.custom else text)

    def take(self, text: str) -> Iterator[Event]:
        """As `add`, for a call that may have no name yet."""
        piece = self.add(text)
        if self.started and text:
            yield piece

    def start(self) -> Iterator[Event]:
        """The beginning: its name is known."""
        self.started = True
        yield CallStart(self.index, self.name, self.id)
        before = "".join(self._text)
        if self.custom:
            before = '{"input":"' + escape_text(before)
        if before:
            yield CallArgs(self.index, before)

    @property
    def text(self) -> str:
        """All that was said of the arguments."""
        self._text = ["".join(self._text)]  # joined once, however often it is asked for
        return self._text[0]

    @property
    def whole(self) -> bool:
        """Whether what was said is known to be all."""
        return not self.custom and bool(self.text.strip()) and read_arguments(self.text) is not None

    def end(self) -> Iterator[Event]:
        """The end."""
        self.ended = True
        if self.custom:
            yield CallArgs(self.index, '"}')
        elif not self.text.strip():
            self.notes["arguments_missing"] = "a call without arguments"
            yield self.add("{}")
        yield CallEnd(self.index, notes=tuple(Note(code, detail) for code, detail in self.notes.items()))


class Calls:
    """All calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._known: dict[JSONValue, OpenCall] = {}
        #: By the id that a call was given first.
        self._ids: dict[str, OpenCall] = {}
        #: Calls of which something new was said since custom tools were last settled.
        self._fresh: list[OpenCall] = []
        #: What a reader of the reply should know, by code.
        self.notes: dict[str, str] = {}
        #: The name of a call that was said in two ways.
        self.broken = ""
        #: Whether arguments came behind the end of a call, and no other call has begun since.
        self._late = False

    def __bool__(self) -> bool:
        """Whether a tool was called."""
        return any(call.name for call in self._calls)

    @property
    def unsure(self) -> bool:
        """Whether there is a call of which a piece may be missing."""
        return self._late or any(not call.confirmed for call in self._calls)

    def __getitem__(self, index: int) -> OpenCall:
        return self._calls[index]

    def find(self, output_index: JSONValue, item_id: JSONValue) -> OpenCall:
        """The call that an event belongs to: by the id of its item, where that is known, else by its number.

        An id that is new behind the end of the call of that number is another item: all may have one number.
        """
        call = self._seen(output_index, item_id)
        another = call is not None and call.ended and item_id and item_id not in self._known
        return self._open(output_index, item_id) if call is None or another else call

    def _seen(self, output_index: JSONValue, item_id: JSONValue) -> OpenCall | None:
        by_id = self._known.get(item_id) if isinstance(item_id, str) and item_id else None
        return by_id or (self._known.get(output_index) if isinstance(output_index, int) else None)

    def _open(self, output_index: JSONValue, item_id: JSONValue) -> OpenCall:
        call = OpenCall(len(self._calls))
        self._late = False
        if len(self._calls) < MAX_CALLS:
            self._calls.append(call)
        else:
            self.notes["calls_dropped"] = f"more than {MAX_CALLS} calls"
            call.cut = call.confirmed = True
        if isinstance(output_index, int):
            self._known[output_index] = call
        if isinstance(item_id, str) and item_id:
            self._known[item_id] = call
        return call

    def added(self, item: JSONObject, output_index: JSONValue) -> Iterator[Event]:
        """A call begins."""
        yield from self.settle()
        known = self._seen(None, item.get("id"))
        if known is not None and known.started:
            return  # said twice
        call = self._open(output_index, item.get("id"))
        yield from self._named(call, item)

    def done(self, item: JSONObject, output_index: JSONValue) -> Iterator[Event]:
        """A call's item is complete."""
        call = self._same(item, output_index)
        call.item_done = True
        if call.ended:
            return
        yield from self._named(call, item)
        given = item.get(CALL_ITEMS[item["type"]])
        if given is not None and not isinstance(given, str):
            call.notes["arguments_object"] = "the arguments came as JSON, not as text"
            given = to_wire(given).decode()
        yield from self.whole(call, given)
        call.cut = call.cut or item.get("status") == "incomplete"
        if call.started and call.whole and not call.cut and not self.broken:
            yield from call.end()

    def _same(self, item: JSONObject, output_index: JSONValue) -> OpenCall:
        """The call of an item. One number, or one id, for all items must not make one call of two."""
        call = self._seen(output_index, item.get("id"))
        identifier = item.get("call_id")
        known = self._ids.get(identifier) if isinstance(identifier, str) else None
        if call is not None and known is not None and known.ended and not call.name:
            return known  # said again; what came behind its end is no call
        if call is not None and not ((call.ended or call.item_done) and call.id != identifier):
            return call
        return known or self._open(output_index, item.get("id"))

    def _named(self, call: OpenCall, item: JSONObject) -> Iterator[Event]:
        name = item.get("name")
        if call.started or not isinstance(name, str) or not name or len(self._calls) <= call.index:
            return
        call.custom = item.get("type") == "custom_tool_call"
        call.name = flattened(item.get("namespace"), name)
        identifier = item.get("call_id") or item.get("id")
        if isinstance(identifier, str) and identifier:
            if identifier in self._ids:
                call.notes["duplicate_call_id"] = f"`{identifier}` was used twice"
            else:
                call.id = identifier
                self._ids[identifier] = call
        self._fresh.append(call)
        yield from call.start()

    def more(self, call: OpenCall, text: str) -> Iterator[Event]:
        """A piece of the arguments."""
        if not call.ended:
            yield from call.take(text)
        elif text:
            self._drop(call)

    def _drop(self, call: OpenCall) -> None:
        """Arguments behind the end of a call, which has been handed on."""
        self._late = True
        self.notes["arguments_late"] = f"arguments behind the end of a call of `{call.name}` were dropped"

    def whole(self, call: OpenCall, given: JSONValue) -> Iterator[Event]:
        """The arguments once more, whole."""
        if not isinstance(given, str) or not given:
            return
        if call.ended:
            if given != call.text:
                self._drop(call)
            return
        call.confirmed = True
        self._fresh.append(call)
        said = call.text
        if given.startswith(said):
            yield from call.take(given[len(said) :])
        elif call.custom or read_json(given) != read_json(said):
            self.broken = call.name

    def settle(self) -> Iterator[Event]:
        """Something else begins: the text of a custom tool is complete."""
        fresh, self._fresh = self._fresh, []
        for call in fresh:
            if call.custom and call.confirmed and not call.ended:
                yield from call.end()

    def end(self, cut: bool) -> Iterator[Event]:
        """The end of the reply. `cut`: it was cut off, so a call that is not known to be whole has no end."""
        for call in self._calls:
            if not call.name:
                self.notes["call_without_name"] = "a call that names no tool was dropped"
            elif not call.ended and not call.cut and not (cut and not call.whole):
                yield from call.end()
