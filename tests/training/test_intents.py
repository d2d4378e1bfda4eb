"""Real requests to voice assistants: a tool for each intent, with the values that are marked in its requests."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from training.family import Style
from training.intents import Intents


@pytest.fixture
def intents(tmp_path: Path) -> Intents:
    coffee = [
        {"intent": "iot_coffee", "text": f"a {size} coffee", "entities": [{"entity": "size", "value": size}]}
        for size in ("small", "large")
    ]
    weather = {"intent": "weather_query", "text": "rain in Rome?", "entities": [{"entity": "place", "value": "Rome"}]}
    rated = [{"text": "Rate "}, {"entity": "book", "text": "Emma"}, {"text": " five"}]
    for name, held in (
        (
            "clinc150",
            {"train": [["hi there", "greeting"], ["freeze it", "freeze_account"]], "oos_train": [["why?", "oos"]]},
        ),
        ("hwu64", {"rasa_nlu_data": {"common_examples": [*coffee, weather]}}),
        ("snips", {"RateBook": [{"data": rated}] * 3}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(held), encoding="utf-8")
    return Intents(tmp_path)


def test_each_intent_is_a_tool_but_talk_and_what_a_public_test_asks_for(intents: Intents):
    rng = random.Random(1)
    found = {intents.offer(rng, Style(False, "under")).intent for _ in range(60)}
    assert found == {"freeze_account", "iot_coffee", "rate_book"}
    assert intents.none == ["why?"]


def test_marked_values_are_the_parameters_and_stand_in_the_calls(intents: Intents):
    rng = random.Random(2)
    for _ in range(60):
        offer = intents.offer(rng, Style(False, "under"))
        request, call = offer.ask(rng)
        assert set(call.arguments) <= set(offer.tool.parameters["properties"])
        assert all(value.lower() in request.lower() for value in call.arguments.values())
        if offer.intent == "rate_book":
            assert call.arguments == {"book": "Emma"}
