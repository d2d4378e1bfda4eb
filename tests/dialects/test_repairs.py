"""The same repairs in the arguments of every family, each with its note; and marks that were not closed."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import Case, check, codes_of, each
from toolspeak import Tool, parse

RUN = (("run", {"command": "ls"}),)

#: How families write a call, around its arguments.
FAMILIES = {
    "hermes": '<tool_call>{{"name": "run", "arguments": {}}}</tool_call>',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek in ASCII": "<|tool_calls_begin|><|tool_call_begin|>run<|tool_sep|>{}<|tool_call_end|><|tool_calls_end|>",
    "kimi_k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "mistral": '[TOOL_CALLS][{{"name": "run", "arguments": {}}}]',
    "devstral": "[TOOL_CALLS]run[ARGS]{}</s>",
    "devstral with an id": "[TOOL_CALLS]run[CALL_ID]a1[ARGS]{}</s>",
    "react": "Action: run\nAction Input: {}\nObservation:",
    "react in bold": "**Action:** run\n**Action Input:** {}\n**Observation:**",
    "flowers": "✿FUNCTION✿: run\n✿ARGS✿: {}✿RESULT✿",
    "harmony": "<|channel|>commentary to=functions.run <|message|>{}<|call|>",
    "functionary": "<function=run>{}</function>",
    "a named tag": '<tool_call name="run">{}</tool_call>',
    "llama": '<|python_tag|>{{"name": "run", "parameters": {}}}<|eom_id|>',
    "command_r": '<|START_ACTION|>[{{"tool_name": "run", "parameters": {}}}]<|END_ACTION|>',
    "apertus": '<|tools_prefix|>[{{"run": {}}}]<|tools_suffix|>',
}
#: What models make of `{"command": "ls"}`, and the note that says so.
BODIES = {
    "missing_closer": '{"command": "ls"',
    "string_arguments": '"{\\"command\\": \\"ls\\"}"',
    "fullwidth": '｛"command"： "ls"｝',
    "extra_closer": '{"command": "ls"}}',
    "trailing_comma": '{"command": "ls",}',
}


@pytest.mark.requirement("B4")
@check_each("family", FAMILIES)
@check_each("repair", BODIES)
def test_arguments_are_repaired_in_every_family_and_that_is_said(family: str, repair: str):
    text = FAMILIES[family].format(BODIES[repair])
    reply = parse(text, [Tool("run", parameters={"type": "object", "properties": {"command": {"type": "string"}}})])
    assert [(call.name, call.arguments) for call in reply.calls] == list(RUN)
    assert repair in codes_of(reply)
    assert reply.text.strip() == ""


@pytest.mark.requirement("B4")
@check_each("family", FAMILIES)
def test_arguments_that_need_no_repair_leave_no_note(family: str):
    reply = parse(FAMILIES[family].format('{"command": "ls"}'), [Tool("run")])
    assert [(call.name, call.arguments) for call in reply.calls] == list(RUN)
    assert codes_of(reply) <= {"invented_result"}


NO_ARGUMENTS = [
    Case("a quoted word behind a name", '<tool_call>run "ls"</tool_call>', said='<tool_call>run "ls"</tool_call>'),
    Case(
        "a quoted word behind a separator",
        '[TOOL_CALLS]run[ARGS]"ls"',
        verdicts=(("run", "truncated", "truncated"),),
        codes={"truncated_call"},
        complete=False,
    ),
    Case(
        "a quoted word and a sentence behind a separator",
        '[TOOL_CALLS]run[ARGS]"ls" <b>is it</b>',
        said='[TOOL_CALLS]run[ARGS]"ls" <b>is it</b>',
    ),
    Case(
        "a quoted word in a tag",
        '<function=run>"ls"</function>',
        said='<function=run>"ls"</function>',
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "a quote that is cut",
        '<function=run>"',
        said='<function=run>"',
        verdicts=(("run", "truncated", "truncated"),),
        codes={"truncated_call"},
        complete=False,
    ),
    Case("a quoted line is a line", 'Action: run\nAction Input: "ls"\n', (("run", {"command": '"ls"'}),), said="\n"),
]


@pytest.mark.requirement("B4", "B7")
@each(NO_ARGUMENTS)
def test_a_quoted_text_is_no_object(case: Case):
    check(case)


CUT = [
    ("a brace is missing at the end", '[TOOL_CALLS]run[ARGS]{"command": "ls"'),
    ("a token is not there", '<|tool_calls_begin|><|tool_call_begin|>run<|tool_sep|>{"command": "ls"'),
]


@pytest.mark.requirement("B6")
@check_each("text", [text for _, text in CUT], ids=[name.replace(" ", "-") for name, _ in CUT])
def test_a_missing_brace_at_the_end_of_the_text_is_no_repair(text: str):
    reply = parse(text, [Tool("run")])
    assert reply.calls == ()
    assert not reply.complete


UNCLOSED = [
    Case("a tag", '<tool_call>{"name": "run", "arguments": {"command": "ls"}}', RUN, codes={"missing_close_tag"}),
    Case(
        "a tag, then text",
        '<tool_call>{"name": "run", "arguments": {"command": "ls"}}\nWait.',
        RUN,
        said="\nWait.",
        codes={"missing_close_tag"},
    ),
    Case(
        "a fence",
        '```json action\n{"tool": "run", "parameters": {"command": "ls"}}',
        RUN,
        codes={"missing_close_tag"},
    ),
    Case(
        "another closer",
        '<tool_call>{"name": "run", "arguments": {"command": "ls"}}</function>',
        RUN,
        codes={"wrong_close_tag"},
    ),
    Case("a mark that nobody closes", '[TOOL_CALLS][{"name": "run", "arguments": {"command": "ls"}}]', RUN),
    Case("a tag that many leave open", '<function_call>{"name": "run", "arguments": {"command": "ls"}}', RUN),
    Case(
        "a prefix that means nothing",
        '<minimax:tool_call>{"name": "run", "arguments": {"command": "ls"}}</minimax:tool_call>',
        RUN,
    ),
]


@pytest.mark.requirement("B4")
@each(UNCLOSED)
def test_a_missing_or_wrong_closing_mark_is_noted(case: Case):
    check(case)
