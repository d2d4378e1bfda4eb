"""A chat with the embedded model that begins with a greeting is answered from a card."""

from __future__ import annotations

import asyncio
from typing import Any

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
        "hihelp",
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


WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def without_weights() -> EmbeddedUpstream:
    def weights():
        raise AssertionError("the model was asked")

    return EmbeddedUpstream(recipe_for(""), weights)


def test_the_card_needs_no_weights():
    client = ts.Client(without_weights())
    reply = client.chat("What can you do?", tools=[WEATHER])
    assert "I can call `get_weather`." in reply.text and not reply.tool_calls
    assert "demo model" in client.chat("Hello!").text


@check_each(
    "options",
    [
        {"tools": [WEATHER], "tool_choice": "required"},
        {"tools": [WEATHER], "tool_choice": {"name": "get_weather"}},
        {"response_format": {"type": "json_object"}},
        {"tools": [WEATHER], "response_format": {"type": "json_object"}},
    ],
)
def test_where_a_call_or_a_format_is_demanded_the_model_is_asked(options: dict[str, Any]):
    with pytest.raises(Exception, match="the model was asked"):
        ts.Client(without_weights()).chat("Hello", **options)


def test_a_closed_upstream_answers_nothing_from_the_card():
    async def main() -> None:
        upstream = without_weights()
        await upstream.close()
        async with ts.AsyncClient(upstream) as client:
            await client.chat("Hello")

    with pytest.raises(ts.UsageError, match="closed"):
        asyncio.run(main())
