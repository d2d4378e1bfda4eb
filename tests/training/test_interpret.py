"""What the interpreter learns from: calls whose strings stand in the answer, and answers that make none."""

from __future__ import annotations

import json
import random

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from training.family import Style, families
from training.interpret import FORMS, Forms, Mention, Spelling, described, forms, strings_in, undone, with_odd_strings
from training.render import prompt, target
from training.scenes import Scenes

FAMILIES = families()


def mentions(rng: random.Random, count: int) -> list[Mention]:
    found: list[Mention] = []
    for family in rng.sample(FAMILIES, count):
        offer = family.offer(rng, Style.draw(rng))
        request, call = offer.ask(rng)
        found.append(Mention(with_odd_strings(call, offer.tool, rng), offer.tool, request))
    return found


def test_some_forms_are_never_trained_on():
    trained, held_out = forms(), forms(held_out=True)
    assert all(len(each) > 8 for each in trained)
    assert held_out.made and held_out.unmade
    assert not {*trained.made} & {*held_out.made}
    assert not {*trained.unmade} & {*held_out.unmade}


@check_each("form", sorted({*forms().made, *forms(held_out=True).made}))
def test_every_string_of_a_call_stands_in_the_answer_letter_by_letter(form: str):
    rng = random.Random(5)
    for count in (1, 1, 2, 3):
        made = mentions(rng, count)
        answer = described(made, mentions(rng, 1), Forms((form,), (), forms().beside), rng)
        assert all(each in answer for one in made for each in strings_in(one.call.arguments)), answer


def test_a_form_names_the_tool_or_says_what_it_does():
    lines = FORMS.read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert line[:2] in ("+ ", "- ", "~ "), line
        if line[0] == "+":
            assert any(slot in line for slot in ("{name}", "{doing}", "{code}", "{json}", "{xml}")), line


def test_odd_strings_still_fit_their_tools():
    rng = random.Random(6)
    for mention in mentions(rng, 150):
        assert not ArgumentSchema.of(mention.tool.parameters).problems(mention.call.arguments)


def test_json_is_written_rightly_or_with_damage():
    rng = random.Random(7)
    value = {"name": "f", "arguments": {"a": "x y", "b": [1, 2.5], "c": True, "d": None}}
    assert json.loads(Spelling().written(value)) == value
    assert all(json.loads(Spelling.draw(rng, whole=True).written(value)) == value for _ in range(50))
    broken = 0
    for _ in range(200):
        try:
            json.loads(Spelling.draw(rng).written(value))
        except ValueError:
            broken += 1
    assert broken > 120


def test_an_answer_that_makes_no_call_is_no_form_of_one_that_does():
    rng = random.Random(8)
    assert all(undone(mention, forms(), rng) for mention in mentions(rng, 40))
    lines = FORMS.read_text(encoding="utf-8").splitlines()
    made, unmade = ({line[2:] for line in lines if line[0] == mark} for mark in "+-")
    assert not made & unmade


def test_scenes_ask_the_interpreter_with_the_tool_prompt_of_any_turn():
    scenes, rng = Scenes(FAMILIES, None, [("Hi", "Hello!")]), random.Random(9)
    found = [
        scene
        for _ in range(500)
        for scene in scenes.group(rng, "inline")
        if scene.turn.messages[-1].text.startswith("Another")
    ]
    assert {scene.what for scene in found} == {"interpreted", "left_alone"}
    assert {len(scene.answer.calls) for scene in found} == {0, 1, 2, 3}
    assert max(len(scene.turn.tools) for scene in found) >= 8 and min(len(scene.turn.tools) for scene in found) == 1
    for scene in found[:20]:
        asked = prompt(scene.turn)
        said = json.loads(target(scene.turn.kind, scene.answer, asked.nonce))
        assert len(said["calls"]) == len(scene.answer.calls)
        assert said["reply"] == ""
        assert all(tool.name in asked.text for tool in scene.turn.tools)
