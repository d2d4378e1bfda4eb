"""Errands written by hand: every request says all that its calls need."""

from __future__ import annotations

import random

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from training.errands import Errand, errands
from training.family import Style, families
from training.held_out import is_held_out

FAMILIES = families()
TRAINED = [family for family in FAMILIES if not is_held_out(family.key, 14)]
ERRANDS = (*errands(TRAINED), *errands(TRAINED, held_out=True))


def test_errands_with_a_family_that_is_held_out_are_held_out_as_well():
    trained, known = errands(TRAINED), {family.key for family in TRAINED}
    assert len(ERRANDS) > 70
    assert len(trained) < len(ERRANDS)
    assert all(family.key in known for errand in trained for family in errand.families)


@check_each("errand", ERRANDS, ids=lambda each: " ".join(family.key for family in each.families))
def test_every_request_says_what_its_calls_take(errand: Errand):
    rng = random.Random(4)
    for request in errand.requests:
        for _ in range(5):
            offers = [family.offer(rng, Style.draw(rng)) for family in errand.families]
            told, calls = errand.ask(offers, rng, request)
            assert "{" not in told and "]" not in request.rpartition("[")[0]
            assert [call.name for call in calls] == [offer.tool.name for offer in offers]
            for offer, call in zip(offers, calls, strict=True):
                assert not ArgumentSchema.of(offer.tool.parameters).problems(call.arguments), (request, call)


def test_options_are_said_in_words_though_a_tool_calls_them_by_number():
    errand = next(each for each in ERRANDS if each.families[-1].key == "transit.fare")
    rng = random.Random(2)
    coded = 0
    for _ in range(300):
        offers = [family.offer(rng, Style()) for family in errand.families]
        told, calls = errand.ask(offers, rng)
        kind = offers[-1].kind_of("passenger_type")
        if kind is not None and kind.schema["type"] == "integer":
            coded += 1
            options = errand.families[-1].params["passenger_type"].kind
            assert options is not None
            assert any(option in told for option in options.options), (told, calls)
    assert coded
