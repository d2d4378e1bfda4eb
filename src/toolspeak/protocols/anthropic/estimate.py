"""How many tokens a request takes, roughly: a stream begins with that number, before any upstream has told it.

It costs a streamed answer some microseconds, so only a sample is looked at and the rest goes by its length. The end of
the stream tells what was counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.tokens import estimate_tokens
from ...core.types import Message, Request, TextPart, Tool
from ..shared.fields import to_wire

#: Characters that are looked at.
_SAMPLE = 512
#: What stands around each message and each tool.
_FRAME = 4


def estimated_input(request: Request) -> int:
    """The tokens that a request takes, pictures and files not counted."""
    texts = [text for message in request.messages for text in _texts(message)]
    texts += map(_declared, request.tools)
    characters = sum(map(len, texts))
    if not characters:
        return 0
    sample = max(texts, key=len)[:_SAMPLE]
    frames = _FRAME * (len(request.messages) + len(request.tools))
    return frames + characters * estimate_tokens(sample) // len(sample)


def _texts(message: Message) -> Iterator[str]:
    yield from (part.text for part in message.parts if isinstance(part, TextPart))
    yield from (to_wire(call.arguments).decode() for call in message.calls)
    yield from (result.content for result in message.results)


def _declared(tool: Tool) -> str:
    return f"{tool.name} {tool.description} {to_wire(tool.parameters).decode()}"
