"""The keyword arguments of clients and agents that are settings or request fields.

They are listed once here, so editors and type checkers know each of them, and a misspelt one is an error. Anything else
that an upstream understands goes into `extra_body`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, cast

from ..core.parsing.acceptance import Policy
from ..core.text import suggestion
from ..core.types import JSONObject, JSONValue, is_object
from ..engine.planning.strategy import Mode
from ..errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class CommonSettings(TypedDict, total=False):
    """The settings of clients and agents. `toolspeak.engine.planning.strategy.Settings` describes each of them."""

    mode: Mode
    plan: Literal["", "inline", "decision", "envelope"]
    dialect: str
    policy: Policy
    marks: Literal["nonce", "fixed", "auto", "confirm"]
    chat_only: bool
    stream_calls: Literal["", "live", "checked"]
    text_before_calls: Literal["keep", "drop"]
    retries: int
    check_other_languages: bool
    interpreter: Literal["", "embedded"]
    sticky_tools: Literal["results", "always", "never"]
    contract: Literal["compact", "schema"]
    contract_budget: int
    rescue: bool
    constrain: bool
    check_format: bool
    compact: Literal["", "off", "results", "summary"]
    probe: Literal["", "first-use", "startup", "off"]


class SettingOptions(CommonSettings, total=False):
    parallel: bool


class CommonFields(TypedDict, total=False):
    """Fields of a chat completions request. Those that are None are not sent."""

    audio: Mapping[str, JSONValue] | None
    #: Fields to send as they are, for whatever else the upstream understands.
    extra_body: Mapping[str, JSONValue] | None
    frequency_penalty: float | None
    logit_bias: Mapping[str, float] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    metadata: Mapping[str, str] | None
    min_p: float | None
    modalities: list[str] | None
    moderation: Mapping[str, JSONValue] | None
    parallel_tool_calls: bool | None
    prediction: Mapping[str, JSONValue] | None
    presence_penalty: float | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning_effort: str | None
    repetition_penalty: float | None
    response_format: Mapping[str, JSONValue] | None
    safety_identifier: str | None
    seed: int | None
    service_tier: str | None
    stop: str | list[str] | None
    stream_options: Mapping[str, JSONValue] | None
    temperature: float | None
    top_k: int | None
    top_logprobs: int | None
    top_p: float | None
    user: str | None
    verbosity: str | None
    web_search_options: Mapping[str, JSONValue] | None


class TurnOptions(SettingOptions, CommonFields, total=False):
    """The settings and request fields of one turn."""

    max_tokens: int | None
    store: bool | None


class AgentTurnOptions(CommonSettings, CommonFields, total=False):
    """The settings and request fields of an agent. `parallel`, `max_tokens` and `store` are arguments of its own."""


SETTINGS = frozenset(SettingOptions.__annotations__)
_NAMES = frozenset(TurnOptions.__annotations__)
_IN_MESSAGES = 'begin `messages` with {"role": "system", "content": "..."}'
#: Arguments that other libraries have, and what to use instead.
_ELSEWHERE = {
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "instructions": _IN_MESSAGES,
    "model": "the model is an argument of `Client`",
    "n": "ask once per answer",
    "stream": "use the `stream` method",
    "system": _IN_MESSAGES,
    "system_prompt": _IN_MESSAGES,
}


def split_options(
    options: Mapping[str, Any], others: Iterable[str] = (), elsewhere: Mapping[str, str] = _ELSEWHERE
) -> tuple[dict[str, Any], JSONObject]:
    """Separate settings from request fields.

    `others` are the names of the caller's other arguments, for suggestions; `elsewhere` says what to use instead of
    arguments that it does not have.
    Raises UsageError if a name is unknown.
    """
    if not _NAMES.issuperset(options) or not elsewhere.keys().isdisjoint(options):
        name = next(each for each in options if each in elsewhere or each not in _NAMES)
        otherwise = f"pass fields that only the upstream knows as extra_body={{{name!r}: ...}}"
        hint = elsewhere.get(name) or suggestion(name, (*others, *sorted(_NAMES)), otherwise)
        raise UsageError(f"unknown argument `{name}`", hint=hint)
    settings = {name: value for name, value in options.items() if name in SETTINGS}
    fields = {name: value for name, value in options.items() if name not in SETTINGS and value is not None}
    extra: Any = fields.pop("extra_body", None) or {}
    if not is_object(extra):
        raise UsageError("`extra_body` must be a dict of request fields")
    if twice := fields.keys() & extra.keys():
        raise UsageError(f"`{min(twice)}` is given twice", hint="omit it in `extra_body`")
    return settings, {**fields, **extra}


def list_options(options: type) -> Callable[[F], F]:
    """Decorator that lists the options of a function one by one in its signature, for `help` and for notebooks."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
            for name, kind in options.__annotations__.items()
        ]
        cast("Any", function).__signature__ = own.replace(parameters=[*tuple(own.parameters.values())[:-1], *listed])
        return function

    return decorate
