"""Formats of families and agents that one row, or a few lines, teach the readers; and what only looks like them."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import Case, check, each

RUN = (("run", {"command": "ls"}),)
BOTH = (("run", {"command": "ls"}), ("ping", {}))

MISTRAL = [
    Case("an id between name and arguments", '[TOOL_CALLS]run[CALL_ID]a1B2c3D4e[ARGS]{"command": "ls"}', RUN),
    Case(
        "two calls with ids", '[TOOL_CALLS]run[CALL_ID]a[ARGS]{"command": "ls"}[TOOL_CALLS]ping[CALL_ID]b[ARGS]{}', BOTH
    ),
    Case("one mark for both", '[TOOL_CALLS]run[CALL_ID]a[ARGS]{"command": "ls"} ping[CALL_ID]b[ARGS]{}', BOTH),
    Case("no id behind the mark", "[TOOL_CALLS]ping[CALL_ID][ARGS]{}", said="[TOOL_CALLS]ping[CALL_ID][ARGS]{}"),
    Case("an id and no arguments", "[TOOL_CALLS]ping[CALL_ID]a b", said="[TOOL_CALLS]ping[CALL_ID]a b"),
    Case("an id that is cut", "[TOOL_CALLS]ping[CALL_ID]ab", said="[TOOL_CALLS]ping[CALL_ID]ab"),
]

TOOL_CODE = [
    Case("a call that is printed", '```tool_code\nprint(run(command="ls"))\n```', RUN),
    Case("a call of Gemini's module", '```tool_code\nprint(default_api.run(command="ls"))\n```', RUN),
    Case("two that are printed", '```tool_code\nprint(run(command="ls"))\nprint(ping())\n```', BOTH),
    Case("one is, one is not", '```tool_code\nrun(command="ls")\nprint(default_api.ping())\n```', BOTH),
    Case(
        "something else is printed",
        '```tool_code\nprint("done")\n```',
        said='```tool_code\nprint("done")\n```',
    ),
    Case(
        "other code",
        '```python\nprint(run(command="ls"))\n```',
        said='```python\nprint(run(command="ls"))\n```',
    ),
    Case(
        "a word that begins like it",
        '```tool_code\nprinter(command="ls")\n```',
        said='```tool_code\nprinter(command="ls")\n```',
        codes={"unknown_tool"},
        verdicts=(("printer", "text", "unknown_tool"),),
    ),
]

BOLD = [
    Case("colons in bold", '**Action:** run\n**Action Input:** {"command": "ls"}', RUN),
    Case("colons behind bold", '**Action**: run\n**Action Input**: {"command": "ls"}', RUN),
    Case("a name in ticks", '**Action:** `run`\n**Action Input:** `{"command": "ls"}`', RUN),
    Case("a line of text", "**Action:** run\n**Action Input:** ls\n", RUN, said="\n"),
    Case("a plain label", '**Action:** run\nAction Input: {"command": "ls"}', RUN),
    Case("a word in bold", "**Action** is what counts.\n", said="**Action** is what counts.\n"),
    Case("no input", "**Action:** run\nand so on", said="**Action:** run\nand so on"),
    Case(
        "an answer in bold ends it",
        "**Final Answer:** no\n**Action:** run\n**Action Input:** ls\n",
        said="**Final Answer:** no\n**Action:** run\n**Action Input:** ls\n",
    ),
]

FLOWERS = [
    Case("two lines", '✿FUNCTION✿: run\n✿ARGS✿: {"command": "ls"}\n', RUN, said="\n"),
    Case("one line", '✿FUNCTION✿: run ✿ARGS✿: {"command": "ls"}', RUN),
    Case("right behind text", 'Well✿FUNCTION✿: run\n✿ARGS✿: {"command": "ls"}', RUN, said="Well"),
    Case("without colons", '✿FUNCTION✿ run\n✿ARGS✿ {"command": "ls"}', RUN),
    Case(
        "two calls and an invented result",
        '✿FUNCTION✿: run\n✿ARGS✿: {"command": "ls"}\n✿FUNCTION✿: ping\n✿ARGS✿: {}\n✿RESULT✿: a\n✿RETURN✿: b',
        BOTH,
        said="\n\n",
        codes={"invented_result"},
    ),
    Case("a flower", "A ✿ for you.", said="A ✿ for you."),
    Case("the mark alone", "The mark ✿FUNCTION✿ names it.", said="The mark ✿FUNCTION✿ names it."),
]

TOOL_USE = [
    Case(
        "name and arguments in tags",
        '<tool_use>\n  <name>run</name>\n  <arguments>{"command": "ls"}</arguments>\n</tool_use>',
        RUN,
    ),
    Case(
        "an unknown name",
        "<tool_use><name>walk</name><arguments>{}</arguments></tool_use>",
        said="<tool_use><name>walk</name><arguments>{}</arguments></tool_use>",
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"),),
    ),
    Case("a mention", "Put it into <tool_use> and wait.", said="Put it into <tool_use> and wait."),
]

NAMED = [
    Case("a name and JSON", '<tool_call name="run">{"command": "ls"}</tool_call>', RUN),
    Case("a name and parameters", '<tool_call name="run"><parameter name="command">ls</parameter></tool_call>', RUN),
    Case(
        "two of them in a block",
        '<tool_calls><tool_call name="run">{"command": "ls"}</tool_call><tool_call name="ping">{}</tool_call></tool_calls>',
        BOTH,
    ),
    Case("attributes for arguments", '<tool_call name="run" command="ls"/>', RUN),
    Case("the same in an invoke", '<invoke name="run" command="ls" />', RUN),
    Case("the same in a tag of the tool", '<run command="ls"/>', RUN),
    Case("another attribute", '<tool_call id="7">{"name": "run", "arguments": {"command": "ls"}}</tool_call>', RUN),
    Case(
        "a sentence",
        '<tool_call name="run">runs a command.</tool_call>',
        said='<tool_call name="run">runs a command.</tool_call>',
        verdicts=(("run", "text", "not_a_call"),),
    ),
]

APERTUS = [
    Case("a key is a name", '<|tools_prefix|>[{"run": {"command": "ls"}}]<|tools_suffix|>', RUN),
    Case("two objects", '<|tools_prefix|>[{"run": {"command": "ls"}}, {"ping": {}}]<|tools_suffix|>', BOTH),
    Case("two keys", '<|tools_prefix|>[{"run": {"command": "ls"}, "ping": {}}]<|tools_suffix|>', BOTH),
    Case("no list", '<|tools_prefix|>{"run": {"command": "ls"}}<|tools_suffix|>', RUN),
    Case("keys of other families", '<|tools_prefix|>[{"name": "run", "arguments": {"command": "ls"}}]', RUN),
    Case(
        "a brace is missing",
        '<|tools_prefix|>[{"run": {"command": "ls"}]<|tools_suffix|>',
        RUN,
        codes={"missing_closer"},
    ),
    Case(
        "one is unknown",
        '<|tools_prefix|>[{"walk": {}, "run": {"command": "ls"}}]<|tools_suffix|>',
        RUN,
        codes={"unknown_tool"},
        verdicts=(("walk", "text", "unknown_tool"), ("run", "call", "accepted")),
    ),
    Case(
        "under another mark",
        '<tool_call>[{"run": {"command": "ls"}}]</tool_call>',
        (("run", {"command": "ls"}),),
    ),
]


@pytest.mark.requirement("B2", "B3")
@each([*MISTRAL, *TOOL_CODE, *BOLD, *FLOWERS, *TOOL_USE, *NAMED, *APERTUS])
def test_a_format_is_read_and_what_looks_like_it_is_not(case: Case):
    check(case)
