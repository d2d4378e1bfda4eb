"""The data that the adapter is trained on: what is asked can be called, and what is called fits."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import ToolCall
from training.chain_kinds import TRAINED
from training.chains import Chain
from training.compose import Composed
from training.family import Style, families
from training.recorded import Recorded
from training.render import Answer, prompt, target
from training.scenes import Scenes
from training.values import kind

FAMILIES = families()
CITIES = ("Oslo", "Rome", "Lima", "Cairo", "Quito", "Tokyo", "Paris", "Sofia", "Hanoi", "Dakar")


def fits(tool_parameters: object, call: ToolCall) -> bool:
    return not ArgumentSchema.of(tool_parameters).problems(call.arguments)


def test_families_have_names_of_their_own_and_ways_to_ask():
    assert len({family.key for family in FAMILIES}) == len(FAMILIES) > 200
    assert all(family.abouts and family.requests for family in FAMILIES)


@check_each("seed", range(4))
def test_a_call_fits_the_schema_of_its_tool_and_stands_in_its_order(seed: int):
    rng = random.Random(seed)
    for family in FAMILIES[seed::4]:
        offer = family.offer(rng, Style.draw(rng))
        _, one = offer.ask(rng)
        _, several = offer.ask_several(rng, 3)
        order = list(offer.tool.parameters["properties"])
        for call in (one, *several):
            assert fits(offer.tool.parameters, call), (family.key, call.arguments)
            assert sorted(call.arguments, key=order.index) == list(call.arguments)


def test_a_composed_tool_is_called_as_it_is_declared():
    rng = random.Random(7)
    for _ in range(100):
        made = Composed(rng, Style.draw(rng))
        for call in (made.ask(rng)[1], *made.ask_several(rng, 2)[1]):
            assert fits(made.tool.parameters, call)


@check_each(
    ("spec", "said", "value"),
    [("pct", "5%", 0.05), ("pctn", "20%", 20), ("durations", "2 minutes", 120), ("freq", "monthly", 12)],
)
def test_what_is_said_and_what_is_called_belong_together(spec: str, said: str, value: object):
    rng = random.Random(3)
    drawn = [kind(spec).draw(rng) for _ in range(4000)]
    assert {each.value for each in drawn if each.said == said} == {value}


def test_the_same_seed_gives_the_same_scenes():
    scenes = Scenes(FAMILIES, None, [])
    first, second = ([scenes.group(random.Random(at)) for at in range(10)] for _ in range(2))
    assert first == second


@check_each("plan", ["envelope", "inline", "decision"])
def test_a_scene_is_asked_by_the_engine_and_answered_in_its_form(plan: str):
    scenes, rng = Scenes(FAMILIES, None, [("Hello", "Hi!")]), random.Random(5)
    for _ in range(15):
        for scene in scenes.group(rng, plan):  # type: ignore[arg-type]
            asked = prompt(scene.turn)
            assert asked.text.startswith("<|im_start|>system\n")
            assert asked.text.endswith("<|im_start|>assistant\n")
            said = target(plan, scene.answer, asked.nonce)  # type: ignore[arg-type]
            assert asked.nonce is None or plan == "inline" or asked.nonce in said
            if plan != "inline":
                calls = json.loads(said)["calls" if plan == "envelope" else "tools"]
                assert [each["name"] for each in calls] == [call.name for call in scene.answer.calls]


def test_a_chain_ends_in_an_answer_from_its_last_result():
    rng = random.Random(1)
    rounds = Chain(rng, Style(), TRAINED.task(rng)).rounds(rng)
    assert [bool(each.answer.calls) for each in rounds] == [True, True, False]
    assert target("envelope", Answer((), "It is 4."), "abc") == '{"nonce":"abc","calls":[],"reply":"It is 4."}'


def test_recorded_requests_come_with_their_own_tools_and_fit_them(tmp_path: Path):
    tool = {"name": "get_weather", "description": "Weather of a city", "parameters": {"city": {"type": "str"}}}
    other = {"name": "send_parcel", "description": "Sends a box", "parameters": {"weight": {"type": "float"}}}
    rows = [
        *({"query": f"Weather in {city}?", "tools": [tool], "answers": [{"name": "get_weather", "arguments": {"city": city}}]} for city in CITIES),
        *({"query": f"Send a box of {at} kg", "tools": [other], "answers": [{"name": "send_parcel", "arguments": {"weight": at}}]} for at in range(20)),
        *({"query": f"Translate the word {city}", "tools": [tool], "answers": [], "reply": "I cannot."} for city in CITIES),
    ]  # fmt: skip
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scenes, rng = Scenes(FAMILIES, None, [], None, Recorded(tmp_path)), random.Random(3)
    found = [scene for _ in range(400) for scene in scenes.group(rng) if scene.what == "recorded"]
    assert len(found) > 20
    for scene in found:
        listed = {each.name: each for each in scene.turn.tools}
        assert all(fits(listed[call.name].parameters, call) for call in scene.answer.calls)
    names = [len(scene.turn.tools) for scene in found]
    assert min(names) >= 1 and max(names) > 2
    told = [scene.answer.text for _ in range(400) for scene in scenes.group(rng) if scene.what == "irrelevant"]
    assert "I cannot." in told
