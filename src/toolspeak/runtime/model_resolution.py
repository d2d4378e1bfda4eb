"""From what a caller calls a model to something that answers.

`provider:model`, a Python function, or an upstream of the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast, get_args

import msgspec

from ..config import Config, Transport, shown_url
from ..core.types import require
from ..errors import ConfigError, ToolspeakError, UsageError
from ..plugins import Plugins
from ..upstreams.base import Upstream, shorten
from ..upstreams.function import FunctionUpstream, ModelFunction

Model: TypeAlias = str | ModelFunction | Upstream
#: The provider whose models run here.
_EMBEDDED = "embedded"
#: The names of protocols in the table of providers, and of their codecs.
_CODECS = {
    "openai": "openai_chat",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
}


class Reached(msgspec.Struct, frozen=True):
    """A model within reach."""

    provider: str
    model: str
    base_url: str
    protocol: str
    upstream: Upstream

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


class _Way(msgspec.Struct, frozen=True):
    """What a caller says about the way to a model; what is empty is left to the configuration."""

    base_url: str
    api_key: str
    protocol: str
    transport: str


def reach(
    model: Model,
    base_url: str,
    api_key: str,
    config: Config,
    plugins: Plugins,
    protocol: str = "",
    transport: str = "",
) -> Reached:
    """Find what answers for `model`."""
    way = _Way(base_url, api_key, protocol, transport)
    for name, value in msgspec.structs.asdict(way).items():
        require(value, str, f"`{name}`", "a text")
    if isinstance(model, str):
        return _by_name(model, way, config, plugins)
    if any(msgspec.structs.astuple(way)):
        raise UsageError("`base_url`, `api_key`, `protocol` and `transport` belong to a model that is given by name")
    if callable(model) and not hasattr(model, "open"):
        function = FunctionUpstream(model)
        return Reached(function.provider, function.name, "", "openai_chat", function)
    if not hasattr(model, "open"):
        raise UsageError(
            f"a model is a name, a function or an upstream, not a `{type(model).__name__}`",
            hint='write it as "provider:model", for example "openai:my-model"',
        )
    upstream = cast("Upstream", model)
    name = str(getattr(upstream, "model", upstream.provider))
    if not name:
        raise UsageError("the upstream does not say which model to ask for", hint='give it one: `model="..."`')
    protocol = str(getattr(upstream, "protocol", "") or "openai_chat")
    return Reached(upstream.provider, name, upstream.base_url, protocol, upstream)


def _by_name(model: str, way: _Way, config: Config, plugins: Plugins) -> Reached:
    from ..upstreams.http.transport_choice import service

    _check(model, way.transport)
    end = config.endpoint(model, way.base_url)
    key = way.api_key or end.api_key.reveal()
    factory = plugins.upstream(end.provider)
    if factory is not None:
        own = _made(factory, end.provider, {"model": end.model, "base_url": end.base_url, "api_key": key})
        return Reached(end.provider, end.model, end.base_url, str(getattr(own, "protocol", "openai_chat")), own)
    if end.provider == _EMBEDDED and not end.base_url:
        return _embedded(end.model, config)
    if not end.base_url:
        hint = "pass `base_url`, or use a provider that the table of capabilities knows"
        raise UsageError(f"nobody knows where `{model or 'the model'}` is", hint=hint)
    protocol = codec_of(way.protocol or end.protocol)
    upstream = service(config.route(end.base_url, way.transport), end.base_url, key, protocol, provider=end.provider)
    return Reached(end.provider, end.model, end.base_url, protocol, upstream)


def _check(model: str, transport: str) -> None:
    if "://" in model:
        hint = f'write "openai:MODEL", with base_url="{shown_url(model)}"'
        raise UsageError("a URL says where a model is, not which one it is", hint=hint)
    known = get_args(Transport)
    if transport and transport not in known:
        raise UsageError(f"there is no transport `{transport:.80}`", hint=f"use one of {', '.join(known)}")


def _embedded(model: str, config: Config) -> Reached:
    """The model that runs here; its weights are fetched with the first request, if nobody did before."""
    from ..upstreams.embedded.upstream import EmbeddedUpstream, recipe_for, weights_of

    recipe = recipe_for(model, config.adapter, config.context)
    own = EmbeddedUpstream(recipe, lambda: weights_of(recipe, config.cache_folder, config.environment()))
    return Reached(own.provider, recipe.name, "", own.protocol, own)


def _made(factory: Callable[..., Upstream], provider: str, arguments: dict[str, str]) -> Upstream:
    """What a plugin makes, found to be an upstream.

    Raises:
        ConfigError: the plugin cannot be used.
    """
    who, hint = f"the plugin for the provider `{provider}`", "repair it, or leave it out with `load_plugins`"
    try:
        made = factory(**arguments)
    except ToolspeakError:
        raise
    except (Exception, SystemExit) as error:
        said = shorten(f"{type(error).__name__}: {error}")
        key = arguments["api_key"]
        raise ConfigError(f"{who} raised {said.replace(key, '***') if key else said}", hint=hint) from error
    if not callable(getattr(made, "open", None)) or not callable(getattr(made, "close", None)):
        raise ConfigError(f"{who} made a `{type(made).__name__}`, which is no upstream", hint=hint)
    return made


def codec_of(protocol: str) -> str:
    """The codec of a protocol, by the name that tables and settings call it by.

    Raises:
        UsageError: no upstream speaks it.
    """
    name = _CODECS.get(protocol)
    if name is None:
        spoken = ", ".join(_CODECS)
        hint = f"spoken are {spoken}; else use its OpenAI-compatible address as `base_url`, with the protocol `openai`"
        raise UsageError(f"the protocol `{protocol}` is not spoken", hint=hint)
    return name
