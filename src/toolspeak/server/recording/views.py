"""What people see of a request that was kept: one line among many, or everything, as JSON values without keys.

Made when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import get_args

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.parsing.tool_index import toolkit
from ...core.types import JSONObject, JSONValue, Tool
from ...engine.turn.explanations import because, in_words
from ...engine.turn.trace import AttemptTrace
from ...errors import ToolspeakError
from ..access.limits import read_object
from ..observe.metrics import tools_of
from ..observe.request_context import GONE
from ..proxy.client_protocols import face
from ..proxy.exchange import Exchange
from ..proxy.request_settings import ALLOWED
from .candidate_spans import Mark, marks_in
from .entries import Entry, unpacked
from .redaction import body_of, cleaned, cleaned_text

#: From this status on a request was in vain.
_ERROR = 400


def _retries(attempts: tuple[AttemptTrace, ...]) -> int:
    """How many answers were asked for again."""
    return sum(one.fault is not None and one.phase == two.phase for one, two in pairwise(attempts))


def line(entry: Entry, secrets: Iterable[str] = ()) -> JSONValue:
    """One request among many, without the secrets given and those that its client showed."""
    return cleaned(_line(entry), (*secrets, *(secret.reveal() for secret in entry.secrets)))


def under_way(exchange: Exchange, began: float, now: float, secrets: Iterable[str] = ()) -> JSONValue:
    """A request that has no answer yet, among many, without the secrets given and those that its client showed."""
    model = exchange.asked.model if exchange.asked is not None else ""
    told: JSONObject = {"id": exchange.id, "time": began, "seconds": round(max(0.0, now - began), 3)}
    told |= {"face": exchange.face, "model": model}
    return cleaned(told, (*secrets, *(secret.reveal() for secret in exchange.secrets)))


def _line(entry: Entry) -> JSONObject:
    record, trace = entry.record, entry.record.trace
    found = [candidate for attempt in trace.attempts for candidate in attempt.candidates]
    calls = [candidate for candidate in found if candidate.verdict == "call"]
    return {
        "number": entry.number,
        "id": record.id,
        "time": entry.began,
        "face": record.face,
        "model": record.model,
        "plan": record.plan,
        "tools": tools_of(record),
        "status": entry.status,
        "requests": record.requests,
        "retries": _retries(trace.attempts),
        "calls": len(calls),
        "candidates": len(found),
        "repairs": sum(len(candidate.notes) for candidate in calls),
        "warnings": list(record.warnings),
        "outcome": _outcome(entry),
        # Who left had no error, unless the upstream had failed before.
        "error": "" if _left(entry) and not trace.attempts else record.error,
        "why_no_call": trace.why_no_call,
        "no_call_code": trace.no_call_code,
        "replay_of": entry.replay_of,
        "timing": _timing(entry),
        "input_tokens": sum(attempt.usage.input_tokens for attempt in trace.attempts),
        "output_tokens": sum(attempt.usage.output_tokens for attempt in trace.attempts),
    }


def _left(entry: Entry) -> bool:
    """Whether the client did not wait for the end: nobody's error."""
    return entry.status == GONE


def _outcome(entry: Entry) -> str:
    """How it ended, for whoever looks for some among many."""
    if _left(entry):
        return "left"
    return "error" if entry.record.error or entry.status >= _ERROR else "answered"


def _timing(entry: Entry) -> JSONObject:
    """Seconds."""
    names = ("whole", "first", "waited", "added", "first_token", "held", "tooled")
    return {name: round(getattr(entry, name), 6) for name in names}


def whole(entry: Entry, secrets: Iterable[str] = ()) -> JSONValue:
    """Everything about one request, without the secrets given and those that its client showed."""
    entry = unpacked(entry)
    hidden = (*secrets, *(secret.reveal() for secret in entry.secrets))
    told: JSONObject = msgspec.to_builtins(entry.record)
    told = cleaned({**told, **_line(entry), "changed": dict(entry.changed)}, hidden)
    told["client"] = cleaned({"body": body_of(entry.body), "fields": dict(entry.fields)}, hidden)
    told["protocol"] = entry.protocol
    told["upstream"] = cleaned(msgspec.to_builtins(entry.way), hidden)
    told["settings"] = _settings(entry)
    told["server_tools"] = cleaned(msgspec.to_builtins(entry.served), hidden)
    trace = entry.record.trace
    policy, nonce = trace.policy, trace.nonce
    tools = _tools(entry) if any(map(_read_as_text, trace.attempts)) else ()
    for attempt, shown in zip(trace.attempts, told["trace"]["attempts"], strict=True):
        # In the text as it is shown: what was hidden has another length.
        raw = msgspec.structs.replace(attempt, raw=shown["raw"])
        found = marks_in(raw.raw, raw.candidates, tools, _policy(policy), nonce) if _read_as_text(raw) else ()
        shown["marks"] = list(_in_utf16(raw.raw, found))
        if attempt.fault is not None:
            shown["fault"]["why"] = cleaned_text(in_words(attempt.fault), hidden)
        for candidate in shown["candidates"]:
            candidate["why"] = because(candidate["reason"])
    return told


def _tools(entry: Entry) -> tuple[Tool, ...]:
    """What its answers were read with."""
    own = entry.recalled
    if not own and entry.body:
        with suppress(ToolspeakError):  # it was refused for that
            own = face(entry.record.face).decode(read_object(entry.body), **entry.fields).tools
    return toolkit((*own, *entry.served)).readable


def _settings(entry: Entry) -> JSONValue:
    """Those settings that a request may be carried out with once more."""
    if entry.settings is None:
        return None
    told: JSONObject = msgspec.to_builtins(entry.settings)
    return {name: told[name] for name in ALLOWED}


def _policy(name: str) -> Policy:
    return name if name in get_args(Policy) else "standard"  # type: ignore[return-value]


def _read_as_text(attempt: AttemptTrace) -> bool:
    return bool(attempt.raw and attempt.candidates)


def _in_utf16(text: str, marks: Sequence[Mark]) -> Iterable[JSONObject]:
    """Places as scripts in a page count them."""
    at = units = 0
    for mark in marks:
        start = units + _units(text[at : mark.start])
        units, at = start + _units(text[mark.start : mark.end]), mark.end
        yield {"start": start, "end": units, "candidates": list(mark.candidates)}


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
