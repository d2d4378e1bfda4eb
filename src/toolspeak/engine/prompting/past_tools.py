"""What a conversation tells of tools, without looking at their words: whether there were calls, and of what.

Asked of every request, most of which have nothing of the kind; so it needs no dialect. How such a past is told to a model is `history`.
"""

from __future__ import annotations

from ...core.types import JSONObject, Message, Tool


def has_tool_history(messages: tuple[Message, ...]) -> bool:
    """Whether a call or a result stands in the conversation."""
    return any(message.calls or message.results or message.role == "tool" for message in messages)


def tools_of_history(messages: tuple[Message, ...]) -> tuple[Tool, ...]:
    """Tools that take whatever was passed to them before, in the order of their first calls."""
    seen: dict[str, dict[str, JSONObject]] = {}
    for message in messages:
        for call in message.calls:
            keys = seen.setdefault(call.name, {})
            keys.update({key: {} for key in call.arguments})
    return tuple(Tool(name, parameters={"type": "object", "properties": keys}) for name, keys in seen.items() if name)
