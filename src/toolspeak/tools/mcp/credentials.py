"""Programs that log in to MCP servers without a person: OAuth's client credentials, by the official SDK.

The client and its secret, or the key that it signs with, are those of the configuration; who gave them is named there
too, and nobody else is shown them, wherever a server leads. Tokens are kept in memory and asked for anew: whoever holds
the secret can.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ...core.text import printable
from ...errors import ToolError
from ..threads import in_thread
from .config import McpServer

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

#: Bytes of a key; the largest in use have some four thousand.
_LARGEST_KEY = 64 * 1024
#: Characters of somebody else's words.
_MOST_WORDS = 300

#: Makes an error of what went wrong, and tells whom it concerns.
Refuse: TypeAlias = Callable[[str], ToolError]


def program_authorization(server: McpServer, refuse: Refuse) -> httpx2.Auth:
    """What adds a token to requests, and asks for one where there is none."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    provider = _provider(server, refuse)

    class Program(httpx2.Auth):
        """As the SDK does it, but for the words of what goes wrong."""

        requires_response_body = provider.requires_response_body

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            flow = provider.async_auth_flow(request)
            try:
                asked = await anext(flow)
                while True:
                    asked = await flow.asend((yield asked))
            except StopAsyncIteration:
                return
            except OAuthFlowError as error:
                said = printable(" ".join(str(error).split()))[:_MOST_WORDS]
                raise refuse(f"no token is to be had for the client `{server.oauth.client_id}`: {said}") from None
            finally:
                await flow.aclose()

    return Program()


def _provider(server: McpServer, refuse: Refuse) -> OAuthClientProvider:
    from mcp.client.auth.extensions.client_credentials import (
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
    )

    given = server.oauth
    # What to ask for is the server's to say: the SDK asks for that, whatever it is given.
    if given.private_key_file:
        signs = _signing(server, refuse)
        return PrivateKeyJWTOAuthProvider(server.url, _Storage(), given.client_id, signs, issuer=given.issuer)
    return ClientCredentialsOAuthProvider(
        server.url, _Storage(), given.client_id, given.client_secret, given.client_auth, issuer=given.issuer
    )


def _signing(server: McpServer, refuse: Refuse) -> Callable[[str], Awaitable[str]]:
    """What says who we are, signed. The key is read each time: it may have been replaced."""
    from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

    given = server.oauth

    async def signed(audience: str) -> str:
        try:
            key = await in_thread(lambda: _key_in(given.private_key_file))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no PEM"
            raise refuse(f"the key `{given.private_key_file}` cannot be read: {why}") from None
        about = SignedJWTParameters(
            issuer=given.client_id,
            subject=given.client_id,
            signing_key=key,
            signing_algorithm=given.signing_algorithm,
        )
        try:
            return await about.create_assertion_provider()(audience)
        except Exception as error:  # of several packages, and none of them ours
            kind = type(error).__name__
            why = f"the key `{given.private_key_file}` cannot sign with {given.signing_algorithm} ({kind})"
            raise refuse(why) from None

    return signed


def _key_in(path: str) -> str:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_LARGEST_KEY).decode("ascii")


class _Storage:
    """What the SDK keeps, for as long as the connection lasts."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client is the configuration's."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nobody is registered."""
