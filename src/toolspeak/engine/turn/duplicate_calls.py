"""Calls that one answer makes twice, for models that stutter: each leaves once.

Small models write a call and then the very same call once more. Whoever carries that out sends the message twice. Where
a profile says that a model does this, a call that is like one before it in the same answer, in name and arguments, is
dropped with a note. What may be such a call is held to its end, since what has been streamed cannot be taken back.
"""

from __future__ import annotations

import json

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted
from ...core.types import Note
from .answer_readers import Reading


class _Made:
    """A call of this answer."""

    __slots__ = ("events", "fragments", "held", "name")

    def __init__(self, start: CallStart, held: bool) -> None:
        self.name = start.name
        self.held = held
        self.events: list[Event] = [start] if held else []
        self.fragments: list[str] = []


class Once:
    """An answer in which the same call leaves once."""

    flow = None

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._open: dict[int, _Made] = {}
        self._names: set[str] = set()
        self._whole: set[tuple[str, str]] = set()

    def feed(self, event: Event) -> list[Event]:
        return self._once(self._reading.feed(event))

    def close(self, cut: bool) -> list[Event]:
        events = self._once(self._reading.close(cut))
        return events + [event for made in self._open.values() for event in made.events]

    def _once(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if isinstance(event, CallStart):
                out.extend(self._started(event))
            elif isinstance(event, CallArgs | CallEnd):
                out.extend(self._more(event))
            else:
                out.append(event)
        return out

    def _started(self, event: CallStart) -> list[Event]:
        held = event.name in self._names
        self._names.add(event.name)
        self._open[event.index] = _Made(event, held)
        return [] if held else [event]

    def _more(self, event: CallArgs | CallEnd) -> list[Event]:
        made = self._open.get(event.index)
        if made is None:
            return [event]
        if made.held:
            made.events.append(event)
        if isinstance(event, CallArgs):
            made.fragments.append(event.fragment)
            return [] if made.held else [event]
        del self._open[event.index]
        return self._ended(made, event)

    def _ended(self, made: _Made, end: CallEnd) -> list[Event]:
        if end.valid:
            call = (made.name, _sorted("".join(made.fragments)))
            if call in self._whole:
                return [Noted(Note("same_call_dropped", f"a call of `{made.name}` was dropped: it was made already"))]
            self._whole.add(call)
        return made.events if made.held else [end]


def _sorted(arguments: str) -> str:
    """The arguments in one order; as they are, where they hold a number that Python does not read."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except ValueError:
        return arguments
