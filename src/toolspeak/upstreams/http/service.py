"""`Service`: the part of an HTTP upstream that does not depend on the transport, with retries and redaction.

Redirects are never followed. The API key is sent in one header only and is redacted from errors and notes.
"""

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TypedDict, Unpack

import msgspec

from ...core.events import Event, Noted
from ...core.types import JSONObject, Note, Request, is_array, is_object
from ...errors import UpstreamError, UsageError
from ...protocols.shared.passthrough_bytes import secret_patterns
from .. import base
from ..codecs import codec, resolve_endpoint
from .address import header_lines, parse_base_url, redact, secret_values
from .connection import HttpConnection, Timeouts
from .event_stream import IncomingResponse, ReplyStream, open_reply, read_error_body
from .retry import Retry, RetryBudget, World, retry_after_seconds, retry_delay, should_retry_header


class ServiceOptions(TypedDict, total=False):
    """Optional arguments of every `Service`."""

    provider: str
    #: Default model of clients that use this service. Each request names its own model.
    model: str
    retry: Retry | None
    world: World | None
    #: Notes added to every answer.
    notes: Iterable[Note]


class Posted:
    """A request and the state of its answer."""

    __slots__ = ("answer", "connection", "end", "ends", "never", "notes", "over", "payload", "request", "started")

    def __init__(
        self, request: Request, payload: bytes, end: float, notes: list[Event], never: tuple[bytes, ...] | None
    ) -> None:
        self.request = request
        self.payload = payload
        #: Event loop time at which the reply must be complete.
        self.end = end
        #: Notes to return with the first batch.
        self.notes = notes
        #: Unless this is None, events carry raw bytes that contain none of these secrets.
        self.never = never
        #: The connection over which the request has been sent; None if it still has to be sent.
        self.connection: HttpConnection | None = None
        #: The reply; None until its head has arrived, and if it was decoded in one piece.
        self.answer: ReplyStream | None = None
        #: Whether the reply has ended and its connection has been released.
        self.over = False
        #: Whether the reply has arrived completely, but its end has not been decoded.
        self.ends = False
        #: Whether the first batch has been returned.
        self.started = False


class Service(base.PassthroughBase):
    """Abstract base class of `HttpUpstream` and `Httpx2Upstream`."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        **options: Unpack[ServiceOptions],
    ) -> None:
        protocol = "openai_chat" if protocol == "openai" else protocol
        self._codec = codec(protocol)
        self._address, self._version = resolve_endpoint(base_url, protocol)
        #: The base URL as configured, by which settings are looked up.
        self.base_url = parse_base_url(base_url).url
        self.protocol = protocol
        self.provider = options.get("provider") or self._codec.provider
        self.model = options.get("model", "")
        self.timeouts = timeouts or Timeouts()
        key_header = {self._codec.key_header: f"{self._codec.key_prefix}{api_key}"} if api_key else {}
        extra = dict(headers)
        self._lines = header_lines({**self._codec.headers, **key_header, **extra})
        self._secrets = secret_values([api_key, *extra.values()])
        self._never = secret_patterns(self._secrets)
        self._retry = options.get("retry") or Retry()
        self._world = options.get("world") or World()
        self._budget = RetryBudget(self._retry.share)
        self._fields = RefusedFields(self._world.now)
        self._closed = False
        self._notes = tuple(options.get("notes", ()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r}, protocol={self.protocol!r}, provider={self.provider!r})"

    async def close(self) -> None:
        """Close all connections. Requests in progress fail."""
        self._closed = True

    async def _post(self, path: str, posted: Posted) -> tuple[IncomingResponse, bytes]:
        """Send a request to `path`; wait for the first piece of the response body."""
        raise NotImplementedError

    async def _batches(self, request: Request, *, passthrough_bytes: bool) -> base.Batches:
        never = self._never if self._passes_bytes(request, passthrough_bytes) else None
        async with aclosing(self._rest(self._prepare(request, never))) as batches:
            async for batch in batches:
                yield batch

    def _passes_bytes(self, request: Request, passthrough_bytes: bool) -> bool:
        return passthrough_bytes and request.stream and request.protocol == self.protocol

    async def _rest(self, posted: Posted) -> base.Batches:
        """Yield the batches of a request that may have been sent already, and partly been answered."""
        answer, batch = posted.answer, list[Event]()
        if answer is None or not posted.started:
            answer, batch = await self._begin(posted)
        else:
            batch = await answer.next()
        try:
            while batch:
                yield batch
                batch = await answer.next()
        except UpstreamError as error:
            if not answer.over:
                await answer.abandon()
            yield [base.redact_failure(base.failure_of(error), self._clean)]
        finally:
            if not answer.over:
                await answer.abandon()

    def _prepare(self, request: Request, never: tuple[bytes, ...] | None) -> Posted:
        """Encode a request. Raises UsageError if the upstream is closed."""
        if self._closed:
            raise UsageError("this upstream is closed")
        payload = self._codec.encode(request)
        end = asyncio.get_running_loop().time() + self.timeouts.total
        own_notes = (*self._notes, *self._codec.notes(request))
        notes: list[Event] = list(map(Noted, own_notes)) if own_notes else []
        refused = self._fields.for_request(request)
        if refused:
            payload = without_fields(payload, refused)
            notes += [Noted(refusal_note(field)) for field in refused]
        self._budget.record_request()
        return Posted(request, payload, end, notes, never)

    async def _begin(self, posted: Posted) -> tuple[ReplyStream, list[Event]]:
        """Send the request, with retries, and wait for the first event."""
        request, notes = posted.request, posted.notes
        attempt = 0
        refused: dict[str, bool] = {}  # the newly refused fields, and whether the service does not know them
        while True:
            try:
                answer, batch = await self._send_once(posted)
                if any(refused.values()):
                    self._fields.remember(request, tuple(field for field in refused if refused[field]))
                return answer, [*base.redact_batch(notes, self._clean), *batch] if notes else batch
            except UpstreamError as error:
                field = refused_field(error, posted.payload, request)
                if field and field not in refused:
                    refused[field] = UNKNOWN_FIELD(f"{error} {error.body}") is not None
                    posted.payload = without_fields(posted.payload, (field,))
                    notes.append(Noted(refusal_note(field)))
                    continue
                delay = self._retry_delay(error, attempt, min(posted.end, base.DEADLINE.get()))
                if delay is None:
                    if attempt:
                        error.hint = error.hint or f"{attempt + 1} attempts"
                    raise
                reason = base.shorten(self._clean(str(error)))
                notes.append(Noted(Note("upstream_retry", f"retried after {delay:.2f} s: {reason}")))
            attempt += 1
            await self._world.sleep(delay)

    def _retry_delay(self, error: UpstreamError, attempt: int, end: float) -> float | None:
        """Return the delay in seconds before a retry, or None if a retry is useless, too late or over budget."""
        delay = retry_delay(error, attempt, self._retry, self._world.chance)
        if delay is None or self._closed or asyncio.get_running_loop().time() + delay >= end:
            return None
        return delay if self._budget.spend() else None

    async def _send_once(self, posted: Posted) -> tuple[ReplyStream, list[Event]]:
        """Send the request once, unless it has been sent already, and wait for its first event."""
        answer, posted.answer = posted.answer, None
        if answer is not None:  # it contains no event yet, or only an error
            return answer, await answer.first()
        source, piece = await self._post(self._version + self._codec.path(posted.request), posted)
        try:
            if source.status >= 300:
                error = await self._error_from_response(source, piece)
            else:
                answer = open_reply(source, piece, self._codec, posted.request, self._clean, posted.never)
                return answer, await answer.first()
        except BaseException:
            if answer is None or not answer.over:
                await source.abandon()
            raise
        raise error

    async def _error_from_response(self, source: IncomingResponse, piece: bytes) -> UpstreamError:
        """Return the error for a response with a status of 300 or more."""
        status = source.status
        body = await read_error_body(source, piece)
        headers = source.headers
        source.finish()
        if status < 400:
            hint = "redirects are not followed: set the base URL to the final address"
            return UpstreamError(f"`{self._address.authority}` answered {status}", hint=hint, upstream_status=status)
        # Redact before any text is shortened, because part of a secret is harder to find.
        body = redact(body.decode("latin-1"), self._secrets).encode("latin-1")
        error = base.error_of(base.redact_failure(self._codec.error(status, body, headers), self._clean))
        if error.retry_after is None:
            error.retry_after = retry_after_seconds(headers, self._world.now)
        if error.should_retry is None:
            error.should_retry = should_retry_header(headers)
        return error

    def _clean(self, text: str) -> str:
        return redact(text, self._secrets)


# Refused fields are request fields that some services reject. toolspeak, not the caller, has added them: usage in
# streams, stop sequences, rules that are also enforced on the answer. If an error names such a field, the request is
# sent once more with the field dropped or renamed. If the service does not know the field, later requests are changed
# in the same way for a while. A complaint about a value concerns one request only, and a field that the caller has sent
# is always tried first.

#: Statuses for an invalid request.
_REQUEST_ERRORS = frozenset({400, 422})
#: New names for refused fields; empty means the field is dropped.
_REPLACEMENTS = {
    **dict.fromkeys(("stream_options", "store", "parallel_tool_calls", "stop", "reasoning_content"), ""),
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
#: Fields inside messages. Some services require their own reasoning back, others reject it.
_IN_MESSAGES = frozenset({"reasoning_content"})
#: Fields that the caller may have set. They are changed only if the request marks them as dispensable.
_CALLERS = frozenset({"parallel_tool_calls", "stop"})
#: Matches an error that says that the service does not know a field, rather than that its value is wrong.
UNKNOWN_FIELD = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:a valid|allowed|permitted|support)|extra|instead",
    re.IGNORECASE,
).search
#: Seconds until a refused field is tried again, because services get updated.
_REMEMBER_SECONDS = 24 * 3600.0
#: Maximum number of pairs of model and tenant to remember. The names come from requests, so there may be any number.
_MAX_REMEMBERED = 1024


#: Stands for the tenants that have seen no refusal themselves.
_OTHERS = None


class RefusedFields:
    """Remembers which fields a service has refused, for each model and tenant.

    A tenant can provoke any error message, so other tenants go by it only if enough tenants have seen the same.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refusals: OrderedDict[tuple[str, str | None], tuple[float, tuple[str, ...]]] = OrderedDict()

    def for_request(self, request: Request) -> tuple[str, ...]:
        """Return the fields to drop or rename in this request."""
        if not self._refusals:
            return ()
        fields = self._current(request.model, request.tenant) or self._current(request.model, _OTHERS)
        kept = {each for each in request.options.extra if not _REPLACEMENTS.get(each)}  # a renamed field is not lost
        return tuple(field for field in fields if field not in kept and _may_change(field, request))

    def remember(self, request: Request, fields: tuple[str, ...]) -> None:
        """Remember refused fields. Called after a request without them has succeeded."""
        model = request.model
        self._add(model, request.tenant, fields)
        tenants = [tenant for name, tenant in self._refusals if name == model and tenant is not _OTHERS]
        counts = Counter(field for tenant in tenants for field in self._current(model, tenant))
        if agreed := tuple(field for field in fields if counts[field] >= base.TENANTS_TO_AGREE):
            self._add(model, _OTHERS, agreed)

    def _current(self, model: str, tenant: str | None) -> tuple[str, ...]:
        until, fields = self._refusals.get((model, tenant), (0.0, ()))
        return fields if self._clock() < until else ()

    def _add(self, model: str, tenant: str | None, fields: tuple[str, ...]) -> None:
        fields = tuple(dict.fromkeys((*self._current(model, tenant), *fields)))
        self._refusals[model, tenant] = self._clock() + _REMEMBER_SECONDS, fields
        self._refusals.move_to_end((model, tenant))
        if len(self._refusals) > _MAX_REMEMBERED:
            self._refusals.popitem(last=False)


def refused_field(error: UpstreamError, payload: bytes, request: Request) -> str:
    """Return the field that an error names as its cause and that may be changed, or an empty string."""
    if error.upstream_status not in _REQUEST_ERRORS:
        return ""
    error_text = f"{error} {error.body}"
    sent: JSONObject = msgspec.json.decode(payload)
    ours = (
        field
        for field in _REPLACEMENTS
        if any(field in each for each in _containers(sent, field)) and _may_change(field, request)
    )
    return next((field for field in ours if re.search(rf"(?<!\w){field}(?!\w)", error_text)), "")


def _containers(body: JSONObject, field: str) -> list[JSONObject]:
    if field not in _IN_MESSAGES:
        return [body]
    listed = body.get("messages")
    return list(filter(is_object, listed)) if is_array(listed) else []


def _may_change(field: str, request: Request) -> bool:
    options = request.options
    if field in _CALLERS:
        return field in options.dispensable
    return field not in options.own and not (field == "store" and field in options.extra)


def without_fields(payload: bytes, fields: tuple[str, ...]) -> bytes:
    """Return a request body with these fields dropped or renamed."""
    body = msgspec.json.decode(payload)
    for field in fields:
        for container in _containers(body, field):
            if field in container:
                value = container.pop(field)
                if replacement := _REPLACEMENTS[field]:
                    container[replacement] = value
    return msgspec.json.encode(body)


def refusal_note(field: str) -> Note:
    replacement = _REPLACEMENTS[field]
    how = f"sent as `{replacement}`" if replacement else "dropped"
    return Note("field_refused", f"the upstream refuses `{field}`: {how}")
