"""Decode and encode messages of chat completions.

`Message.extra` stores everything that `Message` lacks: `role` (if it is `developer`), `reasoning_field` (the field that
contained the reasoning), `tool_calls` (by position: extra fields of a call, and arguments that are not a JSON object),
and unknown fields under their own names. `ToolResult.extra` stores extra fields of the result's texts in `beside`.
Legacy function calls become tool calls with generated ids.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final, Literal

from msgspec.structs import replace

from ...core.types import (
    SIBLING_FIELDS,
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Opaque,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    is_object,
)
from ..shared.fields import filled, to_wire, without
from ..shared.request_parts import (
    call_arguments,
    content_field,
    detail_field,
    filename_field,
    has_only_results,
    is_from_protocol,
    is_inline,
    is_opaque_only,
    merge_assistant_turns,
    part_field,
    role_field,
)
from ..shared.validation import array_field, name_field, object_field, objects_field, text_field

PROTOCOL: Final = "openai_chat"

#: Part type -> media kind. All three parts have the form {"type": T, T: {"url": ...}}.
_URL_PART_TYPES: dict[str, Literal["image", "video", "audio"]] = {
    "image_url": "image",
    "video_url": "video",
    "audio_url": "audio",
}
_PART_TYPES_BY_KIND = {kind: name for name, kind in _URL_PART_TYPES.items()}
#: Audio formats whose name differs from their media subtype.
_AUDIO_SUBTYPES = {"mp3": "mpeg"}
_AUDIO_FORMATS = {media: name for name, media in _AUDIO_SUBTYPES.items()}
_AUDIO, _BASE64 = "data:audio/", ";base64,"

#: Field names that servers use for reasoning, most common first. toolspeak writes the first one.
REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")

#: Role in the request -> internal role. A role with a different name is recorded in `extra`.
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "function_call")
_RESULT_FIELDS = ("role", "content", "name", "tool_call_id")


def decode_messages(values: JSONValue, path: str) -> tuple[Message, ...]:
    ids = _LegacyCallIds()
    return tuple(_message(value, where, ids) for value, where in objects_field(values, path))


class _LegacyCallIds:
    """Generates ids for legacy function calls, which have none. A result belongs to the preceding call."""

    def __init__(self) -> None:
        self._count = 0

    def call(self) -> str:
        self._count += 1
        return self.result()

    def result(self) -> str:
        return f"function_call_{self._count}"


def _message(value: JSONObject, path: str, ids: _LegacyCallIds) -> Message:
    role, name = role_field(value, path, _ROLES)
    if role == "tool":
        return Message("tool", results=(_result(value, path, ids),))
    calls, call_extras = _calls(value, path, ids)
    extra = without(value, *_MESSAGE_FIELDS)
    field = next((key for key in REASONING_FIELDS if isinstance(extra.get(key), str)), "")
    reasoning = extra.pop(field) if field else ""
    if field not in ("", REASONING_FIELDS[0]):
        extra["reasoning_field"] = field
    if name != role:
        extra["role"] = name
    extra |= filled({"tool_calls": call_extras})
    return Message(
        role,
        decode_content(value.get("content"), f"{path}.content"),
        reasoning,
        calls,
        name=text_field(value.get("name"), f"{path}.name"),
        extra=extra,
    )


def _result(value: JSONObject, path: str, ids: _LegacyCallIds) -> ToolResult:
    parts = decode_content(value.get("content"), f"{path}.content")
    texts = [part for part in parts if isinstance(part, TextPart)]
    text_extras = {key: extra for part in texts for key, extra in part.extra.items()}  # such as `cache_control`
    legacy = value["role"] == "function"
    return ToolResult(
        ids.result() if legacy else text_field(value.get("tool_call_id"), f"{path}.tool_call_id"),
        "".join(part.text for part in texts),
        text_field(value.get("name"), f"{path}.name"),
        parts=tuple(part for part in parts if not isinstance(part, TextPart)),
        extra=without(value, *_RESULT_FIELDS, SIBLING_FIELDS) | filled({SIBLING_FIELDS: text_extras}),
    )


def _calls(value: JSONObject, path: str, ids: _LegacyCallIds) -> tuple[tuple[ToolCall, ...], JSONObject]:
    """Return the calls of a message, and the extra fields of each call by position."""
    listed = array_field(value.get("tool_calls"), f"{path}.tool_calls")
    if not listed and value.get("function_call") is not None:
        function = object_field(value["function_call"], f"{path}.function_call")
        listed = [{"id": ids.call(), "type": "function", "function": function}]
    calls = [_call(item, where) for item, where in objects_field(listed, f"{path}.tool_calls")]
    return tuple(call for call, _ in calls), filled({str(at): rest for at, (_, rest) in enumerate(calls)})


def _call(value: JSONObject, path: str) -> tuple[ToolCall, JSONObject]:
    kind = "custom" if value.get("type") == "custom" else "function"
    body = object_field(value.get(kind), f"{path}.{kind}")
    name = name_field(body, f"{path}.{kind}")
    rest = without(value, "id", "type", kind)
    notes: tuple[Note, ...] = ()
    if kind == "custom":
        rest["type"] = "custom"
        arguments: JSONObject = {"input": text_field(body.get("input"), f"{path}.custom.input")}
    else:
        arguments, notes = call_arguments(body.get("arguments"))
        if notes:
            rest["arguments"] = body["arguments"]
    return ToolCall(name, arguments, text_field(value.get("id"), f"{path}.id"), notes), rest


def encode_messages(request: Request, custom: Set[str]) -> list[JSONObject]:
    """Encode messages for chat completions. `custom` contains the names of custom tools."""
    return [
        wire
        for message in move_media_to_users(merge_assistant_turns(request, PROTOCOL), request)
        for wire in _encode(message, custom, is_from_protocol(message, request, PROTOCOL))
    ]


def _encode(message: Message, custom: Set[str], same_protocol: bool) -> Iterator[JSONObject]:
    for result in message.results:
        yield _encode_result(result, same_protocol)
    if has_only_results(message) or (not same_protocol and is_opaque_only(message)):
        return
    extra = message.extra if same_protocol else {}
    wire: JSONObject = {"role": extra.get("role", message.role)}
    content = encode_content(message.parts, same_protocol)
    # An assistant message without text must have null content if it has calls, and non-null content otherwise.
    wire["content"] = content if content or not message.calls else None
    reasoning_field = extra.get("reasoning_field", REASONING_FIELDS[0])
    wire |= filled({"name": message.name, reasoning_field: message.reasoning})
    if message.calls:
        call_extras = extra.get("tool_calls", {})
        wire["tool_calls"] = [
            _encode_call(call, call_extras.get(str(at), {}), custom) for at, call in enumerate(message.calls)
        ]
    yield {**wire, **without(extra, "role", "reasoning_field", "tool_calls")} if extra else wire


def _encode_result(result: ToolResult, same_protocol: bool) -> JSONObject:
    extra = result.extra if same_protocol else {}
    text_extras = extra.get(SIBLING_FIELDS, {})
    texts: tuple[Part, ...] = (TextPart(result.content, text_extras),) if result.content else ()
    content = encode_content((*texts, *result.parts), same_protocol)
    wire = {"role": "tool", "tool_call_id": result.id, "content": content, **filled({"name": result.name})}
    return {**wire, **without(extra, SIBLING_FIELDS)}


def _encode_call(call: ToolCall, extra: JSONObject, custom: Set[str]) -> JSONObject:
    rest = without(extra, "type", "arguments")
    input_text = call.arguments.get("input")
    if (call.name in custom or "type" in extra) and isinstance(input_text, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": input_text}, **rest}
    arguments = extra["arguments"] if "arguments" in extra and not call.arguments else call.arguments
    text = arguments if isinstance(arguments, str) else to_wire(arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}, **rest}


def move_media_to_users(messages: Iterable[Message], request: Request) -> Iterator[Message]:
    """Move media to user messages, because chat completions accept media only there.

    Media in tool results are moved to a user message after all results of the turn. Media in assistant and system
    messages are dropped. Messages received over this protocol are unchanged, because the client knows its server.
    """
    media: list[Part] = []
    for message in messages:
        if not _must_move(message, request):
            if media and not has_only_results(message):
                yield Message("user", tuple(media))
                media = []
            yield message
            continue
        for result in message.results:
            if _has_media(result.parts):
                media.append(TextPart(f"The result of the call `{result.id}`:"))
                media += (part for part in result.parts if isinstance(part, Media))
        if message.results:
            results = tuple(replace(result, parts=_without_media(result.parts)) for result in message.results)
            yield Message("tool", results=results, protocol=message.protocol)
        parts = message.parts if message.role == "user" else _without_media(message.parts)
        rest = replace(message, parts=parts, results=())
        if message.role == "tool" or not (rest.parts or rest.calls):
            continue
        if media:
            yield Message("user", tuple(media))
            media = []
        yield rest
    if media:
        yield Message("user", tuple(media))


def moved_media_notes(request: Request) -> list[Note]:
    """Return notes about media that `move_media_to_users` moves or drops."""
    messages = [message for message in request.messages if _must_move(message, request)]
    notes: list[Note] = []
    if any(map(_has_media, (result.parts for message in messages for result in message.results))):
        notes.append(Note("media_moved", "media in tool results were moved to a user message after the results"))
    if any(message.role not in ("user", "tool") and _has_media(message.parts) for message in messages):
        notes.append(Note("media_dropped", "only user messages can contain images and files"))
    return notes


def _must_move(message: Message, request: Request) -> bool:
    if (message.protocol or request.protocol) == PROTOCOL:
        return False
    if message.role != "user" and _has_media(message.parts):
        return True
    return any(_has_media(result.parts) for result in message.results)


def _has_media(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, Media) for part in parts)


def _without_media(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if not isinstance(part, Media))


def decode_content(content: JSONValue, path: str) -> tuple[Part, ...]:
    """Decode a `content` field to parts. An empty string yields no parts."""
    return content_field(content, path, lambda part, where: part_field(part, where, _decode_part))


def _decode_part(part: JSONObject, kind: str, path: str) -> Part:
    if kind in _URL_PART_TYPES:
        return _url_part(part, kind, path)
    if kind == "input_audio":
        return _audio(part, path)
    body = part.get(kind)
    if kind == "file" and is_object(body) and isinstance(body.get("file_data"), str):
        return Media("file", body["file_data"], _merge_extra(part, kind, without(body, "file_data")))
    return Opaque(kind, part)


def _merge_extra(part: JSONObject, kind: str, inner: JSONObject) -> JSONObject:
    return inner | filled({SIBLING_FIELDS: without(part, "type", kind)})


def _url_part(part: JSONObject, kind: str, path: str) -> Media:
    body = part.get(kind)
    if isinstance(body, str):
        body = {"url": body}
    body = object_field(body, f"{path}.{kind}")
    url = text_field(body.get("url"), f"{path}.{kind}.url")
    return Media(_URL_PART_TYPES[kind], url, _merge_extra(part, kind, without(body, "url")))


def _audio(part: JSONObject, path: str) -> Media:
    body = object_field(part.get("input_audio"), f"{path}.input_audio")
    data = text_field(body.get("data"), f"{path}.input_audio.data")
    form = text_field(body.get("format"), f"{path}.input_audio.format") or "wav"
    url = f"{_AUDIO}{_AUDIO_SUBTYPES.get(form, form)}{_BASE64}{data}"
    return Media("audio", url, _merge_extra(part, "input_audio", without(body, "data", "format")))


def encode_content(parts: Sequence[Part], same_protocol: bool) -> JSONValue:
    """Encode parts as a `content` field, if possible as a plain string.

    `same_protocol` says whether the `extra` fields of the parts belong to this protocol.
    """
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not (same_protocol and parts[0].extra):
        return parts[0].text  # the common case
    wire = [encoded for part in parts if (encoded := _encode_part(part, same_protocol))]
    if not wire:
        return ""
    text = wire[0].get("text")
    return text if wire == [{"type": "text", "text": text}] else wire


def _encode_part(part: Part, same_protocol: bool) -> JSONObject:
    if isinstance(part, Opaque):
        return part.data if same_protocol and is_object(part.data) else {}
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text, **(part.extra if same_protocol else {})}
    if not same_protocol and not is_sendable(part):
        return {}
    return _encode_media(part, part.extra if same_protocol else {**detail_field(part), **filename_field(part)})


def is_sendable(media: Media) -> bool:
    """Whether media from another protocol can be sent. Files must be inline."""
    return media.kind != "file" or is_inline(media.url)


def _encode_media(media: Media, extra: JSONObject) -> JSONObject:
    inner, outer = without(extra, SIBLING_FIELDS), extra.get(SIBLING_FIELDS, {})
    if media.kind == "file":
        return {"type": "file", "file": {"file_data": media.url, **inner}, **outer}
    if media.kind == "audio" and media.url.startswith(_AUDIO) and _BASE64 in media.url:
        form, _, data = media.url.removeprefix(_AUDIO).partition(_BASE64)
        audio = {"data": data, "format": _AUDIO_FORMATS.get(form, form), **inner}
        return {"type": "input_audio", "input_audio": audio, **outer}
    name = _PART_TYPES_BY_KIND[media.kind]
    return {"type": name, name: {"url": media.url, **inner}, **outer}
