"""The marks that calls stand behind: every row opens its block, and everything else is text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, Case, check, each
from toolspeak import parse
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.parsing.dialect_interface import NONE
from toolspeak.core.parsing.tags import MORE
from toolspeak.core.types import Tool
from toolspeak.dialects.mark_tables import mark_tables
from toolspeak.dialects.marks import Marks, place_finder
from toolspeak.dialects.tag_names import LONE_NAME_TAGS

PING = '{"name": "ping", "arguments": {"a": 1}}'
#: Tags that take something else than JSON behind them.
SPECIAL = {
    "|channel|",
    "|start|",
    "|begin|",
    "function",
    "invoke",
    "call",
    "tool",
    "|open|tools",
    "|open|call",
    *LONE_NAME_TAGS,
}


@pytest.mark.requirement("B3")
@check_each("name", sorted(mark_tables().openings.keys() - SPECIAL))
def test_every_tag_opens_a_call(name: str):
    reply = parse(f"<{name}>{PING}", TOOLS)
    assert [(call.name, call.arguments) for call in reply.calls] == [("ping", {"a": 1})]
    assert reply.text == ""
    assert reply.candidates[0].dialect == mark_tables().openings[name].dialect


@pytest.mark.requirement("B3")
@check_each(
    "mark",
    [
        mark
        for mark, (_, opening) in mark_tables().literals.items()
        if opening is not None and opening.dialect != "react"
    ],
)
def test_every_literal_opens_a_call(mark: str):
    reply = parse(mark + PING, TOOLS)
    assert [(call.name, call.arguments) for call in reply.calls] == [("ping", {"a": 1})]
    assert reply.text == ""


FENCES = [
    Case("info json action", '```json action\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info action", '```action\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info tool_call", '```tool_call\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info tool_calls", '```tool_calls\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info tool_code", '```tool_code\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info json tool_call", '```json tool_call\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case("info tool", '```tool\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case(
        "two blocks",
        (
            "```json action\n"
            '{"name": "ping", "arguments": {}}\n'
            "```\n"
            "```json action\n"
            '{"name": "ping", "arguments": {}}\n'
            "```"
        ),
        (
            ("ping", {}),
            ("ping", {}),
        ),
        said="\n",
    ),
    Case("a name", '```tool ping\n{"a": 1}\n```', (("ping", {"a": 1}),)),
    Case(
        "json at the end of the answer",
        'Here:\n```json\n{"name": "ping", "arguments": {}}\n```',
        (("ping", {}),),
        said="Here:\n",
    ),
    Case(
        "json in the middle of the answer",
        '```json\n{"name": "ping", "arguments": {}}\n```\nThat is how.',
        said='```json\n{"name": "ping", "arguments": {}}\n```\nThat is how.',
        verdicts=(("ping", "text", "more_follows"),),
    ),
    Case("no info string", '```\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),)),
    Case(
        "python",
        '```python\n{"name": "ping", "arguments": {}}\n```',
        said='```python\n{"name": "ping", "arguments": {}}\n```',
    ),
    Case(
        "a nonce", '```json action k7\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),), options={"nonce": "k7"}
    ),
    Case(
        "no nonce",
        '```json action\n{"name": "ping", "arguments": {}}\n```',
        said='```json action\n{"name": "ping", "arguments": {}}\n```',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "a nonce that is a part of a word",
        '```json action xk7\n{"name": "ping", "arguments": {}}\n```',
        said='```json action xk7\n{"name": "ping", "arguments": {}}\n```',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case("only a nonce", '```k7\n{"name": "ping", "arguments": {}}\n```', (("ping", {}),), options={"nonce": "k7"}),
    Case(
        "a result behind a call",
        '```json action\n{"name": "ping", "arguments": {}}\n```\n```json result\n42\n```\nSo it is 42.',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case("a result without a call", "```json result\n42\n```", said="```json result\n42\n```"),
]


@pytest.mark.requirement("B1", "R-E2")
@each(FENCES)
def test_a_fence_opens_a_call_by_its_info_string(case: Case):
    check(case)


THINKING = [
    Case("tag think", "<think>Hm.</think>Hello.", said="Hello.", reasoning="Hm."),
    Case("tag thinking", "<thinking>Hm.</thinking>Hello.", said="Hello.", reasoning="Hm."),
    Case("tag thought", "<thought>Hm.</thought>Hello.", said="Hello.", reasoning="Hm."),
    Case("tag reasoning", "<reasoning>Hm.</reasoning>Hello.", said="Hello.", reasoning="Hm."),
    Case("tag |START_THINKING|", "<|START_THINKING|>Hm.<|END_THINKING|>Hello.", said="Hello.", reasoning="Hm."),
    Case("tag |begin_of_thought|", "<|begin_of_thought|>Hm.<|end_of_thought|>Hello.", said="Hello.", reasoning="Hm."),
    Case("brackets", "[THINK]Hm.[/THINK]Hello.", said="Hello.", reasoning="Hm."),
    Case("gemma", "<|channel>thought\nHm.<channel|>Hello.", said="Hello.", reasoning="Hm."),
    Case("kimi", "<|open|>think<|sep|>Hm.<|close|>think<|sep|>Hello.", said="Hello.", reasoning="Hm."),
    Case("the answer is announced", "Hm.[BEGIN FINAL RESPONSE]Hello.", said="Hm.Hello.", codes={"reasoning_unopened"}),
    Case("only the end", "Hm.\n</think>\nHello.", said="Hm.\n\nHello.", codes={"reasoning_unopened"}),
    Case(
        "a call inside",
        '<think>\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n</think>\nHello.',
        said="\nHello.",
        verdicts=(("ping", "reasoning", "reasoning"),),
        reasoning='\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n',
    ),
]


@pytest.mark.requirement("B10")
@each(THINKING)
def test_marks_around_thinking_are_taken_away(case: Case):
    check(case)


RESULTS = [
    Case(
        "mark <tool_response>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<tool_response> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <tool_result>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<tool_result> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <tool_output>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<tool_output> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <function_results>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<function_results> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <observation>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<observation> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <|tool_response>",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<|tool_response> 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark [TOOL_RESULTS]",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n[TOOL_RESULTS] 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <｜tool▁outputs▁begin｜>",
        ('<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<｜tool▁outputs▁begin｜> 42 and so on'),
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark Observation:",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\nObservation: 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark Tool result:",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\nTool result: 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark TOOL_RESULT:",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>\nTOOL_RESULT: 42 and so on',
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "mark <start_function_response>",
        ('<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n<start_function_response> 42 and so on'),
        (("ping", {}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case("without a call", "<tool_response>42</tool_response>", said="<tool_response>42</tool_response>"),
]


@pytest.mark.requirement("B9")
@each(RESULTS)
def test_a_result_behind_the_own_call_is_cut_off(case: Case):
    check(case)


NOISE = [
    Case("token |START_RESPONSE|", "Hello.<|START_RESPONSE|>", said="Hello."),
    Case("token |eot|", "Hello.<|eot|>", said="Hello."),
    Case("token |content_text|", "Hello.<|content_text|>", said="Hello."),
    Case("token |END_TEXT|", "Hello.<|END_TEXT|>", said="Hello."),
    Case("token |message_model|", "Hello.<|message_model|>", said="Hello."),
    Case("a closing s", "Hello.</s>", said="Hello.</s>"),
    Case(
        "a closer behind a call", '<tool_call>{"name": "ping", "arguments": {}}</tool_call><|im_end|>', (("ping", {}),)
    ),
    Case("a closer without a call", "Hello. </tool_call>", said="Hello. </tool_call>"),
    Case("noise", "]<]minimax[>[Hello.", said="Hello."),
]


@pytest.mark.requirement("B3")
@each(NOISE)
def test_marks_of_the_transport_are_taken_away(case: Case):
    check(case)


BARE = [
    Case("an object", '{"name": "ping", "arguments": {}}', (("ping", {}),)),
    Case("a tool line", '{"tool": "ping", "args": {}}', (("ping", {}),)),
    Case("a python key", '{name: "ping", arguments: {}}', (("ping", {}),), codes={"unquoted_key"}),
    Case("white space in it", '{\n  "name": "ping",\n  "arguments": {}\n}', (("ping", {}),)),
    Case("a list", '[{"name": "ping", "arguments": {}}]', (("ping", {}),)),
    Case(
        "a python list",
        "[ping(a=1), ping()]",
        (
            ("ping", {"a": 1}),
            ("ping", {}),
        ),
    ),
    Case("a python list of a tool with a hyphen", "[do-it(a=1)]", (("do-it", {"a": 1}),), options={"tools": None}),
    Case("a python list of nobody", "[walk(a=1)]", said="[walk(a=1)]"),
    Case(
        "a python list where nobody said what is on offer",
        "[walk(a=1)]",
        (("walk", {"a": 1}),),
        options={"tools": None},
    ),
    Case("a list of numbers", "[1, 2]", said="[1, 2]"),
    Case("a list of something else", '[{"x": 1}]', said='[{"x": 1}]'),
    Case("a link", "[ping](http://x.y)", said="[ping](http://x.y)"),
    Case("another object", '{"city": "Paris"}', said='{"city": "Paris"}'),
    Case("an object of anything", '{"a-b": 1}', said='{"a-b": 1}'),
    Case("a brace at the end", "so {", said="so {"),
    Case("a bracket at the end", "so [", said="so ["),
    Case("a brace and a quote at the end", '{"nam', said='{"nam'),
    Case("phi", 'functools[{"name": "ping", "arguments": {}}]', (("ping", {}),)),
    Case("the beginning of phi", "functools", said="functools"),
    Case("perl", 'TOOL_CALL\n{"name": "ping", "arguments": {}}\n/TOOL_CALL', (("ping", {}),)),
    Case("functionary", '>>>ping\n{"a": 1}', (("ping", {"a": 1}),)),
    Case("a prompt of python", ">>> ping", said=">>> ping"),
    Case("a name and json", 'ping {"a": 1}', (("ping", {"a": 1}),)),
    Case("a name and a colon", 'ping: {"a": 1}', (("ping", {"a": 1}),)),
    Case("a name and an argument mark", 'ping[ARGS]{"a": 1}', (("ping", {"a": 1}),)),
    Case("a name and half an argument mark", "ping[AR", said="ping[AR"),
    Case("a name and a tag", "ping\n<a>1</a>", (("ping", {"a": "1"}),)),
    Case("a name and prose", "ping is a tool", said="ping is a tool"),
    Case("a name at the end", "ping", said="ping"),
    Case("the beginning of a name", "pin", said="pin"),
    Case(
        "a call of nobody",
        "call:walk{a: 1}",
        said="call:walk{a: 1}",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case("a call cut off", "call:pi", said="call:pi"),
    Case("a call in prose", "call: me", said="call: me"),
    Case("a name behind a dollar", "$ping(a=1)", said="$ping(a=1)"),
]


@pytest.mark.requirement("B2", "B7")
@each(BARE)
def test_a_bare_call_is_told_by_its_first_key_or_name(case: Case):
    check(case)


ONLY = [
    Case(
        "a tag of another dialect",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call>',
        said='<tool_call>{"name": "ping", "arguments": {}}</tool_call>',
        options={"dialect": "mistral"},
    ),
    Case(
        "a literal of another dialect",
        '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
        said='[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
        options={"dialect": "hermes"},
    ),
    Case(
        "a line of another dialect",
        "Action: ping\nAction Input: {}",
        said="Action: ping\nAction Input: {}",
        options={"dialect": "hermes"},
    ),
    Case(
        "a fence of another dialect",
        '```json action\n{"name": "ping", "arguments": {}}\n```',
        said='```json action\n{"name": "ping", "arguments": {}}\n```',
        options={"dialect": "hermes"},
    ),
    Case("a name where none is asked for", "ping(a=1)", said="ping(a=1)", options={"dialect": "hermes"}),
    Case(
        "an object where none is asked for",
        '{"name": "ping", "arguments": {}}',
        said='{"name": "ping", "arguments": {}}',
        options={"dialect": "hermes"},
    ),
    Case(
        "a tool tag where none is asked for",
        "<run><command>ls</command></run>",
        said="<run><command>ls</command></run>",
        options={"dialect": "hermes"},
    ),
    Case(
        "thinking is always understood",
        '<think>Hm.</think><tool_call>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
        reasoning="Hm.",
        options={"dialect": "hermes"},
    ),
]


@pytest.mark.requirement("B3")
@each(ONLY)
def test_a_dialect_that_was_asked_for_excludes_the_others(case: Case):
    check(case)


@pytest.mark.requirement("R-T12")
def test_a_mark_is_decided_within_bounds():
    marks = Marks(ParseContext((Tool("ping"),)))
    assert marks.line("call:" + "x" * 100, 0, False) == MORE
    assert marks.line("call:" + "x" * 1000, 0, False) == NONE
    assert marks.bare("{" + " " * 60, 0, False) == MORE
    assert marks.bare("{" + " " * 70, 0, False) == NONE
    assert marks.bare("[" + " " * 60, 0, False) == MORE
    assert marks.bare("[" + "x" * 200, 0, False) == NONE
    assert marks.line("ping" + " " * 30, 0, False) == NONE


def test_the_names_of_the_tools_are_marks():
    marks = Marks(ParseContext((Tool("ping"),)))
    assert marks.may_become_tag("pin")
    assert not marks.may_become_tag("pong")
    assert marks.tag("ping", True) == ("closer", None)
    assert marks.tag("pong", False) is None
    assert marks.tag("s", True) == ("closer", None)
    assert marks.tag("b", True) is None


@pytest.mark.requirement("B1", "B9")
@check_each("info", ["JSON Action", "json  action", "Json\taction", "Tool_Call"])
def test_case_and_spaces_of_an_info_string_mean_nothing(info: str):
    marks = Marks(ParseContext((Tool("ping"),)))
    opening = marks.fence(info, "```")
    assert opening is not None and (opening.dialect, opening.wrapper) == ("action", "strong")
    assert marks.is_result("JSON  Result") and not marks.is_result("JSON")
    reply = parse(f'```{info}\n{{"tool": "ping", "parameters": {{}}}}\n```', [{"name": "ping"}])
    assert [call.name for call in reply.calls] == ["ping"]


def test_the_nonce_is_still_wanted_behind_an_info_string_in_another_spelling():
    text = '```JSON  Action{}\n{{"tool": "ping", "parameters": {{}}}}\n```'
    assert [call.name for call in parse(text.format(" k7"), [{"name": "ping"}], nonce="k7").calls] == ["ping"]
    assert parse(text.format(""), [{"name": "ping"}], nonce="k7").calls == ()


#: What models make of a mark that they copy badly; none of it is the mark.
MISCOPIED = ["k7q2x", "k7q2xmb", "k72qxm", "K7Q2XM", '"k7q2x"', ":k7q2x", "mark=k7q2x", "get_weather", "x" * 32]


@pytest.mark.requirement("B1", "B7")
@check_each("info", ["json action", "JSON  Action", "action", "tool_call", "tool_code"])
@check_each("mark", MISCOPIED)
def test_a_fence_with_a_miscopied_nonce_is_a_call_without_it(info: str, mark: str):
    text = f'```{info} {mark}\n{{"tool": "ping", "parameters": {{}}}}\n```'
    reply = parse(text, [{"name": "ping"}], nonce="k7q2xm")
    assert reply.calls == () and reply.text == text
    assert [(each.name, each.reason) for each in reply.candidates] == [("ping", "no_nonce")]


@pytest.mark.requirement("B1")
@check_each("sign", [" k7q2xm", ' "k7q2xm"', " :k7q2xm", ":k7q2xm", " mark=k7q2xm", " Nonce: [k7q2xm]"])
def test_the_nonce_of_a_fence_counts_in_whatever_dress(sign: str):
    text = '```{}{}\n{{"tool": "ping", "parameters": {{}}}}\n```'
    reply = parse(text.format("json action", sign), [{"name": "ping"}], nonce="k7q2xm")
    assert [call.name for call in reply.calls] == ["ping"] and reply.text == ""
    assert Marks(ParseContext((), nonce="k7q2xm")).is_result(f"json result{sign}")


@check_each(
    "info",
    [
        "json",
        "json title=ping",
        "json k7q2x",
        "python",
        "json action plan of ping",
        "json action:",
        f"action {'x' * 33}",
    ],
)
def test_what_is_no_mark_behind_the_words_of_a_fence_opens_no_call(info: str):
    opening = Marks(ParseContext((Tool("ping"),), nonce="k7q2xm")).fence(info, "```")
    assert opening is None or opening.wrapper == "weak"


def test_a_fence_that_names_its_tool_does_so_with_and_without_a_nonce():
    marks = Marks(ParseContext((Tool("ping"),), nonce="k7q2xm"))
    openings = [marks.fence(info, "```") for info in ("tool ping", "tool:ping", "tool:ping k7q2xm", "tool k7q2xm")]
    assert [opening and opening.name for opening in openings] == ["ping", "ping", "ping", ""]


@check_each("body", ["steps: [one, two]\n", '{"tool": "pong", "parameters": {}}\n', "`` x\n", ""])
def test_a_fence_with_some_word_behind_its_words_stays_as_it_is(body: str):
    text = f"Look:\n\n```action draft\n{body}```\n\nDone."
    reply = parse(text, [{"name": "ping"}], nonce="k7q2xm")
    assert reply.calls == () and reply.text == text


def test_without_a_nonce_asked_for_a_word_behind_the_words_of_a_fence_is_no_mark():
    assert Marks(ParseContext((Tool("ping"),))).fence("json action k7q2xm", "```") is None


pytestmark = pytest.mark.requirement("B8")

PLACE = Marks(ParseContext((Tool("ping"),))).place


def at(text: str) -> int | None:
    """Where the first mark of a text may begin."""
    found = PLACE(text, 0)
    return None if found is None else found.start()


@check_each("mark", sorted(mark_tables().literals))
def test_every_beginning_of_a_literal_mark_is_a_place_where_the_text_ends(mark: str):
    assert [at("a " + mark[:length]) for length in range(1, len(mark) + 1)] == [2] * len(mark)


@check_each("word", sorted({*mark_tables().lines, "call:f{", "ping(", "ping {", "Action k7:"}))
def test_every_beginning_of_a_line_mark_makes_its_line_break_a_place(word: str):
    assert [at("a\n  " + word[:length]) for length in range(len(word) + 1)] == [1] * (len(word) + 1)
    assert at("a " + word.rstrip("[{(\n")) is None, "in the middle of a line it is nothing"


@check_each(
    ("text", "place"),
    [
        ("plain text, with 1 < 2 and a > b", None),
        ("a <b", 2),
        ("a </b", 2),
        ("a <", 2),
        ("`code` and ``more``.", None),
        ("a ```", 2),
        ("a `", 2),
        ('a {"name": 1}', 2),
        ("a {name = 1}", 2),
        ("a { ", 2),
        ("a{name: 1}", None),
        ("a {1: 2}", None),
        ('a {"name", 1}', None),
        ('a [{"name": 1}]', 2),
        ("a [f(x=1)]", 2),
        ("a [f", 2),
        ("a [1, 2] b", None),
        ("a [ ] b", None),
        ("a[f(x)] b", None),
        ("[TOOL_CALL is no mark", None),
        ("a\nb\nc d", None),
        ("a\n\n\nb c", None),
        ("a\n", 1),
        ("a\n ~~~", 1),
        ("a\n ~ b", None),
        ("a\nb (c)", 1),
        ("a\nword and (c)", None),
    ],
)
def test_a_place_is_where_something_goes_on_like_a_mark(text: str, place: int | None):
    assert at(text) == place


def test_a_mark_that_begins_another_one_is_enough():
    place = place_finder(["[A]", "[A]B"], ["x", "xy"])
    found = place("a [A]C", 0)
    assert found is not None and found.start() == 2
    found = place("a\nxz.", 0)
    assert found is not None and found.start() == 1


@given(st.text('<`{[]\n ~aA:("T/', max_size=30), st.text("ab<[{\n", max_size=8))
def test_a_place_that_is_none_stays_none_when_the_text_goes_on(text: str, more: str):
    """So that what was passed over need not be looked at again."""
    if at(text) is None:
        found = at(text + more)
        assert found is None or found >= len(text)


@check_each("text", ["Run <b>it</b>", "Run:\n<b>it</b>"])
def test_a_word_in_another_spelling_before_a_tag_begins_no_call(text: str):
    assert not parse(text, TOOLS).candidates
    assert parse(text.replace("Run", "run").replace("b>", "command>"), TOOLS).calls
