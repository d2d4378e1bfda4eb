"""Shared parts of the round-trip tests: strategies for requests, and the documented losses as functions.

Each protocol adds its own messages and tools, and a table that gives every listed loss as what it does to a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from tests.protocols.documented_losses import documented_losses
from toolspeak.core.types import Message, Note, Options, Request, ResponseFormat, Tool, ToolCall, ToolChoice, ToolResult
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

replace = msgspec.structs.replace
#: What a loss does to a request.
Suffer = Callable[[Request], Request]
Losing = dict[str, Suffer]
Some = st.SearchStrategy[Any]

# ---- requests

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=8)
FILLED = st.text(min_size=1, max_size=8)
FILLED_EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.integers(0, 9) | TEXTS, max_size=2)
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.none() | st.integers(0, 9) | TEXTS, max_size=2)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
#: Those of custom tools too.
ANY_ARGUMENTS = st.fixed_dictionaries({"input": TEXTS}) | ARGUMENTS
SCHEMAS = st.none() | st.just({"type": "object"})
KINDS = st.sampled_from(["function", "custom"])
NUMBERS = st.none() | st.floats(0, 2)


def calls(arguments: Some = ARGUMENTS, ids: Some = FILLED, names: Some = NAMES) -> Some:
    notes = st.sampled_from([(), (Note("trailing_comma"),)])
    return st.lists(st.builds(ToolCall, names, arguments, ids, notes), max_size=2).map(tuple)


def results(parts: Some, ids: Some = FILLED, names: Some = TEXTS, extra: Some = EXTRA, fewest: int = 1) -> Some:
    one = st.builds(ToolResult, ids, TEXTS, names, st.booleans(), st.lists(parts, max_size=1).map(tuple), extra)
    return st.lists(one, min_size=fewest, max_size=2).map(tuple)


def tools(extra: dict[str, Some], schemas: Some = SCHEMAS) -> Some:
    groups, said = st.sampled_from(["", "fs"]), st.fixed_dictionaries({}, optional=extra)
    return st.builds(Tool, NAMES, TEXTS, schemas, st.booleans(), KINDS, groups, said)


def choices(names: Some = NAMES, allowed: Some | None = None, named: bool = True) -> Some:
    several = st.lists(names if allowed is None else allowed, max_size=2).map(tuple)
    found = st.builds(ToolChoice, st.sampled_from(["auto", "none", "required"]), several, st.booleans())
    one = st.builds(ToolChoice, st.just("named"), names.map(lambda name: (name,)), st.booleans())
    return found | one if named else found


def options(grammar: Some, extra: dict[str, Some], words: Some = TEXTS, schemas: Some = SCHEMAS) -> Some:
    form = st.none() | st.builds(ResponseFormat, schemas, st.sampled_from(["", "x"]), st.none() | st.booleans())
    return st.builds(
        Options,
        st.none() | st.integers(1, 9),
        NUMBERS,
        NUMBERS,
        st.none() | st.integers(0, 9),
        st.lists(words, max_size=2).map(tuple),
        st.integers(1, 3),
        form,
        grammar,
        st.fixed_dictionaries({}, optional=extra),
    )


def requests(messages: Some, tool: Some, choice: Some, option: Some, *protocols: str) -> Some:
    several = st.lists(tool, max_size=3).map(tuple)
    return st.builds(Request, TEXTS, messages, several, choice, st.booleans(), option, st.sampled_from(protocols))


# ---- what becomes of them


def on_messages(change: Callable[[Message], Message | list[Message]]) -> Suffer:
    def changed(message: Message) -> list[Message]:
        found = change(message)
        return found if isinstance(found, list) else [found]

    return lambda request: replace(
        request, messages=tuple(found for message in request.messages for found in changed(message))
    )


def on_all_parts(change: Callable[[Any], Any]) -> Suffer:
    """`change` is given all parts of a message or of a result."""
    return on_messages(
        lambda one: replace(
            one,
            parts=change(one.parts),
            results=tuple(replace(result, parts=change(result.parts)) for result in one.results),
        )
    )


def on_parts(change: Callable[[Any], Any]) -> Suffer:
    """`change` gives None for a part that is lost."""
    return on_all_parts(lambda parts: tuple(found for part in parts if (found := change(part)) is not None))


def without_parts(lost: Callable[[Any], bool]) -> Suffer:
    return on_parts(lambda part: None if lost(part) else part)


def on_tools(change: Callable[[Tool], Tool]) -> Suffer:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def on_options(change: Callable[[Options], Options]) -> Suffer:
    return lambda request: replace(request, options=change(request.options))


def on_choice(change: Callable[[ToolChoice], ToolChoice]) -> Suffer:
    return lambda request: replace(request, tool_choice=change(request.tool_choice))


def is_from_protocol(protocol: str) -> Suffer:
    return lambda request: replace(request, protocol=protocol)


def _alone(message: Message) -> list[Message]:
    alone = [Message("tool", results=(result,)) for result in message.results]
    rest = replace(message, results=())
    return [*alone, rest] if message.parts or not alone else alone


NO_CALL_NOTES = on_messages(lambda one: replace(one, calls=tuple(replace(call, notes=()) for call in one.calls)))
NO_RESULT_ERRORS = on_messages(
    lambda one: replace(one, results=tuple(replace(result, error=False) for result in one.results))
)
NO_MESSAGE_NAMES = on_messages(lambda one: replace(one, name=""))
#: Each result is a message of its own.
RESULTS_ALONE = on_messages(_alone)
NO_NAMESPACES = on_tools(lambda tool: replace(tool, namespace=""))
NO_SIDE_EFFECTS = on_tools(lambda tool: replace(tool, side_effects=False))
CUSTOM_AS_FUNCTIONS = on_tools(lambda tool: replace(tool, kind="function") if tool.kind == "custom" else tool)
NONE_ALLOWS_ALL = on_choice(lambda choice: replace(choice, allowed=()) if choice.mode == "none" else choice)
NO_ROUTING = on_options(
    lambda one: replace(one, extra={key: value for key, value in one.extra.items() if key not in ROUTING_FIELDS})
)
GRAMMAR_AS_FIELDS = on_options(lambda one: replace(one, grammar={}, extra={**one.extra, **one.grammar}))


def no_choice_without_tools(request: Request) -> Request:
    return request if request.tools else replace(request, tool_choice=ToolChoice())


def check_round_trip(request: Request, again: Suffer, losing: Losing) -> None:
    """What was written and read again is the request after all its losses, and loses nothing more."""
    expected = request
    for suffer in losing.values():
        expected = suffer(expected)
    assert again(request) == expected
    assert again(expected) == expected


def check_losses(protocol: str, losing: Losing, elsewhere: set[str]) -> None:
    """Every loss that a request is said to suffer is in the table, or has a test of its own."""
    assert set(documented_losses(protocol, "request")) == losing.keys() | elsewhere


# ---- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
_LEFT_OUT = re.compile(r"<\d+ more>")
with_clients = pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")


def real_requests(is_meant: Callable[[str], bool]) -> list[Any]:
    """The bodies that real clients have sent to the paths that are meant."""
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(_whole(row["body"]), id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if is_meant(row["path"])
    ]


def _whole(value: Any) -> Any:
    match value:
        case list():
            return [_whole(item) for item in value if not (isinstance(item, str) and _LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case _:
            return value


def with_plain_text(wire: dict[str, Any]) -> dict[str, Any]:
    """A message as it goes out: a single text in a list is that text."""
    match wire["content"]:
        case [{"type": "text", "text": text, **rest}] if not rest:
            return wire | {"content": text}
        case _:
            return wire
