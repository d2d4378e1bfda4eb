"""Decode and encode contents, their parts and the system instruction.

Calls and results without ids get generated ids, which are never sent. Thinking is stored twice: its text in
`reasoning`, and its signed part, which can be sent back, among the parts. `Message.extra` stores `order` (a non-default
order of parts, calls and results) and `calls` (by position: extra fields of a call's part, such as its signature).
Parts that are neither text nor media become opaque parts and are sent back unchanged.
"""

from collections.abc import Iterable
from typing import Literal

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Opaque,
    Part,
    Request,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import filled, object_or_empty, to_wire, without
from ..shared.request_parts import OrderedContent, call_arguments, in_order, is_fetchable, is_from_protocol, is_inline
from ..shared.unstreamed_calls import CallIdAssigner, in_call_order, wire_id
from ..shared.validation import name_field, object_field, objects_field, text_field
from .wire import PART, PROTOCOL, normalize_fields

_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "user", "": "user"}
_CALL, _RESULT = "functionCall", "functionResponse"
#: Names of internal `Message.extra` fields.
ORDER, CALLS, _ROLE = "order", "calls", "role"

#: Placeholder signature for calls from other models: https://ai.google.dev/gemini-api/docs/thought-signatures
_NO_SIGNATURE = "skip_thought_signature_validator"
_SIGNATURE = "thoughtSignature"


def decode_system(value: JSONValue) -> tuple[Message, ...]:
    """Convert the system instruction to a message. Return an empty tuple if there is no instruction."""
    if value is None:
        return ()
    if isinstance(value, str):  # some clients send a plain string
        value = {"parts": [{"text": value}]}
    content = normalize_fields(object_field(value, "systemInstruction"))
    parts = tuple(_decode_part(part, path) for part, path in _parts(content, "systemInstruction"))
    return (Message("system", parts, extra=without(content, "parts", ORDER, CALLS)),) if parts else ()


def decode_contents(value: JSONValue) -> tuple[Message, ...]:
    """Decode the `contents` field, a list or a single object."""
    listed = [value] if is_object(value) else value
    ids = CallIdAssigner()
    return tuple(_message(normalize_fields(item), path, ids) for item, path in objects_field(listed, "contents"))


def _parts(content: JSONObject, path: str) -> list[tuple[JSONObject, str]]:
    """Return the parts of a content object together with their paths."""
    return [(normalize_fields(part), where) for part, where in objects_field(content.get("parts"), f"{path}.parts")]


class _ContentParts(OrderedContent):
    """The parts of one content object, grouped into calls, results and other parts."""

    def __init__(self, ids: CallIdAssigner) -> None:
        super().__init__()
        self._ids = ids

    def add(self, part: JSONObject, path: str) -> None:
        if _CALL in part:
            self._call(part, path)
        elif _RESULT in part:
            self._result(part, path)
        else:
            decoded = _decode_part(part, path)
            if is_thought(decoded):
                self.thoughts.append(text_field(part.get("text"), f"{path}.text"))
            self.add_part(decoded)

    def _call(self, part: JSONObject, path: str) -> None:
        path = f"{path}.{_CALL}"
        body = normalize_fields(object_field(part[_CALL], path))
        name = name_field(body, path)
        rest = without(part, _CALL) | filled({_CALL: without(body, "name", "id", "args")})
        arguments, notes = call_arguments(body.get("args"))
        identifier = self._ids.call(name, text_field(body.get("id"), f"{path}.id"))
        self.add_call(ToolCall(name, arguments, identifier, notes), rest)

    def _result(self, part: JSONObject, path: str) -> None:
        path = f"{path}.{_RESULT}"
        body = normalize_fields(object_field(part[_RESULT], path))
        name = text_field(body.get("name"), f"{path}.name")
        identifier = self._ids.result(name, text_field(body.get("id"), f"{path}.id"))
        response = body.get("response")
        content, error = _result_text(response)
        extra = without(body, "name", "id", "response", "parts")
        if response is not None and response != _response(content, error):
            extra["response"] = response
        extra |= filled({"part": without(part, _RESULT)})
        parts = tuple(_decode_media(inner, where) or Opaque(PART, inner) for inner, where in _parts(body, path))
        self.add_result(ToolResult(identifier, content, name, error, parts, extra))


def _result_text(response: JSONValue) -> tuple[str, bool]:
    """Return the text of a function response and whether it is an error. Documented keys: `output` and `error`."""
    match response:
        case None:
            return "", False
        case {"error": str() as text} if len(response) == 1:
            return text, True
        case {"output": str() as text} | {"result": str() as text} if len(response) == 1:
            return text, False
        case _:
            return to_wire(response).decode(), False


def _response(content: str, error: bool) -> JSONObject:
    return {"error" if error else "output": content}


def _message(value: JSONObject, path: str, ids: CallIdAssigner) -> Message:
    name = text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name)
    if role is None:
        raise UsageError(f"invalid `{path}.role`: `{name}`", hint="use `user` or `model`")
    content = _ContentParts(ids)
    for part, where in _parts(value, path):
        content.add(part, where)
    extra = without(value, "role", "parts", ORDER, CALLS)
    return content.message(role, extra, ORDER, CALLS)


def encode_contents(request: Request) -> tuple[JSONObject | None, list[JSONObject]]:
    """Return the system instruction, or None, and the encoded contents."""
    system: JSONObject = {"parts": []}
    contents: list[JSONObject] = []
    names: dict[str, str] = {}
    joinable = False
    for message in in_call_order(request.messages):
        same_protocol = is_from_protocol(message, request, PROTOCOL)
        extra = message.extra if same_protocol else {}
        if message.role == "system":
            system["parts"] += _encode_parts(message.parts, same_protocol)
            system |= without(extra, "parts")
            continue
        names |= {call.id: call.name for call in message.calls}
        parts = _encode_content(message, extra, names, same_protocol)
        rest = without(extra, ORDER, CALLS)
        only_results = message.role != "assistant" and bool(parts) and len(parts) == len(message.results) and not rest
        if only_results and joinable:
            contents[-1]["parts"] += parts  # results of one turn share a content object
        elif parts:
            contents.append({"role": "model" if message.role == "assistant" else "user", "parts": parts, **rest})
        joinable = only_results or (joinable and not parts)
    return (system if system["parts"] else None), contents


def _encode_content(
    message: Message, extra: JSONObject, names: dict[str, str], same_protocol: bool
) -> list[JSONObject]:
    parts = _encode_parts(message.parts, same_protocol)
    if message.reasoning and not (same_protocol and any(map(is_thought, message.parts))):
        parts.insert(0, {"text": message.reasoning, "thought": True})
    by_kind = {
        "r": [_encode_result(result, names, same_protocol) for result in message.results],
        "p": parts,
        "c": _encode_calls(message.calls, object_or_empty(extra.get(CALLS)), same_protocol),
    }
    return in_order(by_kind, extra.get(ORDER))


def _encode_calls(calls: Iterable[ToolCall], extras: JSONObject, same_protocol: bool) -> list[JSONObject]:
    wire: list[JSONObject] = []
    for at, call in enumerate(calls):
        body: JSONObject = {"name": call.name, "args": call.arguments, **filled({"id": wire_id(call.id)})}
        rest = object_or_empty(extras.get(str(at)))
        part = {_CALL: {**object_or_empty(rest.get(_CALL)), **body}, **without(rest, _CALL)}
        if not same_protocol and not at:  # Gemini signs only the first of several calls
            part[_SIGNATURE] = _NO_SIGNATURE
        wire.append(part)
    return wire


def _encode_result(result: ToolResult, names: dict[str, str], same_protocol: bool) -> JSONObject:
    extra = result.extra if same_protocol else {}
    response = extra.get("response")
    unchanged = "response" in extra and _result_text(response) == (result.content, result.error)
    body: JSONObject = {"name": result.name or names.get(result.id, ""), **filled({"id": wire_id(result.id)})}
    body["response"] = response if unchanged else _response(result.content, result.error)
    body |= filled({"parts": _encode_parts(result.parts, same_protocol)})
    return {_RESULT: {**body, **without(extra, "response", "part")}, **object_or_empty(extra.get("part"))}


_INLINE, _FILE = "inlineData", "fileData"
_BASE64 = ";base64,"
_UNKNOWN_TYPE = "application/octet-stream"
_KINDS: dict[str, Literal["image", "audio", "video"]] = {"image": "image", "audio": "audio", "video": "video"}
#: File name suffix -> media type, because some upstreams require a media type.
_TYPES_BY_SUFFIX = {"jpg": "image/jpeg", "pdf": "application/pdf", "txt": "text/plain"} | {
    suffix: f"{kind}/{suffix}"
    for kind, suffixes in {"image": "gif jpeg png webp", "audio": "mp3 wav", "video": "mp4 webm"}.items()
    for suffix in suffixes.split()
}
_STANDARD_BASE64 = str.maketrans("-_", "+/")


def is_thought(part: Part) -> bool:
    """Whether a part is an opaque Gemini part with thinking."""
    return isinstance(part, Opaque) and part.kind == PART and is_object(part.data) and bool(part.data.get("thought"))


def _decode_part(part: JSONObject, path: str) -> Part:
    """Decode a part. Its field names must already be normalized."""
    media = _decode_media(part, path)
    if media is not None:
        return media
    if "text" not in part or part.get("thought"):
        return Opaque(PART, part)
    return TextPart(text_field(part["text"], f"{path}.text"), without(part, "text"))


def _decode_media(part: JSONObject, path: str) -> Media | None:
    """Decode a part with inline data or a file URI. Return None for other parts."""
    if _INLINE in part:
        name, body = _INLINE, normalize_fields(object_field(part[_INLINE], f"{path}.{_INLINE}"))
        mime = text_field(body.get("mimeType"), f"{path}.{_INLINE}.mimeType") or _UNKNOWN_TYPE
        data = text_field(body.get("data"), f"{path}.{_INLINE}.data").translate(_STANDARD_BASE64)
        url = f"data:{mime}{_BASE64}{data}"
        inner = without(body, "mimeType", "data")
    elif _FILE in part:
        name, body = _FILE, normalize_fields(object_field(part[_FILE], f"{path}.{_FILE}"))
        mime = text_field(body.get("mimeType"), f"{path}.{_FILE}.mimeType")
        url = text_field(body.get("fileUri"), f"{path}.{_FILE}.fileUri")
        inner = without(body, "fileUri")
    else:
        return None
    extra = without(part, name) | filled({name: inner})
    return Media(_KINDS.get(mime.partition("/")[0], "file"), url, extra)


def _encode_parts(parts: Iterable[Part], same_protocol: bool) -> list[JSONObject]:
    """Encode parts. `same_protocol` says whether their `extra` fields belong to this protocol."""
    return [wire for part in parts if (wire := _encode_part(part, same_protocol)) is not None]


def _encode_part(part: Part, same_protocol: bool) -> JSONObject | None:
    if isinstance(part, Media):
        return _encode_media(part, same_protocol) if same_protocol or is_sendable(part) else None
    if isinstance(part, Opaque):
        return part.data if same_protocol and part.kind == PART and is_object(part.data) else None
    extra = part.extra if same_protocol else {}
    return {"text": part.text, **extra} if part.text or extra else None


def is_sendable(media: Media) -> bool:
    """Whether media from another protocol can be sent: inline data, or a URL that the service can fetch."""
    return is_inline(media.url) or is_fetchable(media.url, "gs://")


def _encode_media(media: Media, same_protocol: bool) -> JSONObject:
    extra = media.extra if same_protocol else {}
    head, mark, data = media.url.partition(_BASE64)
    if mark and head.startswith("data:"):
        name, body = _INLINE, {"mimeType": head.removeprefix("data:"), "data": data}
    else:
        guessed = _TYPES_BY_SUFFIX.get(media.url.rpartition(".")[2].lower())
        name, body = _FILE, {"mimeType": guessed} if guessed and _FILE not in extra else {}
        body["fileUri"] = media.url
    return {name: {**object_or_empty(extra.get(name)), **body}, **without(extra, _INLINE, _FILE)}
