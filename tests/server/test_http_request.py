"""What stands on the wire for the messages of an answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.cases import check_each
from toolspeak.server.http.http_request import HttpRequest

DATE = (b"date", b"Thu, 01 Jan 2026 00:00:00 GMT")
HEAD = b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"


class Wire:
    """The connection of a client: what was written, each time, and whether it was closed."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.answered = 0
        self.write_paused = False
        self.readable = asyncio.Event()
        self.default_headers = [DATE]

    @property
    def transport(self) -> Any:
        return self

    server_state = transport

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    async def drain(self) -> None:
        await self.readable.wait()

    def response_ended(self) -> None:
        self.answered += 1


def request_on(wire: Wire, method: str = "POST", keep_alive: bool = True) -> HttpRequest:
    return HttpRequest(cast(Any, wire), {"method": method}, keep_alive=keep_alive)


def send(request: HttpRequest, *messages: dict[str, Any]) -> None:
    async def sent() -> None:
        for message in messages:
            await request.send(message)

    asyncio.run(sent())


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def test_an_answer_in_one_piece_is_one_write():
    wire = Wire()
    request = request_on(wire)
    send(request, start((b"content-length", b"2")), body(b"ok"))
    assert wire.writes == [HEAD + b"content-length: 2\r\n\r\nok"]
    assert (request.response_complete, wire.answered, wire.closed) == (True, 1, False)


def test_a_stream_is_sent_piece_by_piece_and_its_head_with_the_first():
    wire = Wire()
    send(request_on(wire), start(), body(b"one", True), body(b"", True), body(b"two"))
    assert wire.writes == [
        HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n",
        b"3\r\ntwo\r\n0\r\n\r\n",
    ]


@check_each(
    ("method", "headers", "status", "written"),
    [
        ("HEAD", [(b"content-length", b"5")], 200, HEAD + b"content-length: 5\r\n\r\n"),
        ("HEAD", [], 200, HEAD + b"\r\n"),
        ("DELETE", [], 204, HEAD.replace(b"200 OK", b"204 No Content") + b"\r\n"),
    ],
)
def test_some_answers_have_no_body(method: str, headers: list[tuple[bytes, bytes]], status: int, written: bytes):
    wire = Wire()
    send(request_on(wire, method), start(*headers, status=status), body(b"" if status == 204 else b"12345"))
    assert wire.writes == [written]


@check_each(("keep_alive", "headers"), [(False, []), (True, [(b"connection", b"close")])])
def test_a_connection_that_is_not_kept_is_said_to_end_and_ends(keep_alive: bool, headers: list[tuple[bytes, bytes]]):
    wire = Wire()
    send(request_on(wire, keep_alive=keep_alive), start(*headers, (b"content-length", b"0")), body(b""))
    assert wire.writes == [HEAD + b"content-length: 0\r\nconnection: close\r\n\r\n"]
    assert wire.closed


@check_each("value", [b"a\r\nx-other: b", b"a\nb", b"a\rb"])
def test_no_header_begins_another_line(value: bytes):
    wire = Wire()
    request = request_on(wire)
    with pytest.raises(RuntimeError, match="line break"):
        send(request, start((b"x-one", value)))
    assert not request.response_started


@check_each("pieces", [[body(b"1")], [body(b"123")], [body(b"123", True)], [body(b"12"), body(b"")]])
def test_a_body_that_its_head_does_not_tell_of_is_a_mistake(pieces: list[dict[str, Any]]):
    with pytest.raises(RuntimeError):
        send(request_on(Wire()), start((b"content-length", b"2")), *pieces)


def test_nothing_is_written_to_who_has_left():
    wire = Wire()
    request = request_on(wire)
    request.disconnected = True
    send(request, start(), body(b"x"))
    assert wire.writes == []


def test_a_client_that_does_not_read_is_waited_for():
    wire = Wire()
    request = request_on(wire)

    async def sent() -> list[int]:
        wire.write_paused = True
        task = asyncio.ensure_future(request.send(start()))
        await asyncio.sleep(0)
        seen = [int(request.response_started)]
        wire.readable.set()
        await task
        return [*seen, int(request.response_started)]

    assert asyncio.run(sent()) == [0, 1]
