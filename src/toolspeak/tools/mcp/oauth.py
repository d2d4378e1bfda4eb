"""Logging in to MCP servers over HTTP: OAuth by the official SDK, with what a login gave kept in a file of its owner's.

A login is begun by a person, with `toolspeak mcp login`, and never by a server: without one, a server that demands it
is an error, and nobody is registered anywhere. What a login gave is used and renewed from then on, also by other
processes. A program that has credentials of its own needs no person (`mcp.credentials`). Everything goes through the
guarded client, so that a server leads nobody into an inner network.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ...errors import ToolError
from ...key_value import FileState, State
from .config import McpServer, OAuth, command_for
from .credentials import program_authorization

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

_PREFIX = "mcp_login:"
#: Seconds before its end at which a token is renewed: a call that is sent with it has to arrive.
_EARLY = 30.0
_UNAUTHORIZED = 401
#: The address that a person's browser would come back to, where nobody waits for one.
_NOWHERE = "http://127.0.0.1/callback"


class LoginNeeded(ToolError):
    """The server wants a login, or more rights than the last one gave."""


class Returned(NamedTuple):
    """What a browser brings back."""

    code: str
    state: str
    issuer: str | None = None


class Login(Protocol):
    """A person who logs in."""

    #: Where the browser comes back to.
    redirect: str

    async def show(self, url: str) -> None:
        """Take the person to this page."""
        ...

    async def returned(self) -> Returned:
        """Wait for the browser to come back."""
        ...


class _Kept(msgspec.Struct, frozen=True):
    """What a login gave: as the SDK writes it."""

    tokens: dict[str, Any] = {}
    #: When the token ends, in seconds since the epoch; None: nobody knows.
    ends: float | None = None
    client: dict[str, Any] = {}
    #: Who gave it, for renewing it.
    issuer: dict[str, Any] = {}
    resource: dict[str, Any] = {}


class Tokens:
    """What logins gave, by server."""

    def __init__(self, state: State) -> None:
        self._state = state

    def has(self, server: McpServer) -> bool:
        """Whether somebody has logged in there."""
        return bool(self.read(server).tokens)

    def read(self, server: McpServer) -> _Kept:
        """What is kept of a server."""
        found = self._state.get(_key(server))
        return msgspec.convert(found, _Kept) if found is not None else _Kept()

    def write(self, server: McpServer, kept: _Kept) -> None:
        """Keep this."""
        self._state.put(_key(server), msgspec.to_builtins(kept))

    def forget(self, server: McpServer) -> bool:
        """Log out, here: the server is not told. Whether there was anything."""
        had = self._state.get(_key(server)) is not None
        self._state.delete(_key(server))
        return had


def tokens_in(folder: Path) -> Tokens:
    """What logins gave, in a file of a folder that only its owner can read."""
    return Tokens(FileState(folder / "mcp_logins.json"))


def _key(server: McpServer) -> str:
    return f"{_PREFIX}{server.name}:{server.identity}"


def authorization(
    server: McpServer, tokens: Tokens | None, login: Login | None, tell: Callable[[LoginNeeded], None]
) -> httpx2.Auth:
    """What adds a token to requests; where nobody has logged in and nobody does now, what says that one has to.

    `tell` hears of it: what is raised there ends the connection, and the SDK does not say why it has ended.
    """

    def needed() -> LoginNeeded:
        other = ", or its `headers` need another key" if server.headers else ""
        hint = f"the user has to log in: `{command_for('login', server)}`{other}"
        error = LoginNeeded(f"the MCP server `{server.name}` wants a login", hint=hint)
        tell(error)
        return error

    if server.oauth.grant == "client_credentials":

        def refuse(why: str) -> LoginNeeded:
            error = LoginNeeded(f"the MCP server `{server.name}` wants a login: {why}", hint="look at its `oauth`")
            tell(error)
            return error

        return program_authorization(server, refuse)
    if tokens is None or (login is None and not tokens.has(server)):
        return _stranger(needed)
    return _provider(server, tokens, login, needed)


def _stranger(needed: Callable[[], LoginNeeded]) -> httpx2.Auth:
    import httpx2

    class Stranger(httpx2.Auth):
        """Goes as far as strangers may."""

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            response = yield request
            if response.status_code == _UNAUTHORIZED:
                raise needed()

    return Stranger()


class _Storage:
    """What the SDK keeps, kept with all that it needs to renew it after a restart."""

    def __init__(self, server: McpServer, tokens: Tokens, redirect: str, anew: bool) -> None:
        self._server = server
        self._tokens = tokens
        self._redirect = redirect
        self._anew = anew
        self.context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        kept = {} if self._anew else self._tokens.read(self._server).tokens
        return OAuthToken.model_validate(kept) if kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens, and who gave them."""
        context = self.context
        kept = _Kept(
            tokens.model_dump(mode="json", exclude_none=True),
            None if tokens.expires_in is None else time.time() + tokens.expires_in,
            _plain(context.client_info),
            _plain(context.oauth_metadata),
            _plain(context.protected_resource_metadata),
        )
        self._tokens.write(self._server, kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        # A new login comes back to another port, for which a client that was registered before may not be good.
        kept = {} if self._anew else self._tokens.read(self._server).client
        made = _registered(self._server.oauth, self._redirect)
        return OAuthClientInformationFull.model_validate(kept or made) if kept or made else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Kept with the tokens: without them it is good for nothing."""


def _plain(value: Any) -> dict[str, Any]:
    return {} if value is None else value.model_dump(mode="json", exclude_none=True)


def _registered(given: OAuth, redirect: str) -> dict[str, Any]:
    """A client that somebody has registered by hand."""
    if not given.client_id:
        return {}
    client = {"client_id": given.client_id, "redirect_uris": [redirect], "issuer": given.issuer or None}
    if not given.client_secret:
        return {**client, "token_endpoint_auth_method": "none"}
    return {**client, "client_secret": given.client_secret, "token_endpoint_auth_method": given.client_auth}


def _provider(
    server: McpServer, tokens: Tokens, login: Login | None, needed: Callable[[], LoginNeeded]
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
    from pydantic import AnyUrl

    redirect = login.redirect if login is not None else _NOWHERE

    async def show(url: str) -> None:
        if login is None:
            raise needed()
        await login.show(url)

    async def returned() -> AuthorizationCodeResult:
        assert login is not None  # nobody was shown anything otherwise
        code, state, issuer = await login.returned()
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)

    storage = _Storage(server, tokens, redirect, anew=login is not None)
    made = OAuthClientProvider(
        server.url,
        OAuthClientMetadata(client_name="toolspeak", redirect_uris=[AnyUrl(redirect)]),
        storage,
        redirect_handler=show,
        callback_handler=returned,
        client_metadata_url=server.oauth.client_metadata_url or None,
    )
    storage.context = made.context
    if login is None:
        _restore(made.context, tokens.read(server))
    return made


def _restore(context: Any, kept: _Kept) -> None:
    """What the SDK would know had it not been started again: when the token ends, and who renews it."""
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

    if kept.ends is not None:
        context.token_expiry_time = kept.ends - _EARLY
    kinds: tuple[tuple[str, Callable[[Any], Any], dict[str, Any]], ...] = (
        ("oauth_metadata", OAuthMetadata.model_validate, kept.issuer),
        ("protected_resource_metadata", ProtectedResourceMetadata.model_validate, kept.resource),
    )
    for name, read, value in kinds:
        if value:
            setattr(context, name, read(value))
