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

from .core.plugin_hook import set_loader

__version__ = "0.1.0"

#: Public names by module. `__init__.pyi` tells type checkers the same.
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
#: Names that are rarely needed: they can be imported, but are missing from `__all__`.
_UNLISTED = frozenset(
    "CallContext FormatError Judged OpaqueSeen SchemaError UpstreamTimeout UsageSeen expand wrap".split()
)
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = [name for name in sorted(_HOME_OF) if name not in _UNLISTED]  # pyright: ignore[reportUnsupportedDunderAll]


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
