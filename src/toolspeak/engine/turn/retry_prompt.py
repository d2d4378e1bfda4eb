"""Retry prompts tell the model what was wrong with its answer and what to do, more insistently with each attempt.

Quoted text from the model or from documents is put on one line and shortened, and its control tokens are neutralised.
"""

from collections.abc import Sequence
from functools import cache

import msgspec

from ...core.text import printable
from ...core.types import Tool
from .. import read_toml
from ..prompting.escaping import display_name, neutralise, one_line
from .faults import Fault, FaultKind

#: Maximum length of a fault's detail: enough for several problems, too short to quote a whole document.
MAX_DETAIL = 600
#: Maximum number of tool names in a retry prompt. The original tool prompt lists all of them.
MAX_NAMES = 24

_LAST_ATTEMPT = "This is the last attempt."
_EXAMPLE_HEADING = "A call looks like this, with your own values:"
_NATIVE = "Use the function calling interface for the call; do not write it as text."


class _Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was wrong, and what to do, more insistent each time."""

    problem: str
    orders: tuple[str, ...]


@cache
def _prompts() -> dict[FaultKind, _Prompt]:
    return read_toml("turn/retry_prompts.toml", dict[FaultKind, _Prompt])


def instruction(fault: Fault, attempt: int, *, tools: Sequence[Tool], example: str = "", last: bool = False) -> str:
    """Write a retry prompt: what was wrong, what to do, and an example call. `attempt` counts from 1.

    >>> print(instruction(Fault("truncated", "the call of `ping` was not finished"), 1, tools=[]))
    Your tool call was not finished: the call of `ping` was not finished. Nothing of it was run.
    <BLANKLINE>
    Write the whole call again from its beginning to its closing mark.
    <BLANKLINE>
    Use the function calling interface for the call; do not write it as text.
    """
    prompt = _prompts()[fault.kind]
    order = prompt.orders[min(max(attempt, 1), len(prompt.orders)) - 1]
    detail = quoted(fault.detail).strip().rstrip(".")
    problem = prompt.problem.format(names=_name_list(tools), detail=f": {detail}" if detail else "")
    parts = [problem, order]
    if fault.kind != "bad_format":
        parts.append(f"{_EXAMPLE_HEADING}\n\n{example}" if example else _NATIVE)
    if last:
        parts.append(_LAST_ATTEMPT)
    return "\n\n".join(parts)


def _name_list(tools: Sequence[Tool]) -> str:
    names = [f"`{quoted(display_name(tool.name))}`" for tool in tools[:MAX_NAMES]]
    more = len(tools) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def quoted(text: str) -> str:
    """Make untrusted text safe to quote: one line, shortened, with control tokens and call markers neutralised."""
    return neutralise(one_line(printable(text[: MAX_DETAIL * 4], " "), MAX_DETAIL), "own")
