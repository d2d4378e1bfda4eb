"""What the protocols share in which a call is one piece and need not have an id: Gemini and Ollama.

`WholeCalls` turns the events of a call into the call once it is complete; one that was cut never comes out. `Pairing`
gives ids to calls and results that have none, by name and order. Above: the codecs. Below: `common`, `core.events`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..core.events import CallArgs, CallEnd, CallStart, Event
from ..core.model import JSONValue, Note, ToolCall, is_object
from .common import read_json, to_wire

__all__ = ["Pairing", "WholeCalls", "sent_id", "whole_call"]

#: How ids begin that were made here; they are never sent.
_MADE = "unnamed_call_"


def sent_id(identifier: str) -> str:
    """An id as it goes to the wire: nothing, if it was made here."""
    return "" if identifier.startswith(_MADE) else identifier


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
            identifier = f"{_MADE}{self._made}"
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
