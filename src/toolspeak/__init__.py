"""toolspeak: tool calling for any language model.

    import toolspeak as ts

    client = ts.Client("openai:my-model", base_url="http://127.0.0.1:9000/v1")
    reply = client.chat("What is the weather in Paris?", tools=[...])
    reply.tool_calls  # with or without native tool calling

    ts.Agent(client, tools=[...]).run("Find out what it costs.").content  # runs the tools, round by round

    ts.parse('<tool_call>{"name": "ping", "arguments": {}}</tool_call>').calls  # only parses text

Names are loaded on first use, so importing the package takes almost no time.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from .core.plugin_hook import set_loader

if TYPE_CHECKING:
    from .agent import Agent, AsyncAgent
    from .client import AsyncClient, Client
    from .core.events import (
        CallArgs,
        CallEnd,
        CallStart,
        Candidate,
        Event,
        Failure,
        Finish,
        Noted,
        ReasoningDelta,
        Reply,
        TextDelta,
        fold,
    )
    from .core.events import Judged as Judged
    from .core.events import OpaqueSeen as OpaqueSeen
    from .core.events import UsageSeen as UsageSeen
    from .core.types import Media, Message, Note, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
    from .dialects.registry import render_calls
    from .engine.planning.capabilities import override_model, override_provider
    from .engine.planning.strategy import strategy
    from .engine.rounds.expansion import expand as expand
    from .errors import ConfigError, ModelError, ToolChoiceError, ToolspeakError, UpstreamError, UsageError
    from .errors import FormatError as FormatError
    from .errors import SchemaError as SchemaError
    from .errors import UpstreamTimeout as UpstreamTimeout
    from .integrations.openai import wrap as wrap
    from .parsing import Scanner, parse
    from .tools.base import CallContext as CallContext
    from .tools.functions import tool
    from .upstreams.scripted import Scripted

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncClient",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Candidate",
    "Client",
    "ConfigError",
    "Event",
    "Failure",
    "Finish",
    "Media",
    "Message",
    "ModelError",
    "Note",
    "Noted",
    "ReasoningDelta",
    "Reply",
    "Request",
    "Scanner",
    "Scripted",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolChoiceError",
    "ToolResult",
    "ToolspeakError",
    "UpstreamError",
    "Usage",
    "UsageError",
    "fold",
    "override_model",
    "override_provider",
    "parse",
    "render_calls",
    "strategy",
    "tool",
]

#: Module of each public name. Names that are rarely needed are missing from `__all__`, but can be imported.
_HOMES = {
    ".agent": "Agent AsyncAgent",
    ".client": "AsyncClient Client",
    ".engine.planning.capabilities": "override_model override_provider",
    ".core.events": (
        "CallArgs CallEnd CallStart Candidate Event Failure Finish Judged Noted "
        "OpaqueSeen ReasoningDelta Reply TextDelta UsageSeen fold"
    ),
    ".core.types": "Media Message Note Request TextPart Tool ToolCall ToolChoice ToolResult Usage",
    ".engine.planning.strategy": "strategy",
    ".parsing": "Scanner parse",
    ".dialects.registry": "render_calls",
    ".errors": (
        "ConfigError FormatError ModelError SchemaError ToolChoiceError ToolspeakError UpstreamError UpstreamTimeout "
        "UsageError"
    ),
    ".engine.rounds.expansion": "expand",
    ".integrations.openai": "wrap",
    ".tools.base": "CallContext",
    ".tools.functions": "tool",
    ".upstreams.scripted": "Scripted",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def _load_plugins() -> None:
    from .plugin_search import any_installed

    if any_installed(sys.path):
        from .plugins import load_installed

        load_installed()
    else:
        set_loader(None)


set_loader(_load_plugins)  # what they bring is needed when the first text is parsed, or the first model looked up


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module `toolspeak` has no attribute `{name}`")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
