"""Calls told by lines and headers: ReAct and harmony channels."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import Case, check, each
from toolspeak.core.parsing.acceptance import Evidence
from toolspeak.core.parsing.context import ParseContext
from toolspeak.dialects.line_calls import LineReader

REACT = [
    Case("json", 'Action: run\nAction Input: {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case(
        "thoughts before it",
        'Thought: look around\nAction: run\nAction Input: {"command": "ls"}\n',
        (("run", {"command": "ls"}),),
        said="Thought: look around\n\n",
    ),
    Case("a line of text", "Action: run\nAction Input: ls -l\n", (("run", {"command": "ls -l"}),), said="\n"),
    Case("a line of text at the end", "Action: run\nAction Input: ls -l", (("run", {"command": "ls -l"}),)),
    Case("text for a tool without a schema", "Action: ping\nAction Input: now", (("ping", {"input": "now"}),)),
    Case("text for a tool with two texts", "Action: pair\nAction Input: x", (("pair", {"input": "x"}),)),
    Case(
        "no input",
        "Action: ping\nAction Input: \n\n",
        said="Action: ping\nAction Input: \n\n",
        codes={"truncated_call"},
        verdicts=(("ping", "truncated", "truncated"),),
        complete=False,
    ),
    Case("json on the next line", 'Action: run\nAction Input:\n{"command": "ls"}', (("run", {"command": "ls"}),)),
    Case(
        "a fence around the json",
        'Action: run\nAction Input: ```json\n{"command": "ls"}\n```\n',
        (("run", {"command": "ls"}),),
        said="\n",
    ),
    Case(
        "a fence that never closes",
        'Action: run\nAction Input: ```json\n{"command": "ls"}\n',
        (("run", {"command": "ls"}),),
        said="\n",
    ),
    Case(
        "a fence with text behind it",
        'Action: run\nAction Input: ```json\n{"command": "ls"}\n``` done',
        (("run", {"command": "ls"}),),
        said=" done",
    ),
    Case(
        "text behind a fence that never closes",
        'Action: run\nAction Input: ```json\n{"command": "ls"}\nand so on',
        (("run", {"command": "ls"}),),
        said="\nand so on",
    ),
    Case("a call around the json", 'Action: run\nAction Input: run({"command": "ls"})', (("run", {"command": "ls"}),)),
    Case(
        "a call that never closes",
        'Action: run\nAction Input: run({"command": "ls"}\nDone.',
        (("run", {"command": "ls"}),),
        said="\nDone.",
    ),
    Case("decorated names", 'Action: **`run`**\nAction Input: {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case("a quoted name", 'Action: [run]\r\nAction Input: {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case("a gap", 'Action: run\n\n  Action Input:   {"command": "ls"}', (("run", {"command": "ls"}),)),
    Case(
        "two of them",
        'Action: run\nAction Input: {"command": "ls"}\nAction: ping\nAction Input: {}',
        (
            ("run", {"command": "ls"}),
            ("ping", {}),
        ),
        said="\n",
    ),
    Case(
        "the nonce in the mark",
        'Action k7: run\nAction Input: {"command": "ls"}',
        (("run", {"command": "ls"}),),
        options={"nonce": "k7"},
    ),
    Case(
        "the nonce before the name",
        'Action: k7 run\nAction Input: {"command": "ls"}',
        (("run", {"command": "ls"}),),
        options={"nonce": "k7"},
    ),
    Case(
        "the nonce in bold",
        '**Action k7:** run\nAction Input: {"command": "ls"}',
        (("run", {"command": "ls"}),),
        options={"nonce": "k7"},
    ),
    Case("text in ticks", "Action: run\nAction Input: `ls`\n", (("run", {"command": "`ls`"}),), said="\n"),
]


@pytest.mark.requirement("B2")
@each(REACT)
def test_an_action_and_its_input_are_a_call(case: Case):
    check(case)


OBSERVED = [
    Case(
        "behind json",
        'Action: run\nAction Input: {"command": "ls"}\nObservation: a.py\nThought: done',
        (("run", {"command": "ls"}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case(
        "behind text",
        "Action: run\nAction Input: ls\nObservation: a.py",
        (("run", {"command": "ls"}),),
        said="\n",
        codes={"invented_result"},
    ),
    Case("before any action", "Observation: a.py\n", said="Observation: a.py\n"),
]


@pytest.mark.requirement("B9")
@each(OBSERVED)
def test_an_observation_after_the_own_action_is_cut_off(case: Case):
    check(case)


NO_ACTION = [
    Case(
        "an unknown tool",
        "Action: walk\nAction Input: {}",
        said="Action: walk\nAction Input: {}",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case(
        "a sentence",
        "Action: we should all go home\nAction Input: {}",
        said="Action: we should all go home\nAction Input: {}",
    ),
    Case("no input", "Action: run\nThen rest.", said="Action: run\nThen rest."),
    Case("the text ends behind the name", "Action: run", said="Action: run"),
    Case("the text ends behind the line of the name", "Action: run\n", said="Action: run\n"),
    Case("the text ends in the label", "Action: run\nAction Inp", said="Action: run\nAction Inp"),
    Case(
        "the text ends behind the label",
        "Action: run\nAction Input:",
        said="Action: run\nAction Input:",
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "the text ends inside the json",
        'Action: run\nAction Input: {"command": "l',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "the text ends inside a fence",
        "Action: run\nAction Input: ```json",
        said="Action: run\nAction Input: ```json",
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "a long name", "Action: " + "x" * 300 + "\nAction Input: {}", said="Action: " + "x" * 300 + "\nAction Input: {}"
    ),
    Case(
        "a long gap",
        "Action: run" + "\n" * 300 + "Action Input: {}",
        said="Action: run" + "\n" * 300 + "Action Input: {}",
    ),
    Case(
        "a long line of text",
        "Action: run\nAction Input: " + "x" * 5000 + "\n",
        said="Action: run\nAction Input: " + "x" * 5000 + "\n",
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "a long info string",
        "Action: run\nAction Input: ```" + "x" * 300 + "\n{}",
        said="Action: run\nAction Input: ```" + "x" * 300 + "\n{}",
        verdicts=(("run", "text", "not_a_call"),),
    ),
    Case(
        "no json",
        'Action: run\nAction Input: {"command" of ours',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "behind the final answer",
        'Final Answer: 42\nAction: run\nAction Input: {"command": "ls"}',
        said='Final Answer: 42\nAction: run\nAction Input: {"command": "ls"}',
    ),
    Case(
        "another word than the nonce before the name",
        'Action: k8 run\nAction Input: {"command": "ls"}',
        said='Action: k8 run\nAction Input: {"command": "ls"}',
        verdicts=(("run", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "a line that only begins so",
        "Action items for today",
        said="Action items for today",
        options={"nonce": "k7"},
    ),
    Case(
        "another dialect",
        'Action k7: run\nAction Input: {"command": "ls"}',
        said='Action k7: run\nAction Input: {"command": "ls"}',
        options={"nonce": "k7", "dialect": "hermes"},
    ),
    Case(
        "without the nonce",
        'Action: run\nAction Input: {"command": "ls"}',
        said='Action: run\nAction Input: {"command": "ls"}',
        verdicts=(("run", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "in the middle of a line",
        'The Action: run\nAction Input: {"command": "ls"}',
        said='The Action: run\nAction Input: {"command": "ls"}',
    ),
]


@pytest.mark.requirement("B7", "R-E2")
@each(NO_ACTION)
def test_an_action_without_a_tool_or_an_input_is_text(case: Case):
    check(case)


HARMONY = [
    Case(
        "a call",
        '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "thinking before it",
        '<|channel|>analysis<|message|>Look around.<|end|><|start|>assistant<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>',
        (("run", {"command": "ls"}),),
        reasoning="Look around.",
    ),
    Case(
        "the recipient before the channel",
        '<|start|>assistant to=functions.run<|channel|>commentary json<|message|>{"command": "ls"}<|call|>',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "no prefix", '<|channel|>commentary to=run<|message|>{"command": "ls"}<|call|>', (("run", {"command": "ls"}),)
    ),
    Case(
        "no mark before it",
        'to=functions.run<|channel|>commentary<|message|>{"command": "ls"}',
        (("run", {"command": "ls"}),),
    ),
    Case(
        "a tool called like a person",
        "<|channel|>commentary to=functions.user<|message|>{}<|call|>",
        (("user", {}),),
        options={"tools": None},
    ),
    Case(
        "the nonce inside another word of the header",
        '<|channel|>commentary to=functions.run k72<|message|>{"x": 1}<|call|>',
        said='<|channel|>commentary to=functions.run k72<|message|>{"x": 1}<|call|>',
        verdicts=(("run", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "the nonce in the header",
        '<|channel|>commentary to=functions.run k7 <|constrain|>json<|message|>{"command": "ls"}<|call|>',
        (("run", {"command": "ls"}),),
        options={"nonce": "k7"},
    ),
    Case(
        "no end",
        '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}',
        (("run", {"command": "ls"}),),
    ),
]


@pytest.mark.requirement("B3")
@each(HARMONY)
def test_a_message_to_a_function_is_a_call(case: Case):
    check(case)


CHANNELS = [
    Case("the answer", "<|channel|>final<|message|>Hello.<|return|>", said="Hello."),
    Case(
        "thinking and the answer",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
        said="Hello.",
        reasoning="Hm.",
    ),
    Case("a message to the user", "<|channel|>commentary to=user<|message|>One moment.<|end|>", said="One moment."),
    Case("a message to the assistant", "<|channel|>analysis to=assistant<|message|>Hm.<|end|>", reasoning="Hm."),
    Case("code", "<|channel|>commentary to=functions.run <|constrain|>code<|message|>ls<|call|>", said="ls<|call|>"),
    Case(
        "an unknown function",
        "<|channel|>commentary to=functions.walk<|message|>{}<|call|>",
        said="<|channel|>commentary to=functions.walk<|message|>{}<|call|>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case("no message", "<|channel|>final", said="<|channel|>final"),
    Case("a header without an end", "<|channel|>final" + "x" * 300, said="<|channel|>final" + "x" * 300),
    Case(
        "cut inside the call",
        '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "l',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "no json",
        "<|channel|>commentary to=functions.run <|constrain|>json<|message|>ls -l<|call|>",
        codes={"arguments_invalid", "unquoted_value"},
        verdicts=(("run", "invalid", "arguments_invalid"),),
    ),
    Case(
        "in a fence",
        ('```\n<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>\n```'),
        said=('```\n<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>\n```'),
    ),
    Case(
        "in inline code",
        'Write `<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>`',
        said='Write `<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>`',
    ),
    Case(
        "without the nonce",
        '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>',
        said='<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls"}<|call|>',
        verdicts=(("run", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
]


@pytest.mark.requirement("B10", "B7")
@each(CHANNELS)
def test_a_message_to_nobody_is_text_or_thinking(case: Case):
    check(case)


def test_a_line_reader_alone_knows_no_line():
    reader = LineReader(ParseContext(None), Evidence("react", "strong"), ())
    with pytest.raises(NotImplementedError):
        reader.feed("x", 0, True)
