"""Tools and the choice among them, to values and back.

Functions are sent with `parametersJsonSchema`, which takes JSON schema as it is; a declaration that came with
`parameters`, Gemini's own form, goes out as it came. Every other tool (googleSearch, codeExecution, urlContext, ...) is
one of the upstream's own.
"""

from __future__ import annotations

from ...core.types import JSONObject, JSONValue, Request, Tool, ToolChoice, is_object
from ...errors import UsageError
from ..shared.dropped_fields import FUNCTIONS, sendable_choice
from ..shared.fields import array_field, object_field, text_field, without
from ..shared.tools_cache import kept_tools
from .schema import json_schema
from .wire import PROTOCOL, proto

TOOL_CONFIG = "toolConfig"
_DECLARATIONS, _CONFIG, _ALLOWED = "functionDeclarations", "functionCallingConfig", "allowedFunctionNames"
_KNOWN = ("name", "description", "parametersJsonSchema")
#: The service's own tools, which whoever speaks another protocol declares by a `type` of this name, in either spelling.
_OWN_KINDS = frozenset(
    "googleSearch googleSearchRetrieval codeExecution urlContext googleMaps fileSearch computerUse".split()
)
#: What OpenAI's tool of the same name, `file_search`, always says: where to search, among files that only it has.
_OPENAI_STORES = "vector_store_ids"
#: Arguments that come piece by piece: a call is one piece here, so this is never asked for.
_PIECES = "streamFunctionCallArguments"


# ------------------------------------------------------------------------------------------------ from the wire


@kept_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    """The tools of a request body."""
    found: list[Tool] = []
    for at, item in enumerate(array_field(value, "tools")):
        path = f"tools[{at}]"
        for key, inner in proto(object_field(item, path)).items():
            if key != _DECLARATIONS:
                found.append(Tool(key, kind=key, extra={key: inner}))
                continue
            path = f"{path}.{key}"
            for number, declaration in enumerate(array_field(inner, path)):
                where = f"{path}[{number}]"
                found.append(_function(proto(object_field(declaration, where)), where))
    return tuple(found)


def _function(body: JSONObject, path: str) -> Tool:
    name = text_field(body.get("name"), f"{path}.name")
    if not name:
        raise UsageError(f"`{path}.name` is missing")
    schema = body.get("parametersJsonSchema")
    if schema is None and "parameters" in body:
        schema = json_schema(body["parameters"], f"{path}.parameters")
    description = text_field(body.get("description"), f"{path}.description")
    return Tool(name, description, schema, extra=without(body, *_KNOWN))


def decode_choice(value: JSONValue) -> tuple[ToolChoice, JSONObject]:
    """The choice, and what a `toolConfig` says besides."""
    if value is None:
        return ToolChoice(), {}
    config = proto(object_field(value, TOOL_CONFIG))
    rest = without(config, _CONFIG)
    path = f"{TOOL_CONFIG}.{_CONFIG}"
    calling = proto(object_field(config.get(_CONFIG, {}), path))
    listed = array_field(calling.get(_ALLOWED), f"{path}.{_ALLOWED}")
    allowed = tuple(text_field(name, f"{path}.{_ALLOWED}[{at}]") for at, name in enumerate(listed))
    beside = without(calling, "mode", _ALLOWED)
    mode = text_field(calling.get("mode"), f"{path}.mode").upper()
    match mode:
        case "" | "AUTO" | "MODE_UNSPECIFIED":
            choice = ToolChoice("auto", allowed)
        case "VALIDATED":
            choice = ToolChoice("auto", allowed)
            beside["mode"] = mode
        case "ANY":
            choice = ToolChoice("required", allowed)
        case "NONE":
            choice = ToolChoice("none")
        case _:
            raise UsageError(f"`{path}.mode` is `{mode}`", hint="use AUTO, ANY, NONE or VALIDATED")
    return choice, {**rest, _CONFIG: beside} if beside else rest


# -------------------------------------------------------------------------------------------------- to the wire


def encode_tools(tools: tuple[Tool, ...], ours: bool) -> list[JSONObject]:
    """`tools`: functions that follow each other are declared together. `ours`: the extras speak this protocol."""
    wire: list[JSONObject] = []
    for tool in tools:
        if tool.kind in FUNCTIONS:
            if not wire or wire[-1].keys() != {_DECLARATIONS}:
                wire.append({_DECLARATIONS: []})
            wire[-1][_DECLARATIONS].append(_declaration(tool, tool.extra if ours else {}))
        elif is_own(tool):
            wire.append({name: without(tool.extra, "type", "name") for name in proto({tool.kind: True})})
        elif ours:
            wire.append(tool.extra)
    return wire


def is_own(tool: Tool) -> bool:
    """Whether it is one of the service's own tools, declared in the words of another protocol."""
    named = tool.extra.get("type") == tool.kind and not _OWN_KINDS.isdisjoint(proto({tool.kind: True}))
    return named and _OPENAI_STORES not in tool.extra


def _declaration(tool: Tool, extra: JSONObject) -> JSONObject:
    body: JSONObject = {"name": tool.name}
    if tool.description:
        body["description"] = tool.description
    given = extra.get("parameters")
    if is_object(given) and json_schema(given, "parameters") == tool.parameters:
        body["parameters"] = given
    elif tool.parameters is not None:
        body["parametersJsonSchema"] = tool.parameters
    return {**body, **without(extra, "parameters")}


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def encode_choice(request: Request, rest: JSONValue) -> JSONObject | None:
    """`toolConfig`, if there is anything to say. `rest`: what it said besides."""
    beside: JSONObject = rest if is_object(rest) else {}
    inner = beside.get(_CONFIG)
    calling: JSONObject = without(inner, _PIECES) if is_object(inner) else {}
    choice = sendable_choice(request, PROTOCOL, is_own)
    if not any(tool.kind in FUNCTIONS for tool in request.tools):
        calling = {}  # says how to call functions, and there are none
    elif choice.mode != "auto":
        calling["mode"] = _MODES[choice.mode]
    elif choice.allowed:
        calling["mode"] = "VALIDATED"  # names may not stand beside AUTO
    if calling and choice.allowed and choice.mode != "none":
        calling[_ALLOWED] = list(choice.allowed)
    config = without(beside, _CONFIG)
    if calling:
        config[_CONFIG] = calling
    return config or None
