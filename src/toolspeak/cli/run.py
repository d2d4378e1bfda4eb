"""`toolspeak run "task"`: an agent works on one task.

The answer goes to standard output, what happens meanwhile to standard error; with --json every event is a line of JSON
on standard output. Exit status: 0 done, 1 failed, 2 the command line is wrong, 3 a limit was reached and the answer is
a summary, 130 interrupted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import click
import msgspec

from ..agent.events import AgentEvent, AgentResult, WorkFinished
from ..errors import UsageError
from ..tools.approval import Answer, Decision, Question
from ..tools.wrappers import is_untrusted
from ._io import read_text
from .config import say, usage_errors
from .run_consent import asked
from .run_model import client_of
from .run_screen import Lines, Quiet, clean, stopped
from .run_setup import Kit, Wanted, agent_options, kit

_FAILED, _LIMIT, _INTERRUPTED = 1, 3, 130
_EXAMPLES = """\b
Examples:
  toolspeak run "How many tests are in this folder?" --yes
  toolspeak run "Summarise README.md" --tools files --upstream http://127.0.0.1:9000/v1
  toolspeak run "What is new?" --tools none --mcp-config servers.json --json
  toolspeak run "Summarise README.md" -m work:large
  git diff | toolspeak run -
  toolspeak run --session 4f0c2a
"""


@click.command("run", epilog=_EXAMPLES)
@click.argument("task", default="")
@click.option("--session", default="", metavar="ID", help="go on with this session; without a task, resume it")
@click.option("--json", "as_json", is_flag=True, help="print every event as a line of JSON")
@agent_options
def command(task: str, session: str, as_json: bool, wanted: Wanted) -> None:
    """Let an agent work on one task, with a shell and files or with tools of MCP servers.

    Without --upstream or --model a small model runs here. Calls that change something have to be allowed: on a
    terminal you are asked, elsewhere they are refused unless --yes or --allow covers them. With - as the task, it is
    read from standard input.

    Exit status: 0 done, 1 failed, 2 the command line is wrong, 3 a limit was reached and the answer is a summary,
    130 interrupted.
    """
    with failures():
        if task == "-":
            task = read_text("-")
        if not task.strip() and not session:
            raise UsageError("there is nothing to do", hint='say what: toolspeak run "..."')
        result = asyncio.run(_work(task, session, as_json, wanted))
    sys.exit(_status(result))


async def _work(task: str, session: str, as_json: bool, wanted: Wanted) -> AgentResult:
    client, config = client_of(wanted)
    live = sys.stdout.isatty() and not as_json
    screen = Lines(partial(click.echo, err=True), live=live)
    quiet = Quiet(_json if as_json else screen.show, screen.pause)
    asked = partial(_ask, quiet) if sys.stdin.isatty() and sys.stderr.isatty() else None
    async with kit(client, config, wanted, asked) as tools:
        say(tools.notes)
        result = await _watched(tools, task, session, quiet.show)
        refused = [decision for decision in tools.approval.decisions if decision.by == "nobody"]
        foreign = frozenset(each.tool.name for each in tools.tools if is_untrusted(each))
        kept = tools.kept
    if not as_json:
        _print(result, live)
    if refused:
        click.echo(_refused(refused, wanted.yes, foreign), err=True)
    if result.status != "complete" and kept:
        click.echo(f"go on with: toolspeak run --session {result.session}", err=True)
    return result


async def _watched(tools: Kit, task: str, session: str, show: Callable[[AgentEvent], None]) -> AgentResult:
    found = _session(tools, session)
    async with tools.agent() as agent:
        result: AgentResult | None = None
        with interruptible(agent.cancel):
            async for event in agent.stream(task or None, found):
                show(event)
                if isinstance(event, WorkFinished):
                    result = event.result
    assert result is not None  # the last event holds it
    return result


def _session(tools: Kit, beginning: str) -> str:
    """A session by the beginning of its id, where the store can find it."""
    find = getattr(tools.store, "find", None)
    return find(beginning) if beginning and find is not None else beginning


@contextmanager
def interruptible(cancel: Callable[[], None]) -> Generator[None]:
    """Ctrl-C cancels once, and does what it did before when it comes again."""
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
def failures() -> Generator[None]:
    """What ends a command before its time, told in one line: a mistake, an interrupt, an output that is full."""
    try:
        with usage_errors():
            yield
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        raise  # nobody reads any more, and nobody needs to be told
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        with suppress(OSError):
            click.echo(f"error: {error.strerror or error}{where}", err=True)
        _forget_output()
        sys.exit(_FAILED)


def _forget_output() -> None:
    """What could not be written is not tried again when the program ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _refused(decisions: Sequence[Decision], yes: bool, foreign: frozenset[str]) -> str:
    """Which calls were refused, and what would help. `foreign`: tools of others, for which --yes does not count."""
    names = ", ".join(dict.fromkeys(clean(decision.name) for decision in decisions))
    open_ = [decision for decision in decisions if not decision.firm]
    ways: list[str] = []
    if not yes and any(decision.name not in foreign for decision in open_):
        ways.append("--yes allows what stays inside the sandbox")
    if open_:
        late = any(decision.tainted for decision in open_)
        ways.append("--allow does not count after results of tools" if late else "--allow RULE allows such calls")
    if yes or len(open_) < len(decisions) or not ways:
        ways.append("on a terminal you are asked")
    count = "1 call was" if len(decisions) == 1 else f"{len(decisions)} calls were"
    told = f"{count} refused, for nobody could be asked here ({names})"
    return f"{told}: {', '.join(ways)}"


def _json(event: AgentEvent) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def _ask(quiet: Quiet, question: Question) -> Answer:
    with quiet.question():
        return asked(question, _typed)


def _typed(text: str) -> str:
    """A line that somebody types.

    Read from the terminal itself: whoever is interrupted at a question leaves a thread behind that still reads, and if
    it held the buffer of the standard input, Python could not end.
    """
    click.echo(text, nl=False, err=True)
    line = os.read(sys.stdin.fileno(), 4096)
    if not line:
        raise EOFError
    return line.decode(errors="replace").strip()


def _print(result: AgentResult, live: bool) -> None:
    """The answer, unless it has been seen."""
    final = any(
        record.result is not None and record.result.content == result.content
        for made in result.rounds[-1:]
        for record in made.calls
    )
    if result.content and (not live or final):
        click.echo(clean(result.content) if sys.stdout.isatty() else result.content)


def _status(result: AgentResult) -> int:
    if result.status == "complete":
        return _LIMIT if stopped(result) else 0
    return _INTERRUPTED if result.status == "interrupted" else _FAILED
