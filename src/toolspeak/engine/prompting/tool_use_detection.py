"""Detects tool use in the history of a conversation.

This check runs for every request, and most requests have no tool history, so this module must not load any dialect.
"""

from ...core.types import JSONObject, Message, Tool

#: The `protocol` of a message that summarises a part of the conversation.
SUMMARY = "toolspeak.summary"


def has_tool_history(messages: tuple[Message, ...]) -> bool:
    """Whether the conversation contains a tool call or a tool result, or a summary, which may quote one."""
    for message in messages:  # a loop, because `any` would take twice as long
        if message.calls or message.results or message.role == "tool" or message.protocol == SUMMARY:
            return True
    return False


def tools_of_history(messages: tuple[Message, ...]) -> tuple[Tool, ...]:
    """Reconstruct tools from past calls, in the order of first use. They accept the argument names used so far."""
    tools: dict[str, dict[str, JSONObject]] = {}
    for message in messages:
        for call in message.calls:
            keys = tools.setdefault(call.name, {})
            keys.update({key: {} for key in call.arguments})
    return tuple(Tool(name, parameters={"type": "object", "properties": keys}) for name, keys in tools.items() if name)
