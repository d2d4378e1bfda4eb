"""Nonces: the same for the same conversation, different for any other, and easy to copy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import ANY_TEXT
from toolspeak.core.types import Message, Role, TextPart, Tool
from toolspeak.engine.prompting.nonces import nonces_of
from toolspeak.parsing import parse

pytestmark = pytest.mark.requirement("R-E2")


def said(*messages: tuple[Role, str]) -> tuple[Message, ...]:
    return tuple(Message(role, (TextPart(text),)) for role, text in messages)


BEGUN = said(("system", "Be kind."), ("user", "Hello"))


def test_a_conversation_keeps_its_nonce_as_it_goes_on():
    later = (*BEGUN, *said(("assistant", "Hi"), ("user", "And now?")))
    assert nonces_of(b"s", "t", later)(0) == nonces_of(b"s", "t", BEGUN)(0)


def test_everything_that_tells_conversations_apart_changes_the_nonce():
    others = [
        nonces_of(b"s", "t", BEGUN)(0),
        nonces_of(b"s", "t", BEGUN)(1),
        nonces_of(b"other", "t", BEGUN)(0),
        nonces_of(b"s", "other", BEGUN)(0),
        nonces_of(b"s", "t", said(("system", "Be rude."), ("user", "Hello")))(0),
        nonces_of(b"s", "t", said(("system", "Be kind."), ("user", "Bye")))(0),
        nonces_of(b"s", "t", said(("user", "Hello")))(0),
        nonces_of(b"s", "t", said(("system", "Be kind.")))(0),
        nonces_of(b"s", "t", ())(0),
    ]
    assert len(set(others)) == len(others)


def test_with_tools_the_nonce_depends_on_them_and_not_on_what_is_said():
    later = said(("system", "Be rude."), ("user", "Bye"))
    one, other = Tool("f", "About f."), Tool("f", "About f.", {"type": "object"})
    assert nonces_of(b"s", "t", BEGUN, (one,))(0) == nonces_of(b"s", "t", later, (Tool("f", "About f."),))(0)
    others = [
        nonces_of(b"s", "t", BEGUN)(0),
        nonces_of(b"s", "t", BEGUN, (one,))(0),
        nonces_of(b"s", "t", BEGUN, (one,))(1),
        nonces_of(b"other", "t", BEGUN, (one,))(0),
        nonces_of(b"s", "other", BEGUN, (one,))(0),
        nonces_of(b"s", "t", BEGUN, (other,))(0),
        nonces_of(b"s", "t", BEGUN, (one, other))(0),
    ]
    assert len(set(others)) == len(others)


@check_each("between", ["\x00", "", "\x00\x00\x00\x00"])
def test_text_cannot_pass_for_another_part_of_the_conversation(between: str):
    one = said(("system", f"a{between}b"), ("user", "c"))
    two = said(("system", "a"), ("user", f"b{between}c"))
    assert nonces_of(b"s", "t", one)(0) != nonces_of(b"s", "t", two)(0)


@given(st.binary(max_size=8), ANY_TEXT, ANY_TEXT, st.integers(0, 2**32 - 1))
def test_a_nonce_is_a_short_word_that_a_small_model_can_copy(secret: bytes, tenant: str, text: str, counter: int):
    nonce = nonces_of(secret, tenant, said(("user", text)))(counter)
    assert 6 <= len(nonce) <= 8
    assert nonce.isascii() and nonce.isalnum() and nonce.islower()
    assert nonce[0].isalpha()
    assert not set(nonce) & set("aeiouy01l")
    assert parse(f'```json action {nonce}\n{{"tool": "f", "parameters": {{}}}}\n```', nonce=nonce).calls
