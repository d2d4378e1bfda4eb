"""Tools and the choice among them, to values and back.

A tool without a type, or of type `custom`, is a function. Any other type is a tool that Anthropic defined, as
`web_search_20250305`, `bash_20250124` or `computer_toolset_20260801`: its kind is that type, and it is carried as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.types import JSONObject, JSONValue, Request, Tool, ToolChoice, is_array, is_object
from ...errors import UsageError
from ..shared.fields import array_field, bool_field, object_field, text_field, without
from ..shared.tools_cache import kept_tools
from .wire import Sending

_KNOWN = ("name", "description", "input_schema")
_MODES = {"auto": "auto", "any": "required", "none": "none", "tool": "named"}
_WORDS = {mode: word for word, mode in _MODES.items()}
#: How the kinds of the service's own tools end: with the day of their version. No other protocol's do.
_OWN = re.compile(r"_[0-9]{8}\Z")
#: What the service refuses at the top of a schema.
_COMBINED = ("anyOf", "oneOf", "allOf")


@kept_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    """The tools of a request."""
    return tuple(_tool(tool, f"tools[{at}]") for at, tool in enumerate(array_field(value, "tools")))


def _tool(value: JSONValue, path: str) -> Tool:
    tool = object_field(value, path)
    kind = text_field(tool.get("type"), f"{path}.type") or "custom"
    name = text_field(tool.get("name"), f"{path}.name")
    if kind != "custom":
        return Tool(name or kind, kind=kind, extra=tool)
    if not name:
        raise UsageError(f"`{path}.name` is missing")
    description = text_field(tool.get("description"), f"{path}.description")
    return Tool(name, description, tool.get("input_schema"), extra=without(tool, *_KNOWN))


def decode_choice(value: JSONValue) -> tuple[ToolChoice, JSONObject]:
    """The choice, and what it says besides."""
    if value is None:
        return ToolChoice(), {}
    choice = {"type": value} if isinstance(value, str) else object_field(value, "tool_choice")
    rest = without(choice, "type", "name", "disable_parallel_tool_use")
    single = bool_field(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use", False)
    match text_field(choice.get("type"), "tool_choice.type"):
        case "auto":
            return ToolChoice(parallel=not single), rest
        case "any":
            return ToolChoice("required", parallel=not single), rest
        case "none":
            return ToolChoice("none"), rest
        case "tool":
            name = text_field(choice.get("name"), "tool_choice.name")
            if not name:
                raise UsageError("`tool_choice.name` is missing")
            return ToolChoice("named", (name,), not single), rest
        case other:
            raise UsageError(f"`tool_choice.type` is `{other}`", hint="use auto, any, tool or none")


def encode_tools(request: Request, beside: JSONObject, sending: Sending) -> JSONObject:
    """`tools` and the choice, which may only stand beside them."""
    tools = [made for tool in _offered(request, sending) if (made := _encode_tool(tool, sending)) is not None]
    if not tools:
        return {}
    choice = request.tool_choice
    wire: JSONObject = {"type": _WORDS[choice.mode]}
    if choice.mode == "named":
        wire["name"] = choice.allowed[0]
    if not choice.parallel and choice.mode != "none":
        wire["disable_parallel_tool_use"] = True
    wire |= beside
    return {"tools": tools} if wire == {"type": "auto"} else {"tools": tools, "tool_choice": wire}


def _offered(request: Request, sending: Sending) -> Iterable[Tool]:
    """The tools that the choice allows: the protocol has no other word for a choice among some."""
    choice = request.tool_choice
    if choice.mode not in ("auto", "required") or not choice.allowed:
        return request.tools
    allowed = [tool for tool in request.tools if choice.permits(tool.name)]
    if len(allowed) < len(request.tools):
        sending.note("tools_left_out", "only the allowed tools are sent")
    return allowed


def _encode_tool(tool: Tool, sending: Sending) -> JSONObject | None:
    if tool.kind not in ("function", "custom"):
        if is_own(tool) or (sending.ours and tool.extra.get("type") == tool.kind):
            return dict(tool.extra)
        detail = f"`{tool.name}`: a tool of kind `{tool.kind}` has no word in this protocol"
        sending.note("tool_dropped", detail, of=tool.name)
        return None
    wire: JSONObject = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    wire["input_schema"] = tool.parameters if sending.native and is_object(tool.parameters) else _schema(tool, sending)
    return {**wire, **sending.extra(tool.extra)}


def is_own(tool: Tool) -> bool:
    """Whether it is one of the service's own tools, by whichever protocol it comes."""
    return tool.extra.get("type") == tool.kind and _OWN.search(tool.kind) is not None


def _schema(tool: Tool, sending: Sending) -> JSONObject:
    """The schema as the service takes it: an object at the top, and not as a choice between several."""
    schema = tool.parameters
    if not is_object(schema):
        return {"type": "object"}
    kept = without(schema, *_COMBINED) if any(key in schema for key in _COMBINED) else schema
    if kept is not schema:
        sending.note("schema_loosened", f"`{tool.name}`: a choice of schemas at the top became one of all their fields")
        kept["properties"] = _properties(schema)
    return kept if kept.get("type") == "object" else {**kept, "type": "object"}


def _properties(schema: JSONObject) -> JSONObject:
    """The properties of a schema and of the schemas it chooses from; the first of a name counts."""
    found: JSONObject = {}
    branches = [schema, *(one for key in _COMBINED for one in _list(schema.get(key)))]
    for branch in branches:
        inner = branch.get("properties") if is_object(branch) else None
        found = {**(inner if is_object(inner) else {}), **found}
    return found


def _list(value: JSONValue) -> list[JSONValue]:
    return value if is_array(value) else []
