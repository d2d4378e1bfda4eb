"""Texts that repeat themselves without end: what is remembered has a limit, and the limit changes nothing."""

from __future__ import annotations

import pytest

from tests.cases import check_each, size
from tests.dialects.answer_helpers import by_character, tool
from toolspeak import Reply, Tool, parse
from toolspeak.core.json_repair import containers as frames
from toolspeak.core.parsing import context
from toolspeak.core.parsing import mark_search as passing
from toolspeak.dialects import marks, tag_parameters, tag_values

pytestmark = pytest.mark.requirement("R-T12", "B8")

TOOLS = (tool("save", text="string"), tool("tags", names="array"))
CALL = "<function=save><parameter=text>{}</parameter></function>"


def read(text: str) -> Reply:
    reply = parse(text, TOOLS)
    assert by_character(text, tools=TOOLS) == reply
    return reply


def calls(reply: Reply) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in reply.calls]


@pytest.mark.parametrize("most", [0, 2, 1024])
def test_tags_of_no_meaning_stay_text_however_many_of_them_are_remembered(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(marks, "_MAX_MEANINGS", most)
    text = "<a><b><c></a><a><b> "
    reply = read(text + CALL.format("x"))
    assert (reply.text, calls(reply)) == (text, [("save", {"text": "x"})])


@pytest.mark.parametrize("most", [0, 2, 1024])
@pytest.mark.parametrize(
    "value", ["<a><b><c></a><a><b>", "\n<a\n<b></a>\n<a>\n", "]<a>&lt;<b></b>]<", "</par&lt;</a&lt;b></a&lt;b>"]
)
def test_tags_in_a_value_stay_in_it_however_many_of_them_are_remembered(
    value: str, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tag_values, "_MAX_CACHED", most)
    meant = value.removeprefix("\n").removesuffix("\n")
    assert calls(read(CALL.format(value))) == [("save", {"text": meant})]


@check_each(
    "value", ["<call>a<tool >b<function\n>c<invoke>", "\n<call>\n  <tool>\n<invoke\t>\n", "<call" + " " * 40 + ">"]
)
@check_each("tools", [TOOLS, None])
def test_a_tag_for_calls_that_names_none_is_part_of_a_value(value: str, tools: tuple[Tool, ...] | None):
    reply = parse(CALL.format(value), tools)
    assert by_character(CALL.format(value), tools=tools) == reply
    meant = value.removeprefix("\n").removesuffix("\n") if value.startswith("\n") else value
    assert calls(reply) == [("save", {"text": meant})]


@pytest.mark.parametrize("most", [1, 2, 1024])
@pytest.mark.parametrize("text", [">>>a\n" * 5, "x >>>a\n" * 5, ">>>a\nb\n>>>a\n  >>>a\n"])
def test_recipients_stay_text_however_many_of_them_are_looked_at(text: str, most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passing, "MAX_REJECTED", most)
    reply = parse(text)
    assert by_character(text) == reply
    assert (reply.text, reply.calls) == (text, ())


#: How a block begins that holds many calls, and one of them.
BLOCKS = {
    "tags": ("<tool_call>", "<function=f>"),
    "tags with attributes": ("<function_calls>", '<invoke name="f">'),
    "tags that are closed": ("<function_calls>", '<invoke name="f"></invoke>'),
    "Python in a list": ("<tool_call>[", "f(),"),
    "Python": ("<|python_tag|>", "f();"),
    "names and objects": ("[TOOL_CALLS]", "f{}"),
    "objects": ("<tool_call>", '{"name":"f","arguments":{}}'),
    "objects in a list": ("<tool_call>[", '{"name":"f","arguments":{}},'),
    "objects in a document": ('<tool_call>{"tool_calls":[', '{"name":"f","arguments":{}},'),
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("tools", [(tool("f"),), None])
def test_in_one_block_no_more_calls_are_looked_for_than_in_many(
    block: str, tools: tuple[Tool, ...] | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(context, "MAX_CALLS", 3)
    before, unit = BLOCKS[block]
    text = before + unit * 8
    reply = parse(text, tools)
    assert by_character(text, tools=tools) == reply
    assert [call.name for call in reply.calls] == ["f"] * 3
    assert reply.text.strip(",;") == (unit * 5).strip(",;")
    assert [note.code for note in reply.notes].count("too_many_calls") == 1


#: What may be a call and is none, or waits for its end, one behind the other in one block.
VAIN_BLOCKS = {
    "objects without a name": ("<tool_call>\n", '{"a":1}\n'),
    "objects without a name in a fence": ("```json action\n", '{"a":1}\n'),
    "objects without a name in a list": ("<tool_call>[", '{"a":1},'),
    "unknown tools": ("<tool_call>\n", '{"name":"x","arguments":{}}\n'),
    "names as keys": ("<|tools_prefix|>{", '"x":{},'),
    "calls that wait": ("```json\n", '{"name":"save","arguments":{"text":""}}\n'),
}


@pytest.mark.parametrize("block", VAIN_BLOCKS)
@pytest.mark.parametrize("most", [3, 4096])
def test_in_one_block_no_more_candidates_are_looked_at_than_in_many(
    block: str, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(context, "MAX_CANDIDATES", most)
    before, unit = VAIN_BLOCKS[block]
    reply = read(before + unit * 8)
    assert len(reply.candidates) == min(most, len(parse(before + unit * 8, TOOLS).candidates))
    if most == 3:
        assert (reply.text, reply.calls) == (before + unit * 8, ())
        assert [note.detail for note in reply.notes] == ["gave up looking for calls after 3 candidates"]


#: Calls of which each has ten values, or that need as many repairs, by the way that they are read.
VALUED = {
    "an object": '<tool_call>{"name": "free", "arguments": {"a": [1, "b", [], {"c": null}], "d": 2}}</tool_call>\n',
    "an object that needs repairs": "<tool_call>{'name': 'free', 'arguments': {a: [b\n c], d: 2}}</tool_call>\n",
    "a name and an object": '[TOOL_CALLS]free[ARGS]{"a": [1, 2, 3, 4], "b": 1, "c": 2, "d": 3}\n',
    "an argument list": "<tool_call>free(a=1, b=2, c=f(g(h)))</tool_call>\n",
    "a positional object": "<tool_call>free({'a': [1, 2, 3, 4, 5, 6, 7, 8]})</tool_call>\n",
    "parameters": "<function=free><parameter=a>\n[1, 2, 3, 4, 5, 6, 7, 8]\n</parameter></function>\n",
    "texts in parameters": "<function=free>" + "<parameter=a>b</parameter>" * 5 + "</function>\n",
    "attributes": '<tool_call><free a="[1, 2, 3, 4, 5, 6, 7, 8]"/></tool_call>\n',
    "YAML": "<free>\na: [1, 2, 3]\nb:\n- 4\n- [5, 6, 7]\n</free>\n",
    "elements": "<free><a>[1, 2, 3, 4, 5, 6, 7, 8]</a></free>\n",
    "text in text": '<tool_call>{"name": "free", "arguments": "{\\"a\\": [1, 2, 3, 4, 5, 6]}"}</tool_call>\n',
    "comments": "<tool_call>free(a=1 // [[[[[]]]]\n)</tool_call>\n",
}


@pytest.mark.parametrize("kind", VALUED)
def test_behind_very_many_values_no_more_calls_are_looked_for(kind: str, monkeypatch: pytest.MonkeyPatch):
    tools = (tool("free"),)
    text = VALUED[kind] * 12
    unlimited = parse(text, tools)
    assert by_character(text, tools=tools) == unlimited
    assert len(unlimited.calls) == 12
    for most in range(28, 60, size(5, 1)):  # the limit lies anywhere in a call
        monkeypatch.setattr(frames, "MAX_VALUES", most)
        monkeypatch.setattr(context, "MAX_VALUES", most)
        reply = parse(text, tools)
        assert by_character(text, tools=tools) == reply
        assert 0 < len(reply.calls) < 12
        assert {str(call.arguments) for call in reply.calls} == {str(unlimited.calls[0].arguments)}, "whole, or refused"
        assert [note.detail for note in reply.notes if note.code == "too_many_calls"] == [
            f"gave up looking for calls after {most} values"
        ]


@pytest.mark.parametrize(
    "mark", ["<think>a</think>", "\nObservation: b", "[THINK]a[/THINK]", "\n```json result\nb\n```"]
)
@pytest.mark.parametrize("before", ["f(\n", "{a: 1}\n", "[f()]\n", ">>>f\n", 'save(text="b")\n'])
def test_where_no_calls_are_looked_for_any_more_other_marks_still_count(
    mark: str, before: str, monkeypatch: pytest.MonkeyPatch
):
    text = f"{CALL.format('x')}\n{before * 3}{mark}\n{before * 3}"
    monkeypatch.setattr(context, "MAX_CALLS", 1)
    reply = read(text)
    assert calls(reply) == [("save", {"text": "x"})]
    result = "b" in mark
    assert reply.text.startswith(f"\n{before * 3}".rstrip()) and reply.text.count(before) == (3 if result else 6)
    assert reply.reasoning == ("" if result else "a")


@pytest.mark.parametrize("unit", ["<!-- a -->\n", "<!-->", "<example>\n</example>\n", "<example>a</example>\n"])
@pytest.mark.parametrize(("times", "found"), [(2, 1), (3, 0), (8, 0)])
def test_behind_very_many_places_for_examples_nothing_is_called(
    unit: str, times: int, found: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(passing, "MAX_EXAMPLES", 3)
    text = unit * times + "\n" + CALL.format("x")
    reply = read(text)
    assert len(reply.calls) == found
    assert reply.text == text[: None if not found else -len(CALL.format("x"))]


#: Lines that only look as if a mark began them, around noise that is taken out of a line.
DULL_LINES = (
    "g()",
    "g(a=1)",
    '[{"a": 1}]',
    '{"a": 1}',
    "[g()]",
    "<b>",
    "    g()",
    "\tg(a)",
    "    <b>",
    "> a",
    ">>>g",
    "a",
)


@check_each("line", DULL_LINES)
@check_each("before", ["", "a\n", "a\n\n", "a\n \n\n", 'a\n{"name": "save", "arguments": {"text": "x"}}\n'])
def test_lines_that_are_passed_over_leave_the_same_trace_as_lines_that_are_read(line: str, before: str):
    for behind in ("", "\n", "\n\n", f"\n{line}\n\n{line}"):
        text = f"{before}{line}{behind} <|eot|> {CALL.format('x')}"
        assert read(text).text.startswith("a" if before else line[:1])


@check_each("value", ["<a><b><c></a><a><b>", "one\ntwo"])
def test_tags_in_a_value_that_is_held_stay_in_it(value: str):
    assert calls(parse(CALL.format(value))) == [("save", {"text": value})]
    assert by_character(CALL.format(value)) == parse(CALL.format(value))


@pytest.mark.parametrize(("values", "verdict"), [(2, "call"), (3, "invalid")])
def test_a_call_with_too_many_values_that_are_not_closed_is_given_up(
    values: int, verdict: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tag_parameters, "MAX_REPAIRS", 2)
    opened = "".join(f"\n<parameter=k{index}>v" for index in range(values))
    reply = parse(f"<function=save><parameter=text>x</parameter>{opened}\n<parameter=z>v</parameter></function>")
    assert [each.verdict for each in reply.candidates] == [verdict]


def test_a_parameter_that_comes_again_and_again_is_a_list():
    items = [str(index) for index in range(50)]
    text = "".join(f"<parameter=names>{item}</parameter>" for item in items)
    assert [call.name for call in read(f"<function=tags>{text}</function>").calls] == ["tags"]
    assert len(read(f"<function=tags>{text}</function>").calls[0].arguments["names"]) == len(items)


@check_each(("deep", "found"), [(0, 1), (3, 1), (7, 0), (60, 0)])
def test_objects_that_only_hold_each_other_are_no_call(deep: int, found: int):
    text = '{"function": ' * deep + '{"name": "save", "arguments": {"text": "x"}}' + "}" * deep
    assert len(read(f"<tool_call>{text}</tool_call>").calls) == found
