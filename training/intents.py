"""Real requests of people to voice assistants, with the tool that each is meant for.

CLINC150 (CC-BY-3.0) gives requests of 150 intents and requests of none, HWU64 (CC-BY-4.0) and Snips (CC0) also mark the
values in them. A tool is made for each intent; its parameters are the marked values. Above: `scenes`. Below: `family`
(its styles).
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, Tool, ToolCall

from .family import Style
from .wording import sentence, strung

#: A value that is marked less often than this share of an intent's requests is no parameter of it.
_RARE = 0.02
#: Intents that are talk rather than requests.
_TALK = frozenset(
    "oos greeting goodbye thank_you yes no maybe repeat general_praise general_confirm general_negate general_dontcare general_affirm general_repeat general_explain general_quirky general_joke general_commandstop who_made_you what_is_your_name meaning_of_life are_you_a_bot how_old_are_you what_are_your_hobbies do_you_have_pets where_are_you_from fun_fact tell_joke".split()
)

#: Intents that a function of the Berkeley leaderboard serves, with the same values.
_TESTED = frozenset(
    "weather weather_query get_weather exchange_rate qa_currency qa_stock qa_maths recipe cooking_recipe play_music news_query datetime_convert datetime_query timezone translate email_sendemail transport_taxi transport_query transport_traffic uber recommendation_locations recommendation_movies recommendation_events book_restaurant restaurant_suggestion search_screening_event measurement_conversion calculator calories nutrition_info distance directions book_flight book_hotel car_rental".split()
)


class Request(NamedTuple):
    """What somebody said, and the values in it."""

    text: str
    values: dict[str, str]


class IntentOffer:
    """A tool for one intent, and requests for it."""

    def __init__(
        self, intent: str, requests: list[Request], slots: list[str], rng: random.Random, style: Style
    ) -> None:
        self.intent = intent
        words = _words(intent)
        name = rng.choice(
            [
                words.replace(" ", "_"),
                words.replace(" ", "_"),
                "assistant." + words.replace(" ", "_"),
                words.replace(" ", "_") + "_tool",
            ]
        )
        about = rng.choice(["{0}.", "{0}", "Use this to handle: {0}.", "Tool for the intent '{1}'."]).format(
            words.capitalize(), words
        )
        properties: JSONObject = {}
        for slot in slots:
            label = slot.replace("_", " ")
            schema: JSONObject = {"type": "string"}
            if rng.random() < 0.7:
                schema["description"] = rng.choice(
                    [f"The {label}", f"{label.capitalize()}, if given", f"{label.capitalize()} as the user said it"]
                )
            properties[slot] = schema
        self.tool = Tool(
            style.named(name), style.told(about), {"type": "object", "properties": properties, "required": []}
        )
        self.required: list[str] = []
        self._requests = requests

    def short(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call, with nothing around it."""
        found = rng.choice(self._requests)
        return found.text, ToolCall(
            self.tool.name,
            {name: found.values[name] for name in self.tool.parameters["properties"] if name in found.values},
        )

    def ask(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call."""
        said, call = self.short(rng)
        return (said if rng.random() < 0.7 else sentence(said, rng)), call

    def ask_several(self, rng: random.Random, count: int) -> tuple[str, list[ToolCall]]:
        """Requests strung together; only two, since nobody talks on and on."""
        several = [self.short(rng) for _ in range(2)]
        return strung([said for said, _ in several], rng), [call for _, call in several]


class Intents:
    """All intents of the files that are there."""

    def __init__(self, folder: Path) -> None:
        self._requests: dict[str, list[Request]] = {}
        self.none: list[str] = []
        clinc = json.loads((folder / "clinc150.json").read_text(encoding="utf-8"))
        for text, intent in clinc["train"]:
            self._add(intent, text, {})
        self.none = [text for text, _ in clinc["oos_train"]]
        for each in json.loads((folder / "hwu64.json").read_text(encoding="utf-8"))["rasa_nlu_data"]["common_examples"]:
            self._add(each["intent"], each["text"], {slot["entity"]: slot["value"] for slot in each["entities"]})
        for intent, rows in json.loads((folder / "snips.json").read_text(encoding="utf-8")).items():
            for row in rows:
                values = {part["entity"]: part["text"].strip() for part in row["data"] if "entity" in part}
                self._add(
                    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", intent).lower(),
                    "".join(part["text"] for part in row["data"]),
                    values,
                )
        self._slots = {intent: _slots(requests) for intent, requests in self._requests.items()}
        self._names = list(self._requests)

    def _add(self, intent: str, text: str, values: dict[str, str]) -> None:
        if intent not in _TALK | _TESTED and text.strip() and len(text) < 200:
            self._requests.setdefault(intent, []).append(Request(text.strip(), values))

    def offer(self, rng: random.Random, style: Style) -> IntentOffer:
        """A tool for one of the intents."""
        intent = rng.choice(self._names)
        return IntentOffer(intent, self._requests[intent], self._slots[intent], rng, style)

    def anything(self, rng: random.Random) -> str:
        """Something that somebody said."""
        return rng.choice(self._requests[rng.choice(self._names)]).text


def _slots(requests: list[Request]) -> list[str]:
    counts = Counter(name for request in requests for name in request.values)
    return [name for name, count in counts.most_common(8) if count >= max(2, _RARE * len(requests))]


def _words(intent: str) -> str:
    return intent.replace("_", " ").strip().lower()
