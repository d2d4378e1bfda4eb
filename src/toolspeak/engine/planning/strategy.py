"""From a request, what is known of its model, and the settings, to a plan: what will be done, and why.

One pure function, `plan`; nothing is asked and nothing fails, an unknown model is simply taught by text.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.types import Request, Tool, ToolCall, require
from ..prompting.past_tools import has_tool_history
from .capabilities import Capabilities, Capability, Found, Profile, capabilities, checked, split_model

#: Tokens that the tools may take in a prompt. The lists of today's coding agents (25 tools, 75 kB of schemas) fit
#: in compact form, and half of a 16 k context is left to the conversation.
DEFAULT_CONTRACT_BUDGET = 8_000
#: How often a wrong answer is asked for again. A model that was wrong three times stays wrong.
DEFAULT_RETRIES = 2
#: More than this is a mistake that somebody pays for by the token.
MOST_RETRIES = 10

Mode: TypeAlias = Literal["off", "fallback", "force", "auto"]
Emulation: TypeAlias = Literal["inline", "decision", "envelope"]
Kind: TypeAlias = Literal["pass", "plain", "native", "inline", "decision", "envelope", "fallback"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user wants, for a client, an upstream, a model or one request."""

    #: `off`: tools go up as they are. `fallback`: native first, emulation when no call comes. `force`: always
    #: emulation. `auto`: what the model can do decides.
    mode: Mode = "auto"
    #: How to emulate; empty: inline, and for a fallback decision.
    plan: Literal["", "inline", "decision", "envelope"] = ""
    #: The dialect to ask for; empty or `auto`: the one that the profile names.
    dialect: str = ""
    #: How much evidence a call needs.
    policy: Policy = "standard"
    #: Whether call marks carry a nonce; `auto`: when the dialect can and the profile does not object.
    marks: Literal["nonce", "fixed", "auto"] = "auto"
    #: No tools at all, whatever the model can do.
    chat_only: bool = False
    #: `live`: arguments flow as they come. `checked`: a call flows once it is valid. Empty: live where a stream is
    #: wanted and no call is demanded.
    stream_calls: Literal["", "live", "checked"] = ""
    #: How often a wrong answer is asked for again.
    retries: Annotated[int, msgspec.Meta(ge=0, le=MOST_RETRIES)] = DEFAULT_RETRIES
    #: When tools that a later turn no longer lists are offered again: behind a tool result, always, or never.
    sticky_tools: Literal["results", "always", "never"] = "results"
    #: Tools in the prompt as short signatures, or as whole schemas.
    contract: Literal["compact", "schema"] = "compact"
    #: Tokens that the tools may take in the prompt.
    contract_budget: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTRACT_BUDGET
    #: Find calls that a native answer holds as text.
    rescue: bool = True
    #: Let the upstream enforce the form of calls, where it can.
    constrain: bool = True
    #: When to find out by asking what a model can do: in the background at its first use, at the start of the server,
    #: or never. Empty: at first use where the upstream is on this machine, never where it may cost money.
    probe: Literal["", "first-use", "startup", "off"] = ""

    def __post_init__(self) -> None:
        checked(Settings, msgspec.structs.asdict(self), "the settings")


class Plan(msgspec.Struct, frozen=True):
    """What will be done with one request."""

    #: `pass`: nothing is touched. `plain`: no tools, tool history as text. `native`: the upstream's own calling.
    #: `inline`, `decision`, `envelope`: emulation. `fallback`: native, then `second`.
    kind: Kind
    #: The emulation that follows a native answer without calls.
    second: Literal["", "inline", "decision", "envelope"]
    #: The dialect that is asked for inline and that history is written in. The decision and the envelope are
    #: documents of their own.
    dialect: str
    marks: Literal["nonce", "fixed"]
    policy: Policy
    stream_calls: Literal["live", "checked"]
    retries: int
    profile: Profile
    #: Find calls that a native answer holds as text.
    rescue: bool
    #: The rule that decided, for machines.
    rule: str
    #: The same for people.
    why: str

    @property
    def native(self) -> bool:
        """Whether the upstream sees the tools."""
        return self.kind in ("pass", "native", "fallback")

    @property
    def emulation(self) -> Literal["", "inline", "decision", "envelope"]:
        """The emulation that runs, at once or as the second half of a fallback."""
        match self.kind:
            case "inline" | "decision" | "envelope":
                return self.kind
            case _:
                return self.second


class Strategy(msgspec.Struct, frozen=True):
    """What will be done for a model when a request carries tools, and why."""

    native: bool
    capability: Capability
    plan: str
    rule: str
    why: str


#: The rule of requests without tools and without a past that has some.
_NO_TOOLS = "no_tools"
#: Kinds of tools that can be asked for by text.
_FUNCTIONS = ("function", "custom")


class _Way(NamedTuple):
    """The decision itself; the rest of a plan follows from settings and profile."""

    kind: Kind
    rule: str
    why: str
    second: Literal["", "inline", "decision", "envelope"] = ""
    rescue: bool = False


class _Situation(NamedTuple):
    """All that a plan depends on of a request."""

    tools: bool
    #: One of them is a function with a usable name, which a prompt can teach.
    functions: bool
    #: Calls or results stand in the conversation.
    history: bool
    choice: str
    demands: bool
    stream: bool


#: Plans that were made, by what they depend on; settings and findings by their identity, which each plan's row keeps
#: theirs. A server has a few for each model.
_made: dict[tuple[int, int, _Situation], tuple[Found, Settings, Plan]] = {}
_MOST_MADE = 1024


def plan(request: Request, found: Found, settings: Settings) -> Plan:
    """What to do with a request. Tools recovered from earlier turns stand in it like any others."""
    situation = _situation(request)
    key = (id(found), id(settings), situation)
    made = _made.get(key)
    if made is None:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        made = _made[key] = (found, settings, _plan(situation, found, settings))
    return made[2]


def _situation(request: Request) -> _Situation:
    tools, choice = request.tools, request.tool_choice
    history = has_tool_history(request.messages)
    return _Situation(bool(tools), _functions(tools), history, choice.mode, choice.demands, request.stream)


def _functions(tools: tuple[Tool, ...]) -> bool:
    """Whether a prompt can teach one of them: the first mostly tells."""
    return any(tool.kind in _FUNCTIONS and _has_plain_name(tool) for tool in tools)


def _has_plain_name(tool: Tool) -> bool:
    # Imported here: what is not asked for tools needs no prompts.
    from ..prompting.escaping import plain_name

    return plain_name(tool.name)


def _plan(situation: _Situation, found: Found, settings: Settings) -> Plan:
    profile = found.profile
    way = _way(situation, found, settings)
    spoken = settings.dialect if settings.dialect not in ("", "auto") else profile.dialect
    # Where no tool is spoken of there is nothing to mark, and no need to know what the dialect looks like.
    marks = "fixed" if way.rule == _NO_TOOLS else _marks(spoken, settings, profile)
    unmarked = "" if settings.marks in ("auto", marks) else "; the dialect has no place for the nonce asked for"
    alone = "; one call at a time, since the model garbles a second one"
    single = "" if profile.parallel or way.kind in ("pass", "plain") else alone
    demanding = not situation.stream or situation.demands
    return Plan(
        kind=way.kind,
        second=way.second,
        dialect=spoken,
        marks=marks,
        policy=settings.policy,
        stream_calls=settings.stream_calls or ("checked" if demanding else "live"),
        retries=settings.retries,
        profile=profile if settings.constrain else msgspec.structs.replace(profile, constraint=""),
        rescue=way.rescue and settings.rescue and profile.leaks,
        rule=way.rule,
        why=way.why + (unmarked if way.rule != _NO_TOOLS else "") + single,
    )


def _way(asked: _Situation, found: Found, settings: Settings) -> _Way:
    if not asked.tools and not asked.history:
        return _Way("pass", _NO_TOOLS, "there are no tools, now or earlier: nothing is touched")
    if settings.chat_only:
        return _Way("plain", "chat_only", "chat only: tools are taken away")
    match settings.mode:
        case "off":
            return _Way("pass", "mode.off", "mode is off: the request goes up as it is")
        case "fallback":
            return _fallback(asked, found, settings)
        case "force":
            return _emulated(asked, found, settings, "mode.force", "mode is force")
        case "auto" if found.profile.capability == "none":
            return _emulated(asked, found, settings, found.rule, f"no native calling: {found.why}")
        case "auto" if asked.demands and not found.profile.required and asked.functions:
            why = "a call is demanded, and natively that is not enforced"
            return _emulated(asked, found, settings, "required", why)
        case _:
            why = f"native calling ({found.profile.capability}): {found.why}"
            return _Way("native", found.rule, why, rescue=asked.choice != "none" and asked.functions)


def _fallback(asked: _Situation, found: Found, settings: Settings) -> _Way:
    """Native first; what cannot end in a call needs nothing behind it."""
    if not asked.tools:
        return _Way("native", "history_only", "mode is fallback, but the request carries no tools")
    if asked.choice == "none":
        return _Way("native", "choice.none", "mode is fallback, but no call is allowed")
    if not asked.functions:
        return _Way("native", "no_functions", "mode is fallback, but no tool is a function with a usable name")
    kind, note = _emulation(settings, found.profile, "decision")
    why = f"mode is fallback: native first, then {kind} when no call comes{note}"
    return _Way("fallback", _UNCONSTRAINED if note else "mode.fallback", why, second=kind, rescue=True)


def _emulated(asked: _Situation, found: Found, settings: Settings, rule: str, why: str) -> _Way:
    if not asked.tools:
        return _Way("plain", "history_only", "earlier calls are told as text; there are no tools to offer")
    if asked.choice == "none":
        return _Way("plain", "choice.none", "no call is allowed, so tools are left out")
    if not asked.functions:
        return _Way(
            "plain", "no_functions", "only functions with usable names can be asked for by text, and there is none"
        )
    kind, note = _emulation(settings, found.profile, "inline")
    return _Way(kind, _UNCONSTRAINED if note else rule, f"{why}{note}")


_UNCONSTRAINED = "envelope.unconstrained"


def _emulation(settings: Settings, profile: Profile, default: Emulation) -> tuple[Emulation, str]:
    """How to emulate, and a remark when that is not what was asked for."""
    wanted = settings.plan or profile.plan or default
    if wanted == "envelope" and not settings.plan and not settings.constrain:
        return default, ""  # it was meant to be enforced; who names the plan as well may have it without
    if wanted == "envelope" and not profile.constraint:
        return "inline", "; inline instead of the envelope asked for, since the upstream is not known to enforce one"
    return wanted, ""


def _marks(spoken: str, settings: Settings, profile: Profile) -> Literal["nonce", "fixed"]:
    wanted = settings.marks if settings.marks != "auto" else profile.marks
    return "fixed" if wanted == "fixed" or not _carries_nonce(spoken) else "nonce"


@cache
def _carries_nonce(name: str) -> bool:
    """Whether the dialect has a place for a nonce: writing a call with one makes a difference."""
    # Imported here: what is not asked for tools speaks no dialect.
    from ...dialects.registry import render_calls

    calls = [ToolCall("f", {})]
    return render_calls(name, calls, "k7q2xm") != render_calls(name, calls)


def strategy(
    model: str, base_url: str = "", *, settings: Settings | None = None, known: Capabilities | None = None
) -> Strategy:
    """What will be done for `provider:model` when a request carries tools, and which rule decided.

    >>> strategy("deepinfra:deepseek-ai/DeepSeek-V3-0324").plan
    'native'
    """
    provider, name = split_model(model)
    require(base_url, str, "`base_url`", "a text")
    require(settings, Settings | None, "`settings`", "a `Settings`")
    found = (known or capabilities()).find(provider, name, base_url)
    planned = plan(Request(name, (), (Tool("example"),)), found, settings or Settings())
    return Strategy(planned.native, found.profile.capability, planned.kind, planned.rule, planned.why)
