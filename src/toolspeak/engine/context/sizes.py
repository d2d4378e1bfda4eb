"""Estimate how many tokens messages and requests take. Texts are counted once, as long as they are in the cache."""

from collections.abc import Iterable

import msgspec

from ...core.bounded_cache import TextCache
from ...core.text import estimate_tokens
from ...core.types import JSONValue, Media, Message, Part, Request, TextPart

#: Tokens around each message, call and result: role, name, id and the marks of the chat template.
_FRAME_TOKENS = 6
#: Tokens of media, whose real cost depends on size, length and service.
_MEDIA_TOKENS = {"image": 1000, "audio": 1000, "video": 3000, "file": 3000}

#: The answer's share of the window, and its maximum in tokens, if the request sets no limit.
_ANSWER_SHARE, _MAX_ANSWER = 4, 8192

#: Longer texts are estimated from samples of this number and length.
_SAMPLED_CHARS, _SAMPLES, _SAMPLE_CHARS = 8192, 8, 512


def _estimate(text: str) -> int:
    if len(text) <= _SAMPLED_CHARS:
        return estimate_tokens(text)
    starts = (number * (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1) for number in range(_SAMPLES))
    sampled = sum(estimate_tokens(text[start : start + _SAMPLE_CHARS]) for start in starts)
    return sampled * len(text) // (_SAMPLES * _SAMPLE_CHARS)


text_tokens = TextCache(_estimate).__getitem__


def part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return text_tokens(part.text)
    return _MEDIA_TOKENS[part.kind] if isinstance(part, Media) else _json_tokens(part.data)


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message, with its calls and results."""
    size = _FRAME_TOKENS + text_tokens(message.reasoning) + sum(map(part_tokens, message.parts))
    for call in message.calls:
        size += _FRAME_TOKENS + text_tokens(call.name) + _json_tokens(call.arguments)
    for result in message.results:
        size += _FRAME_TOKENS + text_tokens(result.content) + sum(map(part_tokens, result.parts))
    return size


def messages_tokens(messages: Iterable[Message]) -> int:
    return sum(map(message_tokens, messages))


def request_tokens(request: Request) -> int:
    """Estimate the tokens of a request: its messages and its tools."""
    tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    return messages_tokens(request.messages) + (_json_tokens(tools) if tools else 0)


def _json_tokens(value: JSONValue) -> int:
    return text_tokens(msgspec.json.encode(value).decode())


def prompt_limit(window: int, max_tokens: int | None) -> int:
    """Return the tokens of a window that a prompt may take, so that there is room for the answer."""
    room = min(window // _ANSWER_SHARE, _MAX_ANSWER)
    # An answer may not take nearly everything, whatever the client asks for.
    return window - (max_tokens if max_tokens is not None and max_tokens <= window * 3 // 4 else room)
