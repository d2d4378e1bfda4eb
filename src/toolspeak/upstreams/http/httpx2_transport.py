"""The transport for what the everyday one does not speak: proxies, and HTTP/2. It costs twenty times as much for each request, and behaves the same, but for
one thing: only connections of HTTP/2 are kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from ...core.events import Event, Noted
from ...core.types import Note
from ...errors import ConfigError, UpstreamError, UpstreamTimeout
from .address import secrets_in
from .connection import DRAIN, KEEP, Cut, Timeouts
from .pool import MOST_IDLE
from .retry import Retry, World
from .service import Service

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

#: In HTTP/1.1 what stands behind a response stays in httpx2's buffer, out of our sight, and would be the answer to the
#: next request on that connection: so there is none. HTTP/2 numbers its answers, and never sends this header.
_ONE_REQUEST = ("Connection", "close")


class Httpx2Upstream(Service):
    """A service that is reached through `proxy`, or speaks HTTP/2. The proxy's URL may carry a name and a password."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        provider: str = "",
        model: str = "",
        tls: ssl.SSLContext | None = None,
        retry: Retry | None = None,
        world: World | None = None,
        proxy: str = "",
        http2: bool = True,
        http1: bool = True,
        told: Iterable[Note] = (),
    ) -> None:
        super().__init__(
            base_url,
            api_key,
            protocol,
            timeouts,
            headers,
            provider=provider,
            model=model,
            retry=retry,
            world=world,
            told=told,
        )
        self._tls = tls
        self._proxy = proxy
        self._versions = (http1, http2)
        self._secrets = secrets_in([*self._secrets, *_password(proxy)])
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        #: Responses whose last word has been read, on their way to their end.
        self._ending: set[asyncio.Task[None]] = set()
        _httpx2()

    async def close(self) -> None:
        """Drop every connection; exchanges under way fail."""
        await super().close()
        here = asyncio.get_running_loop()
        ending = [task for task in self._ending if task.get_loop() is here]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        client = self._clients.pop(here, None)
        if client is not None:
            await client.aclose()

    async def _post(self, path: str, payload: bytes, end: float, notes: list[Event]) -> tuple[_Source, bytes]:
        waits = _Waits(self.timeouts, end, self._clean)
        new = _NewConnection()
        try:
            response = await self._send(path, payload, waits, new)
        except Cut as error:
            if new.made or self._closed:
                raise
            notes.append(Noted(Note("upstream_retry", f"asked again at once: a kept connection was gone: {error}")))
            response = await self._send(path, payload, waits, new)
        source = _Source(response, waits, self._ending)
        try:
            _check_framing(source.headers)
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
        return await waits.within(self.timeouts.first_byte, sending, "first byte of a reply")

    def _client(self) -> httpx2.AsyncClient:
        """Connections belong to the event loop that made them."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            package = _httpx2()
            for other in [other for other in self._clients if other.is_closed()]:
                del self._clients[other]
            try:
                client = package.AsyncClient(
                    # As the everyday transport verifies, with the certificates that OpenSSL is told to trust. One of
                    # its own, since httpx2 changes what it is given.
                    verify=self._tls or ssl.create_default_context(),
                    http1=self._versions[0],
                    http2=self._versions[1],
                    proxy=self._proxy or None,
                    # Only the configuration reads the environment, and passes what it finds.
                    trust_env=False,
                    follow_redirects=False,
                    timeout=package.Timeout(None, connect=self.timeouts.connect),
                    limits=package.Limits(
                        max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=KEEP
                    ),
                )
            except (ValueError, ImportError, package.InvalidURL) as error:
                # Its words may show the proxy's password.
                raise ConfigError("httpx2 cannot be set up like this", hint="check the URL of the proxy") from error
            self._clients[loop] = client
        return client


class _NewConnection:
    """Finds out whether a request goes over a connection that was made for it."""

    made = False

    async def trace(self, name: str, info: object) -> None:
        """Called by httpx2 at every step."""
        self.made = self.made or name.startswith("connection.connect")


class _Waits:
    """The clocks of one exchange, and what httpx2's errors mean."""

    def __init__(self, timeouts: Timeouts, end: float, clean: Callable[[str], str]) -> None:
        self.timeouts = timeouts
        self._end = end
        self._clean = clean

    async def within(self, seconds: float, waiting: Awaitable[T], what: str) -> T:
        """Wait, but not longer than this, nor longer than all may take together."""
        package = _httpx2()
        left = self._end - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(seconds, left)):
                return await waiting
        except TimeoutError as error:
            if left < seconds:
                raise UpstreamTimeout(f"the reply took longer than {self.timeouts.total:g} s") from error
            raise UpstreamTimeout(f"no {what} within {seconds:g} s") from error
        except package.ConnectTimeout as error:
            message = f"no connection within {self.timeouts.connect:g} s"
            raise UpstreamTimeout(message, should_retry=True) from error
        except (package.ConnectError, package.ProxyError) as error:
            again = not _certificate_refused(error)
            raise UpstreamError(self._clean(f"cannot connect: {error}"), should_retry=again) from error
        except package.HTTPError as error:
            raise Cut(self._clean(f"the connection broke: {str(error) or type(error).__name__}")) from error
        except RuntimeError as error:
            # A client that is closed says so in this way.
            raise UpstreamError("this upstream was closed", should_retry=False) from error


class _Source:
    """The response of httpx2 as `answer` reads it."""

    def __init__(self, response: httpx2.Response, waits: _Waits, ending: set[asyncio.Task[None]]) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._pieces = response.aiter_raw()
        self._waits = waits
        self._ending = ending
        self._begun = False
        self._over = False

    def header(self, name: bytes) -> str:
        """One header, by lower-case name."""
        return self.headers.get(name.decode("latin-1"), "")

    async def read(self) -> bytes:
        """The next piece of the body; nothing at its end."""
        times = self._waits.timeouts
        seconds = times.idle if self._begun else times.first_byte
        what = "further byte of the reply" if self._begun else "first byte of a reply"
        while True:
            piece = await self._waits.within(seconds, anext(self._pieces, None), what)
            if piece is None:
                return b""
            if piece:
                self._begun = True
                return piece

    def finish(self) -> None:
        """Nothing more will be read. A response that soon comes to its end leaves its connection to others."""
        if not self._over and not self._response.is_closed:
            self._over = True
            task = asyncio.get_running_loop().create_task(self._to_the_end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def abandon(self) -> None:
        """End it, wherever it is."""
        self._over = True
        await self._pieces.aclose()
        await self._response.aclose()

    async def _to_the_end(self) -> None:
        with suppress(TimeoutError, _httpx2().HTTPError):
            async with asyncio.timeout(DRAIN):
                async for _ in self._pieces:
                    pass
        await self.abandon()


def _check_framing(headers: Mapping[str, str]) -> None:
    """A response whose length is told in two ways may hide another; httpx2 believes one of them."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise UpstreamError("the answer is not HTTP: Content-Length stands beside Transfer-Encoding")


def _certificate_refused(error: BaseException | None) -> bool:
    """Whether this is at the bottom of an error, which httpx2 wraps more than once."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _password(proxy: str) -> list[str]:
    """What must not be shown of a proxy's URL."""
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
        raise ConfigError("a proxy, or HTTP/2, needs the package httpx2", hint=hint) from error
    return httpx2
