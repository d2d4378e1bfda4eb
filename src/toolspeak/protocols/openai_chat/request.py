"""Decode and encode chat-completions requests.

`Options.extra` stores every field that `Options` lacks. Three entries are internal: `functions` and
`max_completion_tokens` record that the client used these fields; `response_format` stores extra fields of the format.
"""

from collections.abc import Mapping

from ...core.types import (
    SIBLING_FIELDS,
    JSONObject,
    JSONValue,
    Note,
    Options,
    Request,
    ResponseFormat,
    Tool,
    ToolChoice,
)
from ...errors import UsageError
from ..shared import validation
from ..shared.dropped_fields import COMMON_TOOL_KINDS, foreign_media_notes, foreign_notes, sendable_choice
from ..shared.fields import filled, object_or_empty, request_fields, to_wire, without
from ..shared.request_parts import (
    FORMAT_NAME,
    add_own_fields,
    choice_mode,
    copy_extra_fields,
    custom_format,
    declared_tools,
    format_field,
    option_fields,
    options_field,
)
from ..shared.resent_values import cached_tools
from .messages import PROTOCOL, decode_messages, encode_messages, is_sendable, moved_media_notes

#: Entry of `Options.extra` if the client sent `functions`; the reply must then use `function_call`.
LEGACY = "functions"

_NEWER_LIMIT = "max_completion_tokens"

#: Fields of options, besides the limit.
_OPTION_FIELDS = ("temperature", "top_p", "seed", "stop", "n")
_REQUEST_FIELDS = (
    "model messages tools tool_choice parallel_tool_calls functions function_call stream max_tokens"
    " max_completion_tokens temperature top_p seed stop n response_format"
).split()


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode a request body. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    messages = validation.array_field(fields.get("messages"), "messages")
    if not messages:
        raise UsageError("`messages` must contain at least one message")
    legacy = fields.get("functions") is not None
    return Request(
        validation.text_field(fields.get("model"), "model"),
        decode_messages(messages, "messages"),
        _functions(fields) if legacy else decode_tools(fields.get("tools")),
        _function_choice(fields.get("function_call")) if legacy else _choice(fields),
        validation.bool_field(fields.get("stream"), "stream", False),
        _options(fields, legacy),
        PROTOCOL,
    )


@cached_tools
def decode_tools(value: JSONValue) -> tuple[Tool, ...]:
    return tuple(tool for _, tools in declared_tools(value) for tool in tools)


def _functions(fields: JSONObject) -> tuple[Tool, ...]:
    functions = validation.array_field(fields["functions"], "functions")
    return decode_tools([{"type": "function", "function": function} for function in functions])


def _function_choice(value: JSONValue) -> ToolChoice:
    """Decode the legacy `function_call` field, which allows at most one call."""
    if value is None or value in ("auto", "none"):
        return ToolChoice(value or "auto", parallel=False)
    name = validation.text_field(validation.object_field(value, "function_call").get("name"), "function_call.name")
    return ToolChoice("named", (name,), parallel=False)


def _choice(fields: JSONObject) -> ToolChoice:
    parallel = validation.bool_field(fields.get("parallel_tool_calls"), "parallel_tool_calls", True)
    value = fields.get("tool_choice")
    if value is None:
        return ToolChoice(parallel=parallel)
    if isinstance(value, str):
        return ToolChoice(choice_mode(value, "tool_choice"), parallel=parallel)
    choice = validation.object_field(value, "tool_choice")
    kind = validation.text_field(choice.get("type"), "tool_choice.type")
    if kind == "allowed_tools":
        allowed = validation.object_field(choice.get(kind, choice), "tool_choice.allowed_tools")
        listed = validation.objects_field(allowed.get("tools"), "tool_choice.allowed_tools.tools")
        names = [_name_of(tool, where) for tool, where in listed]
        if not names:
            raise UsageError("`tool_choice.allowed_tools.tools` must name at least one tool")
        return ToolChoice(choice_mode(allowed.get("mode"), "tool_choice.allowed_tools.mode"), tuple(names), parallel)
    return ToolChoice("named", (_name_of(choice, "tool_choice"),), parallel)


def _name_of(tool: JSONObject, path: str) -> str:
    """Return the tool name N from {"type": T, T: {"name": N}} or, in newer APIs, {"type": T, "name": N}."""
    kind = validation.text_field(tool.get("type"), f"{path}.type") or "function"
    body = validation.object_field(tool.get(kind, tool), f"{path}.{kind}")
    return validation.name_field(body, f"{path}.{kind}")


def _options(fields: JSONObject, legacy: bool) -> Options:
    extra = without(fields, *_REQUEST_FIELDS)
    if legacy:
        extra[LEGACY] = True
    limit = "max_tokens"
    if validation.int_field(fields.get(_NEWER_LIMIT), _NEWER_LIMIT) is not None:
        validation.int_field(fields.get(limit), limit)
        limit = _NEWER_LIMIT
        extra[limit] = True
    raw, stop = fields.get("response_format"), fields.get("stop")
    form, rest = (None, {}) if raw is None else _decode_format(raw)
    extra |= filled({"response_format": rest})
    listed = {**fields, "stop": [stop] if isinstance(stop, str) else stop}
    return options_field(listed, (limit, *_OPTION_FIELDS), form, extra)


def _decode_format(value: JSONValue) -> tuple[ResponseFormat | None, JSONObject]:
    return format_field(validation.object_field(value, "response_format"), "response_format", nested=True)


def encode_request(request: Request) -> bytes:
    custom = {tool.name for tool in request.tools if tool.kind == "custom"}
    messages = encode_messages(request, custom)
    return to_wire({"model": request.model, "messages": messages, **encode_fields(request, custom)})


def encode_fields(request: Request, custom: set[str], tools: JSONValue = None) -> JSONObject:
    """Encode all fields but the model and the messages. `tools`: the encoded tools, if they are known already."""
    same_protocol = request.protocol in (PROTOCOL, "")
    options = request.options
    extra = options.extra if same_protocol else {}
    body = _encode_tools(request, custom, same_protocol, tools)
    limit = _NEWER_LIMIT if _NEWER_LIMIT in extra else "max_tokens"
    body |= option_fields(options, (limit, *_OPTION_FIELDS))
    if options.response_format is not None:
        body["response_format"] = _encode_format(options.response_format, extra.get("response_format", {}))
    elif "type" not in object_or_empty(extra.get("response_format")):  # the rest of a format that is not sent
        extra = without(extra, "response_format")
    copy_extra_fields(body, extra, _NOT_COPIED)
    if request.stream:
        body["stream"] = True
        body["stream_options"] = {**object_or_empty(extra.get("stream_options")), "include_usage": True}
    return add_own_fields(body, options)


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    if is_own(request) and (request.tools or not request.tool_choice.demands):
        return ()
    same_protocol = request.protocol in (PROTOCOL, "")
    notes = foreign_notes(request, PROTOCOL) + foreign_media_notes(request, PROTOCOL, is_sendable)
    notes += moved_media_notes(request)
    if request.tool_choice.demands and not any(
        same_protocol or tool.kind in COMMON_TOOL_KINDS for tool in request.tools
    ):
        notes.append(Note("choice_not_sent", "the tool choice was not sent because the request has no tools"))
    return tuple(notes)


def is_own(request: Request) -> bool:
    """Whether a request was received over this protocol, with all of its messages."""
    for message in request.messages:
        if message.protocol:
            return False
    return request.protocol == PROTOCOL


#: Entries of `Options.extra` that are not copied: internal ones, and `stream_options`, which needs `stream`.
_NOT_COPIED = frozenset({LEGACY, _NEWER_LIMIT, "stream_options"})


def _encode_tools(request: Request, custom: set[str], same_protocol: bool, tools: JSONValue) -> JSONObject:
    """Encode `tools` and the fields that require it. Tool kinds of other protocols are dropped."""
    choice = sendable_choice(request, PROTOCOL)
    tools = tools or encode_tools(request.tools, same_protocol)
    if not tools:
        return {}
    fields: JSONObject = {"tools": tools}
    if choice.mode == "named":
        fields["tool_choice"] = _reference(choice.allowed[0], custom)
    elif choice.allowed and choice.mode != "none":
        listed = [_reference(name, custom) for name in choice.allowed]
        fields["tool_choice"] = {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": listed}}
    elif choice.mode != "auto":
        fields["tool_choice"] = choice.mode
    if not choice.parallel:
        fields["parallel_tool_calls"] = False
    return fields


def encode_tools(tools: tuple[Tool, ...], same_protocol: bool) -> list[JSONValue]:
    return [_encode_tool(tool, same_protocol) for tool in tools if same_protocol or tool.kind in COMMON_TOOL_KINDS]


def _reference(name: str, custom: set[str]) -> JSONObject:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}


def _encode_tool(tool: Tool, same_protocol: bool) -> JSONObject:
    extra = tool.extra
    if not same_protocol:  # only the fields that have the same meaning in this protocol
        strict = tool.kind == "function" and tool.extra.get("strict") is True
        extra = filled({"strict": strict}) | custom_format(tool, nested=True)
    if tool.kind not in COMMON_TOOL_KINDS:
        return extra
    body: JSONObject = {"name": tool.name, **filled({"description": tool.description})}
    if tool.kind == "function" and tool.parameters is not None:
        body["parameters"] = tool.parameters
    return {"type": tool.kind, tool.kind: {**body, **without(extra, SIBLING_FIELDS)}, **extra.get(SIBLING_FIELDS, {})}


def _encode_format(form: ResponseFormat, rest: JSONObject) -> JSONObject:
    if form.schema is None and not form.name:
        return {"type": "json_object", **rest}
    body: JSONObject = {"name": form.name or FORMAT_NAME, **rest}
    if form.schema is not None:
        body["schema"] = form.schema
    if form.strict is not None:
        body["strict"] = form.strict
    return {"type": "json_schema", "json_schema": body}
