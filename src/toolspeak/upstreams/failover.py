"""Failover between several upstreams for one model. If one fails before its first event, the next one is tried.

After the first event the upstream is not changed, because output that was passed on cannot be taken back.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from ..core.events import Event, Noted
from ..core.types import Note, Request
from ..errors import UpstreamError, UsageError
from .base import Batches, PassthroughBase, Upstream, open_upstream, shorten

#: Statuses for an invalid request. Another upstream would reject it too, so the error is raised at once.
_REQUEST_ERRORS = frozenset({400, 413, 422})


class Failover(PassthroughBase):
    """An upstream that tries several others in order. Its provider and base URL are those of the first one.

    `on_answer` is called with the position of the upstream that answers, before its first event is passed on.
    """

    def __init__(self, upstreams: Sequence[Upstream], on_answer: Callable[[int], None] = lambda position: None) -> None:
        if not upstreams:
            raise UsageError("a fallback needs at least one upstream")
        self.upstreams = tuple(upstreams)
        self._on_answer = on_answer
        self.provider = self.upstreams[0].provider
        self.base_url = self.upstreams[0].base_url
        #: The model and protocol that clients see. Each upstream may replace the model with its own.
        self.model = str(getattr(self.upstreams[0], "model", self.provider))
        self.protocol = str(getattr(self.upstreams[0], "protocol", "openai_chat"))

    def __repr__(self) -> str:
        return f"Failover({list(self.upstreams)!r})"

    async def close(self) -> None:
        for upstream in self.upstreams:
            await upstream.close()

    async def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        notes: list[Event] = []
        empty: list[Event] = []
        following = [*self.upstreams[1:], None]
        for position, (upstream, next_upstream) in enumerate(zip(self.upstreams, following, strict=True)):
            model = str(getattr(upstream, "model", "")) or request.model
            own = request if model == request.model else replace(request, model=model)
            opened = open_upstream(upstream, own, passthrough_bytes=passthrough_bytes)
            async with aclosing(opened) as batches:
                try:
                    first = await anext(batches, empty)
                except UpstreamError as error:
                    if next_upstream is None or error.upstream_status in _REQUEST_ERRORS:
                        raise
                    notes.append(_note(upstream, next_upstream, error))
                    continue
                self._on_answer(position)
                yield [*notes, *first] if notes else first
                async for batch in batches:
                    yield batch
                return


def _note(failed: Upstream, next_upstream: Upstream, error: UpstreamError) -> Event:
    names = [upstream.base_url or upstream.provider for upstream in (failed, next_upstream)]
    return Noted(Note("upstream_fallback", f"`{names[0]}` failed, trying `{names[1]}`: {shorten(str(error))}"))
