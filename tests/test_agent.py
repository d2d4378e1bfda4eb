"""Agents at work: rounds, tools at the same time, errors, limits, consent, and what they tell."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from tests.agent_helpers import Endless, Held, agent, calling, content, kinds, look, model, run, sender
from tests.cases import check_each
from toolspeak import (
    Agent,
    AsyncAgent,
    AsyncClient,
    Client,
    Message,
    Scripted,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UpstreamError,
    UsageError,
    render_calls,
    tool,
)
from toolspeak.agent.events import AgentEvent, OutputPiece, ResultReady, TextPiece, WorkFinished
from toolspeak.store.session_interface import MemoryJournal, MemorySessions
from toolspeak.tools.approval import Approval, Question
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.final_output import FinalOutput

LOOK = ToolCall("look", {"at": "home"})
SEND = ToolCall("send", {"to": "anna"})


# ---- rounds


@pytest.mark.requirement("F1", "F2")
def test_an_agent_works_in_rounds_until_the_model_calls_nothing_more():
    upstream = model(calling(LOOK, text="I will look."), "It is not there.")
    result = run(agent(upstream, look, instructions="Be brief.").run("Find it."))
    assert result.content == "It is not there."
    assert result.status == "complete"
    assert result.requests == 2
    assert result.usage.input_tokens == 20
    assert result.session
    (made,) = result.rounds
    assert made.text == "I will look."
    assert [(record.call.name, record.state) for record in made.calls] == [("look", "finished")]
    assert made.calls[0].result == ToolResult("call_0", "nothing at home", "look")
    first, second = upstream.requests
    assert [message.role for message in first.messages] == ["system", "user"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]


@pytest.mark.requirement("F1")
def test_a_model_that_cannot_call_is_taught_to():
    def call(request: Any) -> str:
        text = "\n".join(message.text for message in request.messages)
        nonce = text.split("json action ", 1)[1].split()[0]
        return render_calls("action", [LOOK], nonce)

    result = run(agent(Scripted(call, "It is not there."), look).run("Find it."))
    assert result.content == "It is not there."
    assert [record.call.arguments for record in result.rounds[0].calls] == [{"at": "home"}]


@pytest.mark.requirement("F1")
def test_final_output_ends_the_work_and_is_the_answer():
    done = ToolCall("final_output", {"summary": "All is done."}, "c2")
    upstream = model(calling(ToolCall("look", {"at": "a"}, "c1"), done))
    result = run(agent(upstream, look, FinalOutput()).run("Do it."))
    assert (result.content, result.status, result.requests) == ("All is done.", "complete", 1)


@pytest.mark.requirement("F1")
def test_fifty_rounds_are_followed_by_one_request_without_tools():
    numbers = iter(range(1000))
    upstream = model(
        *(lambda _: calling(ToolCall("look", {"at": str(next(numbers))})) for _ in range(50)), "I found nothing."
    )
    result = run(agent(upstream, look).run("Find it."))
    assert (result.content, len(result.rounds), result.requests) == ("I found nothing.", 50, 51)
    assert upstream.requests[-1].tools == ()
    assert all(request.tools for request in upstream.requests[:-1])
    assert "limit_rounds" in [note.code for note in result.notes]


@pytest.mark.requirement("F9")
def test_a_model_that_repeats_itself_is_told_and_then_stopped():
    upstream = model(*[calling(LOOK)] * 4, "It is nowhere.")
    result = run(agent(upstream, look).run("Find it."))
    assert result.content == "It is nowhere."
    assert len(result.rounds) == 4
    assert "called before" in upstream.requests[3].messages[-1].results[0].content
    assert "loop_broken" in [note.code for note in result.notes]


@pytest.mark.requirement("F1", "B6")
def test_what_cannot_run_is_answered_to_the_model():
    upstream = model(
        *[calling(ToolCall("fly", {}))] * 3,
        *[calling(ToolCall("look", {"where": 7}))] * 3,
        "I give up.",
    )
    result = run(agent(upstream, look, retries=2).run("Fly."))
    assert result.content == "I give up."
    fly, wrong = (made.calls[0] for made in result.rounds)
    assert fly.result is not None
    assert "no tool `fly`" in fly.result.content
    assert wrong.result is not None
    assert "do not fit" in wrong.result.content


def test_a_session_goes_on_where_it_stopped():
    async def main() -> None:
        upstream = model("Hello.", "You said hello.")
        one = agent(upstream, look)
        first = await one.run("Hello!")
        second = await one.run(Message("user", (TextPart("What did I say?"),)), first.session)
        assert second.session == first.session
        assert [message.text for message in upstream.requests[1].messages] == ["Hello!", "Hello.", "What did I say?"]

    run(main())


# ---- calls of one round


@pytest.mark.requirement("F4", "R-F34")
def test_twenty_calls_run_at_the_same_time_and_one_failure_loses_no_other():
    async def main() -> None:
        everyone = asyncio.Barrier(20)

        @tool(read_only=True)
        async def meet(number: int) -> str:
            """Wait for all others."""
            await everyone.wait()
            if number == 7:
                raise ValueError("seven is missing")
            return f"I am {number}"

        asked = [ToolCall("meet", {"number": number}) for number in range(20)]
        upstream = model(calling(*asked), "All met.")
        result = await agent(upstream, meet).run("Meet.")
        contents = [each.content for each in upstream.requests[1].messages[-1].results]
        assert contents == [f"I am {at}" if at != 7 else "ValueError: seven is missing" for at in range(20)]
        assert [record.result.error for record in result.rounds[0].calls if record.result] == [
            at == 7 for at in range(20)
        ]

    run(main())


@pytest.mark.requirement("F4", "R-T11")
def test_of_very_many_calls_some_run_at_a_time_and_all_in_the_end():
    under_way: list[int] = []
    most = 0

    @tool(read_only=True)
    async def work(number: int) -> str:
        """Work."""
        nonlocal most
        under_way.append(number)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(number)
        return str(number)

    upstream = model(calling(*(ToolCall("work", {"number": number}) for number in range(500))), "Done.")
    result = run(agent(upstream, work).run("Work."))
    assert [content(record) for record in result.rounds[0].calls] == [str(number) for number in range(500)]
    assert most == 32


@pytest.mark.requirement("F4")
def test_calls_run_one_at_a_time_where_that_is_wanted():
    under_way: list[int] = []
    most: list[int] = []

    @tool(read_only=True)
    async def step(number: int) -> str:
        """One step."""
        under_way.append(number)
        most.append(len(under_way))
        await asyncio.sleep(0)
        under_way.remove(number)
        return str(number)

    upstream = model(calling(*(ToolCall("step", {"number": at}) for at in range(5))), "Done.")
    run(agent(upstream, step, parallel=False).run("Go."))
    assert most == [1] * 5


@pytest.mark.requirement("F7", "R-F32")
def test_a_tool_that_does_not_end_is_ended():
    async def main() -> None:
        held = Held()
        upstream = model(calling(ToolCall("hold", {})), "It hangs.")
        result = await agent(upstream, held, tool_timeout=0.01).run("Hold on.")
        assert result.content == "It hangs."
        (record,) = result.rounds[0].calls
        assert record.result is not None
        assert record.result.error
        assert "longer than 0.01 seconds" in record.result.content

    run(main())


@pytest.mark.requirement("F1")
def test_the_time_of_a_task_ends_its_tools_and_leads_to_a_summary():
    async def main() -> None:
        upstream = model(calling(ToolCall("hold", {})), "Too late.")
        result = await agent(upstream, Held(), max_seconds=0.2).run("Hold on.")
        assert result.content == "Too late."
        assert "limit_seconds" in [note.code for note in result.notes]

    run(main())


@pytest.mark.requirement("F1")
def test_a_model_that_speaks_beyond_the_time_is_asked_for_a_summary():
    async def main() -> None:
        upstream = model(Endless("It is prob"), "I had no time.")
        result = await agent(upstream, look, max_seconds=0.2).run("Find it.")
        assert (result.content, result.status) == ("I had no time.", "complete")
        assert "limit_seconds" in [note.code for note in result.notes]

    run(main())


class _Odd:
    def __init__(self, outcome: Any) -> None:
        self.tool = Tool("odd")
        self._outcome = outcome

    async def run(self, arguments: Any, context: CallContext) -> Any:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


@check_each(
    ("outcome", "told"),
    [
        (KeyError(), "KeyError"),
        (UsageError("not so", hint="do it otherwise"), "not so (do it otherwise)"),
        (asyncio.CancelledError(), "it was cancelled from inside"),
        ("a text", "gave a `str`"),
        (ToolOutput(b"bytes"), "gave a `bytes` instead of a text"),  # type: ignore[arg-type]  # pyright: ignore
        (ToolOutput("x", parts=["y"]), "gave a `list` instead of a tuple"),  # type: ignore[arg-type]  # pyright: ignore
        (ToolOutput("x", parts=("y",)), "gave a `str` as a part"),  # type: ignore[arg-type]  # pyright: ignore
    ],
)
@pytest.mark.requirement("F4")
def test_whatever_a_tool_does_there_is_a_result(outcome: Any, told: str):
    upstream = model(calling(ToolCall("odd", {})), "Odd.")
    result = run(agent(upstream, _Odd(outcome)).run("Try."))
    assert result.content == "Odd."
    assert result.rounds[0].calls[0].result.error
    assert told in result.rounds[0].calls[0].result.content


# ---- consent


@pytest.mark.requirement("F6", "F7")
@check_each(("answer", "sent"), [(True, ["anna"]), (False, []), ("tool", ["anna"]), ("deny", [])])
def test_a_call_that_changes_something_runs_if_somebody_says_yes(answer: Any, sent: list[str]):
    asked: list[Question] = []
    done: list[str] = []

    def approve(question: Question) -> Any:
        asked.append(question)
        assert threading.current_thread() is not threading.main_thread()
        return answer

    upstream = model(calling(SEND, LOOK), "Done.")
    result = run(agent(upstream, sender(done), look, approve=approve).run("Write to Anna."))
    assert done == sent
    assert [question.tool.name for question in asked] == ["send"]
    assert [record.state for record in result.rounds[0].calls] == ["finished", "finished"]
    assert result.rounds[0].calls[0].result.error is not bool(sent)


@pytest.mark.requirement("F6")
def test_what_is_allowed_for_a_session_is_asked_again_in_another():
    asked: list[Question] = []

    def approve(question: Question) -> str:
        asked.append(question)
        return "tool"

    async def scenario() -> None:
        upstream = model(calling(SEND, ToolCall("send", {"to": "berta"})), "Done.", calling(SEND), "Done.")
        worker = agent(upstream, sender([]), approve=approve)
        await worker.run("Write to Anna.")
        assert len(asked) == 1
        await worker.run("Write to Anna.")
        assert len(asked) == 2

    run(scenario())


def test_a_coroutine_and_an_approval_can_be_asked_too():
    async def yes(question: Question) -> bool:
        return True

    for approve in (yes, Approval(allow=["send"])):
        done: list[str] = []
        upstream = model(calling(SEND), "Done.")
        run(agent(upstream, sender(done), approve=approve).run("Write to Anna."))
        assert done == ["anna"]


@pytest.mark.requirement("R-E3")
@check_each(
    ("provider", "marks"), [("scripted", "fixed"), ("groq", "nonce")], ids=["fixed marks", "text of a native answer"]
)
def test_a_call_without_a_mark_that_changes_something_needs_consent_once_foreign_text_was_read(
    provider: str, marks: str
):
    done: list[str] = []
    first = calling(LOOK) if provider == "groq" else render_calls("hermes", [LOOK])
    upstream = Scripted(first, render_calls("hermes", [SEND]), "Done.", provider=provider)
    result = run(agent(upstream, look, sender(done), marks=marks).run("Look, then write."))
    assert done == []
    assert result.content == "Done."
    assert "no one can approve it" in content(result.rounds[1].calls[0])


@pytest.mark.requirement("R-E10")
def test_tools_learn_whether_foreign_text_was_read():
    tainted: list[bool] = []

    class Watch:
        tool = Tool("watch")

        async def run(self, arguments: Any, context: CallContext) -> ToolOutput:
            tainted.append(context.tainted)
            return ToolOutput(f"seen {len(tainted)}")

    class Stranger(Watch):
        untrusted = True

    upstream = model(calling(ToolCall("watch", {})), calling(ToolCall("watch", {})), "Done.")
    run(agent(upstream, Watch()).run("Watch."))
    run(agent(model(calling(ToolCall("watch", {})), "Done."), Stranger()).run("Watch."))
    assert tainted == [False, True, True]


# ---- what is told


@pytest.mark.requirement("F8")
def test_the_log_tells_of_rounds_calls_results_and_the_end(caplog: pytest.LogCaptureFixture):
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    upstream = model(calling(ToolCall("look", {"at": "a"}, "c1"), ToolCall("fail", {}, "c2")), "Done.")
    with caplog.at_level(logging.INFO, "toolspeak.agent"):
        run(agent(upstream, look, fail, parallel=False).run("Go."))
    lines = [record.getMessage().split(" (")[0] for record in caplog.records if record.name == "toolspeak.agent"]
    assert lines == [
        "round 1 started",
        "round 1: calls started: look, fail",
        "round 1: result ready: look",
        "round 1: result failed: fail",
        "round 1 complete: 2 calls",
        "round 2 started",
        "round 2: no calls: the model answered without calling a tool",
        "finished after 1 round and 2 requests: complete",
    ]


@pytest.mark.requirement("F8", "H2")
def test_events_come_in_the_order_of_what_happens():
    async def main() -> None:
        def count() -> Iterator[str]:
            """Count."""
            yield "one "
            yield "two"

        heard: list[AgentEvent] = []
        upstream = model(calling(ToolCall("count", {}), text="Counting."), "Two.")
        events = [event async for event in agent(upstream, count, on_event=heard.append).stream("Count.")]
        assert heard == events
        assert kinds(events) == [
            "RoundStarted", "TextPiece", "CallStarted", "OutputPiece", "OutputPiece", "ResultReady", "RoundComplete",
            "RoundStarted", "TextPiece", "WorkFinished",
        ]  # fmt: skip
        assert [event.text for event in events if isinstance(event, TextPiece)] == ["Counting.", "Two."]
        assert "".join(event.text for event in events if isinstance(event, OutputPiece)) == "one two"
        last = events[-1]
        assert isinstance(last, WorkFinished)
        assert last.result.content == "Two."
        encoded = [msgspec.json.decode(msgspec.json.encode(event)) for event in events]
        assert [event["type"] for event in encoded[:3]] == ["round_started", "text", "call_started"]

    run(main())


@pytest.mark.requirement("H6")
def test_the_result_says_why_there_was_no_call():
    result = run(agent(model("Hello."), look).run("Hi."))
    assert result.why_no_call == "the model answered without calling a tool"
    assert run(agent(model("Hello.")).run("Hi.")).why_no_call == "no tools reached the model"


@pytest.mark.requirement("F1")
def test_an_upstream_that_fails_leaves_what_was_done():
    upstream = model(calling(LOOK), UpstreamError("it is down"))
    result = run(agent(upstream, look).run("Find it."))
    assert result.status == "failed"
    assert "it is down" in result.why
    assert len(result.rounds) == 1


# ---- without asyncio


def test_an_agent_needs_no_asyncio():
    with Client(model(calling(LOOK), "No.", "Yes.")) as client, Agent(client, [look]) as one:
        result = one.run("Find it.")
        assert result.content == "No."
        events = list(one.stream("Really?", result.session))
        assert isinstance(events[-1], WorkFinished)
        assert events[-1].result.content == "Yes."
        assert one.resume(result.session).content == "Yes."
    with Agent(model("Hello.")) as own:
        assert own.run("Hi.").content == "Hello."


def test_an_agent_is_cancelled_from_another_thread():
    begun = threading.Event()

    class Hold:
        tool = Tool("hold")

        async def run(self, arguments: Any, context: CallContext) -> ToolOutput:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    with Agent(model(calling(ToolCall("hold", {}))), [Hold()]) as one:

        def cancel() -> None:
            assert begun.wait(20)
            one.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        result = one.run("Hold.")
        thread.join()
    assert result.status == "interrupted"
    assert result.why == "cancelled"


def test_closing_an_agent_cancels_a_task_that_is_still_opening_its_session():
    async def main() -> None:
        opening, may_open = asyncio.Event(), asyncio.Event()

        class SlowSessions(MemorySessions):
            async def journal(self, session: str = "") -> MemoryJournal:
                opening.set()
                await may_open.wait()
                return await super().journal(session)

        one = agent(model("Never shown."), store=SlowSessions())
        working = asyncio.ensure_future(one.run("Go."))
        await opening.wait()
        closing = asyncio.ensure_future(one.close())
        await asyncio.sleep(0)
        assert not closing.done()
        may_open.set()
        result = await working
        await closing
        assert (result.status, result.why) == ("interrupted", "cancelled")

    run(main())


# ---- mistakes of the caller


@check_each(
    ("make", "told"),
    [
        (lambda: AsyncAgent(cast("Any", Client(model()))), "needs an `AsyncClient`"),
        (lambda: Agent(cast("Any", AsyncClient(model()))), "needs a `Client`"),
        (lambda: Agent(model(), tools=cast("Any", "look")), "list of tools"),
        (lambda: Agent(model(), tools=cast("Any", [Tool("look")])), "only describes a tool"),
        (lambda: Agent(model(), tools=[look, look]), "duplicate tool name"),
        (lambda: Agent(model(), max_rounds=0), "max_rounds"),
        (lambda: Agent(model(), max_tokens=-1), "max_tokens"),
        (lambda: Agent(model(), approve=cast("Any", "yes")), "approve"),
        (lambda: Agent(model(), store=cast("Any", 5)), "`store` must be"),
        (lambda: Agent(model(), store=cast("Any", Tool("journal"))), "`store` must be"),
        (lambda: Agent(model()).run(" "), "must be a non-empty string"),
        (lambda: Agent(model()).resume(""), "without a session"),
        (lambda: Agent(model()).run("x", session="none"), "no session"),
    ],
)
def test_mistakes_are_told(make: Any, told: str):
    with pytest.raises(UsageError, match=told):
        make()


def test_a_result_ready_event_tells_of_calls_that_never_ran():
    async def main() -> list[AgentEvent]:
        upstream = model(*[calling(ToolCall("fly", {}))] * 3, "No.")
        return [event async for event in agent(upstream, look).stream("Fly.")]

    ready = [event for event in run(main()) if isinstance(event, ResultReady)]
    assert [event.call.name for event in ready] == ["fly"]
