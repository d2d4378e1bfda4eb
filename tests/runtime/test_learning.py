"""What `auto` learns from use: how calls come, what is rejected, whose observations count, and when they expire."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each, size
from toolspeak import (
    AsyncClient,
    Failure,
    Message,
    Request,
    Scripted,
    TextPart,
    Tool,
    ToolCall,
    render_calls,
)
from toolspeak.config import Secret, load
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.observations import Observation
from toolspeak.engine.turn.upstream_limits import NO_NATIVE_TOOLS
from toolspeak.errors import ToolspeakError
from toolspeak.key_value import FileState, MemoryState, State
from toolspeak.runtime.learning import ModelUse, TenantUse, UseLearning, UseStore, tenant_key
from toolspeak.runtime.model_resolution import ResolvedModel
from toolspeak.runtime.probe_cache import ProbeStore, ProbeTarget
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.runtime.turn import all_events
from toolspeak.runtime.turn_factory import TurnFactory
from toolspeak.server.access.auth import Credential, tenant_of
from toolspeak.store.cached_key_value import cached_key_value, sql_key_value
from toolspeak.upstreams.scripted import calls

FAR = "https://models.example.com/v1"
PLACE = ProbeTarget("scripted", "scripted", FAR)
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = ToolCall("get_weather", {"city": "Oslo"})
QUESTION = "What is the weather in Oslo?"
DAY = 24 * 3600.0
Model = Callable[[Request], Any]


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def speaking(dialect: str) -> Model:
    """A model that calls in its own dialect whenever it sees a tool, whatever it is asked for."""
    return lambda request: render_calls(dialect, [CALL])


def native_only(request: Request) -> Any:
    """A model that calls only where the tools are sent natively."""
    return calls(CALL) if request.tools else "I cannot access real-time weather data."


def without_system(request: Request) -> Any:
    if request.messages[0].role == "system":
        return [Failure("System role not supported", status=400)]
    return render_calls("hermes", [CALL])


def without_tools(request: Request) -> Any:
    if request.tools:
        return [Failure("Extra inputs are not permitted", status=422, body='{"loc": ["body", "tools"]}')]
    return render_calls("hermes", [CALL])


def changing(first: Model, then: Model, after: int) -> tuple[Model, list[int]]:
    """A model that behaves in another way after a number of requests from the client."""
    count = [0]

    def behave(request: Request) -> Any:
        return (first if count[0] < after else then)(request)

    return behave, count


def client(model: Model, state: State | None = None, **more: Any) -> tuple[AsyncClient, Scripted]:
    upstream = Scripted(model, again=True, base_url=FAR)
    more = {"state": state or MemoryState(), "known": Capabilities(), **more}
    return AsyncClient(upstream, config=load(env={}, cwd=Path("/nowhere")), **more), upstream


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a thread in the background, but not for ever."""
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen within 20 seconds")


def talk(model: Model, turns: int, state: State | None = None, **more: Any) -> list[tuple[Any, Request]]:
    """The replies to several equal requests, each with the first request that was sent for it."""

    async def main() -> list[tuple[Any, Request]]:
        one, upstream = client(model, state, **more)
        replies: list[tuple[Any, Request]] = []
        async with one:
            for _ in range(turns):
                before = len(upstream.requests)
                replies.append((await one.chat(QUESTION, [TOOL]), upstream.requests[before]))
        return replies

    return asyncio.run(main())


# ---- remote upstreams


@pytest.mark.requirement("D8")
@check_each("dialect", ["hermes", "qwen_xml", "mistral", "action", "pythonic"])
def test_from_the_third_request_on_a_model_is_asked_in_the_dialect_that_it_writes(dialect: str):
    replies = talk(speaking(dialect), 4)
    assert [reply.requests for reply, _ in replies] == [1, 1, 1, 1]
    assert all(reply.calls[0].arguments == {"city": "Oslo"} for reply, _ in replies)
    assert [bool(request.tools) for _, request in replies] == [True, True, False, False]
    third = replies[2][0].trace()
    assert third.rule == "learned"
    assert f"calls came as text in the dialect {dialect}" in third.why
    opening = render_calls(dialect, [CALL])[:8]
    assert opening in "".join(message.text for message in replies[3][1].messages)


@pytest.mark.requirement("D3", "D8")
def test_a_remote_server_that_answers_natively_stays_native_after_two_answers():
    replies = talk(native_only, 4)
    assert [(reply.requests, len(reply.calls)) for reply, _ in replies] == [(1, 1)] * 4
    assert [reply.trace().plan for reply, _ in replies] == ["inline", "inline", "native", "native"]
    assert "calls came natively" in replies[3][0].trace().why
    assert not any(message.role == "system" for message in replies[3][1].messages)  # no tool prompt any more


@pytest.mark.requirement("D8")
def test_what_an_upstream_rejects_is_left_out_from_the_next_request_on():
    replies = talk(without_system, 3)
    assert [reply.requests for reply, _ in replies] == [2, 1, 1]
    assert "refused a system message" in replies[2][0].trace().why

    replies = talk(without_tools, 3)
    assert [(reply.requests, len(reply.calls)) for reply, _ in replies] == [(2, 1), (1, 1), (1, 1)]
    assert "the upstream refused a request with tools" in replies[1][0].trace().why


@pytest.mark.requirement("D8", "E4")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (speaking("hermes"), speaking("qwen_xml")),
        (speaking("hermes"), native_only),
        (native_only, speaking("hermes")),
        (native_only, without_tools),
        (without_tools, native_only),
    ],
    ids=["another dialect", "text to native", "native to text", "tools rejected", "tools no longer rejected"],
)
def test_when_a_model_changes_its_mind_two_requests_suffice(first: Model, then: Model):
    model, count = changing(first, then, 20)

    async def main() -> list[Any]:
        one, _ = client(model)
        replies: list[Any] = []
        async with one:
            for _ in range(24):
                replies.append(await one.chat(QUESTION, [TOOL]))
                count[0] += 1
        return replies

    replies = asyncio.run(main())
    assert all(reply.calls for reply in replies)
    assert [reply.requests for reply in replies[2:20]] == [1] * 18
    assert [reply.requests for reply in replies[22:]] == [1, 1]


@pytest.mark.requirement("D8", "E4")
@check_each(
    "words", ["It is a nice day.", "Let me check the weather for you.", "Could you tell me more about what you need?"]
)
def test_words_where_a_call_was_expected_lead_back_to_native_tools_in_the_next_turn(words: str):
    model, count = changing(speaking("hermes"), lambda request: calls(CALL) if request.tools else words, 4)

    async def main() -> list[Any]:
        one, _ = client(model)
        replies: list[Any] = []
        async with one:
            for _ in range(9):
                replies.append(await one.chat(QUESTION, [TOOL]))
                count[0] += 1
        return replies

    replies = asyncio.run(main())
    assert [bool(reply.calls) for reply in replies[5:]] == [True] * 4
    assert [reply.requests for reply in replies[5:]] == [1] * 4
    assert [reply.trace().plan for reply in replies[7:]] == ["native"] * 2


def text_only_where_asked(words: str) -> Model:
    """A model that ignores native tools, and calls as text if the prompt names the tool."""
    return lambda request: (
        render_calls("hermes", [CALL]) if any("get_weather" in each.text for each in request.messages) else words
    )


def play(model: Model, count: list[int], texts: list[str], known: Capabilities | None = None) -> list[Any]:
    """The replies to requests of one client, which it counts."""

    async def main() -> list[Any]:
        one, _ = client(model, known=known or Capabilities())
        replies: list[Any] = []
        async with one:
            for text in texts:
                replies.append(await one.chat(text, [TOOL]))
                count[0] += 1
        return replies

    return asyncio.run(main())


@pytest.mark.requirement("D8", "E4")
@pytest.mark.parametrize("probed", [False, True], ids=["learned", "probed"])
@pytest.mark.parametrize("words", ["Fine.", "It is probably sunny.", "I'm sorry, I can't check live weather."])
def test_a_model_that_no_longer_calls_natively_is_asked_both_ways_after_one_turn_in_words(words: str, probed: bool):
    known = Capabilities()
    if probed:
        known.set_measured(*PLACE, {"capability": "openai"}, "measured")
    model, count = changing(native_only, text_only_where_asked(words), 6)
    replies = play(model, count, [QUESTION] * 14, known)
    assert all(reply.calls for reply in (*replies[:6], *replies[7:]))
    assert [reply.requests for reply in (*replies[2:6], *replies[7:])] == [1] * 11
    assert replies[6].requests <= 2
    assert "in doubt" in replies[7].trace().why
    assert "in the dialect hermes" in replies[9].trace().why


def test_a_chat_without_calls_neither_changes_what_was_learned_nor_costs_more_for_ever():
    words = "Thank you for the weather."
    model, count = changing(
        lambda request: "You are welcome." if words in request.messages[-1].text else native_only(request),
        native_only,
        99,
    )
    replies = play(model, count, [QUESTION] * 2 + [words, QUESTION] * 12)
    assert [reply.requests for reply in replies] == [1] * 26
    assert all(bool(reply.calls) == (number < 2 or number % 2) for number, reply in enumerate(replies))
    plans = [reply.trace().plan for reply in replies[2:]]
    assert plans == ["native", "inline"] * 8 + ["native"] * 8


def test_turns_that_say_nothing_about_native_tools_raise_no_doubt():
    def answer(request: Request) -> Any:
        return [Failure("overloaded", status=500)] if "fails" in request.messages[-1].text else native_only(request)

    async def main() -> list[str]:
        one, _ = client(answer)
        plans: list[str] = []
        async with one:
            texts: list[tuple[str, dict[str, Any]]] = [
                (QUESTION, {}),
                (QUESTION, {}),
                ("The weather", {"tool_choice": "none"}),
                (QUESTION, {}),
                (QUESTION, {"tool_choice": "required"}),
                (QUESTION, {}),
                ("The weather fails", {}),
                (QUESTION, {}),
            ]
            for text, options in texts:
                if "fails" in text:
                    with pytest.raises(ToolspeakError):
                        await one.chat(text, [TOOL], **options)
                else:
                    plans.append((await one.chat(text, [TOOL], **options)).trace().plan)
        return plans

    assert asyncio.run(main())[2:] == ["native"] * 5


def test_ordinary_answers_of_a_model_that_calls_as_text_lead_nowhere():
    async def main() -> tuple[list[Any], list[Request]]:
        model = Scripted(
            lambda request: "Hello." if "Hi" in request.messages[-1].text else render_calls("hermes", [CALL]),
            again=True,
            base_url=FAR,
        )
        one = AsyncClient(model, config=load(env={}, cwd=Path("/nowhere")), state=MemoryState(), known=Capabilities())
        async with one:
            replies = [await one.chat(text, [TOOL]) for text in (QUESTION, QUESTION, "Hi.", QUESTION)]
        return replies, list(model.requests)

    replies, requests = asyncio.run(main())
    assert [reply.requests for reply in replies] == [1] * 4
    assert [bool(request.tools) for request in requests] == [True, True, False, False]


def test_native_tools_are_tried_again_an_hour_after_a_rejection_or_many_trials():
    clock = Clock()
    one, known = learner(clock)

    def answers(request: Request) -> Any:
        return [Failure("tools are off", status=400)] if request.tools else "It is sunny."

    turns_of("", one, known, answers, 1)
    assert not one.untried(PLACE, "", "unknown")
    clock.now += DAY / 24
    assert one.untried(PLACE, "", "unknown")
    clock.now += DAY * 2
    turns_of("", one, known, lambda request: "It is sunny.", 8)
    assert not one.untried(PLACE, "", "unknown")
    clock.now += DAY / 24
    assert one.untried(PLACE, "", "unknown")


@pytest.mark.requirement("D8")
@check_each("failure", [Failure("Bad Request", status=400), Failure("Internal server error", status=500)])
def test_a_fault_of_a_server_says_nothing_about_tools(failure: Failure):
    model, count = changing(lambda request: [failure] if request.tools else native_only(request), native_only, 1)

    def behave(request: Request) -> Any:
        answer = model(request)
        count[0] += 1
        return answer

    replies = talk(behave, 5)
    assert [(reply.requests, len(reply.calls)) for reply, _ in replies[1:]] == [(1, 1)] * 4
    assert replies[4][0].trace().plan == "native"


def test_a_rejection_without_a_reason_is_known_from_the_third_request_on():
    def rejects(request: Request) -> Any:
        return [Failure("Bad Request", status=400)] if request.tools else render_calls("hermes", [CALL])

    replies = talk(rejects, 4)
    assert [(reply.requests, len(reply.calls)) for reply, _ in replies] == [(2, 1), (2, 1), (1, 1), (1, 1)]


def test_calls_that_come_natively_outweigh_an_earlier_rejection_of_tools_but_no_other_rejection():
    fields = {"capability": "none", "system_role": False}
    use = TenantUse(refused=fields, refused_why=f"no system; {NO_NATIVE_TOOLS.why}", refused_at=1.0)
    once = use.observed(Observation({"capability": "openai"}, "calls came natively"), 2.0)
    assert once.refused == fields
    twice = once.observed(Observation({"capability": "openai"}, "calls came natively"), 3.0)
    assert (twice.refused, twice.refused_why) == ({"system_role": False}, "no system")


def test_where_nothing_is_learned_tools_are_sent_natively_a_few_times_only():
    replies = talk(lambda request: "Hello.", 10)
    assert [bool(request.tools) for _, request in replies] == [True] * 8 + [False] * 2


@check_each(
    "settings",
    [{"mode": "force"}, {"plan": "inline"}, {"marks": "nonce"}],
)
def test_tools_are_not_tried_natively_where_the_settings_decide_otherwise(settings: dict[str, Any]):
    for _, request in talk(lambda request: "Hello.", 1, **settings):
        assert not request.tools


def test_a_function_has_no_address_so_nothing_is_learned_about_it():
    async def main() -> str:
        upstream = Scripted(speaking("hermes"), again=True)
        async with AsyncClient(upstream, state=MemoryState(), known=Capabilities()) as one:
            replies = [await one.chat(QUESTION, [TOOL]) for _ in range(3)]
            return replies[-1].trace().rule

    assert asyncio.run(main()) == "unknown"


# ---- trust


PAGE = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.mark.requirement("D8", "R-E4")
def test_a_call_that_repeats_a_page_does_not_count_whatever_was_learned():
    repeats = [False]

    def model(request: Request) -> Any:
        return PAGE if repeats[0] else render_calls("hermes", [CALL])

    def native(request: Request) -> Any:
        return calls(ToolCall("get_weather", {"city": "Rome"}) if repeats[0] else CALL)

    async def main(behave: Model) -> Any:
        one, _ = client(behave)
        async with one:
            for _ in range(3):
                assert (await one.chat(QUESTION, [TOOL])).calls
            repeats[0] = True
            return await one.chat(f"Summarise this page: {PAGE}", [TOOL])

    for behave in (model, native):
        repeats[0] = False
        reply = asyncio.run(main(behave))
        assert not reply.calls
        assert any(each.reason == "echo" for attempt in reply.trace().attempts for each in attempt.candidates)


@pytest.mark.requirement("D8", "R-E3")
def test_programs_that_run_calls_ask_for_the_nonce_even_if_the_model_leaves_it_out():
    state = MemoryState()
    talk(speaking("action"), 3, state)
    assert UseStore(state, lambda: 0.0).get(PLACE).tenants[""].fields["marks"] == "optional"
    (reply, _), *_ = talk(speaking("action"), 1, state)
    assert not reply.trace().nonce
    (reply, _), *_ = talk(speaking("action"), 1, state, marks="confirm")
    assert reply.trace().nonce


# ---- tenants


def turn_factory(learning: UseLearning, model: Model, known: Capabilities) -> TurnFactory:
    upstream = Scripted(model, again=True, base_url=FAR)
    resolved = ResolvedModel("scripted", "scripted", FAR, "openai_chat", upstream)
    return TurnFactory(resolved, known, MemoryState(), b"secret", learning=learning)


def turns_of(
    tenant: str, learning: UseLearning, known: Capabilities, model: Model, number: int
) -> list[tuple[str, int]]:
    """The rules and the number of requests of several turns of a tenant."""
    tools = (Tool("get_weather", parameters=TOOL["function"]["parameters"]),)  # type: ignore[index]
    made = turn_factory(learning, model, known)

    async def main() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        for _ in range(number):
            planned = made.make(Request("m", (Message("user", (TextPart(QUESTION),)),), tools), Settings(), tenant)
            await all_events(planned.turn)
            assert planned.turn.outcome is not None
            seen.append((planned.plan.rule, planned.turn.outcome.requests))
        await learning.close()
        return seen

    return asyncio.run(main())


def learner(clock: Clock | None = None, state: State | None = None) -> tuple[UseLearning, Capabilities]:
    known = Capabilities()
    return UseLearning(UseStore(state or MemoryState(), clock or Clock())), known


@pytest.mark.requirement("D8")
def test_a_tenant_that_makes_the_model_misbehave_changes_nothing_for_another():
    learning, known = learner()
    hostile = lambda request: [Failure("no tools, no system role, 512 tokens", status=400)]  # noqa: E731
    for model in [speaking("react"), native_only, hostile, speaking("mistral")] * 25:
        turns_of("mallory", learning, known, model, size(1, 10))
    assert known.find(*PLACE, learning.learned(PLACE, "anna")) == Capabilities().find(*PLACE)
    assert learning.learned(PLACE, "anna") is None
    assert turns_of("anna", learning, known, speaking("hermes"), 3) == [
        ("unknown", 1),
        ("unknown", 1),
        ("learned", 1),
    ]


@pytest.mark.requirement("D8")
def test_what_three_tenants_agree_on_is_used_by_others():
    learning, known = learner()
    for tenant in ("anna", "bert"):
        turns_of(tenant, learning, known, speaking("hermes"), 2)
    assert learning.learned(PLACE, "dora") is None
    turns_of("carl", learning, known, speaking("hermes"), 2)
    learned = learning.learned(PLACE, "dora")
    assert learned is not None
    assert (learned.fields["dialect"], learned.why.endswith("for 3 tenants")) == ("hermes", True)
    # Its own observations come first.
    turns_of("dora", learning, known, speaking("qwen_xml"), 2)
    learned = learning.learned(PLACE, "dora")
    assert learned is not None
    assert learned.fields["dialect"] == "qwen_xml"


@pytest.mark.requirement("D8")
def test_keys_that_anybody_can_invent_do_not_count_as_tenants_that_agree():
    learning, known = learner()
    keys = [Credential("authorization", Secret(f"sk-{number}")) for number in range(4)]
    for key in keys[:3]:
        turns_of(tenant_of(key), learning, known, speaking("qwen_xml"), 2)
        assert learning.learned(PLACE, tenant_of(key)) is not None  # it uses what it has seen itself
    assert learning.learned(PLACE, tenant_of(keys[3])) is None
    assert learning.learned(PLACE, "anna") is None


# ---- storage and expiry


def test_what_was_learned_expires_and_rejections_expire_sooner():
    clock = Clock()
    learning, known = learner(clock)
    turns_of("", learning, known, without_system, 2)
    assert learning.learned(PLACE) is not None
    clock.now += 2 * DAY
    learned = learning.learned(PLACE)
    assert learned is not None
    assert "system_role" not in learned.fields
    assert learned.fields["dialect"] == "hermes"
    clock.now += 6 * DAY
    assert learning.learned(PLACE) is None


def test_what_was_learned_is_shared_through_the_store(tmp_path: Path):
    clock = Clock()
    one, known = learner(clock, FileState(tmp_path / "state.json"))
    other, _ = learner(clock, FileState(tmp_path / "state.json"))
    assert other.learned(PLACE) is None
    turns_of("", one, known, speaking("hermes"), 2)
    assert other.learned(PLACE) is None  # it looks once a minute
    clock.now += 61
    learned = other.learned(PLACE)
    assert learned is not None
    assert learned.fields["dialect"] == "hermes"


def test_a_database_is_read_in_the_background(tmp_path: Path):
    state = cached_key_value(f"sqlite:///{tmp_path}/state.db")
    one, known = learner(state=state)
    turns_of("", one, known, speaking("hermes"), 2)
    asyncio.run(one.close())
    settled = sql_key_value(f"sqlite:///{tmp_path}/state.db")
    wait_until(lambda: '"in_a_row": 2' in json.dumps(settled.get(f"use/{PLACE.key}")))
    other, _ = learner(state=state)
    other.learned(PLACE)  # begins to read
    wait_until(lambda: other.learned(PLACE) is not None)
    asyncio.run(other.close())


def test_one_turn_in_each_of_two_processes_suffices(tmp_path: Path):
    path = tmp_path / "state.json"
    for _ in range(2):
        learning, known = learner(state=FileState(path))
        turns_of("", learning, known, speaking("hermes"), 1)
    assert learner(state=FileState(path))[0].learned(PLACE) is not None


def test_in_the_long_run_nothing_is_written_again_and_again():
    writes: list[str] = []

    class Counted(MemoryState):
        def put(self, key: str, value: Any, ttl: float | None = None) -> None:
            writes.append(json.dumps(value))
            super().put(key, value, ttl)

    learning, known = learner(state=Counted())
    turns_of("", learning, known, speaking("hermes"), 50)
    assert 2 <= len(writes) <= 6


def test_a_store_that_fails_costs_nothing_but_the_sharing(caplog: pytest.LogCaptureFixture):
    class Broken(MemoryState):
        def get(self, key: str) -> Any:
            raise ToolspeakError("the disk is gone")

    learning, known = learner(state=Broken())
    assert turns_of("", learning, known, speaking("hermes"), 3)[-1] == ("learned", 1)
    assert "cannot read what was learned from use" in caplog.text
    assert "so it applies to this process only" in caplog.text


@check_each(
    "value", [{"tenants": 3}, [], {"provider": "p", "model": "m", "base_url": "", "tenants": {"": {"seen_at": "x"}}}]
)
def test_stored_values_that_cannot_be_read_count_as_missing(value: Any):
    state = MemoryState()
    state.put(f"use/{PLACE.key}", value)
    assert UseStore(state, Clock()).get(PLACE) == ModelUse("scripted", "scripted", FAR)


def test_only_the_tenants_seen_last_are_kept():
    store = UseStore(MemoryState(), Clock())
    for number in range(70):
        store.put(PLACE, tenant_key(f"t{number}"), TenantUse({"dialect": "hermes"}, seen_at=1_000_000.0 + number))
    kept = store.get(PLACE).tenants
    assert len(kept) == 64
    assert tenant_key("t69") in kept


def test_no_more_tenants_are_remembered_than_there_is_room_for():
    learning, known = learner()
    turns_of("anna", learning, known, native_only, 2)
    for number in range(200):
        tenant = tenant_of(Credential("authorization", Secret(f"sk-{number}")))
        assert turns_of(tenant, learning, known, native_only, 1) == [("unknown", 1)]
    state = learning._targets[PLACE]
    assert (len(state.tenants), len(state.use.tenants)) == (128, 128)
    assert turns_of("anna", learning, known, native_only, 1) == [("learned", 1)]
    for number in range(200):
        learning.learned(PLACE, f"tenant {number}")
    assert len(state.tenants) == 128
    assert not any(name.startswith("own-") for name in state.tenants)
    assert len(state.use.tenants) <= 128
    for number in range(3):
        learning.learned(PLACE, f"own-{number}")
    assert sum(name.startswith("own-") for name in state.tenants) == 1


def test_no_more_models_are_remembered_than_there_is_room_for():
    learning, _ = learner()
    for number in range(600):
        learning.learned(ProbeTarget("p", f"m{number}", FAR))
    assert len(learning._targets) == 512


def test_a_probe_replaces_what_was_learned():
    state, known = MemoryState(), Capabilities()
    probes = ProbeScheduler(known, ProbeStore(state))
    turns_of("", probes.learning, known, speaking("hermes"), 2)
    assert probes.learning.use_of(PLACE).summary() == "2 turns with calls, 2 with one request; nonce: omitted 2"
    probes.learning.probed(PLACE, {"capability": "none"})
    assert probes.learning.learned(PLACE) is None
    turns_of("", probes.learning, known, native_only, 2)
    probes.learning.probed(PLACE, {"capability": "openai"})
    assert probes.learning.learned(PLACE) is None


@pytest.mark.requirement("D8")
def test_native_calls_that_came_count_against_a_probe_that_got_none():
    learning, known = learner(state=(state := MemoryState()))
    turns_of("anna", learning, known, native_only, 2)
    turns_of("bert", learning, known, native_only, 1)
    turns_of("carl", learning, known, speaking("hermes"), 2)
    known.set_measured(*PLACE, {"capability": "none"}, "measured")
    learning.probed(PLACE, {"capability": "none"})
    assert turns_of("anna", learning, known, native_only, 1) == [("learned", 1)]
    assert turns_of("bert", learning, known, native_only, 2) == [("probe", 1), ("learned", 1)]
    assert turns_of("carl", learning, known, speaking("hermes"), 1) == [("probe", 1)]
    stored = UseStore(state, Clock()).get(PLACE).tenants
    assert set(stored) == {tenant_key(name) for name in ("anna", "bert", "carl")}
    assert stored[tenant_key("carl")].in_a_row == 1


@pytest.mark.requirement("D3", "D8")
def test_tools_are_tried_natively_until_a_probe_has_ended():
    replies = talk(native_only, 3, probe="first-use")
    assert [(reply.requests, len(reply.calls)) for reply, _ in replies] == [(1, 1)] * 3


def test_the_summary_of_a_model_that_was_not_used_is_empty():
    assert ModelUse("", "m", "").summary() == ""


#: A server that has looked up a model, and forks a worker that uses what was learned, or ends at once.
FORKING = """
import asyncio, os, sys
from toolspeak.runtime.learning import UseLearning, UseStore
from toolspeak.runtime.probe_cache import ProbeTarget
from toolspeak.store.cached_key_value import cached_key_value
now = 0.0
learning = UseLearning(UseStore(cached_key_value(f"sqlite:///{sys.argv[1]}/use.db"), lambda: now))
target = ProbeTarget("openai", "m", "https://models.example.com/v1")
learning.learned(target)
worker = os.fork()
if not worker:
    now = 1e6
    if sys.argv[2] == "uses":
        learning.learned(target)
    asyncio.run(learning.close())
    os._exit(0)
print(os.waitpid(worker, 0)[1])
asyncio.run(learning.close())
"""


@pytest.mark.requirement("C3", "R-F30")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@check_each("worker", ["uses", "ends"])
def test_a_forked_worker_reads_what_was_learned_in_a_thread_of_its_own(tmp_path: Path, worker: str):
    pytest.importorskip("sqlalchemy")
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path), worker]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "0\n"
