"""The configuration: one frozen value, put together from five sources, that knows where each setting came from.

A flag beats the environment (`TOOLSPEAK_*`), which beats `toolspeak.toml` in the working directory, which beats
the user's own file, which beats the default. A file in the working directory may come from anybody: until
`toolspeak trust` has recorded its hash it sets harmless things only. This is the only module that reads the
environment. Above: the client, the server, the command line. Below: `state`, `core.strategy`, `core.capability`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

from .core.capability import (
    Overrides,
    Profile,
    Provider,
    allowed,
    capabilities,
    checked,
    hints_of,
    matching,
    split_model,
)
from .core.model import JSONObject, JSONValue, Note, is_object
from .core.strategy import Settings
from .errors import ConfigError
from .state import FileState, State

__all__ = ["Config", "Endpoint", "Origin", "Secret", "Setting", "load", "shown_url", "trust", "trusted", "untrust"]

Source: TypeAlias = Literal["flag", "env", "project", "user", "default"]

#: What a file in the working directory may set without being trusted. These change how calls are asked for and
#: read, at most at the cost of a bounded number of requests. Left out on purpose: where requests and keys go
#: (`base_url`, `protocol`, keys, `[upstreams]`), code that is loaded (`load_plugins`), files that are written
#: (`state_file`), and what protects against forged calls (`marks`, `secret`).
HARMLESS = frozenset({"model", *Settings.__struct_fields__, *Profile.__struct_fields__} - {"marks"})

PROJECT_FILE = "toolspeak.toml"
#: A configuration larger than this is something else.
_LARGEST_FILE = 1024 * 1024
_TABLES = ("providers", "models", "upstreams")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_SECRET_KEY = "secret"


class Secret:
    """A text that shows itself to nobody but `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "<redacted>" if self._text else "<none>"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not copied or written")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(self._text.encode(), other._text.encode())

    __hash__ = None  # type: ignore[assignment]


class Origin(msgspec.Struct, frozen=True):
    """Where a setting came from: the kind of source, and which one (a flag, a variable, a file and its table)."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source


class Setting(msgspec.Struct, frozen=True):
    """One setting as it is in force. A secret is never in it."""

    name: str
    value: JSONValue
    origin: Origin


class Endpoint(msgspec.Struct, frozen=True):
    """Where a model is reached, and how."""

    provider: str
    model: str
    base_url: str
    protocol: str
    api_key: Secret


class _Own(msgspec.Struct, frozen=True):
    """The settings besides `Settings`."""

    #: The model to use, as `provider:model`.
    model: str = ""
    #: Where it is; empty: at its provider's own host.
    base_url: str = ""
    #: The protocol spoken there; empty: its provider's.
    protocol: Literal["", "openai", "anthropic", "gemini", "ollama"] = ""
    #: The key for it, or a file that holds the key.
    api_key: str = ""
    api_key_file: str = ""
    #: What nonces are made from; empty: one is made and kept in the state file.
    secret: str = ""
    secret_file: str = ""
    #: Which installed plugins to load: `all`, `none`, or names of distributions separated by commas.
    load_plugins: str = "all"
    #: Where the little that must be remembered is kept; empty: in the user's state folder.
    state_file: str = ""


class _Upstream(msgspec.Struct, frozen=True):
    base_url: str = ""
    protocol: Literal["", "openai", "anthropic", "gemini", "ollama"] = ""
    api_key: str = ""
    api_key_file: str = ""


_SECRETS = ("api_key", "secret")
_DEFAULTS: JSONObject = {
    **{name: getattr(_Own(), name) for name in _Own.__struct_fields__},
    **{name: getattr(Settings(), name) for name in Settings.__struct_fields__},
}
_SETTINGS = Settings.__struct_fields__
#: What a table may hold: kind of table -> the structs that declare its fields.
_COLUMNS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "": (_Own, Settings),
    "providers": (Settings, Profile),
    "models": (Settings, Profile),
    "upstreams": (_Upstream, Settings, Profile),
}


class _Layer(NamedTuple):
    """What one source says."""

    source: Source
    where: str
    values: JSONObject
    tables: dict[str, dict[str, JSONObject]]

    def origin(self, name: str, table: str = "", row: str = "") -> Origin:
        if self.source == "flag":
            return Origin("flag", "--" + name.replace("_", "-"))
        if self.source == "env":
            return Origin("env", "TOOLSPEAK_OVERRIDES" if table else f"TOOLSPEAK_{name.upper()}")
        return Origin(self.source, f"{self.where}, {table}.`{row}`" if table else self.where)


@dataclass(frozen=True, repr=False, eq=False)
class Config:
    """Every setting with its origin. Made by `load`."""

    #: The strongest first.
    _layers: tuple[_Layer, ...]
    #: What was left out, and why.
    notes: tuple[Note, ...]
    _environment: Mapping[str, str]

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
    def load_plugins(self) -> str:
        """Which plugins to load: `all`, `none`, or names separated by commas."""
        return str(self._value("load_plugins"))

    @property
    def state_file(self) -> Path:
        """Where the little that must be remembered is kept."""
        return _state_file(self._layers, self._environment)

    @cached_property
    def settings(self) -> Settings:
        """The settings that hold for every model."""
        return self.settings_for("")

    def settings_for(self, model: str, upstream: str = "") -> Settings:
        """The settings for one `provider:model`, at one upstream of the configuration."""
        values: JSONObject = {}
        for setting in self.shown(model, upstream):
            if setting.name in _SETTINGS:
                where = str(setting.origin)
                values |= checked(Settings, {setting.name: setting.value}, where)
        return Settings(**values)

    def shown(self, model: str = "", upstream: str = "") -> tuple[Setting, ...]:
        """Every setting as it is in force for a model, with its origin; secrets redacted."""
        return tuple(self._shown(name, *self._find(name, model, upstream)) for name in _DEFAULTS)

    def tables(self) -> tuple[Setting, ...]:
        """What is said about single providers, models and upstreams, with its origin; secrets redacted."""
        return tuple(
            self._shown(f"{table}.{row}.{name}", value, layer.origin(name, table, row), name)
            for layer in self._layers
            for table, rows in layer.tables.items()
            for row, fields in rows.items()
            for name, value in fields.items()
        )

    # ---- for the other parts

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

    def state(self) -> FileState:
        """The state file."""
        return FileState(self.state_file)

    def secret(self, state: State) -> Secret:
        """What nonces are made from: the one that is set, else one that all processes share through the state."""
        said = self._secret_at(*self._find("secret"), *self._find("secret_file"))
        return said or Secret(str(state.setdefault(_SECRET_KEY, secrets.token_hex(32))))

    def endpoint(self, model: str = "", base_url: str = "", upstream: str = "") -> Endpoint:
        """Where to find a model: as asked, as configured, as its provider's own variables say, or at its own host.

        A provider's key goes to the provider's own hosts and to the URL that its own variable names, nowhere else.
        """
        name, row_of = model or self.model, self._upstream(upstream)
        provider, model = split_model(name)
        row = capabilities().provider(provider)
        url = base_url or str(row_of.get("base_url") or self.base_url)
        variable = _vendor_url(row, self._environment)
        protocol = row_of.get("protocol") or self._value("protocol") or (row.protocol if row else "openai")
        key = self._key(row_of) or self._secret_at(*self._find("api_key"), *self._find("api_key_file"))
        if not key and row and (row.owns(url) or url == variable):
            key = Secret(next((value for name in row.keys if (value := self._environment.get(name))), ""))
        return Endpoint(provider, model, url or variable or (row.url if row else ""), str(protocol), key)

    # ---- finding

    def _value(self, name: str) -> JSONValue:
        return self._find(name)[0]

    def _find(self, name: str, model: str = "", upstream: str = "") -> tuple[JSONValue, Origin]:
        """A setting and its origin: the strongest source that says anything, and there the narrowest scope."""
        for layer in self._layers:
            for table, row, fields in _scopes(layer, model, upstream):
                if name in fields and (not table or name in _SETTINGS):
                    return fields[name], layer.origin(name, table, row)
        return _DEFAULTS[name], Origin("default")

    def _upstream(self, name: str) -> JSONObject:
        if not name:
            return {}
        for layer in self._layers:
            if name in layer.tables.get("upstreams", {}):
                return layer.tables["upstreams"][name]
        known = sorted({row for layer in self._layers for row in layer.tables.get("upstreams", {})})
        raise ConfigError(f"unknown upstream `{name}`", hint=f"configured are: {', '.join(known) or 'none'}")

    def _key(self, upstream: JSONObject) -> Secret:
        if upstream.get("api_key"):
            return Secret(upstream["api_key"])
        return _secret_in(upstream["api_key_file"], "api_key_file") if upstream.get("api_key_file") else Secret()

    def _secret_at(self, text: JSONValue, said: Origin, path: JSONValue, file: Origin) -> Secret:
        """A secret given as text or by a file, whichever source is the stronger."""
        if path and (not text or _rank(file) < _rank(said)):
            return _secret_in(str(path), str(file))
        return Secret(str(text))

    def _shown(self, name: str, value: JSONValue, origin: Origin, column: str = "") -> Setting:
        column = column or name
        if column in _SECRETS:
            value = repr(Secret(value)) if value else ""
        elif column == "base_url":
            value = shown_url(str(value))
        return Setting(name, value, origin)


def _scopes(layer: _Layer, model: str, upstream: str) -> Iterator[tuple[str, str, JSONObject]]:
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
    names = set(Profile.__struct_fields__) - set(_SETTINGS)
    found = {row: {key: value for key, value in fields.items() if key in names} for row, fields in rows.items()}
    return {row: fields for row, fields in found.items() if fields}


def _rank(origin: Origin) -> int:
    return get_args(Source).index(origin.source)


def shown_url(url: str) -> str:
    """The URL less a name and a password in it."""
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}<redacted>@{host.rpartition('@')[2]}{slash}{path}" if "@" in host else url


def _vendor_url(row: Provider | None, environment: Mapping[str, str]) -> str:
    """The base URL that the provider's own variable names."""
    url = next((value for name in row.urls if (value := environment.get(name))), "") if row else ""
    if not url or "://" in url:
        return url
    # Ollama's variable is also read by its server: a host to listen on, often without scheme or port.
    host = url.replace("0.0.0.0", "127.0.0.1")
    return f"http://{host}" if ":" in host else f"http://{host}:11434"


def _secret_in(path: str, where: str) -> Secret:
    """The secret that a file holds."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret file `{path}` of {where}: {error}") from None
    if not text:
        raise ConfigError(f"the secret file `{path}` of {where} is empty", hint="an empty secret protects nothing")
    return Secret(text)


# ---- the sources


def load(
    flags: Mapping[str, JSONValue] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    project: bool = True,
) -> Config:
    """The configuration as it is now. Flags that are None were not given; without `project` no file of the
    working directory has a say.

    Raises:
        ConfigError: names the file or variable, the setting, and what it may be.
    """
    environment = os.environ if env is None else env
    notes: list[Note] = []
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    stronger = [
        _Layer("flag", "", _checked("", given, "the flags"), {}),
        _environment_layer(environment, notes),
    ]
    user = _user_layer(environment, notes)
    files = [user]
    if project:
        files.insert(0, _project_layer(cwd or Path.cwd(), _state_file((*stronger, user), environment), notes))
    return Config((*stronger, *files), tuple(notes), environment)


def _environment_layer(environment: Mapping[str, str], notes: list[Note]) -> _Layer:
    types = {**hints_of(_Own), **hints_of(Settings)}
    values: JSONObject = {}
    tables: dict[str, dict[str, JSONObject]] = {}
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix("TOOLSPEAK_").lower()
        # An empty variable is one that was not set: containers pass them on like that.
        if name == variable.lower() or not text or variable == "TOOLSPEAK_CONFIG":
            continue
        if variable == "TOOLSPEAK_OVERRIDES":
            tables = _overrides_in(text)
        elif name in types:
            values |= _checked("", {name: _from_text(text, types[name])}, f"the variable {variable}")
        elif not name.startswith("test_"):
            notes.append(Note("unknown_variable", f"{variable} is not a setting of toolspeak"))
    return _Layer("env", "the environment", values, tables)


def _from_text(text: str, kind: JSONValue) -> JSONValue:
    """A variable's text as the value that it stands for; as it is where it stands for none."""
    if kind is bool:
        lower = text.strip().lower()
        return lower in _TRUE if lower in _TRUE + _FALSE else text
    digits = text.strip()
    return int(digits) if allowed(kind) == allowed(int) and digits.isdecimal() and len(digits) < 10 else text


def _overrides_in(text: str) -> dict[str, dict[str, JSONObject]]:
    """`deepinfra=openai, ollama:qwen3:8b=none`."""
    tables: dict[str, dict[str, JSONObject]] = {"providers": {}, "models": {}}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, capability = part.rpartition("=")
        if not equals or not name.strip():
            hint = "use NAME=CAPABILITY with a provider or a provider:model, separated by commas"
            raise ConfigError(f"the variable TOOLSPEAK_OVERRIDES cannot hold `{part:.80}`", hint=hint)
        fields = _checked("models", {"capability": capability.strip()}, "the variable TOOLSPEAK_OVERRIDES")
        table = "models" if ":" in name else "providers"
        tables[table][_row_key(table, name)] = fields
    return tables


def _user_layer(environment: Mapping[str, str], notes: list[Note]) -> _Layer:
    named = environment.get("TOOLSPEAK_CONFIG")
    path = Path(named).expanduser() if named else _folder(environment, "CONFIG") / "config.toml"
    data = _read(path)
    if data is None:
        if named:
            raise ConfigError(f"there is no file `{path}`", hint="set TOOLSPEAK_CONFIG to a file, or leave it out")
        return _Layer("user", str(path), {}, {})
    layer = _file_layer("user", path, data, None)
    rows = [layer.values, *layer.tables.get("upstreams", {}).values()]
    if any(row.get(name) for row in rows for name in _SECRETS) and _others_can_read(path):
        detail = f"`{path}` holds a key and can be read by others; set its mode to 600"
        notes.append(Note("readable_key_file", detail))
    return layer


def _project_layer(folder: Path, state_file: Path, notes: list[Note]) -> _Layer:
    path = folder / PROJECT_FILE
    data = _read(path)
    if data is None:
        return _Layer("project", str(path), {}, {})
    ignored: list[str] = []
    layer = _file_layer("project", path, data, ignored)
    if not ignored:
        return layer
    try:
        if trusted(FileState(state_file), path, data):
            return _file_layer("project", path, data, None)
    except ConfigError as error:
        notes.append(Note("state_unusable", str(error)))
    detail = f"`{path}` cannot set {', '.join(ignored)} until it is trusted: see `toolspeak trust`"
    notes.append(Note("untrusted_setting", detail))
    return layer


def _file_layer(source: Source, path: Path, data: bytes, ignored: list[str] | None) -> _Layer:
    """What a file says. With a list for what is ignored, only the harmless part."""
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"`{path}` is not TOML: {error}") from None
    where = f"`{path}`"
    tables: dict[str, dict[str, JSONObject]] = {}
    for table in _TABLES:
        rows = document.pop(table, {})
        if not is_object(rows) or not all(map(is_object, rows.values())):
            raise ConfigError(f"`{table}` in {where} must be a table of tables", hint=f"begin with [{table}.NAME]")
        if rows and table == "upstreams" and ignored is not None:
            ignored.append(f"`{table}`")
            continue
        for name, row in rows.items():
            fields = _harmless(row, ignored, f"{table}.{name}.")
            tables.setdefault(table, {})[_row_key(table, name)] = _checked(table, fields, f"{where}, {table}.`{name}`")
    return _Layer(source, where, _checked("", _harmless(document, ignored, ""), where), tables)


def _harmless(fields: JSONObject, ignored: list[str] | None, prefix: str) -> JSONObject:
    if ignored is None:
        return fields
    known = {name for structs in _COLUMNS.values() for struct in structs for name in struct.__struct_fields__}
    sensitive = (known & fields.keys()) - HARMLESS
    ignored.extend(f"`{prefix}{name}`" for name in sorted(sensitive))
    return {name: value for name, value in fields.items() if name not in sensitive}


def _checked(table: str, fields: JSONObject, where: str) -> JSONObject:
    """The fields of one table as the values that they may be. Dialects are looked up when plugins are loaded."""
    values: JSONObject = {}
    columns = {name: struct for struct in reversed(_COLUMNS[table]) for name in struct.__struct_fields__}
    for name, value in fields.items():
        if name not in columns:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=f"use one of {', '.join(sorted(columns))}")
        # The value of a secret must not reach an error message.
        if name in _SECRETS and not isinstance(value, str):
            raise ConfigError(f"`{name}` in {where} must be a text")
        values |= checked(columns[name], {name: value}, where, dialects=False)
    if table == "upstreams" and not values.get("base_url"):
        raise ConfigError(f"`base_url` is missing in {where}")
    return values


def _row_key(table: str, name: str) -> str:
    match table:
        case "providers":
            return capabilities().canonical(name)
        case "models":
            return capabilities().model_key(name)
        case _:
            return name


# ---- trust


def trusted(state: State, path: Path, data: bytes) -> bool:
    """Whether somebody has trusted this file with this content."""
    return state.get(_trust_key(path)) == hashlib.sha256(data).hexdigest()


def trust(state: State, path: Path) -> str:
    """Trust a file as it is now; the hash that stands for its content."""
    data = _read(path)
    if data is None:
        raise ConfigError(f"there is no file `{path}`", hint=f"name a {PROJECT_FILE}")
    _file_layer("project", path, data, None)
    digest = hashlib.sha256(data).hexdigest()
    state.put(_trust_key(path), digest)
    return digest


def untrust(state: State, path: Path) -> None:
    """Trust a file no longer."""
    state.delete(_trust_key(path))


def _trust_key(path: Path) -> str:
    return f"trust:{path.resolve()}"


# ---- files


def _read(path: Path) -> bytes | None:
    """The file's bytes; None when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from None
    if len(data) > _LARGEST_FILE:
        raise ConfigError(f"`{path}` is too large for a configuration")
    return data


def _others_can_read(path: Path) -> bool:
    return sys.platform != "win32" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _state_file(layers: tuple[_Layer, ...], environment: Mapping[str, str]) -> Path:
    named = next((layer.values["state_file"] for layer in layers if layer.values.get("state_file")), "")
    return Path(named).expanduser() if named else _folder(environment, "STATE") / "state.json"


def _folder(environment: Mapping[str, str], kind: Literal["CONFIG", "STATE"]) -> Path:
    """The user's folder for files of that kind."""
    home = Path(environment.get("HOME") or Path.home())
    default = home / (".config" if kind == "CONFIG" else ".local/state")
    named = environment.get("APPDATA" if sys.platform == "win32" else f"XDG_{kind}_HOME", "")
    # A relative path is to be ignored, says the XDG base directory specification.
    return (Path(named) if Path(named).is_absolute() else default) / "toolspeak"
