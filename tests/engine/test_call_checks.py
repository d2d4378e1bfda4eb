"""Calls of an answer that cannot be used: each is answered, where it stood, with what it said."""

from __future__ import annotations

import pytest

from toolspeak import Candidate, Message, Reply, Request, TextPart, Tool, ToolCall, Usage
from toolspeak.core.events import FinishReason
from toolspeak.engine.rounds.loop import Action, Execute, Finished, Rounds
from toolspeak.engine.rounds.transcript import CallRecord
from toolspeak.engine.turn.trace import AttemptTrace, Trace, TracedReply

TASK = (Message("user", (TextPart("Where is it?"),)),)
LOOK = Tool("look", parameters={"type": "object", "properties": {"at": {"type": "string"}}})
STRONG = {"wrapper": "strong", "line_start": True}


def _made(
    *candidates: Candidate, calls: tuple[ToolCall, ...] = (), finish: FinishReason = "stop"
) -> tuple[CallRecord, ...]:
    rounds = Rounds(TASK, [LOOK], client_tools=[Tool("theirs")])
    rounds.start()
    execute = rounds.feed(Reply("Let me look.", calls=calls, candidates=candidates, finish_reason=finish))
    assert isinstance(execute, Execute)
    return execute.round.calls


def _unknown(name: str, arguments: object = None) -> Candidate:
    return Candidate(name, "text", "unknown_tool", evidence=STRONG, arguments=arguments)  # pyright: ignore[reportArgumentType]


@pytest.mark.requirement("F1")
def test_every_unusable_call_of_an_answer_is_answered_in_order():
    records = _made(
        _unknown("fly", {"to": "moon"}),
        Candidate("look", "invalid", "schema", arguments={"at": 7}),
        _unknown("swim", "not an object"),
        Candidate("look", "text", "in_fence"),
        Candidate("look", "truncated", "truncated", arguments={"at": "ha"}),
    )
    assert [(record.call.name, record.call.arguments) for record in records] == [
        ("fly", {"to": "moon"}), ("look", {"at": 7}), ("swim", {}), ("look", {}),
    ]  # fmt: skip
    said = [record.result.content for record in records if record.result is not None]
    assert [text.split(".")[0] for text in said] == [
        "There is no tool `fly`",
        "The arguments do not fit: schema",
        "There is no tool `swim`",
        "This call was cut off by the length limit and was not run",
    ]
    assert len({record.call.id for record in records}) == 4
    assert all(record.result.id == record.call.id for record in records if record.result is not None)


@pytest.mark.requirement("F1")
def test_calls_that_stand_keep_their_place_among_those_that_do_not():
    stands = Candidate("look", "call", "accepted")
    calls = (ToolCall("look", {"at": "a"}, "c1"), ToolCall("theirs", {}, "c2"), ToolCall("look", {"at": "b"}, "c3"))
    records = _made(
        _unknown("fly"), stands, Candidate("theirs", "call", "accepted"), _unknown("swim"), stands, _unknown("run"),
        calls=calls, finish="tool_calls",
    )  # fmt: skip
    assert [record.call.name for record in records] == ["fly", "look", "swim", "look", "run"]
    assert [record.call.id for record in records if record.result is None] == ["c1", "c3"]


def test_where_places_are_not_known_the_calls_that_stand_come_first():
    records = _made(_unknown("fly"), calls=(ToolCall("look", {"at": "a"}, "c1"),), finish="tool_calls")
    assert [record.call.name for record in records] == ["look", "fly"]


def test_what_the_model_was_asked_for_again_is_answered_once():
    fly, swim = (_unknown("fly"), _unknown("fly")), (_unknown("swim"), _unknown("swim"))
    execute = _after(("decision", fly), ("decision", swim), ("final", ()))
    assert isinstance(execute, Execute)
    assert [record.call.name for record in execute.round.calls] == ["swim", "swim"]


def test_words_after_a_call_that_failed_are_the_answer():
    finished = _after(("inline", (_unknown("fly"),)), ("inline", ()))
    assert isinstance(finished, Finished)
    assert finished.answer.content == "Hm."


def _after(*tried: tuple[str, tuple[Candidate, ...]]) -> Action:
    """The step after a turn whose requests had these candidates, and which ended in words."""
    attempts = tuple(
        AttemptTrace(phase, Request("m", TASK), "", "", candidates, (), "stop", Usage()) for phase, candidates in tried
    )
    candidates = tuple(each for attempt in attempts for each in attempt.candidates)
    rounds = Rounds(TASK, [LOOK])
    rounds.start()
    return rounds.feed(TracedReply("Hm.", candidates=candidates, record=Trace("text", "", "", attempts)))
