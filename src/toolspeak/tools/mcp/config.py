"""Which MCP servers there are: `{"mcpServers": {NAME: {command, args, env} or {url, headers}}}`.

The shape is the one that other programs use, so that a file can be shared. A file is read only where somebody names
it: nothing is looked for in the working directory.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ...core.types import JSONObject, JSONValue, is_object
from ...errors import ConfigError

#: A file larger than this is none.
_LARGEST = 1024 * 1024
_MOST_SERVERS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
#: `${NAME}` and `${NAME:-what if there is none}`.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,100})(?::-([^}]{0,1000}))?\}")
#: What a URL with `type` may call itself; the older way with two addresses is not spoken.
_HTTP = frozenset({"", "http", "streamable-http", "streamableHttp", "streamable_http"})


class OAuth(msgspec.Struct, frozen=True, rename="camel"):
    """How to log in to a server that wants it. All of it may be left out: most servers tell."""

    #: Who logs in: a person with a browser, or this program by itself.
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    #: A client that was registered by hand, with its secret if it has one, and who knows it.
    client_id: str = ""
    client_secret: str = ""
    client_auth: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    issuer: str = ""
    #: A document on the web that describes the client, in place of a registration.
    client_metadata_url: str = ""
    #: The key that a program signs with in place of a secret, and how.
    private_key_file: str = ""
    signing_algorithm: Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"] = (
        "RS256"
    )
    #: The port of this machine that a browser comes back to; 0 for any.
    callback_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class McpServer(msgspec.Struct, frozen=True, rename="camel"):
    """One server, and how it is reached."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    #: For the server; nothing else of our environment but harmless parts reaches it.
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    #: Hosts and networks of an inner network that its name may lead to.
    allow: tuple[str, ...] = ()
    #: Tools that change nothing, by the name that the server gives them. Its own word for it does not count.
    read_only: tuple[str, ...] = ()
    #: Seconds that a call may take, and that a start may take.
    timeout: float = 120.0
    start_timeout: float = 30.0
    #: The file that names it; empty: none does.
    file: str = ""
    oauth: OAuth = OAuth()

    @property
    def prefix(self) -> str:
        """What the names of its tools begin with."""
        return f"{_NOT_IN_NAMES.sub('_', self.name)}__"

    @property
    def identity(self) -> str:
        """The same for the same server; secrets are not in it."""
        what = msgspec.json.encode([self.command, self.args, self.cwd, self.url])
        return hashlib.sha256(what).hexdigest()[:16]


def command_for(what: str, server: McpServer) -> str:
    """What a person types to do something about a server."""
    file = shlex.quote(server.file) if server.file else "FILE"
    return f"toolspeak mcp {what} {shlex.quote(server.name)} --mcp-config {file}"


class _Entry(McpServer, frozen=True):
    """A server as a file tells it; what other programs write besides is passed over."""

    type: str = ""
    disabled: bool = False


def read_mcp_config(path: str | Path, variables: Mapping[str, str]) -> tuple[McpServer, ...]:
    """Read a file. `variables` are what `${NAME}` in it stands for.

    Raises:
        ConfigError: it cannot be read, or says something that makes no sense.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the MCP configuration `{path}`: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise ConfigError(f"the MCP configuration `{path}` has more than {_LARGEST} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"the MCP configuration `{path}` is no JSON: {error}") from None
    return servers_in(document, variables, str(path))


def servers_in(document: JSONValue, variables: Mapping[str, str], file: str = "") -> tuple[McpServer, ...]:
    """The servers of a configuration, which is read from `file`.

    Raises:
        ConfigError: it says something that makes no sense.
    """
    rows = document.get("mcpServers") if is_object(document) else None
    if not is_object(rows):
        hint = 'write {"mcpServers": {"name": {"command": "..."}}}'
        raise ConfigError("the MCP configuration holds no `mcpServers`", hint=hint)
    if len(rows) > _MOST_SERVERS:
        raise ConfigError(f"the MCP configuration names more than {_MOST_SERVERS} servers")
    found = [server for name, row in rows.items() if (server := _server(name, row, variables, file)) is not None]
    prefixes: dict[str, str] = {}
    for server in found:
        other = prefixes.setdefault(server.prefix.lower(), server.name)
        if other != server.name:
            message = f"the MCP servers `{other}` and `{server.name}` would give their tools the same names"
            raise ConfigError(message, hint="rename one of them")
    return tuple(found)


def _server(name: str, row: JSONValue, variables: Mapping[str, str], file: str) -> McpServer | None:
    where = f"the MCP server `{name[:80]}`"
    if not name.strip() or len(name) > 64:
        raise ConfigError(f"{where} needs a name of 1 to 64 characters")
    if not is_object(row):
        raise ConfigError(f"{where} must be an object", hint='such as {"command": "..."}')
    try:
        read = msgspec.convert({**row, "name": name, "file": file}, _Entry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
    if read.disabled:
        return None
    _check(read, where)
    fields: JSONObject = {field: getattr(read, field) for field in McpServer.__struct_fields__}
    for field in ("url", "command", "cwd"):
        fields[field] = _expanded(fields[field], variables, where)
    fields["args"] = tuple(_expanded(each, variables, where) for each in read.args)
    fields["oauth"] = msgspec.structs.replace(
        read.oauth,
        client_id=_expanded(read.oauth.client_id, variables, where),
        client_secret=_expanded(read.oauth.client_secret, variables, where),
        private_key_file=_expanded(read.oauth.private_key_file, variables, where),
    )
    for field in ("env", "headers"):
        fields[field] = {key: _expanded(value, variables, where) for key, value in fields[field].items()}
    return McpServer(**fields)


def _check(read: _Entry, where: str) -> None:
    if bool(read.command) == bool(read.url):
        raise ConfigError(f"{where} needs either `command` or `url`")
    if read.url and read.type not in _HTTP:
        raise ConfigError(f"{where} speaks `{read.type}`", hint="only stdio and streamable HTTP are spoken")
    if not (read.timeout > 0 and read.start_timeout > 0):
        raise ConfigError(f"{where}: `timeout` and `startTimeout` must be above 0 seconds")
    if read.oauth.grant == "client_credentials":
        _check_program(read.oauth, where)


def _check_program(given: OAuth, where: str) -> None:
    """A secret goes to who gave it and to nobody else, so who that is must be said."""
    missing = [name for name, value in (("clientId", given.client_id), ("issuer", given.issuer)) if not value]
    if missing:
        raise ConfigError(f"{where}: `oauth` with client credentials needs `{missing[0]}`")
    if bool(given.client_secret) == bool(given.private_key_file):
        raise ConfigError(f"{where}: `oauth` with client credentials needs `clientSecret` or `privateKeyFile`")


def _expanded(text: str, variables: Mapping[str, str], where: str) -> str:
    """The text with variables put in; only those that it names."""

    def value(found: re.Match[str]) -> str:
        name, otherwise = found.groups()
        if name in variables:
            return variables[name]
        if otherwise is None:
            raise ConfigError(f"{where} wants the variable `{name}`, which is not set")
        return otherwise

    return _VARIABLE.sub(value, text)
