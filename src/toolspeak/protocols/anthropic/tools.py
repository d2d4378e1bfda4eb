"""Decode and encode tools and the tool choice.

A tool without a type, or of type `custom`, is a function. Other types, such as `web_search_20250305` or
`bash_20250124`, are defined by Anthropic. Such tools are forwarded unchanged, and their type becomes `Tool.kind`.
"""

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from ...core.types import JSONObject, JSONValue, Request, Tool, ToolChoice, is_object
from ...errors import UsageError
from ..shared.fields import filled, list_or_empty, object_or_empty, without
from ..shared.tools_cache import cached_tools
from ..shared.validation import array_field, bool_field, name_field, object_field, text_field
from .encoding_state import EncodingContext

_TOOL_FIELDS = ("name", "description", "input_schema")
_Mode: TypeAlias = Literal["auto", "none", "required", "named"]
_MODES: dict[str, _Mode] = {"auto": "auto", "any": "required", "none": "none", "tool": "named"}
_CHOICE_TYPES = {mode: word for word, mode in _MODES.items()}
#: Matches only the kinds of Anthropic's own tools, which end with a version date.
_OWN_KIND = re.compile(r"_[0-9]{8}\Z")
#: Keywords that the service rejects at the top level of a schema.
_COMBINATORS = ("anyOf", "oneOf", "allOf")


@cached_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    return tuple(_tool(tool, f"tools[{at}]") for at, tool in enumerate(array_field(value, "tools")))


def _tool(value: JSONValue, path: str) -> Tool:
    tool = object_field(value, path)
    kind = text_field(tool.get("type"), f"{path}.type") or "custom"
    if kind != "custom":
        return Tool(text_field(tool.get("name"), f"{path}.name") or kind, kind=kind, extra=tool)
    name = name_field(tool, path)
    description = text_field(tool.get("description"), f"{path}.description")
    return Tool(name, description, tool.get("input_schema"), extra=without(tool, *_TOOL_FIELDS))


def decode_choice(value: JSONValue) -> tuple[ToolChoice, JSONObject]:
    """Return the tool choice and its extra fields."""
    if value is None:
        return ToolChoice(), {}
    choice = {"type": value} if isinstance(value, str) else object_field(value, "tool_choice")
    rest = without(choice, "type", "name", "disable_parallel_tool_use")
    single = bool_field(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use", False)
    kind = text_field(choice.get("type"), "tool_choice.type")
    mode = _MODES.get(kind)
    if mode is None:
        raise UsageError(f"invalid `tool_choice.type`: `{kind}`", hint="use `auto`, `any`, `tool` or `none`")
    names = (name_field(choice, "tool_choice"),) if mode == "named" else ()
    return ToolChoice(mode, names, parallel=mode == "none" or not single), rest


def encode_tools(request: Request, choice_extra: JSONObject, context: EncodingContext) -> JSONObject:
    """Encode `tools` and `tool_choice`. Without tools, a tool choice would be invalid and is left out."""
    tools = [
        wire_tool for tool in _allowed_tools(request, context) if (wire_tool := _encode_tool(tool, context)) is not None
    ]
    if not tools:
        return {}
    choice = request.tool_choice
    wire: JSONObject = {"type": _CHOICE_TYPES[choice.mode]}
    if choice.mode == "named":
        wire["name"] = choice.allowed[0]
    if not choice.parallel and choice.mode != "none":
        wire["disable_parallel_tool_use"] = True
    wire |= choice_extra
    return {"tools": tools} if wire == {"type": "auto"} else {"tools": tools, "tool_choice": wire}


def _allowed_tools(request: Request, context: EncodingContext) -> Iterable[Tool]:
    """Return only the tools that the tool choice allows, because the API has no field for allowed tools."""
    choice = request.tool_choice
    if choice.mode not in ("auto", "required") or not choice.allowed:
        return request.tools
    allowed = [tool for tool in request.tools if choice.permits(tool.name)]
    if len(allowed) < len(request.tools):
        context.note("tools_left_out", "only the allowed tools were sent")
    return allowed


def _encode_tool(tool: Tool, context: EncodingContext) -> JSONObject | None:
    if tool.kind not in ("function", "custom"):
        if is_own(tool) or (context.same_protocol and tool.extra.get("type") == tool.kind):
            return dict(tool.extra)
        detail = f"`{tool.name}`: the upstream's protocol does not support tools of kind `{tool.kind}`"
        context.note("tool_dropped", detail, of=tool.name)
        return None
    wire: JSONObject = {"name": tool.name, **filled({"description": tool.description})}
    wire["input_schema"] = tool.parameters if context.native and is_object(tool.parameters) else _schema(tool, context)
    return {**wire, **context.extra(tool.extra)}


def is_own(tool: Tool) -> bool:
    """Whether a tool, from any protocol, is one that Anthropic defines."""
    return tool.extra.get("type") == tool.kind and _OWN_KIND.search(tool.kind) is not None


def _schema(tool: Tool, context: EncodingContext) -> JSONObject:
    """Return a schema that the service accepts: an object schema without combinators at the top level."""
    schema = tool.parameters
    if not is_object(schema):
        return {"type": "object"}
    result = without(schema, *_COMBINATORS) if any(key in schema for key in _COMBINATORS) else schema
    if result is not schema:
        context.note("schema_loosened", f"`{tool.name}`: top-level `anyOf`, `oneOf` or `allOf` was merged")
        result["properties"] = _properties(schema)
    return result if result.get("type") == "object" else {**result, "type": "object"}


def _properties(schema: JSONObject) -> JSONObject:
    """Merge the properties of a schema and of its `anyOf`, `oneOf` and `allOf` branches; the first definition wins."""
    merged: JSONObject = {}
    branches = [schema, *(one for key in _COMBINATORS for one in list_or_empty(schema.get(key)))]
    for branch in branches:
        merged = {**object_or_empty(object_or_empty(branch).get("properties")), **merged}
    return merged
