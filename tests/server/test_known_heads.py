"""Requests whose head is known get the same answers as all others, and nobody gets in by one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httptools
import msgspec
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.server.test_fast_exchange import Proxy, Wire, reply, steady, stream
from toolspeak.config import Auth
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access
from toolspeak.server.access.login_sessions import COOKIE
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.http import known_heads
from toolspeak.server.http.client_connection import ClientConnection
from toolspeak.server.http.http_request import HttpRequest
from toolspeak.server.http.known_heads import KnownHeads
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.server.recording.views import detail

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello?"}]}'
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nx-request-id: r1\r\n"


class VersionedState(MemoryState):
    """Keys in memory that know when they were changed."""

    changes = 0

    def version(self) -> object:
        return self.changes

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        super().put(key, value, ttl)
        self.changes += 1

    def delete(self, key: str) -> None:
        super().delete(key)
        self.changes += 1


class Server:
    """A server with keys that counts the requests whose head it had to check."""

    def __init__(self, *, required: bool = False, knows: bool = True, auth: Auth = "replace") -> None:
        self.state = VersionedState()
        self.keys = ApiKeys(self.state)
        self.access = Access(self.keys, required=required)
        self.guard = OriginGuard(self.access)
        self.checked = checked = list[HttpRequest]()

        class Counted(App):
            def wants(self, http: HttpRequest) -> bool:
                checked.append(http)
                return super().wants(http)

        def make(gateway: Gateway) -> App:
            gateway._configs = {n: msgspec.structs.replace(c, auth=auth) for n, c in gateway._configs.items()}
            gateway.forwards_keys = auth == "forward"
            gateway._chains = {name: gateway._chain(config) for name, config in gateway._configs.items()}
            app = Counted(gateway, self.guard)
            if not knows:
                app.known_heads.split = lambda data: None  # type: ignore[method-assign]
            return app

        self.proxy = Proxy(make, Settings())  # type: ignore[arg-type]
        self.known = self.proxy.app.known_heads.by_digest

    def connect(self, loop: asyncio.AbstractEventLoop | None = None) -> ClientConnection:
        """Let the client open another connection."""
        config = uvicorn.Config(self.proxy.app, http=ClientConnection, log_config=None, lifespan="off")
        proxy = self.proxy
        proxy.wire = Wire()
        proxy.connection = ClientConnection(config, proxy.state, {}, loop)
        proxy.connection.connection_made(proxy.wire)
        return proxy.connection

    async def ask(self, *reads: bytes) -> bytes:
        """Return what the client gets for these bytes. The upstream always gives the same answer."""
        proxy = self.proxy
        proxy.wire.said = b""
        for data in reads:
            if not proxy.wire.closed:
                proxy.connection.data_received(data)
        idle = 0
        while idle < _IDLE_TURNS:  # what is incomplete has no answer to wait for
            idle += 1
            await asyncio.sleep(0)
            for connection, wire in proxy.up:
                if wire.said and not connection.disconnected:
                    proxy.asked.append(wire.said)
                    wire.said = b""
                    connection.data_received(ANSWER)
                    idle = 0
        return steady(proxy.wire.said)


#: More turns of the event loop than anything between two bytes takes.
_IDLE_TURNS = 30
ANSWER = reply({"content": "Fine."})


def post(body: bytes = BODY, head: bytes = CHAT, length: bytes = b"") -> bytes:
    return b"%bContent-Length: %b\r\n\r\n%b" % (head, length or b"%d" % len(body), body)


def said(text: str) -> bytes:
    return BODY.replace(b"Hello?", text.encode())


NO_LENGTH = CHAT + b"\r\n"
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
#: What a client may send after an ordinary request, in reads.
READS: dict[str, list[bytes]] = {
    "the same": [post()],
    "another body": [post(said("Hello there, how are you?"))],
    "a short body": [post(b"{}")],
    "no body": [post(b"")],
    "no JSON": [post(b"nonsense")],
    "another model": [post(BODY.replace(b'"m"', b'"n"'))],
    "a stream": [post(BODY[:-1] + b',"stream":true}')],
    "leading zeros": [post(length=b"0000%d" % len(BODY))],
    "many leading zeros": [post(length=b"0" * 30 + b"%d" % len(BODY))],
    "a sign": [post(length=b"+%d" % len(BODY))],
    "hexadecimal digits": [post(length=b"0x3d")],
    "two lengths in one": [post(length=b"%d, %d" % (len(BODY), len(BODY)))],
    "an empty length": [post(length=b" ")],
    "a space behind the length": [post(length=b"%d " % len(BODY))],
    "a longer body": [post() + b"x"],
    "a longer body, later": [post(), b"x"],
    "a shorter length": [post(length=b"%d" % (len(BODY) - 1))],
    "a longer length": [post(length=b"%d" % (len(BODY) + 1))],
    "a rest in another read": [post(length=b"%d" % (len(BODY) + 1)), b" "],
    "a body in another read": [post()[: -len(BODY)], BODY],
    "a head in two reads": [post()[:40], post()[40:]],
    "single bytes": [bytes([byte]) for byte in post()],
    "two at once": [post() + post(said("And you?"))],
    "two after each other": [post(), post(said("And you?"))],
    "two in three reads": [post() + post()[:50], post()[50:]],
    "a request in a body": [post(post())],
    "the end of a head in a body": [post(said("a\\r\\n\\r\\n") + b"\r\n\r\n")],
    "a length in a body": [post(b"\r\ncontent-length: 5\r\n\r\n" + BODY)],
    "an empty line before": [b"\r\n" + post()],
    "two empty lines before": [b"\r\n\r\n" + post()],
    "an empty line between": [post() + b"\r\n", post()],
    "a length twice": [post(head=CHAT + b"Content-Length: %d\r\n" % len(BODY))],
    "another length before": [post(head=CHAT + b"content-length: 1\r\n")],
    "another length after": [CHAT + b"Content-Length: %d\r\ncontent-length: 1\r\n\r\n%b" % (len(BODY), BODY)],
    "an empty length before": [post(head=CHAT + b"Content-Length: \r\n")],
    "an empty length after": [CHAT + b"Content-Length: %d\r\nContent-Length: \r\n\r\n%b" % (len(BODY), BODY)],
    "a folded length": [CHAT + b"Content-Length: %d\r\n 0\r\n\r\n%b" % (len(BODY), BODY)],
    "a length in a folded line": [CHAT + b"x: y\r\n content-length: 5\r\n\r\nhello"],
    "a length in a value": [CHAT + b"x: y content-length: 5\r\n\r\nhello"],
    "a bare line feed": [CHAT + b"x: y\ncontent-length: 5\r\n\r\nhello"],
    "only bare line feeds": [post().replace(b"\r\n", b"\n")],
    "a bare line feed behind the length": [post().replace(b"\r\n\r\n", b"\n\r\n")],
    "a bare carriage return": [CHAT + b"x: y\rcontent-length: 5\r\n\r\nhello"],
    "a zero byte": [post(head=CHAT + b"x: a\0b\r\n")],
    "a zero byte behind the length": [post(length=b"%d\0" % len(BODY))],
    "a space before the colon": [CHAT + b"Content-Length : %d\r\n\r\n%b" % (len(BODY), BODY)],
    "no space behind the colon": [CHAT + b"Content-Length:%d\r\n\r\n%b" % (len(BODY), BODY)],
    "two spaces behind the colon": [post(length=b" %d" % len(BODY))],
    "a tab behind the colon": [CHAT + b"Content-Length:\t%d\r\n\r\n%b" % (len(BODY), BODY)],
    "another case": [CHAT + b"content-LENGTH: %d\r\n\r\n%b" % (len(BODY), BODY)],
    "chunks": [CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED],
    "chunks and a length": [post(CHUNKED, CHAT + b"Transfer-Encoding: chunked\r\n")],
    "a length and chunks": [CHAT + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%b" % (5, CHUNKED)],
    "an unknown coding": [post(head=CHAT + b"Transfer-Encoding: x\r\n")],
    "neither length nor chunks": [NO_LENGTH],
    "neither length nor chunks, and a body": [NO_LENGTH + BODY],
    "a wish to go on": [post(head=CHAT + b"Expect: 100-continue\r\n")],
    "a wish to close": [post(head=CHAT + b"Connection: close\r\n")],
    "a wish to upgrade": [post(head=CHAT + b"Connection: upgrade\r\nUpgrade: websocket\r\n")],
    "an old version": [post(head=CHAT.replace(b"1.1", b"1.0"))],
    "an old version that stays": [post(head=CHAT.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n")],
    "a future version": [post(head=CHAT.replace(b"1.1", b"2.0"))],
    "no version": [post(head=CHAT.replace(b" HTTP/1.1", b""))],
    "another method": [post(head=CHAT.replace(b"POST", b"GET"))],
    "another path": [post(head=CHAT.replace(b"/v1/chat", b"/v1/chats"))],
    "a query": [post(head=CHAT.replace(b"completions", b"completions?key=tsk-x"))],
    "another host": [post(head=CHAT.replace(b"localhost", b"example.com"))],
    "a second host": [post(head=CHAT + b"Host: localhost\r\n")],
    "another site": [post(head=CHAT + b"Origin: https://example.com\r\n")],
    "a wrong key": [post(head=CHAT + b"Authorization: Bearer tsk-x\r\n")],
    "settings": [post(head=CHAT + b"x-toolspeak-settings: mode=off\r\n")],
    "an idempotency key": [post(head=CHAT + b"idempotency-key: x\r\n")],
    "another request id": [post(head=CHAT.replace(b"r1", b"r2"))],
    "no request id": [post(head=CHAT.replace(b"x-request-id: r1\r\n", b""))],
    "a large body": [post(BODY.replace(b"Hello?", b"x" * 200_000))],
    "a body of a megabyte": [post(BODY.replace(b"Hello?", b"x" * 1_000_000))],
    "a large head": [post(head=CHAT + b"x: %b\r\n" % (b"y" * 40_000))],
    "nonsense": [b"\x00\r\n\r\n"],
}


async def exchange(reads: Sequence[bytes], *, knows: bool) -> tuple[object, ...]:
    """Return everything that can be seen when a client sends these reads twice, after an ordinary request."""
    server = Server(knows=knows)
    first = await server.ask(post())
    results = [await server.ask(*reads)]
    server.connect()
    results.append(await server.ask(*reads))
    counters = server.proxy.app.lifecycle.metrics.counters
    counted = (counters.requests, counters.responses, counters.events)
    return first, results, server.proxy.asked, counted, server.proxy.wire.closed


@pytest.mark.requirement("R-T7", "R-T11")
@check_each("reads", READS.values(), ids=READS.keys())
def test_a_client_gets_the_same_bytes_whether_heads_are_known_or_not(reads: list[bytes]):
    seen = [asyncio.run(exchange(reads, knows=knows)) for knows in (True, False)]
    assert seen[0] == seen[1]


@check_each(
    ("name", "known"),
    [
        ("the same", True),
        ("another body", True),
        ("a stream", True),
        ("leading zeros", True),
        ("a large body", True),
        ("two after each other", False),
        ("no space behind the colon", False),
        ("a body in another read", False),
        ("two at once", False),
        ("another request id", False),
    ],
)
def test_a_known_head_is_not_checked_again(name: str, known: bool):
    async def scenario() -> int:
        server = Server()
        await server.ask(post())
        server.checked.clear()
        await server.ask(*READS[name])
        return len(server.checked)

    assert (asyncio.run(scenario()) == 0) is known


# ---- which data is one request

Parsed = tuple[list[tuple[bytes, bytes]], bytes]


class Parser:
    """All complete requests that the parser finds in some data."""

    def __init__(self, data: bytes) -> None:
        self.found: list[Parsed] = []
        self._complete = True
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.found = []
        self.only = self.found[0] if len(self.found) == 1 and self._complete else None

    def on_message_begin(self) -> None:
        self._complete, self._headers, self._body = False, [], b""

    def on_url(self, url: bytes) -> None:
        self._headers.append((b"", url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._complete = True
        self.found.append((self._headers, self._body))


LINES = st.sampled_from(
    [
        b"Host: localhost",
        b"Content-Length: 5",
        b"content-length: 5",
        b"content-length:5",
        b"Content-Length:  5",
        b"Content-Length:\t5",
        b"Content-Length: ",
        b"Content-Length: 05",
        b"Content-Length: 0",
        b"Content-Length: 20",
        b"Content-Length: 1234567",
        b" content-length: 5",
        b" 5",
        b"\t",
        b"x: content-length: 5",
        b"x-content-length: 5",
        b"content-length: 5\n",
        b"content-length: 5\0",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: identity",
        b"Connection: close",
        b"x: y",
        b"",
    ]
)
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\r\r\n"])
BODIES = st.sampled_from(
    [b"", b"hello", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"\r\ncontent-length: 5\r\n\r\nhello"]
)
REQUESTS = st.builds(
    lambda start, lines, body: b"".join([start, b"POST / HTTP/1.1\r\n", *(a + b for a, b in lines), b"\r\n", body]),
    st.sampled_from([b"", b"", b"\r\n", b"\n"]),
    st.lists(st.tuples(LINES, ENDS), max_size=4),
    BODIES,
)


def without_lengths(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name != b"content-length"]


def resized(data: bytes, at: int, length: int) -> bytes:
    """The data with another number, the one that begins at a place, and as long a body."""
    end = at
    while data[end : end + 1].isdigit():
        end += 1
    head, mark, _ = (data[:at] + b"%d" % length + data[end:]).partition(b"\r\n\r\n")
    return head + mark + b"y" * length


@pytest.mark.requirement("R-T11")
@given(st.lists(REQUESTS, min_size=1, max_size=3), st.sampled_from([0, 1, 7, 50]))
def test_data_with_a_known_head_is_one_request_for_the_parser_too(found: list[bytes], length: int):
    heads = KnownHeads()
    known: dict[bytes, list[tuple[bytes, bytes]]] = {}
    numbers = [(data, at) for data in found for at in range(1, len(data)) if data[at : at + 1] in (b"0", b"2", b"5")]
    for data in [*found, *(resized(data, at, length) for data, at in numbers)]:
        split, only = heads.split(data), Parser(data).only
        if split is None:
            continue
        if split[0] in known:
            assert only is not None
            assert without_lengths(only[0]) == known[split[0]]
            assert only[1] == split[1]
        elif only is not None:
            known[split[0]] = without_lengths(only[0])
            assert only[1] == split[1]


@check_each(
    ("data", "body"),
    [
        (post(), BODY),
        (post(b""), b""),
        (post(length=b"000061"), BODY),
        (post(length=b"0000061"), None),
        (b"\r\n" + post(), BODY),
        (b"\r\n\r\n" + post(), None),
        (post() + b"x", None),
        (post()[:-1], None),
        (NO_LENGTH, None),
        (b"", None),
        (b"\r\n\r\n", None),
        (CHAT + b"Content-Length: 5\r\n 0\r\n\r\nhello", b"hello"),  # the parser refuses it
    ],
)
def test_only_data_that_is_one_request_is_split(data: bytes, body: bytes | None):
    split = KnownHeads().split(data)
    assert (split and split[1]) == body


def test_hashes_differ_between_servers_and_heads():
    heads = KnownHeads()
    split = heads.split(post())
    assert split is not None and heads.split(post(said("And you?"))) != split
    assert (heads.split(post(said("And you?"))) or (b"",))[0] == split[0]
    others = [post(head=CHAT + b"x: y\r\n"), post().replace(b"Content-L", b"content-l"), b"\r\n" + post()]
    assert split[0] not in {(heads.split(data) or (b"",))[0] for data in others}
    assert KnownHeads().split(post()) != split


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_heads, "_MAX_HEADS", 3)

    async def scenario() -> list[int]:
        server = Server()
        sizes: list[int] = []
        for number in range(8):
            answer = await server.ask(post(head=CHAT.replace(b"r1", b"r%d" % number)))
            assert b"x-request-id: r%d\r\n" % number in answer
            sizes.append(len(server.known))
        return sizes

    assert asyncio.run(scenario()) == [1, 2, 3, 1, 2, 3, 1, 2]


# ---- who is admitted


def with_key(name: str, key: str, head: bytes = CHAT) -> bytes:
    return post(head=head + f"{name}: {key}\r\n".encode())


@pytest.mark.requirement("R-T7")
def test_a_revoked_key_is_refused_at_once():
    async def scenario() -> None:
        server = Server(required=True)
        key, others = (server.keys.new(name)[1] for name in ("anna", "otto"))
        for _ in range(2):
            assert b" 200 " in await server.ask(with_key("x-api-key", key))
        assert len(server.checked) == 1
        server.keys.revoke("otto")
        assert b" 200 " in await server.ask(with_key("x-api-key", key))
        assert len(server.checked) == 2  # checked again, because something has changed
        assert b" 200 " in await server.ask(with_key("x-api-key", key))
        assert len(server.checked) == 2
        server.keys.revoke("anna")
        server.connect()
        for _ in range(2):
            assert b" 401 " in await server.ask(with_key("x-api-key", key))
        assert b" 401 " in await server.ask(with_key("x-api-key", others))
        server.keys.new("berta")
        assert b" 401 " in await server.ask(with_key("x-api-key", key))

    asyncio.run(scenario())


@pytest.mark.requirement("R-T7")
def test_a_key_that_is_revoked_while_it_is_checked_is_refused_afterwards():
    async def scenario() -> None:
        server = Server(required=True)
        key = server.keys.new("anna")[1]
        take = server.proxy.app.take

        def revoking(http: HttpRequest) -> bool:
            server.keys.revoke("anna")  # by another process
            return take(http)

        server.proxy.app.take = revoking  # type: ignore[method-assign]
        assert b" 200 " in await server.ask(with_key("x-api-key", key))
        server.proxy.app.take = take  # type: ignore[method-assign]
        assert b" 401 " in await server.ask(with_key("x-api-key", key))

    asyncio.run(scenario())


@check_each("versions", [(None, None), (None, 1), (1, None)])
def test_nothing_is_remembered_while_the_version_of_the_keys_is_unknown(versions: tuple[object, object]):
    async def scenario() -> int:
        server = Server()
        found = iter(versions)
        app = server.proxy.app
        app.version = lambda: next(found, None)
        server.access.version = lambda: versions[1]
        assert b" 200 " in await server.ask(post())
        assert b" 200 " in await server.ask(post())
        return len(server.checked)

    assert asyncio.run(scenario()) == 2


@pytest.mark.requirement("R-T7")
def test_a_key_in_another_place_is_checked_again():
    async def scenario() -> None:
        server = Server(required=True)
        key = server.keys.new("anna")[1]
        ways = [
            with_key("x-api-key", key),
            with_key("X-Api-Key", key),
            with_key("api-key", key),
            with_key("Authorization", f"Bearer {key}"),
            with_key("authorization", f"bearer {key}"),
        ]
        for count, data in enumerate(ways, 1):
            assert b" 200 " in await server.ask(data)
            assert len(server.checked) == count
        for data in ways:
            assert b" 200 " in await server.ask(data)
        assert len(server.checked) == len(ways)
        for wrong in [
            post(),
            with_key("x-api-key", key.upper()),
            with_key("x-api-key", key[:-1]),
            with_key("x-api-key", key + "x"),
            with_key("x-own-key", key),
            with_key("Authorization", f"Basic {key}"),
            post(head=CHAT + b"x: y\r\n x-api-key: %b\r\n" % key.encode()),
        ]:
            assert b" 200 " not in await server.ask(wrong)
            server.connect()

    asyncio.run(scenario())


def strings(value: Any) -> Iterator[bytes]:
    """All texts in an object."""
    match value:
        case str():
            yield value.encode()
        case bytes():
            yield value
        case dict():
            yield from strings([*value.items()])
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from strings(each)
        case msgspec.Struct():
            yield from strings(msgspec.structs.astuple(value))
        case _:
            assert value is None or isinstance(value, int | float)


@pytest.mark.requirement("R-T7")
def test_no_credential_is_kept_with_a_head():
    async def scenario() -> tuple[list[bytes], str]:
        server = Server(required=True)
        key = server.keys.new("anna")[1]
        escaped = "".join(f"%{byte:02x}" for byte in key.encode())
        session = server.access.sessions.begin()
        path = CHAT.replace(b"completions", b"completions?%b")
        for data in [
            with_key("x-api-key", key),
            with_key("Authorization", f"Bearer {key}"),
            with_key("x-goog-api-key", key),
            with_key("cookie", f"a={key}", CHAT + b"x-api-key: %b\r\n" % key.encode()),
            with_key("cookie", f"{COOKIE}={session}"),
            with_key("x-own-header", key, CHAT + b"x-api-key: %b\r\n" % key.encode()),
            post(head=path.replace(b"%b", b"key=" + key.encode())),
            post(head=path.replace(b"%b", b"k%65y=" + escaped.encode())),
            post(head=path.replace(b"%b", b"beta=true") + b"x-api-key: %b\r\n" % key.encode()),
        ]:
            assert b" 200 " in await server.ask(data)
        assert len(server.known) == 6
        return list(strings(server.known)), key

    kept, key = asyncio.run(scenario())
    secret = key.encode().lower()
    assert not [text for text in kept if secret in text.lower() or secret.hex().encode() in text.lower()]
    assert not [text for text in kept if base64.b64encode(key.encode()) in text]
    assert b"beta=true" in kept and b"r1" in kept


@pytest.mark.requirement("R-T7")
def test_callers_whose_own_keys_are_forwarded_are_not_remembered():
    async def scenario() -> int:
        server = Server(auth="forward")
        for _ in range(2):
            assert b" 200 " in await server.ask(with_key("Authorization", "Bearer sk-own"))
        assert server.known == {} and not server.guard._callers
        return len(server.checked)

    assert asyncio.run(scenario()) == 2


OWN_KEY = b"private.word.of.a.client"
#: Heads with keys that no upstream uses: before and after the length, several of them, with white space.
OWN_KEYS = [
    CHAT + b"Authorization: Bearer OWN\r\nContent-Length: LENGTH\r\n",
    CHAT + b"Content-Length: LENGTH\r\nAuthorization: Bearer OWN\r\n",
    CHAT + b"x-api-key: other\r\nContent-Length: LENGTH\r\nX-Goog-Api-Key:\tOWN \r\n",
    CHAT + b"authorization: OWN\r\nx-api-key:OWN\r\ncontent-length: LENGTH\r\n",
]


@pytest.mark.requirement("R-T7")
@check_each("head", OWN_KEYS)
def test_own_keys_that_no_upstream_uses_are_redacted_and_kept_nowhere(head: bytes):
    async def scenario() -> None:
        server = Server()
        own = head.replace(b"OWN", OWN_KEY)
        for text in (
            "Hello?",
            f"My key is {OWN_KEY.decode()}.",
            f"It still is {OWN_KEY.decode()}, and longer than before.",
        ):
            body = said(text)
            assert b" 200 " in await server.ask(own.replace(b"LENGTH", b"%d" % len(body)) + b"\r\n" + body)
        app = server.proxy.app
        assert len(server.checked) == len(server.known) == len(server.guard._callers) == 1
        known = [(each.scope, each.caller, each.keys) for each in server.known.values()]
        callers = [recipe.identified[0] for recipe in app._gateway._recipes.values()]
        assert callers and not [text for text in strings([known, callers]) if OWN_KEY in text]
        assert [*app._gateway._targets]
        assert app._recorder is not None
        shown = [detail(entry) for entry in app._recorder.after(0)]
        assert len(shown) == 3 and OWN_KEY not in msgspec.json.encode(shown)
        assert [b"My key is" in msgspec.json.encode(each) for each in shown] == [False, True, False]

    asyncio.run(scenario())


def test_own_keys_are_used_as_soon_as_an_upstream_wants_them():
    async def scenario() -> None:
        server = Server()
        data = with_key("Authorization", "Bearer sk-own")
        assert b" 200 " in await server.ask(data) and len(server.known) == 1
        await server.proxy.app.replace(Server(auth="forward").proxy.app._gateway)
        await server.ask(data)
        assert len(server.checked) == 2

    asyncio.run(scenario())


@pytest.mark.requirement("R-T7")
def test_page_sessions_are_not_remembered():
    async def scenario() -> None:
        server = Server(required=True)
        session = server.access.sessions.begin()
        data = with_key("cookie", f"{COOKIE}={session}")
        for _ in range(2):
            assert b" 200 " in await server.ask(data)
        assert server.known == {}

    asyncio.run(scenario())


def test_the_id_and_the_trace_of_a_request_are_kept():
    trace = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\n"

    async def scenario() -> None:
        server = Server()
        scopes: list[Any] = []
        take = server.proxy.app.take

        def taking(http: HttpRequest) -> bool:
            scopes.append(http.scope)
            return take(http)

        server.proxy.app.take = taking  # type: ignore[method-assign]
        for _ in range(2):
            assert b"x-request-id: r1\r\n" in await server.ask(post(head=CHAT + trace + b"x-own: y\r\n"))
        first, second = scopes
        kept = [each for each in first["headers"] if each[0] in (b"x-request-id", b"traceparent", b"tracestate")]
        assert second["headers"] == kept and len(kept) == 3
        assert {**first, "headers": kept} == second

    asyncio.run(scenario())


def test_the_addresses_are_those_of_the_connection():
    async def scenario() -> tuple[Any, Any]:
        server = Server()
        await server.ask(post())
        connection = server.connect()
        connection._addresses = {"server": ("::1", 8000), "client": ("::1", 5), "scheme": "https"}
        await server.ask(post())
        assert connection.newest is not None
        assert len(server.checked) == 1
        return connection.newest.scope, connection._addresses

    scope, addresses = asyncio.run(scenario())
    assert {**scope, **addresses} == scope


def test_a_full_server_refuses_requests_with_known_heads_too():
    async def scenario() -> bytes:
        server = Server()
        await server.ask(post())
        server.proxy.connection._max_connections = 1
        return await server.ask(post())

    assert b" 503 " in asyncio.run(scenario())


# ---- time


class Clock:
    """An event loop whose time is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Any, Callable[[], object]]] = []
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> Any:
        timer = asyncio.TimerHandle(when, lambda: None, (), self._loop)
        self.timers.append((when, timer, callback))
        return timer

    def call_later(self, delay: float, callback: Callable[[], object]) -> Any:
        return self.call_at(self.now + delay, callback)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [each for each in self.timers if each[0] <= end and not each[1].cancelled()]:
            first = min(due, key=lambda each: each[0])
            self.timers.remove(first)
            self.now = max(self.now, first[0])
            first[2]()
        self.now = end

    @property
    def waiting(self) -> int:
        return sum(not timer.cancelled() for _, timer, _ in self.timers)


def timed(scenario: Callable[[Server, Clock], Any], *, knows: bool = True) -> None:
    async def whole() -> None:
        server = Server(knows=knows)
        await server.ask(post())
        clock = Clock()
        server.connect(clock)  # type: ignore[arg-type]
        server.proxy.connection._keep_alive_seconds = 5
        await scenario(server, clock)

    asyncio.run(whole())


@pytest.mark.requirement("R-T11")
@pytest.mark.parametrize("knows", [True, False])
def test_an_answer_on_a_new_connection_takes_its_time(knows: bool):
    async def scenario(server: Server, clock: Clock) -> None:
        proxy = server.proxy
        proxy.connection.data_received(post(BODY[:-1] + b',"stream":true}'))
        connection, wire = proxy.up[-1] if proxy.up[-1][1].said else proxy.up[0]
        wire.said = b""
        whole = stream([{"content": "one "}, {"content": "two"}])
        clock.pass_time(60)
        connection.data_received(whole[:-40])
        clock.pass_time(60)
        assert not proxy.wire.closed and b" 408 " not in proxy.wire.said
        connection.data_received(whole[-40:])
        assert proxy.wire.said.endswith(b"0\r\n\r\n") and not proxy.wire.closed
        clock.pass_time(4)
        assert not proxy.wire.closed
        clock.pass_time(2)
        assert proxy.wire.closed

    timed(scenario, knows=knows)


@pytest.mark.requirement("R-T11")
@pytest.mark.parametrize("knows", [True, False])
def test_only_idle_connections_are_closed(knows: bool):
    async def scenario(server: Server, clock: Clock) -> None:
        wire = server.proxy.wire
        for _ in range(10):  # each request moves the end
            assert b" 200 " in await server.ask(post())
            clock.pass_time(3)
            assert not wire.closed
            assert clock.waiting == 1
        server.proxy.connection.data_received(post()[:30])
        clock.pass_time(6)
        assert not wire.closed  # a request has begun
        assert b" 200 " in await server.ask(post()[30:])
        clock.pass_time(4.5)
        assert not wire.closed
        server.proxy.connection.data_received(b"\r\n")
        clock.pass_time(4.5)
        assert not wire.closed
        assert b" 200 " in await server.ask(post())
        clock.pass_time(4.9)
        assert not wire.closed
        clock.pass_time(0.2)
        assert wire.closed

    timed(scenario, knows=knows)


@pytest.mark.requirement("R-T11")
def test_a_lost_connection_leaves_no_timer():
    async def scenario(server: Server, clock: Clock) -> None:
        await server.ask(post())
        assert clock.waiting == 1
        server.proxy.connection.connection_lost(None)
        assert clock.waiting == 0

    timed(scenario)
