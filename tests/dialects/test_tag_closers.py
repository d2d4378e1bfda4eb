"""Calls written as tags: wrong and missing closers, names without tags, and limits."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import TOOLS, Case, check, each, tool
from toolspeak import Tool, parse
from toolspeak.core.json_repair.containers import MAX_SIZE

#: Tools that are called like tags of other families.
ODD = (*TOOLS, tool("tool", command="string"), tool("read", path="string", run="string"))

CLOSERS = [
    Case(
        "the next call begins",
        "<function=save><parameter=path>a</parameter><function=ping></function>",
        (
            ("save", {"path": "a"}),
            ("ping", {}),
        ),
        codes={"missing_close_tag", "wrong_closer"},
    ),
    Case(
        "the next block begins",
        '<tool_call><function=save><parameter=path>a</parameter><tool_call>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
        codes={"arguments_invalid", "wrong_closer"},
        verdicts=(
            ("save", "invalid", "arguments_invalid"),
            ("ping", "call", "accepted"),
        ),
    ),
    Case(
        "the block closes",
        "<tool_call><function=save><parameter=path>a</parameter></tool_call>",
        (("save", {"path": "a"}),),
    ),
    Case(
        "a token closes",
        "<tool_call><function=save><parameter=path>a</parameter><|tool_call_end|>",
        (("save", {"path": "a"}),),
        codes={"missing_close_tag"},
    ),
    Case(
        "another call tag closes", "<function=save><parameter=path>a</parameter></invoke>", (("save", {"path": "a"}),)
    ),
    Case(
        "the name of the tool closes", "<function=save><parameter=path>a</parameter></save>", (("save", {"path": "a"}),)
    ),
    Case(
        "a closer nobody asked for",
        "<function=save><n>1</n></foo><parameter=path>a</parameter></function>",
        codes={"arguments_invalid", "wrong_closer"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "text between parameters",
        "<function=save><parameter=path>a</parameter> and <n>2</n></function>",
        said="</function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "json in a fence that never closes",
        '<function=save>```\n{"path": "a"}\n``</function>',
        (("save", {"path": "a"}),),
        said="\n``</function>",
    ),
    Case(
        "json before a fence",
        '<function=save>{"path": "a"}\n```\n</function>',
        (("save", {"path": "a"}),),
        said="\n```\n</function>",
    ),
    Case(
        "a less-than sign between parameters",
        "<function=save><parameter=path>a</parameter> < 3 <n>2</n></function>",
        said="</function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "ticks between parameters",
        "<function=save><parameter=path>a</parameter>``` <n>2</n>```</function>",
        (("save", {"path": "a", "n": 2}),),
    ),
    Case(
        "one tick",
        "<function=save><parameter=path>a</parameter>` <n>2</n></function>",
        said="</function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "json without a closing tag", '<function=save>{"path": "a"}\nDone.', (("save", {"path": "a"}),), said="\nDone."
    ),
    Case(
        "json and other closers",
        '<function=save><args>{"path": "a"}</args></parameters></function>',
        (("save", {"path": "a"}),),
    ),
    Case("json and a wrong closer", '<function=save>{"path": "a"}</foo>', (("save", {"path": "a"}),), said="</foo>"),
    Case("json and an opening tag", '<function=save>{"path": "a"}<b>', (("save", {"path": "a"}),), said="<b>"),
    Case("json and a less-than sign", '<function=save>{"path": "a"} < 3', (("save", {"path": "a"}),), said=" < 3"),
    Case(
        "json and a long gap",
        '<function=save>{"path": "a"}' + " " * 300 + "</function>",
        (("save", {"path": "a"}),),
        said=" " * 300,
    ),
    Case("json and a bracket", '<function=save>{"path": "a"}]', (("save", {"path": "a"}),), said="]"),
    Case(
        "cut in the json",
        '<function=save>{"path": "a',
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case("cut behind the json", '<function=save>{"path": "a"}', (("save", {"path": "a"}),)),
    Case(
        "no json",
        "<function=save>{path of ours}</function>",
        said="of ours}</function>",
        codes={"arguments_invalid", "not_an_object", "unquoted_key"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "the closing tag of the call is missing",
        "<function=save><parameter=path>a</parameter>",
        (("save", {"path": "a"}),),
        codes={"missing_close_tag"},
    ),
    Case(
        "cut in a parameter",
        "<function=save><parameter=path>a",
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "cut in a tag",
        "<function=save><parameter=pa",
        codes={"stray_text", "truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "cut in a key",
        "<function=save><arg_key>pa",
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a long key",
        "<function=save><arg_key>" + "x" * 300 + "</arg_key><arg_value>1</arg_value></function>",
        said="x" * 300 + "</arg_key><arg_value>1</arg_value></function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "a less-than sign in a key",
        "<function=save><arg_key>a < b</function>",
        said="a < b</function>",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
    ),
    Case(
        "cut in ticks",
        "<function=save><parameter=path>a</parameter>``",
        codes={"truncated_call"},
        verdicts=(("save", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "cut in a fence",
        "<function=save><parameter=path>a</parameter>```js",
        (("save", {"path": "a"}),),
        codes={"missing_close_tag"},
    ),
    Case(
        "a fence behind the end",
        "<function=save><parameter=path>a</parameter></function>```",
        (("save", {"path": "a"}),),
        said="```",
    ),
]


@pytest.mark.requirement("B4", "B6")
@each(CLOSERS)
def test_wrong_and_missing_closers_are_taken_for_what_they_mean(case: Case):
    check(case)


BARE = [
    Case(
        "text behind it",
        "save\n<path>a</path>\n<n>1</n>\nThat is all.",
        said="save\n<path>a</path>\n<n>1</n>\nThat is all.",
        verdicts=(("save", "text", "more_follows"),),
    ),
    Case("the end", "save\n<path>a</path>", (("save", {"path": "a"}),)),
    Case(
        "the end in a parameter",
        "save\n<path>a",
        said="save\n<path>a",
        verdicts=(("save", "truncated", "truncated"),),
        codes={"truncated_call"},
        complete=False,
    ),
    Case(
        "a long gap",
        "save\n<path>a</path>" + " " * 300 + "x",
        said="save\n<path>a</path>" + " " * 300 + "x",
        verdicts=(("save", "text", "more_follows"),),
    ),
    Case(
        "another tool",
        "save\n<path>a</path>\n<run><command>ls</command></run>",
        (
            ("save", {"path": "a"}),
            ("run", {"command": "ls"}),
        ),
    ),
    Case("no parameter", "save\n</path> x", said="save\n</path> x"),
    Case(
        "text in a container",
        "save\n<input>hello",
        said="save\n<input>hello",
        verdicts=(("save", "text", "not_a_call"),),
    ),
    Case("text at once", "save\n<path/>text", said="save\n<path/>text", verdicts=(("save", "text", "more_follows"),)),
    Case(
        "a tag and nothing else",
        "ping\n<b>bold</b> move",
        said="ping\n<b>bold</b> move",
        verdicts=(("ping", "text", "more_follows"),),
    ),
    Case(
        "pairs",
        ("save\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>"),
        (("save", {"path": "a", "n": 1}),),
    ),
    Case("its own closer", "save\n<path>a</path></save>", (("save", {"path": "a"}),)),
    Case(
        "the closer of a block",
        "save\n<path>a</path></tool_call>",
        said="save\n<path>a</path></tool_call>",
        verdicts=(("save", "text", "more_follows"),),
    ),
]


@pytest.mark.requirement("B3", "B7")
@each(BARE)
def test_a_bare_name_before_tags_has_no_closing_tag(case: Case):
    check(case)


@pytest.mark.requirement("R-E6")
def test_a_call_that_is_too_large_is_refused():
    text = "<function=ping><parameter=a>" + "x" * MAX_SIZE + "</parameter></function>"
    reply = parse(text, TOOLS)
    assert reply.calls == ()
    assert [(each.name, each.verdict, each.reason) for each in reply.candidates] == [
        ("ping", "invalid", "arguments_invalid")
    ]
    assert [(note.code, note.detail) for note in reply.notes] == [("arguments_invalid", "`ping`: too_large")]


def test_a_repeated_parameter_is_a_list_where_the_schema_allows_it():
    text = "<function=f><parameter=a>1</parameter><parameter=a>2</parameter><parameter=a>3</parameter></function>"
    assert parse(text, [Tool("f")]).calls[0].arguments == {"a": ["1", "2", "3"]}
    assert parse(text, [tool("f", a="array")]).calls[0].arguments == {"a": [1, 2, 3]}
