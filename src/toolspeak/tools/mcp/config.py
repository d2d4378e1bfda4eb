"""MCP server configuration: `{"mcpServers": {NAME: {command, args, env} or {url, headers}}}`.

Other MCP clients use the same format, so a file can be shared with them. Only files that the user names are read; the
working directory is not searched.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from ...core.text import system_reason
from ...core.types import JSONObject, JSONValue, is_object
from ...errors import ConfigError

_MAX_FILE_BYTES = 1024 * 1024
_MAX_SERVERS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
#: Matches references to variables: `${NAME}` and `${NAME:-default}`.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,100})(?::-([^}]{0,1000}))?\}")
#: Values of `type` for streamable HTTP; the older SSE transport is not supported.
_HTTP_TYPES = frozenset({"", "http", "streamable-http", "streamableHttp", "streamable_http"})


_Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]


class OAuth(msgspec.Struct, frozen=True, rename="camel"):
    """Settings for logging in to a server. All are optional, because most servers publish them."""

    #: Whether the user logs in with a browser, or this program logs in by itself.
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    #: A manually registered client: its id, its secret if any, and the authorization server that issued them.
    client_id: str = ""
    client_secret: str = ""
    client_auth: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    issuer: str = ""
    client_metadata_url: str = ""  # URL of a client metadata document, used instead of a registration
    #: File with the private key that signs client assertions (instead of a secret), and the signing algorithm.
    private_key_file: str = ""
    signing_algorithm: _Algorithm = "RS256"
    #: The local port for the browser's redirect; 0 means any free port.
    callback_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class McpServer(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    #: Environment variables of the server, in addition to a few harmless ones that are passed on.
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()  # private hosts and networks that the URL may resolve to
    read_only: tuple[str, ...] = ()  # the server's names for its tools without side effects
    trusted: bool = False  # whether the server's own hints (`readOnlyHint`) count as well
    #: Timeouts in seconds, for one call and for starting the server.
    timeout: float = 120.0
    start_timeout: float = 30.0
    file: str = ""  # the configuration file that defines the server, if any
    oauth: OAuth = OAuth()

    @property
    def prefix(self) -> str:
        return f"{_NOT_IN_NAMES.sub('_', self.name)}__"

    @property
    def key(self) -> str:
        """The server's key in the stored state."""
        return f"{self.name}:{self.identity}"

    @property
    def identity(self) -> str:
        """A stable identifier of the server, without secrets."""
        return hashlib.sha256(msgspec.json.encode([self.command, self.args, self.cwd, self.url])).hexdigest()[:16]


def command_for(what: str, server: McpServer) -> str:
    """Return a `toolspeak mcp` command line for a server, to show to the user."""
    file = shlex.quote(server.file) if server.file else "FILE"
    return f"toolspeak mcp {what} {shlex.quote(server.name)} --mcp-config {file}"


class _ConfigRow(McpServer, frozen=True):
    """A server entry in a file. Unknown fields, which other programs may use, are ignored."""

    type: str = ""
    disabled: bool = False


def read_mcp_config(path: str | Path, variables: Mapping[str, str]) -> tuple[McpServer, ...]:
    """Read a configuration file. `variables` replace `${NAME}`. Raises ConfigError if it is unreadable or invalid."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the MCP configuration `{path}`: {system_reason(error)}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"the MCP configuration `{path}` is larger than {_MAX_FILE_BYTES} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"the MCP configuration `{path}` is not valid JSON: {error}") from None
    return servers_in(document, variables, str(path))


def servers_in(document: JSONValue, variables: Mapping[str, str], file: str = "") -> tuple[McpServer, ...]:
    """Return the servers in a configuration that was read from `file`. Raises ConfigError if it is invalid."""
    rows = document.get("mcpServers") if is_object(document) else None
    if not is_object(rows):
        hint = 'write {"mcpServers": {"name": {"command": "..."}}}'
        raise ConfigError("the MCP configuration has no `mcpServers`", hint=hint)
    if len(rows) > _MAX_SERVERS:
        raise ConfigError(f"the MCP configuration has more than {_MAX_SERVERS} servers")
    servers = [server for name, row in rows.items() if (server := _server(name, row, variables, file)) is not None]
    prefixes: dict[str, str] = {}
    for server in servers:
        other = prefixes.setdefault(server.prefix.lower(), server.name)
        if other != server.name:
            message = f"the MCP servers `{other}` and `{server.name}` would give their tools the same names"
            raise ConfigError(message, hint="rename one of them")
    return tuple(servers)


def _server(name: str, row: JSONValue, variables: Mapping[str, str], file: str) -> McpServer | None:
    where = f"the MCP server `{name[:80]}`"
    if not name.strip() or len(name) > 64:
        raise ConfigError(f"{where} needs a name of 1 to 64 characters")
    if not is_object(row):
        raise ConfigError(f"{where} must be an object", hint='such as {"command": "..."}')
    try:
        entry = msgspec.convert({**row, "name": name, "file": file}, _ConfigRow)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
    if entry.disabled:
        return None
    _check(entry, where)
    fields: JSONObject = {field: getattr(entry, field) for field in McpServer.__struct_fields__}
    for field in ("url", "command", "cwd"):
        fields[field] = _expand(fields[field], variables, where)
    fields["args"] = tuple(_expand(each, variables, where) for each in entry.args)
    credentials = {name: getattr(entry.oauth, name) for name in ("client_id", "client_secret", "private_key_file")}
    credentials = {name: _expand(text, variables, where) for name, text in credentials.items()}
    fields["oauth"] = msgspec.structs.replace(entry.oauth, **credentials)
    for field in ("env", "headers"):
        fields[field] = {key: _expand(value, variables, where) for key, value in fields[field].items()}
    return McpServer(**fields)


def _check(entry: _ConfigRow, where: str) -> None:
    if bool(entry.command) == bool(entry.url):
        raise ConfigError(f"{where} needs either `command` or `url`")
    if entry.url and entry.type not in _HTTP_TYPES:
        raise ConfigError(f"{where}: unsupported type `{entry.type}`", hint="use stdio or streamable HTTP")
    if not (entry.timeout > 0 and entry.start_timeout > 0):
        raise ConfigError(f"{where}: `timeout` and `startTimeout` must be greater than 0 seconds")
    if entry.oauth.grant == "client_credentials":
        _check_client_credentials(entry.oauth, where)


def _check_client_credentials(oauth: OAuth, where: str) -> None:
    """Check that the settings for client credentials are complete.

    An issuer is required, because a secret is sent only to the authorization server that issued it.
    """
    missing = [name for name, value in (("clientId", oauth.client_id), ("issuer", oauth.issuer)) if not value]
    if missing:
        raise ConfigError(f"{where}: `oauth` with client credentials needs `{missing[0]}`")
    if bool(oauth.client_secret) == bool(oauth.private_key_file):
        raise ConfigError(f"{where}: `oauth` with client credentials needs `clientSecret` or `privateKeyFile`")


def _expand(text: str, variables: Mapping[str, str], where: str) -> str:

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        if name in variables:
            return variables[name]
        if otherwise is None:
            raise ConfigError(f"{where} needs the environment variable `{name}`, which is not set")
        return otherwise

    return _VARIABLE.sub(value, text)
