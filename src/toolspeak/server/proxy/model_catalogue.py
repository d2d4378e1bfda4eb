"""Model names: which upstream serves a model, and which names can be listed.

A name is resolved in this order: an alias, a model configured for an upstream, `upstream:model`, a pattern of an
upstream, and finally an upstream that accepts any name. Upstreams without configured models are queried for their list
only when a client requests the list, never during a model request.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from ...core.text import suggestion
from ...engine.planning.capabilities import best_pattern
from ...errors import ConfigError, ToolspeakError, UsageError
from ...upstreams.http.thin_transport import LIST_SECONDS, MAX_NAME_CHARS, HttpUpstream

_SHOWN_CHARS = 64  # maximum length of an unknown model name in an error
_OLLAMA_TAG = ":latest"  # tag that Ollama's clients add to names without a tag

#: Time for which a model list is cached.
FRESH_SECONDS = 60.0


class UnknownModel(UsageError):
    """No upstream that the caller may use serves the model."""

    status = 404


class ModelLocation(msgspec.Struct, frozen=True):
    upstream: str
    model: str
    alias: str = ""  # the alias that was requested, if any

    def names(self) -> tuple[str, ...]:
        """Return all names of the model. Permission for one of them is enough."""
        names = (self.model, f"{self.upstream}:{self.model}")
        return (*names, self.alias) if self.alias else names


Permission = Callable[[ModelLocation], bool]  # returns whether a caller may use a model
Names: TypeAlias = Mapping[str, tuple[str, ...]]  # names of models by upstream
Locations: TypeAlias = Mapping[str, ModelLocation]
NONE: Mapping[str, Any] = {}


class ModelCatalogue:
    """The models of several upstreams.

    Args:
        upstreams: maps upstreams to their models, with `*` as a wildcard; without models, an upstream accepts any name.
        aliases: maps an alias to a model or `upstream:model`.
        reserved: maps names to the locations that they keep, whatever an upstream lists.
    """

    def __init__(self, upstreams: Names, aliases: Mapping[str, str] | None = None, reserved: Locations = NONE) -> None:
        self._upstreams = dict(upstreams)
        self._reserved = reserved
        #: Maps names without a wildcard to the first upstream that lists them.
        self._listed: dict[str, str] = {}
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" not in model:
                    self._listed.setdefault(model, upstream)
        self._aliases: dict[str, ModelLocation] = {}
        for alias, target in (aliases or {}).items():
            location = self._resolve(target)
            if location is None:
                raise ConfigError(f"the alias `{alias}` refers to `{target}`, which no upstream serves")
            self._aliases[alias] = msgspec.structs.replace(location, alias=alias)

    def find(
        self, name: str, permits: Permission = lambda location: True, shows: Permission = lambda location: True
    ) -> ModelLocation:
        """Return the location of a model. Raises UnknownModel, which suggests names that `shows` permits."""
        location = self._locate(name) if len(name) <= MAX_NAME_CHARS else None
        if location is not None and permits(location):
            return location
        display_name = f"`{name[:_SHOWN_CHARS]}`" if name else "no model"
        names = self.names(lambda location: permits(location) and shows(location))
        hint = suggestion(name, names, "GET /v1/models lists the models")
        raise UnknownModel(f"unknown model {display_name}" if name else "the request has no `model`", hint=hint)

    def _locate(self, name: str) -> ModelLocation | None:
        location = self._aliases.get(name) or self._resolve(name)
        if location is None and name.endswith(_OLLAMA_TAG):
            return self._locate(name.removesuffix(_OLLAMA_TAG))
        return location

    def _resolve(self, name: str) -> ModelLocation | None:
        if not name or name in self._reserved:
            return self._reserved.get(name)
        if name in self._listed:
            return ModelLocation(self._listed[name], name)
        head, colon, rest = name.partition(":")
        if colon and head in self._upstreams:
            models = self._upstreams[head]
            return ModelLocation(head, rest) if rest and (not models or best_pattern(models, rest)) else None
        for upstream, models in self._upstreams.items():
            if models and best_pattern(models, name):
                return ModelLocation(upstream, name)
        anything = next((upstream for upstream, models in self._upstreams.items() if not models), None)
        return None if anything is None else ModelLocation(anything, name)

    def meaning(self, name: str, listed: Names) -> ModelLocation | None:
        """Return what a name means, unless that is an upstream that accepts any name and lists others in `listed`."""
        location = self._resolve(name)
        names = () if location is None or self._upstreams[location.upstream] else listed.get(location.upstream, ())
        return None if names and name not in names else location

    def names(self, permits: Permission = lambda location: True, listed: Names = NONE) -> dict[str, str]:
        """Map each model name to its upstream. A model that a second upstream serves is listed as `upstream:model`.

        `listed` contains the models reported by upstreams without configured models.
        """
        entries = (*self._entries(), *self._listed_entries(listed))
        return {name: location.upstream for name, location in entries if permits(location)}

    def _listed_entries(self, listed: Names) -> Iterator[tuple[str, ModelLocation]]:
        for upstream, models in listed.items():
            for model in models:
                location = ModelLocation(upstream, model)
                # Use only a name that resolves to this location.
                names = (name for name in (model, f"{upstream}:{model}") if self._locate(name) == location)
                if name := next(names, ""):
                    yield name, location

    def _entries(self) -> Iterator[tuple[str, ModelLocation]]:
        yield from self._aliases.items()
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" in model:
                    continue
                location = ModelLocation(upstream, model)
                yield (model if self._locate(model) == location else f"{upstream}:{model}"), location


class ModelListCache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.names: dict[str, tuple[str, ...]] = {}  # names of models by upstream
        self._last_query: dict[str, float] = {}

    async def refresh(self, upstreams: Iterable[tuple[str, HttpUpstream]]) -> None:
        """Concurrently query the upstreams whose cached lists are stale."""
        now = self._clock()
        due = [
            (name, upstream)
            for name, upstream in upstreams
            if now - self._last_query.get(name, -FRESH_SECONDS) >= FRESH_SECONDS
        ]
        for name, _ in due:
            self._last_query[name] = now
        await asyncio.gather(*(self._query(name, upstream) for name, upstream in due))

    async def _query(self, name: str, upstream: HttpUpstream) -> None:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                self.names[name] = await upstream.model_names()
        except (ToolspeakError, TimeoutError):
            self.names.pop(name, None)
