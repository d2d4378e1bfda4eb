"""Routing of model names from the command line, and of requests replayed from the store.

A replay goes to the upstream that answered the request, or to an explicitly given one, and nowhere else.
"""

import shlex
from typing import Any

import msgspec

from ..config import Config
from ..engine.planning.capabilities import capabilities
from ..errors import UsageError
from ..runtime.model_resolution import codec_of
from ..server.process.from_config import embedded_model
from ..server.proxy.upstream_router import UpstreamAddress, public_url

_EMBEDDED = "embedded"


class ModelRoute(msgspec.Struct, frozen=True):
    """Arguments for building a gateway, and the model name to request from it."""

    requested_model: str
    upstream: str = ""
    model: str = ""  # the only model that the gateway serves; empty for a gateway to the configured upstreams


def replay_route(config: Config, recorded: Any, upstream: str, model: str) -> ModelRoute:
    """Route a replay to the upstream that answered, or to the given one. Raises UsageError if it is unknown."""
    original = msgspec.convert(recorded, UpstreamAddress) if recorded else None
    if upstream:
        name = model or (_with_provider(original) if original is not None else config.model)
        if not name:
            raise UsageError("the model that answered this request is unknown", hint="add --model NAME")
        return ModelRoute(name, upstream, name)
    if model and (by_name := route_by_name(config, model)) is not None:
        return by_name
    if original is None:
        hint = "add --upstream URL and --model NAME, or --model PROVIDER:MODEL"
        raise UsageError("the upstream that answered this request was not recorded", hint=hint)
    match = _configured(config, msgspec.structs.replace(original, model=model or original.model))
    if match is None:
        where = f"{original.provider}:{original.model}" + (f" at {original.base_url}" if original.base_url else "")
        hint = f"add --upstream {shlex.quote(original.base_url or 'URL')}, or another model: --model PROVIDER:MODEL"
        raise UsageError(f"`{where}` answered this request but is not configured", hint=hint)
    return match


def route_by_name(config: Config, model: str) -> ModelRoute | None:
    """Route a model name that identifies its upstream: an alias, `upstream:model`, `provider:model`, or embedded."""
    from ..upstreams.embedded.hub import runs_here

    head = model.partition(":")[0] if ":" in model else ""
    if model in config.aliases() or (head and head in config.upstream_names()):
        return ModelRoute(model)
    if head == _EMBEDDED or (head and capabilities().provider(head) is not None):
        return ModelRoute(model, "", model)
    return ModelRoute(model, "", f"{_EMBEDDED}:{model}") if runs_here(model) else None


def _configured(config: Config, way: UpstreamAddress) -> ModelRoute | None:
    for name in config.upstream_names():
        upstream = config.upstream(name)
        if _same(way, upstream.provider, upstream.row.base_url, upstream.protocol):
            return ModelRoute(f"{name}:{way.model}")
    if way.provider == _EMBEDDED and not way.base_url:
        return _embedded_route(config, way.model)
    name = _with_provider(way)
    end = config.endpoint(name)
    return ModelRoute(name, "", name) if _same(way, end.provider, end.base_url, end.protocol) else None


def _same(way: UpstreamAddress, provider: str, base_url: str, protocol: str) -> bool:
    """Whether two addresses are the same service. Compare URLs if possible: provider names are user-defined."""
    if not way.base_url:  # provided by a plugin
        return not base_url and provider == way.provider
    return public_url(base_url) == way.base_url and codec_of(protocol) == way.protocol


def _embedded_route(config: Config, model: str) -> ModelRoute | None:
    """Route to an embedded model by the name under which it was recorded."""
    from ..upstreams.embedded.upstream import recipe_for

    if config.base_url:
        return None
    for name in dict.fromkeys((embedded_model(config) or "", "")):
        if recipe_for(name, config.adapter).name == model:
            return ModelRoute(model, "", f"{_EMBEDDED}:{name}")
    return None


def _with_provider(way: UpstreamAddress) -> str:
    return f"{way.provider or 'openai'}:{way.model}"
