"""The most important faults, in every protocol: what the codec itself writes, spoiled on its way."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from tests.cases import check_each, every
from tests.upstreams.faulty_service import JSON, Do, Steps, by_length, in_order, misbehaving
from tests.upstreams.loopback_server import head
from tests.upstreams.request_helpers import Instant, batches, run
from tests.upstreams.request_helpers import request as asked
from toolspeak.core.events import Event, Finish, Reply, TextDelta, fold
from toolspeak.core.types import JSONValue
from toolspeak.errors import UpstreamError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.upstreams.http.connection import Timeouts
from toolspeak.upstreams.http.retry import Retry
from toolspeak.upstreams.http.thin_transport import HttpUpstream

MODULES = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
#: A service that stalls is waited for; a busy machine needs some time as well.
SOON = Timeouts(connect=5, first_byte=1, idle=1, total=20)


def _pieces(name: str) -> tuple[bytes, bytes]:
    """An answer: its beginning, and the rest."""
    encoder = MODULES[name].ReplyEncoder(msgspec.structs.replace(asked(), protocol=name), id="r", created=1, model="m")
    begun: list[Event] = [TextDelta("Grüße")]
    ended: list[Event] = [TextDelta(" aus Köln"), Finish("stop")]
    return encoder.encode(begun), encoder.encode(ended) + encoder.close()


def _kind(name: str) -> str:
    return "Content-Type: application/x-ndjson" if name == "ollama" else "Content-Type: text/event-stream"


def _outcome(name: str, steps: Steps) -> tuple[str, str]:
    async def talk() -> tuple[str, str]:
        async with misbehaving(in_order(steps)) as chaos:
            upstream = HttpUpstream(chaos.url, "k" * 20, name, SOON, retry=Retry(most=0), world=Instant().world)
            try:
                reply = fold(event for batch in await batches(upstream) for event in batch)
            except UpstreamError:
                return "raised", ""
            finally:
                await upstream.close()
            return "failed" if reply.failure else "whole", reply.text

    return run(talk())


@pytest.mark.requirement("R-F20")
@check_each("fault", ["none", "gzip", "reset", "closed", "stall", "length", "garbage", "nothing"])
@check_each("name", every(2, MODULES))
def test_a_fault_means_the_same_in_every_protocol(name: str, fault: str):
    begun, rest = _pieces(name)
    kind = _kind(name)
    whole = begun + rest
    cut = [head(kind) + begun, Do.WAIT, Do.WAIT]
    steps, outcome = {
        "none": ([by_length(whole, kind)], "whole"),
        "gzip": ([by_length(gzip.compress(whole, mtime=0), kind, "Content-Encoding: gzip")], "whole"),
        "reset": ([*cut, Do.RESET], "failed"),
        "closed": ([*cut, Do.CLOSE], "failed"),
        "stall": ([*cut, Do.STALL], "failed"),
        "length": ([head(kind, "Content-Length: 99999") + begun, Do.CLOSE], "failed"),
        "garbage": ([by_length(b"\x00\xff garbage", kind)], "raised"),
        "nothing": ([by_length(b"", kind)], "raised"),
    }[fault]
    found, text = _outcome(name, steps)
    assert found == outcome
    assert text == {"whole": "Grüße aus Köln", "failed": "Grüße", "raised": ""}[found]


@pytest.mark.requirement("R-F18")
@check_each("name", MODULES)
def test_a_whole_answer_that_is_shorter_than_announced_is_an_error_in_every_protocol(name: str):
    asking = msgspec.structs.replace(asked(stream=False), protocol=name)
    body = MODULES[name].encode_reply(Reply(text="hi", finish_reason="stop"), asking, id="r", created=1, model="m")
    assert _outcome(name, [by_length(body, JSON)]) == ("whole", "hi")
    assert _outcome(name, [head(JSON, f"Content-Length: {len(body) + 1}") + body, Do.CLOSE]) == ("raised", "")


def _event(kind: str, **fields: JSONValue) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"


_OPENED = _event("message_start", message={"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 3}})
_CREATED = _event("response.created", response={"id": "r", "status": "in_progress", "output": []})
_BUSY = {"message": "The engine is overloaded", "type": "server_error", "code": 503}


def _failed(code: str) -> bytes:
    error = {"code": code, "message": "no"}
    return _event("response.failed", response={"id": "r", "status": "failed", "error": error, "output": []})


#: What vendors send as the first events of a stream with the status 200, the status that it stands for, and whether
#: asking again helps. Ollama's errors carry no status, and most of them stay.
FIRST: list[tuple[str, str, bytes, int, bool]] = [
    ("openai_chat", "busy", b"data: " + msgspec.json.encode({"error": _BUSY}) + b"\n\n", 503, True),
    ("openai_chat", "named", b"event: error\ndata: " + msgspec.json.encode({"error": _BUSY}) + b"\n\n", 503, True),
    ("openai_chat", "gone", b'data: {"error":{"message":"no such model","code":404}}\n\n', 404, False),
    ("openai_responses", "busy", _event("error", code="server_error", message="no"), 500, True),
    ("openai_responses", "limit", _CREATED + _failed("rate_limit_exceeded"), 429, True),
    ("openai_responses", "failed", _CREATED + _failed("server_error"), 500, True),
    ("openai_responses", "wrong", _CREATED + _failed("invalid_prompt"), 400, False),
    ("anthropic", "busy", _event("error", error={"type": "overloaded_error", "message": "Overloaded"}), 529, True),
    ("anthropic", "begun", _OPENED + _event("error", error={"type": "api_error", "message": "no"}), 500, True),
    ("anthropic", "wrong", _event("error", error={"type": "invalid_request_error", "message": "no"}), 400, False),
    ("gemini", "busy", b'data: {"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}\n\n', 503, True),
    ("gemini", "listed", b'[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]', 429, True),
    ("gemini", "wrong", b'data: {"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}\n\n', 400, False),
    ("ollama", "busy", b'{"error":"an error was encountered while running the model"}\n', 0, False),
]


@pytest.mark.requirement("R-F5")
@check_each(("name", "what", "said", "status", "again"), FIRST, ids=[f"{row[0]}-{row[1]}" for row in FIRST])
def test_an_error_as_the_first_event_is_one_before_the_first_byte(
    name: str, what: str, said: bytes, status: int, again: bool
):
    async def talk() -> None:
        good = by_length(b"".join(_pieces(name)), _kind(name))
        async with misbehaving(in_order(by_length(said, _kind(name)), good)) as chaos:
            once = HttpUpstream(chaos.url, "", name, SOON, retry=Retry(most=0), world=Instant().world)
            with pytest.raises(UpstreamError) as caught:
                await batches(once)
            await once.close()
            assert (caught.value.upstream_status, chaos.requests) == (status, 1)
        async with misbehaving(in_order(by_length(said, _kind(name)), good)) as chaos:
            twice = HttpUpstream(chaos.url, "", name, SOON, world=Instant().world)
            if again:
                found = fold(event for batch in await batches(twice) for event in batch)
                assert (found.text, found.notes[-1].code) == ("Grüße aus Köln", "upstream_retry")
            else:
                with pytest.raises(UpstreamError):
                    await batches(twice)
            assert chaos.requests == 1 + again
            await twice.close()

    run(talk())
