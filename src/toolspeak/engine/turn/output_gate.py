"""What leaves a turn, and when.

What has been streamed cannot be taken back, so everything that one answer yields passes this gate. It keeps
text back while it may still have to be thrown away, with the thoughts and carried parts behind it, for these have
their places; it enforces `tool_choice`, holds calls that must be checked first, and gives each call that leaves its
final number and id, over all the answers that one turn may need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Literal

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.types import Note, ToolChoice
from ..refusals.classifier import may_open_refusal

#: What happens to text. `live`: it flows. `opening`: its beginning is held while it may be a refusal.
#: `until_call`: held until a call leaves. `to_end`: held until the engine lets it go. `never`: thrown away.
TextPolicy = Literal["live", "opening", "until_call", "to_end", "never"]


_CALL = (CallStart, CallEnd)
#: Policies with which a held text goes before a call does.
_BEFORE_CALLS = ("opening", "until_call")
#: What stands among texts, and does not overtake one that is held.
_IN_LINE = (OpaqueSeen, ReasoningDelta)
#: Where calls carry their mark: in a fence or a tag, which come in one piece; in a document, which does not.
_BEGINS = r"((?:`{{3}}|~{{3}})[\w -]{{0,40}}?|<[\w:.|-]{{1,64}}) {0}\b"
_IN_DOCUMENTS = r'"nonce": ?"{0}",? ?'


class _Passing:
    """One call on its way out."""

    __slots__ = ("bytes_left", "ended", "held", "id", "index", "name")

    def __init__(self, start: CallStart) -> None:
        self.name = start.name
        self.id = start.id
        self.index = -1  # its final number, once it has left
        self.held: list[str] = []  # argument fragments of a call that is checked first
        self.ended: CallEnd | None = None  # it is valid, and waits for those that began before it
        self.bytes_left = False


class Gate:
    """Stands at the end of one turn."""

    def __init__(
        self, choice: ToolChoice, make_id: Callable[[int], str], checked: bool, mark: str | None = None
    ) -> None:
        self._choice = choice
        self._mark = mark  # of the calls: it means nothing to who reads a text in which one has come to nothing
        self._make_id = make_id
        self._checked = checked
        self._text: TextPolicy = "live"
        self._open = True  # text flows
        self._held: list[Event] = []  # texts, and what stands behind them
        self._before: list[Event] = []  # the same, of the answer before
        self._queue = False  # a text is held that says something, and whose hold ends before a call leaves
        self._calls: dict[int, _Passing | None] = {}  # of this answer; None: it does not leave
        self._failed: list[_Passing] = []  # announced in this answer, but nothing of their arguments has left
        self._waiting: list[_Passing] = []  # the same, of earlier answers: they wait to be made again
        self._ids: set[str] = set()
        self._next = 0
        self._spoiled = False
        self.passed = 0  # valid calls that have left
        self.text_left = False
        #: The call whose next fragments leave as they are, and whether text does: such events need not be taken.
        self.flowing = -1
        self.flows = False

    @property
    def started(self) -> int:
        """How many calls have been announced."""
        return self._next

    @property
    def spoiled(self) -> bool:
        """Whether a call has left, or part of one, that cannot be used: nothing can be done about it any more."""
        return self._spoiled or (bool(self._calls) and any(call.bytes_left for call in self._announced()))

    def _announced(self) -> list[_Passing]:
        """The calls of this answer whose name has left and whose end has not."""
        return [call for call in self._calls.values() if call is not None and call.index >= 0]

    # ---- answers

    def begin(self, text: TextPolicy) -> None:
        """Another answer comes."""
        if self._calls or self._failed:
            self._spoiled = self.spoiled
            self._waiting += [*self._failed, *(call for call in self._announced() if not call.bytes_left)]
            self._failed = []
            self._calls = {}
        self._text = text
        self._open = text == "live"
        self._before, self._held = self._held, []
        self._queue = False
        self.flowing = -1
        self.flows = self._open and self.text_left

    @property
    def held_text(self) -> str:
        """The text of this answer that has not left."""
        return _text_of(self._held)

    def release(self, text: str | None = None) -> list[Event]:
        """Let the held text go, or another one in its place: it may be that of the answer before."""
        held = self._held if text is None else self._instead(text)
        self._held, self._before, self._queue = [], [], False
        self._open = self._text != "never"
        out = self._cleaned(held) if self._open else []
        self.text_left = self.text_left or bool(_text_of(out).strip())
        self.flows = self._open and self.text_left
        return out

    def _instead(self, text: str) -> list[Event]:
        if self._before and text == _text_of(self._before):
            return self._before
        return [TextDelta(text), *(event for event in self._held if type(event) is not TextDelta)]

    def _cleaned(self, held: list[Event]) -> list[Event]:
        """What was held, with texts in one piece and without the mark of a document."""
        out: list[Event] = []
        for texts, events in groupby(held, lambda event: type(event) is TextDelta):
            if not texts:
                out.extend(events)
                continue
            text = _text_of(events)
            if self._mark is not None and self._text in ("to_end", "until_call") and self._mark in text:
                text = re.sub(_IN_DOCUMENTS.format(self._mark), "", text)
            if text:
                out.append(TextDelta(text))
        return out

    def finish(self) -> list[Event]:
        """The turn is over: calls that were announced and never made are closed."""
        failed, self._failed = self._failed, []
        return self._close_waiting() + (_closed(failed) if failed else [])

    def _close_waiting(self) -> list[Event]:
        waiting, self._waiting = self._waiting, []
        return _closed(waiting) if waiting else []

    # ---- events

    def take(self, events: list[Event]) -> list[Event]:
        """What leaves now."""
        if self._mark is not None:
            events = self._unmarked(events, self._mark)
        if self.flows and len(events) == 1 and type(events[0]) is TextDelta:
            return events
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta:
                if self._open:
                    self.text_left = self.flows = self.text_left or bool(event.text.strip())
                    out.append(event)
                else:
                    self._hold(event.text, out)
            elif type(event) is CallArgs:
                self._args(event, out)
            elif isinstance(event, _CALL):
                self._call(event, out)
            elif self._queue and isinstance(event, _IN_LINE):
                self._held.append(event)
            else:
                out.append(event)
        return out

    @staticmethod
    def _unmarked(events: list[Event], mark: str) -> list[Event]:
        """The events without the mark where a call would begin."""
        if not [event for event in events if type(event) is TextDelta and mark in event.text]:
            return events
        begins = re.compile(_BEGINS.format(mark))
        return [TextDelta(begins.sub(r"\1", event.text)) if type(event) is TextDelta else event for event in events]

    def _hold(self, text: str, out: list[Event]) -> None:
        if self._text == "never":
            return
        self._held.append(TextDelta(text))
        self._queue = self._queue or (self._text in _BEFORE_CALLS and bool(text.strip()))
        if self._text == "opening" and not may_open_refusal(self.held_text):
            out.extend(self.release())

    def _call(self, event: CallStart | CallEnd, out: list[Event]) -> None:
        self.flowing = -1
        if isinstance(event, CallStart):
            self._start(event, out)
        else:
            self._end(event, out)

    def _start(self, event: CallStart, out: list[Event]) -> None:
        refused = self._refusal(event.name)
        if refused:
            self._calls[event.index] = None
            out.append(Noted(Note(refused, f"a call of `{event.name}` was dropped")))
            return
        passing = self._calls[event.index] = _Passing(event)
        if not self._checked:
            self._announce(passing, out)
        elif self._text == "opening":
            out.extend(self.release())  # whatever the call comes to, the model did not refuse

    def _refusal(self, name: str) -> str:
        """Why a call of this name may not leave."""
        if not self._choice.permits(name):
            return "call_not_allowed"
        if self._choice.single and self._next and self._continued(name) is None:
            return "extra_call_dropped"
        return ""

    def _announce(self, passing: _Passing, out: list[Event]) -> None:
        if self._text in _BEFORE_CALLS:
            out.extend(self.release())
        continued = self._continued(passing.name)
        if continued is not None:
            (self._waiting if continued in self._waiting else self._failed).remove(continued)
            passing.index = continued.index
            return
        out.extend(self._close_waiting())  # the model has changed its mind
        passing.index = self._next
        self._next += 1
        out.append(CallStart(passing.index, passing.name, self._unique(passing)))

    def _continued(self, name: str) -> _Passing | None:
        """The announced call that a call of this name goes on with."""
        return next((call for call in (*self._waiting, *self._failed) if call.name == name), None)

    def _unique(self, passing: _Passing) -> str:
        """The call's own id, or one of ours where it has none or one that is taken."""
        own = passing.id if passing.id and passing.id not in self._ids else self._make_id(passing.index)
        self._ids.add(own)
        return own

    def _args(self, event: CallArgs, out: list[Event]) -> None:
        passing = self._calls.get(event.index)
        if passing is None:
            return
        if passing.index < 0:
            passing.held.append(event.fragment)
            return
        passing.bytes_left = True
        if passing.index == event.index:
            self.flowing = event.index
            out.append(event)
        else:
            out.append(CallArgs(passing.index, event.fragment))

    def settle(self) -> list[Event]:
        """The answer is over: valid calls no longer wait for one that began before them and was cut off."""
        out: list[Event] = []
        self._let_go(out, over=True)
        return out

    def _end(self, event: CallEnd, out: list[Event]) -> None:
        passing = self._calls.get(event.index)
        if passing is not None and event.valid and passing.index < 0:
            passing.ended = event
        else:
            self._calls.pop(event.index, None)
            if passing is not None:
                self._close(passing, event, out)
        self._let_go(out)

    def _let_go(self, out: list[Event], over: bool = False) -> None:
        """Calls that were checked leave in the order in which they began, as they do where calls flow."""
        ready: list[tuple[int, _Passing, CallEnd]] = []
        for index, passing in self._calls.items():
            if passing is None:
                continue
            if passing.ended is not None:
                ready.append((index, passing, passing.ended))
            elif not over:
                break
        for index, passing, end in ready:
            del self._calls[index]
            self._end_valid(passing, end, out)

    def _close(self, passing: _Passing, event: CallEnd, out: list[Event]) -> None:
        if event.valid:
            self._end_valid(passing, event, out)
        elif passing.index < 0:
            out.extend(Noted(note) for note in event.notes)
        elif passing.bytes_left:
            self._spoiled = True
            out.append(CallEnd(passing.index, False, event.notes))
        else:
            self._failed.append(passing)
            out.extend(Noted(note) for note in event.notes)

    def _end_valid(self, passing: _Passing, event: CallEnd, out: list[Event]) -> None:
        if passing.index < 0:
            refused = self._refusal(passing.name)
            if refused:  # several were checked at the same time
                out.append(Noted(Note(refused, f"a call of `{passing.name}` was dropped")))
                return
            self._announce(passing, out)
            out.append(CallArgs(passing.index, "".join(passing.held) or "{}"))
        self.passed += 1
        out.append(CallEnd(passing.index, True, event.notes))


def _text_of(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if type(event) is TextDelta)


def _closed(calls: list[_Passing]) -> list[Event]:
    """The end of calls that were announced and never made."""
    events: list[Event] = []
    for call in calls:
        note = Note("arguments_invalid", f"`{call.name}` was announced, but never made")
        events += [CallArgs(call.index, "{}"), CallEnd(call.index, False, (note,))]
    return events
