"""The values everything else speaks in: messages, tools, calls.

Pure and frozen: identity, storage and wire shapes live elsewhere. Above this module sit the events, the
scanner, the dialects and every protocol codec; below it only `errors`. Nothing here parses model text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeGuard

import msgspec

from ..errors import UsageError

__all__ = [
    "JSONObject",
    "JSONValue",
    "Message",
    "Note",
    "Opaque",
    "Request",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "Usage",
    "is_array",
    "is_object",
    "tools_from",
]

#: Raw JSON as Python values. `Any` stands only here: a recursive alias costs strict typing more than it gives.
JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]


def is_object(value: JSONValue) -> TypeGuard[JSONObject]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: JSONValue) -> TypeGuard[list[JSONValue]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


Role = Literal["system", "user", "assistant", "tool"]


class Note(msgspec.Struct, frozen=True):
    """Something toolspeak did or noticed that a reader of the result should be able to see.

    `code` is stable and meant for machines, `detail` is for people.
    """

    code: str
    detail: str = ""


class Tool(msgspec.Struct, frozen=True):
    """A function the model may call."""

    name: str
    description: str = ""
    #: JSON schema of the arguments; `None` means that none was given and any object is fine.
    parameters: JSONValue = None
    #: A call of this tool changes the world: a repair that may change a value must not be executed.
    side_effects: bool = False


class ToolCall(msgspec.Struct, frozen=True):
    """One call, complete and with arguments that fit the tool's schema."""

    name: str
    arguments: JSONObject
    id: str = ""
    notes: tuple[Note, ...] = ()


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered to the call with this id."""

    id: str
    content: str
    name: str = ""
    error: bool = False


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """A piece of plain text inside a message."""

    text: str


class Opaque(msgspec.Struct, frozen=True, tag="opaque"):
    """A part we carry but do not read: signatures, encrypted reasoning, media, citations."""

    kind: str
    data: JSONValue = None


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    parts: tuple[TextPart | Opaque, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class ToolChoice(msgspec.Struct, frozen=True):
    """Which calls the caller allows."""

    mode: Literal["auto", "none", "required"] = "auto"
    #: Only these names may be called; empty means any.
    allowed: tuple[str, ...] = ()
    parallel: bool = True


class Request(msgspec.Struct, frozen=True):
    """One turn asked of a model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    stream: bool = False
    options: JSONObject = {}


class Usage(msgspec.Struct, frozen=True):
    """Tokens used, as far as the upstream told."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )


def tools_from(tools: Iterable[Tool | Mapping[str, JSONValue]] | None) -> tuple[Tool, ...] | None:
    """Tools given as toolspeak values or as plain dicts in OpenAI's shape, as toolspeak values."""
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping):
        raise UsageError("`tools` must be a list of tools", hint="wrap a single tool in a list")
    return tuple(_tool_from(tool) for tool in tools)


def _tool_from(tool: Tool | Mapping[str, JSONValue]) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"a tool must be an object, not `{type(tool).__name__}`")
    body: Mapping[str, JSONValue] = tool
    if "function" in tool:
        if not is_object(tool["function"]):
            raise UsageError("the `function` of a tool must be an object")
        body = tool["function"]
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError("a tool needs a `name`", hint='use {"type": "function", "function": {"name": ...}}')
    description = body.get("description")
    return Tool(
        name=name,
        description=description if isinstance(description, str) else "",
        parameters=body.get("parameters"),
        side_effects=bool(body.get("side_effects", False)),
    )
