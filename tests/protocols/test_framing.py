"""Framing: however the bytes are cut, the same events come out, and nothing grows without bound."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.protocols.shared.framing import (
    MAX_EVENT,
    Frame,
    FrameError,
    FrameTemplate,
    NDJSONDecoder,
    ServerEvent,
    SSEDecoder,
    encode_sse,
)


def read(data: bytes, *cuts: int) -> list[Frame]:
    """The events of a stream that arrives in these pieces."""
    decoder = SSEDecoder()
    frames: list[Frame] = []
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        frames += decoder.feed(data[begin:end])
    return frames + decoder.close()


EVENTS: list[tuple[str, bytes, list[Frame]]] = [
    ("nothing", b"", []),
    ("one event", b"data: a\n\n", [b"a"]),
    ("two events", b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ("no space after the colon", b"data:a\n\n", [b"a"]),
    ("only one space is dropped", b"data:  a\n\n", [b" a"]),
    ("carriage returns", b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    ("mixed line ends", b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", [b"a", b"b", b"c"]),
    ("byte order mark", b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    ("a mark elsewhere is data", b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
    ("half a mark", b"\xef\xbb", []),
    ("comments", b": hello\n\n:\ndata: a\n: between\n\n", [b"a"]),
    ("several lines of data", b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"]),
    ("name and id", b"event: x\nid: 7\ndata: a\n\n", [ServerEvent(b"a", "x", "7")]),
    ("a name does not last", b"event: x\ndata: a\n\ndata: b\n\n", [ServerEvent(b"a", "x"), b"b"]),
    ("a name without data", b"event: x\n\ndata: a\n\n", [b"a"]),
    ("retry and unknown fields", b"retry: 10\nfoo: bar\nbaz\ndata: a\n\n", [b"a"]),
    ("data without a colon", b"data\n\n", [b""]),
    ("no blank line at the end", b"data: a\n\ndata: b", [b"a", b"b"]),
    ("no line end at the end", b"data: a\n", [b"a"]),
    ("other line separators", "data: \u2028\u2029\u0085\x0b\x0c\n\n".encode(), ["\u2028\u2029\u0085\x0b\x0c".encode()]),
    ("invalid UTF-8", b"event: \xff\ndata: \xff\n\n", [ServerEvent(b"\xff", "\ufffd")]),
    ("many blank lines", b"\n\n\n\ndata: a\n\n\n\n\n", [b"a"]),
    ("a page", b"<html>\n<body>\n</html>\n", []),
]


@pytest.mark.requirement("R-F10", "R-F11", "R-F12", "R-F13", "R-F14", "R-F15")
@check_each(("data", "expected"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS])
def test_events_are_the_same_whole_byte_by_byte_and_at_every_cut(data: bytes, expected: list[Frame]):
    assert read(data) == expected
    assert read(data, *range(1, len(data))) == expected
    for cut in range(len(data) + 1):
        assert read(data, cut) == expected


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data: x\n\n",
        b"\n",
        b"\r",
        b"\r\n",
        b": c",
        b"event: e",
        b"id: 1",
        b"x",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
    ]
)


@given(st.lists(PIECES, max_size=24), st.randoms(use_true_random=False))
def test_no_grouping_of_the_bytes_changes_the_events(pieces: list[bytes], chance: random.Random):
    data = b"".join(pieces)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(5))
    assert read(data, *cuts) == read(data)


@pytest.mark.requirement("R-F17")
@check_each("length", [9, 10, 11, 40])
@check_each("step", [1, 3, 100])
def test_an_event_up_to_the_limit_is_read_and_a_larger_one_is_an_error(length: int, step: int):
    decoder = SSEDecoder(limit=16)
    data = b"data: ok\n\ndata: " + b"x" * length + b"\n\ndata: late\n\n"
    frames = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
    frames += decoder.close()
    if length <= 10:
        assert frames == [b"ok", b"x" * length, b"late"]
    else:
        assert frames == [b"ok", FrameError("an event is larger than 16 bytes")]


@pytest.mark.requirement("R-F17")
@check_each("step", [1, 8, 100])
def test_many_short_lines_of_one_event_count_together(step: int):
    decoder = SSEDecoder(limit=16)
    data = b"data: abc\n" * 5
    frames = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
    assert frames == [FrameError("an event is larger than 16 bytes")]
    assert decoder.feed(b"\n\n") == []
    assert decoder.close() == []


@pytest.mark.requirement("R-F17")
def test_a_line_of_a_megabyte_is_accepted():
    line = b"x" * 1_000_000
    decoder = SSEDecoder()
    assert len(line) < MAX_EVENT
    assert [frame for at in range(0, len(line), 4096) for frame in decoder.feed(line[at : at + 4096])] == []
    assert read(b"data: " + line + b"\n\n") == [line]


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@check_each("unit", [b"x", b"data: x\n", b"\r", b": c\n", b"data: x\n\n"], ids=repr)
def test_time_is_linear_in_the_length(unit: bytes):
    def spent(size: int) -> float:
        decoder = SSEDecoder()
        data = unit * (size // len(unit))
        begun = time.process_time()
        for at in range(0, len(data), 16):
            decoder.feed(data[at : at + 16])
        return time.process_time() - begun

    small = min(spent(100_000) for _ in range(3))
    assert min(spent(400_000) for _ in range(3)) < 10 * small


# ------------------------------------------------------------------------------------------------- lines of JSON

LINES: list[tuple[str, bytes, list[bytes]]] = [
    ("nothing", b"", []),
    ("two documents", b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    ("CRLF and blank lines", b'{"a":1}\r\n\r\n  \n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    ("no line end at the end", b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
    ("blanks at the end", b'{"a":1}\n  ', [b'{"a":1}']),
    ("byte order mark", b"\xef\xbb\xbf1\n", [b"1"]),
]


@check_each(("data", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_documents_on_lines_are_the_same_at_every_cut(data: bytes, expected: list[bytes]):
    for step in (1, 2, 3, 100):
        decoder = NDJSONDecoder()
        found = [line for at in range(0, len(data), step) for line in decoder.feed(data[at : at + step])]
        assert found + decoder.close() == expected


@check_each("step", [1, 100])
def test_a_document_beyond_the_limit_is_an_error(step: int):
    decoder = NDJSONDecoder(limit=4)
    data = b"1234\n12345\n1\n"
    found = [line for at in range(0, len(data), step) for line in decoder.feed(data[at : at + step])]
    assert found + decoder.close() == [b"1234", FrameError("a line is longer than 4 bytes")]


# ------------------------------------------------------------------------------------------------------- writing


@check_each(
    ("data", "event", "expected"),
    [
        (b"a", "", b"data: a\n\n"),
        (b"a", "x", b"event: x\ndata: a\n\n"),
        (b"a\nb\r\nc\rd", "", b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
    ],
)
def test_an_event_is_written_as_it_is_read(data: bytes, event: str, expected: bytes):
    assert encode_sse(data, event) == expected
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert read(expected) == [ServerEvent(text, event) if event else text]


# ----------------------------------------------------------------------------------------------------- templates

FRAME = b'data: {"a":1,"text":"hi","b":2}\n\n'


def learned(
    read: bytes = FRAME, payload: bytes = b'{"a":1,"text":"hi","b":2}', text: str = "hi"
) -> FrameTemplate | None:
    return FrameTemplate.learn(read, payload, b'"text":', text)


@check_each(
    ("data", "text"),
    [
        (FRAME, "hi"),
        (FRAME.replace(b"hi", b"x\\n\\u00e9"), "x\né"),
        (FRAME * 3, "hihihi"),
        (FRAME + FRAME.replace(b"hi", "é".encode()), "hié"),
        (FRAME.replace(b"hi", b""), ""),
    ],
)
def test_a_template_reads_frames_that_differ_by_their_text_only(data: bytes, text: str):
    template = learned()
    assert template is not None
    assert template.read(data) == text


@check_each(
    "data",
    [
        b"",
        FRAME[:-1],
        FRAME[1:],
        FRAME + b"\n",
        FRAME.replace(b'"b":2', b'"b":3'),
        FRAME + FRAME.replace(b'"b":2', b'"b":3') + FRAME,
        FRAME.replace(b'"hi"', b'"hi","more":"x"'),
        FRAME + FRAME.replace(b'"hi"', b'"hi","x"'),
        FRAME.replace(b'"hi"', b"12"),
        FRAME.replace(b'"hi"', b""),
        FRAME.replace(b"hi", b"\xff"),
        FRAME.replace(b"hi", b"\n"),
        FRAME + FRAME.replace(b"hi", b"\xff"),
        b'data: {"a":1,"text":',
    ],
)
def test_a_template_refuses_everything_else(data: bytes):
    template = learned()
    assert template is not None
    assert template.read(data) is None


@check_each(
    ("data", "payload"),
    [
        (b'data:{"text": "hi"}\n\n', b'{"text": "hi"}'),
        (b'data: {"text":"hi"}\r\n\r\n', b'{"text":"hi"}'),
    ],
)
def test_a_template_is_learned_from_any_style(data: bytes, payload: bytes):
    template = learned(data, payload)
    assert template is not None
    assert template.read(data * 2) == "hihi"


@check_each(
    "payload",
    [
        b'{"other":"hi"}',
        b'{"text":"no"}',
        b'{"text":"hi","in":{"text":"hi"}}',
        b'{"text":"hi","t\\u0065xt":"hi"}',
        b'{"text":"hi",\n"a":1}',
    ],
)
def test_no_template_is_learned_where_it_could_mislead(payload: bytes):
    assert learned(b"data: " + payload + b"\n\n", payload) is None
