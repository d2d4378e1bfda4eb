"""Every dialect by name: what is written is read back, with any arguments, and only under its own nonce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.dialects.answer_helpers import by_character, exact
from toolspeak import Reply, Tool, ToolCall, parse, render_calls
from toolspeak.dialects.registry import DIALECTS, dialect, marks_of
from toolspeak.engine.prompting.escaping import result_text
from toolspeak.errors import UnknownDialectError

NONCE = "k7q2xm"
by_dialect = pytest.mark.parametrize("name", DIALECTS)
for_each_dialect = check_each("name", DIALECTS)

#: Dialects without marks, those without types, which need a schema, and the others, which need neither tools nor schema.
BARE = "tool_line decision envelope xlam pythonic".split()
UNTYPED = "glm invoke minimax qwen_xml tool_tag".split()
MARKED = [name for name in DIALECTS if name not in (*BARE, *UNTYPED)]

#: Text that means something in some dialect.
SNIPPETS = """
" ' \\ < > & &lt; &#65; { } [ ] ( ) , : = // /* # - | “ ” ： ， … ... ]]> <![CDATA[ <|"|> <escape> ``` ~~~ null true
1.5 None </parameter> </tool_call> </function> </invoke> </save> <think> </think> <item> Action: Observation:
[TOOL_CALLS] [/TOOL_CALLS] <|call|> <|end|> <｜tool▁call▁end｜> <|close|>argument<|sep|> ]<]minimax[>[ k7q2xm call: a
""".split()
SNIPPETS += ["\n", "\r", "\r\n", " ", "\t", "\x00", "\u2028", "\ufeff", "🌍"]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.lists(st.sampled_from(SNIPPETS), max_size=5).map(
    "".join
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
#: Keys that mean something in some dialect.
RESERVED_KEYS = (
    "name arguments tool function nonce id content parameter param arg_key arg_value item args input call invoke null"
).split()
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True) | st.sampled_from(RESERVED_KEYS) | TEXTS
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
#: Tools whose names mean something in some dialect.
RESERVED_NAMES = (
    "call tool function invoke think tool_call name functions parameter s observation item tool_name None assistant "
    "user Action tools tool_response in input arg_key commentary _x"
).split()
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,30}", fullmatch=True) | st.sampled_from(RESERVED_NAMES)
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS), min_size=1, max_size=3, unique_by=lambda call: call.name)

KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def typed_tools(calls: Sequence[ToolCall]) -> list[Tool]:
    """Tools that take just these arguments."""
    return [
        Tool(
            call.name,
            parameters={
                "type": "object",
                "properties": {key: {"type": KINDS[type(value)]} for key, value in call.arguments.items()},
            },
        )
        for call in calls
    ]


def pairs(calls: Iterable[ToolCall]) -> str:
    """Names and arguments, with every type as it is."""
    return exact([[call.name, call.arguments] for call in calls])


def assert_read_back(reply: Reply, calls: Sequence[ToolCall], text: str) -> None:
    assert pairs(reply.calls) == pairs(calls), text
    assert reply.text.strip() == "", text
    assert reply.complete, text


# ---- round trips


@pytest.mark.requirement("B1", "B2", "B3", "R-E2")
@by_dialect
@settings(max_examples=size(12, 50))
@given(calls=CALLS, signed=st.booleans(), asked=st.booleans())
@example(calls=[ToolCall("do-it", {"a": "x\r"}), ToolCall("_x", {"b": "\n\n"})], signed=True, asked=True)
@example(calls=[ToolCall("f", {"a": "\r\nx\r\n", "b c": 1})], signed=False, asked=False)
@example(calls=[ToolCall("f", {"#0": {"a": 1}, "#": "x"})], signed=False, asked=False)
@example(calls=[ToolCall("f", {"#0": {"a": 1}})], signed=False, asked=False)
@example(calls=[ToolCall("f", {"a": ['<|"|>', ""], "b": ["<escape>", ""]})], signed=False, asked=True)
def test_what_is_written_is_read_back(name: str, calls: list[ToolCall], signed: bool, asked: bool):
    nonce = NONCE if signed else None
    text = render_calls(name, calls, nonce)
    reply = parse(text, typed_tools(calls), dialect=name if asked else "auto", nonce=nonce)
    assert_read_back(reply, calls, text)


@pytest.mark.requirement("B8")
@by_dialect
@settings(max_examples=size(5, 15))
@given(calls=CALLS, signed=st.booleans())
def test_what_is_written_is_read_back_one_character_at_a_time(name: str, calls: list[ToolCall], signed: bool):
    nonce = NONCE if signed else None
    text = render_calls(name, calls, nonce)
    assert by_character(text, tools=typed_tools(calls), nonce=nonce) == parse(text, typed_tools(calls), nonce=nonce)


@pytest.mark.requirement("B2", "B3")
@pytest.mark.parametrize("name", MARKED)
@settings(max_examples=size(10, 40))
@given(calls=CALLS, signed=st.booleans())
def test_marks_and_types_need_neither_tools_nor_a_schema(name: str, calls: list[ToolCall], signed: bool):
    nonce = NONCE if signed else None
    text = render_calls(name, calls, nonce)
    assert_read_back(parse(text, None, nonce=nonce), calls, text)


@pytest.mark.requirement("B2", "B3")
@pytest.mark.parametrize("name", BARE)
@settings(max_examples=size(10, 40))
@given(calls=CALLS, signed=st.booleans())
def test_bare_calls_need_tools_but_no_schema(name: str, calls: list[ToolCall], signed: bool):
    nonce = NONCE if signed else None
    text = render_calls(name, calls, nonce)
    assert_read_back(parse(text, [Tool(call.name) for call in calls], nonce=nonce), calls, text)


# ---- the nonce


@pytest.mark.requirement("R-E2")
@for_each_dialect
@check_each("stale", ["other1", None])
def test_a_call_with_another_nonce_or_none_is_text(name: str, stale: str | None):
    calls = [ToolCall("lookup", {"key": "value"}), ToolCall("ping", {})]
    text = render_calls(name, calls, stale)
    reply = parse(text, typed_tools(calls), nonce=NONCE)
    assert reply.calls == ()
    assert reply.text == text
    assert by_character(text, tools=typed_tools(calls), nonce=NONCE) == reply


@pytest.mark.requirement("R-E2")
@for_each_dialect
def test_the_nonce_stands_in_what_is_written(name: str):
    calls = [ToolCall("lookup", {"key": "value"})]
    assert NONCE in render_calls(name, calls, NONCE)
    assert NONCE not in render_calls(name, calls)


#: How models dress the nonce that they copy, and what they make of it when they do not copy it well.
DRESSED = [f"mark={NONCE}", f"nonce: {NONCE}", f'"{NONCE}"', f"({NONCE})", f"[{NONCE}]", f"#{NONCE}"]
MISCOPIED = ["k7q2xn", "k7q2x", "k7q-2xm", NONCE.upper(), f"mark={NONCE}2"]
LOOKUP = ToolCall("lookup", {"key": "value"})


@pytest.mark.requirement("R-E2", "B8")
@for_each_dialect
@check_each("dress", DRESSED)
def test_the_nonce_counts_whatever_it_is_dressed_in(name: str, dress: str):
    text = render_calls(name, [LOOKUP], NONCE).replace(NONCE, dress)
    tools = typed_tools([LOOKUP])
    reply = parse(text, tools, nonce=NONCE)
    assert pairs(reply.calls) == pairs([LOOKUP]), text
    assert by_character(text, tools=tools, nonce=NONCE) == reply


@pytest.mark.requirement("R-E2", "B7", "B8")
@for_each_dialect
@check_each("wrong", MISCOPIED)
def test_a_call_with_a_miscopied_nonce_is_text_and_is_told(name: str, wrong: str):
    text = render_calls(name, [LOOKUP], NONCE).replace(NONCE, wrong)
    tools = typed_tools([LOOKUP])
    reply = parse(text, tools, nonce=NONCE)
    assert reply.calls == ()
    assert reply.text == text
    assert ("lookup", "no_nonce") in {(each.name, each.reason) for each in reply.candidates}
    assert by_character(text, tools=tools, nonce=NONCE) == reply


# ---- results


@pytest.mark.requirement("B9")
@for_each_dialect
def test_a_result_that_the_model_writes_behind_its_call_is_cut_off(name: str):
    calls = [ToolCall("lookup", {"key": "value"})]
    text = render_calls(name, calls) + "\n" + result_text(name, "42", None) + "\nSo it is 42."
    reply = parse(text, typed_tools(calls))
    assert pairs(reply.calls) == pairs(calls)
    assert reply.text.strip() == ""
    assert "invented_result" in {note.code for note in reply.notes}


# ---- names


def test_an_unknown_dialect_is_named_with_the_known_ones():
    with pytest.raises(UnknownDialectError, match="unknown dialect `klingon`") as caught:
        dialect("klingon")
    assert caught.value.hint == f"use auto or one of {', '.join(DIALECTS)}"


@check_each(
    "use",
    [
        lambda: parse("x", dialect="klingon"),
        lambda: render_calls("klingon", []),
        lambda: render_calls("auto", []),
    ],
)
def test_an_unknown_dialect_is_refused_everywhere(use: Any):
    with pytest.raises(UnknownDialectError):
        use()


def test_auto_means_every_mark():
    assert marks_of("auto") is None
    assert marks_of("invoke") == frozenset({"tool_calls", "tags"})


def test_a_dialect_that_was_not_asked_for_is_text():
    text = render_calls("mistral", [ToolCall("ping", {})])
    assert parse(text, dialect="hermes").calls == ()
    assert parse(text, dialect="hermes").text == text
