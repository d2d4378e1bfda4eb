"""Decode and encode requests to Ollama's chat API.

In Ollama, arguments are objects, results name their tool, and images are base64 without a media type. Calls and results
without ids get generated ids, which are never sent. `Message.extra` stores `tool_calls` (by position: extra fields of a
call) and every field that `Message` lacks. Streaming is the default. `Options.extra` stores every field that `Options`
lacks: top-level fields under their own names, fields of `options` in an object with this name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ...core.types import (
    SIBLING_FIELDS,
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Options,
    Part,
    Request,
    ResponseFormat,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
)
from ...errors import UsageError
from ..shared import request_parts as parts_of
from ..shared import validation
from ..shared.dropped_fields import COMMON_TOOL_KINDS, all_parts, foreign_notes, sendable_choice
from ..shared.fields import filled, object_or_empty, request_fields, to_wire, without
from ..shared.resent_values import ResentRequests, cached_tools
from ..shared.unstreamed_calls import CallIdAssigner, in_call_order, only_own_ids, wire_id

PROTOCOL: Final = "ollama"

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_MESSAGE_FIELDS = ("role", "content", "thinking", "images", "tool_calls")
_RESULT_FIELDS = ("role", "content", "images", "tool_name", "name", "tool_call_id")
_CALLS = "tool_calls"
#: First characters of a base64 image -> image type.
_IMAGE_TYPES = {"/9j/": "jpeg", "iVBORw0KGgo": "png", "R0lGOD": "gif", "UklGR": "webp", "Qk0": "bmp"}
_BASE64 = ";base64,"


def decode_messages(values: JSONValue) -> tuple[Message, ...]:
    ids = CallIdAssigner()
    return tuple(_message(value, path, ids) for value, path in validation.objects_field(values, "messages"))


def _message(value: JSONObject, path: str, ids: CallIdAssigner) -> Message:
    value = {key: item for key, item in value.items() if item is not None}
    name = validation.text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name.lower())
    if role is None:
        raise UsageError(f"invalid `{path}.role`: `{name}`", hint=f"use one of {', '.join(_ROLES)}")
    if role == "tool":
        return Message("tool", results=(_result(value, path, ids),))
    text = validation.text_field(value.get("content"), f"{path}.content")
    parts: list[Part] = [TextPart(text)] if text else []
    parts += _images(value, path)
    calls, call_extras = _calls(value, path, ids)
    extra = without(value, *_MESSAGE_FIELDS) | filled({_CALLS: call_extras})
    return Message(
        role, tuple(parts), validation.text_field(value.get("thinking"), f"{path}.thinking"), calls, extra=extra
    )


def _images(value: JSONObject, path: str) -> tuple[Media, ...]:
    return tuple(map(decode_image, validation.texts_field(value.get("images"), f"{path}.images")))


def decode_image(data: str) -> Media:
    if data.startswith("data:"):  # some clients send data URLs
        return Media("image", data)
    form = next((form for head, form in _IMAGE_TYPES.items() if data.startswith(head)), "png")
    return Media("image", f"data:image/{form}{_BASE64}{data}")


def _result(value: JSONObject, path: str, ids: CallIdAssigner) -> ToolResult:
    name = validation.text_field(value.get("tool_name", value.get("name")), f"{path}.tool_name")
    identifier = ids.result(name, validation.text_field(value.get("tool_call_id"), f"{path}.tool_call_id"))
    content = validation.text_field(value.get("content"), f"{path}.content")
    return ToolResult(identifier, content, name, parts=_images(value, path), extra=without(value, *_RESULT_FIELDS))


def _calls(value: JSONObject, path: str, ids: CallIdAssigner) -> tuple[tuple[ToolCall, ...], JSONObject]:
    """Return the calls of a message, and the extra fields of each call by position."""
    calls: list[ToolCall] = []
    extras: JSONObject = {}
    for call, where in validation.objects_field(value.get(_CALLS), f"{path}.{_CALLS}"):
        body = validation.object_field(call.get("function"), f"{where}.function")
        name = validation.name_field(body, f"{where}.function")
        arguments, notes = parts_of.call_arguments(body.get("arguments"))
        identifier = ids.call(name, validation.text_field(call.get("id"), f"{where}.id"))
        rest = without(call, "id", "function") | filled({"function": without(body, "name", "arguments")})
        extras |= filled({str(len(calls)): rest})
        calls.append(ToolCall(name, arguments, identifier, notes))
    return tuple(calls), extras


def encode_messages(request: Request) -> list[JSONObject]:
    names: dict[str, str] = {}
    wire: list[JSONObject] = []
    for message in in_call_order(parts_of.merge_assistant_turns(request, PROTOCOL)):
        names |= {call.id: call.name for call in message.calls}
        wire += _encode(message, names, parts_of.is_from_protocol(message, request, PROTOCOL))
    return wire


def _encode(message: Message, names: dict[str, str], same_protocol: bool) -> Iterator[JSONObject]:
    for result in message.results:
        yield _encode_result(result, names, same_protocol)
    if parts_of.has_only_results(message) or (not same_protocol and parts_of.is_opaque_only(message)):
        return
    extra = message.extra if same_protocol else {}
    call_extras = object_or_empty(extra.get(_CALLS))
    optional = {
        "thinking": message.reasoning,
        "images": encode_images(message.parts),
        _CALLS: [_encode_call(call, call_extras.get(str(at))) for at, call in enumerate(message.calls)],
    }
    yield {"role": message.role, "content": message.text, **filled(optional), **without(extra, _CALLS)}


def _encode_result(result: ToolResult, names: dict[str, str], same_protocol: bool) -> JSONObject:
    name, images = result.name or names.get(result.id, ""), encode_images(result.parts)
    optional = {"tool_name": name, "tool_call_id": wire_id(result.id), "images": images}
    wire = {"role": "tool", "content": result.content, **filled(optional)}
    return {**wire, **result.extra} if same_protocol else wire


def encode_images(parts: Iterable[Part]) -> list[str]:
    """Return the base64 data of all inline images. Images with a URL cannot be sent."""
    images = (part.url.partition(_BASE64) for part in parts if isinstance(part, Media) and part.kind == "image")
    return [data for head, mark, data in images if mark and head.startswith("data:")]


def _encode_call(call: ToolCall, extra: JSONValue) -> JSONObject:
    rest = object_or_empty(extra)
    function = {**object_or_empty(rest.get("function")), "name": call.name, "arguments": call.arguments}
    return {**filled({"id": wire_id(call.id)}), "function": function, **without(rest, "function")}


_REQUEST_FIELDS = ("model", "messages", "tools", "stream", "format", "options")
_COMMON_OPTIONS = ("num_predict", "temperature", "top_p", "seed", "stop")


def decode_request(body: bytes | Mapping[str, JSONValue]) -> Request:
    """Decode a body. Without messages, it only loads the model. Raises UsageError, which names the invalid field."""
    fields = request_fields(body)
    return Request(
        validation.text_field(fields.get("model"), "model"),
        decode_messages(fields.get("messages")),
        _tools(fields.get("tools")),
        stream=validation.bool_field(fields.get("stream"), "stream", True),
        options=_decode_options(fields),
        protocol=PROTOCOL,
    )


@cached_tools
def _tools(value: JSONValue) -> tuple[Tool, ...]:
    return tuple(tool for _, tools in parts_of.declared_tools(value) for tool in tools)


_bodies = ResentRequests("messages", b'[{"role":"user"}]', decode_request, decode_messages, _tools)


def decode_body(body: bytes) -> Request | None:
    return only_own_ids(_bodies.decode(body))


def _decode_options(fields: JSONObject) -> Options:
    raw = fields.get("options")
    options = {} if raw is None else validation.object_field(raw, "options")
    extra = {key: value for key, value in without(fields, *_REQUEST_FIELDS).items() if value is not None}
    rest = {key: value for key, value in without(options, *_COMMON_OPTIONS).items() if value is not None}
    limit = validation.int_field(options.get("num_predict"), "options.num_predict")
    if limit is not None and limit < 0:  # -1: unlimited; -2: fill the context
        rest["num_predict"] = limit
        limit = None
    extra |= filled({"options": rest})
    stop = options.get("stop")
    options = {**options, "num_predict": limit, "stop": [stop] if isinstance(stop, str) else stop}
    return parts_of.options_field(options, _COMMON_OPTIONS, _response_format(fields.get("format")), extra, "options.")


def _response_format(value: JSONValue) -> ResponseFormat | None:
    if value is None or value == "":
        return None
    if value == "json":
        return ResponseFormat()
    return ResponseFormat(validation.object_field(value, "format"))


def encode_request(request: Request) -> bytes:
    sendable_choice(request, PROTOCOL)
    same_protocol = request.protocol in (PROTOCOL, "")
    extra = request.options.extra if same_protocol else {}
    body: JSONObject = {"model": request.model, "messages": encode_messages(request), "stream": request.stream}
    # Ollama has no tool choice, so `none` is expressed by sending no tools.
    if request.tool_choice.mode != "none":
        sendable = (tool for tool in request.tools if same_protocol or tool.kind in COMMON_TOOL_KINDS)
        body |= filled({"tools": [_encode_tool(tool, same_protocol) for tool in sendable]})
    form = request.options.response_format
    if form is not None:
        body["format"] = "json" if form.schema is None else form.schema
    options = dict(object_or_empty(extra.get("options")))
    options |= parts_of.option_fields(request.options, _COMMON_OPTIONS)
    body |= filled({"options": options})
    parts_of.copy_extra_fields(body, extra, _REQUEST_FIELDS)
    return to_wire(parts_of.add_own_fields(body, request.options))


def request_notes(request: Request) -> tuple[Note, ...]:
    """Return notes about everything that `encode_request` drops or replaces."""
    notes = foreign_notes(request, PROTOCOL)
    choice = request.tool_choice
    if request.tools and choice.mode != "none" and (choice.demands or choice.allowed or not choice.parallel):
        notes.append(Note("choice_not_sent", "Ollama does not support a tool choice"))
    media = [part for part in all_parts(request) if isinstance(part, Media)]
    if len(encode_images(media)) < len(media):
        notes.append(Note("media_dropped", "only inline images can be sent"))
    if request.options.n > 1:
        notes.append(Note("answers_dropped", "Ollama returns only one answer"))
    return tuple(notes)


def _encode_tool(tool: Tool, same_protocol: bool) -> JSONObject:
    extra = tool.extra if same_protocol else {}
    if tool.kind not in COMMON_TOOL_KINDS:
        return extra
    function: JSONObject = {"name": tool.name, **filled({"description": tool.description})}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    function |= without(extra, SIBLING_FIELDS)
    return {"type": "function", "function": function, **object_or_empty(extra.get(SIBLING_FIELDS))}
