"""What a server says that it has done."""

from __future__ import annotations

import json
import timeit
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import toolspeak as ts
from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, Team, ask, bearer, gateway, line, run
from tests.server.protocol_clients import SPEAKERS
from tests.server.scripted_peers import Script, talker, words
from toolspeak.core.types import Note
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.server.app import App
from toolspeak.server.observe.counters import Counters, decode_counters, sum_counters
from toolspeak.server.observe.metrics import Metrics, exposition
from toolspeak.server.observe.request_context import WriteStalls
from toolspeak.server.proxy.exchange import RequestRecord
from toolspeak.upstreams.base import Batches

CHAT = "/v1/chat/completions"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
    }
]


class Answers(Parrot):
    """An upstream that gives one answer after the other."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts = list(texts)

    async def _batches(self, request: ts.Request) -> Batches:
        self.asked.append(request)
        text = self.texts[min(len(self.asked), len(self.texts)) - 1]
        yield [ts.TextDelta(text), ts.UsageSeen(ts.Usage(7, 3))]
        yield [ts.Finish("stop")]


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Name and values of the labels -> value, as a scraper reads them; `le` last."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation
        for sample in family.samples:
            labels = [value for name, value in sample.labels.items() if name != "le"]
            found[sample.name, *labels, *filter(None, [sample.labels.get("le")])] = sample.value
    return found


async def scraped(app: App, key: str) -> dict[tuple[str, ...], float]:
    answer = await ask(app, "GET", "/metrics", bearer(key))
    assert answer.status == 200
    assert answer.header("content-type").startswith("text/plain; version=0.0.4")
    return samples(answer.body)


def fenced(arguments: str) -> str:
    return f'```json action\n{{"tool": "look", "parameters": {arguments}}}\n```'


def counted(parrot: Parrot, body: dict[str, Any], **fields: Any) -> dict[tuple[str, ...], float]:
    """The numbers after one request."""

    async def scenario() -> dict[tuple[str, ...], float]:
        settings = Settings(mode="force", marks="fixed")
        team = Team(line("one", parrot, models=("m",), **{"settings": lambda model: settings, **fields}))
        await ask(team.app, "POST", CHAT, bearer(team.key("anna")), body)
        return await scraped(team.app, team.key("root", admin=True))

    return run(scenario())


@pytest.mark.requirement("H4")
def test_native_and_emulated_requests_are_told_apart():
    asked = {**HELLO, "tools": TOOLS}
    emulated = counted(Answers(fenced('{"n": 1}')), asked)
    assert emulated["toolspeak_requests_total", "openai_chat", "m", "inline", "emulated", "200"] == 1
    native = counted(Answers("Hello."), asked, settings=lambda model: Settings(mode="off"))
    assert native["toolspeak_requests_total", "openai_chat", "m", "pass", "native", "200"] == 1
    plain = counted(Answers("Hello."), HELLO)
    assert plain["toolspeak_requests_total", "openai_chat", "m", "pass", "none", "200"] == 1


@pytest.mark.requirement("H4")
def test_retries_refusals_repairs_and_calls_are_counted_for_each_model():
    texts = ("I'm sorry, I don't have access to any tools.", fenced("{'n': '1',}"))
    found = counted(Answers(*texts), {**HELLO, "tools": TOOLS, "tool_choice": "required"})
    assert found["toolspeak_faults_total", "m", "refusal"] == 1
    assert found["toolspeak_retries_total", "m", "refusal"] == 1
    assert found["toolspeak_upstream_requests_total", "m", "inline"] == 2
    assert found["toolspeak_tokens_total", "m", "inline", "input"] == 14
    assert found["toolspeak_tokens_total", "m", "inline", "output"] == 6
    assert sum(value for name, value in found.items() if name[:2] == ("toolspeak_calls_total", "m")) == 1
    repairs = {labels[2] for labels in found if labels[:2] == ("toolspeak_repairs_total", "m")}
    assert {"single_quotes", "trailing_comma"} <= repairs


@pytest.mark.requirement("H4", "H6")
def test_an_answer_without_a_call_is_counted_where_tools_were_offered():
    found = counted(Answers("It is fine."), {**HELLO, "tools": TOOLS})
    assert found["toolspeak_no_call_total", "m", "inline"] == 1


@pytest.mark.requirement("H4")
def test_what_we_add_is_what_is_left_without_the_waiting():
    metrics = Metrics(lambda: ["m"])
    metrics.count_request(_record(), 200, 2.0, 0.4, 0.002)
    found = samples(exposition(metrics.counters, "1"))
    assert found["toolspeak_added_seconds_sum", "m", "inline"] == 0.002
    assert found["toolspeak_added_seconds_bucket", "m", "inline", "0.001"] == 0
    assert found["toolspeak_added_seconds_bucket", "m", "inline", "0.0025"] == 1
    assert found["toolspeak_added_seconds_bucket", "m", "inline", "+Inf"] == 1
    assert found["toolspeak_request_seconds_sum", "m", "inline"] == 2
    assert found["toolspeak_first_byte_seconds_bucket", "m", "inline", "0.5"] == 1
    assert found["toolspeak_request_seconds_count", "m", "inline"] == 1


def _record(model: str = "m", **fields: Any) -> RequestRecord:
    return RequestRecord("id", "openai_chat", model, "inline", 1, (), "", Trace("inline", "r", "w"), **fields)


@pytest.mark.requirement("H4")
def test_a_wait_for_the_upstream_is_no_time_of_ours():
    """The upstream takes far longer than everything else together."""

    async def scenario() -> dict[tuple[str, ...], float]:
        import asyncio

        parrot = Parrot()
        parrot.held = asyncio.Event()
        team = Team(line("one", parrot, models=("m",)))
        asyncio.get_running_loop().call_later(0.5, parrot.held.set)
        await ask(team.app, "POST", CHAT, bearer(team.key("anna")), HELLO)
        return await scraped(team.app, team.key("root", admin=True))

    found = run(scenario())
    whole = found["toolspeak_request_seconds_sum", "m", "pass"]
    assert whole > 0.4  # clocks of a loop are coarse
    assert found["toolspeak_added_seconds_sum", "m", "pass"] < whole - 0.1


def test_a_wait_for_the_client_is_summed():
    stalls = WriteStalls()
    stalls.end()
    assert stalls.seconds == 0
    stalls.begin()
    stalls.end()
    once = stalls.seconds
    assert once > 0
    stalls.end()
    assert stalls.seconds == once


@pytest.mark.requirement("H4")
def test_a_model_that_only_a_request_names_is_other():
    metrics = Metrics(lambda: ["m", "fast"])
    for number in range(1000):
        metrics.count_request(_record(f'evil{number}"}}\n'), 200, 0.1, 0.1, 0.1)
    metrics.count_request(_record("fast"), 404, 0.1, 0.1, 0.1)
    assert {labels[1] for labels in metrics.counters.requests} == {"other", "fast"}


def _answered(name: str, **fields: Any) -> RequestRecord:
    attempt = AttemptTrace("plain", ts.Request(name, ()), "", "", (), (), "stop", ts.Usage())
    trace = Trace("pass", "r", "w", (attempt,))
    return msgspec.structs.replace(_record(name, **fields), trace=trace)


@pytest.mark.requirement("H4")
def test_a_model_that_answered_has_its_own_label_up_to_a_limit():
    listed = [f"listed{number}" for number in range(300)]
    metrics = Metrics(lambda: listed)
    metrics.count_request(msgspec.structs.replace(_answered("failing"), error="down"), 502, 0.1, 0.1, 0.1)
    metrics.count_request(_answered("odd\nname"), 200, 0.1, 0.1, 0.1)
    assert {labels[1] for labels in metrics.counters.requests} == {"other"}
    for number in range(1000):
        metrics.count_request(_answered(f"any{number}"), 200, 0.1, 0.1, 0.1)
    assert {labels[1] for labels in metrics.counters.requests} == {"other", *(f"any{each}" for each in range(100))}
    for name in listed:
        metrics.count_request(_answered(name), 200, 0.1, 0.1, 0.1)
    assert len({labels[1] for labels in metrics.counters.requests}) == 201


@pytest.mark.requirement("H4")
@check_each("stream", [False, True])
def test_an_upstream_that_takes_any_model_has_its_models_told_apart(stream: bool):
    async def scenario() -> dict[tuple[str, ...], float]:
        team = Team(line("one", Parrot()), required=False)
        for tools in ([], TOOLS):
            await ask(team.app, "POST", CHAT, {}, {**HELLO, "model": "qwen3:8b", "tools": tools, "stream": stream})
        return await scraped(team.app, team.key("root", admin=True))

    found = run(scenario())
    plans = {
        key[3]: value
        for key, value in found.items()
        if key[:3] == ("toolspeak_requests_total", "openai_chat", "qwen3:8b")
    }
    assert plans == {"pass": 1, "inline": 1}
    assert not [key for key in found if "other" in key]


def test_at_most_so_many_models_and_events_are_told_apart():
    names = [f"m{number}" for number in range(3000)]
    metrics = Metrics(lambda: names)
    for name in names:
        metrics.count_request(_record(name, notes=(Note(f"code_{name}"),)), 200, 0.1, 0.1, 0.1)
    assert len({labels[1] for labels in metrics.counters.requests}) == 201
    assert len(metrics.counters.events) <= 2001


def test_names_are_looked_up_again_after_a_while_and_with_a_new_catalogue():
    known, now = ["a"], [0.0]
    metrics = Metrics(lambda: known, clock=lambda: now[0])
    assert metrics.model("b") == "other"
    known.append("b")
    assert metrics.model("b") == "other"
    now[0] = 60.0
    assert metrics.model("b") == "b"
    known.remove("b")
    metrics.forget_names()
    assert metrics.model("b") == "other"


def test_names_with_odd_characters_stay_one_label():
    metrics = Metrics(lambda: ['a"\\\n}'])
    metrics.count_request(_record('a"\\\n}'), 200, 0.1, 0.1, 0.1)
    found = samples(exposition(metrics.counters, "1"))
    assert found["toolspeak_requests_total", "openai_chat", 'a"\\\n}', "inline", "none", "200"] == 1


def test_everything_that_is_answered_is_counted_by_route_and_status():
    async def scenario() -> dict[tuple[str, ...], float]:
        team = Team()
        for _ in range(3):
            await ask(team.app, "GET", "/health")
        await ask(team.app, "GET", "/v1/models")
        await ask(team.app, "GET", "/nowhere", bearer(team.key("anna")))
        return await scraped(team.app, team.key("root", admin=True))

    found = run(scenario())
    assert found["toolspeak_responses_total", "health", "200"] == 3
    assert found["toolspeak_responses_total", "models", "401"] == 1
    assert found["toolspeak_responses_total", "none", "404"] == 1
    assert found["toolspeak_workers",] == 1
    assert found["toolspeak_requests_in_flight",] == 0
    assert found["process_open_fds",] > 0


@pytest.mark.requirement("R-T9")
@check_each("required", [True, False])
def test_only_who_runs_the_server_sees_the_numbers(required: bool):
    team = Team(required=required)
    anna = team.key("anna")
    assert run(ask(team.app, "GET", "/metrics")).status == 401
    assert run(ask(team.app, "GET", "/metrics", bearer(anna))).status == 403
    assert run(ask(team.app, "GET", "/metrics", bearer(team.key("root", admin=True)))).status == 200


@pytest.mark.requirement("R-T2", "H4")
def test_no_prompt_answer_argument_or_key_is_among_the_numbers():
    async def scenario() -> bytes:
        team = Team(line("one", Answers(fenced('{"n": "canary"}'), "canary"), models=("m",)))
        anna, root = team.key("canary-name"), team.key("root", admin=True)
        tool = json.loads(json.dumps(TOOLS).replace("look", "canary_tool"))
        for body in (
            {"model": "m", "messages": [{"role": "user", "content": "canary"}], "tools": tool},
            {"model": "canary", "messages": [{"role": "user", "content": "canary"}]},
        ):
            headers = {**bearer(anna), "x-request-id": "canary", "user-agent": "canary"}
            await ask(team.app, "POST", CHAT + "?canary=canary", headers, body)
        await ask(team.app, "GET", "/canary", bearer(anna))
        told = await ask(team.app, "GET", "/metrics", bearer(root))
        assert anna.encode() not in told.body and root.encode() not in told.body
        return told.body

    assert b"canary" not in run(scenario())


def test_a_client_that_left_is_counted_as_such():
    import asyncio

    async def scenario() -> dict[tuple[str, ...], float]:
        script = Script(words("The weather"), asyncio.Event())
        team = Team(line("one", script, models=("m",)), required=False)
        client = talker(team.app, SPEAKERS[0])
        client._scope["headers"] = [(b"host", b"127.0.0.1")]
        await script.reached.wait()
        client.leave()
        await client.task
        return await scraped(team.app, team.key("root", admin=True))

    found = run(scenario())
    statuses = {labels[-1] for labels in found if labels[0] == "toolspeak_requests_total"}
    assert statuses <= {"499", "200"} and statuses


def test_numbers_of_workers_add_up_and_survive_a_file():
    first, second = Metrics(lambda: ["m"]), Metrics(lambda: ["m"])
    for metrics in (first, second, second):
        metrics.count_request(_record(notes=(Note("odd"),)), 200, 0.3, 0.2, 0.01)
        metrics.count_response("openai_chat", 200)
    first.counters.gauges = {"toolspeak_workers": 1.0}
    second.counters.gauges = {"toolspeak_workers": 1.0}
    again = decode_counters(msgspec.msgpack.encode(second.counters))
    assert again == second.counters
    whole = sum_counters([first.counters, second.counters])
    found = samples(exposition(whole, "1"))
    assert found["toolspeak_requests_total", "openai_chat", "m", "inline", "none", "200"] == 3
    assert found["toolspeak_request_seconds_count", "m", "inline"] == 3
    assert found["toolspeak_notes_total", "m", "odd"] == 3
    assert found["toolspeak_workers",] == 2
    assert first.counters.requests == {("openai_chat", "m", "inline", "none", "200"): 1}


@check_each("data", [b"", b"\xff", b"\x91\x01", b"{}"])
def test_what_is_no_file_of_numbers_counts_as_nothing(data: bytes):
    assert decode_counters(data) is None


def test_counting_is_cheap_beside_the_library_that_it_replaces():
    """A ratio, since machines differ: one request with all its numbers against one counter and one histogram."""
    from prometheus_client import CollectorRegistry, Counter, Histogram

    registry = CollectorRegistry()
    counter = Counter("a", "a", ["face", "model", "plan", "tools", "status"], registry=registry)
    histogram = Histogram("b", "b", ["model", "plan"], registry=registry)
    metrics, record = Metrics(lambda: ["m"]), _record()

    def theirs() -> None:
        counter.labels("openai_chat", "m", "inline", "none", "200").inc()
        histogram.labels("m", "inline").observe(0.1)

    def ours() -> None:
        metrics.count_request(record, 200, 0.3, 0.2, 0.01)

    ours_best, theirs_best = (min(timeit.repeat(each, number=2000, repeat=5)) for each in (ours, theirs))
    assert ours_best < 2 * theirs_best


def test_a_server_without_requests_has_something_to_show():
    app = App(gateway())
    assert samples(exposition(app.lifecycle.all_counters(), "1.2"))["toolspeak_build_info", "1.2"] == 1
    assert samples(exposition(Counters(), "1.2")) == {("toolspeak_build_info", "1.2"): 1}


def test_whether_the_server_lives_is_told_without_loading_anything():
    app = App(gateway())
    assert run(ask(app, "GET", "/health")).json == {"status": "ok"}
    assert "_pages" not in vars(app)
