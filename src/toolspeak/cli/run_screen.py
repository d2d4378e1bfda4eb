"""An agent at work, on a screen: text as it comes, rounds as they happen, one line for each afterwards.

`Lines` writes plain lines, for a log or a pipe. `Live` redraws the round under way and leaves one line of it behind.
What a model or a tool says is shown without control characters: it must not steer the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from ..agent.events import (
    AgentEvent,
    AgentResult,
    CallStarted,
    OutputPiece,
    ResultReady,
    RoundComplete,
    RoundStarted,
    TextPiece,
    WorkFinished,
)
from ..core.text import printable
from ..core.types import ToolCall, ToolResult
from ..engine.rounds.transcript import Round

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: How much of arguments and results stands in a line.
_MOST_SHOWN = 72
#: Lines of a tool's output that are seen while it runs.
_TAIL = 4


def clean(text: str) -> str:
    """Without characters that a terminal would obey."""
    return printable(text, "", "\n\t")


def _short(text: str) -> str:
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= _MOST_SHOWN else f"{flat[: _MOST_SHOWN - 1]}…"


def _outcome(result: ToolResult) -> str:
    """What a call came to, in few words. What went wrong stands at the end."""
    flat = " ".join(clean(result.content).split())
    if result.error and len(flat) > _MOST_SHOWN:
        return f"…{flat[1 - _MOST_SHOWN :]}"
    return _short(flat)


def described(call: ToolCall) -> str:
    """A call in few words."""
    values = call.arguments.values()
    only = next(iter(values)) if len(call.arguments) == 1 else None
    shown = only if isinstance(only, str) else msgspec.json.encode(call.arguments).decode() if call.arguments else ""
    return f"{_short(call.name)}({_short(shown)})"


def one_line_of(number: int, made: Round) -> str:
    """A round, collapsed."""
    calls = ", ".join(described(record.call) for record in made.calls)
    failed = sum(record.result is not None and record.result.error for record in made.calls)
    seconds = max((record.seconds for record in made.calls), default=0.0)
    mark = f", {failed} failed" if failed else ""
    return f"▸ round {number}: {_short(calls)} ({seconds:.1f} s{mark})"


def round_text(number: int, made: Round) -> str:
    """A round, opened: what was said before the calls, the calls, their results."""
    lines = [f"▾ round {number}"]
    if made.text.strip():
        lines.append(clean(made.text.strip()))
    for record in made.calls:
        arguments = clean(msgspec.json.encode(record.call.arguments).decode())
        lines.append(f"→ {clean(record.call.name)} {arguments}")
        if record.result is not None:
            mark = "✗" if record.result.error else "✓"
            lines.append(f"{mark} {clean(record.result.content)}")
    return "\n".join(lines)


#: Notes on an answer that is a summary since it could not go on.
_STOPS = frozenset({"limit_rounds", "limit_tokens", "limit_seconds", "loop_broken"})


def stopped(result: AgentResult) -> str:
    """Which limit ended it, if one did."""
    return next((note.detail for note in result.notes if note.code in _STOPS), "")


def verdict(result: AgentResult) -> str:
    """What a person should know about how it ended, in one line; empty when there is nothing to say."""
    if result.status != "complete":
        return f"{result.status}: {_short(result.why)}"
    if limit := stopped(result):
        return f"stopped: {limit}"
    if not result.rounds and result.why_no_call:
        return f"no tool was called: {_short(result.why_no_call)}"
    return ""


class Screen(Protocol):
    """Where an agent is watched."""

    def show(self, event: AgentEvent) -> None:
        """Something happened."""
        ...

    def pause(self) -> None:
        """Somebody else writes now."""
        ...


class Quiet:
    """Holds back what happens while somebody is asked a question: it must not be written into it.

    Questions may be asked in a thread of their own.
    """

    def __init__(self, show: Callable[[AgentEvent], None], pause: Callable[[], None]) -> None:
        self._show = show
        self._pause = pause
        self._lock = RLock()
        self._asking = False
        self._held: list[AgentEvent] = []

    def show(self, event: AgentEvent) -> None:
        """Something happened. After the end nobody waits for an answer any more."""
        with self._lock:
            self._held.append(event)
            if not self._asking or isinstance(event, WorkFinished):
                self._let_go()

    @contextmanager
    def question(self) -> Generator[None]:
        """Somebody is asked."""
        with self._lock:
            self._pause()
            self._asking = True
        try:
            yield
        finally:
            with self._lock:
                self._asking = False
                self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._show(event)


class Lines:
    """A line for each step, and one about the end."""

    def __init__(self, say: Callable[[str], None], *, live: bool = False) -> None:
        self._say = say
        self._live = live  # text is written as it comes, to standard output
        self._open = False  # a line of text has no end yet

    def show(self, event: AgentEvent) -> None:
        """Something happened."""
        match event:
            case TextPiece(text) if self._live:
                click.echo(clean(text), nl=False)
                sys.stdout.flush()
                self._open = not text.endswith("\n")
            case CallStarted(call):
                self._line(f"→ {described(call)}")
            case ResultReady(call, result):
                self._line(f"{'✗' if result.error else '✓'} {_short(call.name)}: {_outcome(result)}")
            case RoundComplete(number, made):
                self._line(one_line_of(number, made))
            case RoundStarted(number, summary) if summary or number > 1:
                self._line(f"round {number} started{', for a summary' if summary else ''}")
            case WorkFinished(result):
                self.pause()
                if told := verdict(result):
                    self._say(told)
            case _:
                pass

    def pause(self) -> None:
        """Somebody else writes now."""
        if self._open:
            click.echo()
            self._open = False

    def _line(self, text: str) -> None:
        self.pause()
        self._say(text)


class Live:
    """The round under way, redrawn; what is over stays as one line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Any = None
        self._text = ""
        self._calls: dict[str, str] = {}
        self._tails: dict[str, str] = {}

    def show(self, event: AgentEvent) -> None:
        """Something happened."""
        match event:
            case RoundStarted():
                self._text, self._calls, self._tails = "", {}, {}
            case TextPiece(text):
                self._text += clean(text)
            case CallStarted(call):
                self._calls[call.id] = f"→ {described(call)}"
            case OutputPiece(call_id, text):
                self._tails[call_id] = "\n".join((self._tails.get(call_id, "") + clean(text)).split("\n")[-_TAIL:])
            case ResultReady(call, result):
                self._calls[call.id] = f"{'✗' if result.error else '✓'} {described(call)}"
                self._tails.pop(call.id, None)
            case RoundComplete(number, made):
                self._text, self._calls, self._tails = "", {}, {}
                self._redraw()  # first, since what is printed pushes what is drawn down
                self._print(one_line_of(number, made), "dim")
                return
            case WorkFinished(result):
                self.pause()
                self._print(clean(result.content.strip()))
                self._print(verdict(result), "dim")
                return
            case _:
                return
        self._redraw()

    def pause(self) -> None:
        """Somebody else writes now."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        if text:
            self._console.print(Text(text, style=style))

    def _redraw(self) -> None:
        from rich.live import Live as RichLive

        if self._live is None:
            self._live = RichLive(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> RenderableType:
        from rich.text import Text

        lines = self._text.strip("\n").split("\n") if self._text.strip() else []
        for call_id, line in self._calls.items():
            lines += [line, *(f"    {each}" for each in self._tails.get(call_id, "").split("\n") if each)]
        room = max(self._console.height - 2, 1)
        return Text("\n".join(lines[-room:]))
