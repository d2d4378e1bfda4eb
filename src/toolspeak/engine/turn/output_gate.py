"""Output gate: decides which events of a turn are emitted, and when.

Streamed events cannot be retracted, so every event of an answer passes through this gate. It holds back text that may
have to be discarded. Reasoning and opaque parts that follow held text wait too, to preserve the order. The gate also
enforces `tool_choice`, buffers calls that must be validated first, and numbers the calls across all attempts of a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Literal

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.types import Note, ToolChoice
from ..refusals.refusal_prefix import may_open_refusal

#: How text is handled. `live`: streamed. `opening`: held while it may be the beginning of a refusal.
#: `until_call`: held until a call is emitted. `to_end`: held until the engine releases it. `never`: discarded.
TextPolicy = Literal["live", "opening", "until_call", "to_end", "never"]

_CALL = (CallStart, CallEnd)
#: Policies under which held text is emitted right before a call.
_BEFORE_CALLS = ("opening", "until_call")
#: Events that must not overtake held text.
_ORDERED = (OpaqueSeen, ReasoningDelta)
#: Where a call carries its nonce: in a code fence or tag, which is never split across events, or in a JSON document.
_NONCE_IN_OPENING = r"((?:`{{3}}|~{{3}})[\w -]{{0,40}}?|<[\w:.|-]{{1,64}}) {0}\b"
_NONCE_IN_DOCUMENT = r'"nonce": ?"{0}",? ?'


class PendingCall:
    """A call that has not been fully emitted."""

    __slots__ = ("args_emitted", "buffer", "end", "id", "index", "name")

    def __init__(self, start: CallStart) -> None:
        self.name = start.name
        self.id = start.id
        self.index = -1  # its number in the output, once its start has been emitted
        self.buffer: list[str] = []  # argument fragments held until the call is validated
        self.end: CallEnd | None = None  # set if the call is valid but must wait for earlier calls
        self.args_emitted = False


class OutputGate:
    """Filters the events of one turn. `checked`: emit only complete, valid calls. `nonce`: removed from text."""

    def __init__(
        self, choice: ToolChoice, make_id: Callable[[int], str], checked: bool, nonce: str | None = None
    ) -> None:
        self._choice = choice
        self._nonce = nonce
        self._make_id = make_id
        self._checked = checked
        self._text: TextPolicy = "live"
        self._open = True  # whether text is streamed
        self._pending: list[Event] = []  # held text, and events that must not overtake it
        self._previous: list[Event] = []  # `_pending` of the previous answer
        self._queue = False  # whether non-blank text is held that a call will release
        self._calls: dict[int, PendingCall | None] = {}  # calls of this answer; None if dropped
        self._failed: list[PendingCall] = []  # invalid calls of this answer of which only the start was emitted
        self._waiting: list[PendingCall] = []  # `_failed` calls of earlier answers: a retry may complete them
        self._ids: set[str] = set()
        self._next = 0
        self._spoiled = False
        self.emitted_calls = 0  # valid, complete calls only
        self.text_emitted = False
        #: For the engine's fast path: the call whose fragments, and whether text, may be emitted without `take`.
        self.streaming_call = -1
        self.text_streams = False

    @property
    def announced_calls(self) -> int:
        """The number of calls whose start has been emitted."""
        return self._next

    @property
    def spoiled(self) -> bool:
        """Whether an unusable call, or part of one, has been emitted. This cannot be undone."""
        return self._spoiled or (bool(self._calls) and any(call.args_emitted for call in self._announced()))

    def _announced(self) -> list[PendingCall]:
        """Return the calls of this answer whose start has been emitted, but not their end."""
        return [call for call in self._calls.values() if call is not None and call.index >= 0]

    # ---- answers

    def begin(self, text: TextPolicy) -> None:
        """Start the next answer."""
        if self._calls or self._failed:
            self._spoiled = self.spoiled
            self._waiting += [*self._failed, *(call for call in self._announced() if not call.args_emitted)]
            self._failed = []
            self._calls = {}
        self._text = text
        self._open = text == "live"
        self._previous, self._pending = self._pending, []
        self._queue = False
        self.streaming_call = -1
        self.text_streams = self._open and self.text_emitted

    @property
    def held_text(self) -> str:
        """The text of this answer that is held back."""
        return _text_of(self._pending)

    def release(self, text: str | None = None) -> list[Event]:
        """Emit the held text, or `text` in its place. `text` may be the held text of the previous answer."""
        pending = self._pending if text is None else self._replacement(text)
        self._pending, self._previous, self._queue = [], [], False
        self._open = self._text != "never"
        out = self._clean(pending) if self._open else []
        self.text_emitted = self.text_emitted or bool(_text_of(out).strip())
        self.text_streams = self._open and self.text_emitted
        return out

    def _replacement(self, text: str) -> list[Event]:
        if self._previous and text == _text_of(self._previous):
            return self._previous
        return [TextDelta(text), *(event for event in self._pending if type(event) is not TextDelta)]

    def _clean(self, pending: list[Event]) -> list[Event]:
        """Join adjacent text events, and remove the nonce if they contain a JSON document that carries it."""
        out: list[Event] = []
        for is_text, events in groupby(pending, lambda event: type(event) is TextDelta):
            if not is_text:
                out.extend(events)
                continue
            text = _text_of(events)
            if self._nonce is not None and self._text in ("to_end", "until_call") and self._nonce in text:
                text = re.sub(_NONCE_IN_DOCUMENT.format(self._nonce), "", text)
            if text:
                out.append(TextDelta(text))
        return out

    def finish(self) -> list[Event]:
        """End the turn: close calls whose start was emitted but which were never completed."""
        failed, self._failed = self._failed, []
        return self._close_waiting() + (_end_unmade(failed) if failed else [])

    def _close_waiting(self) -> list[Event]:
        waiting, self._waiting = self._waiting, []
        return _end_unmade(waiting) if waiting else []

    # ---- events

    def take(self, events: list[Event]) -> list[Event]:
        """Accept events; return those to emit now."""
        if self._nonce is not None:
            events = self._without_nonce(events, self._nonce)
        if self.text_streams and len(events) == 1 and type(events[0]) is TextDelta:
            return events
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta:
                if self._open:
                    self.text_emitted = self.text_streams = self.text_emitted or bool(event.text.strip())
                    out.append(event)
                else:
                    self._hold(event.text, out)
            elif type(event) is CallArgs:
                self._args(event, out)
            elif isinstance(event, _CALL):
                self._call(event, out)
            elif self._queue and isinstance(event, _ORDERED):
                self._pending.append(event)
            else:
                out.append(event)
        return out

    @staticmethod
    def _without_nonce(events: list[Event], nonce: str) -> list[Event]:
        """Remove the nonce from call openings that remain in the text, because it means nothing to a reader."""
        if not [event for event in events if type(event) is TextDelta and nonce in event.text]:
            return events
        opening = re.compile(_NONCE_IN_OPENING.format(nonce))
        return [TextDelta(opening.sub(r"\1", event.text)) if type(event) is TextDelta else event for event in events]

    def _hold(self, text: str, out: list[Event]) -> None:
        if self._text == "never":
            return
        self._pending.append(TextDelta(text))
        self._queue = self._queue or (self._text in _BEFORE_CALLS and bool(text.strip()))
        if self._text == "opening" and not may_open_refusal(self.held_text):
            out.extend(self.release())

    def _call(self, event: CallStart | CallEnd, out: list[Event]) -> None:
        self.streaming_call = -1
        if isinstance(event, CallStart):
            self._start(event, out)
        else:
            self._end(event, out)

    def _start(self, event: CallStart, out: list[Event]) -> None:
        code = self._rejection(event.name)
        if code:
            self._calls[event.index] = None
            out.append(Noted(Note(code, f"a call of `{event.name}` was dropped")))
            return
        call = self._calls[event.index] = PendingCall(event)
        if not self._checked:
            self._announce(call, out)
        elif self._text == "opening":
            out.extend(self.release())  # valid or not, a call means that the model did not refuse

    def _rejection(self, name: str) -> str:
        """Return a note code if `tool_choice` forbids a call of this tool, otherwise an empty string."""
        if not self._choice.permits(name):
            return "call_not_allowed"
        if self._choice.single and self._next and self._earlier_start(name) is None:
            return "extra_call_dropped"
        return ""

    def _announce(self, call: PendingCall, out: list[Event]) -> None:
        if self._text in _BEFORE_CALLS:
            out.extend(self.release())
        earlier = self._earlier_start(call.name)
        if earlier is not None:
            (self._waiting if earlier in self._waiting else self._failed).remove(earlier)
            call.index = earlier.index
            return
        out.extend(self._close_waiting())  # the model chose another tool
        call.index = self._next
        self._next += 1
        out.append(CallStart(call.index, call.name, self._unique_id(call)))

    def _earlier_start(self, name: str) -> PendingCall | None:
        """Find a failed call of this tool whose start was emitted: the new call completes it."""
        return next((call for call in (*self._waiting, *self._failed) if call.name == name), None)

    def _unique_id(self, call: PendingCall) -> str:
        """Return the call's id, or a generated one if the id is missing or a duplicate."""
        unique = call.id if call.id and call.id not in self._ids else self._make_id(call.index)
        self._ids.add(unique)
        return unique

    def _args(self, event: CallArgs, out: list[Event]) -> None:
        call = self._calls.get(event.index)
        if call is None:
            return
        if call.index < 0:
            call.buffer.append(event.fragment)
            return
        call.args_emitted = True
        if call.index == event.index:
            self.streaming_call = event.index
            out.append(event)
        else:
            out.append(CallArgs(call.index, event.fragment))

    def settle(self) -> list[Event]:
        """End the answer: emit valid calls that were waiting for an earlier call that was cut off."""
        out: list[Event] = []
        self._emit_ready(out, final=True)
        return out

    def _end(self, event: CallEnd, out: list[Event]) -> None:
        call = self._calls.get(event.index)
        if call is not None and event.valid and call.index < 0:
            call.end = event
        else:
            self._calls.pop(event.index, None)
            if call is not None:
                self._close(call, event, out)
        self._emit_ready(out)

    def _emit_ready(self, out: list[Event], final: bool = False) -> None:
        """Emit validated calls in the order in which they started."""
        ready: list[tuple[int, PendingCall, CallEnd]] = []
        for index, call in self._calls.items():
            if call is None:
                continue
            if call.end is not None:
                ready.append((index, call, call.end))
            elif not final:
                break
        for index, call, end in ready:
            del self._calls[index]
            self._end_valid(call, end, out)

    def _close(self, call: PendingCall, event: CallEnd, out: list[Event]) -> None:
        if event.valid:
            self._end_valid(call, event, out)
        elif call.index < 0:
            out.extend(Noted(note) for note in event.notes)
        elif call.args_emitted:
            self._spoiled = True
            out.append(CallEnd(call.index, False, event.notes))
        else:
            self._failed.append(call)
            out.extend(Noted(note) for note in event.notes)

    def _end_valid(self, call: PendingCall, event: CallEnd, out: list[Event]) -> None:
        if call.index < 0:
            code = self._rejection(call.name)
            if code:  # several calls were validated at the same time
                out.append(Noted(Note(code, f"a call of `{call.name}` was dropped")))
                return
            self._announce(call, out)
            out.append(CallArgs(call.index, "".join(call.buffer) or "{}"))
        self.emitted_calls += 1
        out.append(CallEnd(call.index, True, event.notes))


def _text_of(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if type(event) is TextDelta)


def _end_unmade(calls: list[PendingCall]) -> list[Event]:
    """Return events that close calls whose start was emitted but which were never completed."""
    events: list[Event] = []
    for call in calls:
        # The model may see this detail in the result of the failed call, so do not change the wording.
        note = Note("arguments_invalid", f"`{call.name}` was announced, but never made")
        events += [CallArgs(call.index, "{}"), CallEnd(call.index, False, (note,))]
    return events
