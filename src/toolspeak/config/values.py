"""What the configuration is made of: secrets, origins, the columns of its tables, and one source's say."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ..core.types import JSONObject, JSONValue
from ..engine.planning.capabilities import Profile, capabilities, checked
from ..engine.planning.strategy import Settings
from ..errors import ConfigError

Source: TypeAlias = Literal["flag", "env", "project", "user", "default"]
#: The protocols that an upstream may speak; empty: its provider's.
Spoken: TypeAlias = Literal["", "openai", "openai_responses", "anthropic", "gemini", "ollama"]
#: How a service is reached: `thin`, our own HTTP/1.1; `httpx2`, which speaks HTTP/2 and knows proxies; `auto`, the
#: first unless the environment names a proxy.
Transport: TypeAlias = Literal["auto", "thin", "httpx2"]
#: Which key goes upstream: the client's own, the configured one, or the configured one for holders of a toolspeak key.
Auth: TypeAlias = Literal["replace", "forward", "check"]
#: Where a server keeps what was asked.
Record: TypeAlias = Literal["memory", "store", "off"]
Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
#: Tokens of an embedded model's context.
Context: TypeAlias = Annotated[int, msgspec.Meta(ge=512, le=1_048_576)]
#: A limit; 0 for none.
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

#: What a file in the working directory may set without being trusted. These change how calls are asked for and
#: read, at most at the cost of a bounded number of requests. Left out on purpose: where requests and keys go
#: (`base_url`, `protocol`, keys, `[upstreams]`, `[aliases]`), code that is loaded (`load_plugins`), files that are
#: read or written (`adapter`, `state_file`, `store`), and what protects against forged calls (`marks`, `secret`).
HARMLESS = frozenset({"model", *Settings.__struct_fields__, *Profile.__struct_fields__} - {"marks"})

PROJECT_FILE = "toolspeak.toml"


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


class Route(msgspec.Struct, frozen=True):
    """The way to a service."""

    transport: Literal["thin", "httpx2"] = "thin"
    #: The URL of a proxy, which may hold a password, and the variable that names it.
    proxy: Secret = Secret()
    variable: str = ""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a model is reached, and how."""

    provider: str
    model: str
    base_url: str
    protocol: str
    api_key: Secret


class NamedUpstream(msgspec.Struct, frozen=True):
    """One `[upstreams.NAME]`, ready to be reached."""

    name: str
    provider: str
    #: The protocol that is spoken there, never empty.
    protocol: str
    #: Nobody's, where the client's own is sent.
    api_key: Secret
    row: UpstreamRow


class Own(msgspec.Struct, frozen=True):
    """The settings besides `Settings`."""

    #: The model to use, as `provider:model`.
    model: str = ""
    #: Where it is; empty: at its provider's own host.
    base_url: str = ""
    #: The protocol spoken there; empty: its provider's.
    protocol: Spoken = ""
    #: The key for it, or a file that holds the key.
    api_key: str = ""
    api_key_file: str = ""
    #: How services are reached.
    transport: Transport = "auto"
    #: A LoRA adapter for the embedded model, as a GGUF file, and the tokens that one of its answers may see.
    adapter: str = ""
    context: Context = 4096
    #: What nonces are made from; empty: one is made and kept in the state file.
    secret: str = ""
    secret_file: str = ""
    #: Which installed plugins to load: `all`, `none`, or names of distributions separated by commas.
    load_plugins: str = "all"
    #: Where the little that must be remembered is kept; empty: in the user's state folder.
    state_file: str = ""
    #: The database of sessions, and of what proxies share: `sqlite:///path` or `postgresql://...`; empty: sessions are
    #: in a file of the user's data folder, and nothing is shared.
    store: str = ""
    #: What a server keeps of requests: the last ones in its memory, all for a while in the store too, or nothing.
    record: Record = "memory"


class UpstreamRow(msgspec.Struct, frozen=True):
    """The columns of `[upstreams.NAME]` besides settings and fields of profiles."""

    base_url: str = ""
    protocol: Spoken = ""
    #: Who it is, where that matters for what is known of its models; empty: told by its name or its host.
    provider: str = ""
    #: The key for it: as text, in a file, or in a variable of the environment.
    api_key: str = ""
    api_key_file: str = ""
    api_key_env: str = ""
    auth: Auth = "replace"
    #: How it is reached; empty: as all others.
    transport: Literal["", "auto", "thin", "httpx2"] = ""
    #: The models that it serves, `*` for any text; empty: any model that nobody else serves.
    models: tuple[str, ...] = ()
    #: Who is asked when it fails before the first byte: `NAME`, or `NAME:model` for another model there.
    fallbacks: tuple[str, ...] = ()
    #: How long to wait: see `upstreams.connection.Timeouts`.
    connect_timeout: Seconds = 10
    first_byte_timeout: Seconds = 600
    idle_timeout: Seconds = 60
    total_timeout: Seconds = 3600
    #: Requests under way at a time, and requests a minute, by this process.
    max_concurrent: Limit = 0
    max_per_minute: Limit = 0


class ServerToolsRow(msgspec.Struct, frozen=True):
    """The columns of `[server_tools.NAME]`: what the proxy itself runs for the holders of some keys."""

    #: The names of the keys; nobody else's requests are answered with these tools.
    keys: tuple[str, ...] = ()
    #: `files` (read, list, search), `files.write`, `shell`, `mcp:SERVER`.
    tools: tuple[str, ...] = ()
    #: Where files are; the shell sees nothing else of yours.
    workdir: str = ""
    #: A file that names MCP servers, in the shape `{"mcpServers": {...}}`.
    mcp_config: str = ""
    max_rounds: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    #: Tokens and seconds that one answer may take; 0 for no limit.
    max_tokens: Limit = 0
    max_seconds: Limit = 600
    #: Seconds that one call of a tool may take.
    tool_timeout: Seconds = 60
    #: Whether the page may use them too, for who has come by the printed link.
    page: bool = False


class AliasRow(msgspec.Struct, frozen=True):
    """`[aliases]` holds texts; each is kept as a row with this column."""

    model: str = ""


SECRETS = ("api_key", "secret")
DEFAULTS: JSONObject = {
    **{name: getattr(Own(), name) for name in Own.__struct_fields__},
    **{name: getattr(Settings(), name) for name in Settings.__struct_fields__},
}
SETTINGS = Settings.__struct_fields__
#: What a table may hold: kind of table -> the structs that declare its fields.
COLUMNS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "": (Own, Settings),
    "providers": (Settings, Profile),
    "models": (Settings, Profile),
    "upstreams": (UpstreamRow, Settings, Profile),
    "aliases": (AliasRow,),
    "server_tools": (ServerToolsRow,),
}


#: Of what every row of a table must hold one.
NEEDED = {"upstreams": ("base_url",), "aliases": ("model",), "server_tools": ("keys", "page")}


class Layer(NamedTuple):
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


def shown_url(url: str) -> str:
    """The URL less a name and a password in it."""
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}<redacted>@{host.rpartition('@')[2]}{slash}{path}" if "@" in host else url


def secret_in(path: str, where: str) -> Secret:
    """The secret that a file holds."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret file `{path}` of {where}: {error}") from None
    if not text:
        raise ConfigError(f"the secret file `{path}` of {where} is empty", hint="an empty secret protects nothing")
    return Secret(text)


def checked_row(table: str, fields: JSONObject, where: str) -> JSONObject:
    """The fields of one table as the values that they may be. Dialects are looked up when plugins are loaded."""
    values: JSONObject = {}
    columns = {name: struct for struct in reversed(COLUMNS[table]) for name in struct.__struct_fields__}
    for name, value in fields.items():
        if name not in columns:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=f"use one of {', '.join(sorted(columns))}")
        # The value of a secret must not reach an error message.
        if name in SECRETS and not isinstance(value, str):
            raise ConfigError(f"`{name}` in {where} must be a text")
        values |= checked(columns[name], {name: value}, where, dialects=False)
    needed = NEEDED.get(table, ())
    if needed and not any(values.get(name) for name in needed):
        raise ConfigError(f"{' or '.join(f'`{name}`' for name in needed)} is missing in {where}")
    return values


def row_key(table: str, name: str) -> str:
    """The name of a row in the spelling that it is looked up by."""
    match table:
        case "providers":
            return capabilities().canonical(name)
        case "models":
            return capabilities().model_key(name)
        case "upstreams" if ":" in name:
            raise ConfigError(f"an upstream cannot be called `{name:.80}`", hint="a colon parts upstream and model")
        case _:
            return name
