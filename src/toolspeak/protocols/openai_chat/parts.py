"""The content of a chat-completions message: a text, or a list of parts, to the parts of a message and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...core.types import BESIDE, JSONObject, JSONValue, Media, Opaque, Part, TextPart, is_object
from ..shared.fields import array_field, detail_of, file_name, is_inline, object_field, text_field, without

#: Part type on the wire -> what it is; all three have the shape {"type": T, T: {"url": ...}}.
_BY_URL: dict[str, Literal["image", "video", "audio"]] = {
    "image_url": "image",
    "video_url": "video",
    "audio_url": "audio",
}
_URL_TYPES = {kind: name for name, kind in _BY_URL.items()}
#: Audio formats whose media type has another name.
_MEDIA_TYPES = {"mp3": "mpeg"}
_FORMATS = {media: name for name, media in _MEDIA_TYPES.items()}
_AUDIO, _BASE64 = "data:audio/", ";base64,"


def decode_content(content: JSONValue, path: str) -> tuple[Part, ...]:
    """The parts that a `content` stands for; an empty text is no part."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part(part, f"{path}[{at}]") for at, part in enumerate(array_field(content, path)))


def _part(value: JSONValue, path: str) -> Part:
    if isinstance(value, str):  # some clients list plain texts
        return TextPart(value)
    part = object_field(value, path)
    kind = text_field(part.get("type"), f"{path}.type")
    if kind == "text":
        return TextPart(text_field(part.get("text"), f"{path}.text"), without(part, "type", "text"))
    if kind in _BY_URL:
        return _by_url(part, kind, path)
    if kind == "input_audio":
        return _audio(part, path)
    body = part.get(kind)
    if kind == "file" and is_object(body) and isinstance(body.get("file_data"), str):
        return Media("file", body["file_data"], _extra(part, kind, without(body, "file_data")))
    return Opaque(kind, part)


def _extra(part: JSONObject, kind: str, inner: JSONObject) -> JSONObject:
    beside = without(part, "type", kind)
    return {**inner, BESIDE: beside} if beside else inner


def _by_url(part: JSONObject, kind: str, path: str) -> Media:
    body = part.get(kind)
    if isinstance(body, str):
        body = {"url": body}
    body = object_field(body, f"{path}.{kind}")
    url = text_field(body.get("url"), f"{path}.{kind}.url")
    return Media(_BY_URL[kind], url, _extra(part, kind, without(body, "url")))


def _audio(part: JSONObject, path: str) -> Media:
    body = object_field(part.get("input_audio"), f"{path}.input_audio")
    data = text_field(body.get("data"), f"{path}.input_audio.data")
    form = text_field(body.get("format"), f"{path}.input_audio.format") or "wav"
    url = f"{_AUDIO}{_MEDIA_TYPES.get(form, form)}{_BASE64}{data}"
    return Media("audio", url, _extra(part, "input_audio", without(body, "data", "format")))


def encode_content(parts: Sequence[Part], ours: bool) -> JSONValue:
    """The `content` of these parts: a plain text where that says it all. `ours`: their extras speak this protocol."""
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not (ours and parts[0].extra):
        return parts[0].text  # almost every message
    wire = [encoded for part in parts if (encoded := _encode(part, ours))]
    if not wire:
        return ""
    text = wire[0].get("text")
    return text if wire == [{"type": "text", "text": text}] else wire


def _encode(part: Part, ours: bool) -> JSONObject:
    if isinstance(part, Opaque):
        return part.data if ours and is_object(part.data) else {}
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text, **(part.extra if ours else {})}
    if not ours and not is_sendable(part):
        return {}
    return _encode_media(part, part.extra if ours else {**detail_of(part), **file_name(part)})


def is_sendable(media: Media) -> bool:
    """Whether what another protocol shows can be shown here: a file only if it is sent along."""
    return media.kind != "file" or is_inline(media.url)


def _encode_media(media: Media, extra: JSONObject) -> JSONObject:
    inner, beside = without(extra, BESIDE), extra.get(BESIDE, {})
    if media.kind == "file":
        return {"type": "file", "file": {"file_data": media.url, **inner}, **beside}
    if media.kind == "audio" and media.url.startswith(_AUDIO) and _BASE64 in media.url:
        form, _, data = media.url.removeprefix(_AUDIO).partition(_BASE64)
        return {
            "type": "input_audio",
            "input_audio": {"data": data, "format": _FORMATS.get(form, form), **inner},
            **beside,
        }
    name = _URL_TYPES[media.kind]
    return {"type": name, name: {"url": media.url, **inner}, **beside}
