"""Several upstreams for one model: the next is asked where one fails before anything has flowed. After the first event nothing is asked again: what has been given
cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from msgspec.structs import replace

from ..core.events import Event, Noted
from ..core.types import Note, Request
from ..errors import UpstreamError, UsageError
from .base import Batches, Upstream, shorten

#: Statuses that are about the request itself: somebody else would say the same, and whoever asked can learn from it.
_ABOUT_THE_REQUEST = frozenset({400, 413, 422})


class Fallback:
    """An upstream made of others, in the order in which they are asked. It is called by the name of the first."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise UsageError("a list of upstreams to fall back to must name one at least")
        self.upstreams = tuple(upstreams)
        self.provider = self.upstreams[0].provider
        self.base_url = self.upstreams[0].base_url
        #: What a client over them asks for, and how it speaks; each may know its model under a name of its own.
        self.model = str(getattr(self.upstreams[0], "model", self.provider))
        self.protocol = str(getattr(self.upstreams[0], "protocol", "openai_chat"))

    def __repr__(self) -> str:
        return f"Fallback({list(self.upstreams)!r})"

    def open(self, request: Request) -> Batches:
        """Ask one after the other until something flows."""
        return self._batches(request)

    async def close(self) -> None:
        """Free all of them."""
        for upstream in self.upstreams:
            await upstream.close()

    async def _batches(self, request: Request) -> Batches:
        notes: list[Event] = []
        nothing: list[Event] = []
        for upstream, following in zip(self.upstreams, [*self.upstreams[1:], None], strict=True):
            async with aclosing(upstream.open(_asked(request, upstream))) as batches:
                try:
                    first = await anext(batches, nothing)
                except UpstreamError as error:
                    if following is None or error.upstream_status in _ABOUT_THE_REQUEST:
                        raise
                    notes.append(_note(upstream, following, error))
                    continue
                yield [*notes, *first] if notes else first
                async for batch in batches:
                    yield batch
                return


def _asked(request: Request, upstream: Upstream) -> Request:
    model = str(getattr(upstream, "model", "")) or request.model
    return request if model == request.model else replace(request, model=model)


def _note(failed: Upstream, following: Upstream, error: UpstreamError) -> Event:
    names = [upstream.base_url or upstream.provider for upstream in (failed, following)]
    return Noted(Note("upstream_fallback", f"`{names[0]}` failed, `{names[1]}` was asked: {shorten(str(error))}"))
