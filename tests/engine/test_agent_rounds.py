"""The agent loop, without a model and without tools: what it is told, and what it says to do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.engine.round_steps import (
    LOOK,
    SEND,
    TASK,
    a_loop,
    asking,
    codes_of,
    ending,
    executing,
    finding,
    look_at,
    making,
    saying,
)
from toolspeak import Candidate, Failure, Message, Note, Reply, Tool, ToolCall, ToolResult, Usage, UsageError
from toolspeak.core.types import Opaque, Request
from toolspeak.engine.rounds.loop import (
    AskModel,
    CallOutcome,
    Cancelled,
    Execute,
    Executed,
    Failed,
    Finished,
    RoundLimits,
    Rounds,
    TimeUp,
)
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round
from toolspeak.engine.turn.actions import INTERPRETED_CALL
from toolspeak.engine.turn.trace import AttemptTrace, Trace, TracedReply

# ---- the usual way


@pytest.mark.requirement("F1", "F2")
def test_text_and_calls_are_run_and_asked_about_again_until_there_is_no_call():
    rounds = a_loop(instructions="Be brief.")
    first = rounds.start()
    assert [message.role for message in first.messages] == ["system", "user"]
    assert first.tools == (LOOK, SEND)
    assert (first.number, first.summary, first.choice.mode) == (1, False, "auto")

    execute = executing(rounds, making(look_at(id="c1"), text="Let me look."))
    assert (execute.number, execute.round.text) == (1, "Let me look.")
    assert [planned.call for planned in execute.calls] == [look_at(id="c1")]

    second = asking(rounds, finding(execute))
    assert [message.role for message in second.messages[2:]] == ["assistant", "tool"]
    assert second.messages[2].text == "Let me look."
    assert second.messages[3].results == (ToolResult("c1", "found"),)
    assert second.number == 2

    answer = ending(rounds, saying("It is here."))
    assert answer.content == "It is here."
    assert answer.status == "complete"
    assert answer.requests == 2
    assert answer.usage == Usage(20, 10)
    record = CallRecord(look_at(id="c1"), "finished", False, ToolResult("c1", "found", "look"), 0.5)
    assert answer.rounds == rounds.completed == (Round("Let me look.", (record,)),)


@pytest.mark.requirement("F1")
def test_a_tool_that_ends_the_work_gives_the_answer():
    rounds = a_loop()
    rounds.start()
    execute = executing(rounds, making(look_at(id="c1"), ToolCall("send", {}, "c2"), text="Done."))
    rounds.record_outcome(CallOutcome(ToolResult("c2", "I sent it."), final=True))
    rounds.record_outcome(CallOutcome(ToolResult("c1", "Another end."), final=True))
    answer = ending(rounds, Executed())
    assert (answer.content, answer.status) == ("I sent it.", "complete")
    assert answer.rounds[0].text == "Done."
    assert [record.state for record in answer.rounds[0].calls] == ["finished", "finished"]
    assert execute.calls[1].side_effects


@pytest.mark.requirement("F4")
def test_results_keep_the_order_of_their_calls_whichever_comes_first():
    rounds = a_loop()
    rounds.start()
    executing(rounds, making(*(look_at(str(at), f"c{at}") for at in range(5))))
    for at in (3, 0, 4, 2, 1):
        rounds.mark_started(f"c{at}")
        rounds.record_outcome(CallOutcome(ToolResult(f"c{at}", str(at))))
    asked = asking(rounds, Executed())
    assert [result.content for result in asked.messages[-1].results] == ["0", "1", "2", "3", "4"]


# ---- calls that must not run


@pytest.mark.requirement("F1")
def test_a_call_of_no_tool_and_one_with_wrong_arguments_are_answered_to_the_model():
    rounds = a_loop()
    rounds.start()
    execute = executing(rounds, making(ToolCall("fly", {}, "c1"), ToolCall("look", {}, "c2"), look_at(id="c3")))
    assert [planned.call.id for planned in execute.calls] == ["c3"]
    asked = asking(rounds, finding(execute))
    unknown, unfit, found = asked.messages[-1].results
    assert unknown.error
    assert "no tool `fly`" in unknown.content
    assert "`look`, `send`" in unknown.content
    assert unfit.error
    assert "at" in unfit.content
    assert not found.error


def test_a_round_of_calls_that_must_not_run_goes_on_without_running_any():
    rounds = Rounds(TASK, ())
    rounds.start()
    execute = executing(rounds, making(ToolCall("fly", {}, "c1")))
    assert execute.calls == ()
    assert "no tools at all" in asking(rounds, Executed()).messages[-1].results[0].content


def test_not_all_names_of_many_tools_are_told():
    rounds = Rounds(TASK, [Tool(f"t{at}") for at in range(30)])
    rounds.start()
    result = executing(rounds, making(ToolCall("fly", {}, "c1"))).round.calls[0].result
    assert result is not None
    assert "`t23` and 6 more" in result.content


@pytest.mark.requirement("F1", "B6")
def test_a_call_that_was_cut_off_is_not_run_and_the_model_is_told():
    rounds = a_loop()
    rounds.start()
    cut = Candidate("look", "truncated", "truncated", arguments={"at": "ha"})
    execute = executing(rounds, making(finish="length", candidates=(cut,), complete=False))
    assert execute.calls == ()
    result = asking(rounds, Executed()).messages[-1].results[0]
    assert result.error
    assert "cut off" in result.content


def test_calls_that_came_to_nothing_beside_others_are_answered_too():
    rounds = a_loop()
    rounds.start()
    unfit = Candidate("look", "invalid", "schema", notes=(Note("arguments_invalid", "`at` is missing"),))
    bare = Candidate("look", "invalid", "not_json")
    execute = executing(rounds, making(look_at(), candidates=(unfit, bare)))
    assert [record.call.id for record in execute.round.calls] == ["call_1", "call_1_2", "call_1_3"]
    assert [record.result.content for record in execute.round.calls if record.result] == [
        "The arguments do not fit: `at` is missing. Nothing was run.",
        "The arguments do not fit: not_json. Nothing was run.",
    ]


def test_a_call_of_no_tool_that_was_left_in_the_text_is_answered():
    rounds = a_loop()
    rounds.start()
    tried = Candidate("fly", "text", "unknown_tool", evidence={"wrapper": "strong", "line_start": True})
    execute = executing(rounds, making(finish="stop", candidates=(tried,)))
    assert execute.calls == ()
    assert execute.round.calls[0].call.name == "fly"


@check_each("parameters", [{"type": 7}, 7])
def test_a_schema_that_nobody_can_read_stops_no_call(parameters: Any):
    rounds = Rounds(TASK, [Tool("odd", parameters=parameters)])
    rounds.start()
    assert len(executing(rounds, making(ToolCall("odd", {"a": 1}))).calls) == 1


def test_ids_are_unique_in_a_conversation():
    before = Answer("Yes.", (Round(calls=(CallRecord(look_at(id="c1"), "finished", result=ToolResult("c1", "x")),)),))
    rounds = a_loop((*TASK, before, *TASK))
    rounds.start()
    execute = executing(rounds, making(look_at("a", "c1"), look_at("b", "c1"), look_at("c")))
    assert [planned.call.id for planned in execute.calls] == ["c1_2", "c1_3", "call_1"]
    assert execute.tainted


# ---- limits


@pytest.mark.requirement("F1")
def test_after_fifty_rounds_one_request_without_tools_asks_for_a_summary():
    rounds = a_loop()
    action = rounds.start()
    for at in range(50):
        assert isinstance(action, AskModel)
        assert (action.number, action.summary) == (at + 1, False)
        execute = executing(rounds, making(look_at(str(at), f"c{at}")))
        action = rounds.feed(finding(execute))
    assert isinstance(action, AskModel)
    assert action.summary
    assert action.tools == ()
    assert action.choice.mode == "none"
    assert "50 rounds" in action.messages[-1].text
    answer = ending(rounds, saying("Nothing was found."))
    assert (answer.content, answer.status, len(answer.rounds), answer.requests) == (
        "Nothing was found.", "complete", 50, 51,
    )  # fmt: skip
    assert codes_of(answer) == ["limit_rounds"]


@check_each(
    ("limits", "now", "code"),
    [
        (RoundLimits(tokens=15), 0.0, "limit_tokens"),
        (RoundLimits(seconds=60), 160.0, "limit_seconds"),
        (RoundLimits(rounds=1), 0.0, "limit_rounds"),
    ],
)
@pytest.mark.requirement("F1", "R-T15")
def test_tokens_and_time_are_limits_too(limits: RoundLimits, now: float, code: str):
    rounds = a_loop(limits=limits, now=100.0)
    rounds.start()
    execute = executing(rounds, making(look_at()))
    assert asking(rounds, finding(execute), now).summary
    assert codes_of(ending(rounds, making(look_at(), text="That was all."))) == [code]


@pytest.mark.requirement("F1")
def test_calls_in_place_of_a_summary_are_told_beside_the_limit():
    rounds = a_loop(limits=RoundLimits(rounds=1))
    rounds.start()
    assert asking(rounds, finding(executing(rounds, making(look_at())))).summary
    answer = ending(rounds, making(look_at()))
    assert answer.content == ""
    assert answer.notes == (
        Note("limit_rounds", "1 round has been made; requested a summary"),
        Note("empty_answer", "the model made calls instead of answering; they were not run"),
    )


@pytest.mark.requirement("F1")
def test_an_answer_that_takes_too_long_is_followed_by_a_summary():
    rounds = a_loop(limits=RoundLimits(seconds=60))
    rounds.start()
    asked = asking(rounds, TimeUp(Reply("It is prob", usage=Usage(1, 1), requests=1)), 61.0)
    assert asked.summary
    answer = ending(rounds, saying("I had no time."))
    assert (answer.content, answer.requests, codes_of(answer)) == ("I had no time.", 2, ["limit_seconds"])


def test_below_its_limits_the_loop_goes_on():
    rounds = a_loop(limits=RoundLimits(tokens=16, seconds=60), now=100.0)
    assert rounds.deadline == 160.0
    rounds.start()
    assert not asking(rounds, finding(executing(rounds, making(look_at()))), 159.9).summary
    assert a_loop().deadline is None


# ---- going in circles


@pytest.mark.requirement("F9", "R-T15")
def test_the_same_call_with_the_same_result_is_told_to_the_model_and_then_ended():
    rounds = a_loop()
    asked = rounds.start()
    told: list[bool] = []
    for _ in range(4):
        asked = asking(rounds, finding(executing(rounds, making(look_at()))))
        told.append("called before" in asked.messages[-2 if asked.summary else -1].results[-1].content)
    assert told == [False, False, True, True]
    assert asked.summary
    answer = ending(rounds, saying("It does not help."))
    assert answer.status == "complete"
    assert "loop_broken" in codes_of(answer)
    assert {record.result.content for made in answer.rounds for record in made.calls if record.result} == {"found"}


@pytest.mark.requirement("F9")
def test_calls_that_take_turns_are_a_circle_too():
    rounds = a_loop()
    action: object = rounds.start()
    turns = 0
    while not (isinstance(action, AskModel) and action.summary):
        turns += 1
        action = rounds.feed(finding(executing(rounds, making(look_at("ab"[turns % 2])))))
    assert turns == 5


def test_another_result_or_another_call_in_between_is_no_circle():
    rounds = a_loop()
    asked = rounds.start()
    for at in range(12):
        call = look_at("same") if at % 2 else look_at(str(at))
        asked = asking(rounds, finding(executing(rounds, making(call))))
    assert not asked.summary
    for at in range(12):
        asked = asking(rounds, finding(executing(rounds, making(look_at("same"))), f"{at} percent"))
    assert not asked.summary


# ---- the end before the end


@pytest.mark.requirement("F1", "F7")
def test_a_cancelled_answer_keeps_its_finished_rounds_and_its_partial_text():
    rounds = a_loop()
    rounds.start()
    asking(rounds, finding(executing(rounds, making(look_at(), text="Looking."))))
    answer = ending(rounds, Cancelled(Reply("It is prob", reasoning="hm", usage=Usage(1, 1), requests=1)))
    assert (answer.content, answer.status, answer.reasoning) == ("It is prob", "interrupted", "hm")
    assert len(answer.rounds) == 1
    assert answer.requests == 2
    assert codes_of(answer) == ["interrupted"]


@pytest.mark.requirement("F7", "R-F35")
def test_a_cancelled_round_says_of_each_call_whether_it_may_have_run():
    rounds = a_loop()
    rounds.start()
    executing(rounds, making(look_at("a", "c1"), ToolCall("send", {}, "c2"), look_at("b", "c3"), text="Three."))
    rounds.mark_started("c1")
    rounds.record_outcome(CallOutcome(ToolResult("c1", "found")))
    rounds.mark_started("c2")
    answer = ending(rounds, Cancelled())
    done, begun, planned = answer.rounds[0].calls
    assert [done.state, begun.state, planned.state] == ["finished", "started", "planned"]
    assert begun.result is not None
    assert "may or may not" in begun.result.content
    assert planned.result is not None
    assert "not run" in planned.result.content
    assert answer.content == ""


@pytest.mark.requirement("F1")
@check_each(
    "heard", [Failed("the upstream broke off", Reply("Half")), Reply("Half", failure=Failure("the upstream broke off"))]
)
def test_a_failed_answer_says_why_and_keeps_what_there_is(heard: Failed | Reply):
    rounds = a_loop()
    rounds.start()
    answer = ending(rounds, heard)
    assert (answer.content, answer.status) == ("Half", "failed")
    assert answer.notes == (Note("failed", "the upstream broke off"),)


def test_nothing_follows_the_end():
    rounds = a_loop()
    rounds.start()
    ending(rounds, saying("Yes."))
    for heard in (Cancelled(), saying("More."), Executed()):
        with pytest.raises(UsageError, match="over"):
            rounds.feed(heard)


# ---- who reads what


@pytest.mark.requirement("R-E10")
def test_calls_are_tainted_once_a_result_was_read_or_the_tools_are_strangers():
    rounds = a_loop()
    rounds.start()
    execute = executing(rounds, making(look_at("a")))
    assert not execute.tainted
    asking(rounds, finding(execute))
    assert executing(rounds, making(look_at("b"))).tainted
    strangers = a_loop(tainted=True)
    strangers.start()
    assert executing(strangers, making(look_at())).tainted


@pytest.mark.requirement("R-E3")
@check_each(
    ("dialect", "plan", "nonce", "unmarked"),
    [
        ("native", "native", "k7q2xm", False),
        ("hermes", "native", "k7q2xm", True),
        ("hermes", "fallback", "k7q2xm", True),
        ("hermes", "inline", "k7q2xm", False),
        ("hermes", "inline", "", True),
    ],
)
def test_a_call_in_text_is_marked_or_known_not_to_be(dialect: str, plan: str, nonce: str, unmarked: bool):
    rounds = a_loop()
    rounds.start()
    found = Candidate("look", "call", "accepted", dialect)
    record = Trace(plan, "r", "w", nonce=nonce)
    reply = TracedReply(calls=(look_at(),), candidates=(found,), finish_reason="tool_calls", record=record)
    assert executing(rounds, reply).unmarked is unmarked


@pytest.mark.requirement("R-E3")
@check_each(("tainted", "tool", "in_doubt"), [(True, "send", True), (False, "send", False), (True, "look", False)])
def test_a_call_in_unmarked_text_needs_consent_if_it_changes_something_and_foreign_text_was_read(
    tainted: bool, tool: str, in_doubt: bool
):
    rounds = a_loop(tainted=tainted)
    rounds.start()
    candidate = Candidate(tool, "call", "accepted", "hermes")
    record = Trace("inline", "r", "w", nonce="")
    call = ToolCall(tool, {"at": "a"})
    reply = TracedReply(calls=(call,), candidates=(candidate,), finish_reason="tool_calls", record=record)
    execute = executing(rounds, reply)
    assert bool(execute.consent_reason(execute.calls[0])) is in_doubt


@pytest.mark.requirement("E6")
@check_each(("tool", "in_doubt"), [("send", True), ("look", False)])
def test_an_interpreted_call_needs_consent_if_it_changes_something(tool: str, in_doubt: bool):
    rounds = a_loop()
    rounds.start()
    candidate = Candidate(tool, "call", "accepted", "interpretation")
    rejected = Candidate(tool, "invalid", "arguments_invalid", "hermes")
    attempts = tuple(
        AttemptTrace(phase, Request("m", ()), "", "", (each,), (), "stop", Usage())
        for phase, each in (("inline", rejected), ("interpretation", candidate))
    )
    record = Trace("inline", "r", "w", nonce="k7q2xm", attempts=attempts)
    call = ToolCall(tool, {"at": "a"}, notes=(Note(INTERPRETED_CALL),))
    reply = TracedReply(calls=(call,), candidates=(rejected, candidate), finish_reason="tool_calls", record=record)
    execute = executing(rounds, reply)
    assert len(execute.round.calls) == 1  # the model's own attempt is not reported to it as well
    assert bool(execute.consent_reason(execute.calls[0])) is in_doubt


# ---- tools of others


def test_calls_of_others_are_handed_over_after_ours_have_run():
    rounds = a_loop(client_tools=[Tool("theirs")])
    assert [tool.name for tool in rounds.start().tools] == ["look", "send", "theirs"]
    theirs = ToolCall("theirs", {}, "c2")
    execute = executing(rounds, making(look_at(id="c1"), theirs, text="Both."))
    assert [planned.call.id for planned in execute.calls] == ["c1"]
    action = rounds.feed(finding(execute))
    assert isinstance(action, Finished)
    assert action.client_calls == (theirs,)
    assert [record.call.id for record in action.answer.rounds[0].calls] == ["c1"]


def test_calls_of_others_alone_end_the_loop_at_once():
    rounds = a_loop(client_tools=[Tool("theirs")])
    rounds.start()
    action = rounds.feed(making(ToolCall("theirs", {}, "c2"), text="Yours."))
    assert isinstance(action, Finished)
    assert [call.id for call in action.client_calls] == ["c2"]
    assert (action.answer.content, action.answer.rounds) == ("Yours.", ())


# ---- what a reader should know


@pytest.mark.requirement("H6")
def test_the_answer_says_why_there_was_no_call_in_one_line():
    rounds = a_loop()
    rounds.start()
    record = Trace("inline", "r", "w", why_no_call="the model answered without calling a tool")
    answer = ending(rounds, TracedReply("Hello.", finish_reason="stop", record=record))
    assert answer.notes == (Note("no_call", "the model answered without calling a tool"),)


@check_each(
    ("reply", "codes"),
    [
        (Reply("Half a", finish_reason="length"), ["cut_by_length"]),
        (Reply(" ", finish_reason="stop"), ["empty_answer"]),
        (TracedReply("Yes.", finish_reason="stop"), []),
        (TracedReply("Yes.", record=Trace("", "", "")), []),
    ],
)
def test_a_final_answer_that_lacks_something_says_so(reply: Reply, codes: list[str]):
    rounds = a_loop()
    rounds.start()
    assert codes_of(ending(rounds, reply)) == codes


_NAMES = st.sampled_from(["look", "send", "fly", "theirs"])
_MADE = st.builds(ToolCall, _NAMES, st.sampled_from([{}, {"at": "a"}, {"at": "b"}]), st.sampled_from(["", "a", "b"]))
_REPLIES = st.builds(making, text=st.sampled_from(["", "Hm."])).flatmap(
    lambda reply: st.lists(_MADE, max_size=4).map(lambda made: msgspec.structs.replace(reply, calls=tuple(made)))
)


@given(st.lists(st.tuples(_REPLIES, st.sampled_from(["found", "nothing"])), max_size=12), st.integers(1, 6), st.data())
def test_whatever_happens_it_ends_and_every_call_has_one_result_and_an_id_of_its_own(
    turns: list[tuple[Reply, str]], most: int, data: st.DataObject
):
    rounds = a_loop(limits=RoundLimits(rounds=most), client_tools=[Tool("theirs")])
    action: object = rounds.start()
    summaries = 0
    for reply, content in turns:
        if isinstance(action, Finished):
            break
        assert isinstance(action, AskModel)
        summaries += action.summary
        action = rounds.feed(Cancelled() if data.draw(st.integers(0, 9)) == 0 else reply)
        if isinstance(action, Execute):
            for planned in data.draw(st.permutations(action.calls)):
                rounds.mark_started(planned.call.id)
                rounds.record_outcome(CallOutcome(ToolResult(planned.call.id, content)))
            action = rounds.feed(Executed())
    if not isinstance(action, Finished):
        action = rounds.feed(Cancelled())
    assert isinstance(action, Finished)
    answer = action.answer
    assert summaries <= 1
    assert len(answer.rounds) <= most
    records = [record for made in answer.rounds for record in made.calls]
    ids = [record.call.id for record in records] + [call.id for call in action.client_calls]
    assert len(set(ids)) == len(ids)
    assert all(record.result is not None and record.result.id == record.call.id for record in records)
    assert all(record.call.name != "theirs" for record in records)


def test_an_answer_can_be_written_down_and_read_again():
    rounds = a_loop()
    rounds.start()
    asking(rounds, finding(executing(rounds, making(look_at()))))
    answer = ending(rounds, saying("Yes."))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer


@pytest.mark.requirement("F13")
def test_an_answer_that_is_only_an_image_is_not_empty():
    image = Opaque("gemini_part", {"inlineData": {"mimeType": "image/png", "data": "QQ=="}})
    rounds = a_loop()
    rounds.start()
    answer = ending(rounds, TracedReply(own=Message("assistant", (image,))))
    assert (answer.content, codes_of(answer)) == ("", [])
