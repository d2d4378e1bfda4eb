"""The built-in tool that describes tools, which a model calls if a prompt could only name some of them.

toolspeak answers these calls itself, within the turn: the next request lists the tools in full. The caller never sees
such a call. A model can ask for the caller's tools only, and only a few times in a turn.
"""

from collections.abc import Container, Sequence
from functools import cache
from typing import NamedTuple

from ...core.parsing.tool_index import toolkit
from ...core.types import Message, TextPart, Tool, ToolCall, ToolResult, is_array
from .escaping import display_name

#: Names of the built-in tool: the first one that none of the caller's tools has.
NAMES = ("describe_tools", "toolspeak_describe_tools")
#: How often a model may ask for descriptions in one turn.
MAX_ROUNDS = 3
#: How many tools are described in one round. Each one makes the prompt longer.
MAX_TOOLS = 16


@cache
def describing_tool(name: str) -> Tool:
    names = {"type": "array", "items": {"type": "string"}, "description": "Names of tools, exactly as listed"}
    parameters = {"type": "object", "properties": {"names": names}, "required": ["names"]}
    return Tool(name, "Describes tools that are listed by name only.", parameters, read_only=True)


def free_name(names_in_use: Container[str]) -> str:
    """Return the name for the built-in tool, or an empty string if the caller's tools have taken all names."""
    return next((name for name in NAMES if name not in names_in_use), "")


class DescribedTools(NamedTuple):
    #: The tools that the next request lists in full.
    names: tuple[str, ...]
    #: The call and its result, which tell the model that it has asked.
    messages: tuple[Message, Message]


def describe_tools(calls: Sequence[ToolCall], text: str, tools: tuple[Tool, ...], round: int) -> DescribedTools:
    """Answer the calls of the built-in tool in an answer with this text. `tools`: the tools it may describe."""
    kit = toolkit(tools)
    requested = dict.fromkeys(kit.resolve(name) for call in calls for name in _names_in(call))
    found_names = [name for name in requested if name in kit.by_name]
    described, later = found_names[:MAX_TOOLS], found_names[MAX_TOOLS:]
    unknown = [name for name in requested if name not in kit.by_name][:MAX_TOOLS]
    sentences = [
        f"{words}: {', '.join(map(display_name, names))}."
        for words, names in (
            ("The list of tools now describes", described),
            ("Ask again for", later[:MAX_TOOLS]),
            ("There are no tools named", unknown),
        )
        if names
    ]
    call = ToolCall(calls[0].name, {"names": list(requested)[:MAX_TOOLS]}, id=f"{calls[0].name}_{round}")
    result = ToolResult(call.id, " ".join(sentences) or "No tools were named.", name=call.name)
    question = Message("assistant", (TextPart(text),) if text else (), calls=(call,))
    return DescribedTools(tuple(described), (question, Message("tool", results=(result,))))


def _names_in(call: ToolCall) -> list[str]:
    names = call.arguments.get("names")
    return [name for name in names if isinstance(name, str)] if is_array(names) else []
