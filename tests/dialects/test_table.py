"""Every dialect by name: what is written is read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolspeak as ts
from toolspeak.dialects.table import DIALECTS, dialect, marks_of

pytestmark = pytest.mark.requirement("B1", "B2", "B3", "R-E2")

NONCE = "k7q2xm"
by_dialect = pytest.mark.parametrize("name", list(DIALECTS))
#: Dialects whose text says whether `2` is a number or a text.
TYPED = [
    *("action", "tool_line", "hermes", "tool_calls", "decision", "envelope", "llama", "mistral", "devstral"),
    *("deepseek", "kimi_k2", "kimi_k3", "granite", "command_r", "functionary", "phi", "gemma", "functiongemma"),
    *("harmony", "nemotron", "gigachat", "xlam", "dsml", "lfm2", "olmo", "pythonic", "react"),
]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True) | TEXTS
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,30}", fullmatch=True)
CALLS = st.lists(st.builds(ts.ToolCall, NAMES, ARGUMENTS), min_size=1, max_size=3, unique_by=lambda call: call.name)
KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"}


def _tools(calls: list[ts.ToolCall]) -> list[dict[str, Any]]:
    """Tools that take just these arguments."""
    return [
        {
            "name": call.name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": KINDS[type(value)]} for key, value in call.arguments.items()},
            },
        }
        for call in calls
    ]


def _pairs(reply: ts.Reply) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in reply.calls]


@by_dialect
@settings(max_examples=60)
@given(calls=CALLS, signed=st.booleans(), auto=st.booleans())
def test_what_is_written_is_read_back(name: str, calls: list[ts.ToolCall], signed: bool, auto: bool):
    nonce = NONCE if signed else None
    text = ts.render_calls(name, calls, nonce)
    reply = ts.parse(text, _tools(calls), dialect="auto" if auto else name, nonce=nonce)
    assert _pairs(reply) == [(call.name, call.arguments) for call in calls], text


@pytest.mark.parametrize("name", TYPED)
@settings(max_examples=40)
@given(calls=CALLS)
def test_dialects_with_types_need_no_schema(name: str, calls: list[ts.ToolCall]):
    text = ts.render_calls(name, calls)
    reply = ts.parse(text, [ts.Tool(call.name) for call in calls], dialect=name)
    assert _pairs(reply) == [(call.name, call.arguments) for call in calls], text


@by_dialect
def test_marks_with_another_nonce_or_none_are_text(name: str):
    call = ts.ToolCall("lookup", {"key": "value"})
    for text in (ts.render_calls(name, [call], "stale1"), ts.render_calls(name, [call])):
        reply = ts.parse(text, _tools([call]), nonce=NONCE)
        assert reply.calls == ()
        assert "lookup" in reply.text


@by_dialect
def test_results_hold_their_content_and_the_nonce(name: str):
    result = ts.ToolResult("1", "raw <b> ``` content\n")
    assert result.content in ts.render_result(name, result)
    signed = ts.render_result(name, result, NONCE)
    assert result.content in signed
    assert NONCE in signed


def test_an_unknown_dialect_is_named_with_the_known_ones():
    with pytest.raises(ts.UnknownDialectError, match="unknown dialect `klingon`.*hermes"):
        dialect("klingon")
    with pytest.raises(ts.UnknownDialectError):
        ts.parse("x", dialect="klingon")


def test_auto_means_every_mark():
    assert marks_of("auto") is None
    assert marks_of("hermes") == frozenset({"hermes"})


def test_a_dialect_that_was_not_asked_for_is_text():
    text = ts.render_calls("mistral", [ts.ToolCall("ping", {})])
    assert ts.parse(text, dialect="hermes").calls == ()
    assert ts.parse(text, dialect="hermes").text == text
