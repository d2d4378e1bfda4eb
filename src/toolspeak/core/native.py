"""Calls that an upstream makes natively, read as strictly as those in text.

The arguments of a native call are text that a model wrote, too: they are repaired, aligned and judged by the
same builder as every other call, so that nothing behind this module knows where a call came from. Above:
`readings`. Below: `builder`, `lenient_json`.
"""

from __future__ import annotations

from typing import assert_never

from .builder import CallBuilder
from .desk import Desk
from .events import CallArgs, CallEnd, CallStart, Event
from .evidence import Evidence, Policy
from .lenient_json import Transducer
from .model import Note, Tool

__all__ = ["NativeCalls"]

#: How much of what stands behind the arguments is shown.
_SHOWN = 64
_EVIDENCE = Evidence(dialect="native", wrapper="strong")


class _NativeCall:
    """One call, whose arguments come in pieces."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._builder = CallBuilder(desk, _EVIDENCE)
        self._accepted = self._builder.take_name(name)
        self._json = Transducer()
        self._unread = ""
        self._begun = False  # something other than white space has come

    @property
    def index(self) -> int:
        """The number of the call, once it has gone out."""
        return self._builder.index

    def feed(self, fragment: str) -> None:
        """A piece of the arguments."""
        if not self._accepted:
            return
        text = self._unread + fragment if self._unread else fragment
        self._begun = self._begun or not text.isspace()
        read = self._json.feed(text)
        self._unread = text[read:]
        self._flow()

    def _flow(self) -> None:
        if self._json.tokens:
            tokens, self._json.tokens = self._json.tokens, []
            self._builder.tokens(tokens)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self._json.status == "complete"

    def end(self, cut: bool) -> None:
        """The arguments are over; `cut`: because the upstream stopped in their middle."""
        if not self._accepted:
            return
        if cut and self._json.status == "open":
            self._builder.cut()
            return
        if self._begun:
            self._read_rest()
        if self._json.status == "hopeless":
            self._builder.fail("not_json")
        else:
            self._builder.end()

    def _read_rest(self) -> None:
        read = self._json.feed(self._unread, final=True)
        rest = self._unread[read:].strip()
        self._json.close_all()  # the upstream says that the call is whole, so its closers may be missing
        self._flow()
        self._builder.note(*self._json.notes)
        if rest:
            self._builder.note(Note("trailing_text", rest[:_SHOWN]))


class NativeCalls:
    """The native calls of one answer. Their own numbers and ids may be anything; ours are in order."""

    def __init__(self, tools: tuple[Tool, ...], policy: Policy) -> None:
        self._desk = Desk(tools, policy)
        self._open: dict[int, _NativeCall] = {}
        self._ids: dict[int, str] = {}  # by our numbers

    def feed(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        """A call begins, goes on or ends."""
        match event:
            case CallStart():
                self._start(event)
            case CallArgs(index, fragment):
                if index in self._open:
                    self._open[index].feed(fragment)
            case CallEnd(index):
                # One that lacks something waits for the end of the answer, which says whether it was cut.
                if index in self._open and self._open[index].complete:
                    self._end(index, cut=False)
            case _:
                assert_never(event)
        return self._collect()

    def _start(self, event: CallStart) -> None:
        if event.index in self._open:  # an upstream that numbers all its calls alike
            self._end(event.index, cut=False)
        call = self._open[event.index] = _NativeCall(self._desk, event.name)
        self._ids[call.index] = event.id

    def close(self, cut: bool) -> list[Event]:
        """The answer is over, and with it every call that is still open."""
        for index in sorted(self._open):
            self._end(index, cut)
        return self._collect()

    def _end(self, index: int, cut: bool) -> None:
        self._open.pop(index).end(cut)

    def _collect(self) -> list[Event]:
        events = self._desk.collect()
        return [self._with_id(event) if isinstance(event, CallStart) else event for event in events]

    def _with_id(self, event: CallStart) -> CallStart:
        return CallStart(event.index, event.name, self._ids.get(event.index, ""))
