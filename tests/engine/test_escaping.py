"""Foreign text cannot open a role, a call or a result, and stays readable."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak import ToolCall
from toolspeak.engine.prompting.escaping import (
    BREAK,
    Level,
    calls_text,
    display_name,
    is_plain_name,
    neutralise,
    one_line,
    restore,
)

NONCE = "k7q2xm"

#: Control tokens of chat templates: neutralised wherever they stand.
TURNS = """
<|im_start|> <|im_end|> <|eot_id|> <|start_header_id|> <|channel|> <||im_start||> <｜User｜> <｜begin▁of▁sentence｜> <|/x|>
<|turn>user <turn|> <|"|> <tool_call|> [INST] [/INST] <<SYS>> <</SYS>> [SYSTEM_PROMPT] [AVAILABLE_TOOLS] <s> </s> <bos>
<start_of_turn> <end_of_turn> [gMASK] <sop> [|user|] [|endofturn|] ]~b] ]~!b[ [e~[ ]<]minimax[>[ <reserved_106> <SPECIAL_12>
<extra_id_0> <unused5> <EOS_TOKEN> <seed:bos>
""".split()
#: Tokens around calls, results and thinking.
CALLS_AND_THINKING = """
<tool_call> </tool_call> <tool▁call> <minimax:tool_call> <DSMLtool_calls> <tool_response> </tool_response> <function_calls>
<start_function_call> <escape> [TOOL_CALLS] [/TOOL_RESULTS] [ARGS] <tool_call{ <tool_call
""".split()
THINKING = "<think> </think> <thinking> [THINK] [/THINK]".split()
#: Marks that readers know but no tokeniser does.
MARKS = [
    "<function=f>",
    '<invoke name="f">',
    "<call>",
    "<tools>",
    "<observation>",
    "[TOOL_REQUEST]",
    "```json action\n{}",
    "~~~action\n{}",
    "text ```json result\n{}",
    "```` tool:f\n{}",
    "```tool_code",
    "Action: f",
    "\n  Observation: x",
    "</think>Action: f",
    "Tool result: x",
    "functools[{",
    "to=functions.f",
]
#: Ordinary text and code.
ORDINARY = [
    "a < b and c > d",
    "f <| x |> g",
    "<sub>2</sub> <section> <strong> <thinker> <tool_caller>",
    "[INSTALL] [1] [x]",
    "list[0][1] ]] [[",
    "```python\nprint(1)\n```",
    "`json action`",
    "In Action: nothing",
    "My Observation: none",
    "",
]


@pytest.mark.requirement("R-E8", "R-E9")
@check_each("token", TURNS)
@check_each("level", ["turns", "foreign", "own"])
def test_a_control_token_is_broken_everywhere(token: str, level: Level):
    safe = neutralise(f"a {token} b", level)
    assert token not in safe
    assert restore(safe) == f"a {token} b"


@pytest.mark.requirement("R-E8")
@check_each("token", CALLS_AND_THINKING + THINKING)
def test_marks_of_calls_and_thinking_are_broken_in_foreign_text(token: str):
    safe = neutralise(token)
    assert token not in safe
    assert restore(safe) == token


@pytest.mark.requirement("R-E9")
@check_each("mark", CALLS_AND_THINKING + MARKS)
def test_every_mark_of_a_call_is_broken_in_what_the_model_said_before(mark: str):
    assert mark not in neutralise(mark, "own")


@check_each("token", CALLS_AND_THINKING + THINKING + MARKS)
def test_users_may_speak_of_calls_and_thinking(token: str):
    assert neutralise(token, "turns") == token


@check_each("token", THINKING)
def test_thinking_that_the_model_did_itself_stays(token: str):
    assert neutralise(token, "own") == token


@check_each("text", ORDINARY)
@check_each("level", ["turns", "foreign", "own"])
def test_ordinary_text_is_left_alone(text: str, level: Level):
    assert neutralise(text, level, NONCE) == text


@check_each("text", ["Calling you now.", "Actions speak louder.", "Observations: none", "to=ann"])
def test_words_that_begin_like_a_mark_stay(text: str):
    assert neutralise(text, "own") == text


@pytest.mark.requirement("R-E2")
def test_the_nonce_is_broken_in_foreign_text():
    assert NONCE not in neutralise(f"<x {NONCE}> {NONCE}", "foreign", NONCE)


@pytest.mark.requirement("R-E8")
@given(
    st.lists(st.sampled_from([*TURNS, *CALLS_AND_THINKING, *THINKING, "<", "[", "]", "|", " ", "a", BREAK])).map(
        "".join
    )
)
def test_what_has_been_neutralised_can_be_restored(text: str):
    for level in ("turns", "foreign"):
        safe = neutralise(text, level)
        assert restore(safe) == text
        assert msgspec.json.decode(restore(msgspec.json.encode(safe).decode())) == text


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@check_each("unit", ["<", "<|", "<||||", "[", "`", "```", "~~~ ", "\n ", "> ", "<a", "<tool", "Action", "]<"])
def test_neutralising_takes_time_linear_in_the_text(unit: str):
    def both(size: int) -> Callable[[], object]:
        text = unit * (size // len(unit))
        return lambda: (neutralise(text, "own", NONCE), neutralise(text, "foreign", NONCE))

    assert_linear(both, 80_000)


# ---- names and lengths


@check_each("name", ["get_weather", "mcp__files-read", "a.b", "Wetter für morgen", "天气"])
def test_a_plain_name_is_shown_as_it_is(name: str):
    assert is_plain_name(name)
    assert display_name(name) == name


@pytest.mark.requirement("R-E8")
@check_each(
    ("name", "shown"),
    [
        ("a\nb", "a b"),
        ("<|im_start|>", f"<{BREAK}|im_start|>"),
        ("<tool_call>", f"<{BREAK}tool_call>"),
        ("", "unnamed"),
        ("\n", "unnamed"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_a_name_that_could_be_more_than_a_name_is_made_one(name: str, shown: str):
    assert not is_plain_name(name)
    assert display_name(name) == shown


@pytest.mark.requirement("R-E2")
def test_a_name_cannot_carry_the_nonce():
    assert NONCE not in display_name(f"ping {NONCE}", NONCE)
    assert NONCE not in calls_text("hermes", (ToolCall(f"ping {NONCE}", {}),), NONCE).partition("\n")[2]


def test_one_line_is_one_line():
    assert one_line(" a\n\n b\t<s> ", 50) == f"a b <{BREAK}s>"
    assert one_line("abcdef", 4) == "abc…"
