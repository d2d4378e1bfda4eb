"""Building blocks of the configuration: secrets, origins, the fields of each table, and one layer of settings."""

import secrets
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ..core.text import suggestion, system_reason
from ..core.types import JSONObject, JSONValue
from ..engine.planning.capabilities import Profile, capabilities, check_fields
from ..engine.planning.strategy import Settings
from ..errors import ConfigError

Source: TypeAlias = Literal["flag", "env", "project", "user", "default"]
#: Protocol of an upstream; empty for the provider's protocol.
UpstreamProtocol: TypeAlias = Literal["", "openai", "openai_responses", "anthropic", "gemini", "ollama"]
#: HTTP transport: `thin` is toolspeak's own HTTP/1.1 client, `httpx2` supports HTTP/2 and proxies, and `auto` selects
#: `thin` unless the environment defines a proxy.
Transport: TypeAlias = Literal["auto", "thin", "httpx2"]
#: Key sent to the upstream: the configured one (`replace`), the client's own (`forward`), or the configured one if the
#: client has a toolspeak key (`check`).
Auth: TypeAlias = Literal["replace", "forward", "check"]
#: Which tool calls with side effects `toolspeak run` and `chat` allow: those that you approve when asked, those inside
#: the sandbox without asking, or none, because such tools are not offered.
ApprovalMode: TypeAlias = Literal["ask", "auto", "read-only"]
Record: TypeAlias = Literal["memory", "store", "off"]  # where the server records requests, if at all
Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
#: Context size of the embedded model, in tokens.
Context: TypeAlias = Annotated[int, msgspec.Meta(ge=512, le=1_048_576)]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]  # a limit; 0 means unlimited

#: Settings that an untrusted file in the working directory may change. They affect how tools are prompted and calls are
#: parsed, and cause at most a few extra requests. Deliberately excluded are settings that control where requests and
#: keys go (`base_url`, `protocol`, keys, `[upstreams]`, `[aliases]`), code to load (`load_plugins`), files to read or
#: write (`adapter`, `state_file`, `store`), programs to start (`interpreter`), what needs consent (`approval`), and
#: protection against forged calls (`marks`, `secret`).
HARMLESS = frozenset({"model", *Settings.__struct_fields__, *Profile.__struct_fields__} - {"marks", "interpreter"})

PROJECT_FILE = "toolspeak.toml"


class Secret:
    """A secret string that is printed as `<redacted>`; only `reveal` returns it."""

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
    """Origin of a setting: the kind of source, and the name of the flag, variable, or file and table."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source


class Setting(msgspec.Struct, frozen=True):
    """One effective setting, redacted if it is secret."""

    name: str
    value: JSONValue
    origin: Origin


class TransportRoute(msgspec.Struct, frozen=True):
    transport: Literal["thin", "httpx2"] = "thin"
    #: The proxy's URL, which may contain a password, and the environment variable that contains it.
    proxy: Secret = Secret()
    variable: str = ""


class Endpoint(msgspec.Struct, frozen=True):
    provider: str
    model: str
    base_url: str
    protocol: str
    api_key: Secret


class NamedUpstream(msgspec.Struct, frozen=True):
    """One `[upstreams.NAME]` table, with its provider, protocol and key resolved."""

    name: str
    provider: str
    protocol: str  # the resolved protocol, never empty
    api_key: Secret  # empty if the client's own key is forwarded
    row: "UpstreamRow"


class GeneralSettings(msgspec.Struct, frozen=True):
    """Top-level settings in addition to `Settings`."""

    model: str = ""  # the default model, as `provider:model`
    base_url: str = ""  # base URL of the default model; empty for the provider's own host
    protocol: UpstreamProtocol = ""  # protocol of the default model; empty for the provider's protocol
    #: API key for the default model, or a file that contains it.
    api_key: str = ""
    api_key_file: str = ""
    transport: Transport = "auto"
    #: A LoRA adapter (GGUF file) and the context size for the embedded model.
    adapter: str = ""
    context: Context = 4096
    #: The secret that nonces are derived from. If empty, one is generated and stored in the state file.
    secret: str = ""
    secret_file: str = ""
    load_plugins: str = "all"  # installed plugins to load: `all`, `none`, or distribution names separated by commas
    #: The file for small persistent state. If empty, a file in the user's state folder is used.
    state_file: str = ""
    #: The database for sessions and for state shared between proxies: `sqlite:///path` or `postgresql://...`. If empty,
    #: sessions are stored in a file in the user's data folder, and nothing is shared.
    store: str = ""
    #: Where a server records requests: the latest ones in memory, also all recent ones in the store, or not at all.
    record: Record = "memory"
    approval: ApprovalMode = "ask"  # how `toolspeak run` and `chat` treat calls with side effects


class UpstreamRow(msgspec.Struct, frozen=True):
    """Fields of `[upstreams.NAME]`, in addition to settings and profile fields."""

    base_url: str = ""
    protocol: UpstreamProtocol = ""
    #: The provider whose model profiles apply. If empty, it is derived from the upstream's name or host.
    provider: str = ""
    #: The API key, or the file or environment variable that contains it.
    api_key: str = ""
    api_key_file: str = ""
    api_key_env: str = ""
    auth: Auth = "replace"
    transport: Literal["", "auto", "thin", "httpx2"] = ""  # HTTP transport; empty for the general setting
    #: The models that this upstream serves, with `*` as a wildcard. If empty, every model that no other one serves.
    models: tuple[str, ...] = ()
    #: Upstreams to try if this one fails before the first byte: `NAME`, or `NAME:model` for another model.
    fallbacks: tuple[str, ...] = ()
    #: Timeouts in seconds; see `upstreams.http.connection.Timeouts`.
    connect_timeout: Seconds = 10
    first_byte_timeout: Seconds = 600
    idle_timeout: Seconds = 60
    total_timeout: Seconds = 3600
    #: Maximum number of concurrent requests and of requests per minute, for each process.
    max_concurrent: Limit = 0
    max_per_minute: Limit = 0


class ServerToolsRow(msgspec.Struct, frozen=True):
    """Fields of `[server_tools.NAME]`: tools that the proxy itself runs, for clients with certain keys."""

    keys: tuple[str, ...] = ()  # names of the keys whose requests may use these tools
    #: Tools to offer: `files` (read, list, search), `files.write`, `shell`, `mcp:SERVER` or `plugin:NAME`.
    tools: tuple[str, ...] = ()
    #: The working directory for file tools and the shell, which cannot access your other files.
    workdir: str = ""
    mcp_config: str = ""  # a file that lists MCP servers in the form `{"mcpServers": {...}}`
    max_rounds: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    #: Limits for one answer.
    max_tokens: Limit = 0
    max_seconds: Limit = 600
    tool_timeout: Seconds = 60  # timeout of one tool call
    page: bool = False  # whether users of the web page who signed in with the printed link may use the tools


class AliasRow(msgspec.Struct, frozen=True):
    """One entry of `[aliases]`: the model or `upstream:model` that the alias stands for."""

    model: str = ""


SECRETS = ("api_key", "secret")
DEFAULTS: JSONObject = msgspec.structs.asdict(GeneralSettings()) | msgspec.structs.asdict(Settings())
SETTINGS = Settings.__struct_fields__
#: For each kind of table, the structs that declare its fields.
COLUMNS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "": (GeneralSettings, Settings),
    "providers": (Settings, Profile),
    "models": (Settings, Profile),
    "upstreams": (UpstreamRow, Settings, Profile),
    "aliases": (AliasRow,),
    "server_tools": (ServerToolsRow,),
}

#: For each kind of table, the fields of which every row must set at least one.
REQUIRED_FIELDS = {"upstreams": ("base_url",), "aliases": ("model",), "server_tools": ("keys", "page")}


class Layer(NamedTuple):
    source: Source
    where: str
    values: JSONObject
    tables: dict[str, dict[str, JSONObject]]

    def origin(self, name: str, table: str = "", row: str = "") -> Origin:
        if self.source == "flag":
            return Origin("flag", "--" + name.replace("_", "-"))
        if self.source == "env":
            return Origin("env", "TOOLSPEAK_OVERRIDES" if table else f"TOOLSPEAK_{name.upper()}")
        return Origin(self.source, f"{self.where}, [{table}.{row}]" if table else self.where)


def redacted_url(url: str) -> str:
    """Return the URL with user name and password redacted."""
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}<redacted>@{host.rpartition('@')[2]}{slash}{path}" if "@" in host else url


def read_secret_file(path: str, where: str) -> Secret:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret file `{path}` of {where}: {system_reason(error)}") from None
    if not text:
        raise ConfigError(f"the secret file `{path}` of {where} is empty", hint="write the secret to this file")
    return Secret(text)


def checked_row(table: str, fields: JSONObject, where: str) -> JSONObject:
    """Validate the fields of one table row. Dialect names are checked later, when plugins are loaded."""
    values: JSONObject = {}
    columns = {name: struct for struct in reversed(COLUMNS[table]) for name in struct.__struct_fields__}
    for name, value in fields.items():
        if name not in columns:
            raise ConfigError(f"unknown setting `{name}` in {where}", hint=suggestion(name, columns))
        # The general check would quote the value, but a secret must not appear in an error message.
        if name in SECRETS and not isinstance(value, str):
            raise ConfigError(f"`{name}` in {where} must be a string")
        values |= check_fields(columns[name], {name: value}, where, dialects=False)
    needed = REQUIRED_FIELDS.get(table, ())
    if needed and not any(values.get(name) for name in needed):
        missing = " or ".join(f"`{name}`" for name in needed)
        hint = f"set it first: toolspeak config set {table}.NAME.{needed[0]} VALUE"
        raise ConfigError(f"{missing} is missing in {where}", hint=hint)
    return values


def row_key(table: str, name: str) -> str:
    """Return the canonical name of a table row, which lookups use."""
    match table:
        case "providers":
            return capabilities().canonical(name)
        case "models":
            return capabilities().model_key(name)
        case "upstreams" if ":" in name:
            hint = "remove the colon, which separates upstream and model"
            raise ConfigError(f"invalid upstream name `{name:.80}`", hint=hint)
        case _:
            return name
