"""What can be typed into a chat besides words: /help, /tools, /mode, /show, /undo, /resume, /quit.

`Conversation` is one session and the agent that works in it. A table says what each command does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeAlias, get_args

import click

from ..agent.events import AgentEvent, AgentResult, WorkFinished
from ..agent.run import Tell
from ..core.types import Message
from ..engine.planning.strategy import Mode
from ..engine.rounds.transcript import Answer, Entry
from ..errors import UsageError
from ..store.session_interface import Journal
from .run_screen import clean, one_line_of, round_text, verdict
from .run_setup import Kit

#: Sessions that /resume lists.
_LISTED = 10
_MODES = (*get_args(Mode), "chat-only")

Interruptible: TypeAlias = Callable[[Callable[[], None]], AbstractContextManager[None]]


class Quit(Exception):
    """The person has said enough."""


class Conversation:
    """One session, and the agent that works in it."""

    def __init__(self, kit: Kit, show: Tell, session: str = "") -> None:
        self.kit = kit
        self.mode = ""
        self._show = show
        self._agent = kit.agent()
        self.session = self._found(session)
        self.last: AgentResult | None = None

    async def say(self, text: str | None) -> None:
        """Say something, or go on where the session was interrupted, and watch what comes of it."""
        async for event in self._agent.stream(text, self.session or None):
            self._seen(event)

    def _seen(self, event: AgentEvent) -> None:
        self._show(event)
        if isinstance(event, WorkFinished):
            self.last, self.session = event.result, event.result.session

    def cancel(self) -> None:
        """End what is under way."""
        self._agent.cancel()

    def change_mode(self, mode: str) -> None:
        """Emulate calls in another way from now on."""
        self.mode = mode
        options = {"chat_only": True} if mode == "chat-only" else {"mode": mode}
        self._agent = self.kit.agent(**options)

    def switch(self, session: str) -> None:
        """Go on in another session."""
        self.session, self.last = self._found(session), None

    def _found(self, beginning: str) -> str:
        find = getattr(self.kit.store, "find", None)
        return find(beginning) if beginning and find is not None else beginning

    async def entries(self) -> tuple[Entry, ...]:
        """What was said in this session."""
        if not self.session:
            return ()
        journal = await self.kit.store.journal(self.session)
        try:
            return await journal.entries()
        finally:
            await journal.close()

    async def undo(self) -> str:
        """Go back behind what was said last: in a new session, for nothing is taken out of an old one."""
        entries = list(await self.entries())
        while entries and not (isinstance(entries[-1], Message) and entries[-1].role == "user"):
            entries.pop()
        if not entries:
            raise UsageError("there is nothing to undo")
        undone = entries.pop()
        assert isinstance(undone, Message)
        journal = await self.kit.store.journal("")
        try:
            for entry in entries:
                await _copy(journal, entry)
            self.session, self.last = journal.session, None
        finally:
            await journal.close()
        return undone.text


async def _copy(journal: Journal, entry: Entry) -> None:
    if isinstance(entry, Message):
        await journal.say(entry)
        return
    await journal.begin()
    for made in entry.rounds:
        await journal.plan(made)
    await journal.end(entry)


# ---- the commands


async def _help(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    for name, (told, _) in _COMMANDS.items():
        click.echo(f"{name:<16}{told}")
    click.echo("Ctrl-C          cancel what is under way\nCtrl-D          leave")


async def _tools(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    for each in conversation.kit.tools:
        mark = "*" if each.tool.side_effects else " "
        click.echo(f"{mark} {each.tool.name:<16}{clean(each.tool.description.partition('. ')[0])}")
    click.echo("* changes something, and so has to be allowed" if conversation.kit.tools else "there are no tools")


async def _mode(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    if argument and argument not in _MODES:
        raise UsageError(f"there is no mode `{clean(argument)}`", hint=f"use one of {', '.join(_MODES)}")
    if argument:
        conversation.change_mode(argument)
    click.echo(f"mode: {conversation.mode or 'as configured'}")


async def _show(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    answers = [entry for entry in await conversation.entries() if isinstance(entry, Answer)]
    rounds = answers[-1].rounds if answers else ()
    if argument.isdigit() and 0 < int(argument) <= len(rounds):
        click.echo(round_text(int(argument), rounds[int(argument) - 1]))
        return
    for number, made in enumerate(rounds, 1):
        click.echo(one_line_of(number, made))
    told = conversation.last and verdict(conversation.last)
    click.echo(told or ("/show 1 opens the first" if rounds else "the last answer had no rounds"))


async def _undo(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    undone = await conversation.undo()
    click.echo(f"undone, in the conversation and not in the world: {clean(undone)[:80]}")


async def _resume(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    if argument:
        conversation.switch(argument)
    entries = await conversation.entries()
    if entries and not (isinstance(entries[-1], Answer) and entries[-1].status == "complete"):
        with interruptible(conversation.cancel):
            await conversation.say(None)
    elif argument:
        click.echo(f"this is session {conversation.session}, with {len(entries)} entries")
    else:
        _list(conversation)


def _list(conversation: Conversation) -> None:
    sessions = getattr(conversation.kit.store, "sessions", None)
    for info in sessions(limit=_LISTED) if sessions is not None else ():
        click.echo(f"{info.id[:8]}  {clean(info.title)[:60]}")
    click.echo("nothing was interrupted here; /resume ID goes on with another session")


async def _quit(conversation: Conversation, argument: str, interruptible: Interruptible) -> None:
    raise Quit


Command: TypeAlias = Callable[[Conversation, str, Interruptible], Awaitable[None]]
_COMMANDS: dict[str, tuple[str, Command]] = {
    "/help": ("what can be typed", _help),
    "/tools": ("what the model can use", _tools),
    "/mode": (f"how calls are made: {', '.join(_MODES)}", _mode),
    "/show": ("the rounds of the last answer; with a number, all of one", _show),
    "/undo": ("go back behind what you said last", _undo),
    "/resume": ("go on where it was interrupted; with an id, in that session", _resume),
    "/quit": ("leave", _quit),
}


async def obey(conversation: Conversation, line: str, interruptible: Interruptible) -> None:
    """Carry out what was typed.

    Raises:
        Quit: to leave.
        UsageError: there is no such command, or it cannot be done.
    """
    name, _, argument = line.partition(" ")
    if name not in _COMMANDS:
        raise UsageError(f"there is no `{clean(name)}`", hint="/help says what can be typed")
    await _COMMANDS[name][1](conversation, argument.strip(), interruptible)
