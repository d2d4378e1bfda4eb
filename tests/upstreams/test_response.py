"""One HTTP response, read from bytes wherever they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.upstreams.loopback_server import chunked, cut, head
from toolspeak.upstreams.http.connection import MAX_HEAD_BYTES, HttpResponse

TEXT = "Grüße aus Köln 🌧".encode()

#: name -> (bytes, the body they carry, complete before the end of the connection)
RESPONSES = {
    "by length": (head(f"Content-Length: {len(TEXT)}") + TEXT, TEXT, True),
    "in chunks": (head("Transfer-Encoding: chunked") + chunked(cut(TEXT, 3)), TEXT, True),
    "with an extension": (head("Transfer-Encoding: chunked") + b"2;x=y\r\nhi\r\n0\r\n\r\n", b"hi", True),
    "with a trailer": (head("Transfer-Encoding: chunked") + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n", b"hi", True),
    "to the end": (head("Connection: close") + TEXT, TEXT, False),
    "old": (b"HTTP/1.0 200 OK\r\n\r\n" + TEXT, TEXT, False),
    "nothing": (head(status="204 No Content"), b"", True),
    "empty": (head("Content-Length: 0"), b"", True),
    "after a hint": (
        head(status="100 Continue") + head("Link: </a>", status="103 Early Hints") + head("Content-Length: 2") + b"hi",
        b"hi",
        True,
    ),
    "more than it said": (head("Content-Length: 2") + b"hi" + head("Content-Length: 1") + b"x", b"hi", True),
    "more after the close": (head("Content-Length: 2", "Connection: close") + b"hi there", b"hi", True),
}
each = check_each(("data", "body", "complete"), RESPONSES.values(), ids=RESPONSES.keys())


def _read(pieces: list[bytes]) -> tuple[HttpResponse, bytes]:
    response = HttpResponse()
    return response, b"".join(response.feed(piece) for piece in pieces)


@each
@check_each("size", [1, 2, 7, 10_000])
def test_a_response_is_read_wherever_it_is_cut(data: bytes, body: bytes, complete: bool, size: int):
    response, found = _read(cut(data, size))
    assert (found, response.complete, response.started) == (body, complete, True)
    assert response.end()
    assert response.status in (200, 204)


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=6), st.integers(1, 30))
def test_any_body_in_any_chunks_comes_out_as_it_went_in(body: bytes, sizes: list[int], size: int):
    pieces, at = [], 0
    for length in sizes:
        pieces.append(body[at : at + length])
        at += length
    response, found = _read(cut(head("Transfer-Encoding: chunked") + chunked([*pieces, body[at:]]), size))
    assert (found, response.complete) == (body, True)


def test_headers_are_found_by_lower_case_name_and_trailers_are_no_headers():
    data = head("Content-Type: text/html", "X-Twice: 1", "x-twice: 2", "Transfer-Encoding: chunked")
    response, _ = _read([data + b"0\r\nContent-Type: text/plain\r\n\r\n"])
    assert response.headers == {"content-type": "text/html", "x-twice": "2", "transfer-encoding": "chunked"}


def test_headers_of_a_hint_do_not_belong_to_the_response():
    response, _ = _read([head("X-Hint: 1", status="103 Early Hints") + head("Content-Length: 0")])
    assert response.headers == {"content-length": "0"}


@check_each(
    "data",
    [
        b"",
        head("Content-Length: 5")[:-2],
        head("Content-Length: 5") + b"four",
        head("Transfer-Encoding: chunked") + chunked([b"hi"], last=False),
        head("Transfer-Encoding: chunked") + b"5\r\nhi",
        head(status="100 Continue"),
    ],
)
def test_a_response_that_ends_too_early_is_not_whole(data: bytes):
    response, _ = _read([data] if data else [])
    assert not response.complete
    assert not response.end()


@check_each(
    "data",
    [
        b"<html>",
        b"SSH-2.0-OpenSSH\r\n",
        head("Content-Length: 2", "Transfer-Encoding: chunked"),
        head("Content-Length: 2", "Content-Length: 3"),
        head("Transfer-Encoding: chunked") + b"zz\r\n",
        head("Upgrade: h2c", "Connection: upgrade", status="101 Switching Protocols"),
    ],
)
def test_what_is_not_one_response_is_refused(data: bytes):
    response, _ = _read([data])
    assert "not HTTP" in str(response.error)


def _many(line: bytes) -> bytes:
    return line * (MAX_HEAD_BYTES // len(line) + 2000)


@check_each(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n" + _many(b"X-Filler: 0123456789\r\n"),
        b"HTTP/1.1 200 OK\r\nX-Filler: " + _many(b"x"),
        _many(head(status="100 Continue")),
        head("Transfer-Encoding: chunked") + b"2\r\nhi\r\n0\r\nX-Filler: " + _many(b"x") + b"\r\n\r\n",
    ],
    ids=["many headers", "one long header", "hints without end", "a long trailer"],
)
def test_a_head_without_end_is_refused(data: bytes):
    for size in (1000, len(data)):
        response, _ = _read(cut(data, size))
        assert "longer than" in str(response.error)
        assert not response.complete


def _long_head(size: int) -> bytes:
    """A hint and a head that are this long together."""
    hint, plain = head(status="100 Continue"), head("X-Filler: ", "Content-Length: 2")
    return hint + plain.replace(b"X-Filler: ", b"X-Filler: " + b"x" * (size - len(hint) - len(plain)))


@check_each("size", [1, 1000, MAX_HEAD_BYTES, MAX_HEAD_BYTES + 1, 2 * MAX_HEAD_BYTES])
@check_each("behind", [b"", b"h", b"hi"])
def test_how_long_a_head_may_be_does_not_depend_on_cuts(size: int, behind: bytes):
    response, body = _read(cut(_long_head(MAX_HEAD_BYTES) + behind, size))
    assert (response.error, response.status, body) == (None, 200, behind)
    response, body = _read(cut(_long_head(MAX_HEAD_BYTES + 1) + behind, size))
    assert "longer than" in str(response.error)
    assert (response.started, body) == (False, b"")


@check_each("size", [1, 1000, 10 * MAX_HEAD_BYTES])
def test_a_long_trailer_is_refused_wherever_it_is_cut(size: int):
    trailer = b"0\r\nX-Filler: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"
    response, body = _read(cut(head("Transfer-Encoding: chunked") + b"2\r\nhi\r\n" + trailer, size))
    assert "longer than" in str(response.error)
    assert (response.complete, response.end(), body) == (False, False, b"hi")


@check_each("size", [1, 7, 9999])
@check_each("status", ["099 Early", "000 None"])
def test_a_status_that_is_none_is_refused_at_once(status: str, size: int):
    response, body = _read(
        cut(head("Content-Length: 2", status=status) + b"hi" + head("Content-Length: 1") + b"x", size)
    )
    assert "status" in str(response.error)
    assert (response.started, response.complete, body) == (False, False, b"")


def test_content_encodings_of_two_headers_are_one_list():
    response, _ = _read([head("Content-Encoding: gzip", "content-encoding: identity", "Content-Length: 0")])
    assert response.header(b"content-encoding") == response.headers["content-encoding"] == "gzip, identity"


@check_each("size", [1, 7, 9999])
def test_what_came_before_an_error_counts_wherever_it_is_cut(size: int):
    response, found = _read(cut(head("Transfer-Encoding: chunked") + chunked([b"hi"], last=False) + b"zz\r\n", size))
    assert (found, response.error is None, response.complete) == (b"hi", False, False)


@check_each(
    ("data", "reusable"),
    [
        (head("Content-Length: 2") + b"hi", True),
        (head("Transfer-Encoding: chunked") + chunked([b"hi"]), True),
        (head("Content-Length: 2") + b"hi\r\n", True),
        (head("Content-Length: 2", "Connection: close") + b"hi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False),
        (head("Content-Length: 2") + b"hiH", False),
        (head("Content-Length: 2") + b"hi" + head("Content-Length: 0"), False),
        (head("Content-Length: 2") + b"hi\x00", False),
        (head("Content-Length: 2") + b"h", False),
    ],
)
def test_another_response_may_follow_a_complete_one_and_nothing_else(data: bytes, reusable: bool):
    response, _ = _read([data])
    assert response.reusable == reusable
    assert response.error is None


def test_a_response_can_be_read_after_another():
    response, _ = _read([head("Content-Length: 2", "X-First: 1", status="404 Not Found") + b"no"])
    assert (response.status, response.complete) == (404, True)
    response.restart()
    assert (response.status, response.complete, response.headers) == (0, False, {})
    assert response.feed(head("Content-Length: 3") + b"yes") == b"yes"
    assert (response.status, response.complete, response.reusable) == (200, True, True)
    assert (response.headers, response.header(b"content-length")) == ({"content-length": "3"}, "3")


def test_a_long_body_is_no_long_head():
    data = head("Transfer-Encoding: chunked") + chunked([b"x"] * MAX_HEAD_BYTES)
    assert len(_read(cut(data, 1000))[1]) == MAX_HEAD_BYTES
