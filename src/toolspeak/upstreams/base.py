"""The seam between the engine and whatever answers it: one method, several bodies. A body decides nothing about tools; it turns one request into events, and frees
everything it holds when it is closed. A body may ask again by itself only while nothing has flowed, and notes it.
"""

from __future__ import annotations

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

#: When the caller of a turn stops waiting, by the clock of the event loop; infinite: never.
DEADLINE: ContextVar[float] = ContextVar("toolspeak_deadline", default=math.inf)

#: Whether the caller of a turn can pass on an answer as it was written, if that is in the protocol of its request: then
#: batches carry their bytes (see `protocols.quoting`).
QUOTES: ContextVar[bool] = ContextVar("toolspeak_quotes", default=False)

#: The events of one read.
Batch: TypeAlias = Sequence[Event]
Batches: TypeAlias = AsyncGenerator[list[Event], None]

#: What an upstream said in an error is kept up to here: enough to understand it, too short to fill a log.
SHORT_BODY = 500

#: Events that are no part of the answer: a failure right behind them is still a failure before the first event.
_ASIDE = (Noted, UsageSeen)


class Upstream(Protocol):
    """Something that answers requests."""

    @property
    def provider(self) -> str:
        """Who answers: `openai`, `ollama`, `scripted`, `callable`."""
        ...

    @property
    def base_url(self) -> str:
        """Where it is, or nothing."""
        ...

    def open(self, request: Request) -> Batches:
        """Ask. Each item is what one read brought, and never empty; nothing is sent before the first is asked for.

        An answer holds one `Finish`, or ends with a `Failure`. The end of the iterator is its end: `UsageSeen`
        may come on either side of `Finish`.
        Closing the iterator (`aclose`), or cancelling the task that waits for it, cancels the exchange; once
        that has returned, everything is freed.

        Raises:
            UpstreamError: it failed before the first item. A failure after that is a `Failure`, the last event.
            UsageError: the request cannot be asked of this upstream at all.
        """
        ...

    async def close(self) -> None:
        """Free everything, exchanges under way included."""
        ...


async def settled(batches: Batches, clean: Callable[[str], str] = str) -> Batches:
    """Batches that keep the promise about failures, whichever way the source of `batches` tells of one.

    `clean` takes out of a failure's words what nobody may see.
    """
    flowed = False
    async with aclosing(batches):
        try:
            async for batch in batches:
                broken = _broken(batch)
                if broken is not None:
                    before, failure = broken[0], cleaned(broken[1], clean)
                    if not flowed and all(isinstance(event, _ASIDE) for event in before):
                        raise error_of(failure)
                    flowed = True
                    yield [*before, failure]
                    return
                if batch:
                    flowed = True
                    yield batch
        except UpstreamError as error:
            if not flowed:
                raise
            yield [failure_of(error)]


class Ending:
    """Keeps in mind what an answer has said, and adds at its end what it has not: why it ended, what it cost."""

    def __init__(self, finish: FinishReason | None = None, usage: Usage | None = None) -> None:
        self._finish: FinishReason | None = finish
        self._usage = usage
        self._seen: set[type] = set()

    def see(self, batch: Batch) -> None:
        """Look at what goes out."""
        self._seen.update(map(type, batch))

    def missing(self) -> list[Event]:
        """What is still to be said."""
        events: list[Event] = []
        if Failure in self._seen:
            return events
        if self._usage is not None and UsageSeen not in self._seen:
            events.append(UsageSeen(self._usage))
        if Finish not in self._seen:
            natural: FinishReason = "tool_calls" if CallStart in self._seen else "stop"
            events.append(Finish(self._finish or natural))
        return events


def _broken(batch: Batch) -> tuple[Batch, Failure] | None:
    """A batch that breaks off: what stands before the failure, and the failure. Nothing counts behind it."""
    for at, event in enumerate(batch):
        if isinstance(event, Failure):
            return batch[:at], event
    return None


def cleaned(failure: Failure, clean: Callable[[str], str]) -> Failure:
    """A failure without what nobody may see."""
    words = ("message", "body", "code", "error_type", "param")
    return replace(failure, **{word: clean(getattr(failure, word)) for word in words})


def cleaned_batch(batch: Batch, clean: Callable[[str], str]) -> list[Event]:
    """A batch whose failures and notes say nothing that nobody may see."""
    return [_cleaned_event(event, clean) for event in batch]


def _cleaned_event(event: Event, clean: Callable[[str], str]) -> Event:
    if isinstance(event, Failure):
        return cleaned(event, clean)
    return Noted(replace(event.note, detail=clean(event.note.detail))) if isinstance(event, Noted) else event


def failure_of(error: UpstreamError) -> Failure:
    """The event that says what `error` says."""
    return Failure(
        str(error),
        error.kind,
        error.upstream_status,
        error.body,
        error.retry_after,
        error.should_retry,
        error.code,
        error.error_type,
        error.param,
    )


def error_of(failure: Failure) -> UpstreamError:
    """The error that says what `failure` says."""
    error = UpstreamTimeout if failure.kind == "timeout" else UpstreamError
    return error(
        failure.message,
        upstream_status=failure.status,
        body=failure.body,
        kind=failure.kind,
        retry_after=failure.retry_after,
        should_retry=failure.should_retry,
        code=failure.code,
        error_type=failure.error_type,
        param=failure.param,
    )


def shorten(text: str, most: int = SHORT_BODY) -> str:
    """The head of `text`, on one line, with nothing in it that cannot be seen."""
    # Cut first: what is thrown away need not be looked at.
    line = " ".join(text[: most * 2].split())
    return printable(line) if len(line) <= most and len(text) <= most * 2 else f"{printable(line[:most])}…"
