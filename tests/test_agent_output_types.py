"""Typed output of an agent: which types are understood, and what becomes of answers that do not fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

import toolspeak as ts
from tests.agent_helpers import Endless, agent, calling, look, model, run
from tests.cases import check_each
from toolspeak.agent.output_types import OutputType
from toolspeak.errors import UpstreamError, UsageError

pytestmark = pytest.mark.requirement("F13")


@dataclass
class City:
    name: str
    people: int
    rivers: list[str] = field(default_factory=list)


class CityDict(TypedDict):
    name: str
    people: int


class CityStruct(msgspec.Struct):
    name: str
    people: int


class CityModel(pydantic.BaseModel):
    name: str
    people: Annotated[int, pydantic.Field(gt=0)]


@pydantic.dataclasses.dataclass
class CheckedCity:
    name: str
    people: Annotated[int, pydantic.Field(gt=0)]


class Tree(pydantic.BaseModel):
    name: str
    children: list[Tree] = []


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
JSON = '{"name": "Ghent", "people": 270000}'
PROSE = f"Sure! Here is what I found:\n\n```json\n{JSON}\n```\n\nLet me know if you need more."
TYPES: list[tuple[Any, Any]] = [
    (City, City("Ghent", 270000)),
    (CityDict, {"name": "Ghent", "people": 270000}),
    (CityStruct, CityStruct("Ghent", 270000)),
    (CityModel, CityModel(name="Ghent", people=270000)),
    (CheckedCity, CheckedCity("Ghent", 270000)),
    (pydantic.TypeAdapter(CityModel), CityModel(name="Ghent", people=270000)),
    (SCHEMA, {"name": "Ghent", "people": 270000}),
    (dict[str, str | int], {"name": "Ghent", "people": 270000}),
]


def problem(kind: Any, text: str) -> str:
    return OutputType(kind).parse(text).problem


# ---- reading an answer


@check_each("kind, expected", TYPES)
@pytest.mark.parametrize("text", [JSON, PROSE, f"It is {JSON}.", f"```\n{JSON}\n```", f"{JSON}\n\n{JSON}"])
def test_a_value_is_found_in_json_prose_and_fences(kind: Any, expected: Any, text: str):
    assert OutputType(kind).parse(text).value == expected


@check_each(
    "kind, text, value",
    [
        (list[int], "The numbers are [1, 2, 3].", [1, 2, 3]),
        (list[City], '[{"name": "A", "people": 1}]', [City("A", 1)]),
        (list[CityModel], 'Here: [{"name": "A", "people": 1}]', [CityModel(name="A", people=1)]),
        (int, "42", 42),
        (int, "```json\n42\n```", 42),
        (bool, "true", True),
        (Literal["yes", "no"], '"yes"', "yes"),
        (str, "Just a text.", "Just a text."),
        (Tree, '{"name": "a", "children": [{"name": "b"}]}', Tree(name="a", children=[Tree(name="b")])),
        (City, '{"name": "A", "people": "12"}', City("A", 12)),
        (City, "{'name': 'A', 'people': 12,}", City("A", 12)),
        (City, 'First [1] and {this}, then {"name": "A", "people": 1}', City("A", 1)),
        (City, 'Not {"name": "A", "people": 1} but {"name": "B", "people": 2}, not {}.', City("B", 2)),
        (City, f'<think>{{"name": "A", "people": 1}}</think>\n{JSON}', City("Ghent", 270000)),
        (City, f'Perhaps {{"name": "A", "people": 1}}</think>{JSON} it is.', City("Ghent", 270000)),
        (City, '{"name": "<think>A</think>", "people": 1}', City("<think>A</think>", 1)),
        (str, "<think>What now?</think>Hello.", "Hello."),
    ],
)
def test_plain_and_nested_types(kind: Any, text: str, value: Any):
    assert OutputType(kind).parse(text).value == value


@check_each(
    "kind, text, words",
    [
        (City, "I do not know.", "no complete JSON value"),
        (City, '{"name": "A"}', "people"),
        (City, '{"name": "A", "people": 1', "no complete JSON value"),
        (CityModel, '{"name": "A", "people": -1}', "exclusiveMinimum"),
        (CheckedCity, '{"name": "A", "people": -1}', "exclusiveMinimum"),
        (int, "forty-two", "no complete JSON value"),
        (City, f"<think>Is it {JSON}?</think>I cannot say.", "no complete JSON value"),
        (City, f"Is it {JSON}?</think>I cannot say.", "no complete JSON value"),
        (str, "  ", "empty"),
    ],
)
def test_what_does_not_fit_is_a_problem_in_words(kind: Any, text: str, words: str):
    assert words in problem(kind, text)


def test_the_final_answer_is_converted_once():
    made: list[str] = []

    @dataclass
    class Counted:
        name: str

        def __post_init__(self) -> None:
            made.append(self.name)

    result = run(agent(model('{"name": "A"}'), output_type=Counted).run("Who?"))
    assert (result.output, made) == (Counted("A"), ["A", "A"])  # the second is made here


def test_an_error_of_the_callers_validator_is_a_problem():
    @dataclass
    class Odd:
        name: str

        def __post_init__(self) -> None:
            raise KeyError("no such city")

    assert "no such city" in problem(Odd, '{"name": "A"}')


@check_each("text", ['{"a": "\\ud800"}', "[" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "{" * 20000, "\ud800 {}"])
def test_odd_texts_are_read_or_refused_but_never_raise(text: str):
    for kind in (dict[str, str], CityModel, list[int]):
        OutputType(kind).parse(text)


def test_a_value_that_had_to_be_found_is_noted():
    assert OutputType(City).parse(JSON).notes == ()
    assert [note.code for note in OutputType(City).parse(PROSE).notes] == ["output_extracted"]


@check_each("kind", [5, "City", [int], None, Callable[[], int], lambda x: x, field, type("Odd", (), {})])
def test_what_is_no_type_is_a_usage_error(kind: Any):
    with pytest.raises(UsageError):
        OutputType(kind)


@check_each(
    "schema, where",
    [
        ({"type": "objct"}, "`type`"),
        ({"properties": 3}, "`properties`"),
        ({"type": "object", "required": "a"}, "`required`"),
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, "`properties.a.type`"),
        ({"type": int}, "JSON"),
    ],
)
def test_a_schema_that_is_none_is_a_usage_error_that_says_where(schema: Any, where: str):
    with pytest.raises(UsageError, match=where):
        OutputType(schema)


# ---- in a run


@check_each("kind, expected", TYPES)
def test_an_agent_returns_a_validated_value_after_rounds_with_tools(kind: Any, expected: Any):
    upstream = model(calling(ts.ToolCall("look", {"at": "Ghent"})), PROSE)
    result = run(agent(upstream, look, output_type=kind).run("How big is Ghent?"))
    assert (result.status, result.output, result.requests) == ("complete", expected, 2)
    assert result.text == result.content == PROSE
    assert "JSON schema" in upstream.requests[0].messages[0].text
    assert [request.options.response_format for request in upstream.requests] == [None, None]


def test_a_model_that_calls_in_text_gives_typed_output_too():
    def plain(messages: list[dict[str, Any]]) -> str:
        if "nothing at" in messages[-1]["content"]:
            return PROSE
        mark = messages[0]["content"].split("json action ")[1].split()[0]
        return f'```json action {mark}\n{{"tool": "look", "parameters": {{"at": "x"}}}}\n```'

    with ts.Agent(plain, [look], output_type=CityDict) as one:
        result = one.run("How big is Ghent?")
    assert (result.output, len(result.rounds)) == ({"name": "Ghent", "people": 270000}, 1)


def test_without_tools_the_upstream_is_asked_to_enforce_the_schema():
    upstream = model(JSON)
    assert run(agent(upstream, output_type=City).run("How big?")).output == City("Ghent", 270000)
    asked = upstream.requests[0].options.response_format
    assert asked is not None
    assert (asked.name, asked.schema["required"]) == ("City", ["name", "people"])
    numbers = model("[1]")
    assert run(agent(numbers, output_type=list[int]).run("Which?")).output == [1]
    assert numbers.requests[0].options.response_format is None  # upstreams only take objects


def test_an_upstream_that_rejects_the_schema_is_asked_without_it_from_then_on():
    refusal = UpstreamError("response_format is not supported", upstream_status=400)
    upstream = model(refusal, JSON, JSON)
    one = agent(upstream, output_type=City)

    async def both() -> tuple[Any, Any]:
        return await one.run("How big?"), await one.run("Again?")

    first, second = run(both())
    assert first.output == second.output == City("Ghent", 270000)
    assert [request.options.response_format is None for request in upstream.requests] == [False, True, True]
    down = run(agent(model(UpstreamError("gone", upstream_status=401)), output_type=City).run("How big?"))
    assert (down.status, down.output) == ("failed", None)


def test_an_answer_that_does_not_fit_is_asked_for_again_without_tools():
    upstream = model(calling(ts.ToolCall("look", {"at": "x"})), "Ghent is big.", JSON)
    result = run(agent(upstream, look, output_type=City).run("How big?"))
    assert (result.status, result.output, result.content) == ("complete", City("Ghent", 270000), JSON)
    assert (result.requests, result.usage.input_tokens) == (3, 30)
    assert [note.detail for note in result.notes if note.code == "retry_output"] == [
        "it contains no complete JSON value"
    ]
    last = upstream.requests[-1]
    assert last.tools == ()
    assert last.messages[-2].text == "Ghent is big."
    assert "no complete JSON value" in last.messages[-1].text
    assert last.options.response_format is not None


@check_each("retries, requests", [(2, 3), (0, 1), (1, 2)])
def test_after_the_retries_the_task_has_failed_and_keeps_its_text(retries: int, requests: int):
    result = run(agent(model("Big.", again=True), output_type=City, retries=retries).run("How big?"))
    assert (result.status, result.output, result.content, result.requests) == ("failed", None, "Big.", requests)
    assert "does not fit the output type after" in result.why
    assert [note.code for note in result.notes].count("retry_output") == retries


def test_a_limit_leads_to_typed_output_too():
    upstream = model(calling(ts.ToolCall("look", {"at": "x"})), "In short: it is big.", JSON)
    result = run(agent(upstream, look, output_type=City, max_rounds=1).run("How big?"))
    assert (result.status, result.output) == ("complete", City("Ghent", 270000))
    assert "limit_rounds" in [note.code for note in result.notes]


def test_a_failure_or_a_cancellation_during_a_repair_ends_the_task_with_its_text():
    failed = run(agent(model("Big.", UpstreamError("gone", upstream_status=503)), output_type=City).run("How big?"))
    assert (failed.status, failed.content, failed.why) == ("failed", "Big.", "gone")

    async def cancelled(by_task: bool) -> Any:
        endless = Endless("Wait")
        one = agent(model("Big.", endless), output_type=City)
        work = asyncio.ensure_future(one.run("How big?"))
        await endless.said.wait()
        if by_task:
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            return None
        one.cancel()
        return await work

    result = run(cancelled(by_task=False))
    assert (result.status, result.content) == ("interrupted", "Big.")
    run(cancelled(by_task=True))


def test_a_stored_answer_gives_its_output_again(tmp_path: Any):
    store = f"sqlite:///{tmp_path}/s.db"
    with ts.Agent(model(PROSE), output_type=CityModel, store=store) as one:
        first = one.run("How big?")
    with ts.Agent(model(), output_type=CityModel, store=store) as other:
        again = other.resume(first.session)
    assert again.output == first.output == CityModel(name="Ghent", people=270000)


def test_output_type_and_response_format_contradict_each_other():
    with pytest.raises(UsageError, match="contradict"):
        ts.Agent(model(), output_type=City, response_format={"type": "json_object"})


def test_the_schema_in_the_prompt_is_complete():
    rule = OutputType(Tree).rule
    schema = json.loads(rule.partition(":\n")[2])
    assert "Tree" in schema["$defs"]


def test_the_client_sets_the_number_of_retries_too():
    async def requests() -> int:
        async with ts.AsyncClient(lambda messages: "Big.", retries=0) as client:
            return (await ts.AsyncAgent(client, output_type=City).run("How big?")).requests

    assert run(requests()) == 1
