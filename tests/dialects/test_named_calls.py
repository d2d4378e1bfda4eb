"""Calls that begin with their name: what may follow it, and what shows that the word is no name."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, Case, check, each, tool
from toolspeak.dialects.named_calls import clean_name

#: A tool with two texts and a tool without a schema say nothing about where a lone text belongs.
NOTE = (*TOOLS, tool("note", title="string", n="integer"))


@check_each("raw", ["ping", "ping:", "functions.ping", "functions.ping:0", "call:ping", "ping:12"])
def test_prefixes_and_numbers_are_no_part_of_a_name(raw: str):
    assert clean_name(raw) == "ping"


BRACKETS = [
    Case("python", '<tool_call>run(command="ls")</tool_call>', (("run", {"command": "ls"}),)),
    Case("python without arguments", "<tool_call>ping()</tool_call>", (("ping", {}),)),
    Case(
        "positional arguments",
        '<tool_call>pair("x", "y")</tool_call>',
        (("pair", {"a": "x", "b": "y"}),),
        codes={"positional_argument"},
    ),
    Case(
        "a positional object", '<tool_call>save({"path": "a", "n": 2})</tool_call>', (("save", {"path": "a", "n": 2}),)
    ),
    Case(
        "python literals",
        "<tool_call>save(ok=True, tags=['a', 'b'], n=3)</tool_call>",
        (("save", {"ok": True, "tags": ["a", "b"], "n": 3}),),
        codes={"python_literal", "single_quotes"},
    ),
    Case(
        "nested python",
        '<tool_call>save(opts={"k": [1, None]})</tool_call>',
        (("save", {"opts": {"k": [1, None]}}),),
        codes={"python_literal"},
    ),
    Case("json right behind the name", '<tool_call>run{"command": "ls"}</tool_call>', (("run", {"command": "ls"}),)),
    Case("json on the next line", '<tool_call>run\n{"command": "ls"}\n</tool_call>', (("run", {"command": "ls"}),)),
    Case("an escaped line break", '<tool_call>run\\n{"command": "ls"}</tool_call>', (("run", {"command": "ls"}),)),
    Case("args in brackets", '[TOOL_CALLS]run[ARGS]{"command": "ls"}', (("run", {"command": "ls"}),)),
    Case(
        "two of them",
        '[TOOL_CALLS]run[ARGS]{"command": "ls"}[TOOL_CALLS]ping[ARGS]{}',
        (
            ("run", {"command": "ls"}),
            ("ping", {}),
        ),
    ),
    Case(
        "a number behind the name",
        '<|tool_call_begin|>functions.run:3<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>',
        (("run", {"command": "ls"}),),
    ),
    Case("a prefix", '<tool_call>functions.run{"command": "ls"}</tool_call>', (("run", {"command": "ls"}),)),
    Case(
        "call and a colon",
        '<|tool_call>call:run{command:<|"|>ls<|"|>}<tool_call|>',
        (("run", {"command": "ls"}),),
        codes={"raw_quotes", "unquoted_key"},
    ),
    Case(
        "escape marks",
        "<start_function_call>call:save{path:<escape>a<escape>,n:2}<end_function_call>",
        (("save", {"path": "a", "n": 2}),),
        codes={"raw_quotes", "unquoted_key"},
    ),
    Case(
        "a fence behind the name",
        '<tool_call>run\n```json\n{"command": "ls"}\n```\n</tool_call>',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "a fence on the line of the name",
        '<tool_call>run ```{"command": "ls"}```</tool_call>',
        (("run", {"command": "ls"}),),
    ),
    Case("a separator tag", '<tool_call>run<tool_sep>{"command": "ls"}</tool_call>', (("run", {"command": "ls"}),)),
    Case("a bare line", 'run(command="ls")', (("run", {"command": "ls"}),)),
    Case("a bare line with json", 'run {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case("a bare line with a colon", 'run: {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case("a bare call", 'call:run{command: "ls"}', (("run", {"command": "ls"}),), codes={"unquoted_key"}),
]


@pytest.mark.requirement("B3")
@each(BRACKETS)
def test_a_name_and_brackets_are_a_call(case: Case):
    check(case)


LABELS = [
    Case(
        "function",
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n"
            "```json\n"
            '{"command": "ls"}\n'
            "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        (("run", {"command": "ls"}),),
    ),
    Case(
        "function and a gap",
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\n"
            " run\n"
            '{"command": "ls"}<｜tool▁call▁end｜>'
        ),
        (("run", {"command": "ls"}),),
    ),
    Case(
        "no label",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{"command": "ls"}<｜tool▁call▁end｜>',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "a tool that is called like the label",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜> {"a": 1}<｜tool▁call▁end｜>',
        (("function", {"a": 1}),),
        options={"tools": None},
    ),
    Case(
        "a call in tags behind the label",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜><steptml:invoke name="run">'
        '<steptml:parameter name="command">ls</steptml:parameter></steptml:invoke><｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "no tag behind the label",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>< 3",
        said="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>< 3",
    ),
    Case(
        "a number behind the label",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>42{}",
        said="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>42{}",
    ),
    Case(
        "nothing behind the label",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        said="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    ),
]


@pytest.mark.requirement("B3")
@each(LABELS)
def test_a_label_before_the_name_is_skipped(case: Case):
    check(case)


TAGS_BEHIND = [
    Case(
        "pairs",
        "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
        (("run", {"command": "ls"}),),
    ),
    Case(
        "pairs on a bare line",
        "run\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n",
        (("run", {"command": "ls"}),),
    ),
    Case("parameters", "<tool_call>run<parameter=command>ls</parameter></tool_call>", (("run", {"command": "ls"}),)),
    Case("nothing", "<tool_call>ping</tool_call>", (("ping", {}),)),
    Case("nothing and a line break", "<tool_call>ping\n</tool_call>", (("ping", {}),)),
    Case("nothing and a token", "<|tool_call_begin|>ping<|tool_call_end|>", (("ping", {}),)),
    Case("nothing on a bare line", "ping</tool_call>", said="ping</tool_call>"),
    Case(
        "a lost less-than sign",
        "<tool_call>function=run><parameter=command>ls</parameter></function></tool_call>",
        (("run", {"command": "ls"}),),
    ),
    Case("a lost less-than sign that never ends", "<tool_call>function=run", said="<tool_call>function=run"),
    Case(
        "a lost less-than sign without an end",
        "<tool_call>function=" + "x" * 300 + "</tool_call>",
        said="<tool_call>function=" + "x" * 300 + "</tool_call>",
    ),
]


@pytest.mark.requirement("B3")
@each(TAGS_BEHIND)
def test_tags_behind_a_name_are_its_arguments(case: Case):
    check(case)


SHORTHAND = [
    Case("one text", "<tool_call>run>uname -a</tool_call>", (("run", {"command": "uname -a"}),), codes={"shorthand"}),
    Case(
        "entities",
        "<tool_call>run>a &amp;&amp; b</tool_call>",
        (("run", {"command": "a &amp;&amp; b"}),),
        codes={"shorthand"},
    ),
    Case("lines of keys", "<tool_call>pair>a: 1\nb: 2</tool_call>", said="<tool_call>pair>a: 1\nb: 2</tool_call>"),
    Case(
        "keys for a tool with one text",
        "<tool_call>note>title: x\nn: 2</tool_call>",
        (("note", {"title": "x", "n": 2}),),
        codes={"shorthand", "string_to_number"},
        options={"tools": NOTE},
    ),
    Case("no schema", "<tool_call>ping>now</tool_call>", (("ping", {"command": "now"}),), codes={"shorthand"}),
    Case("two texts", "<tool_call>pair>x</tool_call>", said="<tool_call>pair>x</tool_call>"),
    Case("no text", "<tool_call>run></tool_call>", said="<tool_call>run></tool_call>"),
    Case(
        "an unknown tool",
        "<tool_call>walk>now</tool_call>",
        said="<tool_call>walk>now</tool_call>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "the text ends",
        "<tool_call>run>uname",
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case("no end for long", "<tool_call>run>" + "x" * 1200, said="<tool_call>run>" + "x" * 1200),
    Case(
        "lines",
        "<tool_call>run>cd /tmp\nls: x\n</tool_call>",
        (("run", {"command": "cd /tmp\nls: x"}),),
        codes={"shorthand"},
    ),
]


@pytest.mark.requirement("B3", "B4")
@each(SHORTHAND)
def test_a_text_goes_to_the_only_parameter_that_takes_one(case: Case):
    check(case)


ATTRIBUTES = [
    Case("one", '<tool_call>run command="ls -l"</tool_call>', (("run", {"command": "ls -l"}),)),
    Case(
        "several in both quotes",
        "<tool_call>pair a=\"1\" b='2 &lt; 3' /></tool_call>",
        (("pair", {"a": "1", "b": "2 &lt; 3"}),),
    ),
    Case(
        "something else between them",
        '<tool_call>run command="ls" now</tool_call>',
        said='<tool_call>run command="ls" now</tool_call>',
    ),
    Case("no attribute", "<tool_call>run the command ls</tool_call>", said="<tool_call>run the command ls</tool_call>"),
    Case("a slash", "<tool_call>run / ls</tool_call>", said="<tool_call>run / ls</tool_call>"),
    Case(
        "an unknown tool",
        '<tool_call>walk a="1"</tool_call>',
        said='<tool_call>walk a="1"</tool_call>',
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
]


@pytest.mark.requirement("B3")
@each(ATTRIBUTES)
def test_attributes_behind_a_name_are_arguments(case: Case):
    check(case)


WORDS = [
    Case("a sentence on a bare line", "ping me (soon)", said="ping me (soon)"),
    Case("a space before the bracket", "ping (a=1)", said="ping (a=1)"),
    Case("a tool without brackets", "run the command", said="run the command"),
    Case(
        "an unknown name",
        "<tool_call>walk()</tool_call>",
        said="<tool_call>walk()</tool_call>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "an unknown name with json",
        '<tool_call>walk{"a": 1}</tool_call>',
        said='<tool_call>walk{"a": 1}</tool_call>',
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case("an unknown bare name", "walk(a=1)", said="walk(a=1)"),
    Case("brackets that are no separator", "<tool_call>ping[1]</tool_call>", said="<tool_call>ping[1]</tool_call>"),
    Case("the beginning of a separator", "<tool_call>ping[AR", said="<tool_call>ping[AR"),
    Case(
        "a fence without an end",
        "<tool_call>ping```",
        codes={"truncated_call"},
        verdicts=(("ping", "truncated", "truncated"),),
        complete=False,
    ),
    Case("ticks", "<tool_call>ping`x`</tool_call>", said="<tool_call>ping`x`</tool_call>"),
    Case("a less-than sign", "<tool_call>ping < 3</tool_call>", said="<tool_call>ping < 3</tool_call>"),
    Case(
        "only the name",
        "<tool_call>ping",
        codes={"truncated_call"},
        verdicts=(("ping", "truncated", "truncated"),),
        complete=False,
    ),
    Case("only the name of nobody", "<tool_call>walk", said="<tool_call>walk"),
    Case("only the name on a bare line", "ping", said="ping"),
    Case(
        "a long gap",
        "<tool_call>ping" + " " * 400 + "{}</tool_call>",
        said="<tool_call>ping" + " " * 400 + "{}</tool_call>",
    ),
    Case(
        "a long gap behind a label",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>" + " " * 300 + "run{}",
        said="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>" + " " * 300 + "run{}",
    ),
    Case("a long word", "<tool_call>" + "x" * 5000 + "()", said="<tool_call>" + "x" * 5000 + "()"),
    Case(
        "no json behind the name",
        '<tool_call>run{"a" b c</tool_call>',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "cut inside the arguments",
        '<tool_call>run(command="l',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "cut inside bare arguments",
        'run(command="l',
        said='run(command="l',
        verdicts=(("run", "truncated", "truncated"),),
        codes={"truncated_call"},
        complete=False,
    ),
    Case(
        "without the nonce",
        "<tool_call>ping()</tool_call>",
        said="<tool_call>ping()</tool_call>",
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "a dollar",
        "<tool_call>$x()</tool_call>",
        said="<tool_call>$x()</tool_call>",
        codes={"unknown_tool"},
        verdicts=(("$x", "text", "unknown_tool"),),
    ),
    Case(
        "a bar behind the call",
        "<tool_call>ping<|foo|></tool_call>",
        (("ping", {}),),
        said="<|foo|>",
        codes=frozenset({"text_in_block"}),
    ),
]


@pytest.mark.requirement("B7")
@each(WORDS)
def test_a_word_without_arguments_is_text(case: Case):
    check(case)
