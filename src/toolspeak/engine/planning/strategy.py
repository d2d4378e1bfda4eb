"""Choose the plan for a request from its tools, the model's profile and the settings.

This module performs no I/O, and there is a plan for every request: an unknown model gets its tools in the prompt.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.plugin_hook import load_plugins
from ...core.types import Request, Tool, ToolCall, require
from .. import read_toml
from ..prompting.tool_use_detection import has_tool_history
from .capabilities import (
    Capabilities,
    Capability,
    Learned,
    Profile,
    ProfileMatch,
    capabilities,
    check_fields,
    split_model,
)

#: Token budget for the tools in a prompt. The 25 tools of a typical coding agent (75 kB of schemas) fit in compact
#: form, and half of a 16k context is left for the conversation.
DEFAULT_CONTRACT_BUDGET = 8_000
#: Retries after an invalid answer. A model that fails three times in a row rarely succeeds later.
DEFAULT_RETRIES = 2
#: Maximum for the setting `retries`; more would be a costly mistake.
MAX_RETRIES = 10

Mode: TypeAlias = Literal["off", "fallback", "force", "auto"]
Emulation: TypeAlias = Literal["inline", "decision", "envelope"]
PlanKind: TypeAlias = Literal["pass", "plain", "native", "inline", "decision", "envelope", "fallback"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """User settings for a client, an upstream, a model or one request."""

    #: `off` passes tools through unchanged, `force` always emulates tool calling, and `fallback` emulates it if a
    #: native answer contains no call. With `auto`, the model's profile decides.
    mode: Mode = "auto"
    #: Emulation plan. If empty, the profile's plan, else `inline` (`decision` in fallback mode).
    plan: Literal["", "inline", "decision", "envelope"] = ""
    #: Dialect of emulated calls. Empty or `auto` means the profile's dialect.
    dialect: str = ""
    #: How strictly calls in text are accepted.
    policy: Policy = "standard"
    #: Whether calls carry a nonce. `auto` means that they do if the dialect and the profile allow it.
    #: `confirm` is `auto` for programs that run the calls themselves: once tool results are in the conversation, a call
    #: with side effects is asked for again if it comes without the nonce.
    marks: Literal["nonce", "fixed", "auto", "confirm"] = "auto"
    #: Whether to remove all tools from requests.
    chat_only: bool = False
    #: `live` streams arguments as they arrive; `checked` sends a call once it is complete and valid. If empty,
    #: streaming requests that do not demand a call hold each call until it is valid or 2 KB long, and others use
    #: `checked`.
    stream_calls: Literal["", "live", "checked"] = ""
    #: Whether text before a call is sent. `drop` holds the text of an answer until its end and drops it if the answer
    #: contains a call, for clients that take the first text for the final answer.
    text_before_calls: Literal["keep", "drop"] = "keep"
    #: Maximum number of retries after an invalid answer.
    retries: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETRIES)] = DEFAULT_RETRIES
    #: Whether to check answers in languages with no or few refusal rules. If such an answer makes no call although the
    #: request concerns a tool, one decision request asks the model whether to call it.
    check_other_languages: bool = True
    #: What turns an answer that describes a call, or garbles it, into calls: nothing, or the embedded model.
    interpreter: Literal["", "embedded"] = ""
    #: When to restore tools that a later request no longer lists: after a tool result, always, or never.
    sticky_tools: Literal["results", "always", "never"] = "results"
    #: Whether the prompt describes tools by short signatures or by full schemas.
    contract: Literal["compact", "schema"] = "compact"
    #: Token budget for the tools in the prompt.
    contract_budget: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTRACT_BUDGET
    #: Whether to parse calls in the text of native answers.
    rescue: bool = True
    #: Whether to use constrained decoding if the upstream supports it.
    constrain: bool = True
    #: Whether to teach and check a response format that the upstream is not known to enforce, or only to send it.
    check_format: bool = True
    #: Whether an answer may contain several calls, and whether read-only calls run in parallel. If false, calls come
    #: one at a time, for models that are too small for more.
    parallel: bool = True
    #: What to do with a conversation that does not fit the model's context window: `off` sends it unchanged, `results`
    #: shortens old tool results, and `summary` also replaces old rounds with a summary by the model. If empty, an agent
    #: uses `summary`, and all others `off`.
    compact: Literal["", "off", "results", "summary"] = ""
    #: When to probe a model: in the background at first use, at server start, or never. If empty, upstreams on this
    #: machine are probed at first use, and others never, because that may cost money.
    probe: Literal["", "first-use", "startup", "off"] = ""

    def __post_init__(self) -> None:
        check_fields(Settings, msgspec.structs.asdict(self), "the settings")


class Plan(msgspec.Struct, frozen=True):
    """How one request is handled."""

    #: `pass` (request unchanged), `plain` (no tools, tool history as text), `native` tool calling, emulation (`inline`,
    #: `decision` or `envelope`), or `fallback` (native, then `second`).
    kind: PlanKind
    #: The emulation plan to use if a native answer contains no call.
    second: Literal["", "inline", "decision", "envelope"]
    #: The dialect of inline calls and of the tool history.
    dialect: str
    marks: Literal["nonce", "fixed"]
    #: Whether a call without the nonce counts: never, always, or only without side effects at first.
    unmarked: Literal["never", "counts", "confirm"]
    policy: Policy
    #: Whether calls are streamed as they arrive, held until they are valid or long, or held until they are valid.
    stream_calls: Literal["live", "held", "checked"]
    retries: int
    profile: Profile
    #: Whether to parse calls in the text of native answers.
    rescue: bool
    #: Whether the tools are also sent natively, because nothing is known about the upstream.
    tries_native: bool
    #: The rule that determined the plan.
    rule: str
    #: The reason, in words.
    why: str

    @property
    def native(self) -> bool:
        """Whether the tools are sent to the upstream natively."""
        return self.kind in _NATIVE

    @property
    def emulation(self) -> Literal["", "inline", "decision", "envelope"]:
        """The emulation plan, whether used at once or as a fallback; empty if there is none."""
        match self.kind:
            case "inline" | "decision" | "envelope":
                return self.kind
            case _:
                return self.second

    @property
    def warning(self) -> str:
        """The reason why the requested plan cannot be carried out; empty if it can."""
        return _WARNINGS.get(self.rule, "")


class Strategy(msgspec.Struct, frozen=True):
    """How requests with tools are handled for a model, and why."""

    native: bool
    capability: Capability
    plan: str
    rule: str
    why: str
    #: The reason why the requested plan cannot be carried out; empty if it can.
    warning: str = ""


#: The rules for upstreams of which nothing is known.
UNKNOWN_RULES = ("unknown", "foreign_host")
#: The rules that what use shows may change: nothing is known, or it was observed. Tools may then be sent both natively
#: and in the prompt, to find out how the model calls.
OPEN_RULES = (*UNKNOWN_RULES, "probe", "learned")
#: The rules for requests without tools and without tool history; the second, if toolspeak checks a response format.
_NO_TOOLS, _FORMAT = "no_tools", "response_format"
#: Kinds of tools that can be emulated.
_FUNCTIONS = ("function", "custom")


class _Decision(NamedTuple):
    """The essential parts of a plan. The rest follows from the settings and the profile."""

    kind: PlanKind
    rule: str
    why: str
    second: Literal["", "inline", "decision", "envelope"] = ""
    rescue: bool = False


class _Situation(NamedTuple):
    """The properties of a request that determine the plan."""

    tools: bool
    #: Whether at least one tool can be emulated.
    functions: bool
    #: Whether the conversation contains tool calls or results.
    history: bool
    choice: str
    demands: bool
    stream: bool
    #: Whether the answer must be JSON.
    formatted: bool = False
    #: Whether to find out how the model calls, by sending tools both natively and in the prompt.
    untried: bool = False


#: A request with one function.
_EXAMPLE = _Situation(tools=True, functions=True, history=False, choice="auto", demands=False, stream=False)
#: What each plan does, for people.
PLAN_TEXTS: Mapping[str, str] = read_toml("planning/plan_texts.toml", dict[str, str])
#: Plans that send the tools to the upstream natively.
_NATIVE = frozenset({"pass", "native", "fallback"})


#: Cached plans. Keys contain the ids of profile match and settings; values hold both objects, so the ids stay valid.
_plan_cache: dict[tuple[int, int, _Situation], tuple[ProfileMatch, Settings, Plan]] = {}
_MAX_CACHED_PLANS = 1024


def plan(request: Request, match: ProfileMatch, settings: Settings, *, untried: bool = False) -> Plan:
    """Choose the plan for a request. Tools from earlier turns must have been restored already.

    `untried`: whether to find out how the model calls, by sending tools both natively and in the prompt.
    """
    situation = _situation(request, untried)
    key = (id(match), id(settings), situation)
    cached = _plan_cache.get(key)
    if cached is None:
        if len(_plan_cache) >= _MAX_CACHED_PLANS:
            _plan_cache.clear()
        cached = _plan_cache[key] = (match, settings, _plan(situation, match, settings))
    return cached[2]


def _situation(request: Request, untried: bool) -> _Situation:
    tools, choice = request.tools, request.tool_choice
    messages = request.messages
    history = has_tool_history(messages)
    # The end of an answer that the client began is not JSON on its own.
    formatted = request.options.response_format is not None and bool(messages) and messages[-1].role != "assistant"
    return _Situation(
        bool(tools), _functions(tools), history, choice.mode, choice.demands, request.stream, formatted, untried
    )


def _functions(tools: tuple[Tool, ...]) -> bool:
    """Whether at least one tool can be emulated."""
    for tool in tools:  # noqa: SIM110 - the first tool nearly always decides
        if tool.kind in _FUNCTIONS and _is_plain_name()(tool.name):
            return True
    return False


@cache
def _is_plain_name() -> Callable[[str], bool]:
    # Imported here because requests without tools need no prompts.
    from ..prompting.escaping import is_plain_name

    return is_plain_name


def _adjusted(profile: Profile, settings: Settings) -> Profile:
    """Return the profile without the abilities that the settings disable."""
    if not settings.constrain:
        profile = msgspec.structs.replace(profile, constraint="")
    return profile if settings.parallel else msgspec.structs.replace(profile, parallel=False)


def _plan(situation: _Situation, match: ProfileMatch, settings: Settings) -> Plan:
    profile = _adjusted(match.profile, settings)
    decision = _decide(situation, match, settings)
    dialect = settings.dialect if settings.dialect not in ("", "auto") else profile.dialect
    # Without tools no call needs a nonce, so the dialect is not loaded.
    without_tools = decision.rule in (_NO_TOOLS, _FORMAT)
    marks = "fixed" if without_tools else _marks(dialect, settings, profile)
    lacks_nonce = settings.marks not in ("auto", "confirm", marks)
    unmarked = "; the dialect does not support the requested nonce" if lacks_nonce else ""
    reason = "the model garbles a second one" if settings.parallel else "`parallel` is false"
    is_single = not profile.parallel and decision.kind not in ("pass", "plain")
    single = f"; one call at a time, because {reason}" if is_single else ""
    demanding = not situation.stream or situation.demands
    tries_native = _tries_native(decision, situation, settings)
    return Plan(
        kind=decision.kind,
        second=decision.second,
        dialect=dialect,
        marks=marks,
        unmarked=_UNMARKED.get(settings.marks, "counts"),
        policy=settings.policy,
        stream_calls=settings.stream_calls or ("checked" if demanding else "held"),
        retries=settings.retries,
        profile=profile,
        rescue=decision.rescue and settings.rescue and profile.leaks,
        tries_native=tries_native,
        rule=decision.rule,
        why=decision.why + _ALSO_NATIVE * tries_native + ("" if without_tools else unmarked) + single,
    )


def _decide(situation: _Situation, match: ProfileMatch, settings: Settings) -> _Decision:
    if not situation.tools and not situation.history:
        enforced = settings.constrain and match.profile.constraint
        if situation.formatted and settings.check_format and settings.mode != "off" and not enforced:
            return _Decision("plain", _FORMAT, "the upstream is not known to enforce the response format")
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
            return _emulated(situation, match, settings, match.rule, f"no native tool calls: {match.why}")
        case "auto" if situation.demands and not match.profile.required and situation.functions:
            why = "the request demands a call, and the upstream does not enforce that"
            return _emulated(situation, match, settings, "required", why)
        case _:
            return _native(situation, match, settings)


def _native(situation: _Situation, match: ProfileMatch, settings: Settings) -> _Decision:
    """Decide for native tool calling, unless that is in doubt and tools can be sent both natively and in the prompt."""
    why = f"native tool calls: {match.why}"
    doubtful = _emulated(situation, match, settings, match.rule, f"in doubt: {why}")
    if _tries_native(doubtful, situation, settings):
        return doubtful
    return _Decision("native", match.rule, why, rescue=situation.choice != "none" and situation.functions)


#: Added to the reason of a plan that also sends tools natively.
_ALSO_NATIVE = "; tools are also sent natively, to find out whether the upstream supports them"


def _tries_native(decision: _Decision, situation: _Situation, settings: Settings) -> bool:
    """Whether the tools are sent both natively and in the prompt."""
    is_open = decision.kind == "inline" and decision.rule in OPEN_RULES
    return situation.untried and is_open and not settings.plan and settings.marks != "nonce"


def _fallback(situation: _Situation, match: ProfileMatch, settings: Settings) -> _Decision:
    """Decide for native tool calling, with emulation as a fallback if the request allows a call."""
    if not situation.tools:
        return _Decision("native", "history_only", "mode is fallback, but the request has no tools")
    if situation.choice == "none":
        return _Decision("native", "choice.none", "mode is fallback, but no call is allowed")
    if not situation.functions:
        return _Decision("native", "no_functions", "mode is fallback, but no tool is a function with a usable name")
    kind, note = _emulation(settings, match.profile, "decision")
    why = f"mode is fallback: native first, then {kind} if the answer has no call{note}"
    return _Decision("fallback", _UNCONSTRAINED if note else "mode.fallback", why, second=kind, rescue=True)


def _emulated(situation: _Situation, match: ProfileMatch, settings: Settings, rule: str, why: str) -> _Decision:
    if not situation.tools:
        return _Decision("plain", "history_only", "the tool history is sent as text; the request has no tools")
    if situation.choice == "none":
        return _Decision("plain", "choice.none", "no call is allowed, so tools are removed")
    if not situation.functions:
        return _Decision(
            "plain", "no_functions", "no tool can be emulated: that requires a function with a usable name"
        )
    kind, note = _emulation(settings, match.profile, "inline")
    return _Decision(kind, _UNCONSTRAINED if note else rule, f"{why}{note}")


_UNCONSTRAINED = "envelope.unconstrained"
#: Warnings about plans that cannot be carried out, by rule.
_WARNINGS = {
    _UNCONSTRAINED: (
        "the plan is inline instead of envelope: the upstream is not known to enforce a schema; "
        "set `constraint` for the model, or choose another plan"
    )
}


def _emulation(settings: Settings, profile: Profile, default: Emulation) -> tuple[Emulation, str]:
    """Return the emulation plan, and a remark if it differs from the requested one."""
    emulation = settings.plan or profile.plan or default
    if emulation == "envelope" and not settings.plan and not settings.constrain:
        return default, ""  # the profile chose the envelope because of constraints, which are off
    if emulation == "envelope" and not profile.constraint:
        return "inline", "; inline instead of the requested envelope, because the upstream is not known to enforce one"
    return emulation, ""


_UNMARKED: dict[str, Literal["never", "confirm"]] = {"nonce": "never", "confirm": "confirm"}


def _marks(dialect: str, settings: Settings, profile: Profile) -> Literal["nonce", "fixed"]:
    marks = settings.marks if settings.marks in ("nonce", "fixed") else profile.marks
    if marks == "optional":  # a program that runs the calls itself relies on the nonce
        marks = "nonce" if settings.marks == "confirm" else "fixed"
    return "fixed" if marks == "fixed" or not carries_nonce(dialect) else "nonce"


@cache
def carries_nonce(name: str) -> bool:
    """Whether calls in this dialect can carry a nonce."""
    # Imported here because requests without tools need no dialect.
    from ...dialects.registry import render_calls

    calls = [ToolCall("f", {})]
    return render_calls(name, calls, "k7q2xm") != render_calls(name, calls)


def strategy(
    model: str,
    base_url: str = "",
    *,
    settings: Settings | None = None,
    known: Capabilities | None = None,
    learned: Learned | None = None,
) -> Strategy:
    """Explain how requests with tools are handled for `provider:model`, and which rule determines that.

    >>> strategy("deepinfra:deepseek-ai/DeepSeek-V3-0324").plan
    'native'
    """
    provider, name = split_model(model)
    require(base_url, str, "`base_url`", "a string")
    require(settings, Settings | None, "`settings`", "a `Settings`")
    load_plugins()
    match = (known or capabilities()).find(provider, name, base_url, learned)
    untried = bool(base_url) and match.rule in UNKNOWN_RULES
    planned = plan(Request(name, (), (Tool("example"),)), match, settings or Settings(), untried=untried)
    return msgspec.structs.replace(brief_strategy(match, settings or Settings()), why=planned.why)


def brief_strategy(match: ProfileMatch, settings: Settings) -> Strategy:
    """Return the strategy for a profile, with the main reason only. This is fast, because no dialect is loaded."""
    situation = _EXAMPLE._replace(untried=match.rule in UNKNOWN_RULES)
    kind, rule, why, *_ = decision = _decide(situation, match, settings)
    why += _ALSO_NATIVE * _tries_native(decision, situation, settings)
    return Strategy(kind in _NATIVE, match.profile.capability, kind, rule, why, _WARNINGS.get(rule, ""))
