"""Decode and encode the content of Responses API messages: a string or a list of parts.

The kind of an opaque part says what it contains. `item:T` is a separate item, `content:T` a part of a message,
`annotation:T` an annotation of the preceding text, `start:T` the start of an item. The start of a message contains its
`phase`: commentary or final answer. Annotation offsets count from the start of the current text; adjacent texts count
as one.
"""

from collections.abc import Iterable
from typing import Final

from ...core.events import CallStart, Event, OpaqueSeen, ReasoningDelta
from ...core.types import JSONObject, JSONValue, Media, Opaque, Part, TextPart, is_object
from ..shared.fields import without
from ..shared.request_parts import DETAIL, content_field, detail_field, filename_field, part_field

PROTOCOL: Final = "openai_responses"

ITEM: Final = "item:"
CONTENT: Final = "content:"
ANNOTATION: Final = "annotation:"
START: Final = "start:"
#: Kind of the opaque part that starts a message with a phase.
PHASE: Final = START + "message"
#: Kind of the opaque part for metadata of the response.
RESPONSE: Final = "response"

#: Types of text parts. Which type is sent depends on the role.
_TEXT_TYPES = frozenset({"input_text", "output_text", "text"})
#: Default image detail level.
_DEFAULT_DETAIL = "auto"
_WEB_SCHEMES = ("http://", "https://")
#: Annotation fields that contain offsets into the text.
_ANNOTATION_OFFSETS = ("start_index", "end_index")


def is_item(part: Part, kind: str = "") -> bool:
    """Whether a part is a separate item, optionally one whose type starts with `kind`."""
    return isinstance(part, Opaque) and part.kind.startswith(ITEM + kind) and is_object(part.data)


def separates_texts(event: Event) -> bool:
    """Whether the texts before and after this event belong to different messages."""
    if isinstance(event, OpaqueSeen):
        return event.part.kind.startswith((ITEM, START))
    return isinstance(event, CallStart | ReasoningDelta)


def shift_annotation(annotation: JSONObject, distance: int) -> JSONObject:
    """Shift the offsets of an annotation by `distance` characters."""
    offsets = {key: annotation[key] + distance for key in _ANNOTATION_OFFSETS if type(annotation.get(key)) is int}
    return {**annotation, **offsets}


def decode_content(content: JSONValue, path: str) -> tuple[Part, ...]:
    """Decode a `content` or `output` field to parts. An empty string yields no parts."""
    return content_field(content, path, lambda part, where: part_field(part, where, _part, _TEXT_TYPES))


def _part(part: JSONObject, kind: str, path: str) -> Part:
    media = _image(part) if kind == "input_image" else _file(part) if kind == "input_file" else None
    return media or Opaque(CONTENT + kind, part)


def _image(part: JSONObject) -> Media | None:
    """Decode an image with a URL. Return None for an image that is stored by the upstream."""
    url = part.get("image_url")
    if not isinstance(url, str) or not url:
        return None
    extra = without(part, "type", "image_url")
    return Media("image", url, without(extra, DETAIL) if extra.get(DETAIL) == _DEFAULT_DETAIL else extra)


def _file(part: JSONObject) -> Media | None:
    """Decode a file with `file_data` (its content) or `file_url` (its web address). Return None for other files."""
    for key, on_web in (("file_data", False), ("file_url", True)):
        url = part.get(key)
        if isinstance(url, str) and url and url.startswith(_WEB_SCHEMES) is on_web:
            return Media("file", url, without(part, "type", key))
    return None


def encode_content(
    parts: Iterable[Part], same_protocol: bool, by_model: bool = False, foreign: bool = False
) -> JSONValue:
    """Encode parts as a `content` field, if possible as a plain string.

    Args:
        same_protocol: whether the `extra` fields of the parts belong to this protocol.
        by_model: whether the model wrote the parts.
        foreign: whether the message came over another protocol. If so, media are dropped and plain texts are joined,
            because a list requires a message id, which only this service assigns.
    """
    sendable = (part for part in parts if not (foreign and isinstance(part, Media)))
    wire = [encoded for part in sendable if (encoded := _encode(part, same_protocol, by_model))]
    plain = all(part.keys() == {"type", "text"} and part["type"] in _TEXT_TYPES for part in wire)
    return "".join(part["text"] for part in wire) if plain and (foreign or len(wire) <= 1) else wire


def _encode(part: Part, same_protocol: bool, by_model: bool) -> JSONObject:
    if isinstance(part, Opaque):
        return part.data if same_protocol and part.kind.startswith(CONTENT) and is_object(part.data) else {}
    extra = part.extra if same_protocol else {}
    if isinstance(part, TextPart):
        return {"type": "output_text" if by_model else "input_text", "text": part.text, **extra}
    match part.kind:
        case "image":
            # Unlike other protocols, this one requires a detail level.
            detail = {DETAIL: _DEFAULT_DETAIL, **detail_field(part)}
            return {"type": "input_image", "image_url": part.url, **detail, **extra}
        case "file":
            key = "file_url" if part.url.startswith(_WEB_SCHEMES) else "file_data"
            return {"type": "input_file", key: part.url, **filename_field(part), **extra}
        case _:
            return {}
