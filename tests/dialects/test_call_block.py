"""What stands behind a mark: which grammar is tried, what is decoration, and where the block ends."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import TOOLS, Case, check, each
from toolspeak import parse

GRAMMARS = [
    Case("an object", '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>', (("ping", {}),)),
    Case(
        "two objects",
        ('<tool_call>{"name": "ping", "arguments": {}}\n{"name": "ping", "arguments": {"a": 1}}</tool_call>'),
        (
            ("ping", {}),
            ("ping", {"a": 1}),
        ),
    ),
    Case(
        "objects with commas between them",
        ('<tool_call>{"name": "ping", "arguments": {}}, {"name": "ping", "arguments": {"a": 1}};\n</tool_call>'),
        (
            ("ping", {}),
            ("ping", {"a": 1}),
        ),
    ),
    Case(
        "a list of python calls",
        '<tool_call>[ping(), run(command="ls")]</tool_call>',
        (
            ("ping", {}),
            ("run", {"command": "ls"}),
        ),
    ),
    Case(
        "a list of python calls with a hyphen in the name",
        "<tool_call>[do-it(a=1)]</tool_call>",
        (("do-it", {"a": 1}),),
        options={"tools": None},
    ),
    Case("a name with json", '<tool_call>ping{"a": 1}</tool_call>', (("ping", {"a": 1}),)),
    Case(
        "tags",
        "<tool_call><function=run><parameter=command>ls</parameter></function></tool_call>",
        (("run", {"command": "ls"}),),
    ),
    Case(
        "a tag named like the tool",
        "<tool_call><run><command>ls</command></run></tool_call>",
        (("run", {"command": "ls"}),),
    ),
    Case(
        "the name in a tag of its own",
        "<tool_call><tool_name>run</tool_name><command>ls</command></tool_call>",
        (("run", {"command": "ls"}),),
    ),
    Case(
        "an invoke without a name",
        '<function_calls><invoke>{"name": "ping", "arguments": {}}</invoke></function_calls>',
        (("ping", {}),),
    ),
    Case(
        "a block in a block",
        '<tool_calls><tool_call>{"name": "ping", "arguments": {}}</tool_call></tool_calls>',
        (("ping", {}),),
    ),
    Case(
        "tokens around it",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        (("ping", {}),),
    ),
    Case(
        "two names in tokens",
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n"
            '<｜tool▁call▁begin｜>run<｜tool▁sep｜>{"command": "ls"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        (
            ("ping", {}),
            ("run", {"command": "ls"}),
        ),
    ),
    Case(
        "python calls on lines",
        '<function_calls>ping()\nrun(command="ls")</function_calls>',
        (
            ("ping", {}),
            ("run", {"command": "ls"}),
        ),
    ),
    Case("the name in the info string", '```tool run\n{"command": "ls"}\n```', (("run", {"command": "ls"}),)),
    Case(
        "the name in the info string behind a colon",
        '```tool:run\n{"command": "ls"}\n```',
        (("run", {"command": "ls"}),),
    ),
]


@pytest.mark.requirement("B2", "B3")
@each(GRAMMARS)
def test_every_grammar_is_understood_behind_every_mark(case: Case):
    check(case)


def test_several_brackets_that_close_nothing_are_noted_once():
    reply = parse('<tool_call>{"name": "ping", "arguments": {}}}]</tool_call>', TOOLS)
    assert [note.code for note in reply.notes].count("extra_closer") == 1


DECORATION = [
    Case("a fence", '<tool_call>\n```json\n{"name": "ping", "arguments": {}}\n```\n</tool_call>', (("ping", {}),)),
    Case("a fence without a word", '<tool_call>```\n{"name": "ping", "arguments": {}}```</tool_call>', (("ping", {}),)),
    Case(
        "noise", '<tool_call>]<]minimax[>[{"name": "ping", "arguments": {}}]<]minimax[>[</tool_call>', (("ping", {}),)
    ),
    Case(
        "thinking inside",
        '<tool_call><think>which one?</think>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "prose before the json",
        '<tool_call>\nHere is the call:\n{"name": "ping", "arguments": {}}\n</tool_call>',
        (("ping", {}),),
    ),
    Case("words of the family", '<|message_sep|>function call{"name": "ping", "arguments": {}}', (("ping", {}),)),
    Case("no words of the family", '<|function_call|>{"name": "ping", "arguments": {}}', (("ping", {}),)),
    Case(
        "a plugin token", '<|action_start|><|plugin|>{"name": "ping", "arguments": {}}<|action_end|>', (("ping", {}),)
    ),
    Case(
        "a bracket too many",
        '<tool_call>{"name": "ping", "arguments": {}}]</tool_call>',
        (("ping", {}),),
        "",
        {"extra_closer"},
    ),
    Case(
        "a brace too many",
        '<tool_call>{"name": "ping", "arguments": {}}}</tool_call>',
        (("ping", {}),),
        "",
        {"extra_closer"},
    ),
    Case("a long gap", "<tool_call>" + " " * 300 + '{"name": "ping", "arguments": {}}</tool_call>', (("ping", {}),)),
    Case(
        "a gap behind the call",
        '<tool_call>{"name": "ping", "arguments": {}}' + " " * 300 + "</tool_call>",
        (("ping", {}),),
    ),
]


@pytest.mark.requirement("B3")
@each(DECORATION)
def test_decoration_around_a_call_is_skipped(case: Case):
    check(case)


CLOSERS = [
    Case(
        "another tag",
        '<tool_call>{"name": "ping", "arguments": {}}</function_call>',
        (("ping", {}),),
        codes={"wrong_close_tag"},
    ),
    Case(
        "a token",
        '<tool_call>{"name": "ping", "arguments": {}}<|im_end|>',
        (("ping", {}),),
        codes={"missing_close_tag"},
    ),
    Case("a closing bracket tag", '[TOOL_CALLS]{"name": "ping", "arguments": {}}[/TOOL_CALLS]', (("ping", {}),)),
    Case("gemma's mirror", "<|tool_call>call:ping{}<tool_call|>", (("ping", {}),)),
    Case("a longer fence", '```json action\n{"name": "ping", "arguments": {}}\n`````', (("ping", {}),)),
    Case(
        "the next fence",
        (
            "```json action\n"
            '{"name": "ping", "arguments": {}}\n'
            "```json action\n"
            '{"name": "ping", "arguments": {"a": 1}}\n'
            "```"
        ),
        (
            ("ping", {}),
            ("ping", {"a": 1}),
        ),
        said="\n",
        codes={"missing_close_tag"},
    ),
    Case("tildes", '~~~json action\n{"name": "ping", "arguments": {}}\n~~~', (("ping", {}),)),
    Case("nothing", '<tool_call>{"name": "ping", "arguments": {}}', (("ping", {}),), "", {"missing_close_tag"}),
    Case(
        "nothing but text behind it",
        '[TOOL_CALLS]{"name": "ping", "arguments": {}} and so on',
        (("ping", {}),),
        said=" and so on",
    ),
    Case(
        "text behind the closer",
        '<tool_call>{"name": "ping", "arguments": {}}</tool_call> Done.',
        (("ping", {}),),
        said=" Done.",
    ),
    Case(
        "a word behind the call",
        '<tool_call>{"name": "ping", "arguments": {}} thanks</tool_call>',
        (("ping", {}),),
        said=" thanks",
        codes=frozenset({"text_in_block"}),
    ),
    Case(
        "a word with a bracket behind the call",
        '<tool_call>{"name": "ping", "arguments": {}} thanks [A]</tool_call>',
        (("ping", {}),),
        said=" thanks [A]",
        codes=frozenset({"text_in_block"}),
    ),
    Case(
        "the next block in it",
        '<tool_call>{"name": "ping", "arguments": {}}<tool_call>{"name": "ping", "arguments": {"a": 1}}</tool_call>',
        (
            ("ping", {}),
            ("ping", {"a": 1}),
        ),
        codes={"missing_close_tag"},
    ),
    Case(
        "a result in it",
        '<tool_call>{"name": "ping", "arguments": {}}<tool_response>42</tool_response>',
        (("ping", {}),),
        codes={"invented_result", "missing_close_tag"},
    ),
    Case(
        "text behind a call that the fence named",
        '```tool run\n{"command": "ls"}\nand more\n```',
        (("run", {"command": "ls"}),),
        said="\nand more\n```",
    ),
]


@pytest.mark.requirement("B3")
@each(CLOSERS)
def test_any_closer_of_a_call_ends_the_block(case: Case):
    check(case)


NOTHING = [
    Case("an empty one", "<tool_call></tool_call>", said="<tool_call></tool_call>"),
    Case("blank", "<tool_call>  \n </tool_call>", said="<tool_call>  \n </tool_call>"),
    Case("only the mark", "<tool_call>", said="<tool_call>"),
    Case("prose", "<tool_call>I would like to help.</tool_call>", said="<tool_call>I would like to help.</tool_call>"),
    Case(
        "prose with a colon but no call",
        "<tool_call>Here it is:\n42</tool_call>",
        said="<tool_call>Here it is:\n42</tool_call>",
    ),
    Case(
        "prose with a brace in its line",
        '<tool_call>Here it is {"name": "ping"}</tool_call>',
        said='<tool_call>Here it is {"name": "ping"}</tool_call>',
        verdicts=(("ping", "text", "more_follows"),),
    ),
    Case("a number", "<tool_call>42</tool_call>", said="<tool_call>42</tool_call>"),
    Case("a bracket", "<tool_call>]</tool_call>", said="<tool_call>]</tool_call>"),
    Case("the beginning of noise", "<tool_call>]<]mini</tool_call>", said="<tool_call>]<]mini</tool_call>"),
    Case("a bracket at the end", "<tool_call>]", said="<tool_call>]"),
    Case("a list of words", "<tool_call>[one, two]</tool_call>", said="<tool_call>[one, two]</tool_call>"),
    Case("a list that ends", "<tool_call>[ping", said="<tool_call>[ping"),
    Case("a fence that ends", "<tool_call>```json", said="<tool_call>```json"),
    Case("ticks", "<tool_call>``</tool_call>", said="<tool_call>``</tool_call>"),
    Case("a token nobody knows", "<tool_call><|foo|></tool_call>", said="<tool_call><|foo|></tool_call>"),
    Case("a less-than sign", "<tool_call>< 3</tool_call>", said="<tool_call>< 3</tool_call>"),
    Case("a tag that never ends", "<tool_call><function=ping", said="<tool_call><function=ping"),
    Case(
        "a closing tag of thinking",
        '<tool_call></think>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
        said="<tool_call>",
        codes={"reasoning_unopened"},
    ),
    Case(
        "thinking that never ends",
        '<tool_call><think>{"name": "ping", "arguments": {}}</tool_call>',
        said='<tool_call><think>{"name": "ping", "arguments": {}}</tool_call>',
    ),
    Case(
        "too many blocks in blocks",
        '<tool_calls><tool_call><tool_call><tool_call>{"name": "ping", "arguments": {}}</tool_call></tool_calls>',
        (("ping", {}),),
        said="<tool_calls><tool_call><tool_call>",
    ),
    Case(
        "a tag in a weak fence",
        "```json\n<run><command>ls</command></run>\n```",
        said="```json\n<run><command>ls</command></run>\n```",
        verdicts=(("run", "text", "in_fence"),),
    ),
    Case(
        "an object that is no call in a weak fence",
        '```json\n{"a": 1}\n```',
        said='```json\n{"a": 1}\n```',
        verdicts=(("", "text", "not_a_call"),),
    ),
    Case("a word in a weak fence", "```json\n ping()\n```", said="```json\n ping()\n```"),
    Case(
        "a token in a fence",
        '```json\n{"name": "ping", "arguments": {}}\n<|foo|>\n```',
        said='```json\n{"name": "ping", "arguments": {}}\n<|foo|>\n```',
        verdicts=(("ping", "text", "more_follows"),),
    ),
]


@pytest.mark.requirement("B7")
@each(NOTHING)
def test_a_block_without_a_call_is_text(case: Case):
    check(case)


SIGNED = [
    Case(
        "in the tag",
        '<tool_call k7>{"name": "ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
        options={"nonce": "k7"},
    ),
    Case(
        "in the info string",
        '```json action k7\n{"name": "ping", "arguments": {}}\n```',
        (("ping", {}),),
        options={"nonce": "k7"},
    ),
    Case(
        "behind the mark", '[TOOL_CALLS] k7 {"name": "ping", "arguments": {}}', (("ping", {}),), options={"nonce": "k7"}
    ),
    Case(
        "behind a token", '<|python_tag|>k7{"name": "ping", "arguments": {}}', (("ping", {}),), options={"nonce": "k7"}
    ),
    Case(
        "part of a longer word",
        '[TOOL_CALLS] k72 {"name": "ping", "arguments": {}}',
        said='[TOOL_CALLS] k72 {"name": "ping", "arguments": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "another word",
        '[TOOL_CALLS] k8 {"name": "ping", "arguments": {}}',
        said='[TOOL_CALLS] k8 {"name": "ping", "arguments": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "none",
        '[TOOL_CALLS]{"name": "ping", "arguments": {}}',
        said='[TOOL_CALLS]{"name": "ping", "arguments": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case("nothing else", "[TOOL_CALLS] k7", said="[TOOL_CALLS] k7", options={"nonce": "k7"}),
    Case("cut inside", "[TOOL_CALLS] k", said="[TOOL_CALLS] k", options={"nonce": "k7"}),
    Case(
        "a mark of another turn",
        '<tool_call k6>{"name": "ping", "arguments": {}}</tool_call>',
        said='<tool_call k6>{"name": "ping", "arguments": {}}</tool_call>',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
]


@pytest.mark.requirement("R-E2", "B1")
@each(SIGNED)
def test_the_nonce_stands_in_the_mark_or_right_behind_it(case: Case):
    check(case)
