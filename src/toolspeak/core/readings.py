"""How the answer to one request is read: upstream events in, events of the turn out.

One small class for each way: `Relay` takes everything as it is, `Answer` takes native calls and finds those that
were written as text, `Envelope` reads the document of that plan. All have `feed(event)` and `close(cut)`. Above: `engine`. Below: `reader`, `native`, `envelope`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from .desk import Desk
from .envelope import EnvelopeReader
from .events import CallArgs, CallEnd, CallStart, Event, Noted, TextDelta
from .evidence import Policy
from .lenient_text import loads
from .model import Note, Tool, is_object
from .native import NativeCalls
from .reader import Scanner

__all__ = ["Answer", "Envelope", "Reading", "Relay"]


class Reading(Protocol):
    """One answer."""

    def feed(self, event: Event) -> list[Event]:
        """What an upstream event makes certain. Usage, finish and failure are the engine's."""
        ...

    def close(self, cut: bool) -> list[Event]:
        """The answer is over; `cut`: because of a limit on its length."""
        ...


class Relay:
    """Takes everything as it is."""

    def feed(self, event: Event) -> list[Event]:
        return [event]

    def close(self, cut: bool) -> list[Event]:
        return []


#: Native calls are numbered from here, so that they never meet those found in the text of the same answer.
_NATIVE_FROM = 1000


class Answer:
    """Takes native calls and, where `scan` says so, those that the model wrote as text.

    With a nonce only marked text counts: a native call that nobody offered natively carries none.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: Policy,
        *,
        nonce: str | None = None,
        untrusted: Sequence[str] = (),
        scan: bool = True,
    ) -> None:
        self._scanner = Scanner(tools, "auto", policy, nonce, untrusted) if scan else None
        self._calls = NativeCalls(tuple(tools), policy) if nonce is None else None

    def feed(self, event: Event) -> list[Event]:
        if type(event) is TextDelta:
            return self._scanner.feed(event.text) if self._scanner is not None else [event]
        if isinstance(event, CallStart | CallArgs | CallEnd):
            return self._native(event)
        return [event]

    def _native(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        if self._calls is not None:
            return _renumbered(self._calls.feed(event))
        if isinstance(event, CallStart):
            return [Noted(Note("native_call_ignored", f"`{event.name}` was called without the mark"))]
        return []

    def close(self, cut: bool) -> list[Event]:
        events = self._scanner.close() if self._scanner is not None else []
        return events + (_renumbered(self._calls.close(cut)) if self._calls is not None else [])


def _renumbered(events: list[Event]) -> list[Event]:
    return [
        msgspec.structs.replace(event, index=event.index + _NATIVE_FROM)
        if isinstance(event, CallStart | CallArgs | CallEnd)
        else event
        for event in events
    ]


class Envelope:
    """Reads the document of the envelope plan; an answer that does not begin like one is read as text."""

    def __init__(
        self, tools: Sequence[Tool], policy: Policy, nonce: str | None = None, untrusted: Sequence[str] = ()
    ) -> None:
        self._desk = Desk(tuple(tools), policy, nonce)
        self._text = Answer(tools, policy, nonce=nonce, untrusted=untrusted)
        self._document: EnvelopeReader | None = None
        self._decided = False
        self._said: list[str] = []  # of an answer that is no document, until it is known what it is

    def feed(self, event: Event) -> list[Event]:
        if type(event) is not TextDelta:
            return [event]
        if not self._decided and not event.text.isspace():
            self._decided = True
            if event.text.lstrip().startswith("{"):
                self._document = EnvelopeReader(self._desk)
        if self._document is not None:
            return self._document.feed(event.text)
        return self._held(self._text.feed(event))

    def close(self, cut: bool) -> list[Event]:
        if self._document is not None:
            return self._document.close()
        events = self._held(self._text.close(cut))
        text = _reply_in("".join(self._said))
        return [*events, TextDelta(text)] if text else events

    def _held(self, events: list[Event]) -> list[Event]:
        self._said += [event.text for event in events if type(event) is TextDelta]
        return [event for event in events if type(event) is not TextDelta]


def _reply_in(text: str) -> str:
    """The reply of a document that stood behind something else; other text as it is."""
    if "{" not in text:
        return text
    try:
        value = loads(text)
    except ValueError:
        return text
    if is_object(value) and "calls" in value and isinstance(value.get("reply"), str):
        return value["reply"]
    return text
