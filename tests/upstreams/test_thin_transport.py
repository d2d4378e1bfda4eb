"""The HTTP transport against a real server on the loopback."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from tests.cases import check_each
from tests.upstreams.loopback_server import Answer, Heard, always, chunked, cut, head, serving
from tests.upstreams.request_helpers import Instant, batches, reply, request, run
from toolspeak.core.events import Event, Failure, Reply, TextDelta, fold
from toolspeak.core.types import Request, Usage
from toolspeak.errors import UpstreamError, UpstreamTimeout, UsageError
from toolspeak.upstreams.http import event_stream as answer
from toolspeak.upstreams.http.connection import Timeouts
from toolspeak.upstreams.http.event_stream import MAX_ERROR_BYTES
from toolspeak.upstreams.http.httpx2_transport import Httpx2Upstream
from toolspeak.upstreams.http.thin_transport import HttpUpstream

KEY = "sk-canary-0123456789"
SSE = head("Content-Type: text/event-stream", "Transfer-Encoding: chunked")
#: A time that is over before anybody has noticed.
SOON = 0.05


def _chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


HELLO = _chunk({"role": "assistant", "content": "Grüße"})
WORLD = _chunk({"content": " aus Köln 🌧"})
STOP = _chunk({}, "stop")
COST = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
DONE = b"data: [DONE]\n\n"
TEXT = "Grüße aus Köln 🌧"
STREAM = HELLO + WORLD + STOP + COST + DONE

WHOLE = msgspec.json.encode(
    {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
)
LENGTH = f"Content-Length: {len(WHOLE)}"
STREAM_LENGTH = f"Content-Length: {len(STREAM)}"

#: name -> the bytes of a whole answer
ANSWERS = {
    "chunks of events": SSE + chunked([HELLO, WORLD, STOP, COST, DONE]),
    "chunks of five bytes": SSE + chunked(cut(STREAM, 5)),
    "a stream by length": head("Content-Type: text/event-stream", STREAM_LENGTH) + STREAM,
    "a stream to the end": head("Content-Type: text/event-stream") + STREAM,
    "a stream of no type": head("Transfer-Encoding: chunked") + chunked([STREAM]),
    "a body by length": head("Content-Type: application/json; charset=utf-8", LENGTH) + WHOLE,
    "a body in chunks": head("Content-Type: application/json", "Transfer-Encoding: chunked") + chunked(cut(WHOLE, 9)),
    "a body to the end": head("Content-Type: application/json") + WHOLE,
    "a body of no type": head(LENGTH) + WHOLE,
    "after a hint": head(status="103 Early Hints") + head("Content-Type: application/json", LENGTH) + WHOLE,
}


def ask(answer: Answer, *, asked: Request | None = None, timeouts: Timeouts | None = None) -> Reply:
    """The reply to one request."""

    async def talk() -> Reply:
        async with serving(answer) as server:
            return await reply(HttpUpstream(server.url, KEY, timeouts=timeouts, world=Instant().world), asked)

    return run(talk())


def caught(answer: Answer, timeouts: Timeouts | None = None) -> UpstreamError:
    with pytest.raises(UpstreamError) as found:
        ask(answer, timeouts=timeouts)
    return found.value


# ------------------------------------------------------------------------------------------------- asking


@pytest.mark.requirement("G2")
def test_a_request_is_posted_below_the_base_url():
    async def talk() -> None:
        async with serving(always(ANSWERS["a body by length"])) as server:
            upstream = HttpUpstream(f"{server.url}/", KEY, headers={"X-Trace": "t1"})
            assert (upstream.base_url, upstream.provider) == (server.url, "openai")
            await reply(upstream, request("Grüße", stream=False))
            (heard,) = server.heard
            assert heard.line == "POST /v1/chat/completions HTTP/1.1"
            assert heard.header("host") == f"127.0.0.1:{server.port}"
            assert heard.header("authorization") == f"Bearer {KEY}"
            assert heard.header("content-type") == "application/json"
            assert heard.header("x-trace") == "t1"
            assert heard.json["model"] == "m"
            assert heard.json["messages"] == [{"role": "user", "content": "Grüße"}]
            assert "stream" not in heard.json

    run(talk())


def test_without_a_key_nothing_is_said_of_one():
    async def talk() -> None:
        async with serving(always(ANSWERS["a stream to the end"])) as server:
            await reply(HttpUpstream(server.url))
            assert "authorization" not in {name.lower() for name, _ in server.heard[0].headers}
            assert server.heard[0].json["stream"] is True

    run(talk())


@pytest.mark.requirement("R-F46")
@check_each("stream", [True, False])
@check_each("data", ANSWERS.values(), ids=ANSWERS.keys())
def test_every_kind_of_body_is_read_streamed_or_not_whatever_was_asked(data: bytes, stream: bool):
    answer = ask(always(data), asked=request(stream=stream))
    assert (answer.text, answer.finish_reason, answer.usage) == (TEXT, "stop", Usage(3, 4))
    assert answer.failure is None


@check_each("size", [1, 3, 64])
def test_an_answer_is_the_same_wherever_it_is_cut(size: int):
    answer = ask(always(*cut(ANSWERS["chunks of events"], size)))
    assert (answer.text, answer.finish_reason) == (TEXT, "stop")


def test_text_flows_before_the_answer_is_complete():
    async def talk() -> None:
        read = asyncio.Event()

        async def answer(heard: Heard) -> None:
            await heard.send(SSE + chunked([HELLO], last=False))
            await read.wait()
            await heard.send(chunked([WORLD, STOP, DONE]))

        async with serving(answer) as server:
            opened = HttpUpstream(server.url).open(request())
            assert await anext(opened) == [TextDelta("Grüße")]
            read.set()
            rest = fold([event async for batch in opened for event in batch])
            assert (rest.text, rest.finish_reason) == (" aus Köln 🌧", "stop")

    run(talk())


def test_nothing_is_sent_before_the_first_read():
    async def talk() -> None:
        async with serving(always(ANSWERS["a body by length"])) as server:
            opened = HttpUpstream(server.url).open(request())
            await opened.aclose()
            assert server.heard == []

    run(talk())


def test_many_exchanges_at_once_do_not_mix():
    async def echo(heard: Heard) -> None:
        said = heard.json["messages"][0]["content"]
        await heard.send(SSE, *cut(chunked([_chunk({"content": said}), STOP, DONE]), 50))

    async def talk() -> None:
        async with serving(echo) as server:
            upstream = HttpUpstream(server.url)
            wanted = [f"text {number}" for number in range(20)]
            answers = await asyncio.gather(*(reply(upstream, request(text)) for text in wanted))
            assert [answer.text for answer in answers] == wanted

    run(talk())


def test_the_last_word_ends_the_answer_though_the_connection_stays():
    async def talk() -> None:
        async def answer(heard: Heard) -> None:
            await heard.send(SSE + chunked([STREAM], last=False))
            await heard.gone.wait()

        async with serving(answer) as server:
            assert (await reply(HttpUpstream(server.url))).text == TEXT
            await server.heard[0].gone.wait()

    run(talk())


# ----------------------------------------------------------------------------------------------- errors


@check_each(
    ("status", "body", "message"),
    [
        ("400 Bad Request", b'{"error":{"message":"no such model","type":"invalid_request_error"}}', "no such model"),
        ("429 Too Many Requests", b'{"error":"slow down"}', "slow down"),
        ("500 Internal Server Error", b"it broke", "it broke"),
        ("503 Service Unavailable", b"", "503"),
    ],
)
@check_each("framed", [True, False])
def test_an_error_status_is_raised_with_what_was_said(status: str, body: bytes, message: str, framed: bool):
    headers = ["Content-Type: application/json", *([f"Content-Length: {len(body)}"] if framed else [])]
    error = caught(always(head(*headers, status=status) + body))
    assert error.upstream_status == int(status[:3])
    assert message in str(error)
    assert error.body.encode() == body


def test_an_error_that_comes_in_pieces_is_put_together():
    error = caught(always(head("Content-Length: 14", status="502 Bad Gateway"), b"the ", b"backend ", b"is"))
    assert (error.upstream_status, error.body) == (502, "the backend is")


def test_an_error_that_breaks_off_is_still_told():
    error = caught(always(head("Content-Length: 1000", status="502 Bad Gateway") + b"the backend is"))
    assert (error.upstream_status, error.body) == (502, "the backend is")


def test_of_an_endless_error_only_the_beginning_is_read():
    async def talk() -> None:
        async def endless(heard: Heard) -> None:
            await heard.send(head(status="500 Internal Server Error"))
            while not heard.gone.is_set():
                await heard.send(b"x" * MAX_ERROR_BYTES)

        async with serving(endless) as server:
            with pytest.raises(UpstreamError) as found:
                await reply(HttpUpstream(server.url, world=Instant().world))
            assert len(found.value.body) < 1000

    run(talk())


@pytest.mark.requirement("R-T3")
@check_each("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
def test_a_redirect_is_not_followed(status: str):
    async def talk() -> None:
        async with serving(always(ANSWERS["a body by length"])) as elsewhere:
            moved = head(f"Location: {elsewhere.url}/chat/completions", "Content-Length: 0", status=status)
            async with serving(always(moved)) as server:
                with pytest.raises(UpstreamError, match="redirect") as found:
                    await reply(HttpUpstream(server.url, KEY))
                assert found.value.upstream_status == int(status[:3])
            assert elsewhere.heard == []

    run(talk())


ERROR_EVENT = b'data: {"error":{"message":"overloaded","code":529}}\n\n'


def test_an_error_event_before_everything_else_is_raised():
    error = caught(always(SSE + chunked([ERROR_EVENT])))
    assert (error.upstream_status, "overloaded" in str(error)) == (529, True)


def test_an_error_event_after_text_is_a_failure():
    answer = ask(always(SSE + chunked([HELLO, ERROR_EVENT, WORLD])))
    assert (answer.text, answer.finish_reason) == ("Grüße", "unknown")
    assert answer.failure is not None
    assert "overloaded" in answer.failure.message


@check_each(
    ("data", "message"),
    [
        (head("Content-Type: text/html") + b"<html>Sign in</html>", "web page"),
        (head("Content-Encoding: br", "Content-Length: 2") + b"\x1f\x8b", "compressed"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not HTTP"),
        (head("Content-Type: application/json", "Content-Length: 0"), "empty"),
        (head("Content-Type: text/event-stream"), ""),
        (head(status="204 No Content"), ""),
        (b"", "ended before"),
        (head("Content-Length: 100")[:-4], "ended before"),
        (head("Content-Type: application/json", "Content-Length: 11") + b'{"ok":true}', ""),
    ],
)
def test_an_answer_that_no_model_gave_is_an_error(data: bytes, message: str):
    assert message in str(caught(always(data)))


def test_a_web_page_is_shown_in_short():
    error = caught(always(head("Content-Type: text/html") + b"<html>\n" + b"x" * 9000))
    assert error.body.startswith("<html> xxx")
    assert len(error.body) < 600


def test_nobody_listening_is_an_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UpstreamError, match=f"cannot connect to `127.0.0.1:{port}`") as found:
        run(reply(HttpUpstream(f"http://127.0.0.1:{port}", world=Instant().world)))
    assert isinstance(found.value.__cause__, OSError)


# ---------------------------------------------------------------------------------------- broken streams

CUT = {
    "a chunk is missing": SSE + chunked([HELLO], last=False),
    "a chunk is cut": (SSE + chunked([HELLO, WORLD]))[:-40],
    "the length is not reached": head("Content-Type: text/event-stream", "Content-Length: 9999") + HELLO,
    "nobody said why it stopped": head("Content-Type: text/event-stream") + HELLO,
}


@check_each("data", CUT.values(), ids=CUT.keys())
def test_a_stream_that_breaks_off_ends_with_a_failure(data: bytes):
    answer = ask(always(data))
    assert (answer.text, answer.finish_reason) == ("Grüße", "unknown")
    assert answer.failure is not None
    assert answer.failure.kind == "truncated"


def test_a_connection_that_is_reset_ends_with_a_failure():
    async def talk() -> Reply:
        read = asyncio.Event()

        async def answer(heard: Heard) -> None:
            await heard.send(SSE + chunked([HELLO], last=False))
            await read.wait()
            heard.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            heard.reset()

        async with serving(answer) as server:
            opened = HttpUpstream(server.url).open(request())
            events: list[Event] = [*await anext(opened)]
            read.set()
            async for batch in opened:
                events += batch
            return fold(events)

    answer = run(talk())
    assert answer.text == "Grüße"
    assert answer.failure is not None
    assert answer.failure.kind == "truncated"


def test_a_body_that_breaks_off_is_an_error():
    error = caught(always(head("Content-Type: application/json", "Content-Length: 9999") + WHOLE[:40]))
    assert "ended before" in str(error)


@check_each(
    "data",
    [
        SSE + chunked([HELLO, WORLD, STOP], last=False),
        head("Content-Type: text/event-stream", "Content-Length: 9999") + HELLO + WORLD + STOP,
    ],
)
def test_a_stream_that_breaks_behind_the_last_word_is_whole_and_noted(data: bytes):
    answer = ask(always(data))
    assert (answer.text, answer.finish_reason, answer.failure) == (TEXT, "stop", None)
    assert [note.code for note in answer.notes] == ["connection_cut"]


# ------------------------------------------------------------------------------------------------ time


async def _never(heard: Heard) -> None:
    await heard.gone.wait()


def _stalls_after(*pieces: bytes) -> Answer:
    async def answer(heard: Heard) -> None:
        await heard.send(*pieces)
        await heard.gone.wait()

    return answer


@check_each(
    ("answer", "timeouts", "message"),
    [
        (_never, Timeouts(first_byte=SOON), "first byte"),
        (_stalls_after(SSE), Timeouts(first_byte=SOON), "first byte"),
        (_stalls_after(head(LENGTH, "Content-Type: application/json")), Timeouts(first_byte=SOON), "first byte"),
        (_stalls_after(head(LENGTH), WHOLE[:9]), Timeouts(idle=SOON), "more bytes"),
        (_never, Timeouts(total=SOON), "took longer than 0.05 s"),
    ],
)
def test_an_answer_that_does_not_come_in_time_is_a_timeout(answer: Answer, timeouts: Timeouts, message: str):
    error = caught(answer, timeouts=timeouts)
    assert isinstance(error, UpstreamTimeout)
    assert message in str(error)


@check_each("timeouts", [Timeouts(idle=SOON), Timeouts(total=SOON * 2)])
def test_a_stream_that_stalls_ends_with_a_failure(timeouts: Timeouts):
    answer = ask(_stalls_after(SSE + chunked([HELLO], last=False)), timeouts=timeouts)
    assert answer.text == "Grüße"
    assert answer.failure is not None
    assert answer.failure.kind == "timeout"


def test_a_stream_that_stalls_behind_the_last_word_is_whole_and_noted():
    answer = ask(_stalls_after(SSE + chunked([HELLO, STOP], last=False)), timeouts=Timeouts(idle=SOON))
    assert (answer.text, answer.finish_reason, answer.failure) == ("Grüße", "stop", None)
    assert [note.code for note in answer.notes] == ["connection_cut"]


def test_a_service_that_does_not_finish_its_greeting_is_a_timeout():
    async def talk() -> None:
        # It hears the client's first words about TLS and never answers.
        async with serving(_never) as server:
            timeouts = Timeouts(connect=SOON)
            upstream = HttpUpstream(f"https://127.0.0.1:{server.port}", timeouts=timeouts, world=Instant().world)
            with pytest.raises(UpstreamTimeout, match="no connection"):
                await reply(upstream)

    run(talk())


# --------------------------------------------------------------------------------------------- cancelling


@check_each("sent", [b"", SSE, SSE + chunked([HELLO], last=False)], ids=["empty", "head", "text"])
def test_cancelling_the_task_closes_the_connection(sent: bytes):
    async def talk() -> None:
        begun = asyncio.Event()

        async def answer(heard: Heard) -> None:
            await heard.send(sent)
            begun.set()
            await heard.gone.wait()

        async with serving(answer) as server:
            task = asyncio.create_task(batches(HttpUpstream(server.url)))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.heard[0].gone.wait()

    run(talk())


def test_closing_the_answer_closes_the_connection():
    async def talk() -> None:
        async with serving(_stalls_after(SSE + chunked([HELLO], last=False))) as server:
            opened = HttpUpstream(server.url).open(request())
            assert await anext(opened) == [TextDelta("Grüße")]
            await opened.aclose()
            await server.heard[0].gone.wait()

    run(talk())


def test_closing_the_upstream_ends_what_is_under_way_and_opens_nothing_more():
    async def talk() -> None:
        async with serving(_stalls_after(SSE + chunked([HELLO], last=False))) as server:
            upstream = HttpUpstream(server.url)
            opened = upstream.open(request())
            await anext(opened)
            await upstream.close()
            (last,) = [batch async for batch in opened]
            assert isinstance(last[-1], Failure)
            await server.heard[0].gone.wait()
            with pytest.raises(UsageError, match="closed"):
                await reply(upstream)

    run(talk())


def test_an_upstream_that_is_closed_while_it_connects_sends_nothing():
    async def talk() -> None:
        async with serving(_never) as server:
            upstream = HttpUpstream(server.url)
            task = asyncio.create_task(reply(upstream))
            # One turn of the loop: the task has begun to connect, and no connection can be there yet.
            await asyncio.sleep(0)
            await upstream.close()
            with pytest.raises(UpstreamError, match="closed"):
                await task
            assert server.heard == []

    run(talk())


@pytest.mark.parametrize("make", [HttpUpstream, Httpx2Upstream])
def test_behind_the_reason_to_stop_nothing_is_waited_for_for_long(
    make: type[HttpUpstream | Httpx2Upstream], monkeypatch: pytest.MonkeyPatch
):
    if make is Httpx2Upstream:
        pytest.importorskip("httpx2")
    monkeypatch.setattr(answer, "AFTER_FINISH_SECONDS", SOON)

    async def talk() -> None:
        async def stall(heard: Heard) -> None:
            await heard.send(SSE + chunked([HELLO + WORLD + STOP], last=False))
            await heard.gone.wait()

        async with serving(stall) as server:
            upstream = make(server.url)
            found = await reply(upstream)
            assert (found.text, found.failure) == (TEXT, None)
            assert "connection_cut" in [note.code for note in found.notes]
            await upstream.close()

    run(talk())
