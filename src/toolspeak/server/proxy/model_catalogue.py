"""From the name of a model in a request to the upstream that serves it, and back: the list of names.

Looked up in this order: an alias, a name that an upstream lists, `upstream:model`, a pattern of an upstream, an
upstream that takes any name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

import msgspec

from ...engine.planning.capabilities import matching
from ...errors import ConfigError, UsageError

#: A longer name is nobody's; comparing names takes time by the square of their lengths.
_LONGEST_NAME = 256
_COMPARED = 64
#: Names that are told to somebody who asked for one that is not there.
_NEAR = 3
#: What Ollama's clients put behind a name without a tag.
_OLLAMA_TAG = ":latest"


class UnknownModel(UsageError):
    """A model that no upstream serves, or none that this caller may use."""

    status = 404


class Place(msgspec.Struct, frozen=True):
    """A model at an upstream."""

    upstream: str
    model: str
    #: The alias that it was asked for by, if it was one.
    alias: str = ""

    def names(self) -> tuple[str, ...]:
        """Everything that it is called; permission for one of them is enough."""
        names = (self.model, f"{self.upstream}:{self.model}")
        return (*names, self.alias) if self.alias else names


#: Whether somebody may use a model at a place.
Permits = Callable[[Place], bool]


class Catalogue:
    """The models of several upstreams.

    Args:
        upstreams: name -> the models it serves (`*` for any text; none: any), in the order in which they are asked.
        aliases: other names -> a model, or `upstream:model`.
    """

    def __init__(self, upstreams: Mapping[str, tuple[str, ...]], aliases: Mapping[str, str] | None = None) -> None:
        self._upstreams = dict(upstreams)
        #: Names without a star -> the first upstream that lists them.
        self._listed: dict[str, str] = {}
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" not in model:
                    self._listed.setdefault(model, upstream)
        self._aliases: dict[str, Place] = {}
        for alias, target in (aliases or {}).items():
            self._aliases[alias] = self._aliased(alias, target)

    def _aliased(self, alias: str, target: str) -> Place:
        found = self._resolved(target)
        if found is None:
            raise ConfigError(f"the alias `{alias}` stands for `{target}`, which no upstream serves")
        return msgspec.structs.replace(found, alias=alias)

    def find(self, name: str, permits: Permits = lambda place: True, shows: Permits = lambda place: True) -> Place:
        """Where the model of that name is. `shows`: which of the names may be told to who has mistaken one.

        Raises:
            UnknownModel: nowhere that this caller may ask.
        """
        place = self._named(name) if len(name) <= _LONGEST_NAME else None
        if place is not None and permits(place):
            return place
        shown = f"`{name[:_COMPARED]}`" if name else "no model"
        near = get_close_matches(name[:_COMPARED], self.names(lambda place: permits(place) and shows(place)), n=_NEAR)
        hint = f"did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else "GET /v1/models lists them"
        raise UnknownModel(f"{shown} is not served here" if name else "the request names no model", hint=hint)

    def _named(self, name: str) -> Place | None:
        found = self._aliases.get(name) or self._resolved(name)
        if found is None and name.endswith(_OLLAMA_TAG):
            return self._named(name.removesuffix(_OLLAMA_TAG))
        return found

    def _resolved(self, name: str) -> Place | None:
        if not name:
            return None
        if name in self._listed:
            return Place(self._listed[name], name)
        head, colon, rest = name.partition(":")
        if colon and head in self._upstreams:
            models = self._upstreams[head]
            return Place(head, rest) if rest and (not models or matching(models, rest)) else None
        for upstream, models in self._upstreams.items():
            if models and matching(models, name):
                return Place(upstream, name)
        anything = next((upstream for upstream, models in self._upstreams.items() if not models), None)
        return None if anything is None else Place(anything, name)

    def names(
        self, permits: Permits = lambda place: True, said: Mapping[str, tuple[str, ...]] | None = None
    ) -> dict[str, str]:
        """Every name that can be told, and the upstream behind it; where two serve a model, the second's by prefix.

        `said` is what upstreams without a list of models say that they have.
        """
        entries = (*self._entries(), *self._said(said or {}))
        return {name: place.upstream for name, place in entries if permits(place)}

    def _said(self, said: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Place]]:
        for upstream, models in said.items():
            for model in models:
                place = Place(upstream, model)
                # What a name leads to is settled; it is told only where it leads here.
                found = (name for name in (model, f"{upstream}:{model}") if self._named(name) == place)
                if name := next(found, ""):
                    yield name, place

    def _entries(self) -> Iterator[tuple[str, Place]]:
        yield from self._aliases.items()
        for upstream, models in self._upstreams.items():
            for model in models:
                if "*" in model:
                    continue
                first = self._listed[model] == upstream and model not in self._aliases
                yield (model if first else f"{upstream}:{model}"), Place(upstream, model)
