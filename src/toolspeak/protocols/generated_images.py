"""Finds the images that a model has generated in its own message, in the form of each protocol."""

from collections.abc import Iterator

from ..core.types import JSONValue, Media, Message, Opaque, is_object

#: Field of an item in the Responses API that contains a generated image, in base64.
_RESPONSES_RESULT = "result"


def generated_images(message: Message) -> tuple[Media, ...]:
    """Return the images in an assistant message."""
    return tuple(image for part in message.parts for image in _images_in(part))


def _images_in(part: object) -> Iterator[Media]:
    if isinstance(part, Media):
        if part.kind == "image":
            yield part
    elif isinstance(part, Opaque) and is_object(part.data):
        inline: JSONValue = part.data.get("inlineData")
        if is_object(inline) and str(inline.get("mimeType")).startswith("image/"):
            yield Media("image", f"data:{inline['mimeType']};base64,{inline.get('data', '')}")
        elif part.data.get("type") == "image_generation_call" and isinstance(part.data.get(_RESPONSES_RESULT), str):
            form = part.data.get("output_format") or "png"
            yield Media("image", f"data:image/{form};base64,{part.data[_RESPONSES_RESULT]}")
