"""Tasks that were written by hand: each can be asked for, served and answered."""

from __future__ import annotations

import random
import re

import pytest

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema
from training.chain_kinds import Task
from training.chains import Chain
from training.family import Style
from training.tasks import read, written
from training.values import kind

TASKS = (*written(), *written(held_out=True))
SLOT = re.compile(r"\{[^}]*\}")
ONE = """
lookup berth_fee harbour.fee_of_berth | What a berth costs a night.
by berth berth_no | pick(A1;B2) | Number of the berth
gives fee 12 80 2
compute stay_price | Price of a stay.
with nights integer {n} | How many nights
with fee number {it} | Fee of one night
gives total
n int(2,14)
? What does berth {id} cost?
> How much are {n} nights at berth {id}?
= They cost {r} euros.
"""


def test_a_task_is_read_as_it_is_written():
    (task,) = read(ONE)
    assert task.look.names == "berth_fee harbour.fee_of_berth"
    assert task.calc.params == (
        ("nights", "integer", "How many nights"),
        ("fee", "number", "Fee of one night"),
    )
    assert task.calc.formula == "{n}|{it}"
    assert task.alone == ("What does berth {id} cost?",)
    assert kind(task.look.spec).draw(random.Random(1)).value in ("A1", "B2")
    assert [tool.name for tool in task.tools()] == ["berth_fee", "harbour.fee_of_berth", "stay_price"]


def test_what_is_no_task_is_told_by_its_first_line():
    with pytest.raises(ValueError, match="no task: lookup berth_fee"):
        read(ONE.replace("gives total\n", ""))


def test_some_are_held_out_and_none_is_on_both_sides():
    assert written() and written(held_out=True)
    assert not set(written()) & set(written(held_out=True))


@check_each("task", TASKS, ids=lambda task: task.look.names.split()[0])
def test_every_task_can_be_asked_for_and_its_calls_fit_its_tools(task: Task):
    slots = ["{id}", "{n}"] if task.calc.spec else ["{id}"]
    assert all(sorted(SLOT.findall(request)) == slots for request in task.requests)
    assert all(SLOT.findall(request) == ["{id}"] for request in task.alone)
    assert all("{r}" in answer for answer in task.answers)
    rng = random.Random(3)
    for _ in range(4):
        chain = Chain(rng, Style(), task)
        *calling, last = chain.rounds(rng)
        for tool, each in zip(chain.tools, calling, strict=True):
            (call,) = each.answer.calls
            assert ArgumentSchema.of(tool.parameters).problems(call.arguments) == ()
        assert last.holds
        assert all(each in last.answer.text for each in last.holds)
        assert not SLOT.search(calling[0].messages[0].text + last.answer.text)
        first, told = chain.looked_up(rng)
        assert [call.name for call in first.answer.calls] == [chain.tools[0].name]
        assert not told.answer.calls
        assert told.holds
        assert all(each in told.answer.text for each in told.holds)


def test_the_parameters_of_a_computation_stand_in_any_order_and_keep_their_values():
    task = next(each for each in written() if len(each.calc.params) > 1)
    chains = [Chain(random.Random(seed), Style(), task) for seed in range(20)]
    asked = [chain.rounds(random.Random(0))[1].answer.calls[0].arguments for chain in chains]
    assert [list(each) for each in asked] == [list(chain.tools[1].parameters["properties"]) for chain in chains]
    assert all(each == asked[0] for each in asked)
    assert len({tuple(each) for each in asked}) > 1
