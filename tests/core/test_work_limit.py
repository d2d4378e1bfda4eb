"""Limits on the work that schemas cause in one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each, size
from toolspeak import Reply, Scanner, fold
from toolspeak.core.json_repair.tokens import ARRAY, END_OBJECT, KEY, OBJECT, SCALAR, Token
from toolspeak.core.parsing.arguments import Arguments
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.schema.work_limit import (
    MAX_ANSWER_TRIES,
    MAX_EXPLAINED_CALLS,
    TOO_EXPENSIVE,
    UNEXPLAINED,
    WorkLimit,
)

pytestmark = pytest.mark.requirement("R-T12")

NUMBERS = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}


def shapes(count: int) -> dict[str, Any]:
    """A list of objects that have one of `count` forms."""
    forms = [{"type": "object", "properties": {"kind": {"const": n}}, "required": ["kind"]} for n in range(count)]
    return {"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": forms}}}, "required": ["a"]}


def parse(schema: dict[str, Any], *calls: Any, chunk: int = 0) -> Reply:
    """Parse calls of a tool with this schema, as one chunk or in chunks of a size."""
    text = "\n".join(f'<tool_call>{{"name": "f", "arguments": {json.dumps(each)}}}</tool_call>' for each in calls)
    scanner = Scanner([{"name": "f", "parameters": schema}])
    step = chunk or len(text)
    events = [event for at in range(0, len(text), step) for event in scanner.feed(text[at : at + step])]
    return fold(events + scanner.close())


def problems(reply: Reply) -> list[str]:
    """The problem of each call, or an empty string."""
    notes = [{note.code: note.detail for note in each.notes} for each in reply.candidates]
    return [each.get("arguments_invalid", "").removeprefix("`f`: ") for each in notes]


@check_each("chunk", [0, 1, 7])
def test_only_the_first_invalid_calls_of_an_answer_are_explained(chunk: int):
    reply = parse(NUMBERS, *([{"n": ["x"]}] * (MAX_EXPLAINED_CALLS + 3)), chunk=chunk)
    explained = "`n[0]` must be integer, not string"
    assert problems(reply) == [explained] * MAX_EXPLAINED_CALLS + [UNEXPLAINED] * 3


@check_each("chunk", [0, 64])
def test_all_calls_of_an_answer_share_the_tries_of_coercion(chunk: int):
    texts = {"n": ["1"] * (MAX_ANSWER_TRIES * 2 // 3)}
    reply = parse(NUMBERS, texts, texts, {"n": [1]}, chunk=chunk)
    assert [call.arguments for call in reply.calls] == [{"n": [1] * len(texts["n"])}, {"n": [1]}]


@check_each("chunk", [0, 64])
def test_arguments_of_an_expensive_schema_count_until_they_are_too_many(chunk: int):
    valid = {"a": [{"kind": 1}] * 100}
    found = problems(parse(shapes(200), *([valid] * 50), chunk=chunk))
    accepted = found.count("")
    assert 0 < accepted < 50
    assert found == [""] * accepted + [TOO_EXPENSIVE] * (50 - accepted)


@check_each("chunk", [0, 1, 7])
@pytest.mark.no_cover
def test_the_streamed_parts_of_a_call_do_not_count_twice(chunk: int):
    number = {"kind": 1}
    reply = parse(shapes(200), {"a": [number] * 1600}, {"a": [number]}, {"a": [number] * 1600}, chunk=chunk)
    assert problems(reply) == ["", "", TOO_EXPENSIVE]


@check_each(
    "chunk, before, last", [(chunk, *case) for chunk in size((0, 1), (0, 1, 7)) for case in [(100, 1), (3000, "1")]]
)
def test_the_parts_of_a_call_are_coerced_until_they_are_too_many(chunk: int, before: int, last: Any):
    reply = parse(shapes(200), {"a": [{"kind": 1}] * before + [{"kind": "1"}]}, chunk=chunk)
    value: Any = reply.candidates[0].arguments
    assert value["a"][-1] == {"kind": last}


def test_the_parts_of_calls_that_never_end_count():
    schema, value, work = ArgumentSchema.of(shapes(200)), {"a": [{"kind": 1}] * 1600}, WorkLimit()
    cut = Arguments(schema, work=work)
    item: list[Token] = [(OBJECT, ""), (KEY, "kind"), (SCALAR, "1"), (END_OBJECT, "")]
    for token in [(OBJECT, ""), (KEY, "a"), (ARRAY, ""), *item * 1600]:
        cut.token(token)
    assert not schema.accepts(value, work)
    assert schema.accepts(value, WorkLimit())


def test_too_large_arguments_of_an_expensive_schema_are_not_validated():
    schema, value = ArgumentSchema.of(shapes(200)), {"a": [{"kind": 1}] * 10_000}
    assert schema.accepts(value)
    assert not schema.accepts(value, WorkLimit())
    assert schema.problems(value, work=WorkLimit()) == (TOO_EXPENSIVE,)
    assert schema.coerce(value, work=WorkLimit()).problems == (TOO_EXPENSIVE,)


@pytest.mark.no_cover
def test_arguments_of_an_ordinary_schema_are_always_validated():
    schema, value, work = ArgumentSchema.of(NUMBERS), {"n": [1] * 30_000}, WorkLimit()
    for _ in range(70):
        assert schema.accepts(value, work)
        schema.charge(value, work)
