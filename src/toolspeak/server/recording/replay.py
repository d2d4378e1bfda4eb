"""A request that was kept, carried out once more with other settings or another model, and kept beside the first.

What comes of it goes to whoever looks at it and nowhere else: the server's tools are offered as they were then,
but no tool is executed, nothing is remembered for the conversation, no client hears of it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping

import msgspec

from ...core.events import Noted
from ...core.types import JSONValue, Note, Request
from ...engine.turn.trace import Trace
from ...errors import UsageError
from ...runtime.turn_factory import MadeTurn
from ..access.auth import Caller
from ..access.limits import check_request, read_object
from ..proxy.client_protocols import face
from ..proxy.exchange import Record
from ..proxy.request_settings import changed_settings
from ..proxy.upstream_router import Gateway
from .entries import Entry, recalled

#: Seconds for all answers of one replay: whoever waits for it looks at a page.
_PATIENCE = 300.0


async def replayed(entry: Entry, gateway: Gateway, caller: Caller, wanted: Mapping[str, JSONValue]) -> Entry:
    """The request of an entry, carried out again.

    Raises:
        ToolspeakError: it cannot be.
    """
    wishes = dict(wanted)
    request = _asked(entry, wishes.pop("model", ""))
    target = gateway.target(request, caller)
    settings = changed_settings(target.settings, wishes)
    tools = (*request.tools, *entry.served)
    asked = msgspec.structs.replace(request, model=target.maker.reached.model, stream=False, tools=tools)
    began, started = time.time(), time.perf_counter()
    # Under whose name it was asked, so that tools which were recalled then are recalled again.
    made = target.maker.make(asked, settings, entry.tenant)
    with gateway.lease():
        record = await _carried_out(made, entry, request.model)
    whole = time.perf_counter() - started
    waited = made.turn.waited
    return Entry(
        record,
        entry.tenant,
        entry.body,
        entry.fields,
        recalled(record, made.request),
        began,
        200 if not record.error else 502,
        whole,
        whole,
        waited,
        max(0.0, whole - waited),
        made.turn.first_token,
        made.turn.held,
        made.turn.tooled,
        made.turn.provider,
        target.maker.reached.protocol,
        entry.secrets,
        entry.record.id,
        {name: value for name, value in wanted.items() if value not in ("", None)},
        way=target.way,
        settings=settings,
        served=entry.served,
    )


def _asked(entry: Entry, model: JSONValue) -> Request:
    if model is not None and not isinstance(model, str):
        raise UsageError("`model` must be the name of a model, as a text", hint="leave it out for the model of then")
    if not entry.body:
        raise UsageError("the texts of this request were not kept", hint="they were too large")
    request = face(entry.record.face).decode(read_object(entry.body), **entry.fields)
    check_request(request, len(entry.body))
    return msgspec.structs.replace(request, model=model) if model else request


async def _carried_out(made: MadeTurn, entry: Entry, model: str) -> Record:
    notes: list[Note] = []
    plan = made.plan
    about = (secrets.token_hex(16), entry.record.face, model, plan.kind)
    try:
        async with asyncio.timeout(_PATIENCE):
            async for batch in made.turn.batches():
                notes += [event.note for event in batch if isinstance(event, Noted)]
    except TimeoutError:
        error = f"no whole answer within {_PATIENCE:g} s"
        return Record(*about, 0, (), error, Trace(plan.kind, plan.rule, plan.why), tuple(notes))
    outcome = made.turn.outcome
    assert outcome is not None
    failure = outcome.failure.message if outcome.failure is not None else ""
    return Record(*about, outcome.requests, outcome.warnings, failure, outcome.trace, tuple(notes))
