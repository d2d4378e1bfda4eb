"""The configuration as one frozen value: what is in force for a model or an upstream, and where it came from.

Made by `sources.load`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from ..core.types import JSONObject, JSONValue, Note
from ..engine.planning.capabilities import (
    Overrides,
    Profile,
    Provider,
    builtin_table,
    capabilities,
    checked,
    matching,
    split_model,
)
from ..engine.planning.strategy import Settings
from ..errors import ConfigError
from ..key_value import FileState, MemoryState, State, near_state, open_memory, open_state
from .proxies import route_for
from .values import (
    DEFAULTS,
    SECRETS,
    SETTINGS,
    Endpoint,
    Layer,
    NamedUpstream,
    Origin,
    Record,
    Route,
    Secret,
    ServerToolsRow,
    Setting,
    Source,
    UpstreamRow,
    secret_in,
    shown_url,
)

#: Where a generated secret is kept in the state.
_SECRET_KEY = "secret"


@dataclass(frozen=True, repr=False, eq=False)
class Config:
    """Every setting with its origin. Made by `load`."""

    #: The strongest first.
    _layers: tuple[Layer, ...]
    #: What was left out, and why.
    notes: tuple[Note, ...]
    _environment: Mapping[str, str]
    #: Where the little that must be remembered is kept.
    state_file: Path
    #: Where what can be fetched again is kept.
    cache_folder: Path
    #: Where what cannot be fetched again is kept.
    data_folder: Path

    def __repr__(self) -> str:
        return f"<Config from {', '.join(layer.where or layer.source for layer in self._layers)}>"

    # ---- single settings

    @property
    def model(self) -> str:
        """The model to use, as `provider:model`."""
        return str(self._value("model"))

    @property
    def base_url(self) -> str:
        """Where the model is; empty: at its provider's own host."""
        return str(self._value("base_url"))

    @property
    def adapter(self) -> str:
        """A LoRA adapter for the embedded model, as a GGUF file."""
        return str(self._value("adapter"))

    @property
    def context(self) -> int:
        """Tokens of context that each answer of the embedded model has."""
        return self._value("context")  # type: ignore[return-value]

    @property
    def load_plugins(self) -> str:
        """Which plugins to load: `all`, `none`, or names separated by commas."""
        return str(self._value("load_plugins"))

    @cached_property
    def settings(self) -> Settings:
        """The settings that hold for every model."""
        return self.settings_for("")

    def settings_for(self, model: str, upstream: str = "") -> Settings:
        """The settings for one `provider:model`, at one upstream of the configuration."""
        values: JSONObject = {}
        for setting in self.shown(model, upstream):
            if setting.name in SETTINGS:
                where = str(setting.origin)
                values |= checked(Settings, {setting.name: setting.value}, where)
        return Settings(**values)

    def shown(self, model: str = "", upstream: str = "") -> tuple[Setting, ...]:
        """Every setting as it is in force for a model, with its origin; secrets redacted."""
        return tuple(self._shown(name, *self._find(name, model, upstream)) for name in DEFAULTS)

    def tables(self) -> tuple[Setting, ...]:
        """What is said about single providers, models and upstreams, with its origin; secrets redacted."""
        return tuple(
            self._shown(f"{table}.{row}.{name}", value, layer.origin(name, table, row), name)
            for layer in self._layers
            for table, rows in layer.tables.items()
            for row, fields in rows.items()
            for name, value in fields.items()
        )

    def overriding(self, model: str) -> tuple[Setting, ...]:
        """What overrides the profile of a model, as it is in force, with its origin."""
        found: dict[str, Setting] = {}
        for layer in self._layers:
            for table, row, fields in _scopes(layer, model, ""):
                for name, value in _profiles({row: fields}).get(row, {}).items() if table else ():
                    origin = layer.origin(name, table, row)
                    found.setdefault(name, self._shown(f"{table}.{row}.{name}", value, origin, name))
        return tuple(found.values())

    def check_dialects(self) -> None:
        """Look up every dialect that is named for a provider, a model or an upstream; once plugins are loaded.

        Raises:
            ConfigError: there is none of that name.
        """
        for setting in self.tables():
            if setting.name.endswith(".dialect"):
                checked(Settings, {"dialect": setting.value}, str(setting.origin))

    # ---- for the other parts

    def environment(self) -> Mapping[str, str]:
        """The environment of programs that are started."""
        return dict(self._environment)

    def overrides(self) -> tuple[tuple[str, Overrides], ...]:
        """What is said about capabilities, for `Capabilities.configure`: the strongest source last."""
        sources: list[tuple[str, Overrides]] = []
        for layer in reversed(self._layers):
            upstreams = layer.tables.get("upstreams", {})
            overrides = Overrides(
                _profiles(layer.tables.get("providers", {})),
                {upstreams[name]["base_url"]: fields for name, fields in _profiles(upstreams).items()},
                _profiles(layer.tables.get("models", {})),
            )
            if overrides != Overrides():
                sources.append(("env" if layer.source == "env" else "config", overrides))
        return tuple(sources)

    @property
    def store(self) -> str:
        """The URL of the database of sessions."""
        return str(self._value("store")) or f"sqlite:///{self.data_folder / 'sessions.db'}"

    @property
    def servers_folder(self) -> Path:
        """Where servers that run leave word of where they are."""
        return self.state_file.parent / "servers"

    @property
    def record(self) -> Record:
        """What a server keeps of requests."""
        return self._value("record")  # type: ignore[return-value]

    def state(self, *, near: bool = False) -> State:
        """Where the little that must be remembered is kept: the database, if one is named, else the state file.

        With `near`, for those who must not wait for a database: what others change is seen about a second later.
        """
        url = str(self._value("store"))
        if not url:
            return FileState(self.state_file)
        return near_state(url) if near else open_state(url)

    def memory(self) -> State:
        """Where a server remembers conversations: in the database, if one is named, else in its own memory."""
        url = str(self._value("store"))
        return open_memory(url) if url else MemoryState()

    def secret(self, state: State) -> Secret:
        """What nonces are made from: the one that is set, else one that all processes share through the state."""
        said = self._secret_at(*self._find("secret"), *self._find("secret_file"))
        return said or Secret(str(state.setdefault(_SECRET_KEY, secrets.token_hex(32))))

    def endpoint(self, model: str = "", base_url: str = "", upstream: str = "") -> Endpoint:
        """Where to find a model: as asked, as configured, as its provider's own variables say, or at its own host.

        A provider's key goes to the provider's own hosts and to the URL that its own variable names, nowhere else.
        """
        provider, model = split_model(model or self.model)
        row = capabilities().provider(provider)
        if upstream:
            named = self.upstream(upstream)
            key = named.api_key or self._vendor_key(row, base_url or named.row.base_url)
            return Endpoint(provider, model, base_url or named.row.base_url, named.protocol, key)
        url = base_url or self.base_url
        variable = _vendor_url(row, self._environment)
        protocol = self._value("protocol") or (row.protocol if row else "openai")
        key = self._secret_at(*self._find("api_key"), *self._find("api_key_file")) or self._vendor_key(row, url)
        return Endpoint(provider, model, url or variable or (row.url if row else ""), str(protocol), key)

    def route(self, base_url: str, transport: str = "") -> Route:
        """The way to a service: by the transport given, else by the setting; through the environment's proxy."""
        return route_for(base_url, transport or str(self._value("transport")), self._environment)

    def _vendor_key(self, row: Provider | None, url: str) -> Secret:
        if row is None or not (row.owns(url) or url == _vendor_url(row, self._environment)):
            return Secret()
        return Secret(next((value for name in row.keys if (value := self._environment.get(name))), ""))

    # ---- upstreams by name

    def upstream_names(self) -> tuple[str, ...]:
        """The upstreams that are configured, in the order in which they are asked for a model."""
        return tuple(dict.fromkeys(name for layer in self._layers for name in layer.tables.get("upstreams", {})))

    def upstream(self, name: str) -> NamedUpstream:
        """One of them, with its own key: the general `api_key` is for the general `base_url` only.

        Raises:
            ConfigError: there is none of that name, or its key cannot be had.
        """
        fields = self._upstream(name)
        own = UpstreamRow(**{key: value for key, value in fields.items() if key in UpstreamRow.__struct_fields__})
        provider = own.provider or _provider_at(own.base_url, name)
        row = capabilities().provider(provider)
        key = Secret() if own.auth == "forward" else self._key(own, name) or self._vendor_key(row, own.base_url)
        protocol = own.protocol or (row.protocol if row and row.owns(own.base_url) else "openai")
        return NamedUpstream(name, provider, protocol, key, own)

    def aliases(self) -> dict[str, str]:
        """Other names for models: name -> model, or `upstream:model`."""
        found: dict[str, str] = {}
        for layer in reversed(self._layers):
            found |= {name: str(fields["model"]) for name, fields in layer.tables.get("aliases", {}).items()}
        return found

    def server_tools(self) -> dict[str, ServerToolsRow]:
        """What the proxy itself runs, by the names of the tables."""
        found: dict[str, ServerToolsRow] = {}
        for layer in reversed(self._layers):
            found |= {name: ServerToolsRow(**fields) for name, fields in layer.tables.get("server_tools", {}).items()}
        return found

    # ---- finding

    def _value(self, name: str) -> JSONValue:
        return self._find(name)[0]

    def _find(self, name: str, model: str = "", upstream: str = "") -> tuple[JSONValue, Origin]:
        """A setting and its origin: the strongest source that says anything, and there the narrowest scope."""
        for layer in self._layers:
            for table, row, fields in _scopes(layer, model, upstream):
                if name in fields and (not table or name in SETTINGS):
                    return fields[name], layer.origin(name, table, row)
        return DEFAULTS[name], Origin("default")

    def _upstream(self, name: str) -> JSONObject:
        for layer in self._layers:
            if name in layer.tables.get("upstreams", {}):
                return layer.tables["upstreams"][name]
        known = ", ".join(sorted(self.upstream_names())) or "none"
        raise ConfigError(f"unknown upstream `{name}`", hint=f"configured are: {known}")

    def _key(self, row: UpstreamRow, name: str) -> Secret:
        if row.api_key:
            return Secret(row.api_key)
        if row.api_key_env:
            text = self._environment.get(row.api_key_env, "")
            if not text:
                hint = f"set {row.api_key_env}, or take `api_key_env` out of upstreams.`{name}`"
                raise ConfigError(f"there is no key in the variable {row.api_key_env}", hint=hint)
            return Secret(text)
        return secret_in(row.api_key_file, f"upstreams.`{name}`") if row.api_key_file else Secret()

    def _secret_at(self, text: JSONValue, said: Origin, path: JSONValue, file: Origin) -> Secret:
        """A secret given as text or by a file, whichever source is the stronger."""
        if path and (not text or _rank(file) < _rank(said)):
            return secret_in(str(path), str(file))
        return Secret(str(text))

    def _shown(self, name: str, value: JSONValue, origin: Origin, column: str = "") -> Setting:
        column = column or name
        if column in SECRETS:
            value = repr(Secret(value)) if value else ""
        elif column in ("base_url", "store"):
            value = shown_url(str(value))
        return Setting(name, value, origin)


def _scopes(layer: Layer, model: str, upstream: str) -> Iterator[tuple[str, str, JSONObject]]:
    """What a source says that may concern a model, the narrowest first."""
    models, upstreams, providers = (layer.tables.get(table, {}) for table in ("models", "upstreams", "providers"))
    provider, name = split_model(model)
    provider = capabilities().canonical(provider) if provider else ""
    if model and (found := matching(models, f"{provider}:{name}".lower())):
        yield "models", found, models[found]
    if upstream in upstreams:
        yield "upstreams", upstream, upstreams[upstream]
    if provider in providers:
        yield "providers", provider, providers[provider]
    yield "", "", layer.values


def _profiles(rows: dict[str, JSONObject]) -> dict[str, JSONObject]:
    """The parts of tables that belong to profiles. What settings know as well is a setting."""
    names = set(Profile.__struct_fields__) - set(SETTINGS)
    found = {row: {key: value for key, value in fields.items() if key in names} for row, fields in rows.items()}
    return {row: fields for row, fields in found.items() if fields}


def _rank(origin: Origin) -> int:
    return get_args(Source).index(origin.source)


def _provider_at(base_url: str, name: str) -> str:
    """Who answers at a URL: the provider that it is called by, the one whose own host it is, or nobody known."""
    if capabilities().provider(name) is not None:
        return name
    # Software that everybody runs on a host of their own owns every host, and so tells nothing.
    rows = (row for row in builtin_table().providers.values() if "*" not in row.hosts)
    return next((row.name for row in rows if row.owns(base_url)), name)


def _vendor_url(row: Provider | None, environment: Mapping[str, str]) -> str:
    """The base URL that the provider's own variable names."""
    url = next((value for name in row.urls if (value := environment.get(name))), "") if row else ""
    if not url or "://" in url:
        return url
    # Ollama's variable is also read by its server: a host to listen on, often without scheme or port.
    host = url.replace("0.0.0.0", "127.0.0.1")
    return f"http://{host}" if ":" in host else f"http://{host}:11434"
