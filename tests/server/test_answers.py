"""Several answers to one request: as many turns, one reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import zip_longest
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Answer, ask, run
from tests.server.live_proxy import between, live, reached
from tests.server.protocol_clients import sse
from tests.upstreams.loopback_server import Heard, head, serving
from toolspeak.core.events import Event, Failure, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Options, Request, Tool, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import TurnOutcome
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.errors import UsageError
from toolspeak.key_value import MemoryState
from toolspeak.runtime.model_resolution import ResolvedModel
from toolspeak.runtime.turn import all_events
from toolspeak.runtime.turn_factory import PlannedTurn, TurnFactory
from toolspeak.server.proxy.answers import MAX_ANSWERS, MAX_CONCURRENT, SeveralTurns, join_turns, single_requests

pytestmark = pytest.mark.requirement("C8")

MESSAGES: list[Any] = [{"role": "user", "content": "Name a city."}]
CITIES = ["Oslo", "Bergen", "Rome"]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}


class Numbered:
    """A model that gives the next of its answers to each request."""

    def __init__(self, *answers: str) -> None:
        self._answers = answers
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> list[Event]:
        text = self._answers[len(self.asked) % len(self._answers)]
        self.asked.append(request)
        pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
        return [*map(TextDelta, pieces), UsageSeen(Usage(20, 10)), Finish("stop")]


def _post(
    model: Any, body: dict[str, Any], upstream: str = "openai_chat", path: str = "/v1/chat/completions"
) -> Answer:
    async def talk() -> Answer:
        async with between(model, upstream, Settings()) as (app, _):
            return await ask(app, "POST", path, body={"model": "m", **body})

    return run(talk())


# ---- through the proxy


@check_each("upstream", ["openai_chat", "anthropic", "ollama"])
@check_each("tools", [[], [TOOL]])
def test_every_answer_is_a_choice_whatever_the_upstream(upstream: str, tools: list[Any]):
    model = Numbered(*CITIES)
    answer = _post(model, {"messages": MESSAGES, "n": 3, **({"tools": tools} if tools else {})}, upstream)
    reply = answer.json
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert sorted(choice["message"]["content"] for choice in reply["choices"]) == sorted(CITIES)
    assert (reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]) == (60, 30)
    assert json.loads(answer.header("x-toolspeak"))["requests"] == 3
    first = 3 if upstream == "openai_chat" and not tools else 1  # the model gives one answer, so two more are needed
    assert [request.options.n for request in model.asked] == [first, 1, 1]


def test_streamed_choices_are_told_apart():
    model = Numbered(*CITIES)
    body = {"messages": MESSAGES, "n": 3, "stream": True, "stream_options": {"include_usage": True}}
    *events, done = [data for _, data in sse(_post(model, body).body)]
    chunks = [json.loads(data) for data in events]
    texts = dict.fromkeys(range(3), "")
    reasons: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
    assert sorted(texts.values()) == sorted(CITIES)
    assert (reasons, done) == (dict.fromkeys(range(3), "stop"), "[DONE]")
    (usage,) = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (60, 30)


@check_each("stream", [False, True])
def test_the_openai_sdk_reads_them(stream: bool):
    openai = pytest.importorskip("openai")
    with (
        live(Numbered(*CITIES), settings=Settings()) as place,
        openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0) as client,
    ):
        if stream:
            with client.chat.completions.stream(model="m", messages=MESSAGES, n=3) as events:
                reply = events.get_final_completion()
        else:
            reply = client.chat.completions.create(model="m", messages=MESSAGES, n=3)
    assert sorted(choice.message.content for choice in reply.choices) == sorted(CITIES)


def test_each_answer_keeps_a_response_format():
    model = Numbered("It is Oslo.", 'Sure: {"city": "Oslo"}', 'Here: {"city": "Rome"}')
    answer = _post(model, {"messages": MESSAGES, "n": 2, "response_format": {"type": "json_object"}})
    found = [json.loads(choice["message"]["content"]) for choice in answer.json["choices"]]
    assert all(each in ({"city": "Oslo"}, {"city": "Rome"}) for each in found)
    assert json.loads(answer.header("x-toolspeak"))["requests"] == len(model.asked) == 3


def test_gemini_gets_candidates():
    contents = [{"role": "user", "parts": [{"text": "Name a city."}]}]
    body = {"contents": contents, "generationConfig": {"candidateCount": 2}}
    model = Numbered(*CITIES[:2])
    reply = _post(model, body, path="/v1beta/models/m:generateContent").json
    assert [candidate["index"] for candidate in reply["candidates"]] == [0, 1]
    assert reply["usageMetadata"]["promptTokenCount"] == 40
    streamed = _post(model, body, path="/v1beta/models/m:streamGenerateContent?alt=sse")
    assert (streamed.status, "cannot be streamed" in streamed.message) == (400, True)


@check_each("stream", [False, True])
def test_one_that_fails_fails_the_request(stream: bool):
    wanted = {"messages": MESSAGES, "n": 2, "stream": stream, "response_format": {"type": "json_object"}}
    answer = _post(Numbered("It is Oslo."), wanted)
    assert (answer.status, "no answer in the requested format" in answer.message) == (502, True)


@check_each("n", [0, -1, 1.5, "2", True])
def test_the_number_of_answers_must_be_positive(n: Any):
    model = Numbered(*CITIES)
    asked = (_post(model, {"messages": MESSAGES, "n": n}), "`n` must be ")
    contents = [{"role": "user", "parts": [{"text": "Name a city."}]}]
    body = {"contents": contents, "generationConfig": {"candidateCount": n}}
    other = (_post(model, body, path="/v1beta/models/m:generateContent"), "candidateCount` must be ")
    for answer, message in (asked, other):
        assert (answer.status, message in answer.message) == (400, True)
    assert model.asked == []


# ---- one request to the upstream


def _chat(texts: Sequence[str], stream: bool) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": 10}
    if not stream:
        choices = [
            {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for at, text in enumerate(texts)
        ]
        return json.dumps({"choices": choices, "usage": usage}).encode()
    pieces = [(at, {"content": letter}, None) for letters in zip_longest(*texts) for at, letter in enumerate(letters)]
    ends = [(at, {}, "stop") for at in range(len(texts))]
    chunks: list[Any] = [
        {"choices": [{"index": at, "delta": delta, "finish_reason": reason}]} for at, delta, reason in pieces + ends
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, {"choices": [], "usage": usage}]]
    return ("".join(lines) + "data: [DONE]\n\n").encode()


class Service:
    """A chat service that gives up to `most` answers to one request, or refuses to give several."""

    def __init__(self, most: int = 128, refusal: str = "", reason: str = "Unknown parameter: 'n'.") -> None:
        self._most = most
        self._refusal = refusal
        self._reason = reason
        self.asked: list[int] = []

    def answer(self) -> Any:
        async def answer(heard: Heard) -> None:
            body = json.loads(heard.body)
            n, stream = body.get("n", 1), bool(body.get("stream"))
            self.asked.append(n)
            status, reply = "200 OK", _chat([f"{len(self.asked)}.{at}" for at in range(min(n, self._most))], stream)
            if n > 1 and self._refusal:
                status, reply = f"{self._refusal} Bad", json.dumps({"error": {"message": self._reason}}).encode()
            kind = "text/event-stream" if stream and status == "200 OK" else "application/json"
            await heard.send(head(f"content-type: {kind}", f"content-length: {len(reply)}", status=status), reply)

        return answer

    def talk(self, *bodies: dict[str, Any], settings: Settings | None = None) -> list[Answer]:
        async def talk() -> list[Answer]:
            async with between(self.answer(), "openai_chat", settings or Settings()) as (app, _):
                asked = {"model": "m", "messages": MESSAGES}
                return [await ask(app, "POST", "/v1/chat/completions", body={**asked, **body}) for body in bodies]

        return run(talk())


def _choices(answer: Answer) -> list[str]:
    """The texts of the choices of a whole or streamed answer."""
    if answer.body.startswith(b"{"):
        return [choice["message"]["content"] for choice in answer.json["choices"]]
    texts: dict[int, str] = {}
    for _, data in sse(answer.body)[:-1]:
        for choice in json.loads(data)["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + (choice["delta"].get("content") or "")
    return [texts[at] for at in sorted(texts)]


@check_each("stream", [False, True])
def test_without_tools_one_request_asks_for_all_answers(stream: bool):
    service = Service()
    (answer,) = service.talk({"n": 6, "seed": 3, "stream": stream, "stream_options": {"include_usage": True}})
    assert (service.asked, _choices(answer)) == ([6], [f"1.{at}" for at in range(6)])
    assert (b'"prompt_tokens":20' in answer.body, b'"completion_tokens":10' in answer.body) == (True, True)
    if not stream:
        assert json.loads(answer.header("x-toolspeak"))["requests"] == 1


@check_each("stream", [False, True])
@check_each(
    "most, refusal, first, later",
    [
        (1, "", [3, 1, 1], [1, 1, 1]),
        (2, "", [3, 1], [3, 1]),
        (9, "400", [3, 1, 1, 1], [1, 1, 1]),
        (9, "422", [3, 1, 1, 1], [1, 1, 1]),
    ],
)
def test_missing_answers_are_requested_one_by_one(
    stream: bool, most: int, refusal: str, first: list[int], later: list[int]
):
    service = Service(most, refusal)
    answers = service.talk({"n": 3, "stream": stream}, {"n": 3, "stream": stream})
    assert service.asked == first + later
    assert [len(_choices(answer)) for answer in answers] == [3, 3]


@check_each("reason", ["n must be 1 when using greedy sampling, got 2.", "unknown voice"])
def test_a_refusal_that_may_concern_one_request_does_not_count_for_others(reason: str):
    service = Service(refusal="400", reason=reason)
    service.talk({"n": 2}, {"n": 2})
    assert service.asked == [2, 1, 1] * 2


def test_that_an_upstream_gives_one_answer_applies_to_one_tenant_for_an_hour(monkeypatch: pytest.MonkeyPatch):
    service, now = Service(most=1), [1000.0]
    monkeypatch.setattr("toolspeak.server.proxy.answers.monotonic", lambda: now[0])

    async def talk() -> list[list[int]]:
        async with serving(service.answer()) as server:
            model = ResolvedModel("openai", "m", server.url, "openai_chat", reached(server, "openai_chat"))
            maker = TurnFactory(model, Capabilities(), MemoryState(), b"a secret")
            asked: list[list[int]] = []
            for tenant in ("anna", "anna", "bert", *map(str, range(256)), "bert", "anna"):
                service.asked.clear()
                requests = single_requests(Request("m", (), options=Options(n=2)), streams=True)
                joined = join_turns([maker.make(each, Settings(), tenant) for each in requests], maker, tenant)
                await all_events(joined.turn)
                asked.append(list(service.asked))
                if tenant == "254":
                    now[0] += 3600
            assert len(maker.single_answers) < 256
            return asked

    asked = run(talk())
    assert asked[:3] == [[2, 1], [1, 1], [2, 1]]
    assert asked[-3:] == [[2, 1]] * 3


@check_each("stream", [False, True])
def test_a_failure_of_the_shared_request_fails_the_request(stream: bool):
    service = Service(refusal="403")
    (answer,) = service.talk({"n": 3, "stream": stream})
    assert (service.asked, answer.status, "Unknown parameter" in answer.message) == ([3], 403, True)


def test_answers_of_a_conversation_that_may_be_compacted_are_requested_one_by_one():
    service = Service()
    (answer,) = service.talk({"n": 2}, settings=Settings(compact="results"))
    assert (sorted(service.asked), len(_choices(answer))) == ([1, 1], 2)


# ---- the requests


def test_seeds_differ():
    requests = single_requests(Request("m", (), options=Options(n=3, seed=7)), streams=True)
    assert [(request.options.n, request.options.seed) for request in requests] == [(1, 7), (1, 8), (1, 9)]
    one = Request("m", (), options=Options(seed=7))
    assert single_requests(one, streams=False) == [one]


def test_the_number_of_answers_is_bounded():
    with pytest.raises(UsageError, match=f"at most {MAX_ANSWERS}"):
        single_requests(Request("m", (), options=Options(n=MAX_ANSWERS + 1)), streams=True)


def test_tools_of_the_server_run_once_only():
    planned = PlannedTurn(Played([]), Request("m", ()), None, (Tool("write"),))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="tools that the server runs"):
        join_turns([planned, planned], None, "")  # type: ignore[arg-type]


# ---- the turns


class Played:
    """A turn that plays batches; an exception among them is raised, an event is waited for."""

    provider = "script"
    requests_sent = 1
    upstream_seconds = first_token_seconds = held_seconds = tool_seconds = 0.0
    answered: tuple[AttemptTrace, ...] = ()
    running = most = 0

    def __init__(self, batches: Sequence[list[Event] | Exception | asyncio.Event]) -> None:
        self._batches = batches
        self.outcome: TurnOutcome | None = None
        self.closed = False

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        Played.running += 1
        Played.most = max(Played.most, Played.running)
        try:
            for step in self._batches:
                await asyncio.sleep(0)
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                    continue
                failure = next((event for event in step if isinstance(event, Failure)), None)
                if step is self._batches[-1]:
                    self.outcome = TurnOutcome(1, (), failure, Trace("pass", "no_tools", ""))
                yield step
        finally:
            Played.running -= 1
            self.closed = True


def said(text: str) -> list[list[Event]]:
    return [[TextDelta(text)], [UsageSeen(Usage(2, 1)), Finish("stop")]]


async def heard(turn: SeveralTurns) -> list[tuple[int, Event]]:
    return [(turn.current, event) async for batch in turn.batches() for event in batch]


def test_only_some_turns_run_at_a_time():
    Played.most = 0
    turn = SeveralTurns([Played(said(str(at))) for at in range(3 * MAX_CONCURRENT)])
    events = run(heard(turn))
    assert (Played.most, Played.running) == (MAX_CONCURRENT, 0)
    assert all((at, TextDelta(str(at))) in events for at in range(3 * MAX_CONCURRENT))
    assert turn.outcome is not None
    assert (turn.outcome.requests, turn.replies()[0].usage) == (12, Usage(24, 12))


def test_the_first_failure_stops_all_turns():
    async def talk() -> tuple[SeveralTurns, list[Played], list[tuple[int, Event]]]:
        failing = Played([[TextDelta("x")], [Failure("it fell over"), Finish("error")]])
        turns = [Played([asyncio.Event()]), failing]
        joined = SeveralTurns(turns)
        return joined, turns, await heard(joined)

    joined, turns, events = run(talk())
    assert joined.outcome is not None
    assert joined.outcome.failure == Failure("it fell over")
    assert [event for _, event in events][-2:] == [Failure("it fell over"), Finish("error")]
    assert all(turn.closed for turn in turns)


def test_an_error_is_raised_and_stops_all_turns():
    async def talk() -> list[Played]:
        turns = [Played([asyncio.Event()]), Played([UsageError("closed")])]
        with pytest.raises(UsageError, match="closed"):
            await heard(SeveralTurns(turns))
        return turns

    assert all(turn.closed for turn in run(talk()))
