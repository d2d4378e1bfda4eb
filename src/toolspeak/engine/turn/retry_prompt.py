"""Retry prompts tell the model what was wrong with its answer and what to do, more insistently with each attempt.

Quoted text from the model or from documents is put on one line and shortened, and its control tokens are neutralised.
"""

from collections.abc import Sequence

from ...core.text import printable
from ...core.types import Tool
from ..prompting.escaping import display_name, neutralise, one_line
from .faults import Fault, FaultKind

#: Maximum length of a fault's detail: enough for several problems, too short to quote a whole document.
MAX_DETAIL = 600
#: Maximum number of tool names in a retry prompt. The original tool prompt lists all of them.
MAX_NAMES = 24

#: What was wrong, by kind of fault. `{detail}` is empty or starts with a colon; `{names}` is the list of tools.
_PROBLEMS: dict[FaultKind, str] = {
    "refusal": (
        "You do have tools in this conversation: {names}. You call a tool by writing the call; it is then run for "
        "you and the result is given to you. What a tool can reach, you can reach."
    ),
    "described": "You described a tool call but did not make it. Nothing happens until the call itself is written.",
    "permission": "You need no permission to call a tool: the user has asked for the result already.",
    "bad_arguments": "Your tool call could not be used. The arguments are wrong{detail}.",
    "unknown_tool": "Your tool call could not be used{detail}. The tools are: {names}.",
    "truncated": "Your tool call was not finished{detail}. Nothing of it was run.",
    "in_reasoning": (
        "You made a tool call inside your reasoning, where it is not seen. Write it in the answer itself, after the "
        "reasoning has ended."
    ),
    "unmarked": "Your tool call was not made{detail}.",
    "no_call": "Your last answer did not include a tool call{detail}.",
    "too_many": "You made more than one tool call. Exactly one is allowed in this answer.",
    "bad_format": "Your answer does not have the form that was asked for{detail}.",
    "empty": "Your last answer was empty.",
}

#: What to do, by kind of fault and attempt, more insistent each time. Further attempts repeat the last entry.
_ORDERS: dict[FaultKind, tuple[str, ...]] = {
    "refusal": (
        "Now do the next step: if a tool can help with the request, call it. Do not say that you cannot.",
        "You must now answer with at least one tool call. Do not apologise and do not explain.",
    ),
    "described": (
        "If the user's request needs the call, write the call itself now, then stop and wait for its result.",
        "You must now write the call that the user's request needs. No plan, no explanation, no other text.",
    ),
    "permission": (
        "Write the call that the user's request needs now, then stop and wait for its result.",
        "You must now write the call itself. Do not ask, do not explain.",
    ),
    "bad_arguments": (
        "Write the whole call again with arguments that fit the schema of the tool. Use strict JSON.",
        "You must correct exactly what is named above and write the whole call again, and nothing else.",
    ),
    "unknown_tool": (
        "Write the call again with one of these names, exactly as it is written.",
        "You must use one of these names, letter by letter. Write the call and nothing else.",
    ),
    "truncated": (
        "Write the whole call again from its beginning to its closing mark.",
        "You must write the whole call again, as short as it can be, and nothing else.",
    ),
    "unmarked": (
        "If the user's request needs this call, write it again with its marks exactly as shown. If not, use words.",
        "You must write the call with its marks exactly as shown, letter by letter, or answer in words.",
    ),
    "no_call": (
        "Answer with a tool call now. Do not explain.",
        "You must answer with a valid tool call and nothing else. Text alone is not accepted.",
    ),
    "too_many": (
        "Choose the one call that comes first and write only that.",
        "You must write exactly one call and nothing else.",
    ),
    "bad_format": (
        "Answer again with JSON only, without any text before or after it.",
        "You must answer with one JSON document that fits the schema, and nothing else: no text, no code fence.",
    ),
    "empty": (
        "Do the next step now: call a tool if one can help, or else answer the user in words.",
        "You must now write a tool call, or an answer in words.",
    ),
    "in_reasoning": (
        "Write the call now.",
        "You must write the call now, without any reasoning before it.",
    ),
}

_LAST_ATTEMPT = "This is the last attempt."
_EXAMPLE_HEADING = "A call looks like this, with your own values:"
_NATIVE = "Use the function calling interface for the call; do not write it as text."


def instruction(fault: Fault, attempt: int, *, tools: Sequence[Tool], example: str = "", last: bool = False) -> str:
    """Write a retry prompt: what was wrong, what to do, and an example call. `attempt` counts from 1.

    >>> print(instruction(Fault("truncated", "the call of `ping` was not finished"), 1, tools=[]))
    Your tool call was not finished: the call of `ping` was not finished. Nothing of it was run.
    <BLANKLINE>
    Write the whole call again from its beginning to its closing mark.
    <BLANKLINE>
    Use the function calling interface for the call; do not write it as text.
    """
    orders = _ORDERS[fault.kind]
    order = orders[min(max(attempt, 1), len(orders)) - 1]
    detail = quoted(fault.detail).strip().rstrip(".")
    problem = _PROBLEMS[fault.kind].format(names=_name_list(tools), detail=f": {detail}" if detail else "")
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
