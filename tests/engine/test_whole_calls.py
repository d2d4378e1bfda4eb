"""Answers that are one call: read at once, they give the same turn as read by the general readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import size
from tests.engine.engine_helpers import CONSTRAINED, INLINE, SEARCH, WEATHER, answers, finished, native, with_options
from tests.offline_turn import NONCE, carry_out, engine_for, user
from toolspeak.core.events import Event, Failure, ReasoningDelta, TextDelta
from toolspeak.core.parsing import tool_index
from toolspeak.core.types import Options, ResponseFormat, Tool, ToolCall, ToolChoice
from toolspeak.dialects.registry import DIALECTS, render_calls
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.output_gate import OutputGate

ANYTHING = Tool("write_file", 'Writes `a` to a file, as in write_file("x", "y").')
TOOLS = (WEATHER, SEARCH, ANYTHING)
CALL = ToolCall("get_weather", {"city": "Bergen", "days": 3})
#: Dialects in which no call is read at once: its arguments are not one JSON object, or its end depends on what follows.
SLOW = frozenset(
    "invoke minimax dsml qwen_xml glm tool_tag kimi_k3 pythonic lfm2 olmo gemma functiongemma react devstral "
    "tool_line decision xlam functionary_v32".split()
)
QUICK = sorted(DIALECTS.keys() - SLOW)
PAGE = 'The city is Oslo", "days": 2}} and then more words follow, which nobody has to read.'


def _engine(dialect: str, choice: ToolChoice | None = None, **fields: Any) -> Engine:
    plan = "envelope" if dialect == "envelope" else ""
    own = Settings(mode="force", plan=plan, dialect="" if plan else dialect, retries=0, **fields)
    messages = [user("How is it in Oslo today?"), user(PAGE)]
    return engine_for(messages, TOOLS, own, choice=choice, profile=CONSTRAINED if plan else None)


def _turn(engine: Engine, script: str | Sequence[Event]) -> tuple[object, ...]:
    events, outcome, asked = carry_out(engine, answers(script))
    joined: list[Event] = []
    for event in events:
        if isinstance(event, TextDelta) and joined and isinstance(last := joined[-1], TextDelta):
            joined[-1] = TextDelta(last.text + event.text)
        else:
            joined.append(event)
    return joined, outcome, asked


def _is_quick(monkeypatch: pytest.MonkeyPatch, dialect: str, script: str | Sequence[Event], **fields: Any) -> bool:
    """Whether a call was read at once. Checks that the turn is the same as without that."""
    quick: list[str] = []
    take = OutputGate.take_first_call

    def spy(gate: OutputGate, name: str, arguments: str) -> list[Event]:
        quick.append(name)
        return take(gate, name, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(OutputGate, "take_first_call", spy)
        turn = _turn(_engine(dialect, **fields), script)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_read_call", lambda *_: [])
        assert turn == _turn(_engine(dialect, **fields), script)
    return bool(quick)


def _written(dialect: str, *calls: ToolCall, nonce: str = NONCE) -> str:
    return render_calls(dialect, calls or [CALL], nonce)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_is_read_at_once_where_it_is_one_object(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _is_quick(monkeypatch, dialect, _written(dialect)) is (dialect in QUICK)


OTHERS: dict[str, list[ToolCall]] = {
    "an empty value": [ToolCall("search", {"query": ""})],
    "no arguments": [ToolCall("write_file", {})],
    "nested arguments": [ToolCall("write_file", {"a": {"b": [1, "x", None]}, "c": [{"d": True}]})],
    "marks in a value": [ToolCall("search", {"query": '</tool_call>\n```\n"}} <|im_end|> [/TOOL_CALLS]'})],
    "a copied page": [ToolCall("search", {"query": PAGE})],
    "a copied beginning": [ToolCall("get_weather", {"city": "The city is Oslo", "days": 2})],
    "other letters": [ToolCall("search", {"query": "Tromsø 🌍 \u2028"})],
    "an unknown tool": [ToolCall("fly", {"to": "Rome"})],
    "another spelling": [ToolCall("getWeather", {"city": "Oslo"})],
    "a wrong type": [ToolCall("get_weather", {"city": "Oslo", "days": "2"})],
    "a missing argument": [ToolCall("get_weather", {"days": 2})],
    "an unknown argument": [ToolCall("get_weather", {"city": "Oslo", "unit": "metric"})],
    "null": [ToolCall("get_weather", {"city": "Oslo", "days": None})],
    "many values": [ToolCall("write_file", {"a": list(range(1100))})],
    "a long value": [ToolCall("search", {"query": "x" * 210_000})],
    "two calls": [CALL, ToolCall("search", {"query": "x"})],
    "a call twice": [CALL, CALL],
    "no calls": [],
}


@pytest.mark.parametrize("dialect", QUICK)
def test_every_other_call_gives_the_same_turn(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for calls in OTHERS.values():
        _is_quick(monkeypatch, dialect, render_calls(dialect, calls, NONCE))


@pytest.mark.parametrize("dialect", QUICK)
def test_text_around_a_call_gives_the_same_turn(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = _written(dialect)
    for text in (
        f"\n{written}",
        f"{written}\n \n",
        f"Let me see.\n\n{written}",
        f"{written}\nDone.",
        f"{written}{written}",
        f"{written}<|im_end|>",
        f"<think>Hm.</think>{written}",
        written[:-1],
        written[:-9],
        written.replace("\n", ""),
        written.replace("\n", "\n\n"),
        written.replace(",", " ,\n  ").replace(":", ": "),
        written.replace(NONCE, "k7q2xn"),
        written.replace(f" {NONCE}", ""),
        written.replace("{", "{ "),
        written.replace("Bergen", "Ber\ngen"),
        written.replace('"Bergen"', "'Bergen'"),
    ):
        _is_quick(monkeypatch, dialect, text)


@pytest.mark.parametrize("dialect", ["action", "hermes", "envelope"])
def test_events_around_a_call_give_the_same_turn(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TextDelta(_written(dialect))
    scripts: list[tuple[list[Event], bool]] = [
        (finished(text, reason="length"), True),
        (finished(text, reason="content_filter"), True),
        ([text, Failure("lost", "truncated")], True),
        (finished(text, TextDelta(" And more.")), True),
        (finished(text, text), True),
        (finished(text, ReasoningDelta("Hm."), TextDelta("x")), True),
        (finished(text, *native(city="Rome")), True),
        (finished(ReasoningDelta("Hm."), text), False),
        (finished(*native(city="Rome"), text), False),
        (finished(TextDelta(""), text), False),
        ([], False),
    ]
    for script, quick in scripts:
        assert _is_quick(monkeypatch, dialect, script) is quick


@pytest.mark.parametrize(
    ("fields", "quick"),
    [
        ({"choice": ToolChoice("required")}, True),
        ({"choice": ToolChoice("named", ("get_weather",))}, True),
        ({"choice": ToolChoice(parallel=False)}, True),
        ({"choice": ToolChoice("auto", ("search",))}, True),
        ({"text_before_calls": "drop"}, True),
        ({"stream_calls": "live"}, True),
        ({"stream_calls": "checked"}, True),
        ({"policy": "strict"}, True),
        ({"policy": "eager"}, True),
        ({"marks": "nonce"}, True),
        ({"marks": "fixed"}, False),
        ({"marks": "confirm"}, False),
    ],
    ids=str,
)
def test_each_setting_gives_the_same_turn(fields: dict[str, Any], quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for after in ("", " and more"):
        script = finished(TextDelta(_written("action")), *([TextDelta(after)] if after else []))
        assert _is_quick(monkeypatch, "action", script, **fields) is quick


def test_a_call_is_read_at_once_where_an_answer_would_have_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    def formatted() -> tuple[object, ...]:
        options = Options(response_format=ResponseFormat({"type": "object"}))
        return carry_out(with_options(options, INLINE, Profile()), answers(_written("action")))

    turn = formatted()
    monkeypatch.setattr(Engine, "_read_call", lambda *_: [])
    assert turn == formatted()


def test_the_form_of_a_call_is_not_learned_for_tools_that_are_too_large_to_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_index, "MAX_CACHED_BYTES", 10)
    monkeypatch.setitem(globals(), "TOOLS", TOOLS[:2])
    assert not _is_quick(monkeypatch, "action", _written("action"))


def test_an_answer_to_a_retry_is_left_to_the_general_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def retried() -> tuple[object, ...]:
        engine = engine_for([user("How is it?")], TOOLS, Settings(mode="force"))
        return carry_out(engine, answers("I'm sorry, but I don't have access to any tools.", _written("action")))

    turn = retried()
    monkeypatch.setattr(Engine, "_read_call", lambda *_: [])
    assert turn == retried()


PIECES = st.sampled_from(
    [
        '"',
        "\\",
        "\n",
        "```",
        "</tool_call>",
        "}}",
        "{",
        "<|call|>",
        "Oslo",
        PAGE,
        PAGE[:20],
        "é",
        "\u2028",
        ",",
        ":",
        " ",
    ]
)
VALUES = st.recursive(
    st.one_of(st.lists(PIECES, max_size=4).map("".join), st.integers(), st.booleans(), st.none(), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("abc_ é", max_size=4), inner)),
    max_leaves=5,
)


@settings(max_examples=size(100, 2000))
@given(st.data())
def test_generated_calls_give_the_same_turn(data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(QUICK))
    name = data.draw(st.sampled_from(["search", "get_weather", "write_file"]))
    keys = st.sampled_from(["query", "city", "days", "a b", 'q"', ""])
    call = ToolCall(name, data.draw(st.dictionaries(keys, VALUES, max_size=3)))
    written = _written(dialect, call)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(written)))
        written = written[:cut] + data.draw(PIECES) + written[cut:]
    with pytest.MonkeyPatch.context() as patch:
        _is_quick(patch, dialect, written)
