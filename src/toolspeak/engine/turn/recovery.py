"""What went wrong with an answer, and the words to ask again with.

`diagnose` looks at one attempt that brought no call that may be used and names its fault; an answer that is simply an
answer has none. `instruction` turns a fault into a message: what was wrong, what to do now, how it looks; each time in
stronger words. Both are tables first: the order in which candidates count, and the sentences for each kind of fault.

Whatever the model or a document wrote (names, values) is quoted in a message only on one line, shortened and with its
control tokens set apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...core.events import Candidate, Reply
from ...core.json_repair.parser import REFUSED
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.schema.arguments import ArgumentSchema
from ...core.text import printable
from ...core.types import Message, Tool, ToolChoice
from ...errors import SchemaError
from ..prompting.escaping import neutralise, one_line, shown_name
from ..prompting.history import results_of, since_last_user
from ..refusals.answer_view import fold, offer_of
from ..refusals.classifier import Category, Verdict, classify
from ..refusals.tables import DENIES_TOOLS
from .faults import Fault, FaultKind

#: A detail is for a person's eye as well as the model's: long enough for several problems, too short for a document.
MAX_DETAIL = 600
#: Names shown in one message. The contract above lists all of them.
MAX_NAMES = 24
#: The answer was cut off or withheld by the upstream: asking again would give the same.
_FINAL_REASONS = frozenset({"length", "content_filter", "error"})


# --------------------------------------------------------------------------------------------- diagnosis


def diagnose(
    reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...] = ()
) -> Fault | None:
    """What is wrong with this answer to the messages; None when it stands, or asking again must not or cannot help.

    Valid calls win: what else was tried beside them is in the candidates. A call that the token limit cut off is never
    asked for again, nor is anything that was declined for reasons of safety.
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
    """What is wrong with the first thing that looked like a call and is a fault."""
    known = {tool.name: tool for tool in tools}
    faults = (_candidate_fault(candidate, reply, choice, known) for candidate in reply.candidates)
    return next((fault for fault in faults if fault is not None), None)


def _permitted(choice: ToolChoice, tools: Sequence[Tool]) -> Sequence[Tool]:
    return [tool for tool in tools if choice.permits(tool.name)] if choice.allowed else tools


#: What a category of answers amounts to.
_BY_CATEGORY: dict[Category, FaultKind] = {
    "no_tools": "refusal",
    "cannot_access": "refusal",
    "describes": "described",
    "asks_permission": "permission",
}


def _text_fault(reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]) -> Fault | None:
    """The answer is text: it declines, announces, asks, or answers.

    Where every tool changes the world, asking first is good manners and not a fault. Nor is it one to speak of a call
    that stands in a document: nobody is talked into making that. Nor to tell how a call went that has been made.
    """
    verdict = classify(reply.text, [tool.name for tool in tools])
    polite = verdict.category == "asks_permission" and all(
        tool.side_effects or tool.name in ALWAYS_SIDE_EFFECTS for tool in tools
    )
    quotes = verdict.category == "describes" and _quotes(reply, tools, messages)
    stands = polite or quotes or _reports(verdict, reply.text, messages)
    if verdict.category == "safety" or (stands and not choice.demands):
        return None
    if verdict.category in _BY_CATEGORY:
        return Fault(_BY_CATEGORY[verdict.category], f"{verdict.category.replace('_', ' ')} ({verdict.language})")
    return Fault("no_call") if choice.demands else None


def _quotes(reply: Reply, tools: Sequence[Tool], messages: tuple[Message, ...]) -> bool:
    """Whether the call that an answer speaks of may come from a result: it stands there, or the tool is named there."""
    if any(candidate.reason == "echo" for candidate in reply.candidates):
        return True
    named = [tool.name for tool in tools if tool.name in reply.text]
    results = (result.content for message in messages for result in results_of(message)) if named else ()
    return any(name in content for content in results for name in named)


def _reports(verdict: Verdict, text: str, messages: tuple[Message, ...]) -> bool:
    """Whether what sounds like a refusal may tell how the calls went whose results the model has just been given.

    Who is pressed after such a report does the same thing twice: only to have no tools at all is then plainly wrong.
    """
    if _BY_CATEGORY.get(verdict.category) != "refusal":
        return False
    since = since_last_user(messages)
    latest = messages[-len(since) - 1 :]  # results that the user brought along with words are new as well
    if not any(results_of(message) for message in latest):
        return False
    called = {call.name for message in messages for call in message.calls}
    return verdict.rule not in DENIES_TOOLS or offer_of(tuple(sorted(called))).may_be_named(fold(text))


_Check = Callable[[Candidate, Reply, ToolChoice, dict[str, Tool]], Fault | None]


def _candidate_fault(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """What is wrong with something that looked like a call."""
    check = _CHECKS.get(candidate.verdict) or _CHECKS.get(candidate.reason)
    return check(candidate, reply, choice, known) if check is not None else None


def _forbidden(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """A call that stands, but not of a tool that may be called now."""
    if choice.permits(candidate.name):
        return None
    detail = f"`{_quoted(candidate.name)}` may not be called now"
    return Fault("unknown_tool", detail, candidate.name)


def _invalid(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    codes = {note.code: note.detail for note in candidate.notes}
    if "unsafe_repair" in codes:
        detail = (
            f"`{_quoted(candidate.name)}`: the arguments are not valid JSON, and guessing is not safe for this tool"
        )
    else:
        detail = _quoted(codes.get("arguments_invalid", f"`{candidate.name}`"))
    return Fault("bad_arguments", detail, candidate.name)


def _misfit(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """A call without marks whose arguments do not fit; in the middle of an answer it is an example."""
    tool = known.get(candidate.name)
    if tool is None or not (choice.demands or candidate.evidence.get("answer_start")):
        return None
    return Fault("bad_arguments", _quoted(f"`{candidate.name}`: {'; '.join(_problems(tool, candidate))}"), tool.name)


def _problems(tool: Tool, candidate: Candidate) -> Iterable[str]:
    refused = tuple(note.detail for note in candidate.notes if note.code in REFUSED)
    try:
        return refused + ArgumentSchema.of(tool.parameters).align(candidate.arguments).problems
    except SchemaError:
        return refused


def _unknown(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """A name that no tool has. Without the marks of a call, only where it resembles a tool's and opens the answer."""
    evidence = candidate.evidence
    near = any(note.code == "near_miss" for note in candidate.notes)
    meant = evidence.get("wrapper") == "strong" and evidence.get("line_start")
    if not (meant or (near and evidence.get("answer_start")) or choice.demands):
        return None
    told = next((note.detail for note in candidate.notes if note.code in ("near_miss", "unknown_tool")), "")
    return Fault("unknown_tool", _quoted(told or f"`{candidate.name}` is not a tool"), candidate.name)


def _unmarked(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """A call of a known tool whose marks lack the word that was asked for."""
    if candidate.name in known and (choice.demands or candidate.evidence.get("answer_start")):
        return Fault("no_call", f"the marks around the call of `{_quoted(candidate.name)}` were not the ones asked for")
    return None


def _cut(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    if candidate.evidence.get("wrapper") != "strong" and not choice.demands:
        return None
    return Fault("truncated", f"the call of `{_quoted(candidate.name or '?')}` was not finished", candidate.name)


def _thought(candidate: Candidate, reply: Reply, choice: ToolChoice, known: dict[str, Tool]) -> Fault | None:
    """A call made while thinking; behind it comes an answer, or nothing at all."""
    if reply.text.strip() and not choice.demands:
        return None
    return Fault("in_reasoning", f"`{_quoted(candidate.name)}` was called inside the reasoning", candidate.name)


#: By verdict, and for candidates that were left in the text by the reason.
_CHECKS: dict[str, _Check] = {
    "call": _forbidden,
    "invalid": _invalid,
    "truncated": _cut,
    "reasoning": _thought,
    "unknown_tool": _unknown,
    "does_not_fit": _misfit,
    "no_nonce": _unmarked,
}


def _quoted(text: str) -> str:
    """Foreign words in a message: one line, shortened, nothing in it that a template or a reader would obey."""
    return neutralise(one_line(printable(text[: MAX_DETAIL * 4], " "), MAX_DETAIL), "own")


# ------------------------------------------------------------------------------------------ instruction

#: What was wrong. `{detail}` brings its own colon; `{names}` are the tools.
_WRONG: dict[FaultKind, str] = {
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

#: What to do now, stronger each time; the last row serves for all further attempts.
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

_LAST = "This is the last attempt."
_LOOKS = "A call looks like this, with your own values:"
_NATIVE = "Use the function calling interface for the call; do not write it as text."


def instruction(fault: Fault, attempt: int, *, tools: Sequence[Tool], example: str = "", last: bool = False) -> str:
    """The message that asks again: what was wrong, what to do, how it looks. `attempt` counts from 1.

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
    wrong = _WRONG[fault.kind].format(names=_listed(tools), detail=f": {detail}" if detail else "")
    parts = [wrong, order]
    if fault.kind != "bad_format":
        parts.append(f"{_LOOKS}\n\n{example}" if example else _NATIVE)
    if last:
        parts.append(_LAST)
    return "\n\n".join(parts)


def _listed(tools: Sequence[Tool]) -> str:
    """The names of the tools, as many as are read in one go."""
    names = [f"`{_quoted(shown_name(tool.name))}`" for tool in tools[:MAX_NAMES]]
    more = len(tools) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
