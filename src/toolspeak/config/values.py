"""Building blocks of the configuration: secrets, origins, the fields of each table, and one layer of settings."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ..core.types import JSONObject, JSONValue
from ..engine.planning.capabilities import Profile, capabilities, check_fields
from ..engine.planning.strategy import Settings
from ..errors import ConfigError

Source: TypeAlias = Literal["flag", "env", "project", "user", "default"]
#: Protocol of an upstream; empty: the provider's.
UpstreamProtocol: TypeAlias = Literal["", "openai", "openai_responses", "anthropic", "gemini", "ollama"]
#: HTTP transport. `thin`: toolspeak's own HTTP/1.1; `httpx2`: HTTP/2 and proxies; `auto`: `thin` unless the environment
#: names a proxy.
Transport: TypeAlias = Literal["auto", "thin", "httpx2"]
#: Key sent upstream: the configured one (`replace`), the client's own (`forward`), or the configured one if the client
#: has a toolspeak key (`check`).
Auth: TypeAlias = Literal["replace", "forward", "check"]
#: Where the server records requests.
Record: TypeAlias = Literal["memory", "store", "off"]
Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
#: Context size of the embedded model, in tokens.
Context: TypeAlias = Annotated[int, msgspec.Meta(ge=512, le=1_048_576)]
#: 0 means no limit.
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

#: Settings that an untrusted file in the working directory may change. They affect how calls are prompted and parsed,
#: at the cost of a bounded number of requests. Deliberately excluded: where requests and keys go (`base_url`,
#: `protocol`, keys, `[upstreams]`, `[aliases]`), code to load (`load_plugins`), files to read or write (`adapter`,
#: `state_file`, `store`), and protection against forged calls (`marks`, `secret`).
HARMLESS = frozenset({"model", *Settings.__struct_fields__, *Profile.__struct_fields__} - {"marks"})

PROJECT_FILE = "toolspeak.toml"


class Secret:
    """A text that is redacted everywhere except in `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "<redacted>" if self._text else "<none>"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be copied or serialised")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(self._text.encode(), other._text.encode())

    __hash__ = None  # type: ignore[assignment]


class Origin(msgspec.Struct, frozen=True):
    """Origin of a setting: the kind of source, and the flag, variable, or file and table."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source


class Setting(msgspec.Struct, frozen=True):
    """One effective setting; secrets are redacted."""

    name: str
    value: JSONValue
    origin: Origin


class Route(msgspec.Struct, frozen=True):
    """Transport and proxy for a service."""

    transport: Literal["thin", "httpx2"] = "thin"
    #: The proxy's URL, which may contain a password, and the variable it came from.
    proxy: Secret = Secret()
    variable: str = ""


class Endpoint(msgspec.Struct, frozen=True):
    """Address, protocol and key of a model."""

    provider: str
    model: str
    base_url: str
    protocol: str
    api_key: Secret


class NamedUpstream(msgspec.Struct, frozen=True):
    """One `[upstreams.NAME]` table with its provider, protocol and key resolved."""

    name: str
    provider: str
    #: Never empty.
    protocol: str
    #: Empty if the client's own key is forwarded.
    api_key: Secret
    row: UpstreamRow


class GeneralSettings(msgspec.Struct, frozen=True):
    """General settings, in addition to `Settings`."""

    #: The default model, as `provider:model`.
    model: str = ""
    #: Its address; empty: the provider's own host.
    base_url: str = ""
    #: Its protocol; empty: the provider's.
    protocol: UpstreamProtocol = ""
    #: Its key, or a file that contains the key.
    api_key: str = ""
    api_key_file: str = ""
    transport: Transport = "auto"
    #: A LoRA adapter (GGUF file) and the context size for the embedded model.
    adapter: str = ""
    context: Context = 4096
    #: The secret that nonces are derived from; empty: one is generated and stored in the state file.
    secret: str = ""
    secret_file: str = ""
    #: Installed plugins to load: `all`, `none`, or distribution names separated by commas.
    load_plugins: str = "all"
    #: The file for small persistent state; empty: in the user's state folder.
    state_file: str = ""
    #: The database for sessions and for state shared between proxies: `sqlite:///path` or `postgresql://...`. Empty:
    #: sessions are in a file in the user's data folder, and nothing is shared.
    store: str = ""
    #: What a server records of requests: the latest in memory, also all of them for a while in the store, or nothing.
    record: Record = "memory"


class UpstreamRow(msgspec.Struct, frozen=True):
    """Fields of `[upstreams.NAME]`, in addition to settings and profile fields."""

    base_url: str = ""
    protocol: UpstreamProtocol = ""
    #: The provider whose model profiles apply; empty: derived from the upstream's name or host.
    provider: str = ""
    #: The key: as text, in a file, or in an environment variable.
    api_key: str = ""
    api_key_file: str = ""
    api_key_env: str = ""
    auth: Auth = "replace"
    #: Empty: the general setting.
    transport: Literal["", "auto", "thin", "httpx2"] = ""
    #: The models it serves, with `*` as a wildcard; empty: every model that no other upstream serves.
    models: tuple[str, ...] = ()
    #: Upstreams to try if this one fails before the first byte: `NAME`, or `NAME:model` for another model.
    fallbacks: tuple[str, ...] = ()
    #: In seconds; see `upstreams.http.connection.Timeouts`.
    connect_timeout: Seconds = 10
    first_byte_timeout: Seconds = 600
    idle_timeout: Seconds = 60
    total_timeout: Seconds = 3600
    #: Concurrent requests and requests per minute, for each process.
    max_concurrent: Limit = 0
    max_per_minute: Limit = 0


class ServerToolsRow(msgspec.Struct, frozen=True):
    """Fields of `[server_tools.NAME]`: tools that the proxy runs itself for certain keys."""

    #: Names of the keys whose requests may use these tools.
    keys: tuple[str, ...] = ()
    #: `files` (read, list, search), `files.write`, `shell`, `mcp:SERVER`.
    tools: tuple[str, ...] = ()
    #: The working directory for files and shell; the shell sees no other files of yours.
    workdir: str = ""
    #: A file that lists MCP servers in the form `{"mcpServers": {...}}`.
    mcp_config: str = ""
    max_rounds: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    #: Per answer.
    max_tokens: Limit = 0
    max_seconds: Limit = 600
    #: Per call.
    tool_timeout: Seconds = 60
    #: Whether the page may use the tools, for users who signed in with the printed link.
    page: bool = False


class AliasRow(msgspec.Struct, frozen=True):
    """Each text in `[aliases]` becomes a row with this field."""

    model: str = ""


SECRETS = ("api_key", "secret")
DEFAULTS: JSONObject = {
    **{name: getattr(GeneralSettings(), name) for name in GeneralSettings.__struct_fields__},
    **{name: getattr(Settings(), name) for name in Settings.__struct_fields__},
}
SETTINGS = Settings.__struct_fields__
#: Kind of table -> the structs that declare its fields.
COLUMNS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "": (GeneralSettings, Settings),
    "providers": (Settings, Profile),
    "models": (Settings, Profile),
    "upstreams": (UpstreamRow, Settings, Profile),
    "aliases": (AliasRow,),
    "server_tools": (ServerToolsRow,),
}

#: Kind of table -> fields of which each row needs at least one.
REQUIRED_FIELDS = {"upstreams": ("base_url",), "aliases": ("model",), "server_tools": ("keys", "page")}


class Layer(NamedTuple):
    """The settings from one source."""

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


def redacted_url(url: str) -> str:
    """The URL without user name and password."""
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}<redacted>@{host.rpartition('@')[2]}{slash}{path}" if "@" in host else url


def read_secret_file(path: str, where: str) -> Secret:
    """Read a secret from a file."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret file `{path}` of {where}: {error}") from None
    if not text:
        raise ConfigError(f"the secret file `{path}` of {where} is empty", hint="write the secret into it")
    return Secret(text)


def checked_row(table: str, fields: JSONObject, where: str) -> JSONObject:
    """Validate the fields of one table row. Dialect names are checked later, when plugins are loaded."""
    values: JSONObject = {}
    columns = {name: struct for struct in reversed(COLUMNS[table]) for name in struct.__struct_fields__}
    for name, value in fields.items():
        if name not in columns:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=f"use one of {', '.join(sorted(columns))}")
        # A secret must not appear in an error message.
        if name in SECRETS and not isinstance(value, str):
            raise ConfigError(f"`{name}` in {where} must be a string")
        values |= check_fields(columns[name], {name: value}, where, dialects=False)
    needed = REQUIRED_FIELDS.get(table, ())
    if needed and not any(values.get(name) for name in needed):
        raise ConfigError(f"{' or '.join(f'`{name}`' for name in needed)} is missing in {where}")
    return values


def row_key(table: str, name: str) -> str:
    """Canonical name of a table row, as used for lookups."""
    match table:
        case "providers":
            return capabilities().canonical(name)
        case "models":
            return capabilities().model_key(name)
        case "upstreams" if ":" in name:
            raise ConfigError(
                f"invalid upstream name `{name:.80}`", hint="remove the colon: it separates upstream and model"
            )
        case _:
            return name
