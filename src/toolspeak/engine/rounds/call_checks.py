"""Checks before a tool call runs.

A call gets an error result if its tool is unknown, its arguments are invalid, or it was cut off by the length limit.
This module also detects calls without a nonce, and repeated calls whose first run may have had side effects.
"""

from collections.abc import Iterable, Iterator

import msgspec

from ...core.events import Candidate, Reply
from ...core.parsing.context import ALWAYS_SIDE_EFFECTS
from ...core.schema.argument_schema import ArgumentSchema
from ...core.types import JSONObject, JSONValue, Tool, ToolCall, ToolChoice, ToolResult, is_object
from ...errors import SchemaError
from ..prompting.escaping import display_name
from ..turn.diagnosis import diagnose
from ..turn.trace import TracedReply, of_model
from .transcript import CallRecord, Entry, records_of

#: Maximum number of tool names in an error result. The prompt lists all of them.
_MAX_NAMES = 24
#: Arguments that limit the duration of a call but do not change its effect.
_TIMING_ARGUMENTS = frozenset({"timeout", "timeout_ms", "timeout_s", "timeout_seconds"})
#: Characters to ignore when comparing two calls, because equivalent shell commands often differ only in these.
_FILLERS = str.maketrans("", "", " \t\r\n\"'\\;")
_TRUNCATED = "This call was cut off by the length limit and was not run. Make it again, shorter or in parts."


def is_read_only(tool: Tool) -> bool:
    """Whether a tool changes nothing. One that declares nothing may change something."""
    return tool.read_only and tool.name not in ALWAYS_SIDE_EFFECTS


class CallChecker:
    """Checks calls against the tool definitions. `tools` run in this process; `client_tools` run in the client."""

    def __init__(self, tools: tuple[Tool, ...], client_tools: tuple[Tool, ...]) -> None:
        self._tools = tools
        self._client_tools = client_tools
        self._by_name = {tool.name: tool for tool in tools}
        self._client_names = frozenset(tool.name for tool in client_tools)

    def is_client_call(self, call: ToolCall) -> bool:
        return call.name in self._client_names

    def is_read_only(self, call: ToolCall) -> bool:
        """Whether the call may run in parallel with others."""
        return is_read_only(self._by_name[call.name])

    def check(self, call: ToolCall) -> CallRecord:
        """Return a record of the call. If the call must not run, the record has an error result with the reason."""
        tool = self._by_name.get(call.name)
        if tool is None:
            return reject_call(CallRecord(call), self._no_such_tool(call.name))
        record = CallRecord(call, side_effects=tool.side_effects or tool.name in ALWAYS_SIDE_EFFECTS)
        problems = _problems(tool, call.arguments)
        return reject_call(record, f"The arguments do not fit: {problems} Nothing was run.") if problems else record

    def rejected_calls(self, reply: Reply) -> Iterator[tuple[int, ToolCall, str]]:
        """Yield failed attempts at a call, in order, as position, call without id, and reason.

        The position is the number of accepted calls before the attempt, or of all calls if the order is unknown.
        """
        candidates = _last_candidates(reply)
        accepted = sum(candidate.verdict == "call" for candidate in candidates)
        at = 0 if accepted == len(reply.calls) else len(reply.calls)
        for candidate in candidates:
            if candidate.verdict == "call":
                at += 1
            elif why := self._rejection_reason(candidate, reply):
                # The arguments of a truncated call are incomplete, so they are dropped.
                read = candidate.arguments if candidate.verdict != "truncated" else None
                yield at, ToolCall(display_name(candidate.name), read if is_object(read) else {}, ""), why

    def _rejection_reason(self, candidate: Candidate, reply: Reply) -> str:
        """Return the error text for a failed attempt, or an empty string if the text was no attempt to call a tool."""
        if candidate.verdict == "truncated":
            return _TRUNCATED
        if candidate.verdict == "invalid":
            return _invalid_arguments(candidate)
        # Diagnose this attempt alone: `diagnose` ignores failed attempts next to accepted calls.
        alone = msgspec.structs.replace(reply, calls=(), candidates=(candidate,), text="")
        fault = diagnose(alone, ToolChoice(), (*self._tools, *self._client_tools))
        return self._no_such_tool(fault.name) if fault is not None and fault.kind == "unknown_tool" else ""

    def _no_such_tool(self, name: str) -> str:
        names = [tool.name for tool in self._tools]
        listing = ", ".join(f"`{each}`" for each in names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        return f"There is no tool `{display_name(name)}`. Nothing was run. " + (
            f"The tools are {listing}{more}." if names else "There are no tools at all."
        )


def _last_candidates(reply: Reply) -> tuple[Candidate, ...]:
    """Return the candidates of the last request that could lead to calls. Earlier ones were followed by a retry."""
    attempts = reply.record.attempts if isinstance(reply, TracedReply) and reply.record is not None else ()
    if attempts and attempts[-1].phase == "interpretation" and reply.calls:
        return attempts[-1].candidates
    own = (attempt.candidates for attempt in reversed(of_model(attempts)) if attempt.phase != "final")
    return next(own, reply.candidates)


def call_key(call: ToolCall) -> str:
    """Return a key that is equal for calls with the same name and arguments."""
    return f"{call.name} {msgspec.json.encode(call.arguments, order='sorted').decode()}"


class UncertainCalls:
    """Interrupted calls of tools that are not read-only, of which it is unknown whether they took effect.

    Calls are compared by a normalised key, because the same call can be written in many ways. A call to the same tool
    with a different key may still be a repetition.
    """

    def __init__(self, entries: Iterable[Entry], tools: tuple[Tool, ...]) -> None:
        self._defaults = {tool.name: _defaults(tool) for tool in tools}
        read_only = {tool.name for tool in tools if is_read_only(tool)}
        #: The ids of the interrupted calls, by tool name and normalised key.
        self._ids: dict[str, dict[str, str]] = {}
        for record in records_of(entries):
            if record.state == "started" and (record.side_effects or record.call.name not in read_only):
                self._ids.setdefault(record.call.name, {}).setdefault(self._normalised_key(record.call), record.call.id)
            else:
                self.discard_if_done(record)

    def discard_if_done(self, record: CallRecord) -> None:
        """Remove a call that has succeeded. After an error, it remains unknown whether the call took effect."""
        if record.state == "finished" and record.result is not None and not record.result.error:
            self._ids.get(record.call.name, {}).pop(self._normalised_key(record.call), None)

    def first_id(self, call: ToolCall) -> str | None:
        """Return the id of the first interrupted run of this call, or None."""
        return self._ids.get(call.name, {}).get(self._normalised_key(call))

    def has_call_of(self, name: str) -> bool:
        """Whether any call to this tool may have taken effect before it was interrupted."""
        return bool(self._ids.get(name))

    def _normalised_key(self, call: ToolCall) -> str:
        """Return a key that ignores default values, timeouts, white space and quotes."""
        defaults = self._defaults.get(call.name, {})
        relevant = {
            name: value
            for name, value in call.arguments.items()
            if value is not None
            and name not in _TIMING_ARGUMENTS
            and not (name in defaults and defaults[name] == value)
        }
        return call_key(msgspec.structs.replace(call, arguments=_without_fillers(relevant)))


def _defaults(tool: Tool) -> JSONObject:
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(properties):
        return {}
    return {name: each["default"] for name, each in properties.items() if is_object(each) and "default" in each}


def _without_fillers(arguments: JSONObject) -> JSONObject:
    stripped: dict[str, JSONValue] = {
        name: value.translate(_FILLERS) if isinstance(value, str) else value for name, value in arguments.items()
    }
    return stripped


def reject_call(record: CallRecord, why: str) -> CallRecord:
    """Finish a call without running it. Its result is an error that states the reason."""
    result = ToolResult(record.call.id, why, record.call.name, error=True)
    return msgspec.structs.replace(record, state="finished", result=result)


def _problems(tool: Tool, arguments: JSONObject) -> str:
    try:
        problems = ArgumentSchema.of(tool.parameters).problems(arguments)
    except SchemaError:
        return ""  # the schema is unusable, so the tool itself must check its arguments
    return " ".join(f"{problem}." for problem in problems)


def _invalid_arguments(candidate: Candidate) -> str:
    reasons = "; ".join(note.detail or note.code for note in candidate.notes) or candidate.reason
    return f"The arguments do not fit: {reasons}. Nothing was run."


#: Plans with native tool calling. Calls found in the text of such answers never carry a nonce.
_NATIVE = frozenset({"native", "fallback"})


def has_unmarked_call(reply: Reply) -> bool:
    """Whether a call was parsed from text and carries no nonce."""
    if not isinstance(reply, TracedReply) or reply.record is None:
        return False
    asked_for = reply.record.nonce and reply.record.plan not in _NATIVE
    calls = [each for each in reply.candidates if each.verdict == "call" and each.dialect != "native"]
    return any(not asked_for or any(note.code == "unmarked" for note in each.notes) for each in calls)
