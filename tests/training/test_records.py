"""Lists and objects that tools give: what is told of them is all there, and what is computed with them fits."""

from __future__ import annotations

import random
import re

import pytest

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from training.compare import stands
from training.family import Style, families
from training.records import Records, read, records
from training.results import failure
from training.scenes import Scenes

ALL = (*records(), *records(held_out=True))


def test_some_of_them_are_never_trained_on():
    assert len(ALL) > 40
    assert len(records(held_out=True)) > 1
    assert len({name for each in ALL for name in each.names.split()}) == sum(len(each.names.split()) for each in ALL)


@check_each("one", ALL, ids=lambda each: each.names.split()[0])
def test_what_is_told_holds_every_value_that_was_asked_for(one: Records):
    rng = random.Random(3)
    for _ in range(25):
        tool = one.tool(rng, Style.draw(rng))
        asked, told = one.retold(tool, rng)
        assert asked.call is not None and told.call is None
        assert not ArgumentSchema.of(tool.parameters).problems(asked.call.arguments)
        assert told.words
        assert stands(told.holds, told.words), told
        assert told.what == "failed" or stands(told.holds, told.done[0][1].content), told
        assert not re.search(r"\{[a-z_]+\}", told.words + told.request)


@check_each("one", [each for each in ALL if each.compute], ids=lambda each: each.names.split()[0])
def test_a_computation_takes_values_of_the_result_and_fits_its_tool(one: Records):
    rng = random.Random(4)
    for _ in range(10):
        tool, calculator = one.tool(rng, Style()), one.calculator(rng, Style())
        assert calculator is not None
        look, compute, answer = one.worked_out(tool, calculator, rng)
        assert look.call is not None and compute.call is not None
        assert not ArgumentSchema.of(calculator.parameters).problems(compute.call.arguments), compute.call
        for value in compute.call.arguments.values():
            each = value if isinstance(value, list) else [value]
            assert stands(tuple(map(str, each)), compute.done[0][1].content)
        assert stands(answer.holds, answer.words)


def test_errors_are_told_with_what_they_say():
    rng = random.Random(1)
    for _ in range(200):
        found = failure(rng)
        assert stands(found.holds, found.words) and stands(found.holds, found.content)


def test_scenes_of_lists_and_objects_ask_tell_and_compute():
    scenes, rng = Scenes(families(), None, []), random.Random(4)
    kinds = {scene.what for _ in range(400) for scene in scenes.group(rng)}
    assert {"in_full", "one_field", "empty", "failed", "worked_out"} <= kinds


@check_each("wrong", ["record a_name\nby x | city | X", "card a | b\nby x | city | X\nof y city\n> {id}"])
def test_what_is_not_written_as_it_should_be_is_named(wrong: str):
    with pytest.raises(ValueError, match=r"no record: (record|card) a"):
        read(wrong)
