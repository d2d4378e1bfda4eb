"""`toolspeak chat`: a conversation with an agent, on a terminal or line by line from a pipe.

Text as it comes; rounds as they happen, one line each afterwards, opened again with /show. Ctrl-C cancels what is under
way, not the program; Ctrl-D ends it.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from ..errors import ConfigError, ToolspeakError
from ..tools.approval import Answer, Question
from .chat_commands import Conversation, Quit, obey
from .config import say
from .run import failures, interruptible
from .run_consent import PROMPT, answer_of, told
from .run_model import client_of
from .run_screen import Lines, Live, Quiet, Screen, clean
from .run_setup import Wanted, agent_options, kit

if TYPE_CHECKING:
    from ..config import Config

_EXAMPLES = """\b
Examples:
  toolspeak chat
  toolspeak chat --upstream http://127.0.0.1:9000/v1 --tools files
  toolspeak chat --session 4f0c2a
"""


@click.command("chat", epilog=_EXAMPLES)
@click.option("--session", default="", metavar="ID", help="go on with this session")
@agent_options
def command(session: str, wanted: Wanted) -> None:
    """Talk with an agent that has a shell and files, or tools of MCP servers. /help says what else can be typed."""
    with failures():
        failed = asyncio.run(_chat(session, wanted))
    sys.exit(int(failed))


class _Input(Protocol):
    """Where lines come from."""

    async def line(self, prompt: str) -> str:
        """The next line.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: the person wants no more of this one.
        """
        ...


class _Piped:
    """Lines of standard input, which is no terminal."""

    async def line(self, prompt: str) -> str:
        text = await asyncio.to_thread(sys.stdin.readline)
        if not text:
            raise EOFError
        return text.rstrip("\n")


class _Typed:
    """Lines that a person types, with a history that can be searched."""

    def __init__(self, config: Config) -> None:
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.history import FileHistory
        except ImportError:
            raise ConfigError("a chat needs prompt-toolkit", hint="pip install 'toolspeak[agent]'") from None
        config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._session: PromptSession[str] = PromptSession(history=FileHistory(str(config.data_folder / "chat_history")))

    async def line(self, prompt: str) -> str:
        return await self._session.prompt_async(prompt)


async def _chat(session: str, wanted: Wanted) -> bool:
    """Whether it failed: a line of a pipe had no answer. A person has seen it, and may have asked again."""
    client, config = client_of(wanted)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    typed: _Input = _Typed(config) if terminal else _Piped()
    screen = _screen(terminal)
    quiet = Quiet(screen.show, screen.pause)
    async with kit(client, config, wanted, partial(_ask, quiet, typed) if terminal else None) as tools:
        say(tools.notes)
        conversation = Conversation(tools, quiet.show, session)
        name = client.model or wanted.upstream or "the model"
        click.echo(f"{clean(name)}, {len(tools.tools)} tools. /help says what can be typed.", err=True)
        failed = False
        while True:
            try:
                failed |= await _turn(conversation, (await typed.line("> ")).strip())
            except KeyboardInterrupt:
                continue
            except (EOFError, Quit):
                break
            except ToolspeakError as error:
                screen.pause()
                click.echo(f"error: {error}", err=True)
                failed = True
        if conversation.session and tools.kept:
            click.echo(f"go on with: toolspeak chat --session {conversation.session}", err=True)
    return failed and not terminal


def _screen(terminal: bool) -> Screen:
    if not terminal:
        return Lines(click.echo, live=True)
    from rich.console import Console

    return Live(Console())


async def _turn(conversation: Conversation, line: str) -> bool:
    """Do what a line says; whether that failed."""
    if line.startswith("/"):
        await obey(conversation, line, interruptible)
    elif line:
        with interruptible(conversation.cancel):
            await conversation.say(line)
    return conversation.last is not None and conversation.last.status == "failed"


async def _ask(quiet: Quiet, typed: _Input, question: Question) -> Answer:
    with quiet.question():
        click.echo(told(question))
        try:
            return answer_of(await typed.line(f"{PROMPT} "))
        except (EOFError, KeyboardInterrupt):
            return "deny"
