"""Prose, or whole calls in the marks of a dialect: what the grammar lets through, and that it can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.engine.gbnf_matcher import Gbnf
from toolspeak.core.types import Tool, ToolCall, ToolChoice
from toolspeak.dialects.registry import DIALECTS, render_calls
from toolspeak.engine.constraints.build import Constraint, Flavour, inline_constraint
from toolspeak.engine.constraints.dialect_grammar import call_template
from toolspeak.errors import UsageError
from toolspeak.parsing import parse

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get_weather", parameters=CITY), Tool("stop", parameters={"type": "object", "properties": {}}))
RAIN, HALT = ToolCall("get_weather", {"city": "Paris"}), ToolCall("stop", {})
NONCE = "k7q2xm"
#: By the description of each: calls begin with a mark of their own, and their arguments are one JSON object.
ENFORCED = frozenset(
    "action hermes tool_calls llama mistral devstral deepseek granite functionary harmony nemotron gigachat"
    " longcat internlm inkling lmstudio apertus bracket tool_use".split()
)


def made(dialect: str, choice: ToolChoice | None = None, nonce: str | None = NONCE) -> Constraint:
    found = inline_constraint(TOOLS, choice or ToolChoice(), "gbnf", dialect, nonce)
    assert found is not None
    return found


def takes(constraint: Constraint, text: str) -> bool:
    return Gbnf(constraint.grammar).accepts(text)


@check_each("dialect", sorted(DIALECTS))
def test_dialects_with_marks_and_json_can_be_enforced_and_others_are_left_alone(dialect: str):
    found = inline_constraint(TOOLS, ToolChoice(), "gbnf", dialect, NONCE)
    assert (found is not None) == (dialect in ENFORCED)


@pytest.mark.requirement("A10", "B1")
@check_each("nonce", [NONCE, None])
@check_each("dialect", sorted(ENFORCED))
def test_what_the_dialect_writes_is_let_through_and_read_again(dialect: str, nonce: str | None):
    grammar = made(dialect, nonce=nonce)
    for calls in ([RAIN], [HALT], [RAIN, HALT, RAIN]):
        text = f"Let me see.\n{render_calls(dialect, calls, nonce)}"
        assert takes(grammar, text)
        found = parse(text, TOOLS, dialect=dialect, nonce=nonce)
        assert [(call.name, call.arguments) for call in found.calls] == [(call.name, call.arguments) for call in calls]


def test_prose_is_free_up_to_the_mark_and_a_begun_call_is_a_whole_one():
    grammar = made("action")
    for prose in ("", "Hello.", "```json\n{}\n```", "````json act", "``` json action", "ümläut 名\n\n"):
        assert takes(grammar, prose)
    whole = render_calls("action", [RAIN], NONCE)
    assert takes(grammar, f"``{whole}")
    for wrong in (
        whole[:-1],
        f"{whole} and more",
        whole.replace(NONCE, "zzzzzz"),
        whole.replace(f" {NONCE}", ""),
        whole.replace("get_weather", "get_time"),
        whole.replace("city", "town"),
        whole.replace('"Paris"', "7"),
    ):
        assert not takes(grammar, wrong)


def test_a_call_that_is_only_thought_of_is_not_the_end():
    grammar, call = made("hermes"), render_calls("hermes", [RAIN], NONCE)
    assert takes(grammar, f"<think>I could write {call}\n</think>\nYes.\n{call}")
    assert takes(grammar, f"<think>{call}</think>No.")
    assert not takes(grammar, f"<think>{call} or so</think>No.")
    assert not takes(grammar, f"<think>{call}</think><tool_call>")


@pytest.mark.requirement("A7")
def test_a_demanded_call_leaves_no_room_for_prose():
    required = made("hermes", ToolChoice("required"))
    assert takes(required, render_calls("hermes", [RAIN, HALT], NONCE))
    for text in ("", "Hello.", f"Yes: {render_calls('hermes', [RAIN], NONCE)}"):
        assert not takes(required, text)
    named = made("hermes", ToolChoice("named", ("stop",)))
    assert takes(named, render_calls("hermes", [HALT], NONCE))
    assert not takes(named, render_calls("hermes", [HALT, HALT], NONCE))
    assert not takes(named, render_calls("hermes", [RAIN], NONCE))


def test_one_call_at_a_time_is_one():
    single = made("action", ToolChoice(parallel=False))
    assert takes(single, render_calls("action", [RAIN], NONCE))
    assert not takes(single, render_calls("action", [RAIN, RAIN], NONCE))


@check_each("flavour", ["json_schema", "openai_strict", "lark"])
def test_only_a_grammar_that_tells_prose_from_marks_is_used(flavour: Flavour):
    assert inline_constraint(TOOLS, ToolChoice(), flavour, "action", NONCE) is None


def test_without_tools_there_is_nothing_to_enforce_but_a_demand_is_a_mistake():
    assert inline_constraint((), ToolChoice(), "gbnf", "action") is None
    with pytest.raises(UsageError, match="demands a call"):
        inline_constraint((), ToolChoice("required"), "gbnf", "action")


def test_names_are_written_as_the_dialect_writes_them():
    found = call_template("action", ['say "hi"'])
    assert found is not None
    assert found.heads == ('say \\"hi\\"","parameters":',)
    assert (found.mark, found.lead) == ("```json action", '```json action\n{"tool":"')


@given(st.text("`jsona ction\nx", max_size=40))
def test_text_is_prose_if_it_holds_no_mark(text: str):
    assert takes(made("action"), text) == ("```json action" not in text)
