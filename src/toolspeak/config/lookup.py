"""`Config`: looks up the effective settings for a model or an upstream, with their origins."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from ..core.types import JSONObject, JSONValue, Note
from ..engine.planning.capabilities import (
    Overrides,
    Profile,
    Provider,
    best_pattern,
    capabilities,
    check_fields,
    split_model,
)
from ..engine.planning.strategy import Settings
from ..errors import ConfigError
from ..key_value import FileState, MemoryState, State, cached_state, open_memory, open_state
from . import values
from .proxies import route_for

T = TypeVar("T")

_SECRET_KEY = "secret"


class _General(Generic[T]):
    """Property of `Config` for the general setting of the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, config: "Config", owner: type) -> T:
        return config.value(self._name)


@dataclass(frozen=True, repr=False, eq=False)
class Config:
    """The settings from all sources, with their origins. Created by `sources.load`."""

    _layers: tuple[values.Layer, ...]  # one layer per source, the highest precedence first
    notes: tuple[Note, ...]  # warnings, for example about settings that were ignored
    _environment: Mapping[str, str]
    state_file: Path
    cache_folder: Path
    data_folder: Path

    def __repr__(self) -> str:
        return f"<Config from {', '.join(layer.where or layer.source for layer in self._layers)}>"

    # `GeneralSettings` documents these settings.
    model = _General[str]()
    base_url = _General[str]()
    adapter = _General[str]()
    context = _General[int]()
    load_plugins = _General[str]()
    approval = _General[values.ApprovalMode]()
    record = _General[values.Record]()

    @cached_property
    def settings(self) -> Settings:
        """Settings that apply to every model."""
        return self.settings_for("")

    def settings_for(self, model: str, upstream: str = "") -> Settings:
        """Return the settings for one `provider:model` at one configured upstream."""
        fields: JSONObject = {}
        for setting in self.effective_settings(model, upstream):
            if setting.name in values.SETTINGS:
                fields |= check_fields(Settings, {setting.name: setting.value}, str(setting.origin))
        return Settings(**fields)

    def effective_settings(self, model: str = "", upstream: str = "") -> tuple[values.Setting, ...]:
        """Return the effective settings for a model, with their origins and with secrets redacted."""
        return tuple(self._redacted(name, *self._find(name, model, upstream)) for name in values.DEFAULTS)

    def tables(self) -> tuple[values.Setting, ...]:
        """Return all settings from tables such as `[models.NAME]`, with their origins and with secrets redacted."""
        return tuple(
            self._redacted(f"{table}.{row}.{name}", value, layer.origin(name, table, row), name)
            for layer in self._layers
            for table, rows in layer.tables.items()
            for row, fields in rows.items()
            for name, value in fields.items()
        )

    def overriding(self, model: str) -> tuple[values.Setting, ...]:
        """Return the effective overrides of a model's profile, with their origins."""
        overrides: dict[str, values.Setting] = {}
        for layer in self._layers:
            for table, row, fields in _scopes(layer, model, ""):
                for name, value in _profiles({row: fields}).get(row, {}).items() if table else ():
                    origin = layer.origin(name, table, row)
                    overrides.setdefault(name, self._redacted(f"{table}.{row}.{name}", value, origin, name))
        return tuple(overrides.values())

    def check_dialects(self) -> None:
        """Validate the dialect names in all tables, once plugins are loaded. Raises ConfigError if one is unknown."""
        for setting in self.tables():
            if setting.name.endswith(".dialect"):
                check_fields(Settings, {"dialect": setting.value}, str(setting.origin))

    def environment(self) -> Mapping[str, str]:
        return dict(self._environment)

    def overrides(self) -> tuple[tuple[str, Overrides], ...]:
        """Return capability overrides for `Capabilities.configure`, in increasing order of precedence."""
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
        """URL of the session database."""
        return self.value("store") or f"sqlite:///{self.data_folder / 'sessions.db'}"

    @property
    def servers_folder(self) -> Path:
        """Folder in which running servers write their control files."""
        return self.state_file.parent / "servers"

    @property
    def prompts_folder(self) -> Path:
        """Folder in which the embedded model saves what it has made of tool prompts."""
        return self.state_file.parent / "prompts"

    def state(self, *, cached: bool = False) -> State:
        """Open the persistent state: in the database if one is configured, otherwise in the state file.

        With `cached`, calls never wait for the database; changes by other processes appear about a second later.
        """
        url = self.value("store")
        if not url:
            return FileState(self.state_file)
        return cached_state(url) if cached else open_state(url)

    def memory(self) -> State:
        """Open a server's conversation memory: in the database if one is configured, otherwise in the process."""
        url = self.value("store")
        return open_memory(url) if url else MemoryState()

    def secret(self, state: State) -> values.Secret:
        """Return the secret that nonces are derived from: the configured one, or one generated and stored once."""
        return self._secret("secret") or values.Secret(str(state.setdefault(_SECRET_KEY, secrets.token_hex(32))))

    def endpoint(self, model: str = "", base_url: str = "") -> values.Endpoint:
        """Resolve a model's endpoint from the arguments, the configuration, the provider's variables or its own host.

        A provider's key is sent only to the provider's hosts and to the URL in the provider's environment variable.
        """
        provider, model = split_model(model or self.model)
        url = base_url or self.base_url
        if not provider and not url:  # `openai/gpt-4o`, as LiteLLM writes it
            head, slash, rest = model.partition("/")
            vendor = capabilities().provider(head.lower()) if slash else None
            provider, model = (vendor.name, rest) if vendor is not None and vendor.url else (provider, model)
        row = capabilities().provider(provider)
        variable = _vendor_url(row, self._environment)
        protocol = self.value("protocol") or (row.protocol if row else "openai")
        key = self._secret("api_key") or self._vendor_key(row, url)
        return values.Endpoint(provider, model, url or variable or (row.url if row else ""), str(protocol), key)

    def model_at(self, url: str) -> str:
        """Return the configured model; none if it is the embedded one, but requests go to a URL."""
        return "" if url and self.model.partition(":")[0] == "embedded" else self.model

    def route(self, base_url: str, transport: str = "") -> values.TransportRoute:
        """Choose the transport and proxy for a base URL; `transport` overrides the setting."""
        return route_for(base_url, transport or self.value("transport"), self._environment)

    def _vendor_key(self, row: Provider | None, url: str) -> values.Secret:
        if row is None or not (row.owns(url) or url == _vendor_url(row, self._environment)):
            return values.Secret()
        return values.Secret(next((value for name in row.keys if (value := self._environment.get(name))), ""))

    def upstream_names(self) -> tuple[str, ...]:
        """Return the names of the configured upstreams, in the order in which they are tried for a model."""
        return tuple(dict.fromkeys(name for layer in self._layers for name in layer.tables.get("upstreams", {})))

    def upstream(self, name: str) -> values.NamedUpstream:
        """Resolve one upstream with its own key. Raises ConfigError if the name is unknown or the key unreadable.

        The general `api_key` is used only for the general `base_url`.
        """
        rows = self._rows("upstreams")
        if name not in rows:
            names = ", ".join(sorted(self.upstream_names())) or "none"
            raise ConfigError(f"unknown upstream `{name}`", hint=f"configured upstreams: {names}")
        own = values.UpstreamRow(
            **{key: value for key, value in rows[name].items() if key in values.UpstreamRow.__struct_fields__}
        )
        provider = own.provider or _provider_at(own.base_url, name)
        row = capabilities().provider(provider)
        key = values.Secret() if own.auth == "forward" else self._key(own, name) or self._vendor_key(row, own.base_url)
        protocol = own.protocol or (row.protocol if row and row.owns(own.base_url) else "openai")
        return values.NamedUpstream(name, provider, protocol, key, own)

    def aliases(self) -> dict[str, str]:
        """Return the model aliases: each name maps to a model or to `upstream:model`."""
        return {name: str(fields["model"]) for name, fields in self._rows("aliases").items()}

    def server_tools(self) -> dict[str, values.ServerToolsRow]:
        """Return the `[server_tools.NAME]` tables (tools that the proxy runs itself), by name."""
        return {name: values.ServerToolsRow(**fields) for name, fields in self._rows("server_tools").items()}

    def value(self, name: str) -> Any:
        return self._find(name)[0]

    def _find(self, name: str, model: str = "", upstream: str = "") -> tuple[JSONValue, values.Origin]:
        """Return a setting and its origin, searching sources by precedence and each source from the narrowest scope."""
        for layer in self._layers:
            for table, row, fields in _scopes(layer, model, upstream):
                if name in fields and (not table or name in values.SETTINGS):
                    return fields[name], layer.origin(name, table, row)
        return values.DEFAULTS[name], values.Origin("default")

    def _rows(self, table: str) -> dict[str, JSONObject]:
        rows: dict[str, JSONObject] = {}
        for layer in reversed(self._layers):
            rows |= layer.tables.get(table, {})
        return rows

    def _key(self, row: values.UpstreamRow, name: str) -> values.Secret:
        if row.api_key:
            return values.Secret(row.api_key)
        if row.api_key_env:
            text = self._environment.get(row.api_key_env, "")
            if not text:
                hint = f"set {row.api_key_env}, or remove `api_key_env` from [upstreams.{name}]"
                raise ConfigError(f"the environment variable {row.api_key_env} is not set", hint=hint)
            return values.Secret(text)
        return values.read_secret_file(row.api_key_file, f"[upstreams.{name}]") if row.api_key_file else values.Secret()

    def _secret(self, name: str) -> values.Secret:
        """Return a secret from the setting or from a file, whichever comes from the source with higher precedence."""
        (text, text_origin), (path, file_origin) = self._find(name), self._find(f"{name}_file")
        rank = get_args(values.Source).index
        if path and (not text or rank(file_origin.source) < rank(text_origin.source)):
            return values.read_secret_file(str(path), str(file_origin))
        return values.Secret(str(text))

    def _redacted(self, name: str, value: JSONValue, origin: values.Origin, column: str = "") -> values.Setting:
        column = column or name
        if column in values.SECRETS:
            value = repr(values.Secret(value)) if value else ""
        elif column in ("base_url", "store"):
            value = values.redacted_url(str(value))
        return values.Setting(name, value, origin)


def _scopes(layer: values.Layer, model: str, upstream: str) -> Iterator[tuple[str, str, JSONObject]]:
    """Yield the settings in a layer that apply to a model, narrowest scope first."""
    models, upstreams, providers = (layer.tables.get(table, {}) for table in ("models", "upstreams", "providers"))
    provider, name = split_model(model)
    provider = capabilities().canonical(provider) if provider else ""
    if model and (pattern := best_pattern(models, f"{provider}:{name}".lower())):
        yield "models", pattern, models[pattern]
    if upstream in upstreams:
        yield "upstreams", upstream, upstreams[upstream]
    if provider in providers:
        yield "providers", provider, providers[provider]
    yield "", "", layer.values


def _profiles(rows: dict[str, JSONObject]) -> dict[str, JSONObject]:
    """Return the profile fields of each row, without those that are also settings."""
    names = set(Profile.__struct_fields__) - set(values.SETTINGS)
    selected = {row: {key: value for key, value in fields.items() if key in names} for row, fields in rows.items()}
    return {row: fields for row, fields in selected.items() if fields}


def _provider_at(base_url: str, name: str) -> str:
    """Determine an upstream's provider by its name or the host of its URL; if both are unknown, return the name."""
    if capabilities().provider(name) is not None:
        return name
    row = capabilities().provider_at(base_url)
    return row.name if row is not None else name


def _vendor_url(row: Provider | None, environment: Mapping[str, str]) -> str:
    """Return the base URL from the provider's environment variable, or an empty string."""
    url = next((value for name in row.urls if (value := environment.get(name))), "") if row else ""
    if not url or "://" in url:
        return url
    # Ollama's server uses the same variable for its listening address, often without scheme or port.
    host = url.replace("0.0.0.0", "127.0.0.1")
    return f"http://{host}" if ":" in host else f"http://{host}:11434"
