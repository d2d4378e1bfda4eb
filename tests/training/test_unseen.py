"""Tasks with tools never seen: they can be served, and the training has nothing of them."""

from __future__ import annotations

import random

import pytest

from toolspeak.core.schema import ArgumentSchema
from training.chain_kinds import TRAINED
from training.chains import Chain
from training.family import Style, families
from training.tasks import written
from training.unseen import ASKED, UNSEEN


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("asked", [False, True])
def test_the_calls_of_a_task_fit_its_tools_and_its_answer_ends_it(seed: int, asked: bool):
    rng = random.Random(seed)
    chain = Chain(rng, Style(), ASKED[seed % len(ASKED)] if asked else UNSEEN.task(rng))
    *calling, last = chain.rounds(rng)
    for tool, each in zip(chain.tools, calling, strict=True):
        (call,) = each.answer.calls
        assert call.name == tool.name
        assert ArgumentSchema.of(tool.parameters).problems(call.arguments) == ()
    assert not last.answer.calls and last.answer.text


def test_neither_a_name_nor_a_description_nor_a_sentence_is_trained_on():
    tasks = (*written(), *written(held_out=True))
    told = [*TRAINED.lookups, *TRAINED.computes, *(each for task in tasks for each in (task.look, task.calc))]
    names = {name for each in told for name in each.names.split()} | {
        name for each in families() for name in each.names
    }
    abouts = {about.rstrip(".") for each in families() for about in each.abouts} | {
        each.about.rstrip(".") for each in told
    }
    unseen = [*UNSEEN.lookups, *UNSEEN.computes, *(each for task in ASKED for each in (task.look, task.calc))]
    assert not names & {name for each in unseen for name in each.names.split()}
    assert not abouts & {each.about.rstrip(".") for each in unseen}
    requests = {*TRAINED.requests, *(request for task in tasks for request in task.requests)}
    assert not requests & {*UNSEEN.requests, *(request for task in ASKED for request in task.requests)}
