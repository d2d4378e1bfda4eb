"""Checks of an agent's arguments. Mistakes of the caller raise a `UsageError` before a model is asked."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from ..config.values import ApprovalMode
from ..core.types import require
from ..engine.planning.strategy import Settings
from ..errors import UsageError
from ..runtime.options import split_options
from ..runtime.tool_memory import build_request

APPROVAL_MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)

#: Arguments that an agent does not have, and what to use instead.
_ELSEWHERE = {
    "context_window": 'call ts.override_model("PROVIDER:MODEL", {"context_window": 8192})',
    "messages": "pass the messages to `run`",
    "model": "pass the model as the first argument",
    "output": "use `output_type`",
    "stream": "use the `stream` method",
    "system": "use `instructions`",
    "system_prompt": "use `instructions`",
    "timeout": "use `max_seconds` or `tool_timeout`",
    "tool_choice": "an agent lets the model choose",
}


def check_options(options: Mapping[str, Any], keywords: Iterable[str], *, typed: bool) -> None:
    """Check the settings and request fields of an agent. `keywords` are the names of its other arguments.

    `typed`: whether the agent has an output type.
    Raises UsageError if a name is misspelt or not allowed, or a value is wrong.
    """
    if typed and "response_format" in options:
        raise UsageError("`response_format` and `output_type` contradict each other", hint="omit one of them")
    settings, fields = split_options(options, keywords, _ELSEWHERE)
    msgspec.structs.replace(Settings(), **settings)
    build_request("", "check", None, None, True, fields)


def check_approval(approval: object, approve: object) -> None:
    """Check the approval mode, alone and together with the `approve` argument."""
    if approval is None:
        return
    if approval not in APPROVAL_MODES:
        raise UsageError(f"unknown approval mode {approval!r:.80}", hint=f"use one of {', '.join(APPROVAL_MODES)}")
    if approval == "ask" and approve is None:
        raise UsageError('`approval="ask"` needs someone to ask', hint="pass `approve`")
    if approval == "auto" and approve is not None:
        raise UsageError('`approval="auto"` asks no one, but `approve` is set', hint='omit one of them, or use "ask"')


def check_types(instructions: object, parallel: object, on_event: object, store: object) -> None:
    """Check the types of arguments, for callers that do not use a type checker."""
    require(instructions, str, "`instructions`", "a string")
    if parallel is not None:
        require(parallel, bool, "`parallel`", "a boolean or None")
    if on_event is not None and not callable(on_event):
        raise UsageError("`on_event` must be a function that takes an event")
    if store is not None and not isinstance(store, str) and not callable(getattr(store, "journal", None)):
        kind = type(store).__name__
        raise UsageError(f"`store` must be a URL or a store, not a `{kind}`", hint='for example "sqlite:///work.db"')


def check_limits(
    max_rounds: object, max_tokens: object, max_output: object, max_seconds: object, tool_timeout: object
) -> None:
    """Check that limits are numbers greater than 0, or None. Only times may be fractions."""
    whole = {"max_rounds": max_rounds, "max_tokens": max_tokens, "max_output": max_output}
    for name, value in (whole | {"max_seconds": max_seconds, "tool_timeout": tool_timeout}).items():
        if name in whole and isinstance(value, float):
            raise UsageError(f"`{name}` must be a whole number, not {value!r}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise UsageError(f"`{name}` must be greater than 0, not {value!r}")
