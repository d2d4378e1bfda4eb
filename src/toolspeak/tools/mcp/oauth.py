"""OAuth logins to MCP servers over HTTP, through the official SDK.

Only the user starts a login, with `toolspeak mcp login`; a server never does. If a server requires a login and none is
stored, that is an error, and no client is registered. Tokens are stored in a file that only its owner can read. Every
process uses and renews the stored tokens.

With client credentials, the program logs in by itself. It uses the client id and the secret or private key from the
configuration, and sends them only to the issuer named there. These tokens stay in memory. All requests pass the SSRF
guard.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from ...core.text import printable, system_reason
from ...errors import ToolError
from ...key_value import FileState, State
from ..threads import in_thread
from .config import McpServer, OAuth, command_for

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

_PREFIX = "mcp_login:"
_RENEWAL_MARGIN = 30.0  # tokens are renewed this many seconds before they expire
_UNAUTHORIZED = 401
_UNUSED_REDIRECT = "http://127.0.0.1/callback"  # placeholder for the redirect URL when no login is in progress


class LoginNeeded(ToolError):
    """The server requires a login, or more scopes than the last login granted."""


class LoginCallback(NamedTuple):
    """The parameters that the browser's redirect brings back after a login."""

    code: str
    state: str
    issuer: str | None = None


class Login(Protocol):
    """A login by the user, with a browser."""

    redirect: str

    async def show(self, url: str) -> None:
        """Open the login page."""

    async def returned(self) -> LoginCallback:
        """Wait for the browser's redirect."""
        ...


class _StoredLogin(msgspec.Struct, frozen=True):
    """The stored result of a login; the fields hold the SDK's objects as plain data."""

    tokens: dict[str, Any] = {}
    ends: float | None = None  # when the token expires, in seconds since the epoch; None if unknown
    client: dict[str, Any] = {}
    #: Metadata of the authorization server, needed to renew tokens.
    issuer: dict[str, Any] = {}
    resource: dict[str, Any] = {}


class Tokens:
    def __init__(self, state: State) -> None:
        self._state = state

    def has(self, server: McpServer) -> bool:
        return bool(self.read(server).tokens)

    def read(self, server: McpServer) -> _StoredLogin:
        """Return the stored login for a server; empty if there is none."""
        stored = self._state.get(_PREFIX + server.key)
        return msgspec.convert(stored, _StoredLogin) if stored is not None else _StoredLogin()

    def write(self, server: McpServer, stored: _StoredLogin) -> None:
        self._state.put(_PREFIX + server.key, msgspec.to_builtins(stored))

    def forget(self, server: McpServer) -> bool:
        """Delete a login, without notifying the server. Returns whether there was one."""
        had = self._state.get(_PREFIX + server.key) is not None
        self._state.delete(_PREFIX + server.key)
        return had


def tokens_in(folder: Path) -> Tokens:
    """Return the logins stored in a folder. Only the owner can read their file."""
    return Tokens(FileState(folder / "mcp_logins.json"))


def authorization(
    server: McpServer, tokens: Tokens | None, login: Login | None, report: Callable[[LoginNeeded], None]
) -> httpx2.Auth:
    """Return an httpx `Auth` that adds tokens to requests, or reports that a login is needed.

    `report` receives the error, because the SDK does not say why a connection ended.
    """

    def login_needed(hint: str, why: str = "") -> LoginNeeded:
        error = LoginNeeded(f"the MCP server `{server.name}` requires a login{why}", hint=hint)
        report(error)
        return error

    if server.oauth.grant == "client_credentials":
        return program_authorization(server, lambda why: login_needed("check its `oauth` settings", f": {why}"))
    other = ", or its `headers` need another key" if server.headers else ""
    needed = partial(login_needed, f"the user has to log in: `{command_for('login', server)}`{other}")
    if tokens is None or (login is None and not tokens.has(server)):
        return _anonymous(needed)
    return _login_provider(server, tokens, login, needed)


def _anonymous(needed: Callable[[], LoginNeeded]) -> httpx2.Auth:
    import httpx2

    class AnonymousAuth(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            response = yield request
            if response.status_code == _UNAUTHORIZED:
                raise needed()

    return AnonymousAuth()


class _TokenStorage:
    """Token storage for the SDK, with everything needed to renew tokens after a restart."""

    def __init__(self, server: McpServer, tokens: Tokens, redirect: str, anew: bool) -> None:
        self._server = server
        self._tokens = tokens
        self._redirect = redirect
        self._anew = anew
        self.context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        stored = {} if self._anew else self._tokens.read(self._server).tokens
        return OAuthToken.model_validate(stored) if stored else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens, with the metadata needed to renew them."""
        context = self.context
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        metadata = (context.client_info, context.oauth_metadata, context.protected_resource_metadata)
        stored = _StoredLogin(_plain(tokens), ends, *map(_plain, metadata))
        self._tokens.write(self._server, stored)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        # A new login may redirect to a different port, which the earlier registration does not cover.
        stored = {} if self._anew else self._tokens.read(self._server).client
        configured = _configured_client(self._server.oauth, self._redirect)
        return OAuthClientInformationFull.model_validate(stored or configured) if stored or configured else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: `set_tokens` stores the client, which is useless without tokens."""


def _plain(value: Any) -> dict[str, Any]:
    return {} if value is None else value.model_dump(mode="json", exclude_none=True)


def _configured_client(oauth: OAuth, redirect: str) -> dict[str, Any]:
    """Return the manually registered client from the configuration, or an empty dict."""
    if not oauth.client_id:
        return {}
    client = {"client_id": oauth.client_id, "redirect_uris": [redirect], "issuer": oauth.issuer or None}
    if not oauth.client_secret:
        return {**client, "token_endpoint_auth_method": "none"}
    return {**client, "client_secret": oauth.client_secret, "token_endpoint_auth_method": oauth.client_auth}


def _login_provider(
    server: McpServer, tokens: Tokens, login: Login | None, needed: Callable[[], LoginNeeded]
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
    from pydantic import AnyUrl

    redirect = login.redirect if login is not None else _UNUSED_REDIRECT

    async def show(url: str) -> None:
        if login is None:
            raise needed()
        await login.show(url)

    async def returned() -> AuthorizationCodeResult:
        assert login is not None  # otherwise `show` would have raised
        code, state, issuer = await login.returned()
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)

    storage = _TokenStorage(server, tokens, redirect, anew=login is not None)
    provider = OAuthClientProvider(
        server.url,
        OAuthClientMetadata(client_name="toolspeak", redirect_uris=[AnyUrl(redirect)]),
        storage,
        redirect_handler=show,
        callback_handler=returned,
        client_metadata_url=server.oauth.client_metadata_url or None,
    )
    storage.context = provider.context
    if login is None:
        _restore(provider.context, tokens.read(server))
    return provider


def _restore(context: Any, stored: _StoredLogin) -> None:
    """Restore the SDK's state after a restart: token expiry and authorization server metadata."""
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

    if stored.ends is not None:
        context.token_expiry_time = stored.ends - _RENEWAL_MARGIN
    if stored.issuer:
        context.oauth_metadata = OAuthMetadata.model_validate(stored.issuer)
    if stored.resource:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(stored.resource)


_MAX_KEY_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 300

#: Takes a reason; creates and reports the error for a failed login.
LoginErrorFactory: TypeAlias = Callable[[str], ToolError]


def program_authorization(server: McpServer, refuse: LoginErrorFactory) -> httpx2.Auth:
    """Return an httpx `Auth` that obtains tokens with client credentials and adds them to requests."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    provider = _program_provider(server, refuse)

    class ProgramAuth(httpx2.Auth):
        """Runs the SDK's authentication flow, and translates its errors."""

        requires_response_body = provider.requires_response_body

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            flow = provider.async_auth_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    outgoing = await flow.asend((yield outgoing))
            except StopAsyncIteration:
                return
            except OAuthFlowError as error:
                detail = printable(" ".join(str(error).split()))[:_MAX_MESSAGE_CHARS]
                raise refuse(f"the client `{server.oauth.client_id}` did not get a token: {detail}") from None
            finally:
                await flow.aclose()

    return ProgramAuth()


def _program_provider(server: McpServer, refuse: LoginErrorFactory) -> OAuthClientProvider:
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider, PrivateKeyJWTOAuthProvider

    oauth = server.oauth
    client = (server.url, _MemoryTokenStorage(), oauth.client_id)
    # Scopes are not passed, because the SDK always requests those that the server announces.
    if oauth.private_key_file:
        signs = _assertion_signer(server, refuse)
        return PrivateKeyJWTOAuthProvider(*client, signs, issuer=oauth.issuer)
    return ClientCredentialsOAuthProvider(*client, oauth.client_secret, oauth.client_auth, issuer=oauth.issuer)


def _assertion_signer(server: McpServer, refuse: LoginErrorFactory) -> Callable[[str], Awaitable[str]]:
    """Return a function that signs client assertions (JWT). It reads the key each time, so keys can be rotated."""
    from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

    oauth = server.oauth

    async def signed(audience: str) -> str:
        try:
            key = await in_thread(lambda: _read_key(oauth.private_key_file))
        except (OSError, ValueError) as error:
            why = system_reason(error) if isinstance(error, OSError) else "it is not a PEM file"
            raise refuse(f"the key `{oauth.private_key_file}` cannot be read: {why}") from None
        about = SignedJWTParameters(
            issuer=oauth.client_id, subject=oauth.client_id, signing_key=key, signing_algorithm=oauth.signing_algorithm
        )
        try:
            return await about.create_assertion_provider()(audience)
        except Exception as error:  # the signing libraries raise various exceptions
            fault = f"cannot sign with {oauth.signing_algorithm} ({type(error).__name__})"
            raise refuse(f"the key `{oauth.private_key_file}` {fault}") from None

    return signed


def _read_key(path: str) -> str:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_MAX_KEY_BYTES).decode("ascii")


class _MemoryTokenStorage:
    """In-memory token storage for the SDK. With client credentials, new tokens can be requested at any time."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return None, because the client comes from the configuration."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing, because no client is registered."""
