"""Long tasks over a small window: the agent compacts, goes on, and says what it left out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import content, model, run
from tests.cases import check_each
from tests.upstreams.loopback_server import serving_in_a_thread
from tests.window_model import TASK, WINDOW, WindowModel, page
from toolspeak import AsyncAgent, AsyncClient, ToolCall
from toolspeak.agent.events import AgentResult
from toolspeak.cli.agent_screen import closing_line
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.rounds.transcript import Answer
from toolspeak.store.session_interface import MemorySessions

pytestmark = pytest.mark.requirement("F11")


def codes(result: AgentResult) -> Counter[str]:
    return Counter(note.code for note in result.notes)


def capabilities(window: int = 0, capability: str = "none") -> Capabilities:
    known = Capabilities()
    known.override_model("*", {"context_window": window, "capability": capability})
    return known


def assert_done(result: AgentResult, played: WindowModel) -> None:
    assert (result.status, result.content) == ("complete", "Everything is read.")
    assert len(result.rounds) == played.rounds
    assert result.requests == len(played.sizes)
    # The model saw its task in every request but those for summaries and those that it rejected.
    assert played.tasks_seen == len(played.sizes) - played.summaries - played.complaints


# ---- done when


@check_each("known", [True, False], ids=["known", "learned"])
@check_each("chars", [4, 3])
def test_a_task_of_forty_rounds_and_200_kb_is_finished_in_4096_tokens(chars: int, known: bool):
    played = WindowModel(chars=chars)
    client = ts.Client(played, known=capabilities(WINDOW if known else 0))
    with ts.Agent(client, [page]) as agent:
        result = agent.run(TASK)
    assert_done(result, played)
    noted = codes(result)
    assert noted["results_shortened"] > 3
    assert noted["rounds_summarised"] > 1
    assert closing_line(result).startswith("compacted ")
    assert played.complaints <= 1
    assert noted["context_exceeded"] == played.complaints
    assert played.summaries <= 8


@contextmanager
def served(played: WindowModel) -> Iterator[str]:
    with serving_in_a_thread(played.answer) as server:
        yield server.url


@check_each("capability", ["openai", "none"], ids=["native", "emulated"])
@check_each("streams", [True, False], ids=["streamed", "whole"])
@check_each("window", [WINDOW, 0], ids=["known", "learned"])
def test_the_same_over_http(capability: str, streams: bool, window: int):
    played = WindowModel(chars=3, rounds=20, calls=2)
    with served(played) as url:
        known = capabilities(window, capability)
        known.override_provider("openai", {"streams": streams})
        client = ts.Client("openai:m", base_url=url, api_key="k", known=known, probe="off")
        with client, ts.Agent(client, [page]) as agent:
            result = agent.run(TASK)
    assert_done(result, played)
    assert codes(result)["rounds_summarised"] > 0
    assert result.usage.input_tokens == sum(size for size in played.sizes if size <= WINDOW)
    assert played.complaints <= 2


def test_five_calls_a_round():
    played = WindowModel(rounds=8, calls=5)
    with ts.Agent(ts.Client(played, known=capabilities()), [page]) as agent:
        result = agent.run(TASK)
    assert_done(result, played)
    assert codes(result)["results_shortened"]


def test_one_result_of_200_kb_without_a_limit():
    def page(number: int) -> str:
        """Read a page of the book."""
        return f"page {number} " + "lorem ipsum dolor sit amet " * 7400 + "THE END"

    played = WindowModel(rounds=2)
    with ts.Agent(ts.Client(played, known=capabilities()), [page], max_output=None) as agent:
        result = agent.run(TASK)
    assert_done(result, played)
    assert all("THE END" in seen for seen in played.last_results[1:2])
    assert len(content(result.rounds[0].calls[0])) > 190_000


def test_a_window_of_unknown_size_is_found_by_trying():
    played = WindowModel(rounds=12, states_window=False)
    with ts.Agent(ts.Client(played, known=capabilities()), [page]) as agent:
        result = agent.run(TASK)
    assert_done(result, played)
    assert "(assumed " in next(note.detail for note in result.notes if note.code == "context_exceeded")


def test_results_alone_can_be_shortened():
    played = WindowModel(rounds=12)
    with ts.Agent(ts.Client(played, known=capabilities(WINDOW)), [page], compact="results") as agent:
        result = agent.run(TASK)
    assert_done(result, played)
    assert set(codes(result)) == {"results_shortened"}


@check_each("where", ["client", "agent"])
def test_compaction_can_be_turned_off(where: str):
    played = WindowModel()
    client_settings: dict[str, Any] = {"compact": "off"} if where == "client" else {}
    agent_settings: dict[str, Any] = {"compact": "off"} if where == "agent" else {}
    client = ts.Client(played, known=capabilities(WINDOW), **client_settings)
    with ts.Agent(client, [page], **agent_settings) as agent:
        result = agent.run(TASK)
    assert result.status == "failed"
    assert "maximum context length is 4096" in result.why


def test_a_task_that_does_not_fit_by_itself_is_a_clear_error():
    played = WindowModel()
    with ts.Agent(ts.Client(played, known=capabilities()), [page]) as agent:
        result = agent.run(TASK * 1000)
    assert result.status == "failed"
    assert "does not fit the context window of 4096 tokens, even after compaction; shorten the task" in result.why
    assert played.complaints == 1


# ---- read_more and sessions


def test_read_more_brings_back_a_result_that_was_shortened_for_the_window():
    read = ToolCall("read_more", {"id": "call_1", "offset": 1000})
    small = "start " + "lorem ipsum " * 200 + "needle" + " dolor sit amet" * 60

    def look() -> str:
        """Look."""
        return small

    async def main() -> None:
        upstream = model(
            [*ts_calls(ToolCall("look", {}, "call_1"))],
            [*ts_calls(ToolCall("look", {}, "call_2"))],
            [*ts_calls(read)],
            "Done.",
        )
        client = AsyncClient(upstream, known=capabilities(1100, "openai"))
        result = await AsyncAgent(client, [look]).run("Look.")
        shortened = upstream.requests[2].messages[2].results[0].content
        assert 'read_more with id "call_1" and offset' in shortened
        assert "needle" not in shortened
        assert "needle" in content(result.rounds[2].calls[0])

    run(main())


def test_another_process_reads_it_back_from_the_store(tmp_path: Path):
    read = ToolCall("read_more", {"id": "call_1", "offset": 1000})
    store = f"sqlite:///{tmp_path}/work.db"

    def look() -> str:
        """Look."""
        return "x" * 1500 + "needle"

    async def main() -> None:
        async with AsyncAgent(model(ts_calls(ToolCall("look", {}, "call_1")), "Seen."), [look], store=store) as one:
            first = await one.run("Look.")
        async with AsyncAgent(model(ts_calls(read), "Read."), [look], store=store) as other:
            second = await other.run("Go on.", first.session)
        assert content(second.rounds[0].calls[0]).startswith("x" * 500 + "needle")

    run(main())


@pytest.mark.requirement("F7")
def test_a_task_goes_on_in_another_process_after_it_was_compacted(tmp_path: Path):
    played = WindowModel(rounds=20)
    store = f"sqlite:///{tmp_path}/work.db"
    numbers: list[int] = []

    async def main() -> None:
        started = asyncio.Event()

        async def page(number: int) -> str:
            """Read a page of the book."""
            numbers.append(number)
            if number == 12 and not started.is_set():
                started.set()
                await asyncio.Event().wait()
            return f"page {number} " + "lorem ipsum dolor sit amet " * 190

        client = AsyncClient(played, known=capabilities(WINDOW))
        async with AsyncAgent(client, [page], store=store) as one:
            task = asyncio.create_task(one.run(TASK))
            await started.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with AsyncAgent(AsyncClient(played, known=capabilities(WINDOW)), [page], store=store) as other:
            from toolspeak.store import open_store

            opened = open_store(store)
            session = opened.sessions()[0].id
            opened.close()
            result = await other.resume(session)
        assert (result.status, result.content) == ("complete", "Everything is read.")
        assert codes(result)["rounds_summarised"] > 0
        assert max(Counter(numbers).values()) == 1

    run(main())


def test_a_session_keeps_the_notes_and_the_whole_results():
    async def main() -> None:
        played, sessions = WindowModel(rounds=10), MemorySessions()
        client = AsyncClient(played, known=capabilities(WINDOW))
        result = await AsyncAgent(client, [page], store=sessions).run(TASK)
        journal = await sessions.journal(result.session)
        kept = (await journal.entries())[-1]
        assert isinstance(kept, Answer)
        assert "results_shortened" in {note.code for note in kept.notes}
        assert all(len(content(record)) > 4000 for each in kept.rounds for record in each.calls)

    run(main())


def ts_calls(*made: ToolCall) -> list[Any]:
    from toolspeak.upstreams.scripted import calls

    return list(calls(*made))
