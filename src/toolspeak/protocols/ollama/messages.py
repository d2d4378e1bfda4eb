"""The messages of Ollama's chat, to messages and back.

Arguments are objects, results name their tool, pictures are base64 without a word on what they are. Calls and results
without ids get some by name and order, which are not sent. `extra` keeps `tool_calls` (by position: what a call says
besides) and every field without a common name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import array_field, in_turns, object_field, read_arguments, speaks, text_field, unspoken, without
from ..shared.whole_calls import Pairing, in_call_order, sent_id

PROTOCOL: Final = "ollama"

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_KNOWN = ("role", "content", "thinking", "images", "tool_calls")
_RESULT_KNOWN = ("role", "content", "images", "tool_name", "name", "tool_call_id")
_CALLS = "tool_calls"
#: How the base64 of a picture begins.
_PICTURES = {"/9j/": "jpeg", "iVBORw0KGgo": "png", "R0lGOD": "gif", "UklGR": "webp", "Qk0": "bmp"}
_BASE64 = ";base64,"
#: What a reader may see of arguments that are no JSON object.
_SHOWN = 80


# ------------------------------------------------------------------------------------------------ from the wire


def decode_messages(values: Iterable[JSONValue]) -> tuple[Message, ...]:
    """The messages of a request body."""
    ids = Pairing()
    return tuple(
        _message(object_field(value, f"messages[{at}]"), f"messages[{at}]", ids) for at, value in enumerate(values)
    )


def _message(value: JSONObject, path: str, ids: Pairing) -> Message:
    value = {key: item for key, item in value.items() if item is not None}
    name = text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name.lower())
    if role is None:
        raise UsageError(f"`{path}.role` is `{name}`", hint=f"use one of {', '.join(_ROLES)}")
    if role == "tool":
        return Message("tool", results=(_result(value, path, ids),))
    text = text_field(value.get("content"), f"{path}.content")
    parts: list[Part] = [TextPart(text)] if text else []
    parts += _images(value, path)
    calls, beside = _calls(value, path, ids)
    extra = without(value, *_KNOWN)
    if beside:
        extra[_CALLS] = beside
    return Message(role, tuple(parts), text_field(value.get("thinking"), f"{path}.thinking"), calls, extra=extra)


def _images(value: JSONObject, path: str) -> tuple[Media, ...]:
    listed = array_field(value.get("images"), f"{path}.images")
    return tuple(decode_image(text_field(item, f"{path}.images[{at}]")) for at, item in enumerate(listed))


def decode_image(data: str) -> Media:
    """A picture by its base64."""
    if data.startswith("data:"):  # some clients send what a browser gives them
        return Media("image", data)
    form = next((form for head, form in _PICTURES.items() if data.startswith(head)), "png")
    return Media("image", f"data:image/{form}{_BASE64}{data}")


def _result(value: JSONObject, path: str, ids: Pairing) -> ToolResult:
    name = text_field(value.get("tool_name", value.get("name")), f"{path}.tool_name")
    identifier = ids.result(name, text_field(value.get("tool_call_id"), f"{path}.tool_call_id"))
    content = text_field(value.get("content"), f"{path}.content")
    return ToolResult(identifier, content, name, parts=_images(value, path), extra=without(value, *_RESULT_KNOWN))


def _calls(value: JSONObject, path: str, ids: Pairing) -> tuple[tuple[ToolCall, ...], JSONObject]:
    """The calls of a message, and what they say besides, by position."""
    calls: list[ToolCall] = []
    beside: JSONObject = {}
    for at, item in enumerate(array_field(value.get(_CALLS), f"{path}.{_CALLS}")):
        where = f"{path}.{_CALLS}[{at}]"
        call = object_field(item, where)
        body = object_field(call.get("function"), f"{where}.function")
        name = text_field(body.get("name"), f"{where}.function.name")
        if not name:
            raise UsageError(f"`{where}.function.name` is missing")
        given = body.get("arguments")
        arguments = read_arguments(given)
        notes = () if arguments is not None else (Note("arguments_invalid", f"no JSON object: {str(given)[:_SHOWN]}"),)
        identifier = ids.call(name, text_field(call.get("id"), f"{where}.id"))
        calls.append(ToolCall(name, arguments or {}, identifier, notes))
        rest = without(call, "id", "function")
        inner = without(body, "name", "arguments")
        if inner:
            rest["function"] = inner
        if rest:
            beside[str(at)] = rest
    return tuple(calls), beside


# -------------------------------------------------------------------------------------------------- to the wire


def encode_messages(request: Request) -> list[JSONObject]:
    """The messages as Ollama wants them."""
    names: dict[str, str] = {}
    wire: list[JSONObject] = []
    for message in in_call_order(in_turns(request, PROTOCOL)):
        names |= {call.id: call.name for call in message.calls}
        wire += _encode(message, names, speaks(message, request, PROTOCOL))
    return wire


def _encode(message: Message, names: dict[str, str], ours: bool) -> Iterator[JSONObject]:
    for result in message.results:
        yield _encode_result(result, names, ours)
    if message.role == "tool" or (message.results and not message.parts) or (not ours and unspoken(message)):
        return
    extra = message.extra if ours else {}
    wire: JSONObject = {"role": message.role, "content": message.text}
    if message.reasoning:
        wire["thinking"] = message.reasoning
    images = encode_images(message.parts)
    if images:
        wire["images"] = images
    if message.calls:
        beside = extra.get(_CALLS)
        beside = beside if is_object(beside) else {}
        wire[_CALLS] = [_encode_call(call, beside.get(str(at))) for at, call in enumerate(message.calls)]
    yield {**wire, **without(extra, _CALLS)}


def _encode_result(result: ToolResult, names: dict[str, str], ours: bool) -> JSONObject:
    wire: JSONObject = {"role": "tool", "content": result.content}
    name = result.name or names.get(result.id, "")
    if name:
        wire["tool_name"] = name
    if sent_id(result.id):
        wire["tool_call_id"] = result.id
    images = encode_images(result.parts)
    if images:
        wire["images"] = images
    return {**wire, **result.extra} if ours else wire


def encode_images(parts: Iterable[Part]) -> list[str]:
    """Pictures as their base64; a picture that is elsewhere cannot be sent."""
    pictures = (part.url.partition(_BASE64) for part in parts if isinstance(part, Media) and part.kind == "image")
    return [data for head, mark, data in pictures if mark and head.startswith("data:")]


def _encode_call(call: ToolCall, beside: JSONValue) -> JSONObject:
    rest: JSONObject = beside if is_object(beside) else {}
    inner = rest.get("function")
    wire: JSONObject = {"id": call.id} if sent_id(call.id) else {}
    function = {**(inner if is_object(inner) else {}), "name": call.name, "arguments": call.arguments}
    return {**wire, "function": function, **without(rest, "function")}
