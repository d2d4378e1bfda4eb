"""Decode and encode requests, their tools and the tool choice.

A tool without a type, or of type `custom`, is a function. Other types, such as `web_search_20250305` or
`bash_20250124`, are defined by Anthropic. Such tools are forwarded unchanged, and their type becomes `Tool.kind`.
`Options.extra` stores every field that `Options` lacks, such as `thinking`, `metadata`, `top_k` or `output_config`
(without its `format`). Three entries are internal: `tool_choice` and `output_config.format` store extra fields of these
objects; `output_format` records that the client used this legacy field.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from ...core.types import JSONObject, JSONValue, Note, Options, Request, ResponseFormat, Tool, ToolChoice, is_object
from ...errors import UsageError
from ..shared import validation
from ..shared.dropped_fields import dropped_field_notes, sendable_choice
from ..shared.fields import filled, list_or_empty, object_or_empty, request_fields, to_wire, without
from ..shared.request_parts import add_own_fields, copy_extra_fields, options_field
from ..shared.resent_values import ResentRequests, cached_tools
from .encoding_state import CACHE_CONTROL, PROTOCOL, EncodingContext
from .messages import decode_messages, decode_system, encode_messages

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
    return tuple(_tool(tool, path) for tool, path in validation.objects_field(value, "tools"))


def _tool(tool: JSONObject, path: str) -> Tool:
    kind = validation.text_field(tool.get("type"), f"{path}.type") or "custom"
    if kind != "custom":
        return Tool(validation.text_field(tool.get("name"), f"{path}.name") or kind, kind=kind, extra=tool)
    name = validation.name_field(tool, path)
    description = validation.text_field(tool.get("description"), f"{path}.description")
    return Tool(name, description, tool.get("input_schema"), extra=without(tool, *_TOOL_FIELDS))


def decode_choice(value: JSONValue) -> tuple[ToolChoice, JSONObject]:
    """Return the tool choice and its extra fields."""
    if value is None:
        return ToolChoice(), {}
    choice = {"type": value} if isinstance(value, str) else validation.object_field(value, "tool_choice")
    rest = without(choice, "type", "name", "disable_parallel_tool_use")
    single = validation.bool_field(
        choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use", False
    )
    kind = validation.text_field(choice.get("type"), "tool_choice.type")
    mode = _MODES.get(kind)
    if mode is None:
        raise UsageError(f"invalid `tool_choice.type`: `{kind}`", hint="use `auto`, `any`, `tool` or `none`")
    names = (validation.name_field(choice, "tool_choice"),) if mode == "named" else ()
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


#: Default limit, because the service requires one. All models support it, and it suffices for typical files.
DEFAULT_MAX_TOKENS = 8192
#: Maximum number of cache breakpoints that the service accepts in a request.
MAX_CACHE_MARKS = 4

_MAX_TEMPERATURE = 1.0

_CONFIG, _FORMAT, _OLD_FORMAT, _CHOICE = "output_config", "format", "output_format", "tool_choice"
#: Internal `extra` field that stores extra fields of the response format.
_FORMAT_EXTRA = "output_config.format"
_REQUEST_FIELDS = (
    "model messages system tools tool_choice stream max_tokens temperature top_p stop_sequences output_format"
).split()

_INTERNAL_FIELDS = frozenset({_FORMAT_EXTRA, _OLD_FORMAT, _CHOICE})


def needs_store(request: Request) -> bool:
    """Whether a request continues a thread, whose earlier messages and tools are available only in a store.

    The tool runners of the SDKs start threads automatically and resend the whole conversation if a thread is not found.
    """
    extra = request.options.extra if request.protocol == PROTOCOL else {}
    return object_or_empty(extra.get("thread")).get("type") == "continue"


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode the body of a message or `count_tokens` request. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    listed = validation.array_field(fields.get("messages"), "messages")
    if not listed:
        raise UsageError("`messages` must contain at least one message")
    choice, choice_extra = decode_choice(fields.get(_CHOICE))
    return Request(
        validation.text_field(fields.get("model"), "model"),
        decode_system(fields.get("system")) + decode_messages(listed),
        decode_tools(fields.get("tools")),
        choice,
        validation.bool_field(fields.get("stream"), "stream", False),
        _options(fields, choice_extra),
        PROTOCOL,
    )


decode_body = ResentRequests("messages", b'[{"role":"user"}]', decode_request, decode_messages, decode_tools).decode


def _options(fields: JSONObject, choice_extra: JSONObject) -> Options:
    extra = without(fields, *_REQUEST_FIELDS, _FORMAT_EXTRA)
    extra |= filled({_CHOICE: choice_extra})
    names = ("max_tokens", "temperature", "top_p", "", "stop_sequences")
    return options_field(fields, names, _format(fields, extra), extra)


def _format(fields: JSONObject, extra: JSONObject) -> ResponseFormat | None:
    """Return the response format. Add its extra fields, and formats of unknown types, to `extra`."""
    config = object_or_empty(fields.get(_CONFIG))
    old, raw = fields.get(_OLD_FORMAT), config.get(_FORMAT)
    path = f"{_CONFIG}.{_FORMAT}"
    if raw is None and old is not None:
        raw, path = old, _OLD_FORMAT
    if raw is None:
        return None
    form = validation.object_field(raw, path)
    if form.get("type") != "json_schema":
        if path == _OLD_FORMAT:
            extra[_OLD_FORMAT] = form
        return None
    if path == _OLD_FORMAT:
        extra[_OLD_FORMAT] = True
    else:
        extra.pop(_CONFIG, None)
        extra |= filled({_CONFIG: without(config, _FORMAT)})
    extra |= filled({_FORMAT_EXTRA: without(form, "type", "schema")})
    return ResponseFormat(form.get("schema"))


def encode_request(request: Request) -> bytes:
    sendable_choice(request, PROTOCOL, is_own)
    return to_wire(_body(request)[0])


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    return _body(request)[1]


def _body(request: Request) -> tuple[JSONObject, tuple[Note, ...]]:
    context = EncodingContext(request.protocol, (call.id for message in request.messages for call in message.calls))
    extra = request.options.extra if context.same_protocol else {}
    system, messages = encode_messages(request.messages, context)
    body: JSONObject = {"model": request.model, "max_tokens": _max_tokens(request.options, extra, context)}
    if system is not None:
        body["system"] = system
    body["messages"] = messages
    body |= encode_tools(request, extra.get(_CHOICE, {}), context)
    body |= _encode_options(request.options, context)
    if request.stream:
        body["stream"] = True
    copy_extra_fields(body, extra, _INTERNAL_FIELDS)
    _encode_format(request.options, extra, body, context)
    body = add_own_fields(body, request.options)
    _limit_cache_marks(body, context)
    for note in () if context.same_protocol else dropped_field_notes(request):
        context.note(note.code, note.detail)
    return body, context.notes


def _max_tokens(options: Options, extra: JSONObject, context: EncodingContext) -> int:
    if options.max_tokens is not None:
        return options.max_tokens
    budget = object_or_empty(extra.get("thinking")).get("budget_tokens")
    limit = DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)  # thinking counts toward the limit
    context.note("max_tokens_set", f"`max_tokens` was set to {limit}, because the service requires it")
    return limit


def _encode_options(options: Options, context: EncodingContext) -> JSONObject:
    fields: JSONObject = {}
    temperature = options.temperature
    if temperature is not None:
        if temperature > _MAX_TEMPERATURE and not context.native:
            context.note(
                "temperature_lowered", f"temperature {temperature:g} is above the maximum of {_MAX_TEMPERATURE:g}"
            )
            temperature = _MAX_TEMPERATURE
        fields["temperature"] = temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    stop = [text for text in options.stop if context.native or text.strip()]
    if len(stop) < len(options.stop):
        context.note("stop_dropped", "the service rejects stop sequences that contain only white space")
    if stop:
        fields["stop_sequences"] = stop
    if options.seed is not None:
        context.note("seed_dropped", "the Messages API does not support `seed`")
    if options.n != 1:
        context.note("n_dropped", "the Messages API returns only one answer")
    return fields


def _encode_format(options: Options, extra: JSONObject, body: JSONObject, context: EncodingContext) -> None:
    old = extra.get(_OLD_FORMAT)
    form = options.response_format
    if is_object(old):
        body[_OLD_FORMAT] = old
    if form is None:
        return
    if form.schema is None:
        context.note("response_format_dropped", "the Messages API requires a schema for a response format")
        return
    wire = {"type": "json_schema", "schema": form.schema, **extra.get(_FORMAT_EXTRA, {})}
    if old is True:
        body[_OLD_FORMAT] = wire
    else:
        body[_CONFIG] = {**object_or_empty(body.get(_CONFIG)), _FORMAT: wire}


def _limit_cache_marks(body: JSONObject, context: EncodingContext) -> None:
    """Remove the first cache breakpoints if there are too many; each one includes everything before it."""
    marked = [block for block in _cacheable(body) if block.get(CACHE_CONTROL) is not None]
    limit = MAX_CACHE_MARKS - (body.get(CACHE_CONTROL) is not None)
    if len(marked) > limit:
        context.note("cache_control_dropped", f"only the last {limit} of {len(marked)} cache breakpoints were sent")
    for block in marked[: max(0, len(marked) - limit)]:
        del block[CACHE_CONTROL]


def _cacheable(body: JSONObject) -> list[JSONObject]:
    """Return all blocks that can have a cache breakpoint, in the order in which the service reads them."""
    blocks: list[JSONValue] = [*list_or_empty(body.get("tools")), *list_or_empty(body.get("system"))]
    for message in body["messages"]:
        for block in list_or_empty(message["content"]):
            blocks += [*(list_or_empty(block.get("content")) if block["type"] == "tool_result" else ()), block]
    return [block for block in blocks if is_object(block)]
