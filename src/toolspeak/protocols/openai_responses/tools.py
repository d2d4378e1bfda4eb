"""Decode and encode tools, tool names and the tool choice.

A tool in a namespace gets an internal name that starts with the namespace; `ToolNames` maps it back. The `extra` of
such a tool stores the extra fields of its namespace under `beside`.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from ...core.parsing.tool_index import toolkit
from ...core.types import JSONObject, JSONValue, Tool, ToolChoice, is_object
from ...errors import UsageError
from ..shared.fields import filled, to_wire, without
from ..shared.request_parts import choice_mode, custom_format, declared_tools
from ..shared.resent_values import cached_tools
from ..shared.validation import array_field, bool_field, name_field, object_field, objects_field, text_field

PROTOCOL: Final = "openai_responses"

#: Key in `Tool.extra` for the extra fields of the tool's namespace.
_NAMESPACE_EXTRA: Final = "beside"
#: Separator between namespace and tool name, as in `tools_from`.
_SEPARATOR: Final = "__"
#: Tool kinds that a tool choice references by name. All others are referenced by kind.
_NAMED_KINDS = ("function", "custom")
#: Kinds of OpenAI's built-in tools, which are sent for requests from any protocol.
_OWN_KINDS: Final = frozenset(
    "apply_patch code_interpreter computer computer_use_preview file_search image_generation local_shell mcp shell"
    " tool_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11".split()
)


class WireName(msgspec.Struct, frozen=True):
    """The name, namespace and kind of a tool as sent to the upstream."""

    name: str
    namespace: str = ""
    kind: str = "function"


class ToolNames:
    """Maps between the internal names and the wire names of a request's tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._wire_names = {tool.name: WireName(_short_name(tool), tool.namespace, tool.kind) for tool in tools}

    def wire_name(self, name: str) -> WireName:
        return self._wire_names.get(name) or WireName(name)

    def flat(self, name: str) -> str:
        """Return the internal name for a wire name that lacks its namespace."""
        if name in self._wire_names:
            return name
        return next((flat for flat, other in self._wire_names.items() if other.name == name), name)


def tool_names(tools: tuple[Tool, ...]) -> ToolNames:
    return toolkit(tools).derive_from_all(ToolNames)


def flat_name(namespace: JSONValue, name: str) -> str:
    """Return the internal name of a tool in a namespace."""
    return f"{namespace}{_SEPARATOR}{name}" if isinstance(namespace, str) and namespace else name


def _short_name(tool: Tool) -> str:
    return tool.name.removeprefix(tool.namespace + _SEPARATOR) if tool.namespace else tool.name


@cached_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    result: list[Tool] = []
    for declared, tools in declared_tools(value):
        result += _in_namespace(tools, declared) if declared.get("type") == "namespace" else tools
    return tuple(result)


def _in_namespace(tools: Iterable[Tool], declared: JSONObject) -> Iterable[Tool]:
    namespace_extra = without(declared, "type", "name", "tools")
    if namespace_extra.get("description") == "":
        del namespace_extra["description"]
    if not namespace_extra:
        return tools
    return [msgspec.structs.replace(tool, extra={**tool.extra, _NAMESPACE_EXTRA: namespace_extra}) for tool in tools]


def encode_tools(tools: Iterable[Tool], protocol: str) -> list[JSONObject]:
    """Encode tool declarations. `protocol` is the protocol to which their `extra` fields belong.

    Tool kinds that only other protocols support are dropped.
    """
    same_protocol = protocol in (PROTOCOL, "")
    sendable = [tool for tool in tools if same_protocol or tool.kind in _NAMED_KINDS or is_own(tool)]
    wire: list[JSONObject] = []
    for (namespace, extra), group in groupby(sendable, lambda tool: (tool.namespace, tool.extra.get(_NAMESPACE_EXTRA))):
        listed = [_encode_tool(tool, same_protocol, protocol == PROTOCOL) for tool in group]
        if namespace:
            fields = extra if same_protocol and is_object(extra) else {}
            listed = [{"type": "namespace", "name": namespace, "description": "", **fields, "tools": listed}]
        wire += listed
    return wire


def own_tools(tools: tuple[Tool, ...]) -> JSONValue:
    """Return the bytes of tools from this protocol."""
    return msgspec.Raw(to_wire(encode_tools(tools, PROTOCOL)))


def is_own(tool: Tool) -> bool:
    """Whether a tool, from any protocol, is one of OpenAI's built-in tools."""
    return tool.kind in _OWN_KINDS and tool.extra.get("type") == tool.kind


def _encode_tool(tool: Tool, same_protocol: bool, from_client: bool) -> JSONObject:
    extra = without(tool.extra, _NAMESPACE_EXTRA) if same_protocol or is_own(tool) else {}
    if tool.kind not in _NAMED_KINDS:
        return extra
    wire: JSONObject = {"type": tool.kind, "name": _short_name(tool), **filled({"description": tool.description})}
    if tool.kind == "function":
        wire["parameters"] = tool.parameters
        if not from_client:  # unlike others, this protocol defaults to strict
            wire["strict"] = tool.extra.get("strict") is True
    return wire | custom_format(tool, nested=False) | without(extra, "format")


def decode_choice(value: JSONValue, parallel: JSONValue, tools: Sequence[Tool]) -> ToolChoice:
    """Decode `tool_choice` and `parallel_tool_calls`. Built-in tools are chosen by their kind."""
    parallel_calls = bool_field(parallel, "parallel_tool_calls", True)
    if value is None or isinstance(value, str):
        return ToolChoice(choice_mode(value or "auto", "tool_choice"), parallel=parallel_calls)
    choice = object_field(value, "tool_choice")
    names = ToolNames(tools)
    if choice.get("type") != "allowed_tools":
        return ToolChoice("named", (names.flat(_tool_name(choice, "tool_choice")),), parallel_calls)
    body = object_field(choice.get("allowed_tools", choice), "tool_choice.allowed_tools")
    listed = array_field(body.get("tools"), "tool_choice.tools")
    if not listed:
        raise UsageError("`tool_choice.tools` must name at least one tool")
    allowed = (_tool_name(item, path) for item, path in objects_field(listed, "tool_choice.tools"))
    return ToolChoice(
        choice_mode(body.get("mode"), "tool_choice.mode"), tuple(map(names.flat, allowed)), parallel_calls
    )


def _tool_name(tool: JSONObject, path: str) -> str:
    """Return the tool name N from {"type": T, "name": N} or, in the older API, {"type": T, T: {"name": N}}."""
    kind = text_field(tool.get("type"), f"{path}.type") or "function"
    if kind not in _NAMED_KINDS:
        return kind
    return name_field(object_field(tool.get(kind, tool), f"{path}.{kind}"), path)


def encode_choice(choice: ToolChoice, names: ToolNames) -> JSONValue:
    if choice.mode == "named":
        return _reference(choice.allowed[0], names)
    if choice.allowed and choice.mode != "none":
        return {
            "type": "allowed_tools",
            "mode": choice.mode,
            "tools": [_reference(name, names) for name in choice.allowed],
        }
    return choice.mode


def _reference(name: str, names: ToolNames) -> JSONObject:
    tool = names.wire_name(name)
    return {"type": tool.kind, "name": tool.name} if tool.kind in _NAMED_KINDS else {"type": tool.kind}
