"""Types of the names that `__init__.py` loads on first use."""

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

__version__: str

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
