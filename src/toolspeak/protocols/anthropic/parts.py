"""The content blocks of a message: to parts and back.

Pictures and documents that are given by data or by address are `Media`, texts are `TextPart`, everything else, as
thinking with its signature or files that only the service knows, is carried as `Opaque`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Literal

from ...core.types import JSONObject, JSONValue, Media, Opaque, Part, TextPart, is_object
from ..shared.fields import is_fetchable, is_inline, object_field, text_field, without
from .blocks import block_type
from .wire import Sending

_KINDS: dict[str, Literal["image", "file"]] = {"image": "image", "document": "file"}
_TYPES = {kind: name for name, kind in _KINDS.items()}
_DATA, _BASE64 = "data:", ";base64,"
_PLAIN = "text/plain"
#: Media types that the service takes as data, and the blocks that hold them.
_BY_MEDIA_TYPE = {
    "image/gif": "image",
    "image/jpeg": "image",
    "image/png": "image",
    "image/webp": "image",
    "application/pdf": "document",
    _PLAIN: "document",
}


def decode_block(value: JSONValue, path: str) -> Part:
    """The part that a block is."""
    if isinstance(value, str):  # some clients list plain texts
        return TextPart(value)
    block = object_field(value, path)
    kind = text_field(block.get("type"), f"{path}.type")
    if kind == "text":
        return TextPart(text_field(block.get("text"), f"{path}.text"), without(block, "type", "text"))
    source = block.get("source")
    url = _url(source) if kind in _KINDS and is_object(source) else ""
    return Media(_KINDS[kind], url, without(block, "type", "source")) if url else Opaque(kind, block)


def _url(source: JSONObject) -> str:
    """The address of a source, or its data as one; nothing for a source that is neither."""
    kind, data, media = source.get("type"), source.get("data"), source.get("media_type")
    match kind:
        case "url" if source.keys() == {"type", "url"} and isinstance(source["url"], str):
            return source["url"]
        case "base64" | "text" if source.keys() == {"type", "media_type", "data"}:
            if not isinstance(data, str) or not isinstance(media, str):
                return ""
            if kind == "base64":
                return f"{_DATA}{media}{_BASE64}{data}" if media != _PLAIN else ""
            encoded = base64.b64encode(data.encode("utf-8", "replace")).decode()
            return f"{_DATA}{_PLAIN}{_BASE64}{encoded}" if media == _PLAIN else ""
        case _:
            return ""


def encode_part(part: Part, sending: Sending) -> JSONObject | None:
    """The block of a part; None when the protocol has no word for it."""
    match part:
        case TextPart(text, extra):
            # The service refuses empty texts.
            return {"type": "text", "text": text, **sending.extra(extra)} if text else None
        case Opaque(kind, data):
            if sending.ours and is_object(data) and data.get("type") in (kind, block_type(kind)):
                return dict(data)
            sending.note("opaque_dropped", f"a part of kind `{kind}` has no word in this protocol")
            return None
        case _:
            return _media(part, sending)


def _media(media: Media, sending: Sending) -> JSONObject | None:
    kind = _block_type(media, sending)
    source = _source(media.url) if kind else None
    if source is None:
        sending.note("media_dropped", f"this protocol does not carry this kind of {media.kind}")
        return None
    return {"type": kind, "source": source, **sending.extra(media.extra)}


def _block_type(media: Media, sending: Sending) -> str:
    """The block that a picture or a file is; nothing if it can be none. Data tells by its type which of the two."""
    if media.kind not in _TYPES or not (sending.ours or is_inline(media.url) or is_fetchable(media.url)):
        return ""
    if sending.native or not is_inline(media.url):
        return _TYPES[media.kind]
    return _BY_MEDIA_TYPE.get(media.url.removeprefix(_DATA).partition(";")[0].lower(), "")


def _source(url: str) -> JSONObject | None:
    if not url.startswith(_DATA):
        return {"type": "url", "url": url}
    kind, found, data = url.removeprefix(_DATA).partition(_BASE64)
    if not found:
        return None
    if kind != _PLAIN:
        return {"type": "base64", "media_type": kind, "data": data}
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return {"type": "text", "media_type": _PLAIN, "data": text}
