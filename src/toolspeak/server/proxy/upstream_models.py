"""The models that an upstream itself says it has, for upstreams whose models nobody has listed.

Asked when somebody wants to see the list, never on the way of a model request, and not again for a while; an upstream
that does not answer just has no names to show.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from ...core.types import JSONValue, is_array, is_object
from ...errors import ToolspeakError, UpstreamError
from ...protocols.shared.fields import read_json
from ...upstreams.http.thin_transport import HttpUpstream

#: Seconds: what is known stays known for so long, whoever asks; and nobody waits longer for an upstream.
FRESH = 60.0
_PATIENCE = 5.0
#: The longest list there is (a broker's, with descriptions) has some 400 names in half of this.
_MOST_BYTES = 2 * 1024 * 1024
_MOST_NAMES = 2000
_LONGEST_NAME = 256

#: Protocol -> where its list is, the field that holds it, and the one that holds a name.
_PLACES = {
    "openai_chat": ("/models", "data", "id"),
    "openai_responses": ("/models", "data", "id"),
    "anthropic": ("/models?limit=1000", "data", "id"),
    "gemini": ("/models?pageSize=1000", "models", "name"),
    "ollama": ("/api/tags", "models", "name"),
}


class ListingUpstream(HttpUpstream):
    """A service that can also be asked for its models."""

    async def model_names(self) -> tuple[str, ...]:
        """The names of its models.

        Raises:
            UpstreamError: it does not say.
        """
        path, held, named = _PLACES[self.protocol]
        target = f"{self._address.path}{self._version}{path}"
        said = read_json(await self.aside(target, seconds=_PATIENCE, most=_MOST_BYTES))
        rows = said.get(held) if is_object(said) else None
        if not is_array(rows):
            raise UpstreamError("the service does not say which models it has", upstream_status=200)
        names = (_name(row.get(named)) for row in rows if is_object(row))
        return tuple(dict.fromkeys(name for name in names if name))[:_MOST_NAMES]


def _name(value: JSONValue) -> str:
    """A name that can be shown, or nothing."""
    name = value.removeprefix("models/") if isinstance(value, str) else ""
    return name if len(name) <= _LONGEST_NAME and name.isprintable() else ""


class Listing:
    """What upstreams said last, by their names."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, float] = {}

    def names(self) -> dict[str, tuple[str, ...]]:
        """What is known."""
        return self._names

    async def refresh(self, upstreams: Iterable[tuple[str, ListingUpstream]]) -> None:
        """Ask those that were not asked for a while, all at once."""
        now = self._clock()
        due = [(name, upstream) for name, upstream in upstreams if now - self._asked.get(name, -FRESH) >= FRESH]
        for name, _ in due:
            self._asked[name] = now
        await asyncio.gather(*(self._ask(name, upstream) for name, upstream in due))

    async def _ask(self, name: str, upstream: ListingUpstream) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                self._names[name] = await upstream.model_names()
        except (ToolspeakError, TimeoutError):
            self._names.pop(name, None)
