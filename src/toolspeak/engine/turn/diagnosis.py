"""Diagnosis: find the fault of an answer without a usable call. An ordinary answer has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...core.events import Candidate, Reply
from ...core.json_repair.parser import UNSAFE_NOTES
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.schema.argument_schema import ArgumentSchema
from ...core.types import Message, Tool, ToolChoice
from ...errors import SchemaError
from ..prompting.history import results_of, since_last_user
from ..refusals.answer_view import fold, offer_of
from ..refusals.classifier import Category, Verdict, classify
from ..refusals.tables import DENIES_TOOLS
from .faults import Fault, FaultKind
from .retry_prompt import quoted

#: The upstream cut off or withheld the answer: a retry would give the same.
_FINAL_REASONS = frozenset({"length", "content_filter", "error"})


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
    detail = f"`{quoted(candidate.name)}` may not be called now"
    return Fault("unknown_tool", detail, candidate.name)


def _invalid(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    codes = {note.code: note.detail for note in candidate.notes}
    if "unsafe_repair" in codes:
        detail = f"`{quoted(candidate.name)}`: the arguments are not valid JSON, and guessing is not safe for this tool"
    else:
        detail = quoted(codes.get("arguments_invalid", f"`{candidate.name}`"))
    return Fault("bad_arguments", detail, candidate.name)


def _misfit(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call without markers whose arguments do not fit. In the middle of an answer it is only an example."""
    tool = by_name.get(candidate.name)
    if tool is None or not (choice.demands or candidate.evidence.get("answer_start")):
        return None
    return Fault("bad_arguments", quoted(f"`{candidate.name}`: {'; '.join(_problems(tool, candidate))}"), tool.name)


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
    return Fault("unknown_tool", quoted(detail or f"`{candidate.name}` is not a tool"), candidate.name)


def _unmarked(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call to a known tool without the nonce."""
    if candidate.name in by_name and (choice.demands or candidate.evidence.get("answer_start")):
        return Fault("no_call", f"the marks around the call of `{quoted(candidate.name)}` were not the ones asked for")
    return None


def _truncated(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    if candidate.evidence.get("wrapper") != "strong" and not choice.demands:
        return None
    return Fault("truncated", f"the call of `{quoted(candidate.name or '?')}` was not finished", candidate.name)


def _in_reasoning(candidate: Candidate, reply: Reply, choice: ToolChoice, by_name: dict[str, Tool]) -> Fault | None:
    """A call inside the reasoning; a fault unless an answer in text follows."""
    if reply.text.strip() and not choice.demands:
        return None
    return Fault("in_reasoning", f"`{quoted(candidate.name)}` was called inside the reasoning", candidate.name)


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
