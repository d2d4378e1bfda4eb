"""A service that answers over HTTP, whichever transport reaches it; asked again where that helps. It follows no redirect. The key stands in one header and nowhere else: what a
service says in an error, and what a note tells of it, is freed of it before anybody sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ...core.events import Event, Noted
from ...core.types import Note, Request
from ...errors import UpstreamError, UsageError
from ...protocols.shared.passthrough_bytes import never_quoted
from ..base import DEADLINE, QUOTES, Batches, cleaned, cleaned_batch, error_of, failure_of, shorten
from ..codecs import codec, place_of
from .address import address, header_lines, redacted, secrets_in
from .connection import Timeouts
from .event_stream import Answer, Source, answer_from, what_it_said
from .refused_fields import Refused, changed, note_of, refused_field
from .retry import Budget, Retry, World, asked_wait, says_retry, wait_before


class Service:
    """What `HttpUpstream` and `Httpx2Upstream` have in common; not for use by itself."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        provider: str = "",
        model: str = "",
        retry: Retry | None = None,
        world: World | None = None,
        told: Iterable[Note] = (),
    ) -> None:
        self._codec = codec(protocol)
        self._address, self._version = place_of(base_url, protocol)
        #: As it was given: settings are found by it.
        self.base_url = address(base_url).url
        self.protocol = protocol
        self.provider = provider or self._codec.provider
        #: What a client over this service asks for. Who makes requests by hand names the model in them.
        self.model = model
        self.timeouts = timeouts or Timeouts()
        given = {self._codec.key_header: f"{self._codec.key_prefix}{api_key}"} if api_key else {}
        extra = dict(headers)
        self._lines = header_lines({**self._codec.headers, **given, **extra})
        self._secrets = secrets_in([api_key, *extra.values()])
        self._never = never_quoted(self._secrets)
        self._retry = retry or Retry()
        self._world = world or World()
        self._budget = Budget(self._retry.share)
        self._fields = Refused(self._world.now)
        self._closed = False
        #: Notes that go with every answer.
        self._told = tuple(told)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r}, protocol={self.protocol!r}, provider={self.provider!r})"

    def open(self, request: Request) -> Batches:
        """Post the request and read the reply."""
        return self._batches(request)

    async def close(self) -> None:
        """Drop every connection; exchanges under way fail."""
        self._closed = True

    async def _post(self, path: str, payload: bytes, end: float, notes: list[Event]) -> tuple[Source, bytes]:
        """Send a request to `path` and wait for the first piece of the response's body, not longer than to `end`.

        Raises:
            UpstreamError: nothing came. Then nothing is held either.
        """
        raise NotImplementedError

    async def _batches(self, request: Request) -> Batches:
        answer, batch = await self._begin(request)
        try:
            while batch:
                yield batch
                batch = await answer.next()
        except UpstreamError as error:
            if not answer.over:
                await answer.abandon()
            yield [cleaned(failure_of(error), self._clean)]
        finally:
            if not answer.over:
                await answer.abandon()

    async def _begin(self, request: Request) -> tuple[Answer, list[Event]]:
        """Ask until something flows, or asking again does not help."""
        if self._closed:
            raise UsageError("this upstream is closed")
        payload = self._codec.encode(request)
        end = asyncio.get_running_loop().time() + self.timeouts.total
        notes: list[Event] = [Noted(note) for note in (*self._told, *self._codec.notes(request))]
        without = self._fields.known(request)
        if without:
            payload = changed(payload, without)
            notes += [Noted(note_of(field)) for field in without]
        self._budget.asked()
        attempt = 0
        learned: tuple[str, ...] = ()
        while True:
            try:
                answer, batch = await self._ask(request, payload, end, notes)
                if learned:
                    self._fields.remember(request, learned)
                return answer, [*cleaned_batch(notes, self._clean), *batch] if notes else batch
            except UpstreamError as error:
                field = refused_field(error, payload, request)
                if field and field not in learned:
                    learned = (*learned, field)
                    payload = changed(payload, (field,))
                    notes.append(Noted(note_of(field)))
                    continue
                wait = self._wait(error, attempt, min(end, DEADLINE.get()))
                if wait is None:
                    if attempt:
                        error.hint = error.hint or f"asked {attempt + 1} times"
                    raise
                said = shorten(self._clean(str(error)))
                notes.append(Noted(Note("upstream_retry", f"asked again after {wait:.2f} s: {said}")))
            attempt += 1
            await self._world.sleep(wait)

    def _wait(self, error: UpstreamError, attempt: int, end: float) -> float | None:
        """Seconds to wait before asking again; None where that does not help, comes too late or costs too much."""
        wait = wait_before(error, attempt, self._retry, self._world.chance)
        if wait is None or self._closed or asyncio.get_running_loop().time() + wait >= end:
            return None
        return wait if self._budget.spend() else None

    async def _ask(
        self, request: Request, payload: bytes, end: float, notes: list[Event]
    ) -> tuple[Answer, list[Event]]:
        """Ask once."""
        source, piece = await self._post(self._version + self._codec.path(request), payload, end, notes)
        answer: Answer | None = None
        try:
            if source.status >= 300:
                refusal = await self._refused(source, piece)
            else:
                quotes = QUOTES.get() and request.stream and request.protocol == self.protocol
                answer = answer_from(source, piece, self._codec, request, self._clean, self._never if quotes else None)
                return answer, await answer.first()
        except BaseException:
            if answer is None or not answer.over:
                await source.abandon()
            raise
        raise refusal

    async def _refused(self, source: Source, piece: bytes) -> UpstreamError:
        """What an answer that is no reply means."""
        status = source.status
        said = await what_it_said(source, piece)
        headers = source.headers
        source.finish()
        if status < 400:
            hint = "a redirect is not followed: set the base URL to where the service is"
            return UpstreamError(f"`{self._address.authority}` answered {status}", hint=hint, upstream_status=status)
        # Before anything is cut out of it: a part of a secret is harder to find.
        said = redacted(said.decode("latin-1"), self._secrets).encode("latin-1")
        error = error_of(cleaned(self._codec.error(status, said, headers), self._clean))
        if error.retry_after is None:
            error.retry_after = asked_wait(headers, self._world.now)
        if error.should_retry is None:
            error.should_retry = says_retry(headers)
        return error

    def _clean(self, text: str) -> str:
        """A text without the key."""
        return redacted(text, self._secrets)
