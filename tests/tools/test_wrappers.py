"""Wrappers: each does one thing and passes the rest on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.tools.sample_tools import Say, run
from toolspeak.core.types import JSONObject, Tool
from toolspeak.errors import ToolDenied, ToolError, UsageError
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.final_output import FinalOutput
from toolspeak.tools.wrappers import (
    Approved,
    ReadMore,
    Remainders,
    Truncated,
    is_sandboxed,
    only,
)

pytestmark = pytest.mark.requirement("F5")


def names(tools: list[object]) -> list[str]:
    return [each.tool.name for each in tools]  # type: ignore[attr-defined]


def test_tools_are_chosen_by_name():
    tools = [Say("read_file"), Say("write_file"), Say("shell")]
    assert names([*only(tools)]) == ["read_file", "write_file", "shell"]
    assert names([*only(tools, "*_file")]) == ["read_file", "write_file"]
    assert names([*only(tools, "*_file", "shell", without=["write*"])]) == ["read_file", "shell"]


def test_choosing_a_tool_that_is_not_there_is_an_error():
    with pytest.raises(UsageError, match="unknown tool `reed`"):
        only([Say("read")], "reed")
    with pytest.raises(UsageError, match="unknown tool `reed`"):
        only([Say("read")], without=["reed"])


def test_a_tool_runs_after_approval_and_not_before():
    inner = Say(side_effects=True)
    with pytest.raises(ToolDenied, match="no one can approve it"):
        run(Approved(inner, Approval()))
    assert inner.runs == 0
    assert run(Approved(inner, Approval(lambda _: "once"))).content == "hello"


def test_wrappers_know_whether_what_is_inside_is_sandboxed():
    class Boxed(Say):
        sandboxed = True

    boxed = Truncated(Boxed(side_effects=True))
    assert is_sandboxed(boxed)
    assert not is_sandboxed(Truncated(Say()))
    assert run(Approved(boxed, Approval(yes=True))).content == "hello"
    with pytest.raises(ToolDenied):
        run(Approved(Say(side_effects=True), Approval(yes=True)))


# ---- long output


def test_short_output_is_left_as_it_is():
    assert run(Truncated(Say(text="x" * 4096))) == ToolOutput("x" * 4096)


def test_long_output_keeps_head_and_tail_and_says_how_much_is_missing():
    text = "".join(chr(97 + at % 26) for at in range(10_000))
    shown = run(Truncated(Say(text=text))).content
    head, marker, tail = shown.split("\n")
    assert marker == "[... 5904 characters left out ...]"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == 4096
    assert len(head) > len(tail)


def test_the_rest_can_be_asked_for():
    remainders = Remainders()
    text = "".join(str(at % 10) for at in range(9000))
    shown = run(Truncated(Say(text=text), remainders), context=CallContext("call_7")).content
    assert 'read_more with id "call_7" and offset 2730 shows them' in shown
    more = ReadMore(remainders)
    first = run(more, {"id": "call_7", "offset": 2730}).content
    assert first == text[2730:6826] + "\n[... 2174 more characters; go on with offset 6826 ...]"
    assert run(more, {"id": "call_7", "offset": 6826}).content == text[6826:] + "\n[end of the output]"


@check_each(
    ("arguments", "words"),
    [
        ({"id": "other", "offset": 0}, "no output kept"),
        ({"id": "call_1", "offset": 10_000}, "10000 characters only"),
        ({"id": "call_1", "offset": -1}, "0 or more"),
        ({"id": 1, "offset": 0}, "must be a text"),
        ({}, "must be a text"),
    ],
)
def test_what_cannot_be_read_on_is_an_error(arguments: JSONObject, words: str):
    remainders = Remainders()
    run(Truncated(Say(text="x" * 10_000), remainders))
    with pytest.raises(ToolError, match=words):
        run(ReadMore(remainders), arguments)


def test_an_id_that_cannot_stand_in_a_text_is_replaced():
    remainders = Remainders()
    for odd in ("", 'a"b', "a\nb", "x" * 101):
        shown = run(Truncated(Say(text="x" * 10_000), remainders), context=CallContext(odd)).content
        assert 'read_more with id "output_' in shown
        assert odd == "" or f'"{odd}"' not in shown


def test_what_is_kept_is_bounded_and_the_oldest_goes_first():
    remainders = Remainders(max_chars=100)
    remainders.keep("a", "x" * 60)
    remainders.keep("b", "y" * 30)
    remainders.keep("b", "z" * 40)
    assert remainders.find("a") == "x" * 60
    remainders.keep("c", "w" * 10)
    assert remainders.find("a") is None
    assert remainders.find("b") == "z" * 40
    remainders.keep("d", "v" * 101)
    assert remainders.find("d") is None
    assert remainders.find("c") is None


def test_the_answer_of_an_agent_is_not_cut():
    assert run(Truncated(Say(text="x" * 10_000, final=True))).content == "x" * 10_000


def test_a_limit_below_one_is_refused():
    with pytest.raises(UsageError):
        Truncated(Say(), limit=0)


@given(st.text(max_size=200), st.integers(1, 50))
def test_head_marker_tail_and_rest_make_the_whole(text: str, limit: int):
    remainders = Remainders()
    shown = run(Truncated(Say(text=text), remainders, limit)).content
    if len(text) <= limit:
        assert shown == text
        return
    whole, at = "", 0
    while at < len(text):
        part = run(ReadMore(remainders, limit), {"id": "call_1", "offset": at}).content
        whole += part[: min(limit, len(text) - at)]
        at += limit
    assert whole == text


# ---- the end


def test_final_output_hands_over_the_answer():
    assert run(FinalOutput(), {"summary": "All is well."}) == ToolOutput("All is well.", final=True)
    with pytest.raises(ToolError, match="must be a text"):
        run(FinalOutput(), {"summary": 7})


def test_a_restored_result_whose_id_cannot_be_quoted_takes_no_room():
    remainders = Remainders()
    for _ in range(3):
        remainders.restore("not a plain id", "text")
    assert [remainders.find(f"output_{number}") for number in (1, 2, 3)] == [None, None, None]


def test_an_output_with_a_wrong_type_is_left_to_the_caller():
    class Odd:
        tool = Tool("odd", "", {"type": "object"})

        async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
            return ToolOutput(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert run(Truncated(Odd(), Remainders())).content is None
