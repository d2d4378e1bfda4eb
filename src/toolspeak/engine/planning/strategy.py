"""Choose the plan for a request from its tools, the model's profile and the settings.

Pure and total: no requests are sent, and an unknown model gets its tools in the prompt.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.types import Request, Tool, ToolCall, require
from ..prompting.tool_history import has_tool_history
from .capabilities import Capabilities, Capability, Profile, ProfileMatch, capabilities, check_fields, split_model

#: Token budget of the tools in a prompt. The tools of today's coding agents (25 tools, 75 kB of schemas) fit in compact
#: form, and half of a 16 k context is left for the conversation.
DEFAULT_CONTRACT_BUDGET = 8_000
#: Retries after a wrong answer. A model that was wrong three times stays wrong.
DEFAULT_RETRIES = 2
#: More retries than this are a costly configuration error.
MAX_RETRIES = 10

Mode: TypeAlias = Literal["off", "fallback", "force", "auto"]
Emulation: TypeAlias = Literal["inline", "decision", "envelope"]
PlanKind: TypeAlias = Literal["pass", "plain", "native", "inline", "decision", "envelope", "fallback"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """User settings for a client, an upstream, a model or one request."""

    #: `off`: pass tools through unchanged. `fallback`: native first, emulation if there is no call. `force`: always
    #: emulation. `auto`: the model's profile decides.
    mode: Mode = "auto"
    #: Emulation plan. Empty: inline, or decision in fallback mode.
    plan: Literal["", "inline", "decision", "envelope"] = ""
    #: Dialect of emulated calls. Empty or `auto`: as in the profile.
    dialect: str = ""
    #: How strictly calls in text are accepted.
    policy: Policy = "standard"
    #: Whether calls carry a nonce. `auto`: if the dialect supports it and the profile allows it.
    marks: Literal["nonce", "fixed", "auto"] = "auto"
    #: Remove all tools.
    chat_only: bool = False
    #: `live`: stream arguments as they arrive. `checked`: send a call once it is complete and valid. Empty: live for
    #: streaming requests that do not demand a call.
    stream_calls: Literal["", "live", "checked"] = ""
    #: Retries after a wrong answer.
    retries: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETRIES)] = DEFAULT_RETRIES
    #: When to restore tools that a later turn no longer lists: after a tool result, always, or never.
    sticky_tools: Literal["results", "always", "never"] = "results"
    #: Tools in the prompt as short signatures, or as full schemas.
    contract: Literal["compact", "schema"] = "compact"
    #: Token budget of the tools in the prompt.
    contract_budget: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTRACT_BUDGET
    #: Parse calls in the text of native answers.
    rescue: bool = True
    #: Use constrained decoding if the upstream supports it.
    constrain: bool = True
    #: When to probe a model: in the background at first use, at server start, or never. Empty: at first use if the
    #: upstream is on this machine; otherwise never, because it may cost money.
    probe: Literal["", "first-use", "startup", "off"] = ""

    def __post_init__(self) -> None:
        check_fields(Settings, msgspec.structs.asdict(self), "the settings")


class Plan(msgspec.Struct, frozen=True):
    """How one request is handled."""

    #: `pass`: unchanged. `plain`: no tools, tool history as text. `native`: native tool calling. `inline`, `decision`,
    #: `envelope`: emulation. `fallback`: native, then `second`.
    kind: PlanKind
    #: The emulation after a native answer without calls.
    second: Literal["", "inline", "decision", "envelope"]
    #: The dialect of inline calls and of the tool history.
    dialect: str
    marks: Literal["nonce", "fixed"]
    policy: Policy
    stream_calls: Literal["live", "checked"]
    retries: int
    profile: Profile
    #: Parse calls in the text of native answers.
    rescue: bool
    #: The rule that decided.
    rule: str
    #: The rule as a sentence.
    why: str

    @property
    def native(self) -> bool:
        """Whether the upstream sees the tools."""
        return self.kind in ("pass", "native", "fallback")

    @property
    def emulation(self) -> Literal["", "inline", "decision", "envelope"]:
        """The emulation plan, at once or after a fallback; empty without emulation."""
        match self.kind:
            case "inline" | "decision" | "envelope":
                return self.kind
            case _:
                return self.second


class Strategy(msgspec.Struct, frozen=True):
    """How requests with tools are handled for a model, and why."""

    native: bool
    capability: Capability
    plan: str
    rule: str
    why: str


#: The rule for requests without tools and without tool history.
_NO_TOOLS = "no_tools"
#: Kinds of tools that can be emulated.
_FUNCTIONS = ("function", "custom")


class _Decision(NamedTuple):
    """The core of a plan; the rest follows from settings and profile."""

    kind: PlanKind
    rule: str
    why: str
    second: Literal["", "inline", "decision", "envelope"] = ""
    rescue: bool = False


class _Situation(NamedTuple):
    """The properties of a request that determine the plan."""

    tools: bool
    #: At least one tool can be emulated.
    functions: bool
    #: The conversation contains calls or results.
    history: bool
    choice: str
    demands: bool
    stream: bool


#: Plans by their inputs. Profile and settings are keyed by identity; the value references both, so ids stay valid.
_plan_cache: dict[tuple[int, int, _Situation], tuple[ProfileMatch, Settings, Plan]] = {}
_MAX_CACHED_PLANS = 1024


def plan(request: Request, match: ProfileMatch, settings: Settings) -> Plan:
    """Choose the plan for a request, whose tools include those restored from earlier turns."""
    situation = _situation(request)
    key = (id(match), id(settings), situation)
    cached = _plan_cache.get(key)
    if cached is None:
        if len(_plan_cache) >= _MAX_CACHED_PLANS:
            _plan_cache.clear()
        cached = _plan_cache[key] = (match, settings, _plan(situation, match, settings))
    return cached[2]


def _situation(request: Request) -> _Situation:
    tools, choice = request.tools, request.tool_choice
    history = has_tool_history(request.messages)
    return _Situation(bool(tools), _functions(tools), history, choice.mode, choice.demands, request.stream)


def _functions(tools: tuple[Tool, ...]) -> bool:
    """Whether at least one tool can be emulated."""
    return any(tool.kind in _FUNCTIONS and _has_plain_name(tool) for tool in tools)


def _has_plain_name(tool: Tool) -> bool:
    # Imported late: requests without tools need no prompts.
    from ..prompting.escaping import is_plain_name

    return is_plain_name(tool.name)


def _plan(situation: _Situation, match: ProfileMatch, settings: Settings) -> Plan:
    profile = match.profile
    decision = _decide(situation, match, settings)
    dialect = settings.dialect if settings.dialect not in ("", "auto") else profile.dialect
    # Without tools there are no calls to mark, and the dialect need not be loaded.
    marks = "fixed" if decision.rule == _NO_TOOLS else _marks(dialect, settings, profile)
    unmarked = "" if settings.marks in ("auto", marks) else "; the dialect cannot carry the requested nonce"
    alone = "; one call at a time, because the model garbles a second one"
    single = "" if profile.parallel or decision.kind in ("pass", "plain") else alone
    demanding = not situation.stream or situation.demands
    return Plan(
        kind=decision.kind,
        second=decision.second,
        dialect=dialect,
        marks=marks,
        policy=settings.policy,
        stream_calls=settings.stream_calls or ("checked" if demanding else "live"),
        retries=settings.retries,
        profile=profile if settings.constrain else msgspec.structs.replace(profile, constraint=""),
        rescue=decision.rescue and settings.rescue and profile.leaks,
        rule=decision.rule,
        why=decision.why + (unmarked if decision.rule != _NO_TOOLS else "") + single,
    )


def _decide(situation: _Situation, match: ProfileMatch, settings: Settings) -> _Decision:
    if not situation.tools and not situation.history:
        return _Decision("pass", _NO_TOOLS, "no tools and no tool history: the request is unchanged")
    if settings.chat_only:
        return _Decision("plain", "chat_only", "chat only: tools are removed")
    match settings.mode:
        case "off":
            return _Decision("pass", "mode.off", "mode is off: the request is passed through unchanged")
        case "fallback":
            return _fallback(situation, match, settings)
        case "force":
            return _emulated(situation, match, settings, "mode.force", "mode is force")
        case "auto" if match.profile.capability == "none":
            return _emulated(situation, match, settings, match.rule, f"no native calling: {match.why}")
        case "auto" if situation.demands and not match.profile.required and situation.functions:
            why = "a call is required, and the upstream does not enforce that"
            return _emulated(situation, match, settings, "required", why)
        case _:
            why = f"native calling ({match.profile.capability}): {match.why}"
            return _Decision("native", match.rule, why, rescue=situation.choice != "none" and situation.functions)


def _fallback(situation: _Situation, match: ProfileMatch, settings: Settings) -> _Decision:
    """Native first, then emulation if a call is possible at all."""
    if not situation.tools:
        return _Decision("native", "history_only", "mode is fallback, but the request carries no tools")
    if situation.choice == "none":
        return _Decision("native", "choice.none", "mode is fallback, but no call is allowed")
    if not situation.functions:
        return _Decision("native", "no_functions", "mode is fallback, but no tool is a function with a usable name")
    kind, note = _emulation(settings, match.profile, "decision")
    why = f"mode is fallback: native first, then {kind} when no call comes{note}"
    return _Decision("fallback", _UNCONSTRAINED if note else "mode.fallback", why, second=kind, rescue=True)


def _emulated(situation: _Situation, match: ProfileMatch, settings: Settings, rule: str, why: str) -> _Decision:
    if not situation.tools:
        return _Decision("plain", "history_only", "the tool history is sent as text; the request has no tools")
    if situation.choice == "none":
        return _Decision("plain", "choice.none", "no call is allowed, so tools are removed")
    if not situation.functions:
        return _Decision(
            "plain", "no_functions", "only functions with usable names can be emulated, and there are none"
        )
    kind, note = _emulation(settings, match.profile, "inline")
    return _Decision(kind, _UNCONSTRAINED if note else rule, f"{why}{note}")


_UNCONSTRAINED = "envelope.unconstrained"


def _emulation(settings: Settings, profile: Profile, default: Emulation) -> tuple[Emulation, str]:
    """The emulation plan, and a remark if it differs from the requested one."""
    emulation = settings.plan or profile.plan or default
    if emulation == "envelope" and not settings.plan and not settings.constrain:
        return default, ""  # the profile's envelope relies on constraints; an explicit setting does not
    if emulation == "envelope" and not profile.constraint:
        return "inline", "; inline instead of the requested envelope, because the upstream is not known to enforce one"
    return emulation, ""


def _marks(dialect: str, settings: Settings, profile: Profile) -> Literal["nonce", "fixed"]:
    marks = settings.marks if settings.marks != "auto" else profile.marks
    return "fixed" if marks == "fixed" or not _carries_nonce(dialect) else "nonce"


@cache
def _carries_nonce(name: str) -> bool:
    """Whether calls in this dialect can carry a nonce."""
    # Imported late: requests without tools need no dialect.
    from ...dialects.registry import render_calls

    calls = [ToolCall("f", {})]
    return render_calls(name, calls, "k7q2xm") != render_calls(name, calls)


def strategy(
    model: str, base_url: str = "", *, settings: Settings | None = None, known: Capabilities | None = None
) -> Strategy:
    """How requests with tools are handled for `provider:model`, and which rule decided.

    >>> strategy("deepinfra:deepseek-ai/DeepSeek-V3-0324").plan
    'native'
    """
    provider, name = split_model(model)
    require(base_url, str, "`base_url`", "a text")
    require(settings, Settings | None, "`settings`", "a `Settings`")
    match = (known or capabilities()).find(provider, name, base_url)
    planned = plan(Request(name, (), (Tool("example"),)), match, settings or Settings())
    return Strategy(planned.native, match.profile.capability, planned.kind, planned.rule, planned.why)
