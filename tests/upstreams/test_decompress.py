"""Compressed bodies: any cut, the right cap, nothing made before it is allowed."""

from __future__ import annotations

import gzip
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.upstreams.faulty_service import deflated
from tests.upstreams.loopback_server import cut
from toolspeak.errors import UpstreamError
from toolspeak.upstreams.http import event_stream
from toolspeak.upstreams.http.event_stream import MAX_MEMBERS, RATIO_FREE_BYTES, Inflater, inflater


def _made(coding: str) -> Inflater:
    made = inflater(coding)
    assert made is not None
    return made


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": deflated,
    "identity, gzip": gzip.compress,
    "gzip, Identity,": gzip.compress,
    " Deflate ": lambda data: deflated(data, -zlib.MAX_WBITS),
}


@pytest.mark.requirement("R-F20")
@given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from(sorted(PACKED)))
def test_any_body_comes_out_as_it_went_in_wherever_it_is_cut(body: bytes, size: int, coding: str):
    made = _made(coding)
    assert b"".join(made.feed(piece) for piece in cut(PACKED[coding](body), size)) == body
    assert made.complete


@check_each("coding", ["", "identity", " Identity ", "identity, ,identity", ","])
def test_what_is_not_compressed_needs_nothing(coding: str):
    assert inflater(coding) is None


@check_each("coding", ["br", "zstd", "compress", "gzip, br", "gzip,gzip", "identity, br", "gzip gzip"])
def test_what_is_not_known_is_refused(coding: str):
    with pytest.raises(UpstreamError, match="not requested"):
        inflater(coding)


def test_nothing_at_all_is_whole_and_a_beginning_is_not():
    made = _made("gzip")
    assert made.complete
    made.feed(gzip.compress(b"hello", mtime=0)[:-1])
    assert not made.complete


def test_what_stands_behind_a_deflated_body_is_dropped():
    assert _made("deflate").feed(deflated(b"hello") + b"junk") == b"hello"


def test_what_stands_behind_a_gzipped_body_must_be_gzip():
    with pytest.raises(UpstreamError, match="compressed reply is invalid"):
        _made("gzip").feed(gzip.compress(b"hello", mtime=0) + b"junk")


@pytest.mark.requirement("R-F20")
@check_each("coding", sorted(PACKED))
def test_a_bomb_stops_where_it_passes_its_cap(coding: str):
    bomb = PACKED[coding](b"\0" * 40 * RATIO_FREE_BYTES)
    made, out = _made(coding), 0
    with pytest.raises(UpstreamError, match="larger than"):
        for piece in cut(bomb, 1000):
            out += len(made.feed(piece))
    assert out <= RATIO_FREE_BYTES + 200 * len(bomb)


def test_the_size_of_a_body_is_bounded_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(event_stream, "MAX_DECOMPRESSED_BYTES", 1000)
    with pytest.raises(UpstreamError, match="larger than 1000 bytes"):
        _made("gzip").feed(gzip.compress(b"x" * 1001, mtime=0))
    assert len(_made("gzip").feed(gzip.compress(b"x" * 1000, mtime=0))) == 1000


@pytest.mark.requirement("R-F20")
@check_each("size", [1, 7, 100_000])
@check_each("padding", [b"", b"\0", b"\0" * 1000])
def test_zeros_behind_a_member_are_no_member(size: int, padding: bytes):
    made = _made("gzip")
    packed = gzip.compress(b"a" * 5000) + padding + gzip.compress(b"b") + padding
    assert b"".join(made.feed(piece) for piece in cut(packed, size)) == b"a" * 5000 + b"b"
    assert made.complete


def test_what_stands_behind_zeros_must_be_a_member():
    with pytest.raises(UpstreamError, match="compressed reply is invalid"):
        _made("gzip").feed(gzip.compress(b"a") + b"\0\0garbage!")


@pytest.mark.requirement("R-T12")
def test_members_that_hold_nothing_take_linear_time_and_are_counted():
    empty = gzip.compress(b"", mtime=0)

    def spent(count: int) -> float:
        made, data = _made("gzip"), empty * count
        begun = time.process_time()
        assert made.feed(data) == b""
        return time.process_time() - begun

    small = min(spent(2_000) for _ in range(3))
    assert min(spent(32_000) for _ in range(2)) < 60 * small
    with pytest.raises(UpstreamError, match=f"more than {MAX_MEMBERS} members"):
        _made("gzip").feed(empty * (MAX_MEMBERS + 1))


def test_a_body_that_goes_on_and_stands_for_nothing_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(event_stream, "MAX_COMPRESSED_BYTES", 1000)
    made = _made("gzip")
    made.feed(gzip.compress(b"a"))
    with pytest.raises(UpstreamError, match="larger than 1000 bytes"):
        made.feed(b"\0" * 1000)
