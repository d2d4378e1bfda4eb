"""Recording entry of one request: client request, upstream requests, answers and parse results.

An entry refers to existing objects instead of copying them. Only the messages of large requests are encoded.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ...config import Secret
from ...core.text import printable
from ...core.types import JSONValue, Message, Request, Tool
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace, count_retries, of_model
from ..asgi import header
from ..observe.counters import RequestRow, Totals, bucket_of
from ..observe.logs import redact
from ..observe.metrics import OFF_RULE, tools_label
from ..observe.request_context import CLIENT_CLOSED, RequestContext, Times
from ..proxy.exchange import ExchangeResult, RequestRecord
from ..proxy.upstream_router import UpstreamAddress

#: Codes of notes on requests whose tools came from memory and not from the body.
_RECALL_NOTES = frozenset({"tools_recalled", "tools_guessed"})
_MAX_CLIENT_CHARS, _MAX_LABEL_CHARS, _MAX_REDACTED = 100, 100, 4096
_ERROR = 400  # the lowest HTTP status that is an error
INVALID = ("invalid", "truncated")  # verdicts on calls that cannot be run
#: How a request with tools ended: with valid calls or a plain answer as the model gave it at first (`unaided`) or after
#: repairs, retries or an interpretation (`aided`), or without; empty if there is nothing to judge.
Success: TypeAlias = Literal["", "unaided", "aided", "failed"]
#: The changed settings of a request that is not a replay: none.
_NO_CHANGES: Mapping[str, JSONValue] = {}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[Message, ...]]).decode


class RecordingEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One recorded request and its answer.

    Entries have no reference cycles, so the garbage collector can skip them. They are sent to the writer process
    without field names, because both processes run the same version.
    """

    record: RequestRecord
    tenant: str = ""
    #: The body as received, and additional request fields from the path.
    body: bytes = b""
    fields: Mapping[str, JSONValue] = {}
    #: The tools of the request if they came from memory and not from the body.
    recalled_tools: tuple[Tool, ...] = msgspec.field(default=(), name="recalled")
    #: Start time in seconds since the epoch.
    started_at: float = msgspec.field(default=0.0, name="began")
    status: int = 0
    #: Seconds until the last byte, until the first byte, waiting for the upstream, and added by toolspeak.
    total_seconds: float = msgspec.field(default=0.0, name="whole")
    first_byte_seconds: float = msgspec.field(default=0.0, name="first")
    upstream_seconds: float = msgspec.field(default=0.0, name="waited")
    added_seconds: float = msgspec.field(default=0.0, name="added")
    #: Seconds until the first token, holding back output, and running server tools.
    first_token: float = 0.0
    held_seconds: float = msgspec.field(default=0.0, name="held")
    tool_seconds: float = msgspec.field(default=0.0, name="tooled")
    #: Provider and protocol of the upstream.
    provider: str = ""
    protocol: str = ""
    secrets: tuple[Secret, ...] = ()  # secrets that the client sent, which must never be shown
    #: For a replay: the id of the original request, and the changed settings.
    replay_of: str = ""
    changed: Mapping[str, JSONValue] = {}
    number: int = 0  # sequence number; later entries have higher numbers
    #: The upstream address and the settings; None if the request was rejected before they were known.
    upstream_address: UpstreamAddress | None = msgspec.field(default=None, name="way")
    settings: Settings | None = None
    #: Server tools that were offered in addition to the client's tools.
    server_tools: tuple[Tool, ...] = msgspec.field(default=(), name="served")
    client: str = ""  # the user agent that the client sent
    #: The encoded messages of all attempts if the request is large. The attempts then contain none (see `pack`).
    messages: bytes = b""


def recalled_tools(record: RequestRecord, request: Request | None) -> tuple[Tool, ...]:
    """Return the tools of a request if they came from memory. Tools in the body are decoded from it on demand."""
    was_recalled = request is not None and any(note.code in _RECALL_NOTES for note in record.notes)
    return request.tools if request is not None and was_recalled else ()


def build_entry(
    result: ExchangeResult, context: RequestContext, times: Times, began: float, number: int
) -> RecordingEntry:
    total, first, added = times
    record = result.record or _refused_record(result)
    # Positional arguments for speed: this call is most of the cost of recording.
    recalled = recalled_tools(record, result.request) if record.notes else ()
    request = (record, result.tenant, result.body, result.fields, recalled, began, context.status)
    seconds = (total, first, result.upstream_seconds, added, result.first_token_seconds, result.held_seconds)
    origin = (result.tool_seconds, result.provider, result.upstream_protocol, result.secrets, "", _NO_CHANGES, number)
    upstream = (result.upstream_address, result.settings, result.server_tools)
    return RecordingEntry(
        *request, *seconds, *origin, *upstream, header(context.scope, b"user-agent")[:_MAX_CLIENT_CHARS]
    )


def _refused_record(result: ExchangeResult) -> RequestRecord:
    model = result.request.model if result.request is not None else ""
    trace = Trace("", "", "the request was rejected before it was sent upstream")
    return RequestRecord(result.id, result.client_protocol, model, "", 0, (), result.refusal, trace)


def outcome_of(entry: RecordingEntry) -> Literal["answered", "error", "left"]:
    """Return how a request ended; `left` means that the client disconnected."""
    if entry.status == CLIENT_CLOSED:
        return "left"
    return "error" if entry.record.error or entry.status >= _ERROR else "answered"


def success_of(entry: RecordingEntry) -> Success:
    """Return whether a request with tools ended with valid calls or a plain answer, and whether that took help."""
    record = entry.record
    attempts, tools = record.trace.attempts, tools_label(record)
    if not attempts or tools == "none" or record.trace.rule == OFF_RULE or entry.status == CLIENT_CLOSED:
        return ""
    last = attempts[-1]
    if record.error or last.fault is not None:
        return "failed"
    if len(attempts) == 1 and not last.candidates:
        return "unaided"
    if any(each.verdict in INVALID for each in last.candidates):
        return "failed"
    helped = len(of_model(attempts)) < len(attempts)
    for attempt in attempts:
        for each in attempt.candidates:
            # A model that was given the tools natively may write a call as text, which others pass on as text.
            foreign = tools == "native" and each.dialect not in ("native", "")
            helped |= each.verdict == "call" and (foreign or bool(each.notes))
        helped |= attempt.fault is not None
    return "aided" if helped else "unaided"


def totals_of(entry: RecordingEntry) -> Totals:
    """Return the numbers of a request for the statistics."""
    record, outcome, success = entry.record, outcome_of(entry), success_of(entry)
    attempts, tools = record.trace.attempts, tools_label(record)
    # Most numbers are zero. Setting only the others takes half the time, which counts for every request.
    totals = Totals(1, total={bucket_of(entry.total_seconds): 1}, added=round(entry.added_seconds, 6))
    if tools != "none":
        setattr(totals, tools, 1)
        totals.no_call = int(bool(record.trace.why_no_call))
    if outcome != "answered":
        setattr(totals, "errors" if outcome == "error" else "disconnected", 1)
    if success:
        totals.judged, totals.unaided, totals.successful = 1, int(success == "unaided"), int(success != "failed")
    if entry.first_token:
        totals.first_token = {bucket_of(entry.first_token): 1}
    if len(attempts) > 1:
        totals.retries = count_retries(attempts)
    for attempt in attempts:
        totals.input_tokens += attempt.usage.input_tokens
        totals.output_tokens += attempt.usage.output_tokens
        totals.refusals += attempt.fault is not None and attempt.fault.kind == "refusal"
        calls = [each for each in attempt.candidates if each.verdict == "call"] if attempt.candidates else ()
        totals.calls += len(calls)
        totals.repairs += sum(len(each.notes) for each in calls)
    return totals


def request_row(entry: RecordingEntry, model: str, secrets: Iterable[str]) -> RequestRow:
    """Return the numbers of a request, and its model, client and key without secrets."""
    hidden = (*secrets, *(secret.reveal() for secret in entry.secrets))
    names = (_label(model[:_MAX_REDACTED], hidden), _label(client_name(entry.client), hidden), entry.tenant)
    return RequestRow(entry.started_at, *names, totals_of(entry))


def client_name(user_agent: str) -> str:
    """Return the name of a client: the first word of its user agent."""
    return "browser" if "Mozilla" in user_agent else user_agent.partition("/")[0].partition(" ")[0]


@lru_cache(maxsize=256)
def _label(text: str, secrets: tuple[str, ...]) -> str:
    return printable(redact(text, secrets)[:_MAX_LABEL_CHARS])


def text_size(entry: RecordingEntry) -> int:
    """Return the size in bytes of the texts in a request and its answers."""
    size, attempts = len(entry.body), entry.record.trace.attempts
    if len(attempts) > 1:  # every attempt contains the request
        size *= len(attempts)
    if entry.messages:
        size = max(size, len(entry.messages))
    for each in attempts:
        size += len(each.raw) + len(each.reasoning)
    return size


def pack(entry: RecordingEntry) -> RecordingEntry:
    """Encode the messages of an entry, because thousands of small values would take longer to measure and free.

    Return the entry unchanged if its messages cannot be encoded.
    """
    attempts = entry.record.trace.attempts
    try:
        messages = _encode([each.request.messages for each in attempts])
    except (ValueError, OverflowError, TypeError):  # a lone surrogate, or a number beyond 64 bits
        return entry
    return replace(_with_messages(entry, [()] * len(attempts)), messages=messages)


def unpack(entry: RecordingEntry) -> RecordingEntry:
    """Decode the messages of an entry that `pack` encoded."""
    return _with_messages(entry, _decode(entry.messages)) if entry.messages else entry


def _with_messages(entry: RecordingEntry, messages: list[tuple[Message, ...]]) -> RecordingEntry:
    record, trace = entry.record, entry.record.trace
    attempts = tuple(
        replace(each, request=replace(each.request, messages=its))
        for each, its in zip(trace.attempts, messages, strict=True)
    )
    return replace(entry, record=replace(record, trace=replace(trace, attempts=attempts)), messages=b"")


_encoder = msgspec.msgpack.Encoder(enc_hook=Secret.reveal)
#: The head of an array in MessagePack: its type (0xDC) and its length.
_ARRAY_HEAD = struct.Struct(">BH")


def encode_entries(entries: Sequence[RecordingEntry]) -> bytes:
    """Encode entries. Raises ValueError, OverflowError or TypeError for values that MessagePack does not have."""
    return _encoder.encode(entries)


def compress(entries: Sequence[RecordingEntry]) -> bytes | None:
    """Compress entries together, because neighbours have much in common. Returns None if one cannot be encoded."""
    compressor = zlib.compressobj(zlib.Z_BEST_SPEED)
    # A MessagePack array. Encoding all entries in one call would stop the other threads for as long as that takes.
    pieces = [compressor.compress(_ARRAY_HEAD.pack(0xDC, len(entries)))]
    try:
        pieces += [compressor.compress(_encoder.encode(entry)) for entry in entries]
    except (ValueError, OverflowError, TypeError):  # a lone surrogate, or a number beyond 64 bits
        return None
    return b"".join([*pieces, compressor.flush()])


@cache
def _decoder() -> msgspec.msgpack.Decoder[list[RecordingEntry]]:
    return msgspec.msgpack.Decoder(list[RecordingEntry], dec_hook=lambda kind, value: Secret(value))


@lru_cache(maxsize=1)  # callers look at one entry after the other
def decompress(data: bytes) -> dict[str, RecordingEntry]:
    return {entry.record.id: entry for entry in _decoder().decode(zlib.decompress(data))}
