"""What it takes to find out how much is said of the tools: little, however large they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.time_growth import assert_linear
from toolspeak.core.text import estimate_tokens
from toolspeak.core.types import Tool, ToolChoice
from toolspeak.engine.prompting import tool_budget as module
from toolspeak.engine.prompting import tool_listing as signatures
from toolspeak.engine.prompting import tool_prompt
from toolspeak.engine.prompting.escaping import json_text
from toolspeak.engine.prompting.tool_listing import ListingDetail, signature
from toolspeak.engine.prompting.tool_prompt import Contract, inline_contract

BUDGET = 2000
RUNGS: list[Any] = [(style, detail) for style in ("compact", "schema") for detail in ListingDetail]


def taking(count: int, description: str = "Does it.", name: str = "f") -> Tool:
    table = {f"{name}_{number}": {"type": "string", "description": "What it is."} for number in range(count)}
    return Tool(name, description, {"type": "object", "properties": table})


def contract_of(tools: tuple[Tool, ...], query: str = "", budget: int = BUDGET) -> Contract:
    return inline_contract(tools, ToolChoice(), "hermes", budget=budget, query=query)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools that were written, each time."""
    names: list[str] = []

    def counted(tool: Tool, *rung: Any) -> str:
        names.append(tool.name)
        return signature(tool, *rung)

    monkeypatch.setattr(signatures, "signature", counted)
    return names


@pytest.mark.requirement("R-T11")
def test_a_tool_with_more_parameters_than_there_is_room_for_is_written_once(written: list[str]):
    contract = contract_of((taking(BUDGET),))
    assert written == ["f"]
    assert [note.code for note in contract.notes] == ["contract_shortened", "contract_over_budget"]


def test_what_is_behind_a_tool_that_does_not_fit_is_written_only_if_it_is_listed(written: list[str]):
    contract = contract_of((taking(BUDGET, name="huge"), taking(1, name="small")), query="small")
    assert [tool.name for tool in contract.tools] == ["small"]
    assert set(written) == {"small"}


def test_another_request_costs_no_writing_anew(written: list[str]):
    tools = tuple(taking(20, name=f"tool{number}") for number in range(60))
    first = contract_of(tools, "tool1")
    assert 0 < len(first.tools) < len(tools)
    written.clear()
    again = contract_of(tools, "tool1 and something else")
    assert (again.tools, written) == (first.tools, [])
    other = contract_of(tools, "tool59")
    assert len(set(written)) <= 2  # the tool that was added, and the one that made room
    assert "tool59" in {tool.name for tool in other.tools}


def test_tools_that_are_too_large_to_be_kept_are_kept_nowhere():
    before = [len(each.cache) for each in (tool_prompt._fit, tool_prompt._contract, module._vocabularies)]
    contract_of((taking(1, "x" * module.MAX_CACHED_BYTES), taking(1, name="g")))
    after = [len(each.cache) for each in (tool_prompt._fit, tool_prompt._contract, module._vocabularies)]
    assert after == before


def test_of_a_long_description_the_beginning_tells_that_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    looked: list[int] = []

    def counted(text: str) -> int:
        looked.append(len(text))
        return estimate_tokens(text)

    monkeypatch.setattr(module, "estimate_tokens", counted)
    contract = contract_of((taking(1, "some words " * 50_000),))
    assert max(looked) <= module.CHARS_PER_TOKEN * BUDGET
    assert [note.code for note in contract.notes] == ["contract_shortened"]


def test_a_long_text_that_takes_few_tokens_fits():
    contract = contract_of((taking(1, "a" + " " * module.CHARS_PER_TOKEN * BUDGET + "b"),))
    assert contract.notes == ()


def test_rooms_of_all_sizes_lead_to_the_same_end_whatever_was_asked_before():
    tools = (taking(30, "Many words. " * 40, "one"), taking(3, "Some words. " * 9, "two"))
    budgets = (3000, 400, 1000, 700)
    worn = module.Toolset(tools, cacheable=True)
    for budget in budgets:
        for rung in RUNGS:
            for at in range(len(tools)):
                new = module.Toolset(tools, cacheable=True).cost(at, rung, budget)
                old = worn.cost(at, rung, budget)
                assert (old <= budget) == (new <= budget)
                assert old == new or min(old, new) > budget


NAMES = st.text(max_size=100) | st.text("ab \n\t<|[]_1é", max_size=100)


@given(st.dictionaries(NAMES, st.just({"type": "string"}), max_size=8))
def test_no_tool_takes_less_than_is_known_before_it_is_written(table: dict[str, Any]):
    tool = Tool("f", parameters={"type": "object", "properties": table})
    least = module._least(tool)
    assert all(least <= estimate_tokens(signature(tool, *rung)) for rung in RUNGS)


@pytest.mark.no_cover
@pytest.mark.requirement("C9", "R-T11")
@check_each("share", [0.1, 0.9])
def test_many_tools_are_shortened_in_linear_time(share: float):
    def of(count: int) -> Callable[[], object]:
        tools = tuple(taking(6, "Does it. And more.", f"tool{number}") for number in range(count))
        room = module.Room(int(count * 60 * share), 0, 50)
        focus = module.Focus("tool1 tool2", frozenset({"tool3"}), "describe_tools")
        rungs = module.LADDERS["compact"]
        return lambda: module.shortened_listing(module.Toolset(tools, cacheable=False), rungs, room, focus)

    assert_linear(of, size(200, 800), 4)


# ---- what everything refers to


def referring(count: int, target: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Many references to one schema, as parameters and as parts of the whole."""
    table = {f"p{number}": {"$ref": "#/$defs/b", **own} for number in range(count)}
    return {"properties": table, "allOf": [{"$ref": "#/$defs/b"}] * count, "$defs": {"b": target}}


#: What is referred to is so much longer than the list of references, so that it would count.
SCALE = 20
REFERENCES = size(200, 800)
TARGETS: dict[str, Callable[[int], dict[str, Any]]] = {
    "default": lambda size: {"type": "string", "default": ["word " * size]},
    "values": lambda size: {"enum": ["word " * size, {"a": [1] * size}]},
    "description": lambda size: {"type": "string", "description": "word " * size},
    "keywords": lambda size: {f"k{number}": 1 for number in range(size)},
    "members": lambda size: {"properties": {f"m{number}": {} for number in range(size)}, "required": ["m1"] * size},
}


@pytest.mark.no_cover
@pytest.mark.requirement("R-T11")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_everything_refers_to_is_not_looked_through_each_time(target: Callable[[int], dict[str, Any]]):
    def of(size: int) -> Callable[[], object]:
        many = Tool("f", parameters=referring(size, target(SCALE * size)))
        return lambda: signature(many, "compact", ListingDetail.ALL)

    assert_linear(of, REFERENCES, 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
)


@given(JSON, st.integers(0, 90))
def test_a_value_that_is_known_to_be_long_without_being_written_is_long(value: Any, limit: int):
    if signatures._is_longer(value, limit):
        assert len(json_text(value)) > limit


@check_each("value", ["x" * 81, [1] * 81, {"x" * 81: 1}, {"a": {"b": ["x" * 79]}}, [[[]] * 80]])
def test_a_value_longer_than_80_characters_is_no_default(value: Any):
    assert signatures._is_longer(value, 80)
    tool = Tool("f", parameters={"properties": {"a": {"type": "string", "default": value}}})
    assert signature(tool, "compact", ListingDetail.ALL) == "- f\n  a?: string"


def test_members_and_demands_of_all_parts_count_once():
    parts = [{"$ref": "#/$defs/b"}, {"properties": {"c": {"type": "number"}}, "required": ["c"]}, {"$ref": "#/$defs/b"}]
    base = {"properties": {"b": {"type": "string"}}, "required": ["b"]}
    tool = Tool("f", parameters={"properties": {"a": {}}, "allOf": parts, "$defs": {"b": base}})
    assert signature(tool, "compact", ListingDetail.ALL) == "- f\n  a?: any\n  b: string\n  c: number"


@check_each("parameters", [None, True, {}, {"properties": []}, {"$ref": "#", "properties": {"a": {}}}])
def test_of_other_schemas_nothing_is_known_before_they_are_written(parameters: Any):
    assert module._least(Tool("f", parameters=parameters)) == 1


def test_contracts_that_come_again_are_looked_up_and_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_prompt._recent_contracts, "max_bytes", 6000)  # pyright: ignore[reportPrivateUsage]
    tool_prompt._recent_contracts.clear()  # pyright: ignore[reportPrivateUsage]
    tools = (Tool("ping", "Says hello."),)
    first = inline_contract(tools, ToolChoice(), "action", nonce="aaaaaaa", budget=8000)
    assert inline_contract(tools, ToolChoice(), "action", nonce="aaaaaaa", budget=8000) is first
    for nonce in ("bbbbbbb", "ccccccc", "ddddddd"):
        assert nonce in inline_contract(tools, ToolChoice(), "action", nonce=nonce, budget=8000).tail
        assert 0 < len(tool_prompt._recent_contracts) <= 2  # pyright: ignore[reportPrivateUsage]
    same = (Tool("ping", "Says hello."),)
    assert inline_contract(same, ToolChoice(), "action", nonce="aaaaaaa", budget=8000) == first


def test_what_was_asked_is_looked_for_only_where_there_is_no_room_for_all():
    def found() -> str:
        asked.append("weather")
        return "weather"

    asked: list[str] = []
    tools = tuple(Tool(f"tool_{number}", "x " * 40) for number in range(20))
    inline_contract(tools, ToolChoice(), "hermes", budget=8000, query=found)
    assert asked == []
    tight = inline_contract(tools, ToolChoice(), "hermes", budget=300, query=found)
    assert asked
    assert tight == inline_contract(tools, ToolChoice(), "hermes", budget=300, query="weather")
