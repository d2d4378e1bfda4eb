"""A person logs in to an MCP server: a browser that is sent there, and a port of this machine that it comes back to.

Only the one answer counts that carries the state of the one question; all else that knocks at the port is turned away.
"""

from __future__ import annotations

import asyncio
import secrets
import webbrowser
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from ..errors import UsageError
from ..tools.mcp.oauth import Returned
from .mcp_text import shown

#: Seconds that somebody has to log in.
PATIENCE = 300.0
_PATH = "/callback"
#: Bytes of a request line and its headers, and seconds to send them; a browser has no more and is next door.
_MOST_BYTES = 64 * 1024
_SOON = 10.0
_DONE = "You are logged in. This page can be closed."
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>toolspeak</title>'
    "<style>body {{ font: 1.2rem system-ui, sans-serif; margin: 4rem auto; max-width: 30rem }}</style><p>{text}</p>"
)


def opened(url: str) -> bool:
    """Open a page in the person's browser, if there is one."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


class Browser:
    """Waits on the loopback for a browser to come back. Use it in `async with`.

    Args:
        port: where to wait; 0 for any port.
        tell: is told the address that the person has to go to.
        go: opens it; gives whether it could.
    """

    def __init__(
        self, port: int, tell: Callable[[str], None], go: Callable[[str], bool] = opened, patience: float = PATIENCE
    ) -> None:
        self._port = port
        self._tell = tell
        self._go = go
        self._patience = patience
        self._state = secrets.token_urlsafe(16)  # nobody's, until there is a question
        self._answer: asyncio.Future[Returned] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self.redirect = ""

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._knock, "127.0.0.1", self._port, limit=_MOST_BYTES)
        except OSError as error:
            why = f"nobody can wait on port {self._port}: {error.strerror or error}"
            raise UsageError(why, hint="choose another `callbackPort`") from None
        self.redirect = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answer.cancel()
        if self._server is not None:
            self._server.close()

    async def show(self, url: str) -> None:
        """Send the person to a page.

        Raises:
            UsageError: it is no page of the web.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):  # a server names it, and a browser opens more than pages
            raise UsageError(f"the server wants a login at `{shown(url)[:200]}`, which is no page of the web")
        self._state = parse_qs(parts.query).get("state", [""])[-1] or self._state
        self._tell(url)
        await asyncio.to_thread(self._go, url)

    async def returned(self) -> Returned:
        """Wait for the browser.

        Raises:
            UsageError: it did not come, or the login was refused.
        """
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            raise UsageError(f"nobody logged in within {self._patience:g} seconds") from None

    async def _knock(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SOON):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._judged(head)
                body = _PAGE.format(text=text).encode()
                lines = (f"HTTP/1.1 {status}", "content-type: text/html; charset=utf-8", f"content-length: {len(body)}")
                safe = ("content-security-policy: default-src 'none'; style-src 'unsafe-inline'", "connection: close")
                writer.write("\r\n".join((*lines, *safe, "", "")).encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever it was, it was not the browser
        finally:
            writer.close()

    def _judged(self, head: bytes) -> tuple[str, str]:
        """What is answered to somebody who knocks. The first who knows the state is the browser."""
        method, _, rest = head.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        found = {name: values[-1] for name, values in parse_qs(target.query).items()}
        same = secrets.compare_digest(found.get("state", "").encode(), self._state.encode())
        if method != "GET" or target.path != _PATH or not same or self._answer.done():
            return "404 Not Found", "There is nothing here."
        if "code" in found:
            self._answer.set_result(Returned(found["code"], found["state"], found.get("iss")))
            return "200 OK", _DONE
        why = shown(found.get("error_description") or found.get("error") or "no reason was given")[:500]
        self._answer.set_exception(UsageError(f"the login was refused: {why}"))
        return "200 OK", "The login was refused. The terminal says why."
