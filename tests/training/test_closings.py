"""Closings after an answer call nothing; thanks with a request call what is requested."""

from __future__ import annotations

import random

from toolspeak.engine.prompting.history import is_answered
from training.closings import closings, followed, thanks_first
from training.family import families
from training.scenes import Scenes


def test_each_closing_is_there_once_and_has_replies():
    found = [*closings(), *closings(held_out=True)]
    assert len({each.said for each in found}) == len(found) > 400
    assert all(each.said and each.replies and all(each.replies) for each in found)
    assert len(closings(held_out=True)) > 20
    assert len(thanks_first()) > 30
    assert thanks_first(held_out=True)


def test_thanks_stand_before_the_whole_request():
    assert followed(("ok thanks, {a.}",), "Find a vet in Rome.", random.Random(1)) == "ok thanks, find a vet in Rome."
    assert followed(("Thanks! {A.}",), "what is 2 + 2?", random.Random(1)) == "Thanks! What is 2 + 2?"


def test_what_closes_a_conversation_is_answered_in_words_and_what_goes_on_by_a_call():
    scenes, rng = Scenes(families(), None, [("Hi", "Hello!")]), random.Random(2)
    found = [scene for _ in range(300) for scene in scenes.group(rng) if scene.what in ("closing", "thanks_first")]
    assert {scene.what for scene in found} == {"closing", "thanks_first"}
    for scene in found:
        assert is_answered(scene.turn.messages)
        assert bool(scene.answer.calls) == (scene.what == "thanks_first")
        assert bool(scene.answer.text) == (scene.what == "closing")


def test_closings_that_are_held_out_are_not_trained_on():
    said: list[set[str]] = []
    for held_out in (False, True):
        scenes, rng = Scenes(families(), None, [], held_out=held_out), random.Random(3)
        drawn = [scene for _ in range(200) for scene in scenes.group(rng) if scene.what == "closing"]
        said.append({scene.turn.messages[-1].text for scene in drawn})
    assert all(said)
    assert not said[0] & said[1]
