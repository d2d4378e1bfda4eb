"""Arguments that come behind the end of their call: no event follows an end, and no call is made of them twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.test_openai_responses_events import completed, delta, event, function, seconds
from tests.protocols.test_openai_responses_reply_decoder import CALLS, call, decode
from tests.time_growth import assert_linear
from toolspeak.core.events import Event, Failure, Noted, fold
from toolspeak.core.types import Note

pytestmark = pytest.mark.requirement("G3")

GIVEN = '{"a":1}'
LATE = Noted(Note("arguments_late", "arguments that arrived after the end of a call to `f` were dropped"))
NAMELESS = Noted(Note("call_without_name", "a call without a tool name was dropped"))


def added(number: int, **fields: Any) -> bytes:
    return event("output_item.added", output_index=0, item=function(number, arguments="", **fields))


def done(number: int, **fields: Any) -> bytes:
    return event("output_item.done", output_index=0, item=function(number, **fields))


def piece(text: str, **fields: Any) -> bytes:
    return event("function_call_arguments.delta", output_index=0, delta=text, **fields)


def whole(text: str, **fields: Any) -> bytes:
    return event("function_call_arguments.done", output_index=0, arguments=text, **fields)


ONE = added(1) + piece(GIVEN) + done(1)
FIRST = call(0, "f", GIVEN, "c1")
OTHER = '{"a":2}'
BOTH = [*FIRST, *call(1, "f", OTHER, "c2")]


@check_each(
    ("late", "told"),
    [
        (piece(GIVEN), [LATE]),
        (piece(""), []),
        (piece("}", item_id="i1"), [LATE]),
        (whole(GIVEN), []),
        (whole('{"a":2}', item_id="i1"), [LATE]),
        (piece(GIVEN, item_id="i9"), [NAMELESS]),
        (piece(GIVEN, item_id="i9") + done(1), [NAMELESS]),
    ],
)
def test_what_comes_behind_the_end_of_a_call_is_dropped_and_noted(late: bytes, told: list[Event]):
    start = added(1, id="i1") + piece(GIVEN, item_id="i1") + done(1, id="i1")
    assert decode(start + late + completed(function(1)), True) == [*FIRST, *told, CALLS]


@check_each("bad", [b"", b"data: {\n\n"])
@check_each(("place", "told"), [({}, [LATE]), ({"item_id": "i2"}, [])])
def test_a_call_whose_beginning_is_missing_is_read_though_its_number_is_that_of_another(
    bad: bytes, place: dict[str, Any], told: list[Event]
):
    item = {"id": place["item_id"]} if place else {}
    found = decode(ONE + bad + piece(OTHER, **place) + done(2, **item) + completed(function(1), function(2)), True)
    assert [one for one in found if not (isinstance(one, Noted) and one.note.code == "bad_events")] == [
        *BOTH,
        *told,
        CALLS,
    ]


@check_each("place", [{}, {"item_id": "i2"}])
def test_a_call_of_which_only_pieces_came_beside_what_could_not_be_read_is_a_failure(place: dict[str, Any]):
    found = decode(ONE + b"data: {\n\n" + piece(GIVEN, **place) + completed(function(1)), True)
    assert isinstance(found[-1], Failure)
    assert fold(found).failure is not None


def test_the_text_of_a_custom_tool_has_an_end_too():
    item = {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "f", "input": "x"}
    begin = event("output_item.added", output_index=0, item={**item, "input": ""})
    end = event("output_item.done", output_index=0, item=item)
    late = event("custom_tool_call_input.delta", output_index=0, item_id="i", delta="y")
    found = decode(begin + end + delta("Hi", output_index=1) + added(1) + late + completed(), True)
    assert LATE in found
    assert [one.arguments for one in fold(found).calls][:1] == [{"input": "x"}]


@pytest.mark.no_cover
def test_time_is_linear_in_what_comes_late():
    def run(count: int) -> Callable[[], object]:
        said = '{"a":"' + "x" * count * 10 + '"}'
        late = [whole("{}")] * count
        return lambda: seconds([added(1) + piece(said) + done(1, arguments=said), *late])

    assert_linear(run, 4000)
