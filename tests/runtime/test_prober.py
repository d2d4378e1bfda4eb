"""What a probe finds is kept, used by `auto` from the second request on, contradicted and renewed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.live_proxy import read_request, service
from tests.simulated_models import Able, model, refused
from tests.upstreams.loopback_server import Answer, Heard, head, serving
from toolspeak import (
    AsyncClient,
    Client,
    Event,
    Failure,
    Finish,
    Request,
    Scripted,
    TextDelta,
    ToolCall,
    Usage,
    UsageSeen,
)
from toolspeak.config import load
from toolspeak.engine.planning.capabilities import Capabilities, Profile
from toolspeak.engine.planning.probe_results import ProbeResult
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UpstreamError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.runtime.learning import UseStore
from toolspeak.runtime.model_resolution import ResolvedModel
from toolspeak.runtime.probe_cache import FRESH_SECONDS, ProbeStore, ProbeTarget, StoredProbe, apply_result
from toolspeak.runtime.prober import ProbeScheduler, measure
from toolspeak.upstreams.http.thin_transport import HttpUpstream
from toolspeak.upstreams.scripted import Script, calls

HERE = "http://127.0.0.1:9/v1"
FAR = "https://models.example.com/v1"
PLACE = ProbeTarget("scripted", "scripted", HERE)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "find", "parameters": {"type": "object", "properties": {"item": {"type": "string"}}}},
    }
]
QUESTION = "Where is the lamp?"


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def able_upstream(able: Able, base_url: str = HERE) -> Scripted:
    return Scripted(model(able), again=True, base_url=base_url)


def client_of(upstream: Scripted, **more: Any) -> AsyncClient:
    more = {"probe": "first-use", "state": MemoryState(), "known": Capabilities(), **more}
    return AsyncClient(upstream, config=load(env={}, cwd=Path("/nowhere")), **more)


def reached_of(upstream: Scripted) -> ResolvedModel:
    return ResolvedModel("scripted", "scripted", upstream.base_url, "openai_chat", upstream)


# ---- what auto makes of it


def second(able: Able, **options: Any) -> tuple[Any, Request]:
    """The second reply of a client, and the first request that was sent for it."""

    async def talk() -> tuple[Any, Request]:
        upstream = able_upstream(able)
        async with client_of(upstream) as client:
            with suppress(UpstreamError):
                await client.chat(QUESTION, TOOLS)
            assert upstream.requests[0].tools  # nothing was known: it was asked in both ways
            await client.probe()  # waits for the one that the first turn has begun
            before = len(upstream.requests)
            assert before > 10
            reply = await client.chat(QUESTION, TOOLS, **options)
            return reply, upstream.requests[before]

    return asyncio.run(talk())


@pytest.mark.requirement("A5", "D5")
@check_each(
    "able",
    [Able(), Able(native="sometimes"), Able(parallel=False), Able(schema="rejects"), Able(takes_limit=False)],
    ids=["native", "leaky", "one call at a time", "no schema", "no limit"],
)
def test_a_model_that_calls_natively_does_so_from_the_second_request_on(able: Able):
    reply, request = second(able)
    assert [tool.name for tool in request.tools] == ["find"]
    assert reply.requests == 1
    assert [call.arguments for call in reply.calls] == [{"item": "lamp"}]
    assert reply.trace().rule == "probe"
    assert "probe" in reply.trace().why


@pytest.mark.requirement("A5", "D5")
@pytest.mark.parametrize(
    ("able", "mark"),
    [
        (Able(native="rejects"), "json action"),
        (Able(native="ignores", speaks=("hermes",)), "<tool_call"),
        (Able(native="ignores", speaks=("invoke",)), "<invoke"),
        (Able(native="leaks", speaks=("hermes",)), "<tool_call"),
        (Able(native="ignores", copies_marks=False), "json action"),
    ],
    ids=["rejects", "hermes", "XML", "leaks only", "no marks"],
)
def test_a_model_that_does_not_is_asked_in_the_dialect_that_it_speaks(able: Able, mark: str):
    reply, request = second(able)
    assert request.tools == ()
    assert mark in request.messages[0].text
    assert reply.requests == 1
    assert [call.arguments for call in reply.calls] == [{"item": "lamp"}]
    assert reply.trace().rule == "probe"


def test_without_a_system_role_the_contract_stands_in_the_users_message():
    reply, request = second(Able(native="ignores", system="rejects"))
    assert [message.role for message in request.messages] == ["user"]
    assert reply.requests == 1
    assert reply.calls


def test_a_call_that_is_demanded_is_emulated_where_the_upstream_does_not_enforce_it():
    reply, request = second(Able(required="rejects"), tool_choice="required")
    assert (request.tools, reply.trace().rule) == ((), "required")
    assert reply.calls
    _, request = second(Able(), tool_choice="required")
    assert request.tools


def test_who_takes_no_streams_is_asked_without():
    async def talk() -> tuple[bool, str]:
        upstream = able_upstream(Able(native="ignores", stream="rejects"))
        async with client_of(upstream) as client:
            await client.chat(QUESTION, TOOLS)
            await client.probe()
            stream = client.stream(QUESTION, TOOLS)
            kinds = [type(event).__name__ async for event in stream]
            return upstream.requests[-1].stream, kinds[-1]

    assert asyncio.run(talk()) == (False, "Finish")


@pytest.mark.requirement("A5", "A7")
def test_a_model_that_calls_only_where_it_must_is_held_to_the_document():
    reply, request = second(Able(native="ignores", speaks=(), schema="enforces"))
    assert "response_format" in request.options.grammar
    assert (reply.trace().plan, reply.trace().rule) == ("envelope", "probe")
    assert [call.arguments for call in reply.calls] == [{"item": "lamp"}]


def test_a_refuser_stays_emulated():
    async def talk() -> str:
        async with client_of(able_upstream(Able(refuses=True))) as client:
            await client.chat(QUESTION, TOOLS, retries=0)
            await client.probe()
            return (await client.chat(QUESTION, TOOLS, retries=0)).trace().plan

    assert asyncio.run(talk()) == "inline"


# ---- when


def asked_of(upstream: Scripted, *settings: Any, tools: Any = TOOLS, **more: Any) -> int:
    """How many requests one turn leads to, the background included."""

    async def talk() -> int:
        async with client_of(upstream, **more) as client:
            await client.chat(QUESTION, tools, retries=0)
            while (task := client._probes._task) is not None and not task.done():
                await asyncio.wait([task])
            return len(upstream.requests)

    return asyncio.run(talk())


@pytest.mark.requirement("D5")
def test_nothing_is_asked_in_the_background_unless_it_is_wanted_and_of_use():
    assert asked_of(able_upstream(Able()), probe="") > 10
    assert asked_of(able_upstream(Able()), probe="off") == 1
    assert asked_of(able_upstream(Able(), FAR), probe="") == 1
    assert asked_of(able_upstream(Able(), FAR), probe="first-use") > 10
    assert asked_of(able_upstream(Able()), tools=None) == 1
    assert asked_of(able_upstream(Able()), mode="force") == 1
    known = Capabilities()
    known.override_provider("scripted", "none")
    assert asked_of(able_upstream(Able()), known=known) == 1


def test_a_client_that_is_closed_ends_its_probe():
    asked = asyncio.Event()

    async def hang(request: Request) -> Script:
        if len(upstream.requests) == 1:
            return "Hello."
        asked.set()
        await asyncio.Event().wait()
        return ""

    upstream = Scripted(hang, again=True, base_url=HERE)

    async def talk() -> None:
        client = client_of(upstream)
        await client.chat(QUESTION, TOOLS, retries=0)
        await asyncio.wait_for(asked.wait(), 10)
        await client.close()

    asyncio.run(talk())
    assert upstream.cancelled == [1]


def test_a_client_without_asyncio_can_ask_too():
    with Client(able_upstream(Able()), state=MemoryState(), known=Capabilities(), probe="off") as client:
        stored = client.probe()
    assert stored is not None
    assert stored.verdict.fields["capability"] == "openai"


# ---- contradiction


def probes_at(stored: StoredProbe | None, clock: Clock) -> tuple[ProbeScheduler, Capabilities, ProbeStore]:
    known, store = Capabilities(), ProbeStore(MemoryState(clock), clock=clock)
    if stored is not None:
        store.put(PLACE, stored)
    return ProbeScheduler(known, store), known, store


@pytest.mark.requirement("D5")
def test_a_400_that_refuses_tools_teaches_at_once():
    state, known = MemoryState(), Capabilities()
    store = ProbeStore(state)
    store.put(PLACE, StoredProbe(*PLACE, ProbeResult({"capability": "openai"}), store.clock()))
    upstream = able_upstream(Able(native="rejects"))

    async def talk() -> list[Any]:
        async with client_of(upstream, state=state, known=known, probe="off") as client:
            return [await client.chat(QUESTION, TOOLS) for _ in range(2)]

    first, then = asyncio.run(talk())
    assert [call.arguments for call in first.calls] == [{"item": "lamp"}]
    assert (first.requests, then.requests) == (2, 1)
    assert then.trace().rule == "learned"
    assert [bool(request.tools) for request in upstream.requests] == [True, False, False]
    assert UseStore(state, store.clock).get(PLACE).tenants[""].refused == {"capability": "none"}


def test_a_400_about_the_choice_says_nothing_about_tools():
    state, known = MemoryState(), Capabilities()
    store = ProbeStore(state)
    store.put(PLACE, StoredProbe(*PLACE, ProbeResult({"capability": "openai"}), store.clock()))
    upstream = able_upstream(Able(required="rejects"))

    async def talk() -> str:
        async with client_of(upstream, state=state, known=known, probe="off") as client:
            await client.chat(QUESTION, TOOLS, tool_choice="required")
            return (await client.chat(QUESTION, TOOLS)).trace().rule

    assert asyncio.run(talk()) == "probe"


@pytest.mark.requirement("R-F47")
def test_an_upstream_that_refuses_a_system_message_is_asked_again_at_once_and_gets_no_other():
    upstream = able_upstream(Able(native="ignores", system="rejects"))

    async def talk() -> list[Any]:
        async with client_of(upstream, probe="off") as client:
            return [await client.chat(QUESTION, TOOLS) for _ in range(2)]

    replies = asyncio.run(talk())
    assert [(len(reply.calls), reply.requests) for reply in replies] == [(1, 2), (1, 1)]
    assert "system_role_refused" in [note.code for note in replies[0].notes]
    assert [[message.role for message in request.messages] for request in upstream.requests] == [
        ["system", "user"],
        ["user"],
        ["user"],
    ]


@pytest.mark.requirement("R-F47")
def test_an_upstream_that_demands_alternation_is_asked_again_at_once_and_remembered():
    refusal = Failure("Jinja Exception: Conversation roles must alternate user/assistant", status=500)

    def strict(request: Request) -> list[Event]:
        roles = [message.role for message in request.messages]
        return [refusal] if roles == ["user", "user"] else calls(ToolCall("find", {"item": "lamp"}))

    upstream = Scripted(strict, again=True, base_url=HERE)
    question: list[Any] = [{"role": "user", "content": "Find it."}, {"role": "user", "content": "Please."}]

    async def talk() -> list[Any]:
        state = MemoryState()
        store = ProbeStore(state)
        store.put(PLACE, StoredProbe(*PLACE, ProbeResult({"capability": "openai"}), store.clock()))
        async with client_of(upstream, state=state, probe="off") as client:
            return [await client.chat(question, TOOLS) for _ in range(2)]

    replies = asyncio.run(talk())
    assert [reply.requests for reply in replies] == [2, 1]


def test_an_upstream_that_refuses_a_system_message_gets_the_callers_own_by_the_user():
    upstream = able_upstream(Able(native="ignores", system="rejects"))
    question: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]

    async def talk() -> Any:
        async with client_of(upstream, probe="off") as client:
            return await client.chat(question, TOOLS, plan="decision")

    assert asyncio.run(talk()).requests == 3
    (final,) = upstream.requests[-1].messages
    assert (final.role, final.text) == ("user", "Be brief.\n---\n\nHello.")


@pytest.mark.requirement("D5", "D7")
def test_native_answers_that_keep_holding_calls_as_text_show_that_the_model_leaks():
    known = Capabilities()
    known.override_model("scripted:*", {"capability": "openai"})
    state = MemoryState()
    apply_result(known, PLACE, None)
    ProbeStore(state).put(PLACE, StoredProbe(*PLACE, ProbeResult({"leaks": False}), ProbeStore(state).clock()))
    upstream = able_upstream(Able(native="leaks"))

    async def talk() -> list[Any]:
        async with client_of(upstream, state=state, known=known, probe="off") as client:
            return [await client.chat(QUESTION, TOOLS, retries=0) for _ in range(3)]

    replies = asyncio.run(talk())
    assert [len(reply.calls) for reply in replies] == [0, 0, 1]
    assert UseStore(state, ProbeStore(state).clock).get(PLACE).tenants[""].refused == {"leaks": True}


def test_a_state_that_cannot_be_used_costs_nothing_but_the_memory(tmp_path: Path):
    (tmp_path / "state.json").mkdir()
    upstream = able_upstream(Able())

    async def talk() -> Any:
        probes = ProbeScheduler(Capabilities(), ProbeStore(FileState(tmp_path / "state.json")))
        probes.load(reached_of(upstream))
        assert probes.begin(reached_of(upstream), Settings())
        while (task := probes._task) is not None and not task.done():
            await asyncio.wait([task])

    asyncio.run(talk())
    assert upstream.requests == []


# ---- keeping


@pytest.mark.requirement("D5")
def test_a_result_that_is_no_longer_fresh_counts_until_it_is_renewed():
    clock = Clock()
    stored = StoredProbe(*PLACE, ProbeResult({"capability": "none", "dialect": "react"}), clock.now)
    probes, known, store = probes_at(stored, clock)
    upstream = able_upstream(Able())

    async def turns() -> None:
        reached = reached_of(upstream)
        probes.load(reached)
        assert known.find(*PLACE).profile.dialect == "react"
        assert not probes.begin(reached, Settings())
        clock.now += FRESH_SECONDS + 1
        probes.load(reached)
        assert known.find(*PLACE).rule == "probe"
        assert probes.begin(reached, Settings())
        assert not probes.begin(reached, Settings())  # it is under way
        renewed = await probes.probe(reached)
        assert renewed is not None
        assert renewed.measured == clock.now

    asyncio.run(turns())
    assert known.find(*PLACE).profile.capability == "openai"
    clock.now += 5 * FRESH_SECONDS
    assert store.get(PLACE) is None


def test_an_upstream_that_cannot_be_probed_is_left_in_peace_for_a_while():
    clock = Clock()
    probes, _, store = probes_at(None, clock)
    upstream = Scripted(UpstreamError("down"), again=True, base_url=HERE)

    async def turns() -> list[bool]:
        reached = reached_of(upstream)
        begun = [probes.begin(reached, Settings())]
        assert await probes.probe(reached) is None
        for seconds in (0, 1, 100, 3600):
            clock.now += seconds
            begun.append(probes.begin(reached, Settings()))
        await probes.close()
        return begun

    assert asyncio.run(turns()) == [True, False, False, False, True]
    assert store.get(PLACE) is None


def test_what_another_process_has_found_is_used(tmp_path: Path):
    clock = Clock()
    other = ProbeStore(FileState(tmp_path / "state.json", clock), clock=clock)
    known = Capabilities()
    probes = ProbeScheduler(known, ProbeStore(MemoryState(clock), FileState(tmp_path / "state.json", clock), clock))
    reached = reached_of(able_upstream(Able()))
    probes.load(reached)
    other.record_measurement(PLACE, ProbeResult({"capability": "openai"}))
    probes.load(reached)
    assert known.find(*PLACE).rule == "unknown"  # it looks once a minute
    clock.now += 61
    probes.load(reached)
    assert known.find(*PLACE).rule == "probe"


# ---- over the wire, and beside the protocol


def able_service(able: Able, protocol: str, beside: Mapping[str, Any]) -> Answer:
    """A server of this protocol whose model has these abilities, and that says things beside the protocol."""

    async def answer(heard: Heard) -> None:
        path = heard.line.split()[1]
        if path in beside:
            body = json.dumps(beside[path]).encode()
            await heard.send(head(f"content-length: {len(body)}"), body)
            return
        if not path.endswith(("/chat", "/chat/completions")):
            await heard.send(head("content-length: 0", status="404 Not Found"))
            return
        try:
            said: Any = model(able)(read_request(protocol, heard))
        except UpstreamError as error:
            body = error.body.encode()
            await heard.send(head(f"content-length: {len(body)}", status=f"{error.upstream_status} No"), body)
            return
        await service(protocol, lambda request: _events(said.content))(heard)

    return answer


def _events(content: Any) -> list[Event]:
    if isinstance(content, str):
        pieces = [content[at : at + 8] for at in range(0, len(content), 8)]
        return [*map(TextDelta, pieces), UsageSeen(Usage(50, 9)), Finish("stop")]
    return [*content, UsageSeen(Usage(50, 9)), Finish("tool_calls")]


def measured(able: Able, protocol: str, beside: Mapping[str, Any]) -> tuple[ProbeResult, list[Heard]]:
    async def ask() -> tuple[ProbeResult, list[Heard]]:
        async with serving(able_service(able, protocol, beside)) as server:
            url = server.url if protocol == "openai_chat" else server.url.removesuffix("/v1")
            upstream = HttpUpstream(url, protocol=protocol)
            verdict = await measure(ResolvedModel("near", "m", url, protocol, upstream), Profile())
            await upstream.close()
            return verdict, server.heard

    return asyncio.run(asyncio.wait_for(ask(), 60))


@pytest.mark.requirement("D5")
def test_ollama_is_asked_what_it_says_about_a_model_before_anything_is_tried():
    show = {"/api/show": {"capabilities": ["completion"]}}
    verdict, heard = measured(Able(native="rejects"), "ollama", show)
    assert heard[0].line == "POST /api/show HTTP/1.1"
    assert heard[0].json == {"model": "m"}
    assert heard[-1].line == "GET /api/ps HTTP/1.1"
    assert not any("tools" in each.json for each in heard[1:-1])
    assert (verdict.fields["capability"], verdict.fields["media"]) == ("none", [])
    assert "context_window" not in verdict.fields
    assert verdict.fields["dialect"] == "action"
    assert verdict.usage.input_tokens == 50 * verdict.requests


def test_ollama_with_tools_is_believed_only_once_it_has_called():
    show = {"/api/show": {"capabilities": ["completion", "tools", "vision"]}}
    verdict, _ = measured(Able(), "ollama", show)
    assert (verdict.fields["capability"], verdict.fields["media"]) == ("openai", ["image"])
    verdict, _ = measured(Able(native="ignores"), "ollama", show)
    assert verdict.fields["capability"] == "none"


@pytest.mark.requirement("F11")
def test_the_window_of_a_model_in_ollama_is_that_of_the_loaded_one():
    show = {"/api/show": {"capabilities": ["completion"], "parameters": "num_ctx 2048"}}
    loaded = {"/api/ps": {"models": [{"name": "m:latest", "context_length": 8192}]}}
    assert measured(Able(), "ollama", show)[0].fields["context_window"] == 2048
    verdict, _ = measured(Able(), "ollama", show | loaded)
    assert verdict.fields["context_window"] == 8192
    assert [each.value for each in verdict.findings if each.trait == "context_window"] == ["8192 tokens"]


@pytest.mark.requirement("F11")
@check_each(
    "answers",
    [
        {"/props": {"default_generation_settings": {"n_ctx": 4096}}},
        {"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}},
    ],
    ids=["llama.cpp", "vllm"],
)
def test_the_window_of_a_server_is_known(answers: dict[str, Any]):
    assert measured(Able(), "openai_chat", answers)[0].fields["context_window"] == 4096


def test_llama_cpp_tells_its_properties_beside_the_version():
    props = {"/props": {"default_generation_settings": {}, "modalities": {"vision": False}}}
    verdict, heard = measured(Able(native="breaks"), "openai_chat", props)
    assert heard[0].line == "GET /props HTTP/1.1"
    assert (verdict.fields["capability"], verdict.fields["media"]) == ("none", [])


def test_a_server_that_says_nothing_beside_its_protocol_is_measured_all_the_same():
    verdict, heard = measured(Able(), "openai_chat", {})
    assert [each.line.split()[1] for each in heard[:4]] == [
        "/props",
        "/api/show",
        "/v1/models",
        "/v1/chat/completions",
    ]
    assert verdict.fields["capability"] == "openai"
    assert verdict.fields["streams"] is True


@check_each("opening", ["Well, ", "<think>"], ids=["talk", "thinking"])
def test_an_answer_without_end_is_not_read_to_it(opening: str):
    async def endless() -> Any:
        yield [TextDelta(opening)]
        while True:
            yield [TextDelta("x" * 1000)]

    upstream = Scripted(lambda request: endless(), again=True, base_url=HERE)
    verdict = asyncio.run(measure(reached_of(upstream), Profile()))
    assert verdict.fields["capability"] == "none"


def test_a_request_that_cannot_be_written_is_a_rejection():
    def picky(request: Request) -> Script:
        if request.tools:
            raise refused("cannot be said here")
        return calls(ToolCall("x", {}))

    verdict = asyncio.run(measure(reached_of(Scripted(picky, again=True, base_url=HERE)), Profile()))
    assert verdict.fields["capability"] == "none"
