"""How much is taken: requests a minute and at a time for each key and upstream, and how large a request may be.

Everything is counted in this process: with several, each allows as much. The clock is passed in.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext

import msgspec

from ...core.types import MAX_SCHEMA_BYTES, JSONObject, JSONValue, Note, Request, is_array, is_object
from ...errors import SchemaError, UpstreamError, UsageError
from ...protocols.shared.fields import ROUTING_FIELDS, parse_object
from ...upstreams.base import Batches, Upstream
from .api_keys import Key

#: JSON nested deeper than this is no request; llama.cpp draws the line here too.
MOST_DEPTH = 64
#: Lists and objects in one request; each takes many times the memory of its two bytes. The largest requests of coding
#: agents hold some 20,000, and a large file as text may hold more of such brackets.
MOST_CONTAINERS = 1_000_000
#: Members of all lists and objects in one request. A list of numbers is read at some ten million a second.
MOST_VALUES = 1_000_000
#: Coding agents with every tool server plugged in list about 200 tools.
MOST_TOOLS = 512
#: All tools of one request, as JSON. Coding agents send 75 kB, 200 tools of tool servers take about 300 kB.
MOST_TOOL_BYTES = 1024 * 1024
#: The longest conversations of coding agents have some thousand messages before they are summed up.
MOST_MESSAGES = 20_000
#: Where the protocols list messages, and where they list tools.
_MESSAGES, _TOOLS = ("messages", "input", "contents"), ("tools", "functions")
#: A text in JSON. One that never ends goes on to the end, so that nothing is looked at twice.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
#: How gzip and zstd begin.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: Keys whose counts are kept. One that was not used for longest starts anew, with a full bucket.
_MOST_METERS = 4096
#: When to try again if somebody else's request must end first: nobody knows, so soon.
_SOON = 1.0
_MINUTE = 60.0


class TooManyRequests(UsageError):
    """A limit is reached; `retry_after` is how many seconds to wait."""

    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, hint=f"try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class Packed(UsageError):
    """A body that is compressed: what a few bytes become would have to be limited too, and no client needs it."""

    status = 415


class Meter:
    """Counts the requests of one key or to one upstream: a bucket of tokens, and how many are under way.

    The bucket holds what a minute allows and fills steadily, so a burst of that size passes, and no more than twice
    that in any minute.
    """

    def __init__(self, rate: int, concurrency: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = (rate, concurrency)
        self._clock = clock
        self._tokens = float(rate)
        self._filled = clock()
        self.under_way = 0

    def enter(self) -> float:
        """Begin a request: 0.0, or how many seconds to wait before the next try."""
        rate, concurrency = self.limits
        if concurrency and self.under_way >= concurrency:
            return _SOON
        if rate:
            now = self._clock()
            self._tokens = min(float(rate), self._tokens + (now - self._filled) * rate / _MINUTE)
            self._filled = now
            if self._tokens < 1.0:
                return max(1.0, (1.0 - self._tokens) * _MINUTE / rate)
            self._tokens -= 1.0
        self.under_way += 1
        return 0.0

    def leave(self) -> None:
        """End a request."""
        self.under_way -= 1


class _Counted:
    """A request that a meter has let in."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self._meter.leave()


_UNCOUNTED = nullcontext()


class Limits:
    """The meters of the keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._meters: OrderedDict[str, Meter] = OrderedDict()

    def counted(self, key: Key | None) -> AbstractContextManager[object]:
        """While a request is answered, inside `with`.

        Raises:
            TooManyRequests: it is not to be answered now.
        """
        if key is None or not (key.rate or key.concurrency):
            return _UNCOUNTED
        meter = self._meter(key)
        wait = meter.enter()
        if wait:
            raise TooManyRequests(f"the key `{key.name}` has reached its limit", wait)
        return _Counted(meter)

    def _meter(self, key: Key) -> Meter:
        meter = self._meters.get(key.id)
        if meter is None:
            meter = self._meters[key.id] = Meter(key.rate, key.concurrency, self._clock)
            if len(self._meters) > _MOST_METERS:
                self._drop_idle()
        self._meters.move_to_end(key.id)
        return meter

    def _drop_idle(self) -> None:
        for old, meter in self._meters.items():
            if not meter.under_way:
                del self._meters[old]
                return


class LimitedUpstream:
    """An upstream that takes so much and no more; beyond that it fails at once, so that another can be asked."""

    def __init__(self, upstream: Upstream, meter: Meter, name: str) -> None:
        self._upstream = upstream
        self._meter = meter
        self._name = name
        self.provider = upstream.provider
        self.base_url = upstream.base_url

    def __repr__(self) -> str:
        return f"LimitedUpstream({self._upstream!r})"

    def open(self, request: Request) -> Batches:
        """Ask, if there is room."""
        return self._batches(request)

    async def close(self) -> None:
        """Free everything."""
        await self._upstream.close()

    async def _batches(self, request: Request) -> Batches:
        wait = self._meter.enter()
        if wait:
            message = f"the upstream `{self._name}` has reached its limit here"
            raise UpstreamError(message, upstream_status=429, retry_after=wait)
        try:
            async with aclosing(self._upstream.open(request)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._meter.leave()


# ---- how large a request may be


def read_object(body: bytes) -> JSONObject:
    """The object that a body is, if it is neither nested too deeply nor holds too much of anything.

    Raises:
        UsageError: it is no such object.
    """
    if body.startswith(_PACKED):
        raise Packed("the body is compressed", hint="send it as it is, without content-encoding")
    # Brackets in strings count too: it is enough that no request has nearly as many.
    brackets = body.count(b"{") + body.count(b"[")
    if brackets > MOST_CONTAINERS:
        raise UsageError(f"the body holds more than {MOST_CONTAINERS} lists and objects")
    if body.count(b",") > MOST_VALUES:  # few texts hold as many
        _check_values(body)
    fields = parse_object(body)
    _check_lists(fields, len(body))
    if brackets > MOST_DEPTH:  # fewer cannot be nested as deeply
        _check_depth(fields)
    return fields


def _check_depth(fields: JSONObject) -> None:
    level: list[JSONValue] = [fields]
    for _ in range(MOST_DEPTH):
        level = [
            each
            for one in level
            for each in (one.values() if is_object(one) else one)
            if type(each) is dict or type(each) is list
        ]
        if not level:
            return
    raise UsageError(f"the body is nested deeper than {MOST_DEPTH} levels")


def _check_values(body: bytes) -> None:
    """Count what stands between commas outside texts; of two texts one may be a key."""
    bare, texts = _TEXT.subn(b"", body, 2 * MOST_VALUES + 1)
    if texts > 2 * MOST_VALUES or bare.count(b",") > MOST_VALUES:
        raise UsageError(f"the body holds more than {MOST_VALUES} values")


def _check_lists(fields: JSONObject, size: int) -> None:
    """Before anything is made of them."""
    for name in _MESSAGES:
        listed = fields.get(name)
        if is_array(listed) and len(listed) > MOST_MESSAGES:
            raise UsageError(f"`{name}` lists {len(listed)} messages; at most {MOST_MESSAGES} are taken")
    if size <= MOST_TOOL_BYTES:
        return
    taken = sum(len(msgspec.json.encode(fields[name])) for name in _TOOLS if name in fields)
    if taken > MOST_TOOL_BYTES:
        raise SchemaError(
            f"the tools take {taken} bytes, more than {MOST_TOOL_BYTES}",
            hint="shorten the descriptions, or send fewer tools",
        )


def check_request(request: Request, size: int = 0) -> None:
    """Refuse a request that lists too many tools, or one that is too large; `size` is what its body takes.

    Raises:
        UsageError: it does.
    """
    if len(request.tools) > MOST_TOOLS:
        raise UsageError(f"the request lists {len(request.tools)} tools; at most {MOST_TOOLS} are taken")
    if size <= MAX_SCHEMA_BYTES:  # no part of it takes more
        return
    for tool in request.tools:
        taken = len(msgspec.json.encode(tool.parameters))
        if taken > MAX_SCHEMA_BYTES:
            from ...engine.prompting.escaping import shown_name

            raise SchemaError(
                f"the `parameters` of `{shown_name(tool.name)}` take {taken} bytes, more than {MAX_SCHEMA_BYTES}",
                hint="shorten the descriptions or split the tool",
            )


def ignored_routing(request: Request) -> tuple[Note, ...]:
    """A note for the fields by which a caller wanted to choose where the request goes: nobody but us does."""
    if ROUTING_FIELDS.isdisjoint(request.options.extra):
        return ()
    fields = sorted(ROUTING_FIELDS & request.options.extra.keys())
    return (Note("routing_ignored", f"where a request goes is configured; ignored: {', '.join(fields)}"),)
