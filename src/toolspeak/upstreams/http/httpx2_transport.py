"""The httpx2 transport: supports proxies and HTTP/2, at about twenty times the cost per request.

It behaves like the default transport, except that only HTTP/2 connections are reused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, Unpack
from urllib.parse import urlsplit

from ...core.events import Noted
from ...core.types import Note
from ...errors import ConfigError, UpstreamError, UpstreamTimeout
from .address import secret_values
from .connection import DRAIN_SECONDS, KEEP_ALIVE_SECONDS, MAX_IDLE_CONNECTIONS, Timeouts, TruncatedReply
from .service import Posted, Service, ServiceOptions

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

#: Prevents the reuse of HTTP/1.1 connections. Bytes after a response would stay undetected in httpx2's buffer and be
#: mistaken for the next response. HTTP/2 numbers its responses and never sends this header.
_ONE_REQUEST = ("Connection", "close")


class Httpx2Upstream(Service):
    """A service reached through `proxy` or over HTTP/2. The proxy URL may contain a user name and password."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        tls: ssl.SSLContext | None = None,
        proxy: str = "",
        http2: bool = True,
        http1: bool = True,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(base_url, api_key, protocol, timeouts, headers, **options)
        self._tls = tls
        self._proxy = proxy
        self._versions = (http1, http2)
        self._secrets = secret_values([*self._secrets, *_proxy_secrets(proxy)])
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        #: Tasks that drain responses in the background.
        self._ending: set[asyncio.Task[None]] = set()
        _httpx2()

    async def close(self) -> None:
        await super().close()
        here = asyncio.get_running_loop()
        ending = [task for task in self._ending if task.get_loop() is here]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        client = self._clients.pop(here, None)
        if client is not None:
            await client.aclose()

    async def _post(self, path: str, posted: Posted) -> tuple[_Httpx2Response, bytes]:
        payload, waits = posted.payload, _Waits(self.timeouts, posted.end, self._clean)
        new = _NewConnection()
        try:
            response = await self._send(path, payload, waits, new)
        except TruncatedReply as error:
            if new.opened or self._closed:
                raise
            note = Note("upstream_retry", f"retried at once: a pooled connection was closed: {error}")
            posted.notes.append(Noted(note))
            response = await self._send(path, payload, waits, new)
        source = _Httpx2Response(response, waits, self._ending)
        try:
            if "content-length" in source.headers and "transfer-encoding" in source.headers:
                # Response smuggling, which httpx2 would accept.
                raise UpstreamError("the response is not HTTP: both Content-Length and Transfer-Encoding are set")
            return source, await source.read()
        except BaseException:
            await source.abandon()
            raise

    async def _send(self, path: str, payload: bytes, waits: _Waits, new: _NewConnection) -> httpx2.Response:
        client = self._client()
        request = client.build_request(
            "POST",
            f"{self._address.url}{path}",
            content=payload,
            headers=[*self._lines, _ONE_REQUEST],
            extensions={"trace": new.trace},
        )
        sending = client.send(request, stream=True)
        return await waits.within(self.timeouts.first_byte, sending, "first byte of the reply")

    def _client(self) -> httpx2.AsyncClient:
        """Return the client for the running event loop. Connections belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            package = _httpx2()
            for other in [other for other in self._clients if other.is_closed()]:
                del self._clients[other]
            try:
                client = package.AsyncClient(
                    # Certificates are verified as in the default transport, with OpenSSL's trusted certificates. The
                    # context is not shared, because httpx2 modifies it.
                    verify=self._tls or ssl.create_default_context(),
                    http1=self._versions[0],
                    http2=self._versions[1],
                    proxy=self._proxy or None,
                    # Proxy settings come from the configuration, which has already read the environment.
                    trust_env=False,
                    follow_redirects=False,
                    timeout=package.Timeout(None, connect=self.timeouts.connect),
                    limits=package.Limits(
                        max_connections=None,
                        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                        keepalive_expiry=KEEP_ALIVE_SECONDS,
                    ),
                )
            except (ValueError, ImportError, package.InvalidURL) as error:
                # The original message may contain the proxy password.
                raise ConfigError("httpx2 rejected the settings", hint="check the proxy URL") from error
            self._clients[loop] = client
        return client


class _NewConnection:
    """Detects whether a request used a new connection."""

    opened = False

    async def trace(self, name: str, info: object) -> None:
        self.opened = self.opened or name.startswith("connection.connect")


class _Waits:
    """Applies the timeouts of one request, and converts httpx2's errors."""

    def __init__(self, timeouts: Timeouts, end: float, clean: Callable[[str], str]) -> None:
        self.timeouts = timeouts
        self._end = end
        self._clean = clean

    async def within(self, seconds: float, waiting: Awaitable[T], what: str) -> T:
        """Await `waiting` for at most `seconds`, and never beyond the total timeout."""
        package = _httpx2()
        remaining = self._end - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(seconds, remaining)):
                return await waiting
        except TimeoutError as error:
            if remaining < seconds:
                raise UpstreamTimeout(f"the reply took longer than {self.timeouts.total:g} s") from error
            raise UpstreamTimeout(f"no {what} within {seconds:g} s") from error
        except package.ConnectTimeout as error:
            message = f"no connection within {self.timeouts.connect:g} s"
            raise UpstreamTimeout(message, should_retry=True) from error
        except (package.ConnectError, package.ProxyError) as error:
            again = not _certificate_refused(error)
            raise UpstreamError(self._clean(f"cannot connect: {error}"), should_retry=again) from error
        except package.HTTPError as error:
            raise TruncatedReply(self._clean(f"the connection broke: {str(error) or type(error).__name__}")) from error
        except RuntimeError as error:
            # httpx2 raises RuntimeError if the client is closed.
            raise UpstreamError("this upstream was closed", should_retry=False) from error


class _Httpx2Response:
    """An `IncomingResponse` backed by httpx2."""

    def __init__(self, response: httpx2.Response, waits: _Waits, ending: set[asyncio.Task[None]]) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._pieces = response.aiter_raw()
        self._waits = waits
        self._ending = ending
        self._body_started = False
        self._over = False

    def header(self, name: bytes) -> str:
        return self.headers.get(name.decode("latin-1"), "")

    async def read(self) -> bytes:
        times = self._waits.timeouts
        seconds = times.idle if self._body_started else times.first_byte
        what = "more bytes of the reply" if self._body_started else "first byte of the reply"
        while True:
            piece = await self._waits.within(seconds, anext(self._pieces, None), what)
            if piece is None:
                return b""
            if piece:
                self._body_started = True
                return piece

    def finish(self) -> None:
        """Drain the rest of the response in the background, so the connection can be reused."""
        if not self._over and not self._response.is_closed:
            self._over = True
            task = asyncio.get_running_loop().create_task(self._drain())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def abandon(self) -> None:
        self._over = True
        await self._pieces.aclose()
        await self._response.aclose()

    async def _drain(self) -> None:
        with suppress(TimeoutError, _httpx2().HTTPError):
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in self._pieces:
                    pass
        await self.abandon()


def _certificate_refused(error: BaseException | None) -> bool:
    """Whether a certificate failure is the root cause. httpx2 wraps errors more than once."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _proxy_secrets(proxy: str) -> list[str]:
    try:
        parts = urlsplit(proxy)
    except ValueError:
        return [proxy]
    return [part for part in (parts.password, parts.username) if part]


def _httpx2():
    try:
        import httpx2
    except ImportError as error:
        hint = "install the extra: pip install 'toolspeak[http2]'"
        raise ConfigError("proxies and HTTP/2 need the package httpx2", hint=hint) from error
    return httpx2
