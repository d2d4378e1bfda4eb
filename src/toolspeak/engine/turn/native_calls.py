"""Calls that an upstream makes natively, read as strictly as those in text.

The arguments of a native call are text that a model wrote, too: they are repaired, aligned and judged by the
same builder as every other call, so that nothing behind this module knows where a call came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.json_repair.containers import MAX_DEPTH
from ...core.json_repair.parser import Transducer
from ...core.json_repair.tokens import Token
from ...core.parsing.acceptance import Evidence, Policy
from ...core.parsing.call_builder import CallBuilder
from ...core.parsing.context import Desk
from ...core.parsing.whole_values import whole_object
from ...core.types import Note, Tool

#: How much of what stands behind a value is kept and shown; a model may write any amount there.
_SHOWN = 64
_EVIDENCE = Evidence(dialect="native", wrapper="strong")
#: What may stand behind plain arguments and changes nothing: that something does tells that they are at their end.
_BEHIND = "}"


class JsonPieces:
    """One value that comes in pieces, and the beginning of what stands behind it."""

    def __init__(self) -> None:
        self.json = Transducer()
        self._unread = ""

    def feed(self, piece: str, final: bool = False) -> Iterator[list[Token]]:
        """The tokens as they become certain; `json` stands right behind them each time. To be read to its end."""
        json = self.json
        text = self._unread + piece if self._unread else piece
        pos, stuck = 0, False
        while json.status == "open" and not stuck:
            new = json.feed(text, pos, final, pause=MAX_DEPTH)
            tokens, json.tokens = json.tokens, []
            stuck = new == pos and not tokens
            pos = new
            if tokens:
                yield tokens
        self._unread = text[pos:] if json.status == "open" else text[pos:].lstrip()[:_SHOWN]

    @property
    def behind(self) -> str:
        """What stands behind the value, shortened."""
        return self._unread.rstrip() if self.json.status == "complete" else ""


class _NativeCall:
    """One call, whose arguments come in pieces; where nothing is streamed (`whole`), they are read once all are there.

    Arguments that came whole and are plain, as nearly all are, are then read at once.
    """

    def __init__(self, desk: Desk, name: str, whole: bool) -> None:
        self._builder = CallBuilder(desk, _EVIDENCE)
        self._accepted = self._builder.take_name(name)
        self._pieces = JsonPieces()
        self._begun = False  # something other than white space has come
        self._unread: list[str] | None = [] if whole and self._accepted else None
        self._over = False

    @property
    def index(self) -> int:
        """The number of the call, once it has gone out."""
        return self._builder.index

    def feed(self, fragment: str, final: bool = False) -> None:
        """A piece of the arguments."""
        if self._unread is not None:
            self._unread.append(fragment)
            return
        if not self._accepted:
            return
        self._begun = self._begun or bool(fragment.strip())
        tokens = [token for certain in self._pieces.feed(fragment, final) for token in certain]
        if tokens:
            self._builder.tokens(tokens)

    def whole(self) -> bool:
        """No more arguments come: are they whole?"""
        if self._unread is not None:
            text, self._unread = "".join(self._unread), None
            self._over = self._at_once(text)
            if not self._over:
                self.feed(text)
        if self._over:
            return True
        self.feed("", final=True)
        return self._pieces.json.status == "complete"

    def _at_once(self, text: str) -> bool:
        """Read arguments that are plain and fit as they are."""
        arguments = whole_object(text + _BEHIND, 0, ())
        return arguments is not None and arguments.end == len(text) and self._builder.take_arguments(arguments)

    def end(self, cut: bool) -> None:
        """The call is over; `cut`: because the upstream stopped in its middle."""
        if not self._accepted:
            return
        json = self._pieces.json
        whole = self.whole()
        if self._over:
            return
        if not whole and cut and json.status == "open":
            self._builder.cut()
            return
        if self._begun:
            self._close()
        if json.status == "hopeless":
            self._builder.fail("not_json")
        else:
            self._builder.end()

    def _close(self) -> None:
        json = self._pieces.json
        json.close_all()  # the upstream says that the call is whole, so its closers may be missing
        self._builder.tokens(json.tokens)
        self._builder.note(*json.notes)
        if self._pieces.behind:
            self._builder.note(Note("trailing_text", self._pieces.behind))


class NativeCalls:
    """The native calls of one answer. Their own numbers and ids may be anything; ours are in order, from `first`.

    `whole`: nothing of a call is wanted before all of it is there.
    """

    def __init__(self, tools: tuple[Tool, ...], policy: Policy, first: int = 0, *, whole: bool = False) -> None:
        self._desk = Desk(tools, policy)
        self._first = first
        self._whole = whole
        self._open: dict[int, _NativeCall] = {}
        self._ids: dict[int, str] = {}  # by our numbers

    def feed(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        """A call begins, goes on or ends."""
        call = self._open.get(event.index)
        if isinstance(event, CallStart):
            self._start(event)
        elif call is not None and isinstance(event, CallArgs):
            call.feed(event.fragment)
        elif call is not None and call.whole():
            # One that lacks something waits for the end of the answer, which says whether it was cut.
            self._end(event.index, cut=False)
        return self._collect()

    def _start(self, event: CallStart) -> None:
        if event.index in self._open:  # an upstream that numbers all its calls alike
            self._end(event.index, cut=False)
        call = self._open[event.index] = _NativeCall(self._desk, event.name, self._whole)
        self._ids[call.index] = event.id

    def close(self, cut: bool) -> list[Event]:
        """The answer is over, and with it every call that is still open."""
        for index in sorted(self._open):
            self._end(index, cut)
        return self._collect()

    def _end(self, index: int, cut: bool) -> None:
        self._open.pop(index).end(cut)

    def _collect(self) -> list[Event]:
        return [self._numbered(event) for event in self._desk.collect()]

    def _numbered(self, event: Event) -> Event:
        if isinstance(event, CallArgs):
            return CallArgs(event.index + self._first, event.fragment)
        if isinstance(event, CallStart):
            return CallStart(event.index + self._first, event.name, self._ids[event.index])
        if isinstance(event, CallEnd):
            return CallEnd(event.index + self._first, event.valid, event.notes)
        return event
