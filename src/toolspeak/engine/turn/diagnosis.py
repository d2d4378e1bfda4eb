"""Diagnosis: decide whether an answer without a usable tool call is faulty, and why. A normal text answer is not."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...core.events import Candidate, Reply
from ...core.json_repair.parser import UNSAFE_NOTES
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.parsing.echoes import EchoSearch
from ...core.schema.argument_schema import ArgumentSchema
from ...core.schema.work_limit import WorkLimit
from ...core.types import Message, Tool, ToolChoice, is_object
from ...errors import SchemaError
from ..prompting.history import results_of, since_last_user
from ..refusals.answer_view import fold, offer_of
from ..refusals.classifier import Category, Verdict, classify, may_decline
from ..refusals.tables import DENIES_TOOLS
from ..refusals.unknown_language import MAX_ANSWER, REQUEST_SHARE, concerns_tool, has_known_language
from .faults import Fault
from .retry_prompt import quoted

#: Finish reasons of answers that the upstream cut off or withheld. A retry would end the same way.
_FINAL_REASONS = frozenset({"length", "content_filter", "error"})
#: Characters that end a question, also in Chinese, Arabic and Greek.
_QUESTION_MARKS = ("?", "？", "؟", ";")
_CODE_LANGUAGE = re.compile(r"^[ \t]*```[ \t]*(\w+)", re.MULTILINE)
#: The word itself, and not a part of an address such as `mail@example.org` or a path.
_EXAMPLE = re.compile(r"(?<![\w.@/-])examples?(?![\w@/-]|\.\w)", re.IGNORECASE).search


def diagnose(
    reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...] = ()
) -> Fault | None:
    """Return the fault of this answer, or None if the answer is acceptable or must not be retried.

    An answer with valid calls is accepted, whatever else it contains. Calls cut off by the token limit and refusals
    for safety reasons are not retried.
    """
    if choice.mode == "none" or reply.failure is not None:
        return None
    allowed = [call for call in reply.calls if choice.permits(call.name)]
    if allowed:
        many = choice.single and len(allowed) > 1
        return Fault("too_many", f"{len(allowed)} calls, but only one is allowed") if many else None
    if reply.finish_reason in _FINAL_REASONS:
        return None
    fault = _call_fault(reply, choice, tools, messages) if reply.candidates else None
    return fault or _text_fault(reply, choice, _permitted(choice, tools), messages)


def is_doubtful(reply: Reply, tools: Sequence[Tool], messages: tuple[Message, ...]) -> bool:
    """Whether a decision request should check an answer without a fault, because no or few rules cover its language.

    Only a short answer to the user's own words counts, not a question, a report on results, or an answer where every
    tool has side effects: the model may have declined for safety reasons.
    """
    text, last = reply.text.strip(), messages[-1] if messages else None
    if last is None or last.role != "user" or results_of(last) or _all_have_side_effects(tools):
        return False
    if not 0 < len(text) <= MAX_ANSWER or text.endswith(_QUESTION_MARKS):
        return False
    if reply.candidates or reply.finish_reason in _FINAL_REASONS:
        return False
    strange = has_known_language(text) is False and not has_known_language(last.text, REQUEST_SHARE)
    return (strange or may_decline(text)) and concerns_tool(last.text, tools)


def _all_have_side_effects(tools: Sequence[Tool]) -> bool:
    return all(tool.side_effects or tool.name in ALWAYS_SIDE_EFFECTS for tool in tools)


#: Maximum length of an answer that may describe a call without the name of the tool. A longer one explains or reports.
_MAX_DESCRIPTION = 500


def may_be_interpreted(
    reply: Reply, fault: Fault | None, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]
) -> bool:
    """Whether an answer may describe a call, or contain one in a form that cannot be read, and is no requested example.

    The model itself must repair other faults. An answer without a fault must name a tool or, unless it is a question or
    follows a result, be short and share a topic or a word with a tool.
    """
    request = messages[-1].text if messages else ""
    if choice.mode == "none" or reply.finish_reason in _FINAL_REASONS or _EXAMPLE(request):
        return False
    match fault:
        case Fault(kind="described" | "truncated"):
            return True
        case Fault(kind="bad_arguments"):
            return any(map(_is_unreadable, reply.candidates))
        case None | Fault(kind="no_call"):
            text, permitted = reply.text.strip(), _permitted(choice, tools)
            names = [tool.name for tool in permitted]
            is_report = bool(messages and results_of(messages[-1])) or text.endswith(_QUESTION_MARKS)
            is_brief = 0 < len(text) <= _MAX_DESCRIPTION and not is_report
            is_related = any(name in text for name in names if not name.isalpha())
            is_related = is_related or (is_brief and concerns_tool(text, permitted))
            is_harmless = is_related and classify(text, names).category != "safety"
            is_sample = _has_requested_language(text, request)
            return is_harmless and not is_sample and not _quotes(reply, tools, messages)
        case _:
            return False


def _has_requested_language(text: str, request: str) -> bool:
    """Whether a code block is in a language that the user named, such as YAML, so that it is what was asked for."""
    words = set(re.findall(r"\w+", request.casefold()))
    return any(language.casefold() in words for language in _CODE_LANGUAGE.findall(text))


def _is_unreadable(candidate: Candidate) -> bool:
    """Whether a text call has arguments that are no JSON, or that were repaired in an unsafe way."""
    unsafe = any(note.code in UNSAFE_NOTES or note.code == "unsafe_repair" for note in candidate.notes)
    return candidate.dialect != "native" and (unsafe or not is_object(candidate.arguments))


def is_mistaken(candidate: Candidate, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]) -> bool:
    """Whether a candidate that counts as text was meant as a call, so that its markup is no text for the caller."""
    if candidate.verdict not in ("text", "truncated") or choice.mode == "none" or _check(candidate) is None:
        return False
    facts = _Facts(choice, {tool.name: tool for tool in tools}, messages, explains=False)
    return _candidate_fault(candidate, facts) is not None


def _call_fault(reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]) -> Fault | None:
    """Return the fault of the first faulty call candidate, or None."""
    facts = _Facts(choice, {tool.name: tool for tool in tools}, messages, bool(reply.text.strip()))
    faults = (_candidate_fault(candidate, facts) for candidate in reply.candidates)
    return next((fault for fault in faults if fault is not None), None)


def _permitted(choice: ToolChoice, tools: Sequence[Tool]) -> Sequence[Tool]:
    return [tool for tool in tools if choice.permits(tool.name)] if choice.allowed else tools


#: Maps the classifier's category of an answer to a fault.
_BY_CATEGORY: dict[Category, Fault] = {
    "no_tools": Fault("refusal", "it says that it has no tools"),
    "cannot_access": Fault("refusal", "it says that it has no access"),
    "describes": Fault("described"),
    "asks_permission": Fault("permission"),
}


def _text_fault(reply: Reply, choice: ToolChoice, tools: Sequence[Tool], messages: tuple[Message, ...]) -> Fault | None:
    """Return the fault of a text-only answer, or None.

    Unless a call is required, the model may ask for permission if every tool has side effects, report on an earlier
    call, or mention a call that appears in a tool result. In the last case, a retry could cause an unwanted call.
    """
    verdict = classify(reply.text, [tool.name for tool in tools])
    polite = verdict.category == "asks_permission" and _all_have_side_effects(tools)
    quotes = verdict.category == "describes" and _quotes(reply, tools, messages)
    acceptable = polite or quotes or _reports(verdict, reply.text, messages)
    if verdict.category == "safety" or (acceptable and not choice.demands):
        return None
    return _BY_CATEGORY.get(verdict.category) or (Fault("no_call") if choice.demands else None)


def _quotes(reply: Reply, tools: Sequence[Tool], messages: tuple[Message, ...]) -> bool:
    """Whether the model may have taken the call it mentions from a tool result that contains the call or the name."""
    if any(candidate.reason == "echo" for candidate in reply.candidates):
        return True
    names = [tool.name for tool in tools if tool.name in reply.text]
    results = (result.content for message in messages for result in results_of(message)) if names else ()
    return any(name in content for content in results for name in names)


def _reports(verdict: Verdict, text: str, messages: tuple[Message, ...]) -> bool:
    """Whether an apparent refusal may be a report on tool results that the model has just received.

    A retry would repeat the action. A claim to have no tools is a refusal, unless the answer may name a called tool.
    """
    if verdict.category not in ("no_tools", "cannot_access"):
        return False
    since = since_last_user(messages)
    latest = messages[-len(since) - 1 :]  # includes tool results sent with the user's text
    if not any(results_of(message) for message in latest):
        return False
    called = {call.name for message in messages for call in message.calls}
    return verdict.rule not in DENIES_TOOLS or offer_of(tuple(sorted(called))).may_be_named(fold(text))


class _Facts(NamedTuple):
    """What a check of one candidate depends on."""

    choice: ToolChoice
    by_name: dict[str, Tool]
    messages: tuple[Message, ...]
    #: Whether the answer has text besides the candidates.
    has_text: bool = False
    #: Whether the details of the fault are needed, which take time.
    explains: bool = True


_Check = Callable[[Candidate, _Facts], Fault | None]


def _candidate_fault(candidate: Candidate, facts: _Facts) -> Fault | None:
    check = _check(candidate)
    return check(candidate, facts) if check is not None else None


def _check(candidate: Candidate) -> _Check | None:
    return _CHECKS.get(candidate.verdict) or _CHECKS.get(candidate.reason)


def _forbidden(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check an accepted call: `tool_choice` must permit the tool."""
    if facts.choice.permits(candidate.name):
        return None
    detail = f"`{quoted(candidate.name)}` may not be called now"
    return Fault("unknown_tool", detail, candidate.name)


def _invalid(candidate: Candidate, facts: _Facts) -> Fault | None:
    codes = {note.code: note.detail for note in candidate.notes}
    if "unsafe_repair" in codes:
        detail = f"`{quoted(candidate.name)}`: the arguments are not valid JSON, and guessing is not safe for this tool"
    else:
        detail = quoted(codes.get("arguments_invalid", f"`{candidate.name}`"))
    return Fault("bad_arguments", detail, candidate.name)


def _misfit(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check a weakly marked call with invalid arguments. If no call is required, it must start the answer."""
    tool = facts.by_name.get(candidate.name)
    if tool is None or not (facts.choice.demands or candidate.evidence.get("answer_start")):
        return None
    problems = _problems(tool, candidate) if facts.explains else ()
    return Fault("bad_arguments", quoted(f"`{candidate.name}`: {'; '.join(problems)}"), tool.name)


def _problems(tool: Tool, candidate: Candidate) -> Iterable[str]:
    refused = tuple(note.detail for note in candidate.notes if note.code in UNSAFE_NOTES)
    try:
        return refused + ArgumentSchema.of(tool.parameters).coerce(candidate.arguments, work=WorkLimit()).problems
    except SchemaError:
        return refused


def _unknown(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check a call to an unknown tool. It must have call markers, or start the answer and resemble a tool's name."""
    evidence = candidate.evidence
    near = any(note.code == "near_miss" for note in candidate.notes)
    deliberate = evidence.get("wrapper") == "strong" and evidence.get("line_start")
    if not (deliberate or (near and evidence.get("answer_start")) or facts.choice.demands):
        return None
    detail = next((note.detail for note in candidate.notes if note.code in ("near_miss", "unknown_tool")), "")
    return Fault("unknown_tool", quoted(detail or f"`{candidate.name}` is not a tool"), candidate.name)


def _unmarked(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check a call to a known tool without the nonce. If no call is required, it must start the answer."""
    if candidate.name in facts.by_name and (facts.choice.demands or candidate.evidence.get("answer_start")):
        detail = f"the marks around the call of `{quoted(candidate.name)}` were not the ones asked for"
        return Fault("unmarked", detail, candidate.name)
    return None


def _repeated(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check a call that repeats an untrusted text. If the user wrote it, the model may mean it: ask for the nonce."""
    fault = _unmarked(candidate, facts) if candidate.evidence.get("nonce") is False else None
    if fault is None:
        return None
    texts = tuple(message.text for message in facts.messages if message.role == "user")
    return fault if EchoSearch(texts).contains(candidate.name, candidate.arguments, open_end=True) else None


def _truncated(candidate: Candidate, facts: _Facts) -> Fault | None:
    if candidate.evidence.get("wrapper") != "strong" and not facts.choice.demands:
        return None
    return Fault("truncated", f"the call of `{quoted(candidate.name or '?')}` was not finished", candidate.name)


def _in_reasoning(candidate: Candidate, facts: _Facts) -> Fault | None:
    """Check a call inside the reasoning. It is a fault unless a text answer follows."""
    if facts.has_text and not facts.choice.demands:
        return None
    return Fault("in_reasoning", f"`{quoted(candidate.name)}` was called inside the reasoning", candidate.name)


#: The check for each candidate, by its verdict or else by its reason code.
_CHECKS: dict[str, _Check] = {
    "call": _forbidden,
    "invalid": _invalid,
    "truncated": _truncated,
    "reasoning": _in_reasoning,
    "unknown_tool": _unknown,
    "does_not_fit": _misfit,
    "no_nonce": _unmarked,
    "echo": _repeated,
}
