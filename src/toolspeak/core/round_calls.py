"""Which calls of an answer may run, and what the model is told of those that may not.

Calls of tools that do not exist, with arguments that do not fit, or cut off by a limit are answered with an error where
the model expects a result. Also known here: which calls were found in text without a mark, and which may have changed
the world before. Above: `rounds`. Below: `record`, `recovery`, `schema`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..errors import SchemaError
from .desk import ALWAYS_SIDE_EFFECTS
from .events import Candidate, Reply
from .model import JSONObject, Tool, ToolCall, ToolChoice, ToolResult
from .neutral import shown_name
from .record import Answer, CallRecord, Entry
from .recovery import diagnose
from .schema import ArgumentSchema
from .trace import TracedReply

__all__ = ["Judge", "answered_with", "key_of", "settles", "unmarked", "unsure"]

#: Names in one error result; the model has been told all of them before.
_MOST_NAMES = 24
_CUT = "This call was cut off by the length limit and was not run. Make it again, shorter or in parts."


class Judge:
    """Knows the tools. `tools` run here, `theirs` run elsewhere."""

    def __init__(self, tools: tuple[Tool, ...], theirs: tuple[Tool, ...]) -> None:
        self._tools = tools
        self._theirs = theirs
        self._by_name = {tool.name: tool for tool in tools}
        self._foreign = frozenset(tool.name for tool in theirs)

    def is_foreign(self, call: ToolCall) -> bool:
        """Whether a call is somebody else's to run."""
        return call.name in self._foreign

    def record(self, call: ToolCall) -> CallRecord:
        """A call, with the reason as its result if it must not run."""
        tool = self._by_name.get(call.name)
        if tool is None:
            return answered_with(CallRecord(call), self._no_such_tool(call.name))
        record = CallRecord(call, side_effects=tool.side_effects or tool.name in ALWAYS_SIDE_EFFECTS)
        problems = _problems(tool, call.arguments)
        return answered_with(record, f"The arguments do not fit: {problems} Nothing was run.") if problems else record

    def refused(self, reply: Reply) -> Iterable[tuple[str, str]]:
        """Names of calls that the model tried and that came to nothing, and why."""
        for candidate in reply.candidates:
            if candidate.verdict == "truncated":
                yield shown_name(candidate.name), _CUT
            elif candidate.verdict == "invalid":
                yield shown_name(candidate.name), _unfit(candidate)
        if reply.calls or any(each.verdict in ("truncated", "invalid") for each in reply.candidates):
            return
        fault = diagnose(reply, ToolChoice(), (*self._tools, *self._theirs))
        if fault is not None and fault.kind == "unknown_tool":
            yield shown_name(fault.name), self._no_such_tool(fault.name)

    def _no_such_tool(self, name: str) -> str:
        names = [tool.name for tool in self._tools]
        shown = ", ".join(f"`{each}`" for each in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return f"There is no tool `{shown_name(name)}`. Nothing was run. " + (
            f"The tools are {shown}{more}." if names else "There are no tools at all."
        )


def key_of(call: ToolCall) -> str:
    """The same for calls that ask for the same."""
    return f"{call.name} {msgspec.json.encode(call.arguments, order='sorted').decode()}"


def unsure(entries: Iterable[Entry]) -> dict[str, str]:
    """Calls that change the world and may or may not have done so, with the ids they had."""
    found: dict[str, str] = {}
    answers = (entry for entry in entries if isinstance(entry, Answer))
    for record in (record for answer in answers for made in answer.rounds for record in made.calls):
        if record.side_effects and record.state == "started":
            found[key_of(record.call)] = record.call.id
        elif settles(record):
            found.pop(key_of(record.call), None)
    return found


def settles(record: CallRecord) -> bool:
    """Whether a call has surely been carried out: who makes it again knows that. An error may mean that it was not."""
    return record.state == "finished" and record.result is not None and not record.result.error


def answered_with(record: CallRecord, why: str) -> CallRecord:
    """A call that does not run, and why."""
    result = ToolResult(record.call.id, why, record.call.name, error=True)
    return msgspec.structs.replace(record, state="finished", result=result)


def _problems(tool: Tool, arguments: JSONObject) -> str:
    try:
        found = ArgumentSchema.of(tool.parameters).problems(arguments)
    except SchemaError:
        return ""  # nobody can say; the tool itself must
    return " ".join(f"{problem}." for problem in found)


def _unfit(candidate: Candidate) -> str:
    told = "; ".join(note.detail or note.code for note in candidate.notes) or candidate.reason
    return f"The arguments do not fit: {told}. Nothing was run."


#: Plans in which the upstream calls by itself; a call that stands in its text there has no mark.
_NATIVE = frozenset({"native", "fallback"})


def unmarked(reply: Reply) -> bool:
    """Whether a call was found in text, and carried no mark."""
    if not isinstance(reply, TracedReply) or reply.record is None:
        return False
    marked = reply.record.nonce and reply.record.plan not in _NATIVE
    return not marked and any(each.verdict == "call" and each.dialect != "native" for each in reply.candidates)
