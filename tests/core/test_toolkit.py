"""What is worked out of a set of tools, and that it is worked out once."""

from __future__ import annotations

import pytest

from toolspeak.core import toolkit as module
from toolspeak.core.model import Tool
from toolspeak.core.toolkit import KEPT_TOOLKITS, MAX_KEPT_TOOLS, Toolkit, toolkit
from toolspeak.errors import SchemaError

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


def test_a_schema_is_compiled_when_it_is_needed_and_once():
    kit = Toolkit((Tool("good", parameters={"type": "object"}), Tool("bad", parameters=3)))
    assert kit.schema("good") is kit.schema("good")
    with pytest.raises(SchemaError):
        kit.schema("bad")


def test_sets_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch):
    kept: dict[int, Toolkit] = {}
    monkeypatch.setattr(module, "_kept", kept)
    sets = [(Tool(str(number)),) for number in range(KEPT_TOOLKITS + 1)]
    for tools in sets:
        toolkit(tools)
    assert [kit.tools for kit in kept.values()] == [sets[-1]]
    many = tuple(Tool(str(number)) for number in range(MAX_KEPT_TOOLS + 1))
    assert toolkit(many) is not toolkit(many)
