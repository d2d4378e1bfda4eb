"""Which calls of an answer may run, and what the model is told of those that may not.

Calls of tools that do not exist, with arguments that do not fit, or cut off by a limit are answered with an error where
the model expects a result. Also known here: which calls were found in text without a mark, and which may have changed
the world before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ...core.events import Candidate, Reply
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.schema.arguments import ArgumentSchema
from ...core.types import JSONObject, JSONValue, Tool, ToolCall, ToolChoice, ToolResult, is_object
from ...errors import SchemaError
from ..prompting.escaping import shown_name
from ..turn.recovery import diagnose
from ..turn.trace import TracedReply
from .transcript import Answer, CallRecord, Entry

#: Names in one error result; the model has been told all of them before.
_MOST_NAMES = 24
#: Arguments that say how long a call may take, not what it does.
_HOW = frozenset({"timeout", "timeout_ms", "timeout_s", "timeout_seconds"})
#: What can be written in more or fewer places without another meaning, in a command above all.
_FILLERS = str.maketrans("", "", " \t\r\n\"'\\;")
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

    def refused(self, reply: Reply) -> Iterator[tuple[int, ToolCall, str]]:
        """Calls that the model tried and that came to nothing, in order and without ids, and why.

        The number says after how many of the calls that stand each was written; after all, where that is not known.
        """
        candidates = _last_tried(reply)
        standing = sum(candidate.verdict == "call" for candidate in candidates)
        at = 0 if standing == len(reply.calls) else len(reply.calls)
        for candidate in candidates:
            if candidate.verdict == "call":
                at += 1
            elif why := self._unusable(candidate, reply):
                # Of a call that was cut off nobody knows what its arguments were to be.
                read = candidate.arguments if candidate.verdict != "truncated" else None
                yield at, ToolCall(shown_name(candidate.name), read if is_object(read) else {}, ""), why

    def _unusable(self, candidate: Candidate, reply: Reply) -> str:
        """What the model is told of something that it tried; empty where that was no call."""
        if candidate.verdict == "truncated":
            return _CUT
        if candidate.verdict == "invalid":
            return _unfit(candidate)
        # Calls that stand excuse what was tried beside them; here, nothing that was tried goes unanswered.
        alone = msgspec.structs.replace(reply, calls=(), candidates=(candidate,), text="")
        fault = diagnose(alone, ToolChoice(), (*self._tools, *self._theirs))
        return self._no_such_tool(fault.name) if fault is not None and fault.kind == "unknown_tool" else ""

    def _no_such_tool(self, name: str) -> str:
        names = [tool.name for tool in self._tools]
        shown = ", ".join(f"`{each}`" for each in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return f"There is no tool `{shown_name(name)}`. Nothing was run. " + (
            f"The tools are {shown}{more}." if names else "There are no tools at all."
        )


def _last_tried(reply: Reply) -> tuple[Candidate, ...]:
    """What looked like a call the last time that the model tried. What it was asked for again is told once."""
    attempts = reply.record.attempts if isinstance(reply, TracedReply) and reply.record is not None else ()
    return next((attempt.candidates for attempt in reversed(attempts) if attempt.candidates), reply.candidates)


def key_of(call: ToolCall) -> str:
    """The same for calls that ask for the same."""
    return f"{call.name} {msgspec.json.encode(call.arguments, order='sorted').decode()}"


class Unsure:
    """Calls that change the world and may or may not have done so.

    A call can be spelled in many ways. One that means the same for all that can be told is known as that call; any
    other of the same tool is still in doubt.
    """

    def __init__(self, entries: Iterable[Entry], tools: Iterable[Tool]) -> None:
        self._defaults = {tool.name: _defaults(tool) for tool in tools}
        #: The ids that the calls had the first time, by tool and by what they mean.
        self._ids: dict[str, dict[str, str]] = {}
        answers = (entry for entry in entries if isinstance(entry, Answer))
        for record in (record for answer in answers for made in answer.rounds for record in made.calls):
            if record.side_effects and record.state == "started":
                self._ids.setdefault(record.call.name, {}).setdefault(self._meaning(record.call), record.call.id)
            else:
                self.settle(record)

    def settle(self, record: CallRecord) -> None:
        """Forget a call that has surely been carried out: who makes it again knows that. An error may mean that it
        was not.
        """
        if record.state == "finished" and record.result is not None and not record.result.error:
            self._ids.get(record.call.name, {}).pop(self._meaning(record.call), None)

    def first_id(self, call: ToolCall) -> str | None:
        """The id that this call had the first time."""
        return self._ids.get(call.name, {}).get(self._meaning(call))

    def has(self, name: str) -> bool:
        """Whether some call of a tool is among them."""
        return bool(self._ids.get(name))

    def _meaning(self, call: ToolCall) -> str:
        """The same for calls that do the same: without defaults, without how long they may take."""
        defaults = self._defaults.get(call.name, {})
        told = {
            name: value
            for name, value in call.arguments.items()
            if value is not None and name not in _HOW and not (name in defaults and defaults[name] == value)
        }
        return key_of(msgspec.structs.replace(call, arguments=_bare(told)))


def _defaults(tool: Tool) -> JSONObject:
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(properties):
        return {}
    return {name: each["default"] for name, each in properties.items() if is_object(each) and "default" in each}


def _bare(arguments: JSONObject) -> JSONObject:
    bare: dict[str, JSONValue] = {
        name: value.translate(_FILLERS) if isinstance(value, str) else value for name, value in arguments.items()
    }
    return bare


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
