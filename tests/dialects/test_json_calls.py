"""Calls written as JSON: which keys mean what, documents of calls, and what is no call."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import Case, check, each

SPELLINGS = [
    Case(
        "name and arguments",
        '<tool_call>{"name": "save", "arguments": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "tool and parameters",
        '<tool_call>{"tool": "save", "parameters": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "function and args",
        '<tool_call>{"function": "save", "args": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "action and action_input",
        '<tool_call>{"action": "save", "action_input": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "tool_name and tool_input",
        '<tool_call>{"tool_name": "save", "tool_input": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "function_name and input",
        '<tool_call>{"function_name": "save", "input": {"path": "a", "n": 1}}</tool_call>',
        (("save", {"path": "a", "n": 1}),),
    ),
    Case(
        "the arguments come first",
        '<tool_call>{"arguments": {"path": "a"}, "name": "save"}</tool_call>',
        (("save", {"path": "a"}),),
    ),
    Case("no arguments at all", '<tool_call>{"name": "ping"}</tool_call>', (("ping", {}),)),
    Case(
        "arguments are null",
        '<tool_call>{"name": "ping", "arguments": null}</tool_call>',
        (("ping", {}),),
        codes={"null_arguments"},
    ),
    Case(
        "arguments are null before the name",
        '<tool_call>{"arguments": null, "name": "ping"}</tool_call>',
        (("ping", {}),),
        codes={"null_arguments"},
    ),
    Case(
        "arguments are a text",
        '<tool_call>{"name": "save", "arguments": "{\\"path\\": \\"a\\"}"}</tool_call>',
        (("save", {"path": "a"}),),
        codes={"string_arguments"},
    ),
    Case(
        "arguments are a text before the name",
        '<tool_call>{"arguments": "{\\"path\\": \\"a\\"}", "name": "save"}</tool_call>',
        (("save", {"path": "a"}),),
        codes={"string_arguments"},
    ),
    Case(
        "arguments are a list",
        '<tool_call>{"name": "ping", "arguments": [1, 2]}</tool_call>',
        codes={"arguments_invalid"},
        verdicts=(("ping", "invalid", "arguments_invalid"),),
    ),
    Case(
        "nested values",
        '<tool_call>{"name": "save", "arguments": {"opts": {"a": [{"b": []}]}, "tags": ["x"]}}</tool_call>',
        (("save", {"opts": {"a": [{"b": []}]}, "tags": ["x"]}),),
    ),
    Case(
        "keys that carry nothing",
        '<tool_call>{"id": "c1", "type": "function", "index": 0, "name": "ping", "arguments": {}, "thought": {"a": [1]}, "reply": ["x", {}]}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "keys nobody knows",
        '<tool_call>{"name": "ping", "foo": 1, "bar": "x", "baz": {"y": [2]}, "arguments": {}}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "the first name counts",
        '<tool_call>{"name": "ping", "tool": "run", "arguments": {}}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "a prefix before the name",
        '<tool_call>{"name": "functions.ping", "arguments": {}}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "a name with white space around it",
        '<tool_call>{"name": " ping\\n", "arguments": {}}</tool_call>',
        (("ping", {}),),
    ),
    Case(
        "an inner function object",
        '<tool_call>{"type": "function", "function": {"name": "save", "arguments": {"path": "a"}}}</tool_call>',
        (("save", {"path": "a"}),),
    ),
    Case(
        "an inner tool object with the arguments outside",
        '<tool_call>{"tool": {"name": "ping"}, "arguments": {"x": 1}}</tool_call>',
        (("ping", {"x": 1}),),
    ),
]


@pytest.mark.requirement("B1", "B2", "B3")
@each(SPELLINGS)
def test_the_keys_of_a_call_are_found_by_their_names(case: Case):
    check(case)


DOCUMENTS = [
    Case(
        "a list",
        '<tool_call>[{"name": "ping", "arguments": {}}, {"name": "run", "arguments": {"command": "ls"}}]</tool_call>',
        (
            ("ping", {}),
            ("run", {"command": "ls"}),
        ),
    ),
    Case(
        "a list of lists",
        '<tool_call>[[{"name": "ping", "arguments": {}}], 1, "x"]</tool_call>',
        said='<tool_call>[[{"name": "ping", "arguments": {}}], 1, "x"]</tool_call>',
    ),
    Case(
        "a list with other things in it",
        '<tool_call>[1, "two", null, {"name": "ping", "arguments": {}}]</tool_call>',
        said='<tool_call>[1, "two", null, {"name": "ping", "arguments": {}}]</tool_call>',
        verdicts=(("ping", "text", "more_follows"),),
    ),
    Case("the decision document", '{"tools": [{"name": "ping", "arguments": {}}]}', (("ping", {}),)),
    Case("a decision for no tool", '{"tools": []}', said='{"tools": []}'),
    Case("the envelope", '{"calls": [{"name": "ping", "arguments": {}}], "reply": "On it."}', (("ping", {}),)),
    Case(
        "openai's list of calls",
        '{"tool_calls": [{"id": "c", "type": "function", "function": {"name": "run", "arguments": "{\\"command\\": \\"ls\\"}"}}]}',
        (("run", {"command": "ls"}),),
        codes={"string_arguments"},
    ),
    Case("one call in a document", '{"function_call": {"name": "ping", "arguments": {}}}', (("ping", {}),)),
    Case(
        "a bare list",
        '[{"name": "ping", "arguments": {}}, {"name": "ping", "arguments": {"a": 1}}]',
        (
            ("ping", {}),
            ("ping", {"a": 1}),
        ),
    ),
]


@pytest.mark.requirement("B2", "B3")
@each(DOCUMENTS)
def test_lists_and_documents_hold_several_calls(case: Case):
    check(case)


NAMELESS = [
    Case(
        "no name between strong marks",
        '<tool_call>{"arguments": {"a": 1}}</tool_call>',
        said='<tool_call>{"arguments": {"a": 1}}</tool_call>',
        verdicts=(("", "text", "no_name"),),
    ),
    Case(
        "an empty name",
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
        said='<tool_call>{"name": "", "arguments": {}}</tool_call>',
        verdicts=(("", "text", "no_name"),),
    ),
    Case(
        "a name that is a number",
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        said='<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        verdicts=(("", "text", "no_name"),),
    ),
    Case(
        "a bare name that is a number",
        '{"name": 3, "arguments": {}}',
        said='{"name": 3, "arguments": {}}',
        verdicts=(("", "text", "no_name"),),
    ),
    Case(
        "an unknown tool",
        '<tool_call>{"name": "pong", "arguments": {}}</tool_call>',
        said='<tool_call>{"name": "pong", "arguments": {}}</tool_call>',
        codes={"near_miss"},
        verdicts=(("pong", "text", "unknown_tool"),),
    ),
    Case(
        "an unknown bare tool",
        '{"name": "nobody", "arguments": {}}',
        said='{"name": "nobody", "arguments": {}}',
        codes={"unknown_tool"},
        verdicts=(("nobody", "text", "unknown_tool"),),
    ),
    Case(
        "a key that no call has",
        '{"name": "ping", "price": 3}',
        said='{"name": "ping", "price": 3}',
        verdicts=(("ping", "text", "not_a_call"),),
    ),
    Case(
        "a name with quotes in it",
        '<tool_call>{"name": "say "hi" to them", "arguments": {}}</tool_call>',
        said='<tool_call>{"name": "say "hi" to them", "arguments": {}}</tool_call>',
        codes={"inner_quotes"},
        verdicts=(("", "text", "no_name"),),
    ),
    Case(
        "the final answer of langchain",
        '```json\n{"action": "Final Answer", "action_input": "42"}\n```',
        said='```json\n{"action": "Final Answer", "action_input": "42"}\n```',
        verdicts=(("", "text", "final_answer"),),
    ),
    Case("text where an object was due", '<tool_call>["ping"]</tool_call>', said='<tool_call>["ping"]</tool_call>'),
    Case("not json at all", "<tool_call>{name ping}</tool_call>", said="<tool_call>{name ping}</tool_call>"),
    Case(
        "a person",
        '{"name": "Ada"}',
        said='{"name": "Ada"}',
        verdicts=(("Ada", "text", "not_a_call"),),
        options={"tools": None},
    ),
    Case(
        "a person in a list that misses its end",
        '```json\n[{"name": "Ada"\n```',
        said='```json\n[{"name": "Ada"\n```',
        verdicts=(("Ada", "text", "not_a_call"),),
        options={"tools": None},
    ),
    Case("a set", '<tool_call>{"ping"}</tool_call>', said='<tool_call>{"ping"}</tool_call>'),
    Case("a scalar in a weak fence", '```json\n["ping"]\n```', said='```json\n["ping"]\n```'),
    Case(
        "one bad call in a list of good ones",
        '<tool_call>[{"name": "pong", "arguments": {}}, {"name": "ping", "arguments": {}}]</tool_call>',
        (("ping", {}),),
        codes={"near_miss"},
        verdicts=(
            ("pong", "text", "unknown_tool"),
            ("ping", "call", "accepted"),
        ),
    ),
]


@pytest.mark.requirement("B7", "R-E6")
@each(NAMELESS)
def test_json_without_a_usable_name_is_no_call(case: Case):
    check(case)


DECLARATIONS = [
    Case("a call", '<tools>\n{"name": "ping", "arguments": {}}\n</tools>', (("ping", {}),)),
    Case("a call with an id", '<tools>{"id": "1", "name": "ping", "arguments": {}}</tools>', (("ping", {}),)),
    Case("a list of one call", '<tools>[{"name": "ping", "arguments": {}}]</tools>', (("ping", {}),)),
    Case(
        "a declaration",
        '<tools>\n{"name": "ping", "description": "x", "parameters": {}}\n</tools>',
        said='<tools>\n{"name": "ping", "description": "x", "parameters": {}}\n</tools>',
        verdicts=(("ping", "text", "not_a_call"),),
    ),
    Case(
        "two calls",
        '<tools>{"name": "ping", "arguments": {}}\n{"name": "ping", "arguments": {}}</tools>',
        said='<tools>{"name": "ping", "arguments": {}}\n{"name": "ping", "arguments": {}}</tools>',
        verdicts=(("ping", "text", "not_a_call"),),
    ),
    Case(
        "openai's declaration",
        '<tools>[{"type": "function", "function": {"name": "ping"}}]</tools>',
        said='<tools>[{"type": "function", "function": {"name": "ping"}}]</tools>',
        verdicts=(("", "text", "not_a_call"),),
    ),
]


@pytest.mark.requirement("B7")
@each(DECLARATIONS)
def test_between_tags_that_also_declare_tools_only_one_spelling_counts(case: Case):
    check(case)


SIGNED = [
    Case("before the name", '{"nonce": "k7", "tool": "ping", "args": {}}', (("ping", {}),), options={"nonce": "k7"}),
    Case(
        "for a whole document",
        '{"nonce": "k7", "tools": [{"name": "ping", "arguments": {}}]}',
        (("ping", {}),),
        options={"nonce": "k7"},
    ),
    Case(
        "in each object of a list",
        '[{"nonce": "k7", "name": "ping", "arguments": {}}]',
        (("ping", {}),),
        options={"nonce": "k7"},
    ),
    Case(
        "behind the name is too late",
        '{"tool": "ping", "nonce": "k7", "args": {}}',
        said='{"tool": "ping", "nonce": "k7", "args": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case(
        "a wrong one",
        '{"nonce": "k8", "tool": "ping", "args": {}}',
        said='{"nonce": "k8", "tool": "ping", "args": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
    Case("one where none was asked for", '{"nonce": "k7", "tool": "ping", "args": {}}', (("ping", {}),)),
    Case(
        "none",
        '{"tool": "ping", "args": {}}',
        said='{"tool": "ping", "args": {}}',
        verdicts=(("ping", "text", "no_nonce"),),
        options={"nonce": "k7"},
    ),
]


@pytest.mark.requirement("R-E2")
@each(SIGNED)
def test_a_nonce_may_stand_in_the_document(case: Case):
    check(case)


REPAIRS = [
    Case(
        "a trailing comma",
        '<tool_call>{"name": "ping", "arguments": {"a": 1,},}</tool_call>',
        (("ping", {"a": 1}),),
        codes={"trailing_comma"},
    ),
    Case(
        "single quotes",
        "<tool_call>{'name': 'ping', 'arguments': {'a': 'b'}}</tool_call>",
        (("ping", {"a": "b"}),),
        codes={"single_quotes"},
    ),
    Case(
        "python literals",
        '<tool_call>{"name": "ping", "arguments": {"a": None, "b": True}}</tool_call>',
        (("ping", {"a": None, "b": True}),),
        codes={"python_literal"},
    ),
    Case(
        "a wrong closer",
        '<tool_call>{"name": "ping", "arguments": {]}</tool_call>',
        (("ping", {}),),
        codes={"wrong_closer", "missing_closer"},
    ),
    Case(
        "missing closers",
        '<tool_call>{"name": "ping", "arguments": {"a": 1</tool_call>',
        (("ping", {"a": 1}),),
        codes={"missing_closer"},
    ),
    Case(
        "quotes inside the arguments",
        '<tool_call>{"arguments": {"a": "x "y" z"}, "name": "ping"}</tool_call>',
        (("ping", {"a": 'x "y" z'}),),
        codes={"inner_quotes"},
    ),
]


@pytest.mark.requirement("B4")
@each(REPAIRS)
def test_broken_json_is_read_and_the_repair_is_noted(case: Case):
    check(case)


CUT = [
    Case(
        "inside the arguments",
        '<tool_call>{"name": "ping", "arguments": {"a": "b',
        codes={"truncated_call"},
        verdicts=(("ping", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "inside the name",
        '<tool_call>{"name": "pi',
        said='<tool_call>{"name": "pi',
        codes={"truncated_call"},
        verdicts=(("", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "before the name",
        '<tool_call>{"arguments": {"a": 1',
        said='<tool_call>{"arguments": {"a": 1',
        codes={"truncated_call"},
        verdicts=(("", "truncated", "truncated"),),
        complete=False,
    ),
    Case(
        "in a list behind a call",
        '<tool_call>[{"name": "ping", "arguments": {}}, {"name": "ru',
        (("ping", {}),),
        said=', {"name": "ru',
        codes={"truncated_call"},
        verdicts=(
            ("ping", "call", "accepted"),
            ("", "truncated", "truncated"),
        ),
        complete=False,
    ),
    Case(
        "only the bracket of the list is missing",
        '<tool_call>[{"name": "ping", "arguments": {}}',
        (("ping", {}),),
        codes={"missing_closer", "missing_close_tag"},
    ),
    Case(
        "behind the comma of a list",
        '<tool_call>[{"name": "ping", "arguments": {}}, ',
        (("ping", {}),),
        codes={"missing_closer", "missing_close_tag"},
    ),
    Case(
        "a bare object",
        '{"name": "ping", "arguments": {"a"',
        said='{"name": "ping", "arguments": {"a"',
        verdicts=(("ping", "truncated", "truncated"),),
        codes={"truncated_call"},
        complete=False,
    ),
    Case(
        "a document",
        '{"tools": [{"name": "ping", "arguments": {}}',
        said='{"tools": [{"name": "ping", "arguments": {}}',
        verdicts=(
            ("", "truncated", "truncated"),
            ("ping", "text", "not_a_call"),
        ),
    ),
    Case(
        "in a list inside a list",
        '<tool_call>[{"name": "ping", "arguments": {}}, [1',
        (("ping", {}),),
        said=", [1",
        codes={"truncated_call"},
        verdicts=(
            ("ping", "call", "accepted"),
            ("", "truncated", "truncated"),
        ),
        complete=False,
    ),
    Case("a list of nothing", "<tool_call>[", said="<tool_call>["),
]


@pytest.mark.requirement("B6")
@each(CUT)
def test_a_text_that_ends_inside_the_json_gives_no_call(case: Case):
    check(case)
