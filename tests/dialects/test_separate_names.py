"""Calls whose name has a tag of its own, tags that lack their bracket, recipients behind `>>>`, and flags for keys."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import TOOLS, Case, by_character, check, each, tool
from toolspeak import parse

LS = '{"command": "ls </arguments> -la"}'
LS_CALL = (("run", {"command": "ls </arguments> -la"}),)
RUN_LS = (("run", {"command": "ls -la"}),)
#: A tool that takes one text, one that takes two, and one that a program calls like a mark.
MCP = (tool("use_mcp_tool", server_name="string", tool_name="string"), tool("run", command="string"))

APART = [
    Case("name and input", "<tool>run</tool><tool_input>ls -la</tool_input>", RUN_LS),
    Case("name and JSON input", f"<tool>run</tool>\n<tool_input>{LS}</tool_input>", LS_CALL),
    Case(
        "name and parameters",
        "<tool_name>run</tool_name>\n<parameters>\n<command>ls -la</command>\n</parameters>",
        RUN_LS,
    ),
    Case(
        "the input as a JSON string",
        '<tool>run</tool><tool_input>"{\\"command\\": \\"ls -la\\"}"</tool_input>',
        RUN_LS,
        codes={"string_arguments"},
    ),
    Case("text behind it", f"<name>run</name>\n<arguments>{LS}</arguments>\nDone.", LS_CALL, said="\nDone."),
    Case(
        "parameters without a container",
        '<function_name>run</function_name><parameter name="command">ls -la</parameter>\nDone.',
        RUN_LS,
        said="\nDone.",
    ),
    Case(
        "without tools the text is the input",
        "<tool>search</tool><tool_input>foo</tool_input>",
        (("search", {"input": "foo"}),),
        options={"tools": None},
    ),
    Case(
        "a name that the wrong tag closes",
        "<name>run\n</parameter>\n<parameter=command>\nls -la\n</parameter>\n</function>",
        RUN_LS,
        codes={"wrong_close_tag"},
    ),
    Case(
        "the end of the text behind a parameter",
        "<tool_name>run</tool_name>\n<parameter=command>ls -la</parameter>",
        RUN_LS,
    ),
    Case(
        "all arguments in one nameless parameter",
        f"<tool_use><name>run</name><parameter> {LS}</parameter></tool_use>",
        LS_CALL,
    ),
    Case(
        "the server before the name",
        f"<use_mcp_tool>\n<server_name>x</server_name>\n<tool_name>run</tool_name>\n<arguments>\n{LS}\n</arguments>\n</use_mcp_tool>",
        LS_CALL,
    ),
    Case(
        "a tool of that name",
        "<use_mcp_tool>\n<server_name>x</server_name>\n<tool_name>run</tool_name>\n</use_mcp_tool>",
        (("use_mcp_tool", {"server_name": "x", "tool_name": "run"}),),
        options={"tools": MCP},
    ),
    Case(
        "a tag without its bracket",
        "<pair\n  <a>x</a>\n  <b>y</b>\n/>",
        (("pair", {"a": "x", "b": "y"}),),
        codes={"missing_close_tag"},
    ),
    Case(
        "a tag without its bracket that is closed",
        "<pair\n  <a>x</a>\n</pair>",
        (("pair", {"a": "x"}),),
    ),
]

NOT_APART = [
    Case("an element", "<name>run</name>\n<age>3</age>", said="<name>run</name>\n<age>3</age>"),
    Case("a mention", "<tool>run</tool> is what I have.", said="<tool>run</tool> is what I have."),
    Case("nothing behind it", "<name>run</name>", said="<name>run</name>"),
    Case(
        "a far gap",
        "<name>run</name>" + " " * 300 + "<arguments>{}</arguments>",
        said="<name>run</name>" + " " * 300 + "<arguments>{}</arguments>",
    ),
    Case("a tag that is none", "<name>run</name>< b", said="<name>run</name>< b"),
]


@pytest.mark.requirement("B2", "B3", "B8")
@each(APART)
def test_a_name_in_a_tag_of_its_own_is_a_call_with_what_follows(case: Case):
    check(case)


RECIPIENTS = [
    Case("in the middle of a line", f"On it.>>>run\n{LS}", LS_CALL, said="On it."),
    Case("everybody first", f">>>all\nOn it.>>>run\n{LS}>>>ping\n{{}}", (*LS_CALL, ("ping", {})), said="On it."),
    Case("everybody last", f">>>run\n{LS}\n>>>all\nDone.", LS_CALL, said="\nDone."),
    Case("an unknown tool", ">>>jump\n{}", said=">>>jump\n{}"),
    Case("not asked for", f">>>run\n{LS}", said=f">>>run\n{LS}", options={"dialect": "hermes"}),
    Case("a longer line", ">>>run it\n{}", said=">>>run it\n{}"),
    Case("a very long line", ">>>" + "a" * 200, said=">>>" + "a" * 200),
    Case("nothing", "a >> b >", said="a >> b >"),
    Case(
        "a tool for everybody",
        ">>>all\n{}",
        (("all", {}),),
        options={"tools": (tool("all"),)},
    ),
]


@pytest.mark.requirement("B3", "B7", "B8")
@each(RECIPIENTS)
def test_a_recipient_ends_its_line(case: Case):
    check(case)


@pytest.mark.requirement("B3")
def test_without_tools_every_key_of_a_keyed_list_is_a_name():
    check(
        Case(
            "keyed",
            '<|tools_prefix|>[{"name": {"a": 1}}, {"input": {}}]<|tools_suffix|>',
            (("name", {"a": 1}), ("input", {})),
            options={"tools": None},
        )
    )


@pytest.mark.requirement("B7", "B8")
@each(NOT_APART)
def test_a_name_that_no_arguments_follow_is_text(case: Case):
    reply = parse(case.text, TOOLS)
    assert reply.calls == ()
    assert reply.text == case.said
    assert by_character(case.text, tools=TOOLS) == reply


@pytest.mark.requirement("B5", "B7")
def test_text_that_could_be_for_two_parameters_is_for_none():
    text = "<tool>pair</tool><tool_input>x</tool_input>"
    reply = parse(text, TOOLS)
    assert reply.calls == ()
    assert [(each.name, each.verdict) for each in reply.candidates] == [("pair", "invalid")]
    assert by_character(text, tools=TOOLS) == reply
