"""Replay: run a recorded request again with different settings or another model, or an imported answer by each policy.

A replay has no side effects: the server's tools are offered as before, but no tool is executed, the conversation
memory is not updated and no client receives the answer. An import asks no model.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from ...core.events import Noted
from ...core.parsing.acceptance import Policy
from ...core.types import JSONObject, JSONValue, Note, Request
from ...engine.planning.capabilities import Capabilities
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace
from ...errors import UsageError
from ...key_value import MemoryState
from ...parsing import parse
from ...runtime.turn_factory import PlannedTurn
from ...upstreams.scripted import Scripted, Turn
from ..access.auth import Caller
from ..access.limits import check_request, read_object
from ..proxy.client_protocols import client_protocol
from ..proxy.exchange import RequestRecord
from ..proxy.request_settings import merge_settings
from ..proxy.upstream_router import Gateway, UpstreamConfig
from .entries import RecordingEntry, recalled_tools
from .views import detail

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


class _Imported(msgspec.Struct, frozen=True):
    """A request and its answer: a text, or the `reply`, which is the body of a response."""

    protocol: Literal["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"] = "openai_chat"
    request: JSONObject | None = None
    answer: str = ""
    reply: str = ""


async def replay_import(body: JSONObject) -> JSONObject:
    """Return the question, the tools, and by policy what the engine makes of the answer. Raises UsageError."""
    try:
        imported = msgspec.convert(body, _Imported)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid import: {error}") from None
    fields: JSONObject = {"model": "imported"} if imported.protocol == "gemini" else {}
    sent = msgspec.json.encode(imported.request or _request_for(imported.answer))
    request = client_protocol(imported.protocol).decode(sent, **fields)
    turn = Turn(imported.reply.encode(), protocol=imported.protocol) if imported.reply else Turn(imported.answer)
    record = RequestRecord("imported", imported.protocol, request.model, "", 0, (), "", Trace("", "", ""))
    entry = RecordingEntry(record, body=sent, fields=fields)
    question = next((each.text for each in reversed(request.messages) if each.role == "user"), "")
    views = {
        policy: detail(await replay_request(entry, _gateway(turn, policy), Caller(), {})) for policy in get_args(Policy)
    }
    return {"question": question, "tools": msgspec.to_builtins(request.tools), "views": views}


def _request_for(answer: str) -> JSONObject:
    """Return a request for an answer without one. It offers all tools that the answer names."""
    names = dict.fromkeys(call.name for call in parse(answer, policy="eager").calls)
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]
    return {"model": "imported", "messages": [{"role": "user", "content": ""}], "tools": tools}


def _gateway(turn: Turn, policy: Policy) -> Gateway:
    """Return a gateway whose only model gives this answer."""
    settings = Settings(mode="force", policy=policy, marks="fixed", retries=0)
    about = ("import", "import", "", "openai_chat")
    config = UpstreamConfig(*about, lambda key: Scripted(turn), lambda name: settings, fixed="imported")
    return Gateway([config], Capabilities(), MemoryState(), b"import")
