"""OAuth login to an MCP server: opens a browser and waits for its redirect on a loopback port.

Only a redirect that carries the `state` of this login is accepted; every other request gets a 404.
"""

import asyncio
import secrets
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

from ..core.text import system_reason
from ..errors import UsageError
from ..tools.mcp.oauth import LoginCallback
from ._io import escape

LOGIN_TIMEOUT = 300.0
_PATH = "/callback"
#: Limits on the size and time of the redirect request, which comes from a local browser.
_MAX_BYTES = 64 * 1024
_REQUEST_TIMEOUT = 10.0
_DONE = "You are logged in. You can close this page."
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>toolspeak</title>'
    "<style>body {{ font: 1.2rem system-ui, sans-serif; margin: 4rem auto; max-width: 30rem }}</style><p>{text}</p>"
)


def open_browser(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


@dataclass(eq=False)
class BrowserLogin:
    """Listens for the redirect of a browser login. Use it with `async with`."""

    port: int  # the loopback port to listen on; 0 for any free port
    tell: Callable[[str], None]  # receives the URL of the login page
    go: Callable[[str], bool] = open_browser  # opens the URL; returns whether that worked
    timeout: float = LOGIN_TIMEOUT
    redirect: str = ""

    def __post_init__(self) -> None:
        self._state = secrets.token_urlsafe(16)  # random, so it matches no request until a login starts
        self._answer: asyncio.Future[LoginCallback] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_MAX_BYTES)
        except OSError as error:
            why = f"cannot listen on port {self.port}: {system_reason(error)}"
            raise UsageError(why, hint="choose another `callbackPort`") from None
        self.redirect = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._answer.cancel()
        if self._server is not None:
            self._server.close()

    async def show(self, url: str) -> None:
        """Open the login page. Raises UsageError if the URL is not an HTTP URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):  # the server chose the URL, and browsers can open programs, too
            raise UsageError(f"the login URL of the server is not a web page: `{escape(url)[:200]}`")
        self._state = parse_qs(parts.query).get("state", [""])[-1] or self._state
        self.tell(url)
        await asyncio.to_thread(self.go, url)

    async def returned(self) -> LoginCallback:
        """Wait for the redirect. Raises UsageError if the login times out or is refused."""
        try:
            async with asyncio.timeout(self.timeout):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            raise UsageError(f"the login timed out after {self.timeout:g} seconds") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                status, text = self._reply(await reader.readuntil(b"\r\n\r\n"))
                body = _PAGE.format(text=text).encode()
                lines = (f"HTTP/1.1 {status}", "content-type: text/html; charset=utf-8", f"content-length: {len(body)}")
                safe = ("content-security-policy: default-src 'none'; style-src 'unsafe-inline'", "connection: close")
                writer.write("\r\n".join((*lines, *safe, "", "")).encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the request did not come from the browser
        finally:
            writer.close()

    def _reply(self, head: bytes) -> tuple[str, str]:
        """Build the response to a request. The first request with the right state completes the login."""
        method, _, rest = head.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        values = {name: each[-1] for name, each in parse_qs(target.query).items()}
        same = secrets.compare_digest(values.get("state", "").encode(), self._state.encode())
        if method != "GET" or target.path != _PATH or not same or self._answer.done():
            return "404 Not Found", "Not found."
        if "code" in values:
            self._answer.set_result(LoginCallback(values["code"], values["state"], values.get("iss")))
            return "200 OK", _DONE
        why = escape(values.get("error_description") or values.get("error") or "no reason given")[:500]
        self._answer.set_exception(UsageError(f"the login was refused: {why}"))
        return "200 OK", "The login was refused. See the terminal for the reason."
