"""Terminal output of a running agent, and approval prompts.

Text from models and tools is untrusted, so control characters are removed. An approval prompt shows the whole call with
invisible characters escaped, because an attack could hide in anything that is left out.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..agent import events
from ..agent.events import AgentEvent, AgentResult
from ..core.text import counted, printable
from ..core.types import ToolCall
from ..engine.rounds.transcript import Round
from ..engine.turn.trace import NOT_CALLED
from ..tools.approval import ApprovalAnswer, Question
from ..tools.diffs import shorten_diff
from ._io import REFRESHES_PER_SECOND, CleanPieces, Spinner, Stage, as_markdown, clean, echo, escape

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Maximum number of characters of arguments and results to show in a line.
_MAX_CHARS = 72
_TAIL_LINES = 4
_DIFF_LINES = 30
#: Colours of the lines of a diff, by their first character. The first two lines name the file.
_DIFF_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_DIFF_HEAD = 2
#: Colours of the first word of a line.
_COLOURS = {"→": "cyan", "✓": "green", "✗": "red", "error:": "red", "stopped:": "yellow", "interrupted:": "yellow"}

PROMPT = "Allow? [y]es once, [t]his call always, [a]lways for this tool, [N]o"
_ANSWERS: dict[str, ApprovalAnswer] = {"y": "once", "yes": "once", "t": "call", "a": "tool", "all": "tool"}


def _short(text: str) -> str:
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= _MAX_CHARS else f"{flat[: _MAX_CHARS - 1]}…"


def _end(text: str) -> str:
    """Shorten a text to one line by keeping its end."""
    flat = " ".join(clean(text[-2 * _MAX_CHARS :]).split())
    return flat if len(flat) <= _MAX_CHARS else f"…{flat[1 - _MAX_CHARS :]}"


def call_text(call: ToolCall) -> str:
    match list(call.arguments.values()):
        case []:
            text = ""
        case [str(only)]:
            text = only
        case _:
            text = msgspec.json.encode(call.arguments).decode()
    return f"{_short(call.name)}({_short(text)})"


def round_line(number: int, round_: Round) -> str:
    calls = ", ".join(call_text(record.call) for record in round_.calls)
    failed = sum(record.result is not None and record.result.error for record in round_.calls)
    seconds = max((record.seconds for record in round_.calls), default=0.0)
    mark = f", {failed} failed" if failed else ""
    return f"▸ round {number}: {_short(calls)} ({seconds:.1f} s{mark})"


def round_text(number: int, round_: Round, max_chars: int = 0) -> str:
    """Format an expanded round: text, calls and results. `max_chars` limits the arguments and the results."""

    def shorten(text: str) -> str:
        cut = max_chars and len(text) > max_chars
        return f"{text[:max_chars]}… ({len(text)} characters; --json prints all)" if cut else text

    lines = [f"▾ round {number}"]
    if round_.text.strip():
        lines.append(clean(round_.text.strip()))
    for record in round_.calls:
        arguments = clean(msgspec.json.encode(record.call.arguments).decode())
        lines.append(f"→ {clean(record.call.name)} {shorten(arguments)}")
        if record.result is not None:
            mark = "✗" if record.result.error else "✓"
            lines.append(f"{mark} {shorten(clean(record.result.content))}")
        lines += [coloured_diff(each.diff) for each in record.diffs]
    return "\n".join(lines)


def coloured(line: str) -> str:
    """Colour the first word of a line. `click.echo` removes the colours where they cannot be shown."""
    word, space, rest = line.partition(" ")
    return click.style(word, fg=_COLOURS[word]) + space + rest if word in _COLOURS else line


def stage_text(event: AgentEvent) -> str:
    """Describe what the agent does after this event; empty if that stays as it is."""
    match event:
        case events.RoundStarted(_, _, tokens):
            return f"reading {tokens:,} tokens"
        case events.RetryStarted(reason):
            return f"retrying: {reason}"
        case events.TextPiece():
            return "writing"
        case events.ThoughtPiece():
            return "thinking"
        case events.CallStarted(call):
            return f"running {_short(call.name)}"
        case _:
            return ""


def coloured_diff(diff: str, limit: int = _DIFF_LINES, indent: str = "  ") -> str:
    """Format a diff, at most `limit` lines of it, with control characters escaped."""
    lines = [printable(line, keep="\t") for line in shorten_diff(diff, limit)]
    colours = [None if index < _DIFF_HEAD else _DIFF_COLOURS.get(line[:1]) for index, line in enumerate(lines)]
    return "\n".join(indent + click.style(line, fg=colour) for line, colour in zip(lines, colours, strict=True))


_STOPS = frozenset({"limit_rounds", "limit_tokens", "limit_seconds", "loop_broken"})

#: Codes of the notes about conversations that were made to fit the context window.
_COMPACTIONS = frozenset({"results_shortened", "rounds_summarised"})


def limit_reached(result: AgentResult) -> str:
    """Describe the limit that stopped the agent; return an empty string if it was not stopped by one."""
    return next((note.detail for note in result.notes if note.code in _STOPS), "")


def closing_line(result: AgentResult) -> str:
    """Describe an unusual end of the agent's work, or what was compacted, in one line; empty for a normal end."""
    if result.status != "complete":
        return f"{'error' if result.status == 'failed' else result.status}: {clean(result.why)}"
    if limit := limit_reached(result):
        return f"stopped: {limit}"
    if not result.rounds and result.why_no_call not in ("", NOT_CALLED.detail):
        return f"no tool call: {_short(result.why_no_call)}"
    compacted = [note.detail for note in result.notes if note.code in _COMPACTIONS]
    return f"compacted {counted(len(compacted), 'time')}: {_short(compacted[-1])}" if compacted else ""


class PromptGuard:
    """Holds back events during an approval prompt, so output does not interfere with it. Thread-safe."""

    def __init__(self, show: Callable[[AgentEvent], None], pause: Callable[[], None]) -> None:
        self._show = show
        self._pause = pause
        self._lock = RLock()
        self._asking = False
        self._pending: list[AgentEvent] = []

    def show(self, event: AgentEvent) -> None:
        """Show an event, or hold it back during a prompt. The final event is always shown at once."""
        with self._lock:
            self._pending.append(event)
            if not self._asking or isinstance(event, events.WorkFinished):
                self._flush()

    @contextmanager
    def question(self) -> Generator[None]:
        with self._lock:
            self._pause()
            self._asking = True
        try:
            yield
        finally:
            with self._lock:
                self._asking = False
                self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for event in pending:
            self._show(event)


class LineScreen:
    """Plain output for logs and pipes: one line per step."""

    def __init__(self, say: Callable[[str], None], *, live: bool = False) -> None:
        self._say = say
        self._live = live  # whether to stream text to stdout
        self._cleaner = CleanPieces()
        self._open = False  # whether the current line still lacks its newline
        self._terminal = sys.stderr.isatty()  # where the spinner shows the rounds
        self._spinner = Spinner()
        self._written = ""  # the text that the model is writing

    def show(self, event: AgentEvent) -> None:
        match event:
            case events.TextPiece(text) if self._live:
                self._stream(self._cleaner.feed(text))
            case events.CallStarted(call):
                self._line(f"→ {call_text(call)}")
            case events.FileChanged(_, _, diff):
                self._line(coloured_diff(diff))
            case events.ResultReady(call, result):
                # The last line of an error says most, for example that of a traceback.
                text = (result.content.strip().splitlines() or [""])[-1] if result.error else result.content
                self._line(f"{'✗' if result.error else '✓'} {_short(call.name)}: {_short(text)}")
            case events.RoundComplete(number, round_) if not self._terminal:
                self._line(round_line(number, round_))
            case events.RoundStarted(number, summary) if not self._terminal and (summary or number > 1):
                self._line(f"round {number} started{', for a summary' if summary else ''}")
            case events.WorkFinished(result):
                self.pause()
                if line := closing_line(result):
                    self._say(coloured(line))
            case _:
                pass
        if not self._live and (stage := stage_text(event)):
            written = self._written + event.text if isinstance(event, events.TextPiece) else ""
            self._written = written[-2 * _MAX_CHARS :]
            self._spinner.show(f"{stage} {_end(self._written)}")

    def _stream(self, piece: str) -> None:
        click.echo(piece, nl=False)
        sys.stdout.flush()
        self._open = not piece.endswith("\n") if piece else self._open

    def pause(self) -> None:
        """Finish the current line, so other output can follow."""
        self._spinner.hide()
        if self._open:
            echo()
            self._open = False

    def _line(self, text: str) -> None:
        self.pause()
        self._say(coloured(text))


class LiveScreen:
    """Live terminal output: redraws the current round and reduces it to one line when it is complete.

    Below the round, a line shows the stage and the seconds.
    """

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console

        self._console = console or Console()
        self._live: Any = None
        self._stage = Stage()
        self._text = ""
        self._calls: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._cleaner = CleanPieces()

    def show(self, event: AgentEvent) -> None:
        self._stage.text = stage_text(event) or self._stage.text
        match event:
            case events.RoundStarted():
                self._text, self._calls, self._tails, self._cleaner = "", {}, {}, CleanPieces()
            case events.TextPiece(text):
                self._text += self._cleaner.feed(text)
            case events.CallStarted(call):
                self._calls[call.id] = f"→ {call_text(call)}"
            case events.OutputPiece(call_id, text):
                tail = self._tails.get(call_id, "") + clean(text)
                self._tails[call_id] = "\n".join(tail.split("\n")[-_TAIL_LINES:])
            case events.FileChanged(_, _, diff):
                self.pause()
                self._print(coloured_diff(diff))
            case events.ResultReady(call, result):
                self._calls[call.id] = f"{'✗' if result.error else '✓'} {call_text(call)}"
                self._tails.pop(call.id, None)
            case events.RoundComplete(number, round_):
                self._text, self._calls, self._tails = "", {}, {}
                self._redraw()  # clear the live area before printing, which moves it down
                self._print(round_line(number, round_), "dim")
                return
            case events.WorkFinished(result):
                self.pause()
                self._console.print(as_markdown(result.content))
                self._print(closing_line(result), "dim")
                return
            case _:
                pass
        self._redraw()

    def pause(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        if text:
            self._console.print(Text.from_ansi(coloured(text), style=style))

    def _redraw(self) -> None:
        from rich.live import Live as RichLive

        if self._live is None:
            self._stage = Stage(self._stage.text)
            rate = REFRESHES_PER_SECOND
            self._live = RichLive(self, console=self._console, transient=True, refresh_per_second=rate)
            self._live.start()
        self._live.refresh()

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        lines = self._text.strip("\n").split("\n") if self._text.strip() else []
        for call_id, line in self._calls.items():
            lines += [coloured(line), *(f"    {each}" for each in self._tails.get(call_id, "").split("\n") if each)]
        text = Text.from_ansi("\n".join(lines[-max(self._console.height - 3, 1) :]))
        return Group(*[text] * bool(lines), self._stage)


def question_text(question: Question) -> str:
    """Format the complete approval request. Lines are indented so that none can imitate a prompt."""
    lines = "\n".join(f"  {line}" for line in escape(_arguments_text(question)).split("\n"))
    place = "inside the sandbox" if question.sandboxed else "on this machine"
    foreign = "; check carefully, because the model has read untrusted text" if question.tainted else ""
    return f"{escape(question.tool.name)} wants to run {place} ({escape(question.reason)}{foreign}):\n{lines}"


def _arguments_text(question: Question) -> str:
    """Format all arguments as JSON, or as plain text for a shell command without other arguments."""
    match question.arguments:
        case {"command": str(command), **rest} if question.tool.name == "shell" and not rest:
            return command
        case arguments:
            return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


def parse_answer(typed: str) -> ApprovalAnswer:
    """Parse the user's answer. Anything that is not clearly a yes means no."""
    return _ANSWERS.get(typed.strip().lower(), "deny")


def ask_on_terminal(question: Question, prompt: Callable[[str], str]) -> ApprovalAnswer:
    """Ask the user for approval. An interrupt or the end of input means no."""
    try:
        return parse_answer(prompt(f"{question_text(question)}\n{PROMPT}: "))
    except (EOFError, KeyboardInterrupt, RuntimeError):
        return "deny"
