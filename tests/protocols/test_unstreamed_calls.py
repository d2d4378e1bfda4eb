"""What Gemini and Ollama share: calls in one piece, ids by name and order."""

from __future__ import annotations

import time

import pytest

from tests.cases import check_each
from toolspeak.core.events import CallArgs, CallEnd, CallStart
from toolspeak.core.types import Note, ToolCall
from toolspeak.protocols.gemini import decode_request
from toolspeak.protocols.shared.unstreamed_calls import CallIdAssigner, WholeCalls, whole_call, wire_id


@pytest.mark.requirement("B11")
def test_a_call_comes_out_when_it_is_complete_also_between_others():
    calls = WholeCalls()
    assert [calls.feed(event) for event in (CallStart(0, "f", "a"), CallStart(1, "g"), CallArgs(0, "{"))] == [None] * 3
    assert calls.feed(CallEnd(1)) == ToolCall("g", {})
    assert calls.feed(CallArgs(0, "}")) is None
    assert calls.feed(CallEnd(0)) == ToolCall("f", {}, "a")


@pytest.mark.requirement("B6", "B11")
@check_each(("text", "valid"), [("{}", False), ("[1]", True), ('{"a":', True)])
def test_a_call_that_is_wrong_never_comes_out(text: str, valid: bool):
    calls = WholeCalls()
    calls.feed(CallStart(0, "f"))
    calls.feed(CallArgs(0, text))
    assert calls.feed(CallEnd(0, valid)) is None


@pytest.mark.requirement("R-F22")
@check_each(("given", "text"), [(None, "{}"), ("", "{}"), ({"a": 1}, '{"a":1}'), ('{"a":1}', '{"a":1}'), ([1], "[1]")])
def test_arguments_of_every_kind_become_text(given: object, text: str):
    start, arguments, end = whole_call(2, "f", "a", given)
    assert (start, arguments) == (CallStart(2, "f", "a"), CallArgs(2, text))
    noted = Note("arguments_text", "the arguments were sent as text, not as JSON")
    assert end == CallEnd(2, notes=(noted,) if isinstance(given, str) else ())


def test_ids_are_made_only_where_there_are_none_and_those_made_are_not_sent():
    ids = CallIdAssigner()
    assert ids.call("f", "a") == "a"
    made = ids.call("f", "")
    assert (wire_id("a"), wire_id(made)) == ("a", "")
    assert [ids.result("f", "") for _ in range(3)] == ["a", made, ""]


def test_a_result_that_names_no_tool_belongs_to_the_first_call_that_waits():
    ids = CallIdAssigner()
    first, second = ids.call("f", ""), ids.call("g", "")
    assert [ids.result("g", ""), ids.result("", ""), ids.result("", "")] == [second, first, ""]


@pytest.mark.requirement("R-F36")
def test_a_result_with_an_id_that_no_call_has_belongs_to_a_call_that_has_none():
    ids = CallIdAssigner()
    first, second = ids.call("f", ""), ids.call("g", "")
    assert [ids.result("g", "x"), ids.result("", "y"), ids.result("", "z")] == [second, first, "z"]


@pytest.mark.requirement("R-F36")
def test_a_result_with_an_id_that_no_call_has_takes_no_call_that_has_another():
    ids = CallIdAssigner()
    ids.call("f", "a")
    made = ids.call("f", "")
    assert ids.result("f", "x") == "x"
    assert [ids.result("", "a"), ids.result("", "a"), ids.result("", "y")] == ["a", "a", made]


@pytest.mark.requirement("R-T12")
def test_a_long_history_without_ids_takes_linear_time():
    def spent(count: int) -> float:
        calls = [{"functionCall": {"name": "f"}}, {"text": "x"}] * count
        results = [{"functionResponse": {"name": "f"}}] * count
        body = {"contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]}
        begun = time.process_time()
        decode_request(body)
        return time.process_time() - begun

    small = min(spent(500) for _ in range(3))
    assert min(spent(4000) for _ in range(2)) < 20 * small
