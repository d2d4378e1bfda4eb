"""Printable text and token estimates; the estimates are compared with two real vocabularies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rs_bpe import openai  # its vocabularies are inside the package

from tests.cases import check_each
from toolspeak.core.text import (
    REPLACEMENT,
    counted,
    estimate_tokens,
    printable,
    suggestion,
    system_reason,
    without_sequences,
)

VOCABULARIES = {"o200k": openai.o200k_base(), "cl100k": openai.cl100k_base()}


@check_each(
    ("text", "replacement", "keep", "expected"),
    [
        ("plain, wie Grüße", None, "", "plain, wie Grüße"),
        ("\x1b[2J\u202eevil\ud800", None, "", "\\x1b[2J\\u202eevil\\ud800"),
        ("a\nb\tc", None, "\n", "a\nb\\tc"),
        ("a\nb\x00", REPLACEMENT, "\n", "a\nb\ufffd"),
        ("a\nb", " ", "", "a b"),
        ("a\x07b\n", "", "\n", "ab\n"),
    ],
)
def test_what_cannot_be_seen_is_written_out_or_replaced(text: str, replacement: str | None, keep: str, expected: str):
    assert printable(text, replacement, keep) == expected


@given(st.text())
def test_nothing_is_left_that_steers(text: str):
    assert printable(text).isprintable()


@check_each(
    "sample",
    [
        "The quick brown fox jumps over the lazy dog, and internationalisation is a long word.",
        '{"tool":"get_weather","parameters":{"city":"Paris","days":12345}}',
        "def f(x: int) -> list[str]:\n    return [str(x)] * 3\n",
        "Überprüfen Sie bitte die Größe der Straßenbahnhaltestelle.",
        "Проверьте, пожалуйста, погоду в Москве на завтра.",
        "请查询明天北京的天气，并发送邮件给我。",
        "🌍🎉 emoji",
        "",
    ],
)
def test_tokens_are_estimated_on_the_safe_side(sample: str):
    for vocabulary in VOCABULARIES.values():
        assert vocabulary.count(sample) <= estimate_tokens(sample) <= 2.5 * vocabulary.count(sample) + 2


@given(one=st.text(), other=st.text())
def test_more_text_never_takes_fewer_tokens(one: str, other: str):
    assert estimate_tokens(one) <= estimate_tokens(f"{one}\n{other}")


def test_a_number_has_its_noun_in_the_right_form():
    assert [counted(number, "call") for number in (0, 1, 2)] == ["0 calls", "1 call", "2 calls"]
    assert [counted(number, "retry", "retries") for number in (1, 2)] == ["1 retry", "2 retries"]


@check_each(
    ("name", "names", "otherwise", "hint"),
    [
        ("moed", ["plan", "mode"], "", "did you mean `mode`?"),
        ("clok", ["clock", "cloak", "dice"], "", "did you mean `clock` or `cloak`?"),
        ("--prot", ["--port", "--protocol", "--host"], "", "did you mean `--port`, `--protocol` or `--host`?"),
        ("claud", ["codex", "claude-code"], "", "did you mean `claude-code`?"),
        ("xyz", ["plan", "mode"], "see the list", "see the list"),
        ("xyz", ["plan", "mode"], "", "use one of plan, mode"),
        ("xyz", [f"a{number}" for number in range(9)], "", "use one of a0, a1, a2, a3, a4, a5, a6, a7, ..."),
    ],
)
def test_a_wrong_name_gets_a_hint(name: str, names: list[str], otherwise: str, hint: str):
    assert suggestion(name, names, otherwise) == hint


@check_each(
    ("text", "rest"),
    [
        ("a\x1b[31mred\x1b[0m b", "ared b"),
        ("\x1b]0;a title\x07b\x1b]8;;http://x\x1b\\link", "blink"),
        ("\x1b]0;no end\nnext line", "\nnext line"),
        ("\x9b2Ja\x1bPdata\x9cb\x1b(Bc\x1b", "abc"),
        ("plain\ttext\n", "plain\ttext\n"),
    ],
)
def test_control_sequences_are_removed_with_their_parameters(text: str, rest: str):
    assert without_sequences(text) == rest


@check_each(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory", "x"), "no such file or directory"),
        (ValueError("Bad value"), "bad value"),
        (ValueError(), ""),
    ],
)
def test_a_reason_is_in_lower_case_without_number_and_repr(error: Exception, reason: str):
    assert system_reason(error) == reason
