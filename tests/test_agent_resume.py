"""Agents that are interrupted: cancelled at any moment, gone on with later, nothing done twice without consent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agent_helpers import Endless, Held, agent, calling, content, look, model, run, sender
from tests.cases import check_each
from toolspeak import AsyncAgent, AsyncClient, ToolCall, ToolResult, UsageError
from toolspeak.agent.events import CallStarted
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round
from toolspeak.errors import SessionBusyError, StoreFullError
from toolspeak.store.session_interface import MemoryJournal, MemorySessions
from toolspeak.tools.approval import Approval

HOLD = ToolCall("hold", {"to": "anna"})
LOOK = ToolCall("look", {"at": "home"})


async def _when(event: asyncio.Event, one: AsyncAgent) -> None:
    await event.wait()
    one.cancel()


# ---- cancelling


@pytest.mark.requirement("F1", "F7")
def test_cancelled_while_it_speaks_an_agent_keeps_the_words():
    async def main() -> None:
        speech = Endless("It is prob")
        upstream = model(calling(LOOK), speech)
        one = agent(upstream, look)
        result, _ = await asyncio.gather(one.run("Find it."), _when(speech.said, one))
        assert (result.content, result.status, result.why) == ("It is prob", "interrupted", "cancelled")
        assert len(result.rounds) == 1
        assert upstream.cancelled == [1]

    run(main())


@pytest.mark.requirement("F7")
def test_cancelled_while_tools_run_it_keeps_what_is_finished_and_says_what_is_not():
    async def main() -> None:
        held = Held(side_effects=True)
        one = agent(model(calling(LOOK, HOLD, LOOK)), look, held, parallel=False)
        result, _ = await asyncio.gather(one.run("Find it."), _when(held.begun, one))
        assert result.status == "interrupted"
        done, begun, planned = result.rounds[0].calls
        assert [done.state, begun.state, planned.state] == ["finished", "started", "planned"]
        assert "may or may not" in content(begun)

    run(main())


@pytest.mark.requirement("F7")
def test_a_task_that_is_cancelled_from_outside_is_written_down_first():
    async def main() -> None:
        sessions = MemorySessions()
        held = Held()
        one = agent(model(calling(HOLD)), held, store=sessions)
        task = asyncio.create_task(one.run("Hold."))
        await held.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        journal = await sessions.journal(held.contexts[0].session)
        last = (await journal.entries())[-1]
        assert isinstance(last, Answer)
        assert last.status == "interrupted"
        assert [record.state for record in last.rounds[0].calls] == ["started"]

    run(main())


@pytest.mark.requirement("F7")
def test_who_stops_reading_cancels_the_work():
    async def main() -> None:
        upstream = model(calling(HOLD), "It was interrupted.")
        held = Held()
        one = agent(upstream, held)
        events = one.stream("Hold.")
        async for event in events:
            if isinstance(event, CallStarted):
                break
        await events.aclose()
        await one.resume(held.contexts[0].session)
        assert "may or may not" in upstream.requests[-1].messages[-1].results[0].content

    run(main())


@pytest.mark.requirement("F7")
def test_a_tool_that_ignores_its_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.agent.calls._GRACE", 0.01)
    monkeypatch.setattr("toolspeak.agent.calls.cancel_and_wait.__defaults__", (0.01,))

    async def main() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def stubborn() -> str:
            """Never give in."""
            begun.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            raise ValueError("nobody hears this")

        one = agent(model(calling(ToolCall("stubborn", {}))), stubborn)
        result, _ = await asyncio.gather(one.run("Go."), _when(begun, one))
        assert result.status == "interrupted"
        let_go.set()
        await asyncio.sleep(0)

    run(main())


# ---- resuming


@pytest.mark.requirement("F7", "R-F35")
def test_a_resumed_model_is_told_what_was_interrupted_and_goes_on():
    async def main() -> None:
        held = Held()
        upstream = model(calling(HOLD), "I could not hold it.")
        one = agent(upstream, held)
        first, _ = await asyncio.gather(one.run("Hold."), _when(held.begun, one))
        second = await one.resume(first.session)
        assert second.content == "I could not hold it."
        assert [message.role for message in upstream.requests[1].messages] == ["user", "assistant", "tool"]
        assert "may or may not" in upstream.requests[1].messages[-1].results[0].content
        assert await one.resume(first.session) == second  # it has come to its end

    run(main())


@pytest.mark.requirement("F7")
def test_a_model_whose_words_were_cut_off_is_asked_to_go_on():
    async def main() -> None:
        speech = Endless("It is prob")
        upstream = model(speech, "ably there.")
        one = agent(upstream)
        first, _ = await asyncio.gather(one.run("Find it."), _when(speech.said, one))
        assert (await one.resume(first.session)).content == "ably there."
        roles = [(message.role, message.text) for message in upstream.requests[1].messages]
        assert roles[:2] == [("user", "Find it."), ("assistant", "It is prob")]
        assert roles[2][0] == "user"

    run(main())


@pytest.mark.requirement("F7", "R-F35", "R-F37")
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "database"])
@pytest.mark.parametrize("consent", [None, False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_what_may_have_been_done_is_not_done_again_without_consent(
    consent: bool | None, declared: bool, kept: bool, tmp_path: Path
):
    if kept:
        pytest.importorskip("sqlalchemy")

    async def main() -> None:
        held = Held(side_effects=declared)
        upstream = model(calling(HOLD), calling(HOLD), "Done.")
        answers = iter([True, consent] if declared else [consent])
        approve = None if consent is None else lambda _: next(answers)
        store = f"sqlite:///{tmp_path}/work.db" if kept else None
        one = agent(upstream, held, approve=approve, store=store)
        first, _ = await asyncio.gather(one.run("Hold."), _when(held.begun, one))
        held.let_go.set()
        second = await one.resume(first.session)
        assert second.content == "Done."
        assert len(held.contexts) == (2 if consent else 1)
        result = second.rounds[0].calls[0].result
        assert result is not None
        assert result.error is not bool(consent)
        assert len({context.key for context in held.contexts}) == 1  # the same for what is done again
        await one.close()

    run(main())


@pytest.mark.requirement("F7", "R-F35")
@check_each("again", [{"to": "anna", "timeout": 5}, {"to": "anna", "how": "fast"}, {"to": "Anna"}])
@check_each("yes", [False, True])
def test_an_interrupted_call_in_other_words_is_not_done_without_consent(again: dict[str, Any], yes: bool):
    """Not where nobody can be asked, and not where everything in a sandbox was allowed: this tool is in none."""

    async def main() -> None:
        held = Held(side_effects=True)
        upstream = model(calling(HOLD), calling(ToolCall("hold", again)), "Done.")
        sessions = MemorySessions()
        one = agent(upstream, held, store=sessions)
        first, _ = await asyncio.gather(one.run("Hold."), _when(held.begun, one))
        held.let_go.set()
        other = agent(upstream, held, store=sessions, approve=Approval(yes=True, allow=["hold"]) if yes else None)
        second = await other.resume(first.session)
        assert len(held.contexts) == 1
        assert "may have been carried out" in content(second.rounds[0].calls[0])

    run(main())


@pytest.mark.requirement("F7")
@check_each(("again", "runs"), [({"to": "anna", "timeout": 5}, 1), ({"to": "bert"}, 2)])
def test_yes_counts_in_a_sandbox_for_another_call_but_not_for_the_same_again(again: dict[str, Any], runs: int):
    async def main() -> None:
        held = Held(side_effects=True)
        held.sandboxed = True  # pyright: ignore[reportAttributeAccessIssue]
        upstream = model(calling(HOLD), calling(ToolCall("hold", again)), "Done.")
        one = agent(upstream, held, approve=Approval(yes=True))
        first, _ = await asyncio.gather(one.run("Hold."), _when(held.begun, one))
        held.let_go.set()
        await one.resume(first.session)
        assert len(held.contexts) == runs

    run(main())


def test_nothing_is_resumed_before_something_was_asked():
    async def main() -> None:
        sessions = MemorySessions()
        journal = await sessions.journal()
        await journal.close()
        with pytest.raises(UsageError, match="cannot resume an empty session"):
            await agent(model(), store=sessions).resume(journal.session)

    run(main())


# ---- sessions


@pytest.mark.requirement("F7")
def test_a_session_has_one_writer():
    async def main() -> None:
        held = Held()
        one = agent(model(calling(HOLD), "Done."), held)
        first = asyncio.create_task(one.run("Hold."))
        await held.begun.wait()
        with pytest.raises(SessionBusyError):
            await one.run("And this.", held.contexts[0].session)
        held.let_go.set()
        assert (await first).status == "complete"

    run(main())


@pytest.mark.requirement("F2", "F7")
def test_another_agent_goes_on_from_the_same_database(tmp_path: Path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path}/work.db"
    sent: list[str] = []

    async def main() -> None:
        held = Held()
        async with agent(model(calling(ToolCall("send", {"to": "anna"}), HOLD)), sender(sent), held, store=url) as one:
            first, _ = await asyncio.gather(one.run("Write, then hold."), _when(held.begun, one))
        upstream = model(calling(LOOK), "Both are done.")
        async with agent(upstream, sender(sent), look, store=url) as other:
            second = await other.resume(first.session)
            third = await other.resume(first.session)
        assert second.content == "Both are done."
        assert third.content == second.content
        assert sent == ["anna"]
        told = upstream.requests[0].messages[-1].results
        assert [result.content.split(":")[0] for result in told] == ["sent to anna", "Interrupted"]

    run(main())


def test_a_store_that_fails_ends_the_work_with_its_own_error():
    class Full(MemoryJournal):
        async def finish(self, result: ToolResult, seconds: float) -> None:
            raise StoreFullError("the disk is full")

    class Sessions:
        async def journal(self, session: str = "") -> MemoryJournal:
            return Full("s")

    async def main() -> None:
        held = Held()
        one = agent(model(calling(LOOK, HOLD)), look, held, store=Sessions())
        with pytest.raises(StoreFullError):
            await one.run("Look.")

    run(main())


# ---- the journal in memory


@pytest.mark.requirement("F2", "R-F35")
def test_a_journal_in_memory_gives_back_what_was_written_repaired():
    async def main() -> None:
        journal = MemoryJournal("s")
        await journal.begin()
        await journal.stream("Let me ")
        await journal.stream("look.")
        (running,) = await journal.entries()
        assert isinstance(running, Answer)
        assert (running.content, running.status) == ("Let me look.", "interrupted")
        records = tuple(CallRecord(ToolCall("look", {}, name)) for name in ("a", "b", "c"))
        await journal.plan(Round("Let me look.", records))
        await journal.start("a")
        await journal.start("b")
        await journal.finish(ToolResult("a", "found"), 1.5)
        await journal.begin()
        interrupted, _ = await journal.entries()
        assert isinstance(interrupted, Answer)
        assert interrupted.content == ""
        states = [(record.state, bool(record.result)) for record in interrupted.rounds[0].calls]
        assert states == [("finished", True), ("started", True), ("planned", True)]
        await journal.end(Answer("Yes."))
        assert (await journal.entries())[-1] == Answer("Yes.")

    run(main())


def test_closing_an_agent_leaves_the_client_that_it_was_given():
    async def main() -> None:
        client = AsyncClient(model("One.", "Two."))
        first = AsyncAgent(client)
        assert (await first.run("Hi.")).content == "One."
        await first.close()
        assert (await AsyncAgent(client).run("Hi.")).content == "Two."
        own: Any = AsyncAgent(model("Three."))
        async with own:
            assert (await own.run("Hi.")).content == "Three."

    run(main())


@pytest.mark.requirement("F7")
def test_closing_an_agent_cancels_what_is_under_way_and_waits_for_it():
    async def main() -> None:
        held = Held()
        one = agent(model(calling(HOLD)), held)
        working = asyncio.create_task(one.run("Hold."))
        await held.begun.wait()
        await one.close()
        assert (await working).status == "interrupted"

    run(main())
