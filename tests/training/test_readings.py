"""What tools read as plain text: every text can be drawn, and whatever tells it holds what it must."""

from __future__ import annotations

import random
import re

import pytest

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.parsing import parse
from training.compare import stands
from training.family import Style, families
from training.readings import Reader, read, readers
from training.render import prompt, target
from training.scenes import Scene, Scenes
from training.tasks import written
from training.unseen import READERS

TRAINED = (*readers(), *readers(held_out=True))


def _texts(found: tuple[Reader, ...]) -> list[str]:
    """Those with words in them; a bare value is anybody's."""
    return [text.text for each in found for text in each.texts if re.sub(r"\{[^{}]*\}", "", text.text).strip()]


@check_each("reader", TRAINED, ids=lambda each: each.names.split()[0])
def test_every_text_is_told_with_what_it_says_and_asked_for_by_a_call_that_fits(reader: Reader):
    rng = random.Random(3)
    tool = reader.tool(rng, Style.draw(rng))
    assert len(reader.requests) > 1
    assert all(request.count("{id}") == 1 for request in reader.requests)
    for text in reader.texts:
        told = reader.told(tool, rng, text)
        assert told.holds
        assert stands(told.holds, told.words)
        assert not re.search(r"\{[a-z][:}]", told.content + told.words + told.request)
        assert not ArgumentSchema.of(tool.parameters).problems(told.call.arguments)


def test_no_two_read_the_same_texts_and_some_are_held_out():
    texts = _texts(TRAINED)
    assert len(texts) == len(set(texts)) > 400
    assert readers(held_out=True)
    assert not {each.names for each in readers()} & {each.names for each in readers(held_out=True)}


def test_neither_a_text_nor_a_request_nor_a_pair_of_name_and_description_of_the_test_is_trained_on():
    told = {(name, reader.about.rstrip(".")) for reader in TRAINED for name in reader.names.split()}
    assert not told & {(name, reader.about.rstrip(".")) for reader in READERS for name in reader.names.split()}
    assert not set(_texts(TRAINED)) & set(_texts(READERS))
    assert not {text for each in TRAINED for text in each.requests} & {
        text for each in READERS for text in each.requests
    }


@check_each(
    "wrong",
    ["reader a_name\nby x | city | X\n> {id}?", "reader a | b\n> {id}?", "reader a | b\nby x | city | X\n= told"],
)
def test_what_is_not_told_as_it_should_be_is_named(wrong: str):
    with pytest.raises(ValueError, match="no reader: reader a"):
        read(wrong)


def _scenes(kind: str) -> list[Scene]:
    scenes, rng = Scenes(families(), None, [], tasks=written(), readers=readers()), random.Random(4)
    return [scene for _ in range(500) for scene in scenes.group(rng, kind)]  # type: ignore[arg-type]


def test_what_was_read_is_told_and_not_computed_with_though_a_tool_for_it_is_there():
    found = [scene for scene in _scenes("envelope") if scene.what in ("told", "looked_up") and scene.holds]
    assert {scene.what for scene in found} == {"told", "looked_up"}
    for scene in found:
        assert not scene.answer.calls
        assert stands(scene.holds, scene.answer.text)
        assert len(scene.turn.tools) > 1


def test_how_an_order_in_a_result_is_told_is_never_taken_for_a_call():
    found = [scene for scene in _scenes("inline") if scene.what == "injected"]
    assert found
    for scene in found:
        nonce = prompt(scene.turn).nonce
        assert not parse(target("inline", scene.answer, nonce), scene.turn.tools, nonce=nonce).calls
