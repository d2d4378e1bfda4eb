"""Tasks with tools never seen: they can be served, and the training has nothing of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from training.chain_kinds import TRAINED
from training.chains import Chain
from training.family import Style, families
from training.tasks import written
from training.unseen import ASKED, UNSEEN

TRAINING = Path(__file__).parents[2] / "training"
TEXTS = sorted(file for folder in ("families", "tasks", "readings") for file in (TRAINING / folder).iterdir())


@check_each("seed", range(40))
@check_each("asked", [False, True])
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
    trained = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
    for unseen, seen in ((UNSEEN.lookups, TRAINED.lookups), (UNSEEN.computes, TRAINED.computes)):
        for kind in unseen:
            assert not set(kind.names.split()) & {name for other in seen for name in other.names.split()}
            assert kind.about not in {other.about for other in seen}
            texts = (*kind.names.split(), kind.about.rstrip("."))
            assert not [text for text in texts if text in trained and re.search(rf"\b{re.escape(text)}\b", trained)]
    assert not set(UNSEEN.requests) & set(TRAINED.requests)


def test_no_tool_and_no_sentence_of_those_that_are_worded_freely_is_trained_on():
    tasks = (*written(), *written(held_out=True))
    tools = [*TRAINED.tools(), *(tool for task in tasks for tool in task.tools())]
    names = {tool.name for tool in tools} | {name for family in families() for name in family.names}
    abouts = {tool.description for tool in tools} | {about for family in families() for about in family.abouts}
    bare = {about.rstrip(".") for about in abouts}
    requests = {request for task in tasks for request in (*task.requests, *task.alone)}
    for task in ASKED:
        assert not names & {tool.name for tool in task.tools()}
        assert not bare & {tool.description.rstrip(".") for tool in task.tools()}
        assert not requests & {*task.requests, *task.alone}
