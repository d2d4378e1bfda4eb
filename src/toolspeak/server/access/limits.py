"""Limits on the rate, concurrency and size of requests, per API key and per upstream.

Each worker process counts separately, so several workers together admit a multiple of the limit.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext

import msgspec

from ...core.types import MAX_SCHEMA_BYTES, JSONObject, Note, Request, is_array
from ...errors import SchemaError, UpstreamError, UsageError
from ...protocols.shared.fields import MAX_DEPTH, ROUTING_FIELDS, check_depth, parse_object
from ...upstreams.base import Batches, Upstream, WrappedUpstream, open_upstream
from .api_keys import ApiKey

#: Maximum number of lists and objects, each of which takes many times the memory of its two brackets. The largest
#: requests of coding agents have about 20,000; a large file quoted as text may contain more brackets.
MAX_CONTAINERS = 1_000_000
#: Maximum total number of values in all lists and objects. About ten million numbers are parsed per second.
MAX_VALUES = 1_000_000
#: Maximum number of tools. Coding agents with many MCP servers connected offer about 200.
MAX_TOOLS = 512
#: Maximum size of all tools as JSON. Coding agents send 75 kB; 200 tools of MCP servers take about 300 kB.
MAX_TOOL_BYTES = 1024 * 1024
#: Maximum number of messages. Coding agents compact a conversation after about a thousand.
MAX_MESSAGES = 20_000
#: Names of the fields that contain messages and tools, in all protocols.
_MESSAGES, _TOOLS = ("messages", "input", "contents"), ("tools", "functions")
#: Matches a JSON string. An unterminated string extends to the end, so nothing is scanned twice.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # magic bytes of gzip and Zstandard
#: Maximum number of meters. The least recently used idle one is dropped and would restart with a full bucket.
_MAX_METERS = 4096
#: Retry delay in seconds at a concurrency limit, where the time until a slot becomes free is unknown.
_CONCURRENCY_DELAY = 1.0
_MINUTE = 60.0


class TooManyRequests(UsageError):
    """A rate or concurrency limit has been reached; `retry_after` is in seconds."""

    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, hint=f"retry in {retry_after:.0f} s")
        self.retry_after = retry_after


class CompressedBody(UsageError):
    """The request body is compressed. No client needs this, and it would require limits on the decompressed size."""

    status = 415


class Meter:
    """Rate limit (token bucket) and concurrency limit for one key or upstream. Use it with `with` after `enter`.

    The bucket holds one minute's worth of requests and refills steadily. A full bucket permits a burst of that size,
    so any single minute admits at most twice the rate.
    """

    def __init__(self, rate: int, concurrency: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = (rate, concurrency)
        self._clock = clock
        self._tokens = float(rate)
        self._filled = clock()
        self.under_way = 0

    def enter(self) -> float:
        """Admit a request and return 0.0, or return the seconds to wait before a retry."""
        rate, concurrency = self.limits
        if concurrency and self.under_way >= concurrency:
            return _CONCURRENCY_DELAY
        if rate:
            now = self._clock()
            self._tokens = min(float(rate), self._tokens + (now - self._filled) * rate / _MINUTE)
            self._filled = now
            if self._tokens < 1.0:
                return max(1.0, (1.0 - self._tokens) * _MINUTE / rate)
            self._tokens -= 1.0
        self.under_way += 1
        return 0.0

    def refund(self) -> None:
        """Undo `enter`, because the request is going to be admitted once more."""
        self._tokens += bool(self.limits[0])
        self.leave()

    def leave(self) -> None:
        """Mark an admitted request as finished."""
        self.under_way -= 1

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.leave()


_UNCOUNTED = nullcontext()


class KeyLimits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._meters: OrderedDict[str, Meter] = OrderedDict()

    def counted(self, key: ApiKey | None) -> AbstractContextManager[object]:
        """Count a request against its key's limits and return a context manager for it. Raises TooManyRequests."""
        if key is None or not (key.rate or key.concurrency):
            return _UNCOUNTED
        meter = self._meters.get(key.id) or self._meter(key)
        self._meters.move_to_end(key.id)
        wait = meter.enter()
        if wait:
            raise TooManyRequests(f"the key `{key.name}` has reached its limit", wait)
        return meter

    def refund(self, key: ApiKey | None) -> None:
        """Undo `counted`."""
        if key is not None and (key.rate or key.concurrency):
            self._meter(key).refund()

    def _meter(self, key: ApiKey) -> Meter:
        meter = self._meters.get(key.id)
        if meter is None:
            meter = self._meters[key.id] = Meter(key.rate, key.concurrency, self._clock)
            if len(self._meters) > _MAX_METERS:
                idle = next((old for old, each in self._meters.items() if not each.under_way), key.id)
                del self._meters[idle]
        return meter


class LimitedUpstream(WrappedUpstream):
    """An upstream with limits. Requests beyond a limit fail at once, so a fallback can be tried."""

    def __init__(self, upstream: Upstream, meter: Meter, name: str) -> None:
        super().__init__(upstream)
        self._meter = meter
        self._name = name

    async def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        wait = self._meter.enter()
        if wait:
            message = f"the upstream `{self._name}` has reached its limit"
            raise UpstreamError(message, upstream_status=429, retry_after=wait)
        with self._meter:
            opened = open_upstream(self._upstream, request, passthrough_bytes=passthrough_bytes)
            async with aclosing(opened) as batches:
                async for batch in batches:
                    yield batch


def read_object(body: bytes) -> JSONObject:
    """Parse a body as a JSON object. Raises UsageError if it is none or exceeds a limit on nesting or size."""
    if body.startswith(_COMPRESSED):
        raise CompressedBody("the body is compressed", hint="send it uncompressed")
    # Brackets inside strings count too, but no real request comes close to the limit.
    brackets = body.count(b"{") + body.count(b"[")
    if brackets > MAX_CONTAINERS:
        raise UsageError(f"the body contains more than {MAX_CONTAINERS} lists and objects")
    if body.count(b",") > MAX_VALUES:  # includes commas inside strings, so count without them
        bare, texts = _TEXT.subn(b"", body, 2 * MAX_VALUES + 1)  # half of the strings may be keys
        if texts > 2 * MAX_VALUES or bare.count(b",") > MAX_VALUES:
            raise UsageError(f"the body contains more than {MAX_VALUES} values")
    fields = parse_object(body)
    _check_lists(fields, len(body))
    if brackets > MAX_DEPTH:  # with fewer brackets, the depth cannot be exceeded
        check_depth(fields)
    return fields


def _check_lists(fields: JSONObject, size: int) -> None:
    """Check the number of messages and the size of the tools before decoding them."""
    for name in _MESSAGES:
        values = fields.get(name)
        if is_array(values) and len(values) > MAX_MESSAGES:
            raise UsageError(f"`{name}` has {len(values)} messages; the limit is {MAX_MESSAGES}")
    if size <= MAX_TOOL_BYTES:
        return
    tool_bytes = sum(len(msgspec.json.encode(fields[name])) for name in _TOOLS if name in fields)
    if tool_bytes > MAX_TOOL_BYTES:
        hint = "shorten the descriptions, or send fewer tools"
        raise SchemaError(f"the tools take {tool_bytes} bytes; the limit is {MAX_TOOL_BYTES}", hint=hint)


def check_request(request: Request, size: int = 0) -> None:
    """Raise UsageError if there are too many tools or a schema is too large; `size` is that of the body in bytes."""
    if len(request.tools) > MAX_TOOLS:
        raise UsageError(f"the request has {len(request.tools)} tools; the limit is {MAX_TOOLS}")
    if size <= MAX_SCHEMA_BYTES:  # no schema can be larger than the body
        return
    for tool in request.tools:
        schema_bytes = len(msgspec.json.encode(tool.parameters))
        if schema_bytes > MAX_SCHEMA_BYTES:
            from ...engine.prompting.escaping import display_name

            what = f"the `parameters` of `{display_name(tool.name)}` take {schema_bytes} bytes"
            hint = "shorten the descriptions or split the tool"
            raise SchemaError(f"{what}; the limit is {MAX_SCHEMA_BYTES}", hint=hint)


def routing_notes(request: Request) -> tuple[Note, ...]:
    """Return a note about ignored request fields that try to choose the upstream."""
    if ROUTING_FIELDS.isdisjoint(request.options.extra):
        return ()
    fields = sorted(ROUTING_FIELDS & request.options.extra.keys())
    return (Note("routing_ignored", f"the configuration selects the upstream; ignored fields: {', '.join(fields)}"),)
