"""Build the parts of a server from its configuration: gateway, access rules, secrets to redact."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...config import Auth, Config, NamedUpstream, Secret, TransportRoute
from ...engine.planning.capabilities import Capabilities
from ...engine.planning.strategy import Settings
from ...errors import UsageError
from ...key_value import State
from ...plugins import Plugins, plugins_for
from ...runtime.model_resolution import InterpreterModel, codec_of, resolve_interpreter, resolve_model
from ...runtime.probe_cache import ProbeStore
from ...runtime.prober import ProbeScheduler
from ...upstreams.base import Upstream
from ...upstreams.codecs import codec
from ...upstreams.http.connection import Timeouts
from ...upstreams.http.service import Service
from ...upstreams.http.thin_transport import open_service
from ..access.api_keys import ApiKeys
from ..access.auth import Access, Credential
from ..access.origin_guard import OriginGuard, is_loopback
from ..proxy.upstream_router import Gateway, UpstreamConfig, public_url

if TYPE_CHECKING:
    from ..proxy.tool_loop.loop import LoopTools

#: The destination of requests: the configured upstreams, one upstream, or the embedded model.
_Kind: TypeAlias = Literal["several", "one", "here"]
_KINDS: dict[_Kind, str] = {"several": "the configured upstreams", "one": "one upstream", "here": "the embedded model"}


def gateway_from(
    config: Config,
    upstream: str = "",
    model: str = "",
    auth: Auth = "replace",
    memory: State | None = None,
    *,
    alone: bool = False,
    only: str = "",
    tools: bool = True,
) -> Gateway:
    """Build the gateway to the given `upstream`, or to all configured upstreams.

    With `alone`, the gateway serves only the given model. With `only`, it serves the upstream of that name and its
    fallbacks. Without `tools`, the server runs no tools itself. Raises UsageError if the configuration is invalid.
    """
    capabilities = Capabilities()
    plugins = plugins_for(config.load_plugins)
    plugins.extend(capabilities)
    capabilities.configure(*config.overrides())
    config.check_dialects()
    names = () if upstream or alone else _with_fallbacks(config, only) if only else config.upstream_names()
    upstreams = [_named_upstream(config, config.upstream(name), plugins) for name in names]
    aliases = config.aliases() if upstreams and not only else {}
    if not upstreams:
        upstreams = [_single_upstream(config, upstream, model, auth, plugins)]
    elif model:
        raise UsageError("--model requires a single upstream", hint="add --upstream, or define an alias")
    secret = config.secret(config.state()).reveal().encode()
    # The memory is not in the state file, because it changes with every call. Processes share it through a database,
    # if one is configured; otherwise it ends with the process.
    own_memory = memory if memory is not None else config.memory()
    probes = ProbeScheduler(capabilities, ProbeStore(config.state(cached=True)))
    interpreter = InterpreterModel(partial(resolve_interpreter, config), capabilities)
    parts = (upstreams, capabilities, own_memory, secret, aliases, probes, _loops(config) if tools else None)
    gateway = Gateway(*parts, interpreter, config.settings_for)
    gateway.check()
    return gateway


def _with_fallbacks(config: Config, name: str) -> list[str]:
    """Return the names of an upstream and, transitively, its fallbacks."""
    names = [name]
    for each in names:  # the loop appends to this list
        others = (target.partition(":")[0] for target in config.upstream(each).row.fallbacks)
        names += [other for other in dict.fromkeys(others) if other not in names]
    return names


def _loops(config: Config) -> "Mapping[str, LoopTools]":
    """Map each key name to the tools that the server runs for that key."""
    rows = config.server_tools()
    if not rows:
        return {}
    from ..proxy.tool_loop.tools import loops_from  # on demand: most servers do not run tools

    return loops_from(rows, config.state(), config.environment(), config.data_folder, config.load_plugins)


def _single_model(config: Config, upstream: str, model: str) -> str:
    """Return `provider:model` for a server with a single upstream; by default the embedded model."""
    elsewhere = upstream or config.base_url
    name = model or config.model_at(elsewhere) or ("openai:" if elsewhere else "embedded:")
    if name == "embedded" and not elsewhere:
        return "embedded:"  # accept the name without its colon
    if not elsewhere and not name.startswith("embedded:"):
        from ...upstreams.embedded.hub import runs_here  # on demand: this imports the download code

        name = f"embedded:{name}" if runs_here(name) else name
    return name if ":" in name else f"openai:{name}"


def embedded_model(config: Config, upstream: str = "", model: str = "") -> str | None:
    """Return the embedded model that serves requests, or None. The arguments are those of `gateway_from`."""
    provider, _, name = _single_model(config, upstream, model).partition(":")
    return name if provider == "embedded" and not config.upstream_names() else None


def usable_config(config: Config, upstream: str = "", model: str = "", before: Config | None = None) -> Config:
    """Return the configuration if a server can start with it, or can reload it in place of `before`.

    A changed, untrusted or missing file must never redirect requests to a different kind of destination. Raises
    UsageError if the configuration cannot be used.
    """
    untrusted = _untrusted(config)
    if before is not None:
        old, new = _kind(before, upstream, model), _kind(config, upstream, model)
        if untrusted and not _untrusted(before):
            raise UsageError(untrusted, hint="run `toolspeak trust`, then send SIGHUP again")
        if old != new:
            message = f"requests would go to {_KINDS[new]} instead of {_KINDS[old]}"
            raise UsageError(message, hint="restart the server to apply this change")
    elif untrusted and not (upstream or model or config.base_url or config.upstream_names()):
        settings = [each for each in config.effective_settings() if each.name == "model" and each.value]
        if any(each.origin.source != "project" for each in settings):  # a trusted source selects the model
            return config
        hint = "run `toolspeak trust`, or use --upstream URL, or --model embedded: for the embedded model"
        raise UsageError(f"{untrusted}; no other setting selects a model", hint=hint)
    return config


def _kind(config: Config, upstream: str, model: str) -> _Kind:
    if embedded_model(config, upstream, model) is not None:
        return "here"
    return "one" if upstream or not config.upstream_names() else "several"


def _untrusted(config: Config) -> str:
    """Return the note about ignored settings in an untrusted project file, or an empty string."""
    return next((note.detail for note in config.notes if note.code == "untrusted_setting"), "")


def _single_upstream(config: Config, upstream: str, model: str, auth: Auth, plugins: Plugins) -> UpstreamConfig:
    name = _single_model(config, upstream, model)
    resolved = resolve_model(name, upstream, "", config, plugins)

    def connect(own_key: Credential | None) -> Upstream:
        if own_key is None and not isinstance(resolved.upstream, Service):
            return resolved.upstream  # provided by a plugin
        key = own_key or Credential("", config.endpoint(name, upstream).api_key)
        route = config.route(resolved.base_url)
        return _with_key(key, resolved.base_url, resolved.protocol, Timeouts(), resolved.provider, route)

    def settings(model: str) -> Settings:
        return config.settings_for(f"{resolved.provider}:{model}")

    about = (resolved.provider, resolved.provider, resolved.base_url, resolved.protocol)
    host = public_url(resolved.base_url).partition("://")[2].partition("/")[0].rpartition("@")[2]
    return UpstreamConfig(*about, connect, settings, auth, fixed=resolved.model, title=host)


def _named_upstream(config: Config, named: NamedUpstream, plugins: Plugins) -> UpstreamConfig:
    row, protocol = named.row, codec_of(named.protocol)
    timeouts = Timeouts(row.connect_timeout, row.first_byte_timeout, row.idle_timeout, row.total_timeout)
    factory = plugins.upstream(named.provider)

    def connect(own_key: Credential | None) -> Upstream:
        if own_key is None and factory is not None:
            return factory(model="", base_url=row.base_url, api_key=named.api_key.reveal())
        key = own_key or Credential("", named.api_key)
        route = config.route(row.base_url, row.transport)
        return _with_key(key, row.base_url, protocol, timeouts, named.provider, route)

    def settings(model: str) -> Settings:
        return config.settings_for(f"{named.provider}:{model}", named.name)

    about = (named.name, named.provider, row.base_url, protocol)
    limits = (row.max_concurrent, row.max_per_minute)
    return UpstreamConfig(*about, connect, settings, row.auth, row.models, "", row.fallbacks, *limits)


def _with_key(
    key: Credential, base_url: str, protocol: str, timeouts: Timeouts, provider: str, route: TransportRoute
) -> Upstream:
    """Connect to an upstream with a key. A client's own key is sent in the header that the client used."""
    text = key.secret.reveal()
    make = partial(open_service, route, base_url, protocol=protocol, timeouts=timeouts, provider=provider)
    if key.is_full_header:
        return make("", headers={"Authorization": text})
    if key.header != "authorization" or codec(protocol).key_header.lower() == "authorization":
        return make(text)
    # Anthropic's clients send API keys in `x-api-key` but subscription tokens in `Authorization`.
    return make("", headers={"Authorization": f"Bearer {text}"})


def origin_guard_from(
    keys: ApiKeys, host: str, hosts: frozenset[str] = frozenset(), *, required: bool = False
) -> OriginGuard:
    """Build the access checks for a server that listens on `host`. Raises UsageError if a required key is missing."""
    here = is_loopback(host)
    if (required or not here) and not keys.all():
        hint = "create one with `toolspeak keys new NAME`"
        raise UsageError("no API key exists, but this server requires one", hint=hint)
    # A server that other machines can reach requires a key, so DNS rebinding gains nothing and any Host is accepted.
    # A loopback server accepts only the names of this machine.
    served = hosts if hosts or here else frozenset({"*"})
    return OriginGuard(Access(keys, required=required or not here), served)


def secrets_of(config: Config, upstream: str = "", model: str = "") -> tuple[Secret, ...]:
    """Return every secret in the configuration, for redaction. The arguments are those of `gateway_from`."""
    upstream_keys = (config.upstream(name).api_key for name in config.upstream_names())
    own_key = config.endpoint(_single_model(config, upstream, model), upstream).api_key
    return (*upstream_keys, own_key, config.secret(config.state()))
