"""toolspeak: tool calling for any language model.

    import toolspeak as ts

    reply = ts.parse('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    reply.calls  # (ToolCall(name='ping', arguments={}),)

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.events import (
        CallArgs,
        CallEnd,
        CallStart,
        Candidate,
        Event,
        Failure,
        Finish,
        Judged,
        Noted,
        OpaqueSeen,
        ReasoningDelta,
        Reply,
        TextDelta,
        UsageSeen,
        fold,
    )
    from .core.model import Message, Note, Opaque, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
    from .core.reader import Scanner, parse
    from .dialects.table import render_calls, render_result
    from .errors import ModelError, SchemaError, ToolSignal, ToolspeakError, UnknownDialectError, UsageError

__version__ = "0.1.0"

__all__ = [
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Candidate",
    "Event",
    "Failure",
    "Finish",
    "Judged",
    "Message",
    "ModelError",
    "Note",
    "Noted",
    "Opaque",
    "OpaqueSeen",
    "ReasoningDelta",
    "Reply",
    "Request",
    "Scanner",
    "SchemaError",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "ToolSignal",
    "ToolspeakError",
    "UnknownDialectError",
    "Usage",
    "UsageError",
    "UsageSeen",
    "fold",
    "parse",
    "render_calls",
    "render_result",
]

#: Where each public name lives.
_HOMES = {
    ".core.events": (
        "CallArgs CallEnd CallStart Candidate Event Failure Finish Judged Noted OpaqueSeen ReasoningDelta Reply "
        "TextDelta UsageSeen fold"
    ),
    ".core.model": "Message Note Opaque Request TextPart Tool ToolCall ToolChoice ToolResult Usage",
    ".core.reader": "Scanner parse",
    ".dialects.table": "render_calls render_result",
    ".errors": "ModelError SchemaError ToolSignal ToolspeakError UnknownDialectError UsageError",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module `toolspeak` has no attribute `{name}`")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
