"""A chat with the embedded model that begins with a greeting is answered from a card."""

from __future__ import annotations

import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.core.types import Message, Options, Request, TextPart
from toolspeak.upstreams.embedded.card import card_for
from toolspeak.upstreams.embedded.upstream import EmbeddedUpstream, recipe_for

pytestmark = pytest.mark.requirement("H1")


def asking(*texts: str, tools: tuple[str, ...] = ()) -> Request:
    said = [Message("system", (TextPart("Be kind."),))]
    said += [Message(("user", "assistant")[at % 2], (TextPart(text),)) for at, text in enumerate(texts)]
    return Request("", tuple(said), options=Options(described_tools=tools))


@check_each(
    "question",
    [
        "Hello",
        "hi!",
        "Hey there",
        "Good morning.",
        "Hello! What can you do?",
        "What can you do for me?",
        "Who are you?",
        "help",
    ],
)
def test_a_greeting_is_answered_from_the_card(question: str):
    assert card_for(asking(question)).startswith("Hello! I am a small demo model")


@check_each(
    "question",
    [
        "",
        "?!",
        "Hello, what is 2 + 2?",
        "What can you do about the weather in Oslo?",
        "Say hello",
        "help me move",
        "hi " * 40,
    ],
)
def test_any_other_question_is_left_to_the_model(question: str):
    assert card_for(asking(question)) == ""


def test_a_later_greeting_is_left_to_the_model():
    assert card_for(asking("What is 2 + 2?", "4", "Hello")) == ""
    assert card_for(Request("", (Message("assistant", (TextPart("Hello"),)),))) == ""


def test_the_card_names_the_tools_and_a_question_for_one():
    assert 'I can call `clock` and `dice`. For example, ask me: "What time is it in Oslo?"' in card_for(
        asking("hello", tools=("clock", "dice"))
    )
    assert "I can call `own`. I know" in card_for(asking("hello", tools=("own",)))
    many = card_for(asking("hello", tools=tuple(f"t{number}" for number in range(14))))
    assert "`t11` and 2 more." in many and "t12" not in many
    assert "Offer me tools" in card_for(asking("hello"))


def test_the_card_needs_no_weights():
    def weights():
        raise AssertionError("the weights were asked for")

    tool = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    upstream = EmbeddedUpstream(recipe_for(""), weights)
    reply = ts.Client(upstream).chat("What can you do?", tools=[tool])
    assert "I can call `get_weather`." in reply.text and not reply.tool_calls
    assert "demo model" in ts.Client(upstream).chat("Hello!").text
