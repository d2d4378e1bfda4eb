"""`toolspeak chat`: a conversation with an agent, on a terminal or line by line from a pipe.

Text and tool calls are shown live. A finished round collapses to one line, which /show expands. Ctrl-C cancels the
current answer; Ctrl-D quits.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import click

from ..agent.events import AgentEvent, AgentResult, WorkFinished
from ..agent.run import EmitEvent
from ..core.text import counted, suggestion
from ..core.types import Message
from ..engine.planning.strategy import Mode
from ..engine.rounds.transcript import Answer, Entry
from ..errors import ConfigError, ToolspeakError, UsageError
from ..store.session_interface import copy_entries
from ..tools.approval import ApprovalAnswer, Question
from . import agent_screen
from ._io import clean, echo, print_error
from .agent_options import AgentKit, CommandOptions, agent_kit, agent_options, make_client
from .agent_screen import PROMPT, LineScreen, LiveScreen, PromptGuard
from .config import print_notes
from .run import interruptible, reported_failures

if TYPE_CHECKING:
    from ..config import Config

_MAX_LISTED = 10
_MODES = (*get_args(Mode), "chat-only")


def command(session: str, **options: Any) -> None:
    with reported_failures():
        failed = asyncio.run(_chat(session, agent_options(options)))
    sys.exit(int(failed))


class _PipeReader:
    """Reads lines from a pipe. Raises EOFError at the end of the input."""

    async def line(self, prompt: str) -> str:
        text = await asyncio.to_thread(sys.stdin.readline)
        if not text:
            raise EOFError
        return text.rstrip("\n")


class _TerminalReader:
    """Reads lines from the terminal, with a searchable history. Raises KeyboardInterrupt if Ctrl-C discards a line."""

    def __init__(self, config: "Config") -> None:
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.history import FileHistory
        except ImportError:
            raise ConfigError("chat needs prompt-toolkit", hint="pip install 'toolspeak[agent]'") from None
        config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._session: PromptSession[str] = PromptSession(history=FileHistory(str(config.data_folder / "chat_history")))

    async def line(self, prompt: str) -> str:
        return await self._session.prompt_async(prompt)


async def _chat(session: str, options: CommandOptions) -> bool:
    """Run the chat. Return whether a line from a pipe failed. On a terminal, the user has already seen the error."""
    client, config = make_client(options)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    reader = _TerminalReader(config) if terminal else _PipeReader()
    screen = LiveScreen() if terminal else LineScreen(echo, live=True)
    guard = PromptGuard(screen.show, screen.pause)
    async with agent_kit(client, config, options, partial(_ask, guard, reader) if terminal else None) as kit:
        print_notes(kit.notes)
        chat = ChatSession(kit, guard.show, session)
        reading = asyncio.create_task(kit.read_ahead()) if terminal else None
        name = client.model or options.upstream or "the model"
        echo(f"{clean(name)}, {counted(len(kit.tools), 'tool')}. Type /help for commands.", err=True)
        failed = False
        while True:
            try:
                failed |= await _turn(chat, (await reader.line("> ")).strip())
            except KeyboardInterrupt:
                continue
            except (EOFError, _Quit):
                break
            except ToolspeakError as error:
                screen.pause()
                print_error(str(error.args[0]), error.hint)
                failed = True
        if chat.session and kit.is_persistent:
            click.echo(f"Resume: toolspeak chat --session {chat.session}", err=True)
        if reading is not None:
            reading.cancel()
    return failed and not terminal


async def _turn(chat: "ChatSession", line: str) -> bool:
    """Process a line of input. Return whether it failed."""
    if line.startswith("/"):
        await _run_command(chat, line)
    elif line:
        with interruptible(chat.cancel):
            await chat.send(line)
    return chat.last is not None and chat.last.status == "failed"


async def _ask(guard: PromptGuard, reader: _PipeReader | _TerminalReader, question: Question) -> ApprovalAnswer:
    with guard.question():
        head, call = agent_screen.question_text(question).split("\n", 1)
        echo(head)
        click.echo(call)  # not broken into lines: it is shown as it is
        echo(PROMPT)
        try:
            return agent_screen.parse_answer(await reader.line("> "))
        except (EOFError, KeyboardInterrupt):
            return "deny"


class _Quit(Exception):
    """Raised to end the chat."""


class ChatSession:
    def __init__(self, kit: AgentKit, show: EmitEvent, session: str = "") -> None:
        self.kit = kit
        self.mode = ""
        self._show = show
        self._agent = kit.agent()
        self.session = kit.full_id(session)
        self.last: AgentResult | None = None

    async def send(self, text: str | None) -> None:
        """Send a message and show the answer. None resumes an interrupted session."""
        async for event in self._agent.stream(text, self.session or None):
            self._handle(event)

    def _handle(self, event: AgentEvent) -> None:
        self._show(event)
        if isinstance(event, WorkFinished):
            self.last, self.session = event.result, event.result.session

    def cancel(self) -> None:
        self._agent.cancel()

    def change_mode(self, mode: str) -> None:
        self.mode = mode
        options = {"chat_only": True} if mode == "chat-only" else {"mode": mode}
        self._agent = self.kit.agent(**options)

    def switch(self, session: str) -> None:
        self.session, self.last = self.kit.full_id(session), None

    async def entries(self) -> tuple[Entry, ...]:
        if not self.session:
            return ()
        journal = await self.kit.store.journal(self.session)
        try:
            return await journal.entries()
        finally:
            await journal.close()

    async def undo(self) -> str:
        """Copy the session without its last user message, because sessions are append-only. Return that message."""
        entries = list(await self.entries())
        while entries and not (isinstance(entries[-1], Message) and entries[-1].role == "user"):
            entries.pop()
        if not entries:
            raise UsageError("nothing to undo")
        undone = entries.pop()
        assert isinstance(undone, Message)
        journal = await self.kit.store.journal("")
        try:
            await copy_entries(journal, entries)
            self.session, self.last = journal.session, None
        finally:
            await journal.close()
        return undone.text


async def _help(chat: ChatSession, argument: str) -> None:
    for name, (summary, _) in _COMMANDS.items():
        echo(f"{name:<16}{summary}", indent=16)
    echo("Ctrl-C          cancel the current answer\nCtrl-D          quit")


async def _tools(chat: ChatSession, argument: str) -> None:
    for each in chat.kit.tools:
        mark = "*" if each.tool.side_effects else " "
        echo(f"{mark} {each.tool.name:<16}{clean(each.tool.description.partition('. ')[0])}")
    echo("* side effects; needs approval" if chat.kit.tools else "no tools")


async def _mode(chat: ChatSession, argument: str) -> None:
    if argument and argument not in _MODES:
        raise UsageError(f"unknown mode `{clean(argument)}`", hint=f"use {', '.join(_MODES)}")
    if argument:
        chat.change_mode(argument)
    echo(f"mode: {chat.mode or 'default'}")


async def _show(chat: ChatSession, argument: str) -> None:
    answers = [entry for entry in await chat.entries() if isinstance(entry, Answer)]
    rounds = answers[-1].rounds if answers else ()
    if argument.isdigit() and 0 < int(argument) <= len(rounds):
        echo(agent_screen.round_text(int(argument), rounds[int(argument) - 1]))
        return
    for number, round_ in enumerate(rounds, 1):
        echo(agent_screen.round_line(number, round_))
    outcome = chat.last and agent_screen.closing_line(chat.last)
    echo(outcome or ("/show 1 expands the first round" if rounds else "the last answer had no rounds"))


async def _undo(chat: ChatSession, argument: str) -> None:
    undone = await chat.undo()
    echo(f"Removed from the conversation (files are not restored): {clean(undone)[:80]}")


async def _resume(chat: ChatSession, argument: str) -> None:
    if argument:
        chat.switch(argument)
    entries = await chat.entries()
    if entries and not (isinstance(entries[-1], Answer) and entries[-1].status == "complete"):
        with interruptible(chat.cancel):
            await chat.send(None)
    elif argument:
        echo(f"Session {chat.session}, {counted(len(entries), 'entry', 'entries')}")
    else:
        _list(chat)


def _list(chat: ChatSession) -> None:
    sessions = getattr(chat.kit.store, "sessions", None)
    for info in sessions(limit=_MAX_LISTED) if sessions is not None else ():
        echo(f"{info.id[:8]}  {clean(info.title)[:60]}")
    echo("Nothing to resume in this session; /resume ID continues another one.")


async def _quit(chat: ChatSession, argument: str) -> None:
    raise _Quit


_COMMANDS: dict[str, tuple[str, Callable[[ChatSession, str], Awaitable[None]]]] = {
    "/help": ("list commands", _help),
    "/tools": ("list tools", _tools),
    "/mode": (f"show or set the mode: {', '.join(_MODES)}", _mode),
    "/show": ("list the rounds of the last answer, or expand the round with the given number", _show),
    "/undo": ("undo your last message", _undo),
    "/resume": ("resume the interrupted answer, or the session with the given id", _resume),
    "/quit": ("quit", _quit),
}


async def _run_command(chat: ChatSession, line: str) -> None:
    """Run a slash command. Raises _Quit for /quit, UsageError for an invalid command or argument."""
    name, _, argument = line.partition(" ")
    if name not in _COMMANDS:
        raise UsageError(f"unknown command `{clean(name)}`", hint=suggestion(name, _COMMANDS, "type /help for a list"))
    await _COMMANDS[name][1](chat, argument.strip())
