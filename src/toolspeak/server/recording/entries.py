"""What is kept of one request: what a client sent, what went upstream, what came back and what was made of it.

Everything as it is, by reference, so that keeping costs little; only the messages of large requests are packed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ...config import Secret
from ...core.types import JSONValue, Message, Request, Tool
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace
from ..observe.request_context import Times, Trip
from ..proxy.exchange import Exchange, Record
from ..proxy.upstream_address import Way

#: Notes of requests whose tools do not stand in their body.
_RECALLED = frozenset({"tools_recalled", "tools_guessed"})
#: What nobody has changed in a request that repeats none.
_UNCHANGED: Mapping[str, JSONValue] = {}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[Message, ...]]).decode


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One request and its answer. Nothing in it leads back to it: whoever collects garbage need not look at it.

    It is handed over without the names of its fields, to a process of the same version.
    """

    record: Record
    tenant: str = ""
    #: The body as it came, and what the path said besides.
    body: bytes = b""
    fields: Mapping[str, JSONValue] = {}
    #: Its tools, where they do not stand in the body.
    recalled: tuple[Tool, ...] = ()
    #: Seconds since the epoch.
    began: float = 0.0
    status: int = 0
    #: Seconds until the last byte and the first one, those waited for the upstream, and those that we added.
    whole: float = 0.0
    first: float = 0.0
    waited: float = 0.0
    added: float = 0.0
    #: Of those waited: until the first token, and while something was held back. Those in which tools ran here.
    first_token: float = 0.0
    held: float = 0.0
    tooled: float = 0.0
    #: Who was asked, in which protocol.
    provider: str = ""
    protocol: str = ""
    #: What the client showed that nobody else is to see.
    secrets: tuple[Secret, ...] = ()
    #: The id of the request that this one repeats, if it does, and what was changed.
    replay_of: str = ""
    changed: Mapping[str, JSONValue] = {}
    #: The number of the entry; later ones have higher numbers.
    number: int = 0
    #: The upstream that its model is at, and the settings that it was carried out with, once these were known.
    way: Way | None = None
    settings: Settings | None = None
    #: Tools of the server's own that were offered beside those of the request.
    served: tuple[Tool, ...] = ()
    #: The messages of its attempts in one piece, where it is large: these then have none (see `packed`).
    messages: bytes = b""


def recalled(record: Record, request: Request | None) -> tuple[Tool, ...]:
    """The tools of a request, if its body does not have them: those that it has are read there, when somebody looks."""
    is_told = request is not None and any(note.code in _RECALLED for note in record.notes)
    return request.tools if request is not None and is_told else ()


def entry_of(exchange: Exchange, trip: Trip, times: Times, began: float, number: int) -> Entry:
    """What there is to keep of a request that was answered, or refused before there was anything to carry out."""
    whole, first, added = times
    record = exchange.record or _refused(exchange)
    # No name before a value, and as few calls as can be: this is most of what keeping a request costs.
    return Entry(
        record,
        exchange.tenant,
        exchange.body,
        exchange.fields,
        recalled(record, exchange.asked) if record.notes else (),
        began,
        trip.status,
        whole,
        first,
        exchange.waited,
        added,
        exchange.first_token,
        exchange.held,
        exchange.tooled,
        exchange.provider,
        exchange.protocol,
        exchange.secrets,
        "",
        _UNCHANGED,
        number,
        exchange.way,
        exchange.settings,
        exchange.served,
    )


def _refused(exchange: Exchange) -> Record:
    model = exchange.asked.model if exchange.asked is not None else ""
    trace = Trace("", "", "the request was refused before anything was asked")
    return Record(exchange.id, exchange.face, model, "", 0, (), exchange.refusal, trace)


def size_of(entry: Entry) -> int:
    """The bytes of the texts of a request and its answers. A request counts once, as it came or as it was sent."""
    size, attempts = len(entry.body), entry.record.trace.attempts
    if len(attempts) > 1:  # each of them holds the request
        size *= len(attempts)
    if entry.messages:
        size = max(size, len(entry.messages))
    for each in attempts:
        size += len(each.raw) + len(each.reasoning)
    return size


def packed(entry: Entry) -> Entry:
    """An entry with its messages in one piece: as thousands of values they take longer to count and to let go of.

    As it is, if they cannot be encoded.
    """
    attempts = entry.record.trace.attempts
    try:
        messages = _encode([each.request.messages for each in attempts])
    except (ValueError, OverflowError, TypeError):  # half a character, or a number beyond 64 bits
        return entry
    return replace(_with_messages(entry, [()] * len(attempts)), messages=messages)


def unpacked(entry: Entry) -> Entry:
    """An entry with its messages where they belong."""
    return _with_messages(entry, _decode(entry.messages)) if entry.messages else entry


def _with_messages(entry: Entry, messages: list[tuple[Message, ...]]) -> Entry:
    record, trace = entry.record, entry.record.trace
    attempts = tuple(
        replace(each, request=replace(each.request, messages=its))
        for each, its in zip(trace.attempts, messages, strict=True)
    )
    return replace(entry, record=replace(record, trace=replace(trace, attempts=attempts)), messages=b"")
