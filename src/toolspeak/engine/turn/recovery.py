"""Recovery: diagnose a faulty answer and write the retry prompt.

`diagnose` finds the fault of an answer without a usable call; an ordinary answer has none. `check_format` checks an
answer that must be JSON. `instruction` writes the retry prompt: what was wrong, what to do, an example; stronger with
each attempt. Text from the model or from documents is quoted on one line, shortened, with control tokens neutralised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ...core.events import Candidate, Reply
from ...core.json_repair.parser import UNSAFE_NOTES
from ...core.json_repair.whole_text import loads
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.schema.argument_schema import ArgumentSchema
from ...core.text import printable
from ...core.types import JSONValue, Message, Note, ResponseFormat, Tool, ToolChoice, is_object
from ...errors import SchemaError
from ..prompting.escaping import display_name, neutralise, one_line
from ..prompting.history import results_of, since_last_user
from ..refusals.answer_view import fold, offer_of
from ..refusals.classifier import Category, Verdict, classify
from ..refusals.tables import DENIES_TOOLS
from .faults import Fault, FaultKind

#: Both people and the model read a detail: enough for several problems, too short for a document.
MAX_DETAIL = 600
#: Tool names listed in one message. The contract lists all of them.
MAX_NAMES = 24
#: The upstream cut off or withheld the answer: a retry would give the same.
_FINAL_REASONS = frozenset({"length", "content_filter", "error"})


# ---- diagnosis


def diagnose(
    reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...] = ()
) -> Fault | None:
    """Find the fault of this answer; None if it is acceptable, or if a retry must not or cannot help.

    An answer with valid calls is accepted whatever else it contains. A call cut off by the token limit is not retried,
    nor is a request that the model declined for safety reasons.
    """
    if choice.mode == "none" or reply.failure is not None:
        return None
    allowed = [call for call in reply.calls if choice.permits(call.name)]
    if allowed:
        many = choice.single and len(allowed) > 1
        return Fault("too_many", f"{len(allowed)} calls where one is allowed") if many else None
    if reply.finish_reason in _FINAL_REASONS:
        return None
    fault = _call_fault(reply, choice, tools) if reply.candidates else None
    return fault or _text_fault(reply, choice, _permitted(choice, tools), messages)


def _call_fault(reply: Reply, choice: ToolChoice, tools: Sequence[Tool]) -> Fault | None:
    """The fault of the first faulty candidate."""
    by_name = {tool.name: tool for tool in tools}
    faults = (_candidate_fault(candidate, reply, choice, by_name) for candidate in reply.candidates)
    return next((fault for fault in faults if fault is not None), None)


def _permitted(choice: ToolChoice, tools: Sequence[Tool]) -> Sequence[Tool]:
    return [tool for tool in tools if choice.permits(tool.name)] if choice.allowed else tools


#: The fault of each category of answers.
_BY_CATEGORY: dict[Category, FaultKind] = {
    "no_tools": "refusal",
    "cannot_access": "refusal",
    "describes": "described",
    "asks_permission": "permission",
}


def _text_fault(reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]) -> Fault | None:
    """The fault of an answer that is only text.

    Not faults: asking for permission if every tool has side effects, mentioning a call that a document contains (the
    model must not be pushed into making it), and reporting how an earlier call went.
    """
    verdict = classify(reply.text, [tool.name for tool in tools])
    polite = verdict.category == "asks_permission" and all(
        tool.side_effects or tool.name in ALWAYS_SIDE_EFFECTS for tool in tools
    )
    quotes = verdict.category == "describes" and _quotes(reply, tools, messages)
    acceptable = polite or quotes or _reports(verdict, reply.text, messages)
    if verdict.category == "safety" or (acceptable and not choice.demands):
        return None
    if verdict.category in _BY_CATEGORY:
        return Fault(_BY_CATEGORY[verdict.category], f"{verdict.category.replace('_', ' ')} ({verdict.language})")
    return Fault("no_call") if choice.demands else None


def _quotes(reply: Reply, tools: Sequence[Tool], messages: tuple[Message, ...]) -> bool:
    """Whether the call mentioned in an answer may come from a tool result that contains it or names the tool."""
    if any(candidate.reason == "echo" for candidate in reply.candidates):
        return True
    names = [tool.name for tool in tools if tool.name in reply.text]
    results = (result.content for message in messages for result in results_of(message)) if names else ()
    return any(name in content for content in results for name in names)


def _reports(verdict: Verdict, text: str, messages: tuple[Message, ...]) -> bool:
    """Whether an apparent refusal may be a report on calls whose results the model has just received.

    Retrying after a report would repeat the action. Only a claim to have no tools at all is wrong even then.
    """
    if _BY_CATEGORY.get(verdict.category) != "refusal":
        return False
    since = since_last_user(messages)
    latest = messages[-len(since) - 1 :]  # includes results that came with the user's text
    if not any(results_of(message) for message in latest):
        return False
    called = {call.name for message in messages for call in message.calls}
    return verdict.rule not in DENIES_TOOLS or offer_of(tuple(sorted(called))).may_be_named(fold(text))


_Check = Callable[[Candidate, Reply, ToolChoice, dict[str, Tool]], Fault | None]


def _candidate_fault(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    check = _CHECKS.get(candidate.verdict) or _CHECKS.get(candidate.reason)
    return check(candidate, reply, choice, by_name) if check is not None else None


def _forbidden(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """An accepted call to a tool that `tool_choice` does not permit."""
    if choice.permits(candidate.name):
        return None
    detail = f"`{_quoted(candidate.name)}` may not be called now"
    return Fault("unknown_tool", detail, candidate.name)


def _invalid(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    codes = {note.code: note.detail for note in candidate.notes}
    if "unsafe_repair" in codes:
        detail = (
            f"`{_quoted(candidate.name)}`: the arguments are not valid JSON, and guessing is not safe for this tool"
        )
    else:
        detail = _quoted(codes.get("arguments_invalid", f"`{candidate.name}`"))
    return Fault("bad_arguments", detail, candidate.name)


def _misfit(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call without markers whose arguments do not fit. In the middle of an answer it is only an example."""
    tool = by_name.get(candidate.name)
    if tool is None or not (choice.demands or candidate.evidence.get("answer_start")):
        return None
    return Fault("bad_arguments", _quoted(f"`{candidate.name}`: {'; '.join(_problems(tool, candidate))}"), tool.name)


def _problems(tool: Tool, candidate: Candidate) -> Iterable[str]:
    refused = tuple(note.detail for note in candidate.notes if note.code in UNSAFE_NOTES)
    try:
        return refused + ArgumentSchema.of(tool.parameters).coerce(candidate.arguments).problems
    except SchemaError:
        return refused


def _unknown(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call to an unknown tool. Without call markers, only if it starts the answer and resembles a tool's name."""
    evidence = candidate.evidence
    near = any(note.code == "near_miss" for note in candidate.notes)
    deliberate = evidence.get("wrapper") == "strong" and evidence.get("line_start")
    if not (deliberate or (near and evidence.get("answer_start")) or choice.demands):
        return None
    detail = next((note.detail for note in candidate.notes if note.code in ("near_miss", "unknown_tool")), "")
    return Fault("unknown_tool", _quoted(detail or f"`{candidate.name}` is not a tool"), candidate.name)


def _unmarked(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call to a known tool without the nonce."""
    if candidate.name in by_name and (choice.demands or candidate.evidence.get("answer_start")):
        return Fault("no_call", f"the marks around the call of `{_quoted(candidate.name)}` were not the ones asked for")
    return None


def _truncated(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    if candidate.evidence.get("wrapper") != "strong" and not choice.demands:
        return None
    return Fault("truncated", f"the call of `{_quoted(candidate.name or '?')}` was not finished", candidate.name)


def _in_reasoning(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call inside the reasoning; a fault unless an answer in text follows."""
    if reply.text.strip() and not choice.demands:
        return None
    return Fault("in_reasoning", f"`{_quoted(candidate.name)}` was called inside the reasoning", candidate.name)


#: By verdict, or by reason for candidates that stayed text.
_CHECKS: dict[str, _Check] = {
    "call": _forbidden,
    "invalid": _invalid,
    "truncated": _truncated,
    "reasoning": _in_reasoning,
    "unknown_tool": _unknown,
    "does_not_fit": _misfit,
    "no_nonce": _unmarked,
}


def _quoted(text: str) -> str:
    """Quote untrusted text: one line, shortened, with control tokens and call markers neutralised."""
    return neutralise(one_line(printable(text[: MAX_DETAIL * 4], " "), MAX_DETAIL), "own")


# ---- response format


class FormattedAnswer(msgspec.Struct, frozen=True):
    """An answer that must be JSON: the text to emit, notes on repairs, and the problem if it is unusable."""

    text: str
    notes: tuple[Note, ...] = ()
    problem: str = ""


def check_format(text: str, response_format: ResponseFormat) -> FormattedAnswer:
    """Repair the answer into strict JSON that fits the requested format. A correct answer stays unchanged."""
    try:
        value, notes = _parse_json(text)
    except ValueError:
        return FormattedAnswer(text, problem="the answer is not JSON")
    if response_format.schema is None:
        problem = "" if is_object(value) else "the answer is not a JSON object"
    else:
        aligned = ArgumentSchema.of(response_format.schema).coerce(value)
        value, notes, problem = aligned.value, (*notes, *aligned.notes), "; ".join(aligned.problems)
    if problem:
        return FormattedAnswer(text, problem=problem)
    return FormattedAnswer(msgspec.json.encode(value).decode(), notes) if notes else FormattedAnswer(text)


def _parse_json(text: str) -> tuple[JSONValue, tuple[Note, ...]]:
    try:
        return msgspec.json.decode(text), ()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Not JSON, half of a surrogate pair, or too deep: try the lenient parser.
        return loads(text), (Note("format_repaired", "the answer was not strict JSON"),)


# ---- instruction

#: What was wrong. `{detail}` starts with a colon; `{names}` are the tools.
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
    "no_call": "Your last answer did not include a tool call{detail}.",
    "too_many": "You made more than one tool call. Exactly one is allowed in this answer.",
    "bad_format": "Your answer does not have the form that was asked for{detail}.",
    "empty": "Your last answer was empty.",
}

#: What to do now, stronger each time; the last entry serves for all further attempts.
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
    """Write the retry prompt: what was wrong, what to do, an example of a call. `attempt` counts from 1.

    >>> print(instruction(Fault("truncated", "the call of `ping` was not finished"), 1, tools=[]))
    Your tool call was not finished: the call of `ping` was not finished. Nothing of it was run.
    <BLANKLINE>
    Write the whole call again from its beginning to its closing mark.
    <BLANKLINE>
    Use the function calling interface for the call; do not write it as text.
    """
    orders = _ORDERS[fault.kind]
    order = orders[min(max(attempt, 1), len(orders)) - 1]
    detail = _quoted(fault.detail).strip().rstrip(".")
    problem = _PROBLEMS[fault.kind].format(names=_name_list(tools), detail=f": {detail}" if detail else "")
    parts = [problem, order]
    if fault.kind != "bad_format":
        parts.append(f"{_EXAMPLE_HEADING}\n\n{example}" if example else _NATIVE)
    if last:
        parts.append(_LAST_ATTEMPT)
    return "\n\n".join(parts)


def _name_list(tools: Sequence[Tool]) -> str:
    names = [f"`{_quoted(display_name(tool.name))}`" for tool in tools[:MAX_NAMES]]
    more = len(tools) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
