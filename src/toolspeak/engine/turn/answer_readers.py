"""How the answer to one request is read: upstream events in, events of the turn out.

One small class for each way: `Relay` takes everything as it is, `Answer` takes native calls and finds those that
were written as text, `Envelope` reads the document of that plan. All have `feed(event)` and `close(cut)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted, ReasoningDelta, TextDelta
from ...core.json_repair.whole_text import loads
from ...core.parsing.acceptance import Policy
from ...core.parsing.context import Desk, Texts
from ...core.parsing.scanner import Scanner
from ...core.types import Note, Tool, is_object
from ...dialects.openings import Marks
from ...parsing import desk_for
from .envelope_reader import EnvelopeReader
from .native_calls import NativeCalls


class Reading(Protocol):
    """One answer."""

    @property
    def flow(self) -> Callable[[TextDelta], Event | None] | None:
        """A shortcut for pieces of text that need no reading; None where there is none."""
        ...

    def feed(self, event: Event) -> list[Event]:
        """What an upstream event makes certain. Usage, finish and failure are the engine's."""
        ...

    def close(self, cut: bool) -> list[Event]:
        """The answer is over; `cut`: because of a limit on its length."""
        ...


class Relay:
    """Takes everything as it is."""

    flow = None

    def feed(self, event: Event) -> list[Event]:
        return [event]

    def close(self, cut: bool) -> list[Event]:
        return []


class _Reader(Scanner):
    """The reader of text in any dialect, whose desk another reader of the same answer may use."""

    def __init__(
        self,
        tools: tuple[Tool, ...],
        policy: Policy,
        nonce: str | None,
        untrusted: tuple[str, ...],
        copied: Texts,
    ) -> None:
        desk = desk_for(tools, policy, nonce, untrusted, copied)
        super().__init__(desk, Marks(desk))

    @property
    def desk(self) -> Desk:
        return self._desk

    def flow(self, event: TextDelta) -> Event | None:
        """The one event that a plain piece of text or of a string argument is; None: it must be read.

        What `feed` does first, without its lists. The piece itself goes on where it is text of the answer.
        """
        run = self._run
        if run is None or run.rest:
            return None
        text = event.text
        if not text or run.stops(text) is not None:
            return None
        if run is self._plain_run:  # it has room for any amount
            self._before = text[-2:-1] or self._last
            self._last = text[-1]
            return ReasoningDelta(text) if self._reasoning else event
        left = run.left - len(text)
        if left < 0 or run.silent:
            return None
        run.left = left
        return run.take(text)


#: Native calls are numbered from here, so that they never meet those found in the text of the same answer.
_NATIVE_FROM = 1_000_000


class Answer:
    """Takes native calls and, where `scan` says so, those that the model wrote as text.

    With a nonce only marked text counts: a native call that nobody offered natively carries none. `thinking`: the
    text is read for its reasoning only, and what looks like a call stays in it. `whole`: nothing is streamed.
    `copied`: texts that only calls after the first of a block are compared with.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: Policy,
        *,
        nonce: str | None = None,
        untrusted: Sequence[str] = (),
        copied: Texts = tuple,
        scan: bool = True,
        thinking: bool = False,
        whole: bool = False,
    ) -> None:
        sought = () if thinking else tuple(tools)
        self._scanner = _Reader(sought, policy, nonce, tuple(untrusted), copied) if scan or thinking else None
        self.flow = None if self._scanner is None else self._scanner.flow
        self._thinking = thinking
        self._calls = NativeCalls(tuple(tools), policy, _NATIVE_FROM, whole=whole) if nonce is None else None

    def feed(self, event: Event) -> list[Event]:
        if type(event) is TextDelta:
            return self._scanner.feed(event.text) if self._scanner is not None else [event]
        if isinstance(event, CallStart | CallArgs | CallEnd):
            return self._native(event)
        return [event]

    def _native(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        if self._calls is not None:
            if self._scanner is not None and not self._thinking and isinstance(event, CallStart):
                self._scanner.desk.calls_seen += 1  # a result that is written behind it is invented
            return self._calls.feed(event)
        if isinstance(event, CallStart):
            return [Noted(Note("native_call_ignored", f"`{event.name}` was called without the mark"))]
        return []

    def close(self, cut: bool) -> list[Event]:
        # Native calls have gone out already where calls flow; what the text still holds comes behind them.
        events = self._calls.close(cut) if self._calls is not None else []
        return events + (self._scanner.close() if self._scanner is not None else [])


class Envelope:
    """Reads the document of the envelope plan; an answer that is no such document is read as text."""

    flow = None

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: Policy,
        nonce: str | None = None,
        untrusted: Sequence[str] = (),
        copied: Texts = tuple,
    ) -> None:
        self._scanner = _Reader(tuple(tools), policy, nonce, tuple(untrusted), copied)
        self._calls = Answer(tools, policy, nonce=nonce, scan=False)  # an upstream may call whatever it was asked
        self._document = EnvelopeReader(self._scanner.desk)
        #: `maybe`: it begins like a document, but has said nothing that only an envelope says.
        self._way: Literal["unknown", "maybe", "document", "text"] = "unknown"
        self._raw: list[str] = []  # what has come, until it is known what it is
        self._said: list[str] = []  # the text of an answer that is no document, held to its end

    def feed(self, event: Event) -> list[Event]:
        if type(event) is not TextDelta:
            return self._calls.feed(event)
        match self._way:
            case "document":
                return self._document.feed(event.text)
            case "text":
                return self._held(self._scanner.feed(event.text))
            case _:
                self._raw.append(event.text)
                return self._look(event.text)

    def _look(self, text: str) -> list[Event]:
        """Find out what the answer is."""
        begins = text.lstrip()
        if not begins and self._way == "unknown":
            return []
        if self._way == "unknown":
            self._way = "maybe"
            text = "".join(self._raw)
            if not begins.startswith("{"):
                return self._as_text()
        events = self._document.feed(text)
        if self._document.recognised:
            self._way = "document"
            self._raw = []
        elif self._document.over:
            return self._as_text()
        return events

    def _as_text(self) -> list[Event]:
        self._way = "text"
        raw, self._raw = "".join(self._raw), []
        return self._held(self._scanner.feed(raw))

    def close(self, cut: bool) -> list[Event]:
        if self._way == "document":
            return self._document.close() + self._calls.close(cut)
        events = self._as_text() + self._held(self._scanner.close()) + self._calls.close(cut)
        return events + _reply_in("".join(self._said))

    def _held(self, events: list[Event]) -> list[Event]:
        self._said += [event.text for event in events if type(event) is TextDelta]
        return [event for event in events if type(event) is not TextDelta]


def _reply_in(text: str) -> list[Event]:
    """The reply of a document that stood among something else; other text as it is."""
    if "{" not in text:
        return [TextDelta(text)] if text else []
    try:
        value = loads(text)
    except ValueError:
        return [TextDelta(text)]
    if not is_object(value) or "calls" not in value or "reply" not in value:
        return [TextDelta(text)]
    reply = value["reply"]
    said = reply if isinstance(reply, str) else msgspec.json.encode(reply).decode() if reply is not None else ""
    told = Noted(Note("envelope_in_text", "the envelope stood in other text, which was dropped"))
    return [told, TextDelta(said)] if said else [told]
