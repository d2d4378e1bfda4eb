"""The journal: each step is there once it was said, one writer at a time, and a crash is repaired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from toolspeak.core.types import Message, Note, TextPart, ToolCall, ToolResult, Usage
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round, with_result
from toolspeak.errors import NoSessionError, SessionBusyError, UsageError
from toolspeak.store import journal as journal_module
from toolspeak.store.journal import SqlJournal
from toolspeak.store.schema import leases, pieces
from toolspeak.store.session_interface import SessionStore
from toolspeak.store.sessions import Store

ASKED = Message("user", (TextPart("What is the weather?"),))
FIRST = CallRecord(ToolCall("get_weather", {"city": "Oslo"}, "c1"))
SECOND = CallRecord(ToolCall("pay", {"amount": 3}, "c2"), side_effects=True)
ROUND = Round("I look.", (FIRST, SECOND))
RESULT = ToolResult("c1", "rain", "get_weather")


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(bounded())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another task does."""
    while not holds():  # noqa: ASYNC110 - what is waited for is in the database
        await asyncio.sleep(0.01)


def lapse(store: Store) -> None:
    """The lease of every writer ends, as if it had not been heard of for long."""
    store.database.write(lambda connection: connection.execute(sa.update(leases).values(expires=1.0)))


async def crash(journal: SqlJournal, store: Store) -> None:
    """What a killed process leaves behind: nothing is closed, and its lease ends."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    lapse(store)


@pytest.mark.requirement("F2", "F7")
def test_a_finished_answer_is_read_back_as_it_was_given(store: Store):
    answer = Answer(
        "It rains.",
        (Round("I look.", (msgspec.structs.replace(FIRST, state="finished", result=RESULT, seconds=0.5),)),),
        usage=Usage(10, 5),
        notes=(Note("code", "detail"),),
        requests=2,
    )

    async def converse() -> str:
        journal = await store.journal()
        await journal.say(ASKED)
        await journal.begin()
        await journal.stream("I ")
        await journal.stream("look.")
        await journal.plan(Round("I look.", (FIRST,)))
        await journal.start("c1")
        await journal.finish(RESULT, 0.5)
        await journal.stream("It rains.")
        await journal.end(answer)
        assert await journal.entries() == (ASKED, answer)
        await journal.close()
        return journal.session

    session = run(converse())
    assert store.entries(session) == (ASKED, answer)
    [info] = store.sessions()
    assert (info.id, info.title, info.entries) == (session, "What is the weather?", 2)
    assert (info.input_tokens, info.output_tokens, info.holder) == (10, 5, "")
    assert store.database.read(lambda connection: connection.execute(sa.select(pieces)).all()) == []


@pytest.mark.parametrize(
    "text", ["zero \x00 byte", "half \ud800 pair", "grüße 🦊", "'; DROP TABLE sessions; --", '"\\%_']
)
def test_every_text_is_read_back_as_it_was(store: Store, text: str):
    said = Message("user", (TextPart(text, {text: text}),))
    call = CallRecord(ToolCall(text, {text: [text]}, text))
    result = ToolResult(text, text, text)
    done = msgspec.structs.replace(call, state="finished", result=result)

    async def converse() -> str:
        journal = await store.journal()
        await journal.say(said)
        await journal.begin()
        await journal.plan(Round(text, (call,)))
        await journal.start(text)
        await journal.finish(result, 0.0)
        await journal.stream(text)
        await journal.close()
        again = await store.journal(journal.session)
        await again.close()
        return journal.session

    session = run(converse())
    assert store.entries(session) == (said, Answer(text, (Round(text, (done,)),), "interrupted"))
    assert [info.id for info in store.sessions(text)] == [session]


@pytest.mark.requirement("F7", "R-F35", "R-F36")
def test_what_a_crash_leaves_behind_is_repaired_when_the_session_is_opened(store: Store):
    third = CallRecord(ToolCall("get_time", {}, "c3"))
    made = Round("I look.", (FIRST, SECOND, third))

    async def converse() -> tuple[Any, ...]:
        journal = await store.journal()
        await journal.say(ASKED)
        await journal.begin()
        await journal.plan(made)
        await journal.start("c1")
        await journal.start("c2")
        await journal.finish(RESULT, 0.25)
        await crash(journal, store)
        again = await store.journal(journal.session)
        entries = await again.entries()
        await again.close()
        return entries

    said, answer = run(converse())
    assert said == ASKED
    assert answer.status == "interrupted"
    first, second, last = answer.rounds[0].calls
    assert first == msgspec.structs.replace(FIRST, state="finished", result=RESULT, seconds=0.25)
    # How far each had got is still to be seen, so that nothing that changes the world runs twice.
    assert second == with_result(msgspec.structs.replace(SECOND, state="started"))
    assert last == with_result(third)
    assert second.result.error and "may or may not" in second.result.content
    assert last.result.error and "not run" in last.result.content


def test_streamed_text_is_written_by_size_and_by_time(store: Store, monkeypatch: pytest.MonkeyPatch):
    def kept() -> list[int]:
        rows = store.database.read(lambda connection: connection.execute(sa.select(pieces.c.text)).all())
        return [len(row[0]) for row in rows]

    async def converse() -> None:
        journal = await store.journal()
        await journal.begin()
        for _ in range(8):
            await journal.stream("x" * 1024)
        assert kept() == [4096, 4096]
        monkeypatch.setattr(journal_module, "FLUSH_SECONDS", 0.0)
        await journal.stream("y")
        await until(lambda: len(kept()) == 3)
        await journal.end(Answer("x" * 8192 + "y"))
        assert kept() == []
        await journal.close()

    run(converse())


def test_an_answer_that_is_ended_with_open_calls_gives_them_a_result(store: Store):
    async def converse() -> str:
        journal = await store.journal()
        await journal.begin()
        await journal.plan(ROUND)
        await journal.start("c2")
        await journal.end(Answer("", status="interrupted"))
        await journal.close()
        return journal.session

    [answer] = store.entries(run(converse()))
    assert isinstance(answer, Answer)
    started = msgspec.structs.replace(SECOND, state="started")
    assert answer == Answer("", (Round("I look.", (with_result(FIRST), with_result(started))),), "interrupted")


def test_an_answer_that_nobody_ended_is_interrupted_by_the_next(store: Store):
    async def converse() -> tuple[Any, ...]:
        journal = await store.journal()
        await journal.begin()
        await journal.stream("half")
        await journal.begin()
        await journal.end(Answer("whole"))
        entries = await journal.entries()
        await journal.close()
        return entries

    assert run(converse()) == (Answer("half", status="interrupted"), Answer("whole"))


@pytest.mark.requirement("F7")
def test_a_call_is_started_once_and_finished_once(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        with pytest.raises(UsageError, match="no answer is running"):
            await journal.start("c1")
        await journal.begin()
        with pytest.raises(UsageError, match="same id"):
            await journal.plan(Round("", (FIRST, FIRST)))
        await journal.plan(ROUND)
        await journal.start("c1")
        for wrong in ("c1", "c9"):
            with pytest.raises(UsageError, match="not planned"):
                await journal.start(wrong)
        await journal.finish(RESULT, 0.0)
        with pytest.raises(UsageError, match="already has a result"):
            await journal.finish(RESULT, 0.0)
        # One that nobody consented to has a result without having run.
        await journal.finish(ToolResult("c2", "refused", "pay", error=True), 0.0)
        with pytest.raises(UsageError, match="must not be `running`"):
            await journal.end(Answer(status="running"))
        await journal.close()
        await journal.close()
        with pytest.raises(UsageError, match="closed"):
            await journal.say(ASKED)

    run(converse())


@pytest.mark.requirement("F4")
def test_calls_that_run_at_the_same_time_keep_their_order(store: Store):
    records = tuple(CallRecord(ToolCall("f", {"n": n}, f"c{n}")) for n in range(20))

    async def converse() -> str:
        journal = await store.journal()
        await journal.begin()
        await journal.plan(Round("", records))

        async def one(number: int) -> None:
            await journal.start(f"c{number}")
            await journal.finish(ToolResult(f"c{number}", str(number), "f"), 0.0)

        await asyncio.gather(*(one(number) for number in reversed(range(20))))
        await journal.end(Answer("done"))
        await journal.close()
        return journal.session

    [answer] = store.entries(run(converse()))
    assert isinstance(answer, Answer)
    results = [record.result.content for record in answer.rounds[0].calls if record.result]
    assert results == [str(number) for number in range(20)]


@pytest.mark.requirement("R-T17")
def test_a_second_writer_is_told_who_holds_the_session_and_until_when(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        with pytest.raises(SessionBusyError, match="held by process") as caught:
            await store.journal(journal.session)
        assert caught.value.status == 409
        assert caught.value.holder.startswith("process ")
        assert caught.value.until > 0
        with pytest.raises(SessionBusyError):
            store.remove(journal.session)
        await journal.close()
        again = await store.journal(journal.session)
        await again.close()

    run(converse())


@pytest.mark.requirement("R-T17", "R-F43")
@pytest.mark.parametrize("end", [1.0, 1e12], ids=["lapsed", "set by a clock that was put back"])
def test_a_writer_that_lost_its_session_cannot_commit_any_more(store: Store, end: float):
    async def converse() -> tuple[Any, ...]:
        first = await store.journal()
        await first.say(ASKED)
        store.database.write(lambda connection: connection.execute(sa.update(leases).values(expires=end)))
        second = await store.journal(first.session)
        await second.begin()
        for _ in range(2):
            with pytest.raises(SessionBusyError, match="taken over"):
                await first.say(Message("user", (TextPart("too late"),)))
        await first.close()  # does not give back what is another's
        await second.end(Answer("mine"))
        entries = await second.entries()
        await second.close()
        return entries

    assert run(converse()) == (ASKED, Answer("mine"))


def test_a_lapsed_lease_that_nobody_took_still_holds(store: Store):
    async def converse() -> None:
        journal = await store.journal()
        lapse(store)
        await journal.say(ASKED)
        with pytest.raises(SessionBusyError):
            await store.journal(journal.session)
        await journal.close()

    run(converse())


def test_a_lease_is_renewed_while_its_holder_lives(store: Store):
    async def converse() -> None:
        journal = await store.journal(lease_seconds=0.3)

        def end() -> float:
            found = store.database.read(lambda connection: connection.execute(sa.select(leases.c.expires)).scalar())
            assert found is not None
            return found

        before = end()
        await until(lambda: end() != before)
        # Somebody takes it: the holder hears of it without writing anything.
        store.database.write(lambda connection: connection.execute(sa.update(leases).values(token="another")))
        await until(lambda: journal._lost is not None)
        await journal.close()

    run(converse())


def test_who_is_cancelled_while_a_step_is_committed_can_go_on(store: Store):
    async def converse() -> tuple[Any, ...]:
        journal = await store.journal()
        for step in (lambda: journal.say(ASKED), journal.begin, lambda: journal.plan(ROUND)):
            task = asyncio.ensure_future(step())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await journal.end(Answer("stopped", status="interrupted"))
        entries = await journal.entries()
        await journal.close()
        return entries

    said, answer = run(converse())
    assert said == ASKED
    assert (answer.content, answer.status) == ("stopped", "interrupted")
    assert [record.call.id for record in answer.rounds[0].calls] == ["c1", "c2"]


@pytest.mark.requirement("R-F40")
def test_a_commit_whose_answer_was_lost_is_not_done_again(store: Store):
    """The database commits, and the connection breaks before it can say so: the step is asked for once more."""

    async def converse() -> tuple[Any, ...]:
        journal = await store.journal()
        once = store.database.write

        def twice(work: Any) -> Any:
            once(work)
            return once(work)

        store.database.write = twice  # type: ignore[method-assign]
        await journal.say(ASKED)
        await journal.begin()
        await journal.stream("x" * 5000)
        await journal.plan(ROUND)
        await journal.start("c1")
        await journal.finish(RESULT, 0.0)
        await journal.finish(ToolResult("c2", "paid", "pay"), 0.0)
        await journal.end(Answer("done"))
        entries = await journal.entries()
        store.database.write = once  # type: ignore[method-assign]
        await journal.close()
        return entries

    said, answer = run(converse())
    assert said == ASKED
    assert (answer.content, len(answer.rounds), len(answer.rounds[0].calls)) == ("done", 1, 2)


@pytest.mark.requirement("R-T8")
def test_nobody_opens_a_session_of_another_owner(store: Store):
    async def converse() -> None:
        journal = await store.of("anna").journal()
        await journal.say(ASKED)
        await journal.close()
        for owner in ("", "berta", "anna\x00", "' OR '1'='1", "%"):
            with pytest.raises(NoSessionError):
                await store.of(owner).journal(journal.session)
        with pytest.raises(NoSessionError):
            await store.of("anna").journal("never-given-out")

    run(converse())


def test_a_store_is_what_an_agent_takes_for_sessions(store: Store):
    sessions: SessionStore = store
    assert sessions
