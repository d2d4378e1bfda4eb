"""The interface between the engine and model services: `Upstream`, its failure contract and its helpers.

An upstream turns one request into events and makes no decisions about tools. It may retry only before the first event,
and records each retry as a note. Closing it frees all its resources.
"""

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from ..core.events import CallStart, Event, Failure, Finish, FinishReason, Noted, UsageSeen
from ..core.text import printable
from ..core.types import Request, Usage
from ..errors import UpstreamError, UpstreamTimeout
from ..protocols.shared.choices_decoder import Deliver

#: The event loop time at which the caller stops waiting for the turn; infinity means never.
DEADLINE: ContextVar[float] = ContextVar("toolspeak_deadline", default=math.inf)
#: Receives the other answers to a request for several; without it, only the first is used.
OTHER_ANSWERS: ContextVar[Deliver | None] = ContextVar("toolspeak_other_answers", default=None)

#: The events decoded from one read.
Batch: TypeAlias = Sequence[Event]
Batches: TypeAlias = AsyncGenerator[list[Event], None]

#: Number of tenants that must agree on what a model or its service does before other tenants go by it.
TENANTS_TO_AGREE = 3
#: Maximum length of quoted upstream error text: long enough to understand, short enough for a log.
MAX_ERROR_CHARS = 500

#: Events that are not part of the answer. A failure after only these still counts as one before the first event.
_METADATA_EVENTS = (Noted, UsageSeen)


class Upstream(Protocol):
    """The interface that every upstream implements."""

    @property
    def provider(self) -> str:
        """Name of the provider, such as `openai`, `ollama`, `scripted` or `callable`."""
        ...

    @property
    def base_url(self) -> str:
        """Base URL of the service, or an empty string."""
        ...

    def open(self, request: Request) -> Batches:
        """Send the request and yield batches of events, one batch per read and never an empty one.

        Nothing is sent before the first batch is requested. An answer contains one `Finish` or ends with a `Failure`.
        `UsageSeen` may come before or after `Finish`; only the end of the iterator ends the answer. Closing the
        iterator (`aclose`) or cancelling the task that awaits it cancels the request and frees its resources.

        Raises:
            UpstreamError: the request failed before the first batch. Later failures are a final `Failure` event.
            UsageError: this upstream cannot send a request of this kind.
        """
        ...

    async def close(self) -> None:
        """Free all resources. Requests in progress fail."""


class PassthroughBase:
    """Base class of upstreams that can return the raw bytes of a reply along with the events."""

    def open(self, request: Request) -> Batches:
        return self._batches(request, passthrough_bytes=False)

    def open_passthrough(self, request: Request) -> Batches:
        """Like `open`, but events carry their raw bytes if the reply is streamed in the client's protocol."""
        return self._batches(request, passthrough_bytes=True)

    def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        raise NotImplementedError


class WrappedUpstream(PassthroughBase):
    """Base class of upstreams that change the requests to one other upstream."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.provider = upstream.provider
        self.base_url = upstream.base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._upstream!r})"

    async def close(self) -> None:
        await self._upstream.close()


def open_upstream(upstream: Upstream, request: Request, *, passthrough_bytes: bool) -> Batches:
    """Open a request. With `passthrough_bytes`, events carry the raw bytes of the reply if the upstream supports it."""
    if passthrough_bytes and isinstance(upstream, PassthroughBase):
        return upstream.open_passthrough(request)
    return upstream.open(request)


async def normalize_failures(batches: Batches, clean: Callable[[str], str] = str) -> Batches:
    """Enforce the failure contract of `Upstream.open` on any batches. `clean` redacts secrets in failures."""
    started = False
    async with aclosing(batches):
        try:
            async for batch in batches:
                failure = next((event for event in batch if isinstance(event, Failure)), None)
                if failure is not None:  # everything after it is dropped
                    before, failure = batch[: batch.index(failure)], redact_failure(failure, clean)
                    if not started and all(isinstance(event, _METADATA_EVENTS) for event in before):
                        raise error_of(failure)
                    started = True
                    yield [*before, failure]
                    return
                if batch:
                    started = True
                    yield batch
        except UpstreamError as error:
            if not started:
                raise
            yield [failure_of(error)]


class ReplyCompleter:
    """Tracks emitted events and supplies a missing `Finish` or `UsageSeen` at the end of a reply."""

    def __init__(self, finish: FinishReason | None = None, usage: Usage | None = None) -> None:
        self._finish: FinishReason | None = finish
        self._usage = usage
        self._event_types: set[type] = set()

    def see(self, batch: Batch) -> None:
        self._event_types.update(map(type, batch))

    def missing(self) -> list[Event]:
        events: list[Event] = []
        if Failure in self._event_types:
            return events
        if self._usage is not None and UsageSeen not in self._event_types:
            events.append(UsageSeen(self._usage))
        if Finish not in self._event_types:
            natural: FinishReason = "tool_calls" if CallStart in self._event_types else "stop"
            events.append(Finish(self._finish or natural))
        return events


def redact_failure(failure: Failure, clean: Callable[[str], str]) -> Failure:
    """Apply the redaction function `clean` to every text field of a failure."""
    fields = ("message", "body", "code", "error_type", "param")
    return replace(failure, **{field: clean(getattr(failure, field)) for field in fields})


def redact_batch(batch: Batch, clean: Callable[[str], str]) -> list[Event]:
    def redacted(event: Event) -> Event:
        if isinstance(event, Failure):
            return redact_failure(event, clean)
        return Noted(replace(event.note, detail=clean(event.note.detail))) if isinstance(event, Noted) else event

    return list(map(redacted, batch))


#: Fields of a failure that the error has under the same name.
_SHARED_FIELDS = ("kind", "body", "retry_after", "should_retry", "code", "error_type", "param")


def failure_of(error: UpstreamError) -> Failure:
    fields = {name: getattr(error, name) for name in _SHARED_FIELDS}
    return Failure(str(error), status=error.upstream_status, **fields)


def error_of(failure: Failure) -> UpstreamError:
    error = UpstreamTimeout if failure.kind == "timeout" else UpstreamError
    fields = {name: getattr(failure, name) for name in _SHARED_FIELDS}
    return error(failure.message, upstream_status=failure.status, **fields)


def shorten(text: str, limit: int = MAX_ERROR_CHARS) -> str:
    """Return the start of `text` on one line, with invisible characters made printable."""
    # Cut first, so no time is spent on text that is dropped.
    line = " ".join(text[: limit * 2].split())
    return printable(line) if len(line) <= limit and len(text) <= limit * 2 else f"{printable(line[:limit])}…"
