"""Helpers for agent tests: a model with native calls, tools that block until released, and bounded waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from toolspeak import AsyncAgent, AsyncClient, Scripted, TextDelta, Tool, ToolCall, tool
from toolspeak.agent.events import AgentEvent
from toolspeak.core.events import Event
from toolspeak.core.types import JSONObject
from toolspeak.engine.rounds.transcript import CallRecord
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.upstreams.scripted import Script, calls

#: Nothing in a test takes longer, unless it hangs.
PATIENCE = 20.0


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a test's coroutine, but not for ever."""

    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await main

    return asyncio.run(bounded())


def model(*turns: Script, **more: Any) -> Scripted:
    """A model that calls natively."""
    return Scripted(*turns, provider="openai", **more)


def calling(*made: ToolCall, text: str = "") -> list[Event]:
    """A turn that says something and then calls."""
    return [*([TextDelta(text)] if text else []), *calls(*made)]


def agent(upstream: Scripted, *tools: Any, **more: Any) -> AsyncAgent:
    """An agent over a model of its own."""
    return AsyncAgent(AsyncClient(upstream), tools, **more)


class Held:
    """A tool that runs until it is let go, and counts how often it was run."""

    def __init__(self, name: str = "hold", side_effects: bool = False) -> None:
        self.tool = Tool(name, side_effects=side_effects)
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self.contexts: list[CallContext] = []

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        self.contexts.append(context)
        self.begun.set()
        await self.let_go.wait()
        return ToolOutput("held")


class Endless:
    """A turn that says one thing and then nothing, for ever."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.said = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        yield [TextDelta(self.text)]
        self.said.set()
        await asyncio.Event().wait()


def content(record: CallRecord) -> str:
    """What a call came to."""
    assert record.result is not None
    return record.result.content


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def look(at: str) -> str:
    """Look somewhere."""
    return f"nothing at {at}"


def sender(sent: list[str]) -> Callable[..., str]:
    """A tool that changes the world, as far as a list is the world."""

    @tool(side_effects=True)
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return f"sent to {to}"

    return send
