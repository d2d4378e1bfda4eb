"""Python functions as tools: what the model is told, what the function gets, what comes back."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from tests.cases import check_each
from tests.test_import_time import loaded_by
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import JSONObject, Media
from toolspeak.errors import ToolError, ToolTimeout, UsageError
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.functions import FunctionTool, tool

pytestmark = pytest.mark.requirement("F5")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    city: str
    country: str = "France"


class Person(TypedDict):
    name: str
    age: int


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1, description="On the door.")


def run(subject: FunctionTool[..., Any], arguments: JSONObject, context: CallContext | None = None) -> ToolOutput:
    return asyncio.run(subject.run(arguments, context or CallContext()))


def schema(function: Callable[..., Any]) -> JSONObject:
    """The schema of the only parameter; the whole of it must be one that the engine can use."""
    parameters = tool(function).tool.parameters
    ArgumentSchema.of(parameters)
    return parameters["properties"]["value"]


# ---- what the model is told


def test_a_function_becomes_a_tool_with_its_name_text_and_schema():
    @tool
    def weather(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> str:
        """Look up the weather.

        Args:
            city: Where.
        """
        return f"{city} {days} {unit}"

    assert weather.tool.name == "weather"
    assert weather.tool.description == "Look up the weather."
    assert weather.tool.side_effects is False
    assert weather.tool.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 3},
            "unit": {"enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert weather("Paris", unit="F") == "Paris 3 F"
    assert getattr(weather, "__name__", "") == "weather"
    assert run(weather, {"city": "Paris"}).content == "Paris 3 C"


@pytest.mark.requirement("F10")
def test_a_function_may_be_read_only_but_not_if_it_has_side_effects():
    def look() -> str:
        """Look."""
        return "nothing"

    assert tool(read_only=True)(look).tool.read_only is True
    assert tool(look).tool.read_only is False
    with pytest.raises(UsageError, match="both `read_only` and have `side_effects`"):
        tool(read_only=True, side_effects=True)(look)


def test_name_text_and_side_effects_can_be_set():
    @tool(name="rm", description="Removes.", side_effects=True, timeout=5)
    def remove(path: str) -> None:
        """Something else."""

    assert (remove.tool.name, remove.tool.description, remove.tool.side_effects) == ("rm", "Removes.", True)


def a_string(value: str): ...
def a_number(value: float): ...
def a_flag(value: bool): ...
def an_enum(value: Colour): ...
def a_list(value: list[int]): ...
def a_set(value: set[str]): ...
def a_tuple(value: tuple[int, str]): ...
def a_dict(value: dict[str, int]): ...
def maybe(value: int | None): ...
def a_union(value: int | str | list[str]): ...
def anything(value): ...  # pyright: ignore[reportMissingParameterType]
def told(value: Annotated[str, "What it is."]): ...
def bounded(value: Annotated[int, msgspec.Meta(ge=1, description="How many.")]): ...


@check_each(
    ("function", "expected"),
    [
        (a_string, {"type": "string"}),
        (a_number, {"type": "number"}),
        (a_flag, {"type": "boolean"}),
        (a_list, {"type": "array", "items": {"type": "integer"}}),
        (a_set, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (a_dict, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (maybe, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (a_union, {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        (anything, {}),
        (told, {"type": "string", "description": "What it is."}),
        (bounded, {"type": "integer", "minimum": 1, "description": "How many."}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_annotations_become_schemas(function: Callable[..., Any], expected: JSONObject):
    assert schema(function) == expected


@check_each(
    ("kind", "value", "expected"),
    [
        (Colour, "blue", Colour.BLUE),
        (Place, {"city": "Nice"}, Place("Nice", "France")),
        (Person, {"name": "Ada", "age": 36}, {"name": "Ada", "age": 36}),
        (Point, {"x": 1}, Point(1, 0)),
        (Address, {"street": "Rue", "number": 4}, Address(street="Rue", number=4)),
        (Address | None, None, None),
        (list[Address], [{"street": "Rue", "number": 4}], [Address(street="Rue", number=4)]),
        (dict[str, Place], {"a": {"city": "Nice"}}, {"a": Place("Nice")}),
        (tuple[int, str], [1, "b"], (1, "b")),
        (set[int], [1, 2], {1, 2}),
    ],
    ids=str,
)
def test_arguments_become_what_the_annotations_name(kind: Any, value: Any, expected: Any):
    seen: list[Any] = []

    def take(value: Any) -> None:
        seen.append(value)

    take.__annotations__["value"] = kind
    subject = tool(take)
    assert ArgumentSchema.of(subject.tool.parameters).accepts({"value": value})
    assert run(subject, {"value": value}).content == "done"
    assert seen == [expected]
    assert type(seen[0]) is type(expected)


def test_a_description_stands_beside_a_reference():
    def go(place: Annotated[Place, "Where to."]) -> None: ...

    parameters = tool(go).tool.parameters
    assert parameters["properties"]["place"]["description"] == "Where to."
    assert parameters["$defs"]["Place"]["properties"]["city"] == {"type": "string"}


def test_the_context_of_a_call_is_given_and_not_asked_for():
    @tool
    def whoami(context: CallContext, loud: bool = False) -> str:
        return context.call_id

    assert list(whoami.tool.parameters["properties"]) == ["loud"]
    assert run(whoami, {}, CallContext("call_7")).content == "call_7"
    with pytest.raises(ToolError, match="no parameter `context`"):
        run(whoami, {"context": {}})


def test_parameters_by_position_only_are_passed_by_position():
    def add(first: int, second: int = 2, /, *, third: int = 3) -> int:
        return first * 100 + second * 10 + third

    assert run(tool(add), {"first": 1}).content == "123"
    assert run(tool(add), {"first": 1, "second": 5, "third": 6}).content == "156"


# ---- what cannot be a tool


class Service:
    def __init__(self) -> None:
        self.greeting = "hello"

    def greet(self, name: str) -> str:
        """Greet."""
        return f"{self.greeting} {name}"

    def __call__(self) -> None: ...


def starred(*names: str) -> None: ...
def double_starred(**names: str) -> None: ...
def complicated(value: complex) -> None: ...
def two_models(value: Place | Point) -> None: ...
def bad_default(value: Any = float) -> None: ...
def unknown_type(value: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821 # pyright: ignore


@check_each(
    ("subject", "words"),
    [
        (Service.greet, "an unbound method"),
        (functools.partial(a_string, "x"), "`partial`"),
        (starred, r"takes `\*names`"),
        (double_starred, r"takes `\*\*names`"),
        (two_models, "`value` of `two_models` has an unsupported type"),
        (unknown_type, "cannot read the annotations"),
        (Service, "needs a function"),
        (Service(), "has no signature"),
        (staticmethod(a_string), "static or class method"),
        (lambda value: value, "a lambda has no name"),
        ("text", "needs a function"),
        (tool(a_string), "is already a tool"),
    ],
    # Without addresses: the same in every process.
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_what_cannot_be_a_tool_is_refused_with_a_reason(subject: Any, words: str):
    with pytest.raises(UsageError, match=words) as caught:
        tool(subject)
    assert isinstance(caught.value, UsageError)


def test_a_timeout_must_be_above_zero():
    with pytest.raises(UsageError, match="greater than 0"):
        tool(timeout=0)(a_string)


def test_a_bound_method_is_a_tool():
    assert run(tool(Service().greet), {"name": "you"}).content == "hello you"


# ---- what the function gives back


@check_each(
    ("value", "content"),
    [
        ("text", "text"),
        (None, "done"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([1, "é"], '[1,"é"]'),
        (Place("Nice"), '{"city":"Nice","country":"France"}'),
        (Address(street="Rue", number=4), '{"street":"Rue","number":4}'),
        ([Point(1)], '[{"x":1,"y":0}]'),
        (Colour.RED, '"red"'),
        (3.5, "3.5"),
        (True, "true"),
        (b"caf\xc3\xa9\xff", "café�"),
        ({1: 2}, '{"1":2}'),
        (1 + 2j, '"(1+2j)"'),
    ],
    ids=str,
)
def test_results_become_text(value: Any, content: str):
    def give() -> Any:
        return value

    assert run(tool(give), {}) == ToolOutput(content)


def test_an_output_and_media_pass_as_they_are():
    picture = Media("image", "data:image/png;base64,AA==")

    def failed() -> ToolOutput:
        return ToolOutput("no", error=True)

    def drawn() -> Media:
        return picture

    assert run(tool(failed), {}) == ToolOutput("no", error=True)
    assert run(tool(drawn), {}) == ToolOutput("", parts=(picture,))


def test_a_result_without_end_is_a_typed_error():
    circle: list[Any] = []
    circle.append(circle)

    def give() -> Any:
        return circle

    with pytest.raises(ToolError, match="not JSON"):
        run(tool(give), {})


# ---- how it runs


def test_async_functions_run_in_the_loop_and_others_in_threads():
    @tool
    async def here() -> str:
        return threading.current_thread().name

    @tool
    def there() -> str:
        return threading.current_thread().name

    assert run(here, {}).content == threading.current_thread().name
    assert run(there, {}).content == "toolspeak-tool"


def test_a_decorated_async_function_stays_one():
    @tool
    async def here() -> str:
        return "x"

    assert asyncio.run(here()) == "x"


def test_a_function_that_returns_something_to_wait_for_is_waited_for():
    async def later() -> str:
        return "later"

    def now() -> object:
        return later()

    assert run(tool(now), {}).content == "later"


def test_generators_emit_as_they_go_and_return_the_whole():
    @tool
    async def counting(to: int) -> AsyncIterator[str]:
        for number in range(to):
            yield f"{number} "

    @tool
    def spelling(word: str) -> Iterator[Any]:
        yield from word
        yield {"end": True}

    pieces: list[str] = []
    context = CallContext(emit=pieces.append)
    assert run(counting, {"to": 3}, context).content == "0 1 2 "
    assert run(spelling, {"word": "ab"}, context).content == 'ab{"end":true}'
    assert pieces == ["0 ", "1 ", "2 ", "a", "b", '{"end":true}']


@check_each(
    ("arguments", "words"),
    [
        ({}, "needs the parameter `value`"),
        ({"value": "x"}, "`value` does not fit"),
        ({"value": 1, "other": 2}, "no parameter `other`"),
    ],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: JSONObject, words: str):
    def take(value: int) -> None: ...

    with pytest.raises(ToolError, match=words):
        run(tool(take), arguments)


def test_a_model_that_refuses_its_data_says_why():
    def take(value: Address) -> None: ...

    with pytest.raises(ToolError, match="greater than or equal to 1"):
        run(tool(take), {"value": {"street": "Rue", "number": 0}})


def test_what_a_function_raises_comes_out():
    def fail() -> None:
        raise LookupError("nothing there")

    def stop() -> None:
        raise StopIteration("odd")

    with pytest.raises(LookupError, match="nothing there"):
        run(tool(fail), {})
    with pytest.raises(RuntimeError, match="odd"):
        run(tool(stop), {})


@pytest.mark.requirement("R-F32")
def test_a_function_that_hangs_is_left_after_its_timeout():
    release = threading.Event()

    @tool(timeout=0.05)
    def hang() -> None:
        release.wait(30)

    @tool(timeout=0.05)
    async def sleep() -> None:
        await asyncio.Event().wait()

    @tool(timeout=30)
    def own() -> None:
        raise TimeoutError("its own")

    for subject in (hang, sleep):
        with pytest.raises(ToolTimeout, match=r"longer than 0\.05 seconds"):
            run(subject, {})
    release.set()
    with pytest.raises(TimeoutError, match="its own"):
        run(own, {})


def test_a_generator_that_nobody_waits_for_ends_at_its_next_piece():
    closed = threading.Event()
    going_on = threading.Event()

    @tool(timeout=0.05)
    def endless() -> Iterator[str]:
        try:
            while True:
                going_on.wait(30)
                yield "x"
        finally:
            closed.set()

    with pytest.raises(ToolTimeout):
        run(endless, {})
    going_on.set()
    assert closed.wait(30)


def test_schemas_are_json():
    def take(value: Place, colour: Colour = Colour.RED, at: Point = Point(1, 2)) -> None: ...  # noqa: B008

    parameters = tool(take).tool.parameters
    assert json.loads(json.dumps(parameters)) == parameters
    assert parameters["properties"]["colour"]["default"] == "red"
    assert parameters["properties"]["at"]["default"] == {"x": 1, "y": 2}


def test_pydantic_is_not_imported_for_those_who_do_not_use_it():
    code = "from toolspeak.tools.functions import tool; exec('@tool\\ndef f(a: int) -> str: ...')"
    assert "pydantic" not in loaded_by(code)
