"""Estimates of what messages and requests take of the window."""

from __future__ import annotations

from tests.cases import check_each
from toolspeak.core.text import estimate_tokens
from toolspeak.core.types import Media, Message, Opaque, Request, TextPart, Tool, ToolCall, ToolResult
from toolspeak.engine.context.sizes import message_tokens, prompt_limit, request_tokens, text_tokens

WORDS = "some words that say nothing "


def test_everything_in_a_message_counts():
    bare = message_tokens(Message("user"))
    every_kind = [
        Message("user", (TextPart(WORDS),)),
        Message("user", (Media("image", "data:image/png;base64,AAAA"),)),
        Message("assistant", (Opaque("thinking", {"signature": WORDS}),)),
        Message("assistant", reasoning=WORDS),
        Message("assistant", calls=(ToolCall("find", {"text": WORDS}, "c"),)),
        Message("tool", results=(ToolResult("c", WORDS),)),
        Message("tool", results=(ToolResult("c", "", parts=(Media("file", "data:,"),)),)),
    ]
    assert all(message_tokens(message) > bare + 4 for message in every_kind)
    # An image costs the same however long its data is.
    images = [Message("user", (Media("image", "data:" + "A" * size),)) for size in (1, 100_000)]
    assert message_tokens(images[0]) == message_tokens(images[1])


def test_tools_count():
    request = Request("m", (Message("user", (TextPart(WORDS),)),))
    tool = Tool("find", "Find something.", {"type": "object", "properties": {"text": {"type": "string"}}})
    with_tool = Request("m", request.messages, (tool,))
    assert request_tokens(with_tool) > request_tokens(request) + 10


@check_each("text", [WORDS * 3000, "1, 2; " * 20_000, "ü" * 30_000])
def test_long_texts_are_estimated_from_samples(text: str):
    assert abs(text_tokens(text) / estimate_tokens(text) - 1) < 0.05


@check_each(
    ("window", "max_tokens", "limit"),
    [(4096, None, 3072), (200_000, None, 191_808), (4096, 500, 3596), (4096, 4000, 3072)],
)
def test_an_answer_has_room(window: int, max_tokens: int | None, limit: int):
    assert prompt_limit(window, max_tokens) == limit
