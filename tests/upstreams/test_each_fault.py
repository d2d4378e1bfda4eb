"""The list of faults, one after the other: what a service does wrong, and what must come of it."""

from __future__ import annotations

import gzip
import socket
import zlib
from collections.abc import Callable, Iterable
from email.utils import formatdate

import msgspec
import pytest

from tests.cases import check_each
from tests.upstreams.faulty_service import (
    BODY,
    CHUNKED,
    EVENTS,
    GOOD,
    JSON,
    PIECES,
    TEXT,
    TYPE,
    Chaos,
    Do,
    Steps,
    by_length,
    chunk,
    deflated,
    error_event,
    in_order,
    misbehaving,
)
from tests.upstreams.loopback_server import chunked, cut, head
from tests.upstreams.request_helpers import Instant, reply, run
from toolspeak.core.events import Reply
from toolspeak.errors import UpstreamError, UpstreamTimeout
from toolspeak.protocols.shared.framing import MAX_EVENT
from toolspeak.upstreams.http.connection import Timeouts
from toolspeak.upstreams.http.retry import Retry
from toolspeak.upstreams.http.thin_transport import HttpUpstream

NOW = 1_790_000_000.0
#: A time that is over before anybody has noticed.
SOON = 0.05


def refused(status: int, *headers: str) -> bytes:
    return by_length(b'{"error":{"message":"not now"}}', JSON, *headers, status=f"{status} No")


class Asked:
    """What came of one request: a reply or an error, how often it was asked, which waits there were."""

    def __init__(self, *answers: bytes | Steps | str, **options: object) -> None:
        self.error: UpstreamError | None = None
        self.reply = Reply()
        self._instant = Instant(now=NOW)
        self.waits = self._instant.waits
        run(self._talk(answers, options))

    async def _talk(self, answers: Iterable[bytes | Steps | str], options: dict[str, object]) -> None:
        async with misbehaving(in_order(*answers)) as chaos:
            upstream = HttpUpstream(chaos.url, world=self._instant.world, **options)  # type: ignore[arg-type]
            try:
                self.reply = await reply(upstream)
            except UpstreamError as error:
                self.error = error
            self.requests = chaos.requests
            await upstream.close()

    @property
    def notes(self) -> list[str]:
        return [note.code for note in self.reply.notes]

    @property
    def is_whole(self) -> bool:
        return self.error is None and (self.reply.text, self.reply.finish_reason) == (TEXT, "stop")

    def status(self) -> int:
        assert self.error is not None
        return self.error.upstream_status


# ------------------------------------------------------------------------------------------ before the first byte


@pytest.mark.requirement("R-F1")
@check_each(
    ("header", "seconds"),
    [
        ("Retry-After: 7", 7.0),
        ("Retry-After: 0.25", 0.25),
        (f"Retry-After: {formatdate(NOW + 30, usegmt=True)}", 30.0),
        (f"Retry-After: {formatdate(NOW - 30, usegmt=True)}", 0.5),
        ("retry-after-ms: 1500", 1.5),
        ("x-ms-retry-after-ms: 2500", 2.5),
        ("Retry-After: soon", 0.5),
        ("Retry-After: 60", 60.0),
    ],
)
def test_a_service_that_says_when_to_come_back_is_asked_again_then(header: str, seconds: float):
    asked = Asked(refused(429, header), GOOD)
    assert asked.is_whole
    assert (asked.requests, asked.waits, asked.notes) == (2, [seconds], ["upstream_retry"])


@pytest.mark.requirement("R-F1")
@check_each(
    ("header", "timeouts", "seconds"),
    [("Retry-After: 61", None, 61.0), ("Retry-After: 20", Timeouts(total=10), 20.0)],
)
def test_who_is_asked_to_wait_too_long_gets_the_error_at_once(header: str, timeouts: Timeouts | None, seconds: float):
    asked = Asked(refused(429, header), GOOD, timeouts=timeouts)
    assert (asked.status(), asked.requests, asked.waits) == (429, 1, [])
    assert asked.error is not None
    assert asked.error.retry_after == seconds


@pytest.mark.requirement("R-F1", "R-F2")
@check_each("status", [429, 503])
def test_asked_twice_again_at_most_each_time_after_a_longer_wait(status: int):
    asked = Asked(refused(status))
    assert (asked.status(), asked.requests, asked.waits) == (status, 3, [0.5, 1.0])
    assert "3 attempts" in str(asked.error)


@pytest.mark.requirement("R-F2")
def test_retries_are_a_share_of_the_traffic():
    async def talk() -> None:
        async with misbehaving(in_order(refused(503))) as chaos:
            upstream = HttpUpstream(chaos.url, world=Instant().world)
            for _ in range(50):
                with pytest.raises(UpstreamError):
                    await reply(upstream)
            # Ten to begin with, then a fifth of the other 49.
            assert chaos.requests == 50 + 10 + 9
            await upstream.close()

    run(talk())


@pytest.mark.requirement("R-F3")
@check_each("status", [408, 409, 500, 502, 504, 529])
def test_statuses_that_pass_are_asked_again(status: int):
    asked = Asked(refused(status), GOOD)
    assert (asked.is_whole, asked.requests, asked.notes) == (True, 2, ["upstream_retry"])


@pytest.mark.requirement("R-F3")
@check_each("status", [400, 401, 403, 404, 422])
@check_each("header", ["X-Other: 1", "x-should-retry: true"])
def test_statuses_that_do_not_pass_are_told_at_once(status: int, header: str):
    asked = Asked(refused(status, header), GOOD)
    assert (asked.status(), asked.requests) == (status, 1)


@pytest.mark.requirement("R-F3")
@check_each(("status", "word", "requests"), [(503, "false", 1), (451, "true", 2), (451, "maybe", 1)])
def test_a_service_may_say_whether_asking_again_helps(status: int, word: str, requests: int):
    asked = Asked(refused(status, f"x-should-retry: {word}"), GOOD)
    assert (asked.requests, asked.is_whole) == (requests, requests == 2)


async def _unreachable(url: str, tries: int, **options: object) -> UpstreamError:
    instant = Instant()
    upstream = HttpUpstream(url, world=instant.world, **options)  # type: ignore[arg-type]
    with pytest.raises(UpstreamError) as found:
        await reply(upstream)
    assert len(instant.waits) == tries - 1
    assert found.value.status in (502, 504)
    return found.value


@pytest.mark.requirement("R-F4")
def test_a_service_that_is_not_there_is_tried_again_then_an_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = run(_unreachable(f"http://127.0.0.1:{port}", 3))
    assert f"cannot connect to `127.0.0.1:{port}`" in str(error)


@pytest.mark.requirement("R-F4")
def test_a_name_that_nobody_knows_is_tried_again_then_an_error(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "cannot connect to `model.example`" in str(run(_unreachable("http://model.example", 3)))


@pytest.mark.requirement("R-F4")
def test_a_name_that_cannot_be_one_is_an_error_at_once():
    assert "cannot connect" in str(run(_unreachable(f"http://{'a' * 64}.example", 1)))


@pytest.mark.requirement("R-F4")
def test_a_service_that_speaks_no_tls_is_tried_again_then_an_error():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD)) as chaos:
            await _unreachable(f"https://127.0.0.1:{chaos.port}", 3, timeouts=Timeouts(connect=0.2))

    run(talk())


@pytest.mark.requirement("R-F5")
def test_an_error_event_before_everything_else_has_a_status_and_is_asked_again():
    first = by_length(b": ping\n\n" + error_event("overloaded", 529))
    asked = Asked(first, GOOD)
    assert (asked.is_whole, asked.requests, asked.notes) == (True, 2, ["upstream_retry"])
    again = Asked(first)
    assert (again.status(), again.requests) == (529, 3)
    refused = Asked(by_length(error_event("no such model", 404)), GOOD)
    assert (refused.status(), refused.requests) == (404, 1)


#: Two answers at once: a note, and no part of an answer yet.
_NOTED = b'data: {"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}}]}\n\n'


@pytest.mark.requirement("R-F5")
def test_a_note_is_no_answer_yet_and_is_told_with_the_answer():
    asked = Asked([CHUNKED + chunked([_NOTED], last=False), Do.WAIT, Do.WAIT, chunked([error_event()])], GOOD)
    assert (asked.is_whole, asked.requests) == (True, 2)
    noted = Asked([CHUNKED + chunked([_NOTED], last=False), Do.WAIT, Do.WAIT, chunked(EVENTS)])
    assert (noted.is_whole, noted.notes) == (True, ["other_choices_dropped"])
    cut_off = Asked([CHUNKED + chunked([_NOTED], last=False), Do.WAIT, Do.WAIT, Do.CLOSE])
    assert cut_off.error is not None


# --------------------------------------------------------------------------------------------------- broken streams


@pytest.mark.requirement("R-F6")
@check_each("end", [Do.RESET, Do.CLOSE, Do.HALF_CLOSE])
def test_a_stream_that_breaks_is_never_taken_for_whole_and_never_asked_again(end: Do):
    asked = Asked([CHUNKED + chunked(EVENTS[:2], last=False), Do.WAIT, Do.WAIT, end], GOOD)
    assert (asked.reply.text, asked.reply.finish_reason, asked.requests) == ("Grüße aus", "unknown", 1)
    assert asked.reply.failure is not None
    assert asked.reply.failure.kind == "truncated"


CALL = chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "rm", "arguments": '{"path": "/tm'}}]})


@pytest.mark.requirement("R-F7")
def test_an_end_without_a_reason_is_a_failure_and_half_a_call_is_none():
    asked = Asked([head(TYPE) + EVENTS[0] + CALL, Do.CLOSE])
    assert (asked.reply.text, asked.reply.calls) == ("Grüße", ())
    assert asked.reply.failure is not None
    assert asked.reply.failure.kind == "truncated"


@pytest.mark.requirement("R-F7")
def test_an_end_behind_the_reason_is_complete():
    assert Asked([head(TYPE) + b"".join(EVENTS[:-1]), Do.CLOSE]).is_whole


@pytest.mark.requirement("R-F8")
def test_a_stream_that_stalls_is_given_up():
    asked = Asked([CHUNKED + chunked(EVENTS[:2], last=False), Do.STALL], timeouts=Timeouts(idle=SOON))
    assert asked.reply.text == "Grüße aus"
    assert asked.reply.failure is not None
    assert (asked.reply.failure.kind, "within 0.05 s" in asked.reply.failure.message) == ("timeout", True)


@pytest.mark.requirement("R-F9")
def test_the_first_byte_has_a_time_of_its_own():
    asked = Asked([CHUNKED, Do.STALL], timeouts=Timeouts(first_byte=SOON))
    assert isinstance(asked.error, UpstreamTimeout)
    assert ("first byte" in str(asked.error), asked.requests) == (True, 1)
    # A first byte may take longer than the bytes behind it.
    late: Steps = [CHUNKED, *[Do.WAIT] * 200, chunked(EVENTS)]
    assert Asked(late, timeouts=Timeouts(first_byte=5, idle=0.0001)).is_whole


# ------------------------------------------------------------------------------------------------------ odd streams


def _in_every_cut(body: bytes, size: int = 1) -> Asked:
    return Asked([head(TYPE, f"Content-Length: {len(body)}"), *cut(body, size)])


@pytest.mark.requirement("R-F10")
@check_each("ends", [b"\r\n", b"\r", b"\n"])
def test_lines_may_end_in_any_way_cut_anywhere(ends: bytes):
    assert _in_every_cut(BODY.replace(b"\n", ends)).is_whole


@pytest.mark.requirement("R-F10")
def test_line_ends_may_be_mixed():
    mixed = b"".join(event.replace(b"\n", end) for event, end in zip(EVENTS, [b"\r\n", b"\r", b"\n"] * 3, strict=False))
    assert _in_every_cut(mixed, 3).is_whole


@pytest.mark.requirement("R-F11")
@check_each(
    "body",
    [
        BODY.replace(b',"choices"', b'\ndata: ,"choices"'),
        BODY.replace(b"data: ", b"data:"),
        b": comment\n\nevent: ping\ndata: \n\n"
        + BODY.replace(b"data: ", b"id: 1\nretry: 10\nnoise\nevent: message\ndata: "),
    ],
)
def test_every_field_of_an_event_is_understood(body: bytes):
    assert Asked(by_length(body)).is_whole


@pytest.mark.requirement("R-F12")
@check_each("size", [1, 2, 9999])
def test_a_byte_order_mark_is_skipped(size: int):
    assert _in_every_cut(b"\xef\xbb\xbf" + BODY, size).is_whole


@pytest.mark.requirement("R-F13")
@check_each("ending", [b"", b"\n"])
def test_a_last_event_without_its_blank_line_counts(ending: bytes):
    assert Asked(by_length(b"".join(EVENTS[:-1]).removesuffix(b"\n\n") + ending)).is_whole


@pytest.mark.requirement("R-F13")
def test_a_last_event_that_is_cut_does_not_count():
    asked = Asked(by_length(b"".join(EVENTS[:-1])[:-20]))
    assert asked.reply.text == TEXT
    assert asked.reply.failure is not None


@pytest.mark.requirement("R-F14")
def test_strange_line_separators_are_text():
    odd = "a\u2028b\u2029c\x85d\x0b\x0ce"
    raw = chunk({"content": odd}).replace(b"\\u000b", b"\x0b").replace(b"\\f", b"\x0c")
    asked = Asked(by_length(chunk({"content": odd}) + chunk({}, "stop")))
    assert asked.reply.text == odd
    assert Asked(by_length(raw + chunk({}, "stop"))).reply.text == odd


@pytest.mark.requirement("R-F15")
def test_characters_may_be_cut_and_broken_ones_are_replaced_and_noted():
    assert _in_every_cut(BODY).is_whole
    broken = chunk({"content": "a~b"}).replace(b"~", b"\xff")
    asked = Asked(by_length(broken + chunk({}, "stop")))
    assert (asked.reply.text, asked.notes) == ("a\N{REPLACEMENT CHARACTER}b", ["invalid_text"])


@pytest.mark.requirement("R-F16")
def test_one_bad_event_is_skipped_and_counted_but_not_inside_a_call():
    asked = Asked(by_length(EVENTS[0] + b"data: {no json\n\n" + b"".join(EVENTS[1:])))
    assert (asked.is_whole, asked.notes) == (True, ["bad_events"])
    inside = Asked(by_length(CALL + b"data: {no json\n\n" + chunk({}, "tool_calls")))
    assert inside.reply.failure is not None
    assert inside.reply.calls == ()


@pytest.mark.requirement("R-F17")
def test_a_very_long_line_is_read_and_an_endless_one_is_an_error():
    long = "x" * (2 * 1024 * 1024)
    assert Asked(by_length(chunk({"content": long}) + chunk({}, "stop"))).reply.text == long
    asked = Asked([head(TYPE) + b"data: ", *[b"x" * 1024 * 1024] * (MAX_EVENT // (1024 * 1024) + 2), Do.CLOSE])
    assert asked.error is not None
    assert "larger than" in str(asked.error)


@pytest.mark.requirement("R-F18")
@check_each(
    "steps",
    [
        [CHUNKED + chunked(EVENTS[:2])[:-9], Do.CLOSE],
        [CHUNKED + chunked(EVENTS[:2], last=False) + b"ffff\r\n", Do.CLOSE],
        [head(TYPE, "Content-Length: 9999") + EVENTS[0] + EVENTS[1], Do.CLOSE],
        [CHUNKED + chunked(EVENTS[:2], last=False) + b"nonsense\r\n"],
    ],
)
def test_a_body_that_is_not_as_long_as_it_says_is_a_failure(steps: Steps):
    asked = Asked(steps, GOOD)
    assert (asked.reply.text, asked.requests) == ("".join(PIECES[:2]), 1)
    assert asked.reply.failure is not None


@pytest.mark.requirement("R-F18")
def test_a_whole_answer_that_is_cut_is_an_error():
    asked = Asked([head(JSON, "Content-Length: 999") + b'{"choices":[', Do.CLOSE], GOOD)
    assert (asked.error is not None, asked.requests) == (True, 1)


WHOLE = b'{"choices":[{"index":0,"message":{"content":"rm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}'


@pytest.mark.requirement("R-F18")
@check_each(
    "steps",
    [
        [head(JSON, "Content-Length: 999") + WHOLE],
        [head(JSON, "Transfer-Encoding: chunked") + chunked([WHOLE], last=False)],
    ],
)
@check_each("end", [Do.CLOSE, Do.HALF_CLOSE, Do.RESET])
def test_a_whole_answer_that_can_be_read_but_is_shorter_than_announced_is_an_error(steps: Steps, end: Do):
    asked = Asked([*steps, Do.WAIT, Do.WAIT, end], GOOD)
    assert asked.error is not None
    assert (asked.error.status, asked.reply.text, asked.requests) == (502, "", 1)


KEY = "sk-canary-0123456789"


@pytest.mark.requirement("R-F19")
@check_each(
    ("answer", "words"),
    [
        (by_length(f"<html>{KEY} Sign in</html>".encode(), "Content-Type: text/html"), "web page"),
        (by_length(f"<html>{KEY} Sign in</html>".encode()), ""),
        (by_length(b""), ""),
        (by_length(b"", JSON), "empty"),
        (head(status="204 No Content"), ""),
        (by_length(msgspec.json.encode({"error": {"message": f"bad key {KEY}"}}), JSON), "bad key ***"),
        (by_length(b'{"hello":1}', JSON), ""),
    ],
)
def test_what_no_model_said_is_an_error_without_the_key(answer: bytes, words: str):
    asked = Asked(answer, api_key=KEY)
    assert asked.error is not None
    assert (words in str(asked.error), asked.error.status) == (True, 502)
    assert KEY not in f"{asked.error} {asked.error.body}"
    assert len(asked.error.body) < 600


@pytest.mark.requirement("R-F20")
@check_each(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("GZIP", gzip.compress(BODY, mtime=0)),
        ("deflate", deflated(BODY)),
        ("deflate", deflated(BODY, -zlib.MAX_WBITS)),
        ("identity", BODY),
    ],
)
@check_each("size", [1, 9999])
def test_compressed_streams_are_read(coding: str, packed: bytes, size: int):
    answer = by_length(packed, TYPE, f"Content-Encoding: {coding}")
    assert Asked(cut(answer, size)).is_whole


@pytest.mark.requirement("R-F20")
@check_each(
    ("coding", "body", "words"),
    [
        ("br", b"\x8b\x02\x80hello\x03", "not requested"),
        ("gzip, gzip", gzip.compress(BODY, mtime=0), "not requested"),
        ("gzip", BODY, "compressed reply is invalid"),
        ("deflate", b"\xff" * 99, "compressed reply is invalid"),
        ("gzip", gzip.compress(b": " + b"x" * 30_000_000, mtime=0), "larger than"),
        ("identity", gzip.compress(BODY, mtime=0), ""),
    ],
)
def test_what_cannot_be_unpacked_or_is_a_bomb_is_an_error(coding: str, body: bytes, words: str):
    asked = Asked(by_length(body, TYPE, f"Content-Encoding: {coding}"))
    assert asked.error is not None
    assert (words in str(asked.error), asked.error.status, asked.requests) == (True, 502, 1)


@pytest.mark.requirement("R-F20")
def test_a_compressed_stream_that_is_cut_is_a_failure():
    packer = zlib.compressobj(wbits=31)
    begun = packer.compress(EVENTS[0]) + packer.flush(zlib.Z_SYNC_FLUSH)
    asked = Asked(by_length(begun, TYPE, "Content-Encoding: gzip"))
    assert asked.reply.text == "Grüße"
    assert asked.reply.failure is not None
    assert asked.reply.failure.kind == "truncated"


@pytest.mark.requirement("R-F20")
def test_a_compressed_error_is_readable():
    said = gzip.compress(b'{"error":{"message":"no such model"}}', mtime=0)
    asked = Asked(by_length(said, JSON, "Content-Encoding: gzip", status="404 Not Found"))
    assert "no such model" in str(asked.error)


# ------------------------------------------------------------------------------------------------ kept connections


async def _twice(chaos: Chaos, upstream: HttpUpstream, between: Callable[[], object]) -> tuple[Reply, Reply]:
    first = await reply(upstream)
    between()
    return first, await reply(upstream)


@pytest.mark.requirement("R-F45")
@check_each("end", [Do.CLOSE, Do.RESET])
def test_a_kept_connection_that_is_gone_is_replaced_once_if_no_byte_had_come(end: Do):
    async def talk() -> None:
        # The second request reaches the service on the kept connection, which it drops without a word.
        async with misbehaving(in_order(GOOD, [end], GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url, retry=Retry(most=0))
            _, second = await _twice(chaos, upstream, lambda: None)
            assert (second.text, [note.code for note in second.notes]) == (TEXT, ["upstream_retry"])
            assert (chaos.requests, chaos.connections) == (3, 2)
            await upstream.close()

    run(talk())


@pytest.mark.requirement("R-F45")
def test_a_new_connection_that_is_dropped_is_not_replaced():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD, [Do.CLOSE], [Do.CLOSE], GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url, retry=Retry(most=0))
            await reply(upstream)
            with pytest.raises(UpstreamError, match="ended before"):
                await reply(upstream)
            assert chaos.requests == 3
            await upstream.close()

    run(talk())


@pytest.mark.requirement("R-F45")
def test_a_kept_connection_that_breaks_after_a_byte_is_not_replaced():
    async def talk() -> None:
        async with misbehaving(in_order(GOOD, [b"HTTP/1.1 2", Do.CLOSE], GOOD)) as chaos:
            upstream = HttpUpstream(chaos.url, retry=Retry(most=0))
            await reply(upstream)
            with pytest.raises(UpstreamError, match="ended before"):
                await reply(upstream)
            assert chaos.requests == 2
            await upstream.close()

    run(talk())


@pytest.mark.requirement("R-F45")
def test_names_are_looked_up_again_for_each_new_connection(monkeypatch: pytest.MonkeyPatch):
    async def talk() -> None:
        async with misbehaving(in_order("close announced")) as old, misbehaving(in_order(GOOD)) as new:
            ports = iter([old.port, new.port])

            def moving(host: str, port: int, *rest: object, **more: object) -> object:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", next(ports)))]

            monkeypatch.setattr(socket, "getaddrinfo", moving)
            upstream = HttpUpstream("http://model.example:1/v1")
            for _ in range(2):
                assert (await reply(upstream)).text == TEXT
            assert (old.requests, new.requests) == (1, 1)
            await upstream.close()

    run(talk())
