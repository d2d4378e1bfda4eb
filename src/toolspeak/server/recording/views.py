"""JSON views of recorded requests, redacted: a summary for lists and the full detail, both rendered on demand."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import get_args

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.parsing.tool_index import toolkit
from ...core.types import JSONObject, JSONValue, Tool
from ...engine.turn.faults import RETRY_REASONS, fault_text, reason_text
from ...engine.turn.trace import AttemptTrace, of_model
from ...errors import ToolspeakError
from ..access.limits import read_object
from ..asgi import header
from ..observe.metrics import tools_label
from ..observe.request_context import CLIENT_CLOSED
from ..proxy.client_protocols import client_protocol
from ..proxy.exchange import ExchangeResult
from ..proxy.request_settings import ALLOWED
from .candidate_spans import Mark, marks_in
from .entries import INVALID, RecordingEntry, client_name, outcome_of, success_of, totals_of, unpack
from .listing import NO_HEADLINE, Headline, headline
from .redaction import parse_body, redact_text, redact_value

#: The fields of an entry that hold durations, by their names in views.
_TIMES = {each.encode_name: each.name for each in msgspec.structs.fields(RecordingEntry) if each.type is float}
del _TIMES["began"]


def summary(entry: RecordingEntry, secrets: Iterable[str] = (), about: Headline = NO_HEADLINE) -> JSONObject:
    """Return the list view of a request, with these secrets and the client's secrets redacted."""
    return redact_value(_summary(entry, about), hidden_texts(entry, secrets))  # type: ignore[return-value]


def running_summary(
    result: ExchangeResult, about: Headline, began: float, now: float, secrets: Iterable[str] = ()
) -> JSONObject:
    """Return the list view of a running request, with these secrets and the client's secrets redacted."""
    model = result.request.model if result.request is not None else ""
    seconds, client = round(max(0.0, now - began), 3), header(result.scope, b"user-agent")
    view: JSONObject = {**msgspec.to_builtins(about), "id": result.id, "time": began, "seconds": seconds}
    view |= {"face": result.client_protocol, "model": model, "user_agent": client, "tenant": result.tenant}
    view["client_name"] = client_name(client)
    if result.turn is not None:
        faults = [fault_text(each.fault) for each in result.turn.answered if each.fault is not None]
        view |= {"sent": result.turn.requests_sent, "writing": result.first_token_seconds > 0, "fault": faults[-1:]}
    return redact_value(view, hidden_texts(result, secrets))  # type: ignore[return-value]


def hidden_texts(source: RecordingEntry | ExchangeResult, secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the texts to redact: these secrets, and those that the client sent."""
    return (*secrets, *(secret.reveal() for secret in source.secrets))


def _summary(entry: RecordingEntry, about: Headline) -> JSONObject:
    record, trace = entry.record, entry.record.trace
    candidates = [candidate for attempt in trace.attempts for candidate in attempt.candidates]
    calls = [candidate for candidate in candidates if candidate.verdict == "call"]
    invalid = [candidate for candidate in candidates if candidate.verdict in INVALID]
    totals = totals_of(entry)
    rejected = any(attempt.candidates or attempt.fault for attempt in trace.attempts)
    view: JSONObject = {**msgspec.to_builtins(about), "id": record.id, "number": entry.number, "time": entry.started_at}
    view |= {"user_agent": entry.client, "client_name": client_name(entry.client), "tenant": entry.tenant}
    view |= {"face": record.client_protocol, "model": record.model, "plan": record.plan, "tools": tools_label(record)}
    view |= {"status": entry.status, "requests": record.requests, "retries": totals.retries}
    view["interpretations"] = len(trace.attempts) - len(of_model(trace.attempts))
    view |= {"calls": len(calls), "called": [candidate.name for candidate in calls], "invalid": len(invalid)}
    view["candidates"] = len(candidates)
    view["repairs"] = sum(len(candidate.notes) for candidate in (*calls, *invalid))
    view |= {"warnings": list(record.warnings), "outcome": outcome_of(entry), "success": success_of(entry)}
    # A disconnected client is not an error, unless the upstream had already failed.
    view["error"] = "" if entry.status == CLIENT_CLOSED and not trace.attempts else record.error
    view |= {"why_no_call": trace.why_no_call, "no_call_code": trace.no_call_code, "replay_of": entry.replay_of}
    # Whether a call was missing: it was demanded, or the model wrote something like a call, or refused.
    view["call_likely"] = bool(trace.why_no_call) and (about.demands_call or rejected)
    view["timing"] = {name: round(getattr(entry, field), 6) for name, field in _TIMES.items()}
    return view | {"input_tokens": totals.input_tokens, "output_tokens": totals.output_tokens}


def detail(entry: RecordingEntry, secrets: Iterable[str] = ()) -> JSONValue:
    """Return the full view of a request, with these secrets and the client's secrets redacted."""
    entry = unpack(entry)
    hidden = hidden_texts(entry, secrets)
    about = headline(entry.record.client_protocol, entry.body, entry.fields, hidden)
    view: JSONObject = msgspec.to_builtins(entry.record)
    view = redact_value({**view, **_summary(entry, about), "changed": dict(entry.changed)}, hidden)
    view["client"] = redact_value({"body": parse_body(entry.body), "fields": dict(entry.fields)}, hidden)
    view["protocol"] = entry.protocol
    view["upstream"] = redact_value(msgspec.to_builtins(entry.upstream_address), hidden)
    # The settings that a replay may change.
    view["settings"] = entry.settings and {name: getattr(entry.settings, name) for name in ALLOWED}
    view["server_tools"] = redact_value(msgspec.to_builtins(entry.server_tools), hidden)
    view["notes"] = [{**note, "why": RETRY_REASONS.get(note["code"], "")} for note in view["notes"]]
    trace = entry.record.trace
    policy: Policy = trace.policy if trace.policy in get_args(Policy) else "standard"  # type: ignore[assignment]
    tools = _tools(entry) if any(map(_has_candidates, trace.attempts)) else ()
    for attempt, attempt_view in zip(trace.attempts, view["trace"]["attempts"], strict=True):
        # Positions must refer to the redacted text, whose length may differ.
        raw = msgspec.structs.replace(attempt, raw=attempt_view["raw"])
        marks = marks_in(raw.raw, raw.candidates, tools, policy, trace.nonce) if _has_candidates(raw) else ()
        attempt_view["marks"] = list(_utf16_marks(raw.raw, marks))
        if attempt.fault is not None:
            attempt_view["fault"]["why"] = redact_text(fault_text(attempt.fault), hidden)
        for candidate in attempt_view["candidates"]:
            candidate["why"] = reason_text(candidate["reason"])
    return view


def _tools(entry: RecordingEntry) -> tuple[Tool, ...]:
    """Return the tools with which the answers were parsed."""
    own = entry.recalled_tools
    if not own and entry.body:
        with suppress(ToolspeakError):  # the request was rejected because of an invalid body
            own = client_protocol(entry.record.client_protocol).decode(read_object(entry.body), **entry.fields).tools
    return toolkit((*own, *entry.server_tools)).readable


def _has_candidates(attempt: AttemptTrace) -> bool:
    return bool(attempt.raw and attempt.candidates)


def _utf16_marks(text: str, marks: Sequence[Mark]) -> Iterable[JSONObject]:
    """Convert positions to UTF-16 code units, which JavaScript uses."""
    at = units = 0
    for mark in marks:
        start = units + _utf16_length(text[at : mark.start])
        units, at = start + _utf16_length(text[mark.start : mark.end]), mark.end
        yield {"start": start, "end": units, "candidates": list(mark.candidates)}


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
