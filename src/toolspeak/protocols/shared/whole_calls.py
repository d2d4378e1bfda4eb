"""What the protocols share in which a call is one piece and need not have an id: Gemini and Ollama.

`WholeCalls` turns the events of a call into the call once it is complete; one that was cut never comes out. `Pairing`
gives ids to calls and results that have none, by name and order, and `in_call_order` keeps that order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.types import JSONValue, Message, Note, ToolCall, is_object
from .fields import read_json, to_wire

_UNNAMED = "unnamed_call_"
#: How ids begin that were made here or by the engine, for calls that came without. They are never sent: an upstream
#: that gives its calls none may know no such field (Gemini 2 on Vertex: `Unknown name "id"`).
_MADE = (_UNNAMED, "emulated_")


def sent_id(identifier: str) -> str:
    """An id as it goes to the wire: nothing, if it was made here."""
    return "" if identifier.startswith(_MADE) else identifier


def in_call_order(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with results that are sent without ids in the order of their calls: nothing else pairs them."""
    calls: tuple[ToolCall, ...] = ()
    run: list[Message] = []
    for message in messages:
        if calls and message.results and not message.parts:
            run.append(message)
            continue
        yield from _ordered(run, calls)
        run = []
        if message.calls:
            calls = () if all(sent_id(call.id) for call in message.calls) else message.calls
        yield message
    yield from _ordered(run, calls)


def _ordered(run: list[Message], calls: tuple[ToolCall, ...]) -> Iterator[Message]:
    """Messages of results, in which those of one tool follow each other as its calls do."""
    places = {call.id: at for at, call in enumerate(calls)}
    given = [result for message in run for result in message.results]
    by_name: dict[str, list[int]] = {}
    for result in given:
        if result.id in places:
            by_name.setdefault(calls[places[result.id]].name, []).append(places[result.id])
    if all(found == sorted(found) for found in by_name.values()):
        yield from run
        return
    left = iter(sorted(given, key=lambda result: places.get(result.id, len(calls))))
    for message in run:
        yield replace(message, results=tuple(next(left) for _ in message.results))


class Pairing:
    """Ids for the calls and results of one conversation: a result without an id belongs to the first call of its name,
    or of any if it names none, that has no result yet. So does a result with an id that no call has, if that call has
    none: some clients (LiteLLM for Ollama) send ids with results only.
    """

    def __init__(self) -> None:
        self._made = 0
        self._brought: set[str] = set()
        self._open: set[str] = set()
        self._all: deque[str] = deque()
        self._by_name: dict[str, deque[str]] = {}

    def call(self, name: str, identifier: str) -> str:
        """The id of a call."""
        if not identifier:
            self._made += 1
            identifier = f"{_UNNAMED}{self._made}"
        else:
            self._brought.add(identifier)
        self._open.add(identifier)
        self._all.append(identifier)
        self._by_name.setdefault(name, deque()).append(identifier)
        return identifier

    def result(self, name: str, identifier: str) -> str:
        """The id of a result; nothing when no call waits for one."""
        if identifier not in self._brought:
            queue = self._by_name.get(name, deque()) if name else self._all
            while queue and queue[0] not in self._open:
                queue.popleft()
            if queue and (not identifier or queue[0] not in self._brought):
                identifier = queue.popleft()
        self._open.discard(identifier)
        return identifier


class WholeCalls:
    """Calls that have begun and are not complete."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[CallStart, list[str]]] = {}

    def feed(self, event: CallStart | CallArgs | CallEnd) -> ToolCall | None:
        """The call that this event completes; None when it completes none that may be used."""
        if isinstance(event, CallStart):
            self._open[event.index] = (event, [])
            return None
        if isinstance(event, CallArgs):
            self._open[event.index][1].append(event.fragment)
            return None
        start, fragments = self._open.pop(event.index)
        arguments = read_json("".join(fragments) or "{}")
        return ToolCall(start.name, arguments, start.id) if event.valid and is_object(arguments) else None


def whole_call(index: int, name: str, identifier: str, given: JSONValue) -> Iterator[Event]:
    """The events of a call that came in one piece. Arguments that are no object are for the engine to judge."""
    yield CallStart(index, name, identifier)
    notes: tuple[Note, ...] = ()
    if isinstance(given, str):
        notes = (Note("arguments_text", "the arguments came as text, not as JSON"),)
        text = given
    else:
        text = to_wire({} if given is None else given).decode()
    yield CallArgs(index, text or "{}")
    yield CallEnd(index, notes=notes)
