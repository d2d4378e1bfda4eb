"""The values: frozen, plain, and built from whatever shape of tools a caller has."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from toolspeak.core.types import (
    MAX_TOKEN_COUNT,
    Media,
    Message,
    Note,
    Opaque,
    Options,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    is_array,
    is_object,
    tools_from,
)
from toolspeak.errors import UsageError

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
ONE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
FULL = Tool("f", "does it", SCHEMA, True)

READ: dict[str, tuple[Any, Tool]] = {
    "a value": (FULL, FULL),
    "OpenAI's shape": ({"type": "function", "function": {"name": "f", "parameters": SCHEMA}}, Tool("f", "", SCHEMA)),
    "the function alone": ({"name": "f", "description": "d", "parameters": SCHEMA}, Tool("f", "d", SCHEMA)),
    "only a name": ({"name": "f"}, Tool("f")),
    "side effects": ({"name": "f", "side_effects": True}, Tool("f", side_effects=True)),
    "side effects inside": ({"function": {"name": "f", "side_effects": 1}}, Tool("f", side_effects=True)),
    "no side effects": ({"name": "f", "side_effects": None}, Tool("f")),
    "a description that is no text": ({"name": "f", "description": None}, Tool("f")),
    "a declaration with more": ({"name": "f", "strict": True}, Tool("f", extra={"strict": True})),
    "a custom tool": (
        {"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}},
        Tool("f", "", ONE_TEXT, kind="custom", extra={"format": {"type": "text"}}),
    ),
    "a custom tool in newer words": (
        {"type": "custom", "name": "f", "description": "d"},
        Tool("f", "d", ONE_TEXT, kind="custom"),
    ),
    "a tool of the upstream": (
        {"type": "web_search", "size": 3},
        Tool("web_search", kind="web_search", extra={"type": "web_search", "size": 3}),
    ),
    "a tool of the upstream with a name": (
        {"type": "mcp", "name": "m"},
        Tool("m", kind="mcp", extra={"type": "mcp", "name": "m"}),
    ),
    "words beside the function": (
        {"type": "function", "function": {"name": "f", "strict": True}, "cache_control": {"type": "ephemeral"}},
        Tool("f", extra={"strict": True, "beside": {"cache_control": {"type": "ephemeral"}}}),
    ),
    "a type of nothing": ({"type": None, "name": "f"}, Tool("f")),
    "any mapping": (MappingProxyType({"name": "f"}), Tool("f")),
}


@check_each("shape", READ)
def test_a_tool_is_read_from_every_shape(shape: str):
    given, expected = READ[shape]
    assert tools_from([given]) == (expected,)


@pytest.mark.requirement("A13")
def test_a_group_of_tools_becomes_functions_whose_names_begin_with_its_own():
    group = {"type": "namespace", "name": "crm", "tools": [{"name": "find"}, {"type": "custom", "name": "note"}]}
    assert tools_from([group, {"name": "f"}]) == (
        Tool("crm__find", namespace="crm"),
        Tool("crm__note", "", ONE_TEXT, kind="custom", namespace="crm"),
        Tool("f"),
    )


@pytest.mark.requirement("A10")
@check_each(
    ("choice", "demands", "single", "permits"),
    [
        (ToolChoice(), False, False, True),
        (ToolChoice("none"), False, False, False),
        (ToolChoice("required"), True, False, True),
        (ToolChoice("required", parallel=False), True, True, True),
        (ToolChoice("named", ("f",)), True, True, True),
        (ToolChoice("named", ("g",)), True, True, False),
        (ToolChoice("auto", ("g",)), False, False, False),
        (ToolChoice("none", ("f",)), False, False, False),
    ],
)
def test_a_choice_says_what_it_allows(choice: ToolChoice, demands: bool, single: bool, permits: bool):
    assert (choice.demands, choice.single, choice.permits("f")) == (demands, single, permits)


def test_the_text_of_a_message_is_that_of_its_text_parts():
    message = Message("user", (TextPart("a"), Media("image", "https://x.test/i.png"), TextPart("b")))
    assert message.text == "ab"


def test_nothing_given_is_not_the_same_as_no_tools():
    assert tools_from(None) is None
    assert tools_from([]) == ()


def test_tools_keep_their_order_and_may_come_from_an_iterator():
    assert tools_from(iter([Tool("b"), {"name": "a"}])) == (Tool("b"), Tool("a"))


REFUSED: dict[str, tuple[Any, str]] = {
    "one tool": ({"name": "f"}, "must be a list of tools"),
    "text": ("f", "must be a list of tools"),
    "bytes": (b"f", "must be a list of tools"),
    "a list of names": (["f"], "a tool must be an object, not `str`"),
    "a list of nothing": ([None], "a tool must be an object, not `NoneType`"),
    "a function that is none": ([{"function": "f"}], "the `function` field of a tool must be an object"),
    "no name": ([{"description": "x"}], "a tool needs a `name`"),
    "an empty name": ([{"name": ""}], "a tool needs a `name`"),
    "a name that is no text": ([{"name": 7}], "a tool needs a `name`"),
    "a type that is no text": ([{"type": [], "name": "f"}], "the `type` field of a tool must be a string, not `list`"),
    "a group without a name": ([{"type": "namespace", "tools": []}], "a tool namespace needs a `name`"),
    "a group with an odd name": (
        [{"type": "namespace", "name": 5, "tools": []}],
        "a tool namespace needs a `name`",
    ),
    "a group of a name": ([{"type": "namespace", "name": "n", "tools": ["f"]}], "a tool must be an object, not `str`"),
    "a group in a group": (
        [{"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": []}]}],
        "the namespace `n` contains another",
    ),
    "no name inside": ([{"name": "f", "function": {}}], "a tool needs a `name`"),
}


@check_each("case", REFUSED)
def test_what_is_no_list_of_tools_is_the_callers_mistake(case: str):
    given, message = REFUSED[case]
    with pytest.raises(UsageError, match=message):
        tools_from(given)


@check_each(
    ("value", "an_object", "an_array"), [({}, True, False), ([], False, True), ((), False, False), (None, False, False)]
)
def test_json_values_are_told_apart(value: Any, an_object: bool, an_array: bool):
    assert (is_object(value), is_array(value)) == (an_object, an_array)


def test_usage_adds_up():
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)
    assert Usage() + Usage(1) == Usage(1, 0, 0)
    # However much upstreams claim, a sum fits everywhere.
    assert Usage(MAX_TOKEN_COUNT, 1) + Usage(10**30, 1, 5) == Usage(MAX_TOKEN_COUNT, 2, 5)


VALUES = [
    Note("code", "detail"),
    FULL,
    ToolCall("f", {"a": [1, None]}, "id", (Note("x"),)),
    ToolResult("id", "text", "f", True),
    Message("assistant", (TextPart("t"), Opaque("image", {"url": "u"})), "why", (ToolCall("f", {}),), ()),
    ToolChoice("required", ("f",), False),
    Request("m", (Message("user", (TextPart("hi"),)),), (FULL,), ToolChoice("none"), True, Options(top_p=1)),
    Usage(1, 2, 3),
]


@check_each("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_frozen_and_survives_storage(value: Any):
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], None)


def test_the_defaults_are_the_harmless_ones():
    assert (ToolChoice().mode, ToolChoice().allowed, ToolChoice().parallel) == ("auto", (), True)
    assert not Tool("f").side_effects
    assert not ToolResult("id", "text").error
    assert Request("m", ()).options == Options()


def test_media_of_an_unknown_kind_are_a_usage_error():
    with pytest.raises(UsageError, match=r"unknown kind of media 'picture'.*image, audio, video, file"):
        Media("picture", "https://x.test/i.png")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
