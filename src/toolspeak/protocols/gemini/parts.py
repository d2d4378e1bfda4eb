"""The parts of a content, but for calls and results, to the parts of a message and back.

Bytes travel as base64, in either alphabet; here they are the standard one's. A part that is neither text nor media is
carried as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ...core.types import JSONObject, JSONValue, Media, Opaque, Part, TextPart, is_object
from ..shared.fields import is_fetchable, is_inline, object_field, text_field, without
from .wire import PART, proto

_INLINE, _FILE = "inlineData", "fileData"
_BASE64 = ";base64,"
_UNKNOWN_TYPE = "application/octet-stream"
_KINDS: dict[str, Literal["image", "audio", "video"]] = {"image": "image", "audio": "audio", "video": "video"}
#: Media types by the end of a name, for an upstream that asks for one.
_TYPES = {
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "mp3": "audio/mp3",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
}
_ALPHABET = str.maketrans("-_", "+/")


def is_thought(part: Part) -> bool:
    """Whether a part is a piece of the model's thinking, carried as it came."""
    return isinstance(part, Opaque) and part.kind == PART and is_object(part.data) and bool(part.data.get("thought"))


def decode_part(part: JSONObject, path: str) -> Part:
    """The part of a message that a part of a content stands for. `part`: with the documented names."""
    media = decode_media(part, path)
    if media is not None:
        return media
    if "text" not in part or part.get("thought"):
        return Opaque(PART, part)
    return TextPart(text_field(part["text"], f"{path}.text"), without(part, "text"))


def decode_media(part: JSONObject, path: str) -> Media | None:
    """A part that holds bytes, or says where they are; None when it is another."""
    if _INLINE in part:
        name, body = _INLINE, proto(object_field(part[_INLINE], f"{path}.{_INLINE}"))
        mime = text_field(body.get("mimeType"), f"{path}.{_INLINE}.mimeType") or _UNKNOWN_TYPE
        data = text_field(body.get("data"), f"{path}.{_INLINE}.data").translate(_ALPHABET)
        url = f"data:{mime}{_BASE64}{data}"
        inner = without(body, "mimeType", "data")
    elif _FILE in part:
        name, body = _FILE, proto(object_field(part[_FILE], f"{path}.{_FILE}"))
        mime = text_field(body.get("mimeType"), f"{path}.{_FILE}.mimeType")
        url = text_field(body.get("fileUri"), f"{path}.{_FILE}.fileUri")
        inner = without(body, "fileUri")
    else:
        return None
    extra = without(part, name)
    if inner:
        extra[name] = inner
    return Media(_KINDS.get(mime.partition("/")[0], "file"), url, extra)


def encode_parts(parts: Iterable[Part], ours: bool) -> list[JSONObject]:
    """The parts as the wire has them. `ours`: their extras speak this protocol."""
    return [wire for part in parts if (wire := _encode(part, ours)) is not None]


def _encode(part: Part, ours: bool) -> JSONObject | None:
    if isinstance(part, Media):
        return _encode_media(part, ours) if ours or is_sendable(part) else None
    if isinstance(part, Opaque):
        return part.data if ours and part.kind == PART and is_object(part.data) else None
    extra = part.extra if ours else {}
    return {"text": part.text, **extra} if part.text or extra else None


def is_sendable(media: Media) -> bool:
    """Whether what another protocol shows can be shown here: bytes, or an address that the service can fetch."""
    return is_inline(media.url) or is_fetchable(media.url, "gs://")


def _encode_media(media: Media, ours: bool) -> JSONObject:
    """A part that holds bytes, or says where they are."""
    extra = media.extra if ours else {}
    head, mark, data = media.url.partition(_BASE64)
    if mark and head.startswith("data:"):
        name, body = _INLINE, {"mimeType": head.removeprefix("data:"), "data": data}
    else:
        guessed = _TYPES.get(media.url.rpartition(".")[2].lower())
        name, body = _FILE, {"mimeType": guessed} if guessed and _FILE not in extra else {}
        body["fileUri"] = media.url
    inner: JSONValue = extra.get(name)
    return {name: {**(inner if is_object(inner) else {}), **body}, **without(extra, _INLINE, _FILE)}
