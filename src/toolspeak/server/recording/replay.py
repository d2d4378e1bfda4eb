"""Replay: run a recorded request again with different settings or another model.

A replay has no side effects: the server's tools are offered as before, but no tool is executed, the conversation
memory is not updated and no client receives the answer.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping

import msgspec

from ...core.events import Noted
from ...core.types import JSONValue, Note, Request
from ...engine.turn.trace import Trace
from ...errors import UsageError
from ...runtime.turn_factory import PlannedTurn
from ..access.auth import Caller
from ..access.limits import check_request, read_object
from ..proxy.client_protocols import client_protocol
from ..proxy.exchange import RequestRecord
from ..proxy.request_settings import merge_settings
from ..proxy.upstream_router import Gateway
from .entries import RecordingEntry, recalled_tools

#: Timeout of a replay in seconds. A user is waiting for it.
_TIMEOUT = 300.0


async def replay_request(
    entry: RecordingEntry, gateway: Gateway, caller: Caller, changes: Mapping[str, JSONValue]
) -> RecordingEntry:
    """Run the request of an entry again and return the new entry. Raises ToolspeakError if that is impossible."""
    overrides = dict(changes)
    request = _decode_request(entry, overrides.pop("model", ""))
    target = gateway.target(request, caller)
    settings = merge_settings(target.settings, overrides)
    tools = (*request.tools, *entry.server_tools)
    upstream_request = msgspec.structs.replace(request, model=target.maker.resolved.model, stream=False, tools=tools)
    began, started = time.time(), time.perf_counter()
    # Use the original tenant, so the same tools are recalled from memory.
    planned = target.maker.make(upstream_request, settings, entry.tenant)
    with gateway.lease():
        record = await _execute(planned, entry, request.model)
    total, turn = time.perf_counter() - started, planned.turn
    received = (entry.tenant, entry.body, entry.fields, recalled_tools(record, planned.request))
    until = (total, total, turn.upstream_seconds, max(0.0, total - turn.upstream_seconds))
    seconds = (*until, turn.first_token_seconds, turn.held_seconds, turn.tool_seconds)
    return RecordingEntry(
        record,
        *received,
        began,
        502 if record.error else 200,
        *seconds,
        provider=turn.provider,
        protocol=target.maker.resolved.protocol,
        secrets=entry.secrets,
        replay_of=entry.record.id,
        changed={name: value for name, value in changes.items() if value not in ("", None)},
        upstream_address=target.address,
        settings=settings,
        server_tools=entry.server_tools,
    )


def _decode_request(entry: RecordingEntry, model: JSONValue) -> Request:
    if model is not None and not isinstance(model, str):
        raise UsageError("`model` must be a string", hint="leave it out to use the original model")
    if not entry.body:
        raise UsageError("this request cannot be replayed, because its body was not recorded")
    request = client_protocol(entry.record.client_protocol).decode(read_object(entry.body), **entry.fields)
    check_request(request, len(entry.body))
    return msgspec.structs.replace(request, model=model) if model else request


async def _execute(planned: PlannedTurn, entry: RecordingEntry, model: str) -> RequestRecord:
    notes: list[Note] = []
    plan = planned.plan
    identity = (secrets.token_hex(16), entry.record.client_protocol, model, plan.kind)
    try:
        async with asyncio.timeout(_TIMEOUT):
            async for batch in planned.turn.batches():
                notes += [event.note for event in batch if isinstance(event, Noted)]
    except TimeoutError:
        error = f"the answer was not complete within {_TIMEOUT:g} s"
        return RequestRecord(*identity, 0, (), error, Trace(plan.kind, plan.rule, plan.why), tuple(notes))
    outcome = planned.turn.outcome
    assert outcome is not None
    failure = outcome.failure.message if outcome.failure is not None else ""
    return RequestRecord(*identity, outcome.requests, outcome.warnings, failure, outcome.trace, tuple(notes))
