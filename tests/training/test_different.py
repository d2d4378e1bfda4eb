"""Different tools in one request: each is asked for and called, whatever joins the requests."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import ToolCall
from training.different import JOINTS, Joint, Part, can_share, join, joints, together
from training.family import Offer, Style, families
from training.recorded import Recorded
from training.scenes import Scenes
from training.shares import SHARES, drawn

FAMILIES = families()
ORDERS = (Part("Add 2 and 3.", (ToolCall("add", {}),)), Part("Find a vet in Rome.", (ToolCall("find", {}),)))
QUESTIONS = (Part("What is 4 times 5?", (ToolCall("times", {}),)), Part("Who wrote Emma?", (ToolCall("author", {}),)))


def test_the_shares_of_all_groups_add_up_to_100_and_what_cannot_be_had_is_mixed():
    assert sum(SHARES.values()) == 100
    assert SHARES["different"] >= 15
    rng = random.Random(1)
    assert {drawn(rng, {"chain"}) for _ in range(300)} == {"chain", "mixed"}


def test_some_joints_are_never_trained_on():
    trained, held_out = joints(), joints(held_out=True)
    assert held_out and len(trained) > 60
    assert not set(trained) & set(held_out)
    assert len(trained) + len(held_out) == len(JOINTS.read_text(encoding="utf-8").splitlines())


@check_each("joint", (*joints(), *joints(held_out=True)), ids=lambda each: each.key)
def test_every_joint_says_all_parts_in_their_order_and_fits_its_mood(joint: Joint):
    parts = QUESTIONS if joint.mood == "ask" else ORDERS
    request, calls = join(parts, [joint], random.Random(2))
    assert [call.name for call in calls] == [call.name for part in parts for call in part.calls]
    places = [request.lower().index(part.said.lower().rstrip(".?")) for part in parts]
    assert places == sorted(places)
    assert not re.search(r"\{|\}|#|\.\.$|\?\.|\.\?", request)
    if len(joint.pieces) > 1:
        three, _ = join([*parts, parts[0]], [joint], random.Random(2))
        assert three.lower().count(parts[0].said.lower().rstrip(".?")) == 2


def test_orders_stand_in_one_question_only_where_all_parts_are_orders():
    polite = Joint("do", ("Can you {a}", ", {a}", "and {a}?"))
    assert join(ORDERS, [polite], random.Random(1)).request == "Can you add 2 and 3 and find a vet in Rome?"
    assert join((ORDERS[0], QUESTIONS[0]), [polite], random.Random(1)).request == "Add 2 and 3. What is 4 times 5?"


@check_each("seed", range(6))
def test_the_calls_fit_and_texts_are_called_as_they_are_said(seed: int):
    rng = random.Random(seed)
    style = Style.draw(rng)
    for _ in range(25):
        offers = list(
            {each.tool.name: each for each in (rng.choice(FAMILIES).offer(rng, style) for _ in "abc")}.values()
        )
        tools = {each.tool.name: each.tool for each in offers}
        _, calls = together(offers, joints(), rng)
        assert {call.name for call in calls} == set(tools)
        for call in calls:
            assert not ArgumentSchema.of(tools[call.name].parameters).problems(call.arguments), call


def test_two_tools_can_be_asked_about_the_same_thing():
    rng, same = random.Random(5), 0
    offers = [family.offer(rng, Style()) for family in FAMILIES]
    for _ in range(400):
        one, other = rng.sample(offers, 2)
        if can_share(one, other):
            _, calls = together([one, other], joints(), rng)
            texts = [{value for value in call.arguments.values() if isinstance(value, str)} for call in calls]
            same += bool(texts[0] & texts[-1]) and calls[0].name != calls[-1].name
    assert same > 3


def test_scenes_ask_for_several_tools_that_are_all_listed():
    scenes, rng = Scenes(FAMILIES, None, []), random.Random(3)
    found = [scene for _ in range(120) for scene in scenes.group(rng) if scene.what == "different"]
    counts = {len({call.name for call in scene.answer.calls}) for scene in found}
    assert counts == {2, 3, 4}
    for scene in found:
        assert {call.name for call in scene.answer.calls} <= {tool.name for tool in scene.turn.tools}
        assert isinstance(scene.turn.messages[-1].text, str)


def test_recorded_requests_of_different_people_are_joined(tmp_path: Path):
    rows = [
        {
            "query": f"{request} {at}.",
            "tools": [{"name": name, "description": about, "parameters": {"value": {"type": "int"}}}],
            "answers": [{"name": name, "arguments": {"value": at}}],
        }
        for name, about, request in (
            ("tide_table", "Times of high water in a harbor", "High water in the harbor"),
            ("knit_rows", "Counts rows of a scarf", "Knit the row"),
            ("ring_bell", "Rings a church bell", "Ring the bell so many times:"),
        )
        for at in range(20)
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scenes, rng = Scenes(FAMILIES, None, [], None, Recorded(tmp_path)), random.Random(3)
    found = [scene for _ in range(200) for scene in scenes.group(rng) if scene.what == "different_recorded"]
    assert found
    for scene in found:
        names = [call.name for call in scene.answer.calls]
        assert len(names) == len(set(names)) >= 2


def test_an_offer_asks_shortly_without_anything_around_it():
    rng = random.Random(1)
    offer: Offer = FAMILIES[0].offer(rng, Style())
    said, call = offer.short(rng)
    assert said
    assert call.name == offer.tool.name
