"""What the configuration says about a server: its gateway, who may ask, what must not be shown. `process` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias

from ...config import Auth, Config, NamedUpstream, Route, Secret
from ...engine.planning.capabilities import Capabilities
from ...errors import UsageError
from ...key_value import State
from ...plugins import Plugins
from ...runtime.model_resolution import codec_of, reach
from ...runtime.probe_cache import ProbeStore
from ...runtime.prober import Probes
from ...upstreams.base import Upstream
from ...upstreams.codecs import codec
from ...upstreams.http.connection import Timeouts
from ...upstreams.http.service import Service
from ...upstreams.http.transport_choice import service
from ..access.api_keys import Keys
from ..access.auth import Access, Credential
from ..access.origin_guard import Guard, is_loopback
from ..proxy.upstream_models import ListingUpstream
from ..proxy.upstream_router import Gateway, Line, Loop

#: Where requests go: to the upstreams of the configuration, to one upstream, or to the model that runs here.
_Kind: TypeAlias = Literal["several", "one", "here"]
_KINDS: dict[_Kind, str] = {
    "several": "the upstreams that it names",
    "one": "one upstream",
    "here": "the model that runs here",
}


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
    """The gateway that the configuration describes: to the one `upstream` given, else to those that it names.

    With `alone`, to the one model given, whatever the configuration names besides; with `only`, to the upstream of
    that name and those that it falls back to. Without `tools`, nothing runs that the server would run by itself.

    Raises:
        UsageError: something in it cannot be.
    """
    known = Capabilities()
    plugins = Plugins(config.load_plugins)
    plugins.extend(known)
    known.configure(*config.overrides())
    config.check_dialects()
    names = () if upstream or alone else _with_fallbacks(config, only) if only else config.upstream_names()
    lines = [_named_line(config, config.upstream(name), plugins) for name in names]
    aliases = config.aliases() if lines and not only else {}
    if not lines:
        lines = [_one_line(config, upstream, model, auth, plugins)]
    elif model:
        raise UsageError("one model for everybody needs one upstream", hint="give --upstream too, or an alias")
    secret = config.secret(config.state()).reveal().encode()
    # Not in the file: what is remembered of conversations changes with every call. Where a database is named, all
    # processes that share it remember together; otherwise it ends with the process.
    own = memory if memory is not None else config.memory()
    probes = Probes(known, ProbeStore(config.state(near=True)))
    gateway = Gateway(lines, known, own, secret, aliases, probes, _loops(config) if tools else {})
    gateway.check()
    return gateway


def _with_fallbacks(config: Config, name: str) -> list[str]:
    """An upstream, and all that may be asked in its place."""
    found = [name]
    for each in found:  # which grows meanwhile
        others = (target.partition(":")[0] for target in config.upstream(each).row.fallbacks)
        found += [other for other in dict.fromkeys(others) if other not in found]
    return found


def _loops(config: Config) -> Mapping[str, Loop]:
    """The tools that the server itself runs, by the names of keys."""
    rows = config.server_tools()
    if not rows:
        return {}
    from ..proxy.tool_loop.tools import loops_from  # the tools are not needed by most servers

    return loops_from(rows, config.state(), config.environment(), config.data_folder)


def _named(config: Config, upstream: str, model: str) -> str:
    """The model that is meant where there is one upstream, with its provider; nothing said: the one that runs here."""
    elsewhere = upstream or config.base_url
    name = model or config.model or ("openai:" if elsewhere else "embedded:")
    if name == "embedded" and not elsewhere:
        return "embedded:"  # who forgets a colon asks nobody else
    if not elsewhere and not name.startswith("embedded:"):
        from ...upstreams.embedded.hub import runs_here  # with all that fetches files

        name = f"embedded:{name}" if runs_here(name) else name
    return name if ":" in name else f"openai:{name}"


def model_here(config: Config, upstream: str = "", model: str = "") -> str | None:
    """The embedded model that requests go to, if they do; the arguments are those of `gateway_from`."""
    provider, _, name = _named(config, upstream, model).partition(":")
    return name if provider == "embedded" and not config.upstream_names() else None


def usable(config: Config, upstream: str = "", model: str = "", before: Config | None = None) -> Config:
    """A configuration that a server can begin with, or go on with after the one `before`.

    Nobody who has named an upstream is answered by another kind of model because a file was changed or is gone.

    Raises:
        UsageError: it is none, and why.
    """
    ignored = _untrusted(config)
    if before is not None:
        old, new = _kind(before, upstream, model), _kind(config, upstream, model)
        if ignored and not _untrusted(before):
            raise UsageError(ignored, hint="trust it as it is now, and send the signal again")
        if old != new:
            raise UsageError(
                f"requests go to {_KINDS[old]}, and would then go to {_KINDS[new]}",
                hint="start the server again for that",
            )
    elif ignored and not (upstream or model or config.base_url or _own_model(config) or config.upstream_names()):
        hint = "`toolspeak trust`; or name one with --upstream URL, or the model that runs here with --model embedded:"
        raise UsageError(f"{ignored}; nothing else says where the model is", hint=hint)
    return config


def _own_model(config: Config) -> bool:
    """Whether a model is named by somebody else than the file that is not trusted: alone it would say where to ask."""
    return any(each.name == "model" and each.value and each.origin.source != "project" for each in config.shown())


def _kind(config: Config, upstream: str, model: str) -> _Kind:
    if model_here(config, upstream, model) is not None:
        return "here"
    return "one" if upstream or not config.upstream_names() else "several"


def _untrusted(config: Config) -> str:
    """What a file of the working directory may not say, since nobody has trusted it; empty if there is nothing."""
    return next((note.detail for note in config.notes if note.code == "untrusted_setting"), "")


def _one_line(config: Config, upstream: str, model: str, auth: Auth, plugins: Plugins) -> Line:
    """The one upstream that the caller, or the general settings, name."""
    name = _named(config, upstream, model)
    reached = reach(name, upstream, "", config, plugins)

    def dial(own: Credential | None) -> Upstream:
        if own is None and not isinstance(reached.upstream, Service):
            return reached.upstream  # a plugin's
        key = own or Credential("", config.endpoint(name, upstream).api_key)
        route = config.route(reached.base_url)
        return _with_key(key, reached.base_url, reached.protocol, Timeouts(), reached.provider, route)

    return Line(
        reached.provider,
        reached.provider,
        reached.base_url,
        reached.protocol,
        dial,
        lambda name: config.settings_for(f"{reached.provider}:{name}"),
        auth,
        fixed=reached.model,
    )


def _named_line(config: Config, named: NamedUpstream, plugins: Plugins) -> Line:
    """One `[upstreams.NAME]`."""
    row, protocol = named.row, codec_of(named.protocol)
    timeouts = Timeouts(row.connect_timeout, row.first_byte_timeout, row.idle_timeout, row.total_timeout)
    factory = plugins.upstream(named.provider)

    def dial(own: Credential | None) -> Upstream:
        if own is None and factory is not None:
            return factory(model="", base_url=row.base_url, api_key=named.api_key.reveal())
        key = own or Credential("", named.api_key)
        route = config.route(row.base_url, row.transport)
        return _with_key(key, row.base_url, protocol, timeouts, named.provider, route)

    return Line(
        named.name,
        named.provider,
        row.base_url,
        protocol,
        dial,
        lambda name: config.settings_for(f"{named.provider}:{name}", named.name),
        row.auth,
        row.models,
        "",
        row.fallbacks,
        row.max_concurrent,
        row.max_per_minute,
    )


def _with_key(
    key: Credential, base_url: str, protocol: str, timeouts: Timeouts, provider: str, route: Route
) -> Upstream:
    """A service, asked with a key; a client's own in the header that it came in."""
    text = key.secret.reveal()
    by = ListingUpstream if route.transport == "thin" else partial(service, route)
    make = partial(by, base_url, protocol=protocol, timeouts=timeouts, provider=provider)
    if key.whole:
        return make("", headers={"Authorization": text})
    if key.header != "authorization" or codec(protocol).key_header.lower() == "authorization":
        return make(text)
    # Anthropic's clients show a key in one header and a token of a subscription in the other.
    return make("", headers={"Authorization": f"Bearer {text}"})


def guard_from(keys: Keys, host: str, hosts: frozenset[str] = frozenset(), *, required: bool = False) -> Guard:
    """Who may ask a server that listens at `host`.

    Raises:
        UsageError: it could be reached from elsewhere, and nobody has a key.
    """
    here = is_loopback(host)
    if (required or not here) and not keys.all():
        hint = "make one with `toolspeak keys new NAME`"
        raise UsageError("nobody has a key, and a server that others can reach demands one", hint=hint)
    # With a key demanded, a name that somebody made up leads nowhere; without one, it must be a name of this machine.
    served = hosts if hosts or here else frozenset({"*"})
    return Guard(Access(keys, required=required or not here), served)


def secrets_of(config: Config, upstream: str = "", model: str = "") -> tuple[Secret, ...]:
    """Every secret of the configuration, for whoever must not show them; the arguments are those of `gateway_from`."""
    named = (config.upstream(name).api_key for name in config.upstream_names())
    return (*named, config.endpoint(_named(config, upstream, model), upstream).api_key, config.secret(config.state()))
