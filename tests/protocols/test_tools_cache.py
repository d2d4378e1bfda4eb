"""The same declarations give the same tools, and nothing else does."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from tests.cases import check_each
from toolspeak.core.types import JSONValue, Tool
from toolspeak.errors import UsageError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.protocols.shared.resent_values import MAX_CACHED_BYTES, MAX_CACHED_TOTAL, cached_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}
CODECS = {
    module.__name__.rpartition(".")[2]: module.decode_request
    for module in (anthropic, gemini, ollama, openai_chat, openai_responses)
}
BODIES: dict[str, JSONValue] = {
    "openai_chat": {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": FUNCTION}]},
    "openai_responses": {"input": "x", "tools": [{"type": "function", **FUNCTION}]},
    "anthropic": {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
    },
    "gemini": {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": [FUNCTION]}]},
    "ollama": {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": FUNCTION}]},
}  # fmt: skip


@check_each("name", BODIES)
def test_every_protocol_gives_the_same_tools_again(name: str):
    body = json.dumps({"model": "m", **BODIES[name]}).encode()
    first, second = (CODECS[name](body).tools for _ in range(2))
    assert first is second
    assert [tool.name for tool in first] == ["weather"]


class Reader:
    """Counts how often it reads."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, value: JSONValue) -> tuple[Tool, ...]:
        self.times += 1
        if value == ["bad"]:
            raise UsageError("bad")
        return tuple(Tool(str(name)) for name in value or ())


def test_what_is_known_is_not_read_again():
    read = Reader()
    tools = cached_tools(read)
    assert tools(["a"]) is tools(["a"])
    assert read.times == 1
    assert tools(["b"]) == (Tool("b"),)


class Pair(NamedTuple):
    name: str


@check_each(
    "value",
    [None, [], "ab", [{"a": {1, 2}}], [Pair("a")], [object()], ["x" * MAX_CACHED_BYTES]],
    ids=["nothing", "none", "no list", "a set", "a tuple", "no JSON", "too large"],
)
def test_what_is_not_kept_is_read_each_time(value: JSONValue):
    read = Reader()
    tools = cached_tools(read)
    assert tools(value) == tools(value)
    assert read.times == 2


def test_an_error_is_told_each_time():
    tools = cached_tools(Reader())
    for _ in range(2):
        with pytest.raises(UsageError):
            tools(["bad"])


def test_no_more_are_kept_than_there_is_room_for():
    read = Reader()
    tools = cached_tools(read)
    large = [f"{number}{'x' * (MAX_CACHED_BYTES // 2)}" for number in range(MAX_CACHED_TOTAL // MAX_CACHED_BYTES * 2)]
    for text in large:
        tools([text])
    tools([large[-1]])
    assert read.times == len(large)
    tools([large[0]])
    assert read.times == len(large) + 1
