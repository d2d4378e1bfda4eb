"""Decode and encode the messages of Ollama's chat API.

In Ollama, arguments are objects, results name their tool, and images are base64 without a media type. Calls and results
without ids get generated ids, which are never sent. `Message.extra` stores `tool_calls` (by position: extra fields of a
call) and every field that `Message` lacks.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from ...core.types import JSONObject, JSONValue, Media, Message, Part, Request, Role, TextPart, ToolCall, ToolResult
from ...errors import UsageError
from ..shared.fields import filled, object_or_empty, without
from ..shared.request_parts import (
    call_arguments,
    has_only_results,
    is_from_protocol,
    is_opaque_only,
    merge_assistant_turns,
)
from ..shared.unstreamed_calls import CallIdAssigner, in_call_order, wire_id
from ..shared.validation import array_field, name_field, object_field, text_field, texts_field

PROTOCOL: Final = "ollama"

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_MESSAGE_FIELDS = ("role", "content", "thinking", "images", "tool_calls")
_RESULT_FIELDS = ("role", "content", "images", "tool_name", "name", "tool_call_id")
_CALLS = "tool_calls"
#: First characters of a base64 image -> image type.
_IMAGE_TYPES = {"/9j/": "jpeg", "iVBORw0KGgo": "png", "R0lGOD": "gif", "UklGR": "webp", "Qk0": "bmp"}
_BASE64 = ";base64,"


def decode_messages(values: Iterable[JSONValue]) -> tuple[Message, ...]:
    ids = CallIdAssigner()
    return tuple(
        _message(object_field(value, f"messages[{at}]"), f"messages[{at}]", ids) for at, value in enumerate(values)
    )


def _message(value: JSONObject, path: str, ids: CallIdAssigner) -> Message:
    value = {key: item for key, item in value.items() if item is not None}
    name = text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name.lower())
    if role is None:
        raise UsageError(f"invalid `{path}.role`: `{name}`", hint=f"use one of {', '.join(_ROLES)}")
    if role == "tool":
        return Message("tool", results=(_result(value, path, ids),))
    text = text_field(value.get("content"), f"{path}.content")
    parts: list[Part] = [TextPart(text)] if text else []
    parts += _images(value, path)
    calls, call_extras = _calls(value, path, ids)
    extra = without(value, *_MESSAGE_FIELDS) | filled({_CALLS: call_extras})
    return Message(role, tuple(parts), text_field(value.get("thinking"), f"{path}.thinking"), calls, extra=extra)


def _images(value: JSONObject, path: str) -> tuple[Media, ...]:
    return tuple(map(decode_image, texts_field(value.get("images"), f"{path}.images")))


def decode_image(data: str) -> Media:
    if data.startswith("data:"):  # some clients send data URLs
        return Media("image", data)
    form = next((form for head, form in _IMAGE_TYPES.items() if data.startswith(head)), "png")
    return Media("image", f"data:image/{form}{_BASE64}{data}")


def _result(value: JSONObject, path: str, ids: CallIdAssigner) -> ToolResult:
    name = text_field(value.get("tool_name", value.get("name")), f"{path}.tool_name")
    identifier = ids.result(name, text_field(value.get("tool_call_id"), f"{path}.tool_call_id"))
    content = text_field(value.get("content"), f"{path}.content")
    return ToolResult(identifier, content, name, parts=_images(value, path), extra=without(value, *_RESULT_FIELDS))


def _calls(value: JSONObject, path: str, ids: CallIdAssigner) -> tuple[tuple[ToolCall, ...], JSONObject]:
    """Return the calls of a message, and the extra fields of each call by position."""
    calls: list[ToolCall] = []
    extras: JSONObject = {}
    for at, item in enumerate(array_field(value.get(_CALLS), f"{path}.{_CALLS}")):
        where = f"{path}.{_CALLS}[{at}]"
        call = object_field(item, where)
        body = object_field(call.get("function"), f"{where}.function")
        name = name_field(body, f"{where}.function")
        arguments, notes = call_arguments(body.get("arguments"))
        identifier = ids.call(name, text_field(call.get("id"), f"{where}.id"))
        calls.append(ToolCall(name, arguments, identifier, notes))
        rest = without(call, "id", "function") | filled({"function": without(body, "name", "arguments")})
        extras |= filled({str(at): rest})
    return tuple(calls), extras


def encode_messages(request: Request) -> list[JSONObject]:
    names: dict[str, str] = {}
    wire: list[JSONObject] = []
    for message in in_call_order(merge_assistant_turns(request, PROTOCOL)):
        names |= {call.id: call.name for call in message.calls}
        wire += _encode(message, names, is_from_protocol(message, request, PROTOCOL))
    return wire


def _encode(message: Message, names: dict[str, str], same_protocol: bool) -> Iterator[JSONObject]:
    for result in message.results:
        yield _encode_result(result, names, same_protocol)
    if has_only_results(message) or (not same_protocol and is_opaque_only(message)):
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
