"""What an interrupted call may have done: it is known again however it is spelled, and not done twice by itself."""

from __future__ import annotations

import msgspec
import pytest

from tests.cases import check_each
from tests.engine.round_steps import (
    LOOK,
    SEND,
    TASK,
    a_loop,
    asking,
    executing,
    finding,
    look_at,
    making,
)
from toolspeak import Tool, ToolCall, ToolResult
from toolspeak.core.types import JSONObject
from toolspeak.engine.rounds.loop import CallOutcome, Executed, Rounds
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round


@pytest.mark.requirement("F7", "R-F35", "R-F37")
def test_a_call_that_may_have_changed_the_world_is_marked_when_it_is_made_again():
    begun = CallRecord(ToolCall("send", {"to": "a"}, "c1"), "started", side_effects=True)
    looked = CallRecord(look_at(id="c2"), "started")
    never = CallRecord(ToolCall("send", {"to": "b"}, "c3"), "planned", side_effects=True)
    before = Answer(rounds=(Round(calls=(begun, looked, never)),), status="interrupted")
    rounds = Rounds((*TASK, before), (msgspec.structs.replace(LOOK, read_only=True), SEND))
    rounds.start()
    execute = executing(
        rounds, making(ToolCall("send", {"to": "a"}, "d1"), look_at(id="d2"), ToolCall("send", {"to": "b"}, "d3"))
    )
    assert [(planned.key, planned.may_have_run) for planned in execute.calls] == [
        ("c1", True),
        ("d2", False),
        ("d3", False),
    ]
    assert [planned.sibling_may_have_run for planned in execute.calls] == [False, False, True]
    assert ["interrupted" in execute.consent_reason(planned) for planned in execute.calls] == [True, False, True]


@pytest.mark.requirement("F7", "R-F35")
def test_a_tool_that_declares_nothing_may_have_changed_something():
    begun = CallRecord(look_at(id="c1"), "started")
    rounds = a_loop((*TASK, Answer(rounds=(Round(calls=(begun,)),), status="interrupted")))
    rounds.start()
    execute = executing(rounds, making(look_at(id="d1"), look_at("b", id="d2")))
    assert [(planned.key, planned.may_have_run) for planned in execute.calls] == [("c1", True), ("d2", False)]
    # Other calls of the tool run, because most functions that declare nothing change nothing.
    assert ["interrupted" in execute.consent_reason(planned) for planned in execute.calls] == [True, False]


SHELL = Tool(
    "shell",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {"type": "integer"},
            "folder": {"type": "string", "default": "."},
            "loud": {"type": ["boolean", "null"], "default": False},
            "count": {"type": "integer", "default": 1},
        },
    },
)


@pytest.mark.requirement("F7", "R-F35")
@check_each(
    ("arguments", "same"),
    [
        ({"command": "git push"}, True),
        ({"command": "git push", "timeout": 60}, True),
        ({"command": "git push", "folder": "."}, True),
        ({"command": "git push", "loud": None, "count": 1}, True),
        ({"command": " git  push;\n"}, True),
        ({"command": "git 'push'"}, True),
        ({"folder": ".", "timeout": 1, "command": "git push", "loud": False}, True),
        ({"command": "git push", "folder": "other"}, False),
        ({"command": "git push", "count": 2}, False),
        ({"command": "cd . && git push"}, False),
    ],
)
def test_an_interrupted_call_is_known_again_however_it_is_spelled(arguments: JSONObject, same: bool):
    begun = CallRecord(ToolCall("shell", {"command": "git push"}, "c1"), "started", side_effects=True)
    before = Answer(rounds=(Round(calls=(begun,)),), status="interrupted")
    rounds = Rounds((*TASK, before), [SHELL])
    rounds.start()
    execute = executing(rounds, making(ToolCall("shell", arguments, "d1")))
    (planned,) = execute.calls
    assert (planned.may_have_run, planned.sibling_may_have_run) == (same, not same)
    assert planned.key == ("c1" if same else "d1")
    assert execute.consent_reason(planned)  # known again or not, nobody runs it without a question
    asking(rounds, finding(execute))
    (later,) = executing(rounds, making(ToolCall("shell", {"command": "ls"}, "e1"))).calls
    assert later.sibling_may_have_run is not same  # once it has surely been done, other calls are free


@check_each("parameters", [{}, {"properties": {"to": True}}])
def test_a_schema_without_defaults_has_none(parameters: JSONObject):
    begun = CallRecord(ToolCall("send", {"to": "a"}, "c1"), "started", side_effects=True)
    before = Answer(rounds=(Round(calls=(begun,)),), status="interrupted")
    rounds = Rounds((*TASK, before), [Tool("send", parameters=parameters, side_effects=True)])
    rounds.start()
    assert executing(rounds, making(ToolCall("send", {"to": "a"}, "d1"))).calls[0].may_have_run


@pytest.mark.requirement("R-F37")
def test_a_call_keeps_its_first_key_however_often_it_is_interrupted():
    send = ToolCall("send", {"to": "a"})
    begun = [CallRecord(msgspec.structs.replace(send, id=name), "started", side_effects=True) for name in ("c1", "c2")]
    before = [Answer(rounds=(Round(calls=(record,)),), status="interrupted") for record in begun]
    rounds = a_loop((*TASK, *before))
    rounds.start()
    assert executing(rounds, making(send)).calls[0].key == "c1"


@pytest.mark.requirement("F7")
def test_once_it_has_surely_been_done_nobody_asks_any_more():
    send = ToolCall("send", {"to": "a"})
    begun = CallRecord(msgspec.structs.replace(send, id="c1"), "started", side_effects=True)
    denied = CallRecord(msgspec.structs.replace(send, id="c2"), "finished", True, ToolResult("c2", "no", error=True))
    before = Answer(rounds=(Round(calls=(begun,)), Round(calls=(denied,))), status="interrupted")
    rounds = a_loop((*TASK, before))
    rounds.start()
    failed = executing(rounds, making(send)).calls[0]
    assert failed.may_have_run
    asking(rounds, Executed((CallOutcome(ToolResult(failed.call.id, "broken", error=True)),)))
    first = executing(rounds, making(send))
    assert first.calls[0].may_have_run
    asking(rounds, finding(first))
    assert not executing(rounds, making(send)).calls[0].may_have_run
    done = Answer(rounds=(Round(calls=(CallRecord(send, "finished", True, ToolResult("", "sent")),)),))
    later = a_loop((*TASK, before, done))
    later.start()
    assert not executing(later, making(send)).calls[0].may_have_run
