"""`toolspeak run "task"`: run an agent on one task.

The answer goes to stdout, progress to stderr; with --json every event is a line of JSON on stdout.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import click
import msgspec

from ..agent.events import AgentEvent, AgentResult, WorkFinished
from ..core.text import counted, system_reason
from ..errors import UsageError
from ..tools.approval import ApprovalAnswer, ApprovalDecision, Question
from ..tools.wrappers import is_untrusted
from ._io import clean, echo, print_answer, print_error, read_text
from .agent_options import AgentKit, CommandOptions, agent_kit, agent_options, make_client
from .agent_screen import LineScreen, PromptGuard, ask_on_terminal, limit_reached
from .config import print_notes, usage_errors

_FAILED, _LIMIT, _INTERRUPTED = 1, 3, 130


def command(task: str, session: str, as_json: bool, **options: Any) -> None:
    with reported_failures():
        if task == "-":
            task = read_text("-")
        if not task.strip() and not session:
            raise UsageError("missing task", hint='write `toolspeak run "TASK"`, or use - to read the task from stdin')
        result = asyncio.run(_run_task(task, session, as_json, agent_options(options)))
    sys.exit(_exit_status(result))


async def _run_task(task: str, session: str, as_json: bool, options: CommandOptions) -> AgentResult:
    client, config = make_client(options)
    screen = LineScreen(partial(echo, err=True))
    guard = PromptGuard(_json if as_json else screen.show, screen.pause)
    ask = partial(_ask, guard) if sys.stdin.isatty() and sys.stderr.isatty() else None
    async with agent_kit(client, config, options, ask) as kit:
        print_notes(kit.notes)
        result = await _stream(kit, task, session, guard.show)
        refused = [decision for decision in kit.approval.decisions if decision.by == "nobody"]
        foreign = frozenset(each.tool.name for each in kit.tools if is_untrusted(each))
        persistent, yes = kit.is_persistent, kit.yes
    if not as_json and result.content:
        print_answer(result.content)
    if refused:
        echo(_refused_text(refused, yes, foreign), err=True)
    resumable = result.status == "interrupted" or (result.status == "failed" and result.rounds)
    if resumable and persistent:
        click.echo(f"Resume: toolspeak run --session {result.session}", err=True)
    return result


async def _stream(kit: AgentKit, task: str, session: str, show: Callable[[AgentEvent], None]) -> AgentResult:
    full_id = kit.full_id(session)
    async with kit.agent() as agent:
        result: AgentResult | None = None
        with interruptible(agent.cancel):
            async for event in agent.stream(task or None, full_id):
                show(event)
                if isinstance(event, WorkFinished):
                    result = event.result
    assert result is not None  # set by the last event
    return result


@contextmanager
def interruptible(cancel: Callable[[], None]) -> Generator[None]:
    """Let the first Ctrl-C call `cancel`; a second one has its usual effect."""
    before = signal.getsignal(signal.SIGINT)

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        cancel()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def reported_failures() -> Generator[None]:
    """Report usage errors, Ctrl-C and I/O errors without a traceback, and exit."""
    try:
        with usage_errors():
            yield
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        raise  # the other end of the pipe was closed, so click exits silently
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        with suppress(OSError):
            print_error(f"{system_reason(error)}{where}")
        _discard_output()
        sys.exit(_FAILED)


def _discard_output() -> None:
    """Discard buffered output, so the interpreter does not retry writing it on exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _refused_text(decisions: Sequence[ApprovalDecision], yes: bool, foreign: frozenset[str]) -> str:
    """Describe the refused calls and how to allow them. `foreign` tools are those that --yes does not cover."""
    names = ", ".join(dict.fromkeys(clean(decision.name) for decision in decisions))
    undecided = [decision for decision in decisions if not decision.firm]
    covered = not yes and any(decision.name not in foreign for decision in undecided)
    ways = ["--yes allows calls inside the sandbox"] * covered
    if undecided:
        late = any(decision.tainted for decision in undecided)
        ways.append("--allow does not apply after tool results" if late else "--allow RULE allows such calls")
    if yes or len(undecided) < len(decisions) or not ways:
        ways.append("run in a terminal to be asked")
    count = counted(len(decisions), "call was", "calls were")
    return f"{count} refused, because there is no terminal to ask for approval ({names}): {'; '.join(ways)}"


def _json(event: AgentEvent) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def _ask(guard: PromptGuard, question: Question) -> ApprovalAnswer:
    with guard.question():
        return ask_on_terminal(question, _read_line)


def _read_line(text: str) -> str:
    """Read a line from the terminal.

    The read is unbuffered: an interrupted question leaves a thread that is still reading, and if it held the lock of
    the stdin buffer, Python could not exit.
    """
    head, *call, prompt = text.split("\n")
    echo(head, err=True)
    click.echo("".join(f"{line}\n" for line in call), nl=False, err=True)  # not broken into lines: it is shown as it is
    echo(prompt, nl=False, err=True)
    line = os.read(sys.stdin.fileno(), 4096)
    if not line:
        raise EOFError
    return line.decode(errors="replace").strip()


def _exit_status(result: AgentResult) -> int:
    if result.status == "complete":
        return _LIMIT if limit_reached(result) else 0
    return _INTERRUPTED if result.status == "interrupted" else _FAILED
