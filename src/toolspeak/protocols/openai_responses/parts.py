"""The content of a message of the Responses API: a text, or a list of parts, to the parts of a message and back.

What is carried, not read, tells by its kind where it belongs: `item:T` is an item of its own in the list of items,
`content:T` a part of a message, `annotation:T` a remark about a text that was given, `start:T` an item whose end is
still to come; that of a message tells its `phase`, whether it is a word in between or the answer. Where an annotation
says what it is about, it counts from where the text at hand began: texts that nothing parts are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...core.events import CallStart, Event, OpaqueSeen, ReasoningDelta
from ...core.types import JSONObject, JSONValue, Media, Opaque, Part, TextPart, is_object
from ..shared.fields import DETAIL, array_field, detail_of, file_name, object_field, text_field, without

PROTOCOL: Final = "openai_responses"

ITEM: Final = "item:"
CONTENT: Final = "content:"
ANNOTATION: Final = "annotation:"
START: Final = "start:"
#: The beginning of a message that says in which phase it stands.
PHASE: Final = START + "message"
#: What is said of a response as a whole.
RESPONSE: Final = "response"

#: Types of text on the wire. What is sent depends on who speaks.
_TEXTS = frozenset({"input_text", "output_text", "text"})
#: How closely to look at a picture, unless somebody says.
_USUAL_DETAIL = "auto"
_WEB = ("http://", "https://")
#: Where in a text an annotation begins and ends.
_PLACES = ("start_index", "end_index")


def is_item(part: Part, kind: str = "") -> bool:
    """Whether a part is an item of its own; with `kind`, one of that type."""
    return isinstance(part, Opaque) and part.kind.startswith(ITEM + kind) and is_object(part.data)


def parts_texts(event: Event) -> bool:
    """Whether the text before this event and the text behind it stand in messages of their own."""
    if isinstance(event, OpaqueSeen):
        return event.part.kind.startswith((ITEM, START))
    return isinstance(event, CallStart | ReasoningDelta)


def moved(annotation: JSONObject, by: int) -> JSONObject:
    """The annotation, where its text stands so many characters further on."""
    places = {key: annotation[key] + by for key in _PLACES if type(annotation.get(key)) is int}
    return {**annotation, **places}


# ------------------------------------------------------------------------------------------------ from the wire


def decode_content(content: JSONValue, path: str) -> tuple[Part, ...]:
    """The parts that a `content` or an `output` stands for; an empty text is no part."""
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
    if kind in _TEXTS:
        return TextPart(text_field(part.get("text"), f"{path}.text"), without(part, "type", "text"))
    found = _image(part) if kind == "input_image" else _file(part) if kind == "input_file" else None
    return found or Opaque(CONTENT + kind, part)


def _image(part: JSONObject) -> Media | None:
    """A picture that is there; one that only its upstream has is carried."""
    url = part.get("image_url")
    if not isinstance(url, str) or not url:
        return None
    extra = without(part, "type", "image_url")
    return Media("image", url, without(extra, DETAIL) if extra.get(DETAIL) == _USUAL_DETAIL else extra)


def _file(part: JSONObject) -> Media | None:
    """A file that is there; `file_data` is the thing itself, `file_url` where it is on the web."""
    for key, on_web in (("file_data", False), ("file_url", True)):
        url = part.get(key)
        if isinstance(url, str) and url and url.startswith(_WEB) is on_web:
            return Media("file", url, without(part, "type", key))
    return None


# -------------------------------------------------------------------------------------------------- to the wire


def encode_content(parts: Iterable[Part], ours: bool, said: bool = False, elsewhere: bool = False) -> JSONValue:
    """The `content` of these parts: a plain text where that says it all.

    `ours`: their extras speak this protocol. `said`: the model said it; `elsewhere`: by another protocol, so that
    it shows nothing and its plain texts are one: a list has the id of an answer, which only this service gives.
    """
    shown = (part for part in parts if not (elsewhere and isinstance(part, Media)))
    wire = [encoded for part in shown if (encoded := _encode(part, ours, said))]
    plain = all(part.keys() == {"type", "text"} and part["type"] in _TEXTS for part in wire)
    return "".join(part["text"] for part in wire) if plain and (elsewhere or len(wire) <= 1) else wire


def _encode(part: Part, ours: bool, said: bool) -> JSONObject:
    if isinstance(part, Opaque):
        return part.data if ours and part.kind.startswith(CONTENT) and is_object(part.data) else {}
    extra = part.extra if ours else {}
    if isinstance(part, TextPart):
        return {"type": "output_text" if said else "input_text", "text": part.text, **extra}
    match part.kind:
        case "image":
            # Here, and only here, it must be said how closely to look.
            return {"type": "input_image", "image_url": part.url, DETAIL: _USUAL_DETAIL, **detail_of(part), **extra}
        case "file":
            key = "file_url" if part.url.startswith(_WEB) else "file_data"
            return {"type": "input_file", key: part.url, **file_name(part), **extra}
        case _:
            return {}
