"""How a family file is read: lists of objects, values that are said and not meant, requests for one call only."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

import pytest

from tests.cases import check_each
from training.family import Family, Style, families
from training.values import kind

TOLD = """## goods
== goods.order | order_goods
@ Order goods.
lines : object[] ! What is ordered
lines.article : pick(bolt|nut|washer) ! Article
lines.box : object ? How it is packed
lines.box.size : enum(S|M|L) ! Size of the box
lines.count : int(2,9) ! How many
office : pick(Oslo|Lima|Bonn|Kyiv) ? For whom
> {lines.count} times {lines.article} for {office}
>> two lines: {lines.count} {lines.article}, {lines.2.count} {lines.2.article} in box {lines.2.box.size}
>> one {lines.article} for {office~}, no, for {office} [lines={"count":1}]
>> a bolt and a nut [lines=[{"count":1,"article":"bolt"},{"article":"nut","count":1}]]
"""


@pytest.fixture
def goods(tmp_path: Path) -> Family:
    (tmp_path / "goods.txt").write_text(TOLD, encoding="utf-8")
    return families(tmp_path)[0]


def asked(goods: Family, at: int, seed: int) -> tuple[str, list[dict[str, object]], object]:
    """What is said with a request, the lines and the office that are called with it."""
    rng = random.Random(seed)
    request = goods.requests[at]
    offers = (goods._replace(requests=(request,)).offer(rng, Style()) for _ in range(500))
    # As the family has it: no list in the place of a value, no other name.
    one = next(
        each
        for each in offers
        if {"lines", "office"} <= set(each.tool.parameters["properties"])
        and each.tool.parameters["properties"]["office"]["type"] == "string"
    )
    said, call = one.fill(*one.template(rng), rng, {})
    return said, call.arguments["lines"], call.arguments.get("office")


@pytest.mark.parametrize("seed", range(6))
def test_a_list_of_objects_has_an_entry_for_each_number_and_members_in_their_order(goods: Family, seed: int):
    said, lines, _ = asked(goods, 1, seed)
    assert [list(line) for line in lines] == [["article", "count"], ["article", "box", "count"]]
    assert all(str(line["article"]) in said for line in lines)
    assert lines[1]["box"] == {"size": said[-1]}


@pytest.mark.parametrize("seed", range(6))
def test_a_value_that_is_taken_back_is_said_and_not_called(goods: Family, seed: int):
    said, lines, office = asked(goods, 2, seed)
    taken_back = said.partition(" for ")[2].partition(",")[0]
    assert taken_back in ("Oslo", "Lima", "Bonn", "Kyiv")
    assert taken_back != office
    assert said.endswith(f"no, for {office}")
    assert lines[0]["count"] == 1


def test_fragments_that_tell_entries_of_a_list_are_one_call(goods: Family):
    rng = random.Random(2)
    family = goods._replace(requests=goods.requests[:1], joint=("Order:", "{lines.count} times {lines.article}"))
    asked = [family.offer(rng, Style()).ask_several(rng, 3) for _ in range(60)]
    gathered = [calls for said, calls in asked if said.count("times") == 3 and len(calls) == 1]
    assert gathered
    assert all(len(next(iter(each.values()))) == 3 for (call,) in gathered if len(each := call.arguments) == 1)
    assert not [said for said, calls in asked if said.startswith("Order:") and len(calls) > 1]


def test_a_list_that_is_fixed_is_called_as_it_stands(goods: Family):
    _, lines, _ = asked(goods, 3, 0)
    assert lines == [{"article": "bolt", "count": 1}, {"article": "nut", "count": 1}]


def test_what_asks_for_one_call_only_is_never_asked_several_times_over(goods: Family):
    rng = random.Random(1)
    offer = goods.offer(rng, Style())
    assert {offer.template(rng)[0] for _ in range(50)} == {goods.requests[0]}


def test_families_of_files_that_came_later_stand_behind_all_others(tmp_path: Path):
    for name in ("zoo", "inhouse_a", "art"):
        (tmp_path / f"{name}.txt").write_text(TOLD.replace("goods.order", name), encoding="utf-8")
    assert [family.key for family in families(tmp_path)] == ["art", "zoo", "inhouse_a"]


@check_each(("spec", "form"), [("day(%d.%m.%Y)", "%d.%m.%Y"), ("moment", "%Y-%m-%dT%H:%M:%S"), ("yearmonth", "%Y-%m")])
def test_a_date_is_called_in_its_form(spec: str, form: str):
    rng = random.Random(5)
    values = [str(kind(spec).draw(rng).value) for _ in range(200)]
    assert [datetime.strptime(value, form).strftime(form) for value in values] == values


def test_money_is_said_in_units_and_called_in_cents():
    rng = random.Random(5)
    assert all(round(float(said) * 100) == value for value, said in (kind("cents").draw(rng) for _ in range(200)))
