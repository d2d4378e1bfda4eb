"""Helpers that send a request to an upstream and collect its events, with bounded waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from toolspeak.core.events import Event, Reply, TextDelta, fold
from toolspeak.core.types import Message, Request, TextPart
from toolspeak.upstreams.base import Upstream
from toolspeak.upstreams.http.retry import World

T = TypeVar("T")

#: A test that hangs fails after this.
PATIENCE = 10.0


class Instant:
    """A world in which no wait takes time; `waits` tells what they would have been."""

    def __init__(self, chance: float = 0.0, now: float = 0.0) -> None:
        self.waits: list[float] = []
        self.world = World(sleep=self._sleep, chance=lambda: chance, now=lambda: now)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def loops(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes an event loop of this kind."""
    return asyncio.new_event_loop if kind == "asyncio" else pytest.importorskip("uvloop").new_event_loop


def request(text: str = "hello", *, stream: bool = True) -> Request:
    return Request("m", (Message("user", (TextPart(text),)),), stream=stream)


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(bounded())


async def batches(upstream: Upstream, asked: Request | None = None) -> list[list[Event]]:
    return [batch async for batch in upstream.open(asked or request())]


async def reply(upstream: Upstream, asked: Request | None = None) -> Reply:
    return fold(event for batch in await batches(upstream, asked) for event in batch)


def texts(found: list[list[Event]]) -> list[str]:
    """The pieces of text, one for each batch that holds any."""
    joined = ["".join(event.text for event in batch if isinstance(event, TextDelta)) for batch in found]
    return [text for text in joined if text]
