"""Where a model is that a person names, and where a request of the store is asked again: where it was answered, or
where the person says; never elsewhere.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from ..config import Config
from ..engine.planning.capabilities import capabilities
from ..errors import UsageError
from ..runtime.model_resolution import codec_of
from ..server.process.from_config import model_here
from ..server.proxy.upstream_address import Way, bare_url

_EMBEDDED = "embedded"


class WayBack(msgspec.Struct, frozen=True):
    """What a gateway is made from, and the name that it is asked for."""

    asked: str
    upstream: str = ""
    #: The one model that it is for; nothing: the gateway of the configuration.
    model: str = ""


def way_back(config: Config, recorded: Any, upstream: str, model: str) -> WayBack:
    """The way to who answered a request, or to the upstream and the model given instead.

    Raises:
        UsageError: nobody has said who that is, or the configuration does not know it.
    """
    then = msgspec.convert(recorded, Way) if recorded else None
    if upstream:
        one = model or (_with_provider(then) if then is not None else config.model)
        if not one:
            raise UsageError("nobody knows which model answered this request", hint="give --model NAME too")
        return WayBack(one, upstream, one)
    if model and (named := chosen(config, model)) is not None:
        return named
    if then is None:
        hint = "give --upstream URL and --model NAME, or --model PROVIDER:MODEL"
        raise UsageError("the recording does not say who answered this request", hint=hint)
    found = _known(config, msgspec.structs.replace(then, model=model or then.model))
    if found is None:
        where = f"{then.provider}:{then.model}" + (f" at {then.base_url}" if then.base_url else "")
        hint = f"give --upstream {shlex.quote(then.base_url or 'URL')}, or --model PROVIDER:MODEL for another one"
        raise UsageError(f"`{where}` answered this request, and the configuration does not have it", hint=hint)
    return found


def chosen(config: Config, model: str) -> WayBack | None:
    """A model whose name says where it is: an alias, `upstream:model`, `provider:model`, or one that runs here."""
    from ..upstreams.embedded.hub import runs_here

    head = model.partition(":")[0] if ":" in model else ""
    if model in config.aliases() or (head and head in config.upstream_names()):
        return WayBack(model)
    if head == _EMBEDDED or (head and capabilities().provider(head) is not None):
        return WayBack(model, "", model)
    return WayBack(model, "", f"{_EMBEDDED}:{model}") if runs_here(model) else None


def _known(config: Config, way: Way) -> WayBack | None:
    """The upstream of the configuration that is the same."""
    for name in config.upstream_names():
        named = config.upstream(name)
        if _same(way, named.provider, named.row.base_url, named.protocol):
            return WayBack(f"{name}:{way.model}")
    if way.provider == _EMBEDDED and not way.base_url:
        return _embedded(config, way.model)
    name = _with_provider(way)
    end = config.endpoint(name)
    return WayBack(name, "", name) if _same(way, end.provider, end.base_url, end.protocol) else None


def _same(way: Way, provider: str, base_url: str, protocol: str) -> bool:
    """Whether it is the same service. Providers are names that people give; where there is a URL, it tells more."""
    if not way.base_url:  # a plugin's
        return not base_url and provider == way.provider
    return bare_url(base_url) == way.base_url and codec_of(protocol) == way.protocol


def _embedded(config: Config, model: str) -> WayBack | None:
    """The model that runs here, by the name that it was loaded by."""
    from ..upstreams.embedded.upstream import recipe_for

    if config.base_url:
        return None
    for name in dict.fromkeys((model_here(config) or "", "")):
        if recipe_for(name, config.adapter).name == model:
            return WayBack(model, "", f"{_EMBEDDED}:{name}")
    return None


def _with_provider(way: Way) -> str:
    return f"{way.provider or 'openai'}:{way.model}"
