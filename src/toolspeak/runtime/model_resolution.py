"""Resolve a model to an upstream: `provider:model`, a Python function, or a custom upstream."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, cast, get_args

import msgspec

from ..config import Config, Transport, redacted_url
from ..core.text import suggestion
from ..core.types import require
from ..engine.planning.capabilities import Capabilities, capabilities
from ..engine.prompting.nonces import nonces_of
from ..errors import ConfigError, ToolspeakError, UsageError
from ..plugins import Plugins
from ..protocols import plugin_protocols
from ..upstreams.base import Upstream, shorten
from ..upstreams.function import FunctionUpstream, ModelFunction
from ..upstreams.http.retry import Retry

if TYPE_CHECKING:
    from ..engine.turn.interpretation import Interpreter

Model: TypeAlias = str | ModelFunction | Upstream
EMBEDDED = "embedded"  # the provider of models that toolspeak runs itself
#: Protocol names used in tables and settings. `openai` means `openai_chat`; the others are names of codec modules.
_PROTOCOLS = ("openai", "openai_chat", "openai_responses", "anthropic", "gemini", "ollama")


class ResolvedModel(msgspec.Struct, frozen=True):
    provider: str
    model: str
    base_url: str
    protocol: str
    upstream: Upstream

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def resolve_model(
    model: Model,
    base_url: str,
    api_key: str,
    config: Config,
    plugins: Plugins,
    protocol: str = "",
    transport: str = "",
    headers: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    *,
    needs_key: bool = False,  # whether the key of a vendor must be set
) -> ResolvedModel:
    """Find or create the upstream for `model`. Options that are empty come from the configuration."""
    options = {"base_url": base_url, "api_key": api_key, "protocol": protocol, "transport": transport}
    for name, value in options.items():
        require(value, str, f"`{name}`", "a string")
    if isinstance(model, str):
        return _resolve_name(model, options, headers, retry, config, plugins, needs_key)
    if any(options.values()) or headers or retry:
        names = ", ".join(f"`{name}`" for name in (*options, "headers"))
        raise UsageError(f"{names} and `max_retries` only apply to a model given by name")
    if callable(model) and not hasattr(model, "open"):
        function = FunctionUpstream(model)
        return ResolvedModel(function.provider, function.name, "", "openai_chat", function)
    if not hasattr(model, "open"):
        hint = 'pass the model as "provider:model", for example "openai:my-model"'
        message = f"a model must be a name, a function or an upstream, not a `{type(model).__name__}`"
        raise UsageError(message, hint=hint)
    upstream = cast("Upstream", model)
    name = str(getattr(upstream, "model", upstream.provider))
    if not name:
        raise UsageError("the upstream has no model", hint='pass `model="..."` when you create it')
    protocol = str(getattr(upstream, "protocol", "") or "openai_chat")
    return ResolvedModel(upstream.provider, name, upstream.base_url, protocol, upstream)


def _resolve_name(
    model: str,
    options: dict[str, str],
    headers: Mapping[str, str] | None,
    retry: Retry | None,
    config: Config,
    plugins: Plugins,
    needs_key: bool,
) -> ResolvedModel:
    from ..upstreams.http.thin_transport import open_service

    if "://" in model:
        hint = f'pass "openai:MODEL" and base_url="{redacted_url(model)}"'
        raise UsageError("the model must be a name, not a URL", hint=hint)
    transport, transports = options["transport"], get_args(Transport)
    if transport and transport not in transports:
        raise UsageError(f"unknown transport `{transport:.80}`", hint=f"use one of {', '.join(transports)}")
    end = config.endpoint(model, options["base_url"])
    key = options["api_key"] or end.api_key.reveal()
    factory = plugins.upstream(end.provider)
    if factory is not None:
        own = _from_plugin(factory, end.provider, {"model": end.model, "base_url": end.base_url, "api_key": key})
        return ResolvedModel(end.provider, end.model, end.base_url, str(getattr(own, "protocol", "openai_chat")), own)
    if end.provider == EMBEDDED and not end.base_url:
        return _embedded(end.model, config)
    if not end.base_url:
        raise _unknown_model(model, end.provider)
    row = capabilities().provider(end.provider)
    if needs_key and not key and row is not None and row.keys and row.url and row.owns(end.base_url) and not headers:
        raise ConfigError(f"{row.keys[0]} is not set", hint="set this environment variable, or pass `api_key`")
    protocol = codec_of(options["protocol"] or end.protocol)
    route = config.route(end.base_url, transport)
    upstream = open_service(route, end.base_url, key, protocol, headers=headers, provider=end.provider, retry=retry)
    return ResolvedModel(end.provider, end.model, end.base_url, protocol, upstream)


def _unknown_model(model: str, provider: str) -> UsageError:
    hint = "write PROVIDER:MODEL, for example ollama:qwen3:8b, or pass a base URL (--upstream URL on the command line)"
    if not provider:
        return UsageError(f"unknown model `{model:.80}`" if model else "the model name is missing", hint=hint)
    if capabilities().provider(provider) is not None:
        return UsageError(f"provider `{provider}` has no address of its own", hint=hint.rpartition("or ")[2])
    hint = suggestion(provider, capabilities().provider_names, hint)
    return UsageError(f"unknown model `{model:.80}`: there is no provider `{provider:.80}`", hint=hint)


def _embedded(model: str, config: Config) -> ResolvedModel:
    """Resolve the embedded model. Its weights are downloaded on the first request, unless they are cached."""
    from ..upstreams.embedded.upstream import EmbeddedUpstream, obtain_weights, recipe_for

    recipe = recipe_for(model, config.adapter, config.context, str(config.prompts_folder))
    own = EmbeddedUpstream(recipe, lambda: obtain_weights(recipe, config.cache_folder, config.environment()))
    return ResolvedModel(own.provider, recipe.name, "", own.protocol, own)


def _from_plugin(factory: Callable[..., Upstream], provider: str, arguments: dict[str, str]) -> Upstream:
    """Create a plugin's upstream and check it."""
    plugin, hint = f"the plugin for provider `{provider}`", "fix the plugin, or exclude it with `load_plugins`"
    try:
        upstream = factory(**arguments)
    except ToolspeakError:
        raise
    except (Exception, SystemExit) as error:
        reason = shorten(f"{type(error).__name__}: {error}")
        key = arguments["api_key"]
        raise ConfigError(f"{plugin} raised {reason.replace(key, '***') if key else reason}", hint=hint) from error
    if not callable(getattr(upstream, "open", None)) or not callable(getattr(upstream, "close", None)):
        raise ConfigError(f"{plugin} returned a `{type(upstream).__name__}`, which is not an upstream", hint=hint)
    return upstream


def resolve_interpreter(config: Config) -> ResolvedModel:
    """Resolve the embedded model that interprets the answers of other models: always the default one."""
    return _embedded("", config)


class InterpreterModel:
    """The embedded model as the interpreter of a client or gateway. It is resolved when a turn may need it."""

    def __init__(self, resolve: Callable[[], ResolvedModel], capabilities: Capabilities) -> None:
        self._resolve = resolve
        self._capabilities = capabilities

    @cached_property
    def resolved(self) -> ResolvedModel:
        """The model. Raises ConfigError if its configuration is invalid."""
        return self._resolve()

    def interpreter(self, secret: bytes, tenant: str) -> "Interpreter":
        """Return what the engine needs to know about the model."""
        from ..engine.turn.interpretation import Interpreter  # imports the dialects, which few programs need

        match = self._capabilities.find(self.resolved.provider, self.resolved.model)
        return Interpreter(self.resolved.model, match, partial(nonces_of, secret, tenant, ()))

    async def close(self) -> None:
        if "resolved" in self.__dict__:
            await self.resolved.upstream.close()


def codec_of(protocol: str) -> str:
    if protocol not in _PROTOCOLS and protocol not in (others := plugin_protocols()):
        hint = f"use one of {', '.join((*_PROTOCOLS, *others))}; `openai` works with every OpenAI-compatible service"
        raise UsageError(f"unknown protocol `{protocol}`", hint=hint)
    return "openai_chat" if protocol == "openai" else protocol
