"""How requests are worded: slips leave values alone, lists stand where one value stood, near misses call nothing."""

from __future__ import annotations

import random
import re

from tests.cases import check_each
from training.compose import Composed
from training.family import Family, Offer, Style, families
from training.scenes import Scenes
from training.wording import misspelled, sentence, strung

FAMILIES = families()
SLOT = re.compile(r"\{[\w.]+\}")


def offers_with_a_list(count: int) -> list[Offer]:
    rng = random.Random(2)
    found: list[Offer] = []
    while len(found) < count:
        offer = rng.choice(FAMILIES).offer(rng, Style.draw(rng))
        if offer._plural:  # pyright: ignore[reportPrivateUsage]
            found.append(offer)
    return found


def test_a_slip_of_the_keyboard_leaves_slots_as_they_are():
    rng = random.Random(1)
    text = "Please transport {count} boxes of {items.kind} to {place}, quickly."
    told = {misspelled(text, rng) for _ in range(400)}
    assert len(told) > 5
    assert all(SLOT.findall(each) == ["{count}", "{items.kind}", "{place}"] for each in told)


def test_what_stands_around_a_request_keeps_its_words():
    rng = random.Random(4)
    for _ in range(200):
        said = sentence("Convert 20 USD to EUR.", rng)
        assert "onvert 20 USD to EUR" in said


def test_several_requests_in_one_are_all_there():
    rng = random.Random(5)
    for _ in range(50):
        said = strung(["Add 2 and 3.", "What is 4 times 5?"], rng)
        assert "dd 2 and 3" in said
        assert "hat is 4 times 5" in said


def test_a_tool_that_takes_a_list_is_called_once_with_a_list():
    rng = random.Random(3)
    seen = 0
    for offer in offers_with_a_list(40):
        name = offer._names[offer._plural]  # pyright: ignore[reportPrivateUsage]
        assert offer.tool.parameters["properties"][name]["type"] == "array"
        _, calls = offer.ask_several(rng, 3)
        assert len(calls) == 1
        value = calls[0].arguments.get(name)
        assert value is None or isinstance(value, list)
        seen += isinstance(value, list) and len(value) > 1
    assert seen > 5


@check_each(
    ("request_", "said"),
    [("Roll {n}d20", re.compile(r"Roll \d+d20", re.IGNORECASE)), ("Pay ${n}", re.compile(r"Pay \$\d+", re.IGNORECASE))],
)
def test_numbers_beside_letters_and_money_are_digits(request_: str, said: re.Pattern[str]):
    dice = next(family for family in FAMILIES if family.key == "games.dice_roll")
    number = next(param for param in dice.params.values() if param.required)
    rng = random.Random(6)
    family = Family("test", ("test.roll",), ("Test.",), {"n": number}, (request_,), None)
    for _ in range(300):
        offer = family.offer(rng, Style())
        if not offer._plural:  # pyright: ignore[reportPrivateUsage]
            text, _ = offer.fill(request_, {}, rng, {})  # pyright: ignore[reportPrivateUsage]
            assert said.search(text), text


def test_every_family_but_those_for_anything_has_near_misses():
    bare = [family.key for family in FAMILIES if not family.misses]
    assert len(bare) < 8


def test_a_composed_near_miss_is_for_something_else():
    rng = random.Random(8)
    for _ in range(60):
        made = Composed(rng, Style())
        noun, verbs = made._noun, made._said  # pyright: ignore[reportPrivateUsage]
        said = made.miss(rng).lower()
        assert noun not in said or not any(verb.lower() in said for verb in verbs if len(verb) > 4)


def test_near_misses_are_answered_in_words():
    scenes, rng = Scenes(FAMILIES, None, []), random.Random(9)
    found = [scene for _ in range(240) for scene in scenes.group(rng)]
    near = [scene for scene in found if scene.what == "near_miss"]
    assert len(near) > 20
    assert all(not scene.answer.calls and scene.answer.text for scene in near)
    assert any(scene.what == "listed" and len(scene.answer.calls) == 1 for scene in found)


def test_a_value_at_the_beginning_keeps_its_letters():
    rng = random.Random(6)
    assert all("lM90AA: window seat" in sentence("lM90AA: window seat", rng, True) for _ in range(200))
    told = [strung(["restart web-7", "T-4490: Ravi drives", "web-8 needs a restart"], rng) for _ in range(100)]
    assert all("T-4490: Ravi" in each and "web-8 needs" in each for each in told)
