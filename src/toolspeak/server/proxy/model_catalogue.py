"""Model names: which upstream serves a model, and which names can be listed.

A name is looked up as an alias, a model that an upstream lists, `upstream:model`, a pattern of an upstream, and finally
at an upstream that takes any name. Upstreams without configured models are asked for their list when a client wants to
see it, never during a model request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches

import msgspec

from ...core.types import JSONValue, is_array, is_object
from ...engine.planning.capabilities import best_pattern
from ...errors import ConfigError, ToolspeakError, UpstreamError, UsageError
from ...protocols.shared.fields import read_json
from ...upstreams.http.thin_transport import HttpUpstream

#: Longer names cannot match; comparing names takes quadratic time.
_MAX_NAME_CHARS = 256
_COMPARED_CHARS = 64
#: Suggestions for an unknown name.
_MAX_SUGGESTIONS = 3
#: Ollama's clients add this to names without a tag.
_OLLAMA_TAG = ":latest"

#: How long a list is cached, and how long an upstream may take to answer.
FRESH_SECONDS = 60.0
_TIMEOUT_SECONDS = 5.0
#: The longest known list (a broker's, with descriptions) has some 400 names in half of this.
_MAX_LIST_BYTES = 2 * 1024 * 1024
_MAX_LISTED = 2000

#: Protocol -> path of the list, the field with the rows, the field with a name.
_LIST_ENDPOINTS = {
    "openai_chat": ("/models", "data", "id"),
    "openai_responses": ("/models", "data", "id"),
    "anthropic": ("/models?limit=1000", "data", "id"),
    "gemini": ("/models?pageSize=1000", "models", "name"),
    "ollama": ("/api/tags", "models", "name"),
}


class UnknownModel(UsageError):
    """No upstream serves the model, or none that the caller may use."""

    status = 404


class ModelLocation(msgspec.Struct, frozen=True):
    """A model at an upstream."""

    upstream: str
    model: str
    #: The alias that was requested, if any.
    alias: str = ""

    def names(self) -> tuple[str, ...]:
        """All names of the model; permission for one of them is enough."""
        names = (self.model, f"{self.upstream}:{self.model}")
        return (*names, self.alias) if self.alias else names


#: Whether a caller may use a model.
Permission = Callable[[ModelLocation], bool]


class ModelCatalogue:
    """The models of several upstreams.

    Args:
        upstreams: name -> the models it serves (`*` for any text; none: any), in order of preference.
        aliases: alias -> a model, or `upstream:model`.
    """

    def __init__(self, upstreams: Mapping[str, tuple[str, ...]], aliases: Mapping[str, str] | None = None) -> None:
        self._upstreams = dict(upstreams)
        #: Names without a wildcard -> the first upstream that lists them.
        self._listed: dict[str, str] = {}
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" not in model:
                    self._listed.setdefault(model, upstream)
        self._aliases: dict[str, ModelLocation] = {}
        for alias, target in (aliases or {}).items():
            self._aliases[alias] = self._alias_target(alias, target)

    def _alias_target(self, alias: str, target: str) -> ModelLocation:
        location = self._resolve(target)
        if location is None:
            raise ConfigError(f"the alias `{alias}` refers to `{target}`, which no upstream serves")
        return msgspec.structs.replace(location, alias=alias)

    def find(
        self, name: str, permits: Permission = lambda location: True, shows: Permission = lambda location: True
    ) -> ModelLocation:
        """The location of a model. `shows` filters the names that may be suggested for an unknown one.

        Raises:
            UnknownModel: the caller may use no such model.
        """
        location = self._locate(name) if len(name) <= _MAX_NAME_CHARS else None
        if location is not None and permits(location):
            return location
        display_name = f"`{name[:_COMPARED_CHARS]}`" if name else "no model"
        near = get_close_matches(
            name[:_COMPARED_CHARS],
            self.names(lambda location: permits(location) and shows(location)),
            n=_MAX_SUGGESTIONS,
        )
        hint = f"did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else "GET /v1/models lists them"
        raise UnknownModel(
            f"{display_name} is not served here" if name else "missing `model` in the request", hint=hint
        )

    def _locate(self, name: str) -> ModelLocation | None:
        location = self._aliases.get(name) or self._resolve(name)
        if location is None and name.endswith(_OLLAMA_TAG):
            return self._locate(name.removesuffix(_OLLAMA_TAG))
        return location

    def _resolve(self, name: str) -> ModelLocation | None:
        if not name:
            return None
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

    def names(
        self, permits: Permission = lambda location: True, listed: Mapping[str, tuple[str, ...]] | None = None
    ) -> dict[str, str]:
        """Every model name with its upstream. Where two serve a model, the second is listed as `upstream:model`.

        `listed` are the models that upstreams without configured models report.
        """
        entries = (*self._entries(), *self._listed_entries(listed or {}))
        return {name: location.upstream for name, location in entries if permits(location)}

    def _listed_entries(self, listed: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ModelLocation]]:
        for upstream, models in listed.items():
            for model in models:
                location = ModelLocation(upstream, model)
                # Listed only under a name that resolves to this location.
                names = (name for name in (model, f"{upstream}:{model}") if self._locate(name) == location)
                if name := next(names, ""):
                    yield name, location

    def _entries(self) -> Iterator[tuple[str, ModelLocation]]:
        yield from self._aliases.items()
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" in model:
                    continue
                first = self._listed[model] == upstream and model not in self._aliases
                yield (model if first else f"{upstream}:{model}"), ModelLocation(upstream, model)


# ---- the models that upstreams list


class ListingUpstream(HttpUpstream):
    """An upstream that can list its models."""

    async def model_names(self) -> tuple[str, ...]:
        """The names of its models.

        Raises:
            UpstreamError: it does not list them.
        """
        path, list_field, name_field = _LIST_ENDPOINTS[self.protocol]
        target = f"{self._address.path}{self._version}{path}"
        body = read_json(await self.aside(target, seconds=_TIMEOUT_SECONDS, most=_MAX_LIST_BYTES))
        rows = body.get(list_field) if is_object(body) else None
        if not is_array(rows):
            raise UpstreamError("the service does not list its models", upstream_status=200)
        names = (_model_name(row.get(name_field)) for row in rows if is_object(row))
        return tuple(dict.fromkeys(name for name in names if name))[:_MAX_LISTED]


def _model_name(value: JSONValue) -> str:
    """A printable model name, or an empty string."""
    name = value.removeprefix("models/") if isinstance(value, str) else ""
    return name if len(name) <= _MAX_NAME_CHARS and name.isprintable() else ""


class ModelListCache:
    """The models that upstreams reported last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: dict[str, tuple[str, ...]] = {}
        self._last_query: dict[str, float] = {}

    def names(self) -> dict[str, tuple[str, ...]]:
        """Upstream -> its models."""
        return self._names

    async def refresh(self, upstreams: Iterable[tuple[str, ListingUpstream]]) -> None:
        """Query the upstreams whose lists are stale, concurrently."""
        now = self._clock()
        due = [
            (name, upstream)
            for name, upstream in upstreams
            if now - self._last_query.get(name, -FRESH_SECONDS) >= FRESH_SECONDS
        ]
        for name, _ in due:
            self._last_query[name] = now
        await asyncio.gather(*(self._query(name, upstream) for name, upstream in due))

    async def _query(self, name: str, upstream: ListingUpstream) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                self._names[name] = await upstream.model_names()
        except (ToolspeakError, TimeoutError):
            self._names.pop(name, None)
