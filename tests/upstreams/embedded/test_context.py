"""The embedded model stays within its window: a task of ten rounds with long results, in its real engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.cases import only_at_full_size
from tests.window_model import TASK, page
from toolspeak import AsyncAgent, AsyncClient, ToolCall
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen, fold
from toolspeak.core.types import Request
from toolspeak.upstreams.base import Batches
from toolspeak.upstreams.embedded.upstream import EmbeddedUpstream, recipe_for
from toolspeak.upstreams.scripted import calls

#: At about 100 tokens a second, ten rounds take two minutes.
ROUNDS = 10
WINDOW = 1024


class ChosenCalls:
    """The embedded model, which reads every prompt, but whose calls are those of a script."""

    provider, base_url, protocol = "embedded", "", "openai_chat"

    def __init__(self, inner: EmbeddedUpstream) -> None:
        self._inner = inner
        self.model = inner.model
        self.context_window = inner.context_window
        self.prompts: list[int] = []
        self.rounds = 0

    async def open(self, request: Request) -> Batches:
        options = msgspec.structs.replace(request.options, max_tokens=8)
        events: list[Event] = []
        async for batch in self._inner.open(msgspec.structs.replace(request, options=options)):
            events += batch
        reply = fold(events)
        assert reply.failure is None
        self.prompts.append(reply.usage.input_tokens)
        if not request.options.described_tools:  # a summary
            yield events
            return
        self.rounds += 1
        made = (
            calls(ToolCall("page", {"number": self.rounds}, f"call_{self.rounds}")) if self.rounds <= ROUNDS else None
        )
        if made is None:
            yield [TextDelta("Everything is read."), UsageSeen(reply.usage), Finish("stop")]
        else:
            yield [*made, UsageSeen(reply.usage), Finish("tool_calls")]

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.requirement("F11")
@pytest.mark.no_cover
@only_at_full_size
def test_ten_rounds_stay_within_the_window(weights: Path):
    async def main() -> None:
        upstream = ChosenCalls(EmbeddedUpstream(recipe_for("", context=WINDOW), lambda: weights))
        async with AsyncAgent(AsyncClient(upstream), [page]) as agent:
            result = await agent.run(TASK)
        await upstream.close()
        assert (result.status, result.why) == ("complete", "")
        assert len(result.rounds) == ROUNDS
        assert max(upstream.prompts) <= WINDOW - 8
        assert "results_shortened" in {note.code for note in result.notes}

    asyncio.run(main())
