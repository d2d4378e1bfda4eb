"""Assembles tool calls from the stream events of a Responses API reply."""

from collections.abc import Iterator
from functools import partial

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.json_repair.literals import escape_text
from ...core.types import JSONObject, JSONValue, Note
from ..shared.fields import MAX_CALLS, read_arguments, read_json, to_wire
from .tools import flat_name

#: Type of a call item -> the field that contains the arguments.
ARGUMENT_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}


class PartialItemCall:
    """A call that is being received."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.custom = self.started = self.ended = self.confirmed = self.cut = self.item_done = False
        self.name = self.id = ""
        self.notes: dict[str, str] = {}
        #: Creates an event for a piece of the arguments.
        self.make_event = partial(CallArgs, index)
        self._text: list[str] = []

    def add(self, text: str) -> CallArgs:
        """Add a piece of the arguments or of a custom tool's input, and return the event for it."""
        self._text.append(text)
        return CallArgs(self.index, escape_text(text) if self.custom else text)

    def add_named(self, text: str) -> Iterator[Event]:
        """Add a piece. Yield its event only if the call has started, that is, if its name is known."""
        make_event = self.add(text)
        if self.started and text:
            yield make_event

    def start(self) -> Iterator[Event]:
        """Start the call once its name is known, and yield the arguments received so far."""
        self.started = True
        yield CallStart(self.index, self.name, self.id)
        before = "".join(self._text)
        if self.custom:
            before = '{"input":"' + escape_text(before)
        if before:
            yield CallArgs(self.index, before)

    @property
    def text(self) -> str:
        self._text = ["".join(self._text)]  # cache the joined text
        return self._text[0]

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a complete JSON object."""
        return not self.custom and bool(self.text.strip()) and read_arguments(self.text) is not None

    def end(self) -> Iterator[Event]:
        self.ended = True
        if self.custom:
            yield CallArgs(self.index, '"}')
        elif not self.text.strip():
            self.notes["arguments_missing"] = "the call has no arguments"
            yield self.add("{}")
        yield CallEnd(self.index, notes=tuple(Note(code, detail) for code, detail in self.notes.items()))


class ItemCallAssembler:
    """Assembles the calls of one reply.

    A call arrives three times: as deltas, as complete arguments, and as a complete item. The deltas are used; the other
    two only fill gaps, such as missing pieces or a late name. If the arguments contradict each other, the reply fails.
    A call that has ended never changes: arguments that arrive later are dropped with a note or start another call.
    """

    def __init__(self) -> None:
        self._calls: list[PartialItemCall] = []
        self._by_key: dict[JSONValue, PartialItemCall] = {}
        #: Calls by call id. A duplicate id refers to the first call.
        self._by_call_id: dict[str, PartialItemCall] = {}
        #: Calls that changed since the last `end_custom_calls`.
        self._changed: list[PartialItemCall] = []
        #: Details of notes about the reply, by note code.
        self.notes: dict[str, str] = {}
        #: Tool name of a call with contradictory arguments; empty if there is none.
        self.conflict = ""
        #: Whether arguments arrived after the end of a call and no other call has started since.
        self._late_arguments = False

    def __bool__(self) -> bool:
        """Whether the reply contains a call with a tool name."""
        return any(call.name for call in self._calls)

    @property
    def has_unconfirmed(self) -> bool:
        """Whether a piece of some call may be missing."""
        return self._late_arguments or any(not call.confirmed for call in self._calls)

    def __getitem__(self, index: int) -> PartialItemCall:
        return self._calls[index]

    def find(self, output_index: JSONValue, item_id: JSONValue) -> PartialItemCall:
        """Find or create the call for an event, by item id or, if the id is unknown, by output index.

        Some servers use one index for all items, so an unknown id after the end of a call starts a new call.
        """
        call = self._lookup(output_index, item_id)
        another = call is not None and call.ended and item_id and item_id not in self._by_key
        return self._open(output_index, item_id) if call is None or another else call

    def _lookup(self, output_index: JSONValue, item_id: JSONValue) -> PartialItemCall | None:
        by_id = self._by_key.get(item_id) if isinstance(item_id, str) and item_id else None
        return by_id or (self._by_key.get(output_index) if isinstance(output_index, int) else None)

    def _open(self, output_index: JSONValue, item_id: JSONValue) -> PartialItemCall:
        call = PartialItemCall(len(self._calls))
        self._late_arguments = False
        if len(self._calls) < MAX_CALLS:
            self._calls.append(call)
        else:
            self.notes["calls_dropped"] = f"calls after the first {MAX_CALLS} were dropped"
            call.cut = call.confirmed = True
        if isinstance(output_index, int):
            self._by_key[output_index] = call
        if isinstance(item_id, str) and item_id:
            self._by_key[item_id] = call
        return call

    def item_added(self, item: JSONObject, output_index: JSONValue) -> Iterator[Event]:
        yield from self.end_custom_calls()
        existing = self._lookup(None, item.get("id"))
        if existing is not None and existing.started:
            return  # a duplicate event
        call = self._open(output_index, item.get("id"))
        yield from self._name_call(call, item)

    def complete_item(self, item: JSONObject, output_index: JSONValue) -> Iterator[Event]:
        call = self._call_of_item(item, output_index)
        call.item_done = True
        if call.ended:
            return
        yield from self._name_call(call, item)
        arguments = item.get(ARGUMENT_FIELDS[item["type"]])
        if arguments is not None and not isinstance(arguments, str):
            call.notes["arguments_object"] = "the arguments were sent as JSON, not as text"
            arguments = to_wire(arguments).decode()
        yield from self.whole(call, arguments)
        call.cut = call.cut or item.get("status") == "incomplete"
        if call.started and call.is_complete and not call.cut and not self.conflict:
            yield from call.end()

    def _call_of_item(self, item: JSONObject, output_index: JSONValue) -> PartialItemCall:
        """Find the call to which an item belongs. Some servers use one index or one id for all items."""
        call = self._lookup(output_index, item.get("id"))
        identifier = item.get("call_id")
        same_id = self._by_call_id.get(identifier) if isinstance(identifier, str) else None
        if call is not None and same_id is not None and same_id.ended and not call.name:
            return same_id  # a repeated item, not a new call
        if call is not None and not ((call.ended or call.item_done) and call.id != identifier):
            return call
        return same_id or self._open(output_index, item.get("id"))

    def _name_call(self, call: PartialItemCall, item: JSONObject) -> Iterator[Event]:
        name = item.get("name")
        if call.started or not isinstance(name, str) or not name or len(self._calls) <= call.index:
            return
        call.custom = item.get("type") == "custom_tool_call"
        call.name = flat_name(item.get("namespace"), name)
        identifier = item.get("call_id") or item.get("id")
        if isinstance(identifier, str) and identifier:
            if identifier in self._by_call_id:
                call.notes["duplicate_call_id"] = f"the call id `{identifier}` was used twice"
            else:
                call.id = identifier
                self._by_call_id[identifier] = call
        self._changed.append(call)
        yield from call.start()

    def add_arguments(self, call: PartialItemCall, text: str) -> Iterator[Event]:
        if not call.ended:
            yield from call.add_named(text)
        elif text:
            self._note_late(call)

    def _note_late(self, call: PartialItemCall) -> None:
        """Record a note about arguments that arrived after the end of their call."""
        self._late_arguments = True
        self.notes["arguments_late"] = f"arguments that arrived after the end of a call to `{call.name}` were dropped"

    def whole(self, call: PartialItemCall, arguments: JSONValue) -> Iterator[Event]:
        """Handle the complete arguments, which arrive after their pieces."""
        if not isinstance(arguments, str) or not arguments:
            return
        if call.ended:
            if arguments != call.text:
                self._note_late(call)
            return
        call.confirmed = True
        self._changed.append(call)
        received = call.text
        if arguments.startswith(received):
            yield from call.add_named(arguments[len(received) :])
        elif call.custom or read_json(arguments) != read_json(received):
            self.conflict = call.name

    def end_custom_calls(self) -> Iterator[Event]:
        """End custom calls whose input is complete. Called when another item starts."""
        changed, self._changed = self._changed, []
        for call in changed:
            if call.custom and call.confirmed and not call.ended:
                yield from call.end()

    def end(self, cut: bool) -> Iterator[Event]:
        """Yield the remaining events. If `cut` is set, the reply was truncated and incomplete calls are not ended."""
        for call in self._calls:
            if not call.name:
                self.notes["call_without_name"] = "a call without a tool name was dropped"
            elif not call.ended and not call.cut and not (cut and not call.is_complete):
                yield from call.end()
