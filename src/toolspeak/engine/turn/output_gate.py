"""Output gate: decides which events of a turn are emitted, and when.

Streamed events cannot be retracted, so every event of an answer passes through this gate. It holds back text that may
have to be discarded. Reasoning and opaque parts that follow held text wait too, to preserve the order. The gate also
enforces `tool_choice`, buffers calls that must be validated first, numbers the calls across all attempts of a turn, and
drops white space beside calls.
"""

import re
import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Literal

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.types import Note, ToolChoice
from ..prompting.escaping import restore
from ..refusals.refusal_prefix import may_open_refusal

#: How text is handled. `live`: streamed. `opening`: held while it may be the beginning of a refusal.
#: `until_call`: held until a call is emitted. `to_end`: held until the engine releases it. `without_call`: held until
#: the end, and discarded if a call is emitted. `never`: discarded.
TextPolicy = Literal["live", "opening", "until_call", "to_end", "without_call", "never"]

#: How many characters of a call's arguments are held back. A shorter call that turns out to be invalid is retried
#: without a trace in the stream, and waiting for so little text costs no noticeable time.
MAX_HELD_CHARS = 2048
#: Limits for calls that are streamed as they arrive, and for calls that are emitted only if they are valid.
LIVE = 0
CHECKED = sys.maxsize

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

    __slots__ = ("args_emitted", "buffer", "end", "id", "index", "name", "size")

    def __init__(self, start: CallStart) -> None:
        self.name = start.name
        self.id = start.id
        self.index = -1  # its number in the output, once its start has been emitted
        self.buffer: list[str] = []  # argument fragments that are held back
        self.size = 0  # characters in `buffer`
        self.end: CallEnd | None = None  # set if the call is valid but must wait for earlier calls
        self.args_emitted = False


class OutputGate:
    """Filters the events of one turn.

    Args:
        max_held: how many characters of a call to hold back until it is valid: `LIVE`, `MAX_HELD_CHARS` or `CHECKED`.
        nonce: removed from text.
        trims: whether to drop white space beside calls.
        without_calls: removes the markup of calls from text in which a rejected call was found.
        holds: whether to hold the opening of an answer for another reason than that it may be a refusal.
    """

    def __init__(
        self,
        choice: ToolChoice,
        make_id: Callable[[int], str],
        max_held: int = LIVE,
        nonce: str | None = None,
        *,
        trims: bool = True,
        without_calls: Callable[[str], str] = str,
        holds: Callable[[str], bool] | None = None,
    ) -> None:
        self._choice = choice
        self._nonce = nonce
        self._make_id = make_id
        self._max_held = max_held
        self._trims = trims
        self._without_calls = without_calls
        self._holds = holds
        self._suspect = False  # a rejected call was found in this answer, so its markup is in the held text
        self._blank: list[str] = []  # white space that is dropped if a call follows
        self._in_text = not trims  # whether text was emitted since the last call
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
        #: Whether the prompt contains escaped text, whose copies in text and arguments are restored.
        self.restores = False
        #: The built-in tool that the engine answers itself. Its calls are not emitted.
        self.inner_tool = ""
        self._last_chars: dict[int, str] = {}  # the last character of the text (-1) and of each call's arguments
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
        self._suspect = False
        self.streaming_call = -1
        self._end_text()

    def _end_text(self) -> None:
        """End a run of text, at a call or at the end of an answer."""
        if self._trims:
            self._blank = []
            self._in_text = False
        self.text_streams = self._open and self._in_text and self.text_emitted and not self.restores

    def hold_text(self) -> None:
        """Hold the text from here on to the next call or the end of the answer: it contains a rejected call."""
        self._suspect = True
        if self._text in ("live", "opening"):
            self._text = "until_call"
            self._open = self.text_streams = False

    @property
    def held_text(self) -> str:
        return _text_of(self._pending)

    def release(self, text: str | None = None) -> list[Event]:
        """Emit the held text, or `text` in its place. `text` may be the held text of the previous answer."""
        pending = self._pending if text is None else self._replacement(text)
        self._pending, self._previous, self._queue = [], [], False
        self._open = self._text != "never"
        out: list[Event] = []
        for event in self._clean(pending) if self._open else ():
            if type(event) is TextDelta:
                self._say(event.text, out)
            else:
                out.append(event)
        return out

    def fall_back(self, text: str | None = None) -> list[Event]:
        """Emit the held text of the previous answer, or `text`, in place of this one, unless text was emitted."""
        if self.text_emitted:
            return []
        self._text = "to_end"
        return self.release(_text_of(self._previous) if text is None else text)

    def _say(self, text: str, out: list[Event]) -> None:
        """Emit text. White space waits for other text, because it is dropped beside a call."""
        if not self._in_text:
            if not text.strip():
                self._blank.append(text)
                return
            text = "".join((*self._blank, text))
            self._blank = []
            self._in_text = True
        self.text_emitted = self.text_emitted or bool(text.strip())
        self.text_streams = self._open and self.text_emitted and not self.restores
        out.append(TextDelta(text))

    def _replacement(self, text: str) -> list[Event]:
        if self._previous and text == _text_of(self._previous):
            return self._previous
        return [TextDelta(text), *(event for event in self._pending if type(event) is not TextDelta)]

    def _clean(self, pending: list[Event]) -> list[Event]:
        """Join adjacent text events, and remove rejected calls and the nonce of a JSON document from them."""
        out: list[Event] = []
        for is_text, events in groupby(pending, lambda event: type(event) is TextDelta):
            if not is_text:
                out.extend(events)
                continue
            text = _text_of(events)
            if self._nonce is not None and self._text in ("to_end", "until_call") and self._nonce in text:
                text = re.sub(_NONCE_IN_DOCUMENT.format(self._nonce), "", text)
            if self._suspect:
                text = self._without_calls(text)
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

    def take(self, events: list[Event]) -> list[Event]:
        """Accept events; return those to emit now."""
        if self.restores:
            events = [self._restored(event) for event in events]
        if self._nonce is not None:
            events = self._without_nonce(events, self._nonce)
        if self.text_streams and len(events) == 1 and type(events[0]) is TextDelta:
            return events
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta:
                if self._open:
                    self._say(event.text, out)
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

    def take_first_call(self, name: str, arguments: str, identifier: str = "") -> list[Event]:
        """Accept a complete, valid call with which the turn begins. Returns nothing if `tool_choice` forbids it."""
        if name == self.inner_tool or not self._choice.permits(name):
            return []
        if self._text in _BEFORE_CALLS:
            self._open = True
        elif self._text == "without_call":
            self._text = "never"
        self._next = self.emitted_calls = 1
        identifier = identifier or self._make_id(0)
        self._ids.add(identifier)
        return [CallStart(0, name, identifier), CallArgs(0, arguments), CallEnd(0)]

    def _restored(self, event: Event) -> Event:
        """Restore text that the model has copied from the prompt, across the boundaries of events."""
        if type(event) is TextDelta:
            return TextDelta(self._restore(-1, event.text))
        return CallArgs(event.index, self._restore(event.index, event.fragment)) if type(event) is CallArgs else event

    def _restore(self, stream: int, text: str) -> str:
        last = self._last_chars.get(stream, "")
        self._last_chars[stream] = text[-1:] or last
        return restore(last + text)[len(last) :]

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
        if self._text != "opening" or may_open_refusal(text := self.held_text):
            return
        if self._holds is None or not self._holds(text):
            out.extend(self.release())

    def _call(self, event: CallStart | CallEnd, out: list[Event]) -> None:
        self.streaming_call = -1
        if isinstance(event, CallStart):
            self._start(event, out)
        else:
            self._end(event, out)

    def _start(self, event: CallStart, out: list[Event]) -> None:
        if event.name == self.inner_tool:
            self._calls[event.index] = None
            if self._text == "opening":
                out.extend(self.release())
            return
        code = self._rejection(event.name)
        if code:
            self._calls[event.index] = None
            out.append(Noted(Note(code, f"a call of `{event.name}` was dropped")))
            return
        call = self._calls[event.index] = PendingCall(event)
        if self._max_held == LIVE:
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
        elif self._text == "without_call":
            if self.held_text.strip():
                out.append(Noted(Note("text_dropped", "the text before a call was dropped, as the settings ask")))
            self._text, self._pending = "never", []
        self._end_text()
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
            call.size += len(event.fragment)
            if call.size >= self._max_held:
                self._emit_ready(out)
            return
        call.args_emitted = True
        if call.index == event.index:
            self.streaming_call = -1 if self.restores else event.index
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
        """Emit calls in the order in which they started: validated ones, and the beginning of a long one."""
        for index, call in list(self._calls.items()):
            if call is None:
                continue
            if call.end is not None:
                del self._calls[index]
                self._end_valid(call, call.end, out)
            elif not final:
                if call.size >= self._max_held and call.index < 0 and not self._begin_call(call, out):
                    self._calls[index] = None
                return

    def _begin_call(self, call: PendingCall, out: list[Event]) -> bool:
        """Emit the start of a held call and its arguments so far. Return False if `tool_choice` forbids it."""
        code = self._rejection(call.name)
        if code:  # several calls were held at the same time
            out.append(Noted(Note(code, f"a call of `{call.name}` was dropped")))
            return False
        self._announce(call, out)
        out.append(CallArgs(call.index, "".join(call.buffer) or "{}"))
        call.args_emitted = True
        call.buffer = []
        return True

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
        if call.index < 0 and not self._begin_call(call, out):
            return
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
