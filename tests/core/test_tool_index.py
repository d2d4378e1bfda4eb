"""What is worked out of a set of tools, and that it is worked out once."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.core.parsing.tool_index import MAX_CACHED_BYTES, MAX_CACHED_TOTAL, Toolkit, toolkit
from toolspeak.core.types import Tool
from toolspeak.errors import SchemaError, UsageError

FUNCTION, CUSTOM, OWN = Tool("f"), Tool("c", kind="custom"), Tool("web", kind="web_search")


def test_what_a_prompt_can_teach_is_told_from_the_rest():
    kit = toolkit((FUNCTION, OWN, CUSTOM))
    assert (kit.readable, kit.dropped) == ((FUNCTION, CUSTOM), (OWN,))
    assert kit.by_name == {"f": FUNCTION, "web": OWN, "c": CUSTOM}


def test_of_tools_with_the_same_name_the_first_is_read():
    first, second = Tool("f", "first"), Tool("f", "second")
    assert toolkit((first, second)).readable == (first,)


def test_tools_that_can_all_be_read_stay_the_same_set():
    tools = (FUNCTION, CUSTOM)
    assert toolkit(tools).readable is tools


def test_the_same_set_is_worked_out_once():
    tools = (FUNCTION, CUSTOM)
    assert toolkit(tools) is toolkit(tools)
    assert toolkit((FUNCTION, *tools[1:])) is not toolkit(tools)


def test_what_is_derived_from_a_set_is_computed_once():
    kit = toolkit((FUNCTION, OWN))
    assert kit.derive_from_all(list) is kit.derive_from_all(list) == [FUNCTION, OWN]
    assert kit.derive(tuple) == (FUNCTION,)


def test_a_schema_is_compiled_when_it_is_needed_and_once():
    kit = Toolkit((Tool("good", parameters={"type": "object"}), Tool("bad", parameters=3)))
    assert kit.schema("good") is kit.schema("good")
    with pytest.raises(SchemaError):
        kit.schema("bad")


def test_sets_are_kept_within_bounds():
    sets = [(Tool("f", "x" * (MAX_CACHED_BYTES - 1000)),) for _ in range(MAX_CACHED_TOTAL // MAX_CACHED_BYTES + 1)]
    known = [toolkit(tools) for tools in sets]
    assert toolkit(sets[-1]) is known[-1]
    assert toolkit(sets[0]) is not known[0]


@check_each("tool", [Tool("f", "x" * MAX_CACHED_BYTES), Tool("f", parameters={"a": object()})])
def test_what_is_too_large_or_no_json_is_worked_out_each_time(tool: Tool):
    tools = (tool,)
    assert toolkit(tools) is not toolkit(tools)


def test_a_set_is_checked_as_a_whole_and_once():
    good = {"type": "object", "properties": {"a": {"type": "string"}}}
    kit = Toolkit((Tool("f", parameters=good), Tool("g")))
    assert kit.check() == kit.check() == ()
    with pytest.raises(SchemaError, match=r"the tool `g`: `parameters` must be a JSON schema"):
        Toolkit((Tool("f"), Tool("g", parameters="object"))).check()


def test_what_is_not_understood_in_a_schema_is_noted_with_its_tool():
    kit = Toolkit((Tool("f"), Tool("g", parameters={"properties": {"a": {"type": "txt"}}})))
    (note,) = kit.check()
    assert (note.code, kit.schema_notes("g"), kit.schema_notes("f")) == ("schema_relaxed", (note,), ())
    assert note.detail.startswith("the tool `g`: ")
    assert "`properties.a.type`" in note.detail


def test_two_tools_of_one_name_must_be_one():
    Toolkit((Tool("f", "a"), Tool("f", "a"))).check()
    with pytest.raises(UsageError, match="two tools are named `f`"):
        Toolkit((Tool("f", "a"), Tool("f", "b"))).check()


def test_what_cannot_be_read_is_not_checked():
    Toolkit((Tool("search"), Tool("search", kind="web_search", parameters="odd"))).check()
