"""From the response of a service to events: one answer, whichever transport carries it. An answer gives its connection back as soon as the last word has been read, and ends it when it breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from ...core.events import Event, Failure, Finish, Noted, UsageSeen
from ...core.types import Note, Request
from ...errors import UpstreamError, UpstreamTimeout
from ..base import DEADLINE, cleaned_batch, error_of, shorten
from ..codecs import Codec, Decoder
from .connection import Cut
from .decompress import Inflater, inflater

#: Of what an error says, this much is read.
MOST_ERROR = 64 * 1024
#: Of a page that is no answer, this much is looked at.
_SHOWN = 4096
#: Once the model has said why it stopped, so many seconds are waited for the rest, which is counts and a farewell.
LAST_WORDS = 3.0

#: What a content type says about a reply: whether it is a stream. Any other is taken to be what was asked for.
_STREAMS = {"text/event-stream": True, "application/x-ndjson": True, "application/json": False}

#: Events behind which nothing comes, events that are no part of the answer (a failure right behind these is still a
#: failure before the first event), and events that quote what a service said.
_LAST = frozenset({Finish, Failure})
_ASIDE = frozenset({Noted, UsageSeen})
_QUOTING = frozenset({Failure, Noted})

Clean = Callable[[str], str]


class Source(Protocol):
    """A response whose head is there."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """All headers, by lower-case name."""
        ...

    def header(self, name: bytes) -> str:
        """One header, by lower-case name."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body; nothing at its end."""
        ...

    def finish(self) -> None:
        """Nothing more will be read, and what is left is of no interest."""
        ...

    async def abandon(self) -> None:
        """End it, wherever it is."""
        ...


class Answer:
    """The events of one answer."""

    def __init__(self, source: Source, first: bytes, decoder: Decoder, inflate: Inflater | None, clean: Clean) -> None:
        #: Nothing more comes, and nothing is held.
        self.over = False
        self._source = source
        self._first: bytes | None = first
        self._decoder = decoder
        self._inflate = inflate
        self._clean = clean
        #: Until when the rest is waited for; 0 before the reason to stop.
        self._patience = 0.0

    async def first(self) -> list[Event]:
        """The first batch that is a part of the answer, with what came before it.

        Raises:
            UpstreamError: it failed before anything had flowed.
        """
        before: list[Event] = []
        while events := await self.next():
            if type(events[-1]) is Failure and all(type(event) in _ASIDE for event in events[:-1]):
                raise error_of(events[-1])
            if before:
                events = [*before, *events]
            if self.over or any(type(event) not in _ASIDE for event in events):
                return events
            before = events
        return before

    async def next(self) -> list[Event]:
        """The next batch; an empty one at the end.

        Raises:
            UpstreamError: the answer broke off.
        """
        try:
            while not self.over:
                piece, self._first = self._first, None
                if piece is None:
                    piece = await (self._last_words() if self._decoder.finished else self._source.read())
                events = self._decoded(piece) if piece else await self._end()
                if events:
                    return events
        except (Cut, UpstreamTimeout) as error:
            return await self._broken(error)
        return []

    async def _last_words(self) -> bytes:
        """The next piece behind the reason to stop, within what is left of a short time, and of the turn's."""
        now = asyncio.get_running_loop().time()
        if not self._patience:
            self._patience = now + min(LAST_WORDS, (DEADLINE.get() - now) / 2)
        try:
            async with asyncio.timeout_at(self._patience):
                return await self._source.read()
        except TimeoutError as error:
            raise UpstreamTimeout("the reply did not end") from error

    async def abandon(self) -> None:
        """Nobody wants the rest."""
        self.over = True
        await self._source.abandon()

    def _decoded(self, piece: bytes) -> list[Event]:
        if self._inflate is not None:
            piece = self._inflate.feed(piece)
        events = self._decoder.feed(piece)
        kinds = {type(event) for event in events}
        if not kinds.isdisjoint(_LAST):
            return self._ended(events)
        return events if kinds.isdisjoint(_QUOTING) else cleaned_batch(events, self._clean)

    async def _end(self) -> list[Event]:
        """The body has ended."""
        if self._inflate is not None and not self._inflate.whole:
            raise Cut("the compressed reply ended before its end")
        return self._ended(self._decoder.close())

    def _ended(self, events: list[Event]) -> list[Event]:
        """Some services keep the connection after the last word; there is nothing left to wait for."""
        self.over = True
        self._source.finish()
        if _QUOTING.isdisjoint(map(type, events)):
            return events
        for at, event in enumerate(events):
            if type(event) is Failure:
                events = events[: at + 1]
        return cleaned_batch(events, self._clean)

    async def _broken(self, error: UpstreamError) -> list[Event]:
        """The end of an answer that did not come to its end; it is whole where the model had said why it stopped.

        A body that is not streamed says so nowhere but at its end: shorter than announced, it is no answer, however
        well it can be read.

        Raises:
            UpstreamTimeout: it is not whole, and may never be.
        """
        await self.abandon()
        finished = self._decoder.finished
        if isinstance(error, UpstreamTimeout) and not finished:
            raise error
        events = self._ended(self._decoder.close())
        last = next((event for event in events if type(event) in _LAST), None)
        if isinstance(last, Finish):
            if finished:
                return [Noted(Note("connection_cut", f"behind the last word: {error}")), *events]
            events = [event for event in events if type(event) in _ASIDE]
        said = last.body if isinstance(last, Failure) else ""
        return [*(event for event in events if event is not last), Failure(str(error), "truncated", body=said)]


def answer_from(
    source: Source, first: bytes, codec: Codec, request: Request, clean: Clean, never: tuple[bytes, ...] | None = None
) -> Answer:
    """The answer that a response with a good status carries; `first` is the first piece of its body.

    `never`: what no bytes may hold that are passed on as they are; None: none are.

    Raises:
        UpstreamError: it is nothing that a model could have said.
    """
    encoding = source.header(b"content-encoding")
    inflate = inflater(encoding) if encoding else None
    media = source.header(b"content-type").partition(";")[0].strip().lower()
    if media == "text/html":
        hint = "check the base URL; for OpenAI's protocol it usually ends in /v1"
        said = _plain(inflate, first)[:_SHOWN].decode("utf-8", "backslashreplace")
        message = "the service answered with a web page"
        raise UpstreamError(message, hint=hint, upstream_status=source.status, body=shorten(clean(said)))
    decoder = codec.decoder(_STREAMS.get(media, request.stream))
    if never is not None:
        decoder.quote(never)
    return Answer(source, first, decoder, inflate, clean)


async def what_it_said(source: Source, said: bytes) -> bytes:
    """The body of an error, as far as it can be read; whatever breaks here, the status alone is worth telling."""
    try:
        inflate = inflater(source.header(b"content-encoding"))
        said = _plain(inflate, said)
        while len(said) < MOST_ERROR and (piece := await source.read()):
            said += _plain(inflate, piece)
    except UpstreamError:
        pass
    return said[:MOST_ERROR]


def _plain(inflate: Inflater | None, data: bytes) -> bytes:
    return data if inflate is None else inflate.feed(data)
