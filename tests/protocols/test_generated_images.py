"""Images that a model generated, found in its own message."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak import Media, Message, TextPart
from toolspeak.core.types import Opaque, Part
from toolspeak.protocols.generated_images import generated_images

pytestmark = pytest.mark.requirement("F13")

PNG = Media("image", "data:image/png;base64,QQ==")


@check_each(
    "part, images",
    [
        (PNG, (PNG,)),
        (Media("audio", "data:audio/wav;base64,QQ=="), ()),
        (TextPart("data:image/png;base64,QQ=="), ()),
        (Opaque("gemini_part", {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}), (PNG,)),
        (Opaque("gemini_part", {"inlineData": {"mimeType": "audio/wav", "data": "QQ=="}}), ()),
        (Opaque("gemini_part", {"text": "x"}), ()),
        (Opaque("item", {"type": "image_generation_call", "result": "QQ=="}), (PNG,)),
        (Opaque("item", {"type": "image_generation_call", "result": "QQ==", "output_format": "png"}), (PNG,)),
        (Opaque("item", {"type": "image_generation_call", "result": None}), ()),
        (Opaque("x", "text"), ()),
    ],
)
def test_images_are_found_in_every_form(part: Part, images: tuple[Media, ...]):
    assert generated_images(Message("assistant", (TextPart("Here:"), part))) == images
