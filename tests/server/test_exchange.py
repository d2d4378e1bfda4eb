"""One model request through the proxy, whatever client and upstream do meanwhile.

The client is a script that reads, stalls or leaves; upstreams are servers on the loopback, or scripts where the
moments between two reads matter. Nothing waits for time to pass.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import run
from tests.server.live_proxy import PROTOCOLS, QUESTION, Two, between, stream_type
from tests.server.protocol_clients import SPEAKERS, Speaker
from tests.server.scripted_peers import AT_ONCE, END, FACES, NEVER, OFTEN, Client, Script, scripted, talker, words
from tests.upstreams.loopback_server import Heard, chunked, head
from toolspeak.core.events import Event, Failure, Finish, Reply, TextDelta, UsageSeen, fold
from toolspeak.core.types import Request, Usage
from toolspeak.protocols import openai_chat
from toolspeak.server.proxy import exchange
from toolspeak.upstreams.base import Batches

# ---- the client leaves


async def _left_alone(speaker: Speaker, stream: bool, begun: bool) -> Client:
    """A client leaves while the upstream still writes, or has not begun to."""
    heard_it = asyncio.Event()
    seen: list[Heard] = []

    async def hold(heard: Heard) -> None:
        if begun:
            encoder = openai_chat.ReplyEncoder(Request("m", ()), id="a", created=0, model="m")
            piece = chunked([encoder.encode([TextDelta("The weather is fine. " * 20)])], last=False)
            await heard.send(head("content-type: text/event-stream", "transfer-encoding: chunked"), piece)
        seen.append(heard)
        heard_it.set()
        await heard.gone.wait()

    async with between(hold, "openai_chat", keep_alive=NEVER) as (app, _):
        client = talker(app, speaker, stream)
        await heard_it.wait()
        if begun:
            await client.hears(bool)
        client.leave()
        async with asyncio.timeout(AT_ONCE):
            await seen[0].gone.wait()
            await client.task
        return client


@pytest.mark.requirement("R-F27")
@FACES
@pytest.mark.parametrize(
    ("stream", "begun"),
    [
        pytest.param(True, False, id="before-the-first-token"),
        pytest.param(True, True, id="in-the-middle"),
        pytest.param(False, False, id="whole"),
    ],
)
def test_a_client_that_leaves_ends_what_was_asked_for_it(speaker: Speaker, stream: bool, begun: bool):
    client = run(_left_alone(speaker, stream, begun))
    assert bool(client.sent) == begun


def test_an_answer_that_is_there_at_once_is_not_watched_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exchange, "_WATCH_AFTER_SECONDS", 60.0)  # a busy machine may need longer than usual

    async def talk() -> Client:
        script = Script([*words("The weather is fine."), Finish("stop")])
        client = talker(scripted(script), SPEAKERS[0], stream=False)
        await client.task
        return client

    client = run(talk())
    assert (client.status, client.looks) == (200, 1)  # for the request itself


@pytest.mark.requirement("R-T12")
def test_an_answer_of_many_events_is_put_together_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    on_the_loop: list[bool] = []

    async def talk(count: int) -> str:
        loop_thread = threading.get_ident()

        def put_together(events: list[Event]) -> Reply:
            on_the_loop.append(threading.get_ident() == loop_thread)
            return fold(events)

        monkeypatch.setattr(exchange, "fold", put_together)
        events: list[Event] = [TextDelta("fine ")] * count
        client = talker(scripted(Script(events, END)), SPEAKERS[0], stream=False)
        await client.task
        return client.body.decode()

    assert run(talk(2)).count("fine") == 2
    assert run(talk(exchange._MANY_EVENTS + 1)).count("fine") == exchange._MANY_EVENTS + 1
    assert on_the_loop == [True, False]


class Spending(Script):
    """An upstream whose first answer is empty, so that it is asked again, and whose second does not end."""

    async def _batches(self) -> Batches:
        if len(self.asked) == 1:
            yield [UsageSeen(Usage(70, 7)), Finish("stop")]
        else:
            self.reached.set()
            await asyncio.Event().wait()


@pytest.mark.requirement("R-F27")
def test_answers_that_were_over_before_a_client_left_are_counted():
    async def talk() -> Any:
        script = Spending()
        app = scripted(script)
        client = talker(app, SPEAKERS[0], stream=False)
        await script.reached.wait()
        client.leave()
        await client.task
        return app.lifecycle.own_counters()

    numbers = run(talk())
    (timing,) = numbers.timings.values()
    assert (timing.upstream, timing.input_tokens, timing.output_tokens) == (2, 70, 7)


@pytest.mark.requirement("R-F27")
def test_a_client_that_left_is_on_record():
    async def talk() -> Any:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        app = scripted(script)
        client = talker(app, SPEAKERS[0])
        await client.hears(bool)
        client.leave()
        await client.task
        assert script.left.is_set()
        told = json.loads(client.headers["x-toolspeak"])
        asked = Client(app, f"/toolspeak/requests/{told['id']}", {}, "GET")
        await asked.task
        return json.loads(asked.body)

    told = run(talk())
    assert (told["outcome"], told["status"], told["error"], told["requests"]) == ("left", 499, "", 1)


@pytest.mark.requirement("R-F27")
def test_a_server_that_cannot_write_any_more_counts_as_a_client_that_left():
    async def talk() -> None:
        more = asyncio.Event()
        script = Script(words("The weather is fine. " * 20), more, words("And so on."), asyncio.Event())
        client = talker(scripted(script), SPEAKERS[0])
        await client.hears(bool)
        client.broken = BrokenPipeError()
        more.set()
        await client.task
        assert script.left.is_set()

    run(talk())


def test_a_server_that_ends_takes_its_requests_with_it():
    async def talk() -> None:
        script = Script(asyncio.Event())
        client = talker(scripted(script), SPEAKERS[0])
        await script.reached.wait()
        client.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client.task
        assert script.left.is_set()

    run(talk())


# ---- the upstream fails


def _refusing(status: str, *headers: str) -> Any:
    async def answer(heard: Heard) -> None:
        body = b'{"error": {"message": "not now", "type": "rate_limit_error"}}'
        lines = [*headers, "content-type: application/json", f"content-length: {len(body)}", "connection: close"]
        await heard.send(head(*lines, status=status), body)

    return answer


def _error_type(speaker: Speaker, body: Any) -> str:
    """The word for the kind of error, which each protocol has in another place."""
    match speaker.name:
        case "ollama":
            return body["error"]
        case "gemini":
            assert body["error"]["code"] == 429
            return body["error"]["status"]
        case "anthropic":
            assert body["type"] == "error"
            return body["error"]["type"]
        case _:
            return body["error"]["type"]


@pytest.mark.requirement("R-F5", "G3")
@FACES
@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_of_the_upstream_keeps_its_status_and_its_wait(speaker: Speaker, stream: bool):
    async def talk() -> Client:
        refuse = _refusing("429 Too Many Requests", "retry-after: 120")
        async with between(refuse, "openai_chat") as (app, _):
            client = talker(app, speaker, stream)
            await client.task
            return client

    client = run(talk())
    assert (client.status, client.headers["retry-after"]) == (429, "120")
    assert "id" in json.loads(client.headers["x-toolspeak"])
    words = {
        "openai_chat": "rate_limit_error",
        "openai_responses": "rate_limit_error",
        "anthropic": "rate_limit_error",
        "gemini": "RESOURCE_EXHAUSTED",
    }
    assert _error_type(speaker, json.loads(client.body)) == words.get(speaker.name, "not now")


def _first_words(protocol: str) -> bytes:
    """A stream of this protocol that begins with an error, as its services write one."""
    match protocol:
        case "openai_chat":
            return b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n'
        case "openai_responses":
            error = {"code": "server_error", "message": "overloaded"}
            failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
            return b"event: response.failed\ndata: " + json.dumps(failed).encode() + b"\n\n"
        case "anthropic":
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}
            return b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
        case "gemini":
            return b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\r\n\r\n'
        case _:
            return b'{"error": "overloaded"}\n'


@pytest.mark.requirement("R-F5")
@FACES
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_that_is_the_first_event_is_a_status(speaker: Speaker, protocol: str):
    async def broken(heard: Heard) -> None:
        opening = head(f"content-type: {stream_type(protocol)}", "transfer-encoding: chunked")
        await heard.send(opening, chunked([_first_words(protocol)]))

    async def talk() -> Client:
        async with between(broken, protocol, keep_alive=NEVER) as (app, _):
            client = talker(app, speaker)
            await client.task
            return client

    client = run(talk())
    assert client.status >= 500
    assert client.headers["content-type"] == "application/json"
    assert b"overloaded" in client.body


@pytest.mark.requirement("R-F6", "G3")
@FACES
def test_a_stream_that_breaks_ends_with_an_error_and_without_an_end(speaker: Speaker):
    async def talk() -> Client:
        failure = Failure("it fell over", "upstream", 500)
        script = Script(words("The weather "), words("is fine. " * 30), [failure])
        client = talker(scripted(script), speaker)
        await client.task
        return client

    client = run(talk())
    seen = speaker.read(client.body, True)
    assert client.status == 200
    assert seen.text == "The weather " + "is fine. " * 30
    assert (seen.error, seen.ended, seen.reason) == ("it fell over", False, "")
    assert client.sent[-1].get("more_body") is False


@pytest.mark.requirement("R-F6")
@pytest.mark.parametrize("begun", [True, False])
@FACES
def test_a_mistake_of_ours_is_told_in_the_words_of_the_protocol(
    speaker: Speaker, begun: bool, caplog: pytest.LogCaptureFixture
):
    async def talk() -> Client:
        steps: list[Any] = [words("The weather is fine. " * 20)] if begun else []
        client = talker(scripted(Script(*steps, RuntimeError("a secret of ours"))), speaker)
        await client.task
        return client

    with caplog.at_level(logging.ERROR):
        client = run(talk())
    assert client.status == (200 if begun else 500)
    assert b"internal error in toolspeak" in client.body and b"secret" not in client.body
    assert "a secret of ours" in caplog.text
    if begun:
        assert not speaker.read(client.body, True).ended


# ---- silence


@pytest.mark.requirement("R-F8")
@FACES
def test_a_silent_stream_is_kept_alive_and_nothing_else_changes(speaker: Speaker):
    async def talk() -> tuple[Client, int]:
        more = asyncio.Event()
        script = Script(words("The weather is fine. " * 20), more, words("Take a walk."), END)
        client = talker(scripted(script, keep_alive=OFTEN), speaker)
        await client.hears(bool)
        said = len(client.writes)
        await client.hears(lambda body: len(client.writes) >= said + 2)
        more.set()
        await client.task
        return client, said

    client, said = run(talk())
    fillers = {
        "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
        "gemini": b"\r\n",
        "ollama": b" ",
    }
    assert client.writes[said] == fillers.get(speaker.name, b": keep-alive\n\n")
    seen = speaker.read(client.body, True)
    assert (seen.text, seen.ended) == ("The weather is fine. " * 20 + "Take a walk.", True)


@pytest.mark.requirement("R-F8")
def test_a_keep_alive_that_is_being_written_is_not_written_into():
    async def talk() -> Client:
        more = asyncio.Event()
        script = Script(words("The weather is fine. " * 20), more, words("Take a walk."), END)
        client = talker(scripted(script, keep_alive=OFTEN), SPEAKERS[0])
        await client.hears(bool)
        client.reading.clear()
        await client.hears(lambda body: body.endswith(b": keep-alive\n\n"))
        more.set()
        for _ in range(100):  # whoever could go on would
            await asyncio.sleep(0)
        assert client.body.endswith(b": keep-alive\n\n")
        client.reading.set()
        await client.task
        return client

    seen = SPEAKERS[0].read(run(talk()).body, True)
    assert (seen.text, seen.ended) == ("The weather is fine. " * 20 + "Take a walk.", True)


@pytest.mark.requirement("R-F27")
def test_a_keep_alive_that_cannot_be_written_harms_nobody():
    async def talk() -> None:
        script = Script(words("The weather is fine. " * 20), asyncio.Event())
        client = talker(scripted(script, keep_alive=OFTEN), SPEAKERS[0])
        await client.hears(bool)
        client.broken = BrokenPipeError()
        await client.refused.wait()
        client.leave()
        await client.task
        assert script.left.is_set()

    run(talk())


async def _silent(speaker: Speaker, last: list[Event], stream: bool = True) -> Client:
    """An upstream that thinks for longer than anybody waits for a status."""
    more = asyncio.Event()
    client = talker(scripted(Script(more, last, END), keep_alive=OFTEN), speaker, stream)
    if stream:
        await client.hears(bool)
    else:
        await client.looked_at(20)  # none of which may begin an answer that is in one piece
    more.set()
    await client.task
    return client


@pytest.mark.requirement("R-F9")
@FACES
def test_who_waits_long_for_the_first_word_gets_a_stream_that_has_begun(speaker: Speaker):
    client = run(_silent(speaker, words("Take a walk.")))
    assert (client.status, speaker.read(client.body, True).text) == (200, "Take a walk.")
    fillers = {"gemini": b"\r\n", "ollama": b" "}
    assert client.writes[0] == fillers.get(speaker.name, b": keep-alive\n\n")


@pytest.mark.requirement("R-F9", "R-F6")
@FACES
def test_an_error_after_that_is_an_event(speaker: Speaker):
    client = run(_silent(speaker, [Failure("it fell over", "upstream", 500)]))
    seen = speaker.read(client.body, True)
    assert (client.status, seen.error, seen.ended) == (200, "it fell over", False)


@pytest.mark.requirement("R-F9")
@FACES
def test_an_answer_in_one_piece_does_not_begin_before_it_is_whole(speaker: Speaker):
    client = run(_silent(speaker, words("Take a walk."), stream=False))
    assert speaker.read(client.body, False).text == "Take a walk."
    assert len(client.writes) == 1


# ---- pace


@pytest.mark.requirement("R-F26")
@FACES
def test_what_a_client_does_not_take_is_not_read(speaker: Speaker):
    async def talk() -> int:
        script = Script(*(words("The weather is fine. " * 20) for _ in range(50)), END)
        client = talker(scripted(script), speaker)
        client.reading.clear()
        await client.hears(lambda body: bool(client.sent))
        for _ in range(100):  # whoever could go on would
            await asyncio.sleep(0)
        pulled = script.pulled
        client.reading.set()
        await client.task
        assert speaker.read(client.body, True).text == "The weather is fine. " * 20 * 50
        return pulled

    assert run(talk()) == 1


@pytest.mark.requirement("B8")
@FACES
def test_one_read_is_one_write(speaker: Speaker):
    async def talk() -> Client:
        batches: list[list[Event]] = [[TextDelta(f"word {number} ") for number in range(40)] for _ in range(10)]
        client = talker(scripted(Script(*batches, END)), speaker)
        await client.task
        return client

    client = run(talk())
    # The first read, the nine others, and the end.
    assert len(client.writes) == 11


# ---- what is told beside the answer, and what is left as it is


@pytest.mark.requirement("A9", "A12")
@FACES
def test_the_header_tells_what_was_done(speaker: Speaker):
    async def talk() -> Client:
        async with between(Two(), "openai_chat") as (app, _):
            client = talker(app, speaker, stream=False)
            await client.task
            return client

    told = json.loads(run(talk()).headers["x-toolspeak"])
    assert told.pop("id")
    assert told.pop("upstream")
    assert told == {"plan": "inline", "requests": 1, "warnings": ["tool calls emulated"]}


def test_a_header_that_would_be_too_long_or_not_ascii_says_less():
    async def talk() -> Client:
        body = SPEAKERS[0].ask(False)
        body["tools"] += [{"type": "wéb_search"}]
        client = Client(scripted(Script(words("Fine."), END)), SPEAKERS[0].path(False), body)
        await client.task
        return client

    client = run(talk())
    assert client.status == 200
    assert set(json.loads(client.headers["x-toolspeak"])) == {"id", "plan", "upstream"}


_EXTRAS: dict[str, dict[str, Any]] = {
    "openai_chat": {"temperature": 0.5, "seed": 7, "user": "u", "never_heard_of": {"x": 1}},
    "openai_responses": {"temperature": 0.5, "reasoning": {"effort": "low"}, "never_heard_of": {"x": 1}},
    "anthropic": {"temperature": 0.5, "metadata": {"user_id": "u"}, "never_heard_of": {"x": 1}},
    "gemini": {"generationConfig": {"temperature": 0.5, "topK": 3}, "safetySettings": []},
    "ollama": {"options": {"temperature": 0.5, "num_ctx": 4096}, "keep_alive": "5m"},
}


def _spelled_out(body: dict[str, Any]) -> dict[str, Any]:
    """With what goes without saying."""
    said = {"stream": False, **body}
    if "input" in said:
        said["input"] = [{"type": "message", **item} for item in said["input"]]
    return said


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("stream", [True, False])
@FACES
def test_a_request_without_tools_passes_untouched(speaker: Speaker, stream: bool):
    looks_like_a_call = '```json action\n{"tool": "get_time", "parameters": {}}\n```'

    def model(request: Request) -> list[Event]:
        return [TextDelta(looks_like_a_call), Finish("stop")]

    async def talk() -> tuple[Client, Any, dict[str, Any]]:
        body = speaker.ask(stream, tools=False) | _EXTRAS[speaker.name]
        async with between(model, speaker.name) as (app, server):
            client = Client(app, speaker.path(stream), body)
            await client.task
            return client, server.heard[0].json, body

    client, heard, body = run(talk())
    assert speaker.read(client.body, stream).text == looks_like_a_call
    assert _spelled_out(heard) == _spelled_out(body)
    assert json.loads(client.headers["x-toolspeak"])["plan"] == "pass"


# ---- what some protocols have of their own


@pytest.mark.requirement("G5")
@check_each("field", [{"previous_response_id": "resp_1"}, {"background": True}])
def test_an_earlier_response_that_nobody_has_kept_is_refused(field: dict[str, Any]):
    async def talk() -> Client:
        client = Client(scripted(Script(END)), "/v1/responses", {"model": "m", "input": QUESTION} | field)
        await client.task
        return client

    client = run(talk())
    assert (client.status, json.loads(client.body)["error"]["type"]) == (400, "invalid_request_error")
    assert "not stored here" in json.loads(client.body)["error"]["message"]


@pytest.mark.requirement("G5")
def test_an_upstream_that_keeps_responses_is_asked_for_them():
    def model(request: Request) -> list[Event]:
        return [TextDelta("Fine."), Finish("stop")]

    async def talk() -> tuple[int, Any]:
        async with between(model, "openai_responses") as (app, server):
            body = {"model": "m", "input": QUESTION, "previous_response_id": "resp_1"}
            client = Client(app, "/v1/responses", body)
            await client.task
            return client.status, server.heard[0].json

    status, heard = run(talk())
    assert (status, heard["previous_response_id"]) == (200, "resp_1")


@pytest.mark.requirement("G1")
def test_a_gemini_client_that_does_not_ask_for_events_gets_a_list():
    async def talk() -> Client:
        gemini = SPEAKERS[3]
        script = Script(words("The weather is fine. " * 20), words("Take a walk."), END)
        client = Client(scripted(script), "/v1beta/models/m:streamGenerateContent", gemini.ask(True))
        await client.task
        return client

    client = run(talk())
    assert client.headers["content-type"] == "application/json"
    parts = [response["candidates"][0]["content"]["parts"][0]["text"] for response in json.loads(client.body)]
    assert "".join(parts) == "The weather is fine. " * 20 + "Take a walk."


class Many(Script):
    """One upstream for several clients: each names its script."""

    def __init__(self, scripts: list[Script]) -> None:
        super().__init__()
        self._scripts = scripts

    def open(self, request: Request) -> Batches:
        return self._scripts[int(request.messages[-1].text)].open(request)


def test_streams_side_by_side_do_not_mix():
    async def talk() -> None:
        turns = [asyncio.Event() for _ in range(20)]
        steps = [(words(f"I am {at}. " * 40), turn, words(f"Still {at}."), END) for at, turn in enumerate(turns)]
        app = scripted(Many([Script(*each) for each in steps]))
        clients: list[tuple[Speaker, Client]] = []
        for at in range(20):
            speaker = SPEAKERS[at % len(SPEAKERS)]
            body = json.dumps(speaker.ask(True, tools=False)).replace(QUESTION, str(at))
            clients.append((speaker, Client(app, speaker.path(True), json.loads(body))))
        for _, client in clients:
            await client.hears(bool)
        for turn in reversed(turns):
            turn.set()
        for at, (speaker, client) in enumerate(clients):
            await client.task
            assert speaker.read(client.body, True).text == f"I am {at}. " * 40 + f"Still {at}."

    run(talk())


def test_a_websocket_is_closed_by_a_server_that_offers_one():
    async def talk() -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        await scripted(Script())({"type": "websocket", "path": "/v1/responses"}, receive, send)
        return sent

    assert run(talk()) == [{"type": "websocket.close", "code": 1008}]


def test_no_task_of_a_finished_request_is_left():
    async def talk() -> set[Any]:
        before = asyncio.all_tasks()
        client = talker(scripted(Script(words("Fine."), END)), SPEAKERS[0])
        await client.task
        await asyncio.sleep(0)
        return asyncio.all_tasks() - before

    assert run(talk()) == set()
