"""Tools and `tool_choice` of the Responses API, to ours and back, and how a tool is spoken of on the wire.

Tools in a namespace are flattened: their name begins with the group's. `Names` finds the way back. What a namespace
says besides is kept under `beside` in the `extra` of its tools. A choice that says more than we have words for is
kept as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec

from ...core.types import JSONObject, JSONValue, Tool, ToolChoice, is_object
from ...errors import UsageError
from ..shared.fields import array_field, bool_field, custom_format, declared_tools, object_field, text_field, without
from ..shared.tools_cache import kept_tools
from .parts import PROTOCOL

#: Where `extra` keeps what the namespace of a tool says.
_BESIDE: Final = "beside"
#: What stands between the name of a namespace and that of a tool, as `tools_from` joins them.
_SEPARATOR: Final = "__"
#: Kinds of tools that are spoken of by name; all others by their kind.
_NAMED = ("function", "custom")
#: Kinds of tools that the service runs, or knows: meant for it, by whichever protocol they come.
_OWN_KINDS: Final = frozenset(
    "apply_patch code_interpreter computer computer_use_preview file_search image_generation local_shell mcp shell"
    " tool_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11".split()
)
_MODES: dict[JSONValue, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


# ------------------------------------------------------------------------------------------------------- names


class Spoken(msgspec.Struct, frozen=True):
    """How a tool is spoken of on the wire."""

    name: str
    namespace: str = ""
    kind: str = "function"


class Names:
    """The names of a request's tools, ours and the wire's."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._known = {tool.name: Spoken(_short(tool), tool.namespace, tool.kind) for tool in tools}

    def spoken(self, name: str) -> Spoken:
        """How the tool of this name is spoken of."""
        return self._known.get(name) or Spoken(name)

    def flat(self, name: str) -> str:
        """Our name of a tool that the wire calls by this name, without its namespace."""
        if name in self._known:
            return name
        return next((flat for flat, spoken in self._known.items() if spoken.name == name), name)


def flattened(namespace: JSONValue, name: str) -> str:
    """Our name of a tool in a namespace."""
    return f"{namespace}{_SEPARATOR}{name}" if isinstance(namespace, str) and namespace else name


def _short(tool: Tool) -> str:
    return tool.name.removeprefix(tool.namespace + _SEPARATOR) if tool.namespace else tool.name


# ------------------------------------------------------------------------------------------------------- tools


@kept_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    """The tools that a request declares."""
    found: list[Tool] = []
    for declared, tools in declared_tools(value):
        found += _in_namespace(tools, declared) if declared.get("type") == "namespace" else tools
    return tuple(found)


def _in_namespace(tools: Iterable[Tool], declared: JSONObject) -> Iterable[Tool]:
    beside = without(declared, "type", "name", "tools")
    if beside.get("description") == "":
        del beside["description"]
    if not beside:
        return tools
    return [msgspec.structs.replace(tool, extra={**tool.extra, _BESIDE: beside}) for tool in tools]


def encode_tools(tools: Iterable[Tool], protocol: str) -> list[JSONObject]:
    """The tools as they are declared; `protocol` is the one in whose words their extras are.

    A tool of a kind that only an upstream of another protocol knows is not sent on.
    """
    ours = protocol in (PROTOCOL, "")
    sent = [tool for tool in tools if ours or tool.kind in _NAMED or is_own(tool)]
    wire: list[JSONObject] = []
    for (namespace, beside), group in groupby(sent, lambda tool: (tool.namespace, tool.extra.get(_BESIDE))):
        listed = [_encode_tool(tool, ours, protocol == PROTOCOL) for tool in group]
        if namespace:
            said = beside if ours and is_object(beside) else {}
            listed = [{"type": "namespace", "name": namespace, "description": "", **said, "tools": listed}]
        wire += listed
    return wire


def is_own(tool: Tool) -> bool:
    """Whether a tool is of a kind that is this protocol's, wherever it comes from."""
    return tool.kind in _OWN_KINDS and tool.extra.get("type") == tool.kind


def _encode_tool(tool: Tool, ours: bool, own: bool) -> JSONObject:
    extra = without(tool.extra, _BESIDE) if ours or is_own(tool) else {}
    if tool.kind not in _NAMED:
        return extra
    wire: JSONObject = {"type": tool.kind, "name": _short(tool)}
    if tool.description:
        wire["description"] = tool.description
    if tool.kind == "function":
        wire["parameters"] = tool.parameters
        if not own:  # here, and only here, a tool that says nothing is strict
            wire["strict"] = tool.extra.get("strict") is True
    return wire | custom_format(tool, nested=False) | without(extra, "format")


# ------------------------------------------------------------------------------------------------- tool_choice


def decode_choice(value: JSONValue, parallel: JSONValue, tools: Sequence[Tool]) -> ToolChoice:
    """`tool_choice` and `parallel_tool_calls`; a tool that only its upstream has is chosen by its kind."""
    several = bool_field(parallel, "parallel_tool_calls", True)
    if value is None or isinstance(value, str):
        return ToolChoice(_mode(value or "auto", "tool_choice"), parallel=several)
    choice = object_field(value, "tool_choice")
    names = Names(tools)
    if choice.get("type") != "allowed_tools":
        return ToolChoice("named", (names.flat(_name_in(choice, "tool_choice")),), several)
    body = object_field(choice.get("allowed_tools", choice), "tool_choice.allowed_tools")
    listed = array_field(body.get("tools"), "tool_choice.tools")
    if not listed:
        raise UsageError("`tool_choice.tools` must name at least one tool")
    allowed = (_name_in(item, f"tool_choice.tools[{at}]") for at, item in enumerate(listed))
    return ToolChoice(_mode(body.get("mode"), "tool_choice.mode"), tuple(map(names.flat, allowed)), several)


def _mode(value: JSONValue, path: str) -> Literal["auto", "none", "required"]:
    mode = _MODES.get(text_field(value, path))
    if mode is None:
        raise UsageError(f"`{path}` is `{value}`", hint="use auto, none, required or an object that names a tool")
    return mode


def _name_in(value: JSONValue, path: str) -> str:
    """The name in {"type": T, "name": N} or, in an older protocol, {"type": T, T: {"name": N}}."""
    tool = object_field(value, path)
    kind = text_field(tool.get("type"), f"{path}.type") or "function"
    if kind not in _NAMED:
        return kind
    name = text_field(object_field(tool.get(kind, tool), f"{path}.{kind}").get("name"), f"{path}.name")
    if not name:
        raise UsageError(f"`{path}.name` is missing")
    return name


def encode_choice(choice: ToolChoice, names: Names) -> JSONValue:
    """The choice on the wire."""
    if choice.mode == "named":
        return _reference(choice.allowed[0], names)
    if choice.allowed and choice.mode != "none":
        return {
            "type": "allowed_tools",
            "mode": choice.mode,
            "tools": [_reference(name, names) for name in choice.allowed],
        }
    return choice.mode


def _reference(name: str, names: Names) -> JSONObject:
    spoken = names.spoken(name)
    return {"type": spoken.kind, "name": spoken.name} if spoken.kind in _NAMED else {"type": spoken.kind}
