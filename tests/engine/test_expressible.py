"""What a grammar expresses exactly is what the documentation lists, and what is drawn to try it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each, size
from tests.engine.enforced_schemas import admits
from tests.engine.expressible_schemas import FEW, Schema, drawn, may_fail, misfits, words
from tests.engine.gbnf_matcher import Gbnf
from toolspeak.engine.constraints.build import Flavour, response_constraint

PAGE = Path(__file__).parent.parent.parent / "docs" / "constraints.md"
TABLE = re.compile(r"^## What a grammar expresses exactly\n.*?\n((?:\|[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
#: All that the slow target tries with the embedded model.
ALL = 200
SOME = size(2 * FEW, ALL)


def listed() -> set[str]:
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert table is not None
    return set(re.findall(r"`([^`]+)`", table[1]))


@check_each("count", [FEW, ALL])
def test_the_drawn_schemas_use_every_word_that_the_documentation_lists_and_no_other(count: int):
    assert set().union(*map(words, drawn(count))) == listed()


def test_the_same_schemas_are_drawn_each_time():
    assert drawn(ALL)[:FEW] == drawn(FEW)
    assert len({json.dumps(schema) for schema in drawn(ALL)}) == ALL


@pytest.mark.no_cover
@pytest.mark.requirement("A7")
@pytest.mark.parametrize("flavour", ["gbnf", "lark"])
def test_nothing_of_them_is_loosened(flavour: Flavour):
    for schema in drawn(SOME):
        codes = {note.code for note in response_constraint(schema, flavour).notes}
        assert codes <= {"recursion_narrowed"}, schema


@pytest.mark.no_cover
@pytest.mark.requirement("A7")
def test_whatever_the_grammar_lets_through_fits():
    chance = random.Random(7)
    for schema in drawn(SOME):
        matcher = Gbnf(response_constraint(schema, "gbnf").grammar)
        lark = response_constraint(schema, "lark")
        for number in range(4):
            document = matcher.produce(chance.randint)
            assert misfits(schema, json.loads(document)) == [], schema
            assert number or admits(lark, document), schema


JUDGED: list[tuple[Schema, Any, Any]] = [
    ({"type": "string", "format": "date"}, "2024-02-29", "2023-02-29"),
    ({"type": "string", "format": "time"}, "23:59:00Z", "24:00:00Z"),
    ({"type": "string", "format": "date-time"}, "2024-02-29T23:59:00Z", "2024-02-30T23:59:00Z"),
    ({"type": "string", "format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    ({"type": "integer", "exclusiveMinimum": 3}, 4, 3),
]


@check_each(("schema", "good", "bad"), JUDGED, ids=str)
def test_the_judge_sees_what_does_not_fit(schema: Schema, good: Any, bad: Any):
    assert misfits(schema, good) == []
    assert misfits(schema, bad) != []


ENDS: list[tuple[Schema, list[str]]] = [
    ({"type": "string"}, ["truncated_call"]),
    ({"type": "array", "items": {"type": ["null", "string"]}}, ["truncated_call"]),
    ({"type": "string", "maxLength": 3}, []),
    ({"properties": {"string": {"enum": ["string"]}}, "additionalProperties": False}, []),
    ({"$defs": {"a": {"additionalProperties": {"type": "null"}}}}, ["duplicate_key", "truncated_call"]),
]


@check_each(("schema", "codes"), ENDS, ids=str)
def test_only_what_has_no_end_or_free_keys_may_fail(schema: Schema, codes: list[str]):
    assert sorted(may_fail(schema)) == codes
