"""Tokens are estimated on the safe side, held against two real vocabularies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rs_bpe import openai  # its vocabularies are inside the package

from toolspeak.core.tokens import estimate_tokens

VOCABULARIES = {"o200k": openai.o200k_base(), "cl100k": openai.cl100k_base()}


@pytest.mark.parametrize(
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
