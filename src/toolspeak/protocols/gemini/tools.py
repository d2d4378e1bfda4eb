"""Decode and encode tools, the tool choice and schemas.

Functions are sent with `parametersJsonSchema`, which accepts JSON Schema. A declaration received with `parameters`, in
Gemini's own schema format, is sent unchanged. All other tools (googleSearch, codeExecution, urlContext, ...) are
provided by the upstream.
"""

from ...core.types import JSONObject, JSONValue, Request, Tool, ToolChoice, is_array, is_object
from ...errors import UsageError
from ..shared.dropped_fields import COMMON_TOOL_KINDS, sendable_choice
from ..shared.fields import filled, object_or_empty, without
from ..shared.resent_values import cached_tools
from ..shared.validation import name_field, object_field, objects_field, text_field, texts_field
from .wire import PROTOCOL, normalize_fields

TOOL_CONFIG = "toolConfig"
_DECLARATIONS, _CONFIG, _ALLOWED = "functionDeclarations", "functionCallingConfig", "allowedFunctionNames"
_TOOL_FIELDS = ("name", "description", "parametersJsonSchema")
#: Gemini's built-in tools. Requests from other protocols name them in `type`, in camel or snake case.
_OWN_KINDS = frozenset(
    "googleSearch googleSearchRetrieval codeExecution urlContext googleMaps fileSearch computerUse".split()
)
#: Identifies OpenAI's `file_search`, a different tool of the same name that searches files stored by OpenAI.
_OPENAI_STORES = "vector_store_ids"
#: Field that is never sent, because the reply decoder does not support streamed arguments.
_STREAM_ARGUMENTS = "streamFunctionCallArguments"


@cached_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for item, path in objects_field(value, "tools"):
        for key, inner in normalize_fields(item).items():
            if key == _DECLARATIONS:
                declared = objects_field(inner, f"{path}.{key}")
                tools += [_function(normalize_fields(declaration), where) for declaration, where in declared]
            else:
                tools.append(Tool(key, kind=key, extra={key: inner}))
    return tuple(tools)


def _function(body: JSONObject, path: str) -> Tool:
    name = name_field(body, path)
    schema = body.get("parametersJsonSchema")
    if schema is None and "parameters" in body:
        schema = to_json_schema(body["parameters"], f"{path}.parameters")
    description = text_field(body.get("description"), f"{path}.description")
    return Tool(name, description, schema, extra=without(body, *_TOOL_FIELDS))


def decode_choice(value: JSONValue) -> tuple[ToolChoice, JSONObject]:
    """Return the tool choice and the extra fields of `toolConfig`."""
    if value is None:
        return ToolChoice(), {}
    config = normalize_fields(object_field(value, TOOL_CONFIG))
    rest = without(config, _CONFIG)
    path = f"{TOOL_CONFIG}.{_CONFIG}"
    calling = normalize_fields(object_field(config.get(_CONFIG, {}), path))
    allowed = texts_field(calling.get(_ALLOWED), f"{path}.{_ALLOWED}")
    calling_extra = without(calling, "mode", _ALLOWED)
    mode = text_field(calling.get("mode"), f"{path}.mode").upper()
    if mode not in ("", "AUTO", "MODE_UNSPECIFIED", "VALIDATED", "ANY", "NONE"):
        raise UsageError(f"invalid `{path}.mode`: `{mode}`", hint="use `AUTO`, `ANY`, `NONE` or `VALIDATED`")
    if mode == "VALIDATED":
        calling_extra["mode"] = mode
    choice = ToolChoice("none") if mode == "NONE" else ToolChoice("required" if mode == "ANY" else "auto", allowed)
    return choice, {**rest, _CONFIG: calling_extra} if calling_extra else rest


def encode_tools(tools: tuple[Tool, ...], same_protocol: bool) -> list[JSONObject]:
    """Encode tools, grouping consecutive functions. `same_protocol` says whether their `extra` fields can be sent."""
    wire: list[JSONObject] = []
    for tool in tools:
        if tool.kind in COMMON_TOOL_KINDS:
            if not wire or wire[-1].keys() != {_DECLARATIONS}:
                wire.append({_DECLARATIONS: []})
            wire[-1][_DECLARATIONS].append(_declaration(tool, tool.extra if same_protocol else {}))
        elif is_own(tool):
            wire.append({name: without(tool.extra, "type", "name") for name in normalize_fields({tool.kind: True})})
        elif same_protocol:
            wire.append(tool.extra)
    return wire


def is_own(tool: Tool) -> bool:
    """Whether a tool from another protocol is one of Gemini's built-in tools."""
    is_own_kind = tool.extra.get("type") == tool.kind and not _OWN_KINDS.isdisjoint(normalize_fields({tool.kind: True}))
    return is_own_kind and _OPENAI_STORES not in tool.extra


def _declaration(tool: Tool, extra: JSONObject) -> JSONObject:
    body: JSONObject = {"name": tool.name, **filled({"description": tool.description})}
    own_schema = extra.get("parameters")
    if is_object(own_schema) and to_json_schema(own_schema, "parameters") == tool.parameters:
        body["parameters"] = own_schema
    elif tool.parameters is not None:
        body["parametersJsonSchema"] = tool.parameters
    return {**body, **without(extra, "parameters")}


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def encode_choice(request: Request, rest: JSONValue) -> JSONObject:
    """Return `toolConfig`, including the extra fields `rest`. It may be empty."""
    extra = object_or_empty(rest)
    calling = without(object_or_empty(extra.get(_CONFIG)), _STREAM_ARGUMENTS)
    choice = sendable_choice(request, PROTOCOL, is_own)
    if not any(tool.kind in COMMON_TOOL_KINDS for tool in request.tools):
        calling = {}  # the field is only valid with functions
    elif choice.mode != "auto":
        calling["mode"] = _MODES[choice.mode]
    elif choice.allowed:
        calling["mode"] = "VALIDATED"  # AUTO does not accept tool names
    if calling and choice.allowed and choice.mode != "none":
        calling[_ALLOWED] = list(choice.allowed)
    return without(extra, _CONFIG) | filled({_CONFIG: calling})


#: Recursion limit, far above the depth of real schemas.
_MAX_DEPTH = 64
#: Keywords with 64-bit integer values, which protocol buffers encode as strings in JSON.
_INTEGER_KEYWORDS = frozenset("minItems maxItems minLength maxLength minProperties maxProperties".split())
_SCHEMA_KEYWORDS = frozenset(("items", "additionalProperties"))
_SCHEMA_MAP_KEYWORDS = {"properties": "properties", "defs": "$defs", "$defs": "$defs"}
_UNSPECIFIED = "type_unspecified"


def to_json_schema(value: JSONValue, path: str, depth: int = _MAX_DEPTH) -> JSONValue:
    """Convert a schema from Gemini's format, a subset of OpenAPI 3.0, to JSON Schema. Leave JSON Schema unchanged.

    Raises UsageError if the schema is nested too deeply.
    """
    if not is_object(value):
        return value
    if not depth:
        raise UsageError(f"`{path}` is nested too deeply")
    schema: JSONObject = {}
    for key, item in normalize_fields(value).items():
        schema |= _keyword(key, item, path, depth - 1)
    if schema.pop("nullable", False) is True:
        _allow_null(schema)
    return schema


def _keyword(key: str, item: JSONValue, path: str, depth: int) -> JSONObject:
    if isinstance(item, str):
        return _text_keyword(key, item)
    if key in _SCHEMA_KEYWORDS:
        return {key: to_json_schema(item, path, depth)}
    if key in _SCHEMA_MAP_KEYWORDS and is_object(item):
        return {_SCHEMA_MAP_KEYWORDS[key]: {name: to_json_schema(each, path, depth) for name, each in item.items()}}
    if key == "anyOf" and is_array(item):
        return {key: [to_json_schema(each, path, depth) for each in item]}
    return {"examples": [item]} if key == "example" else {key: item}


def _text_keyword(key: str, item: str) -> JSONObject:
    match key:
        case "type":
            return {} if item.lower() == _UNSPECIFIED else {key: item.lower()}
        case "format" if item == "enum":  # redundant: `enum` says the same
            return {}
        case "ref":
            return {"$ref": item}
        case "example":
            return {"examples": [item]}
        case _:
            whole = key in _INTEGER_KEYWORDS and item.isascii() and item.isdigit()
            return {key: int(item) if whole else item}


def _allow_null(schema: JSONObject) -> None:
    """Make a schema accept null, the JSON Schema equivalent of OpenAPI's `nullable`."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    options = schema.get("anyOf")
    if is_array(options) and {"type": "null"} not in options:
        schema["anyOf"] = [*options, {"type": "null"}]
    values = schema.get("enum")
    if is_array(values) and None not in values:
        schema["enum"] = [*values, None]
