"""What all body grammars share: a context with its candidates, and arguments whose name is known."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, tool
from toolspeak import CallArgs, CallEnd, CallStart, Judged, Scanner, fold
from toolspeak.core.parsing.acceptance import Evidence
from toolspeak.core.parsing.context import ParseContext
from toolspeak.dialects.body_grammars import ArgumentsBody, BlockContext, Body


def context(wrapper: str = "strong") -> BlockContext:
    return BlockContext(ParseContext(TOOLS), Evidence("test", wrapper), ())  # type: ignore[arg-type]


def verdicts(context: ParseContext) -> list[tuple[str, str, str]]:
    found = [event.candidate for event in context.collect() if isinstance(event, Judged)]
    return [(each.name, each.verdict, each.reason) for each in found]


def body(wrapper: str = "strong", *, call: bool = False) -> tuple[BlockContext, ArgumentsBody]:
    around = context(wrapper)
    builder = around.builder()
    assert builder.take_name("save")
    return around, ArgumentsBody(around, builder, call=call)


def test_the_base_reads_nothing():
    base = Body(context())
    with pytest.raises(NotImplementedError):
        base.feed("x", 0, True)
    with pytest.raises(NotImplementedError):
        base.finish()
    assert base.fast_path() is None
    assert base.state == "open"


def test_arguments_are_read_to_their_end_and_not_further():
    around, arguments = body()
    text = '{"n": 1} and more'
    assert arguments.feed(text, 0, False) == text.index(" and")
    assert arguments.state == "done"
    assert verdicts(around.context) == [("save", "call", "accepted")]


def test_an_argument_list_is_read_like_an_object():
    around, arguments = body(call=True)
    assert arguments.feed('(path="a", n=2)', 0, False) == 15
    events = around.context.collect()
    assert "".join(event.fragment for event in events if isinstance(event, CallArgs)) == '{"path":"a","n":2}'


def test_what_is_no_json_fails_with_the_reason():
    around, arguments = body()
    arguments.feed("{{{{", 0, False)
    arguments.feed("{a b} ,", 0, True)
    assert arguments.state == "failed"
    assert verdicts(around.context) == [("save", "invalid", "arguments_invalid")]


def test_a_text_that_ends_inside_the_arguments_cuts_the_call():
    around, arguments = body()
    arguments.feed('{"path": "a', 0, True)
    arguments.finish()
    assert arguments.state == "failed"
    assert verdicts(around.context) == [("save", "truncated", "truncated")]


def test_calls_in_weak_marks_wait_for_the_end_of_the_block():
    around, arguments = body("weak")
    arguments.feed('{"n": 1}', 0, False)
    assert around.builders[0].state == "tail"
    assert verdicts(around.context) == []
    around.refuse()
    assert verdicts(around.context) == [("save", "text", "not_a_call")]


def test_calls_in_bare_marks_are_judged_when_the_block_ends_well():
    around, arguments = body("bare")
    arguments.feed('{"n": 1}', 0, False)
    around.release()
    assert verdicts(around.context) == [("save", "call", "accepted")]


# ---- the short way through a text that flows


@pytest.mark.requirement("B8")
def test_a_text_that_flows_goes_out_chunk_by_chunk():
    scanner = Scanner(TOOLS)
    assert scanner.feed('<tool_call>save{"text": "') == [CallStart(0, "save")]
    assert scanner.feed("one ") == [CallArgs(0, '{"text":"one ')]
    assert scanner.feed("two") == [CallArgs(0, "two")]
    assert scanner.feed(" three") == [CallArgs(0, " three")]
    rest = scanner.feed('"}</tool_call>')
    assert rest[:3] == [CallArgs(0, '"'), CallArgs(0, "}"), CallEnd(0)]


@pytest.mark.requirement("B8")
@check_each(
    ("text", "short"),
    [
        ('{"path": "a', True),
        ("{", False),
        ('{"n": "4', True),
        ('{"path": \'a', True),
        ("{'pa", False),
        ('{"path": "a", "n": 1', False),
    ],
)
def test_there_is_a_short_way_only_through_a_text(text: str, short: bool):
    _, arguments = body()
    arguments.feed(text, 0, False)
    assert (arguments.fast_path() is not None) is short


def test_a_text_that_may_not_flow_goes_the_short_way_silently():
    _, arguments = body()
    arguments.feed('{"n": "4', 0, False)
    fast_path = arguments.fast_path()
    assert fast_path is not None
    assert (fast_path.silent, fast_path.take("2")) == (True, None)
    assert arguments.feed('"}', 0, True) == 2
    assert arguments.state == "done"


def test_nothing_of_a_call_that_is_held_goes_out():
    scanner = Scanner(TOOLS)
    assert scanner.feed('{"name": "save", "arguments": {"text": "') == []
    assert scanner.feed("one") == []
    assert scanner.feed(", two, ") == []
    events = scanner.feed('three"}}') + scanner.close()
    assert [(call.name, call.arguments) for call in fold(events).calls] == [("save", {"text": "one, two, three"})]


def test_there_is_no_short_way_through_a_key():
    scanner = Scanner([tool("f", a="string")])
    scanner.feed('<tool_call>{"name": "f", "arguments": {"a')
    assert scanner.feed("b") == []
