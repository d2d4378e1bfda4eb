"""Requests that are planned by a recipe are answered as they would be without one."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, cast

import msgspec
import pytest

from tests.cases import check_each
from tests.server.test_fast_exchange import GeneralApp, Proxy, reply, steady
from toolspeak.core.types import Message, Options, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import AskUpstream
from toolspeak.engine.turn.passthrough_turn import PassthroughTurn
from toolspeak.key_value import MemoryState
from toolspeak.runtime.learning import UseLearning, UseStore
from toolspeak.runtime.model_resolution import ResolvedModel
from toolspeak.runtime.turn import EngineTurn
from toolspeak.runtime.turn_factory import PlannedTurn, TurnFactory
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access, Caller
from toolspeak.server.access.origin_guard import OriginGuard
from toolspeak.server.app import App
from toolspeak.server.proxy import upstream_router
from toolspeak.server.proxy.upstream_router import Gateway

ANSWER = reply({"content": "Fine."})
PATHS = {"openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses", "ollama": "/api/chat"}


class KnownCallers(App):
    """A server whose callers are the same objects in all requests, as they are where keys are kept in a file."""

    def __init__(self, gateway: Gateway) -> None:
        keys = ApiKeys(MemoryState())
        keys.version = lambda: 1
        super().__init__(gateway, OriginGuard(Access(keys, required=False)))


async def ask(
    proxy: Proxy, body: Any, path: str = PATHS["openai_chat"], headers: str = "", answers: Sequence[bytes] = ()
) -> tuple[list[bytes], bytes]:
    """Return what was sent upstream and what the client got."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nx-request-id: r\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
    proxy.wire.said, proxy.asked = b"", []
    return await proxy.exchange(
        head.encode() + data, iter([[each] for each in answers]) if answers else repeat([ANSWER])
    )


USER: dict[str, Any] = {"role": "user", "content": "How is the weather in Oslo?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
CALLED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "Rain."}
SAID: dict[str, Any] = {"role": "assistant", "content": '{"begun":'}
MESSAGES: list[list[dict[str, Any]]] = [
    [USER],
    [USER, SAID],
    [USER, CALLED, RESULT],
    [USER, CALLED, RESULT, SAID],
    [USER, CALLED, RESULT, USER],
    [RESULT],
    [{**USER, "name": "anna"}],
    [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}],
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CUSTOM = {"type": "custom", "custom": {"name": "patch"}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"response_format": {"type": "json_object"}},
    {"response_format": FORMAT, "stream": True},
    {"tools": [TOOL]},
    {"tools": [TOOL], "response_format": FORMAT},
    {"tools": [TOOL], "tool_choice": "none"},
    {"tools": [TOOL], "tool_choice": "required", "stream": True},
    {"tools": [CUSTOM, TOOL]},
    {"tool_choice": "required"},
    {"n": 2},
    {"base_url": "http://192.0.2.2", "temperature": 0.5},
]
SETTINGS = [
    Settings(),
    Settings(mode="force", retries=1),
    Settings(mode="off"),
    Settings(mode="fallback", sticky_tools="always", retries=0),
    Settings(mode="force", chat_only=True),
    Settings(compact="results"),
]


def counted(proxy: Proxy) -> list[int]:
    """Count the turns that are made by a recipe, and those for which there is none."""
    counts = [0, 0]
    recipe = proxy.app._gateway.recipe

    def found(request: Request, caller: Caller) -> Any:
        known = recipe(request, caller)
        counts[known is None] += 1
        return known

    proxy.app._gateway.recipe = found  # type: ignore[method-assign]
    return counts


@pytest.mark.no_cover
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: f"{settings.mode}-{settings.compact}")
def test_requests_with_the_same_options_are_answered_as_without_recipes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolspeak.runtime.turn.SLOW_SECONDS", math.inf)  # a slow machine must not change the path

    async def scenario() -> None:
        fast, general = Proxy(KnownCallers, settings), Proxy(GeneralApp, settings)
        counts = counted(fast)
        for options in OPTIONS:
            for messages in [*MESSAGES, *MESSAGES[:5]]:
                body = {"model": "m", "messages": messages, **options}
                asked, said = await ask(fast, body)
                expected = await ask(general, body)
                assert (asked, steady(said)) == (expected[0], steady(expected[1])), body
        assert counts[0] > 50 or settings.compact == "results"

    asyncio.run(scenario())


def responses(proxy: Proxy) -> Any:
    return json.loads(proxy.wire.said.partition(b"\r\n\r\n")[2])


async def talk_with_stored_responses(app_type: type[App]) -> list[object]:
    proxy, seen = Proxy(app_type, Settings()), list[object]()

    async def say(**fields: Any) -> Any:
        asked, said = await ask(proxy, {"model": "m", **fields}, PATHS["openai_responses"])
        seen.append(([steady(data) for data in asked], steady(said)))
        return responses(proxy)

    for _ in range(2):
        first = await say(input="Hello?")
        second = await say(input="And you?", previous_response_id=first["id"])
        await say(input="And they?", previous_response_id=second["id"])
        await say(input=[{"type": "item_reference", "id": first["output"][0]["id"]}, {"role": "user", "content": "x"}])
        await say(input="Forget it.", store=False)
        unstored = await say(input="Forget it, too.", store=False)
        await say(input="What?", previous_response_id=unstored["id"])
        await say(input="What?", previous_response_id="resp_unknown")
        await say(input=[{"type": "item_reference", "id": "msg_unknown"}])
    return seen


def test_stored_responses_are_found_as_without_recipes():
    fast, general = (asyncio.run(talk_with_stored_responses(app_type)) for app_type in (KnownCallers, GeneralApp))
    assert fast == general
    assert len(fast) == 18


def test_a_request_to_load_a_model_is_not_taken_for_another():
    async def scenario(app_type: type[App]) -> list[object]:
        proxy = Proxy(app_type, Settings())
        bodies = [{"model": "m", "stream": False, "messages": messages} for messages in ([USER], [], [USER], [])]
        answers = [await ask(proxy, body, PATHS["ollama"]) for body in bodies]
        return [(asked, steady(said)) for asked, said in answers]

    assert asyncio.run(scenario(KnownCallers)) == asyncio.run(scenario(GeneralApp))


# ---- whose recipe it is


@pytest.mark.requirement("R-T7")
def test_a_key_for_other_models_gets_nothing_from_the_recipe_of_another():
    async def scenario() -> None:
        keys = ApiKeys(MemoryState())
        keys.version = lambda: 1
        guard = OriginGuard(Access(keys, required=True))
        proxy = Proxy(cast("type[App]", lambda gateway: App(gateway, guard)), Settings())
        anna, otto = keys.new("anna", ["m"])[1], keys.new("otto", ["other"])[1]
        body = {"model": "m", "messages": [USER]}
        for _ in range(3):
            asked, said = await ask(proxy, body, headers=f"x-api-key: {anna}\r\n")
            assert len(asked) == 1 and b" 200 " in said
            asked, said = await ask(proxy, body, headers=f"x-api-key: {otto}\r\n")
            assert not asked and b" 404 " in said
        assert {caller.key.name for (caller, *_), *_ in recipes(proxy) if caller.key} == {"anna"}

    asyncio.run(scenario())


@pytest.mark.requirement("D8")
def test_a_field_that_an_upstream_refused_for_one_key_is_still_sent_for_another():
    error = b'{"error":{"message":"Unknown parameter: max_tokens"}}'
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(error)
    refusal += error

    async def scenario() -> None:
        keys = ApiKeys(MemoryState())
        keys.version = lambda: 1
        guard = OriginGuard(Access(keys, required=True))
        heads = [f"x-api-key: {keys.new(name)[1]}\r\n" for name in ("mallory", "anna")]
        body = {"model": "m", "messages": [USER], "max_tokens": 9}
        for app_type in (App, GeneralApp):
            proxy = Proxy(cast("type[App]", partial(app_type, guard=guard)), Settings())
            sent: list[list[bool]] = []
            for head, answers in ((heads[0], [refusal, ANSWER]), (heads[0], [ANSWER]), (heads[1], [ANSWER])):
                asked, said = await ask(proxy, body, headers=head, answers=answers)
                assert b"Fine." in said
                sent.append([b'"max_tokens"' in each for each in asked])
            assert sent == [[True, False], [False], [True]]

    asyncio.run(scenario())


def recipes(proxy: Proxy) -> Iterator[Any]:
    yield from proxy.app._gateway._recipes.values()


def test_callers_that_are_gone_leave_nothing_to_others():
    async def scenario() -> None:
        proxy = Proxy(KnownCallers, Settings())
        await ask(proxy, {"model": "m", "messages": [USER]})
        gateway = proxy.app._gateway
        (kept,) = recipes(proxy)
        request = Request("m", (Message("user", (TextPart("x"),)),), *kept.identified[2:], options=kept.identified[1])
        request = msgspec.structs.replace(request, protocol="openai_chat")
        assert gateway.recipe(request, kept.identified[0]) is kept
        for _ in range(1000):  # each at an address where another has been
            assert gateway.recipe(request, Caller()) is None
            assert gateway.recipe(msgspec.structs.replace(request, options=Options()), kept.identified[0]) is None
            assert (
                gateway.recipe(msgspec.structs.replace(request, tool_choice=ToolChoice()), kept.identified[0]) is None
            )
        for changed in ({"model": "n"}, {"stream": True}, {"protocol": "ollama"}, {"tools": (Tool("f"),)}):
            assert gateway.recipe(msgspec.structs.replace(request, **cast("Any", changed)), kept.identified[0]) is None

    asyncio.run(scenario())


def test_recipes_and_targets_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream_router, "_MAX_RECIPE_BYTES", 3000)
    monkeypatch.setattr(upstream_router, "_MAX_TARGETS", 3)

    async def scenario() -> list[tuple[int, int]]:
        proxy = Proxy(KnownCallers, Settings(), "*")
        sizes: list[tuple[int, int]] = []
        for number in range(8):
            asked, said = await ask(proxy, {"model": f"m{number}", "messages": [USER]})
            assert len(asked) == 1 and b"Fine." in said
            sizes.append((len(proxy.app._gateway._recipes), len(proxy.app._gateway._targets)))
        return sizes

    assert max(asyncio.run(scenario())) == (3, 3)


@pytest.mark.requirement("R-T7")
@check_each("headers", ["Authorization: Bearer sk-own\r\n"])
def test_nothing_is_remembered_about_callers_whose_own_keys_are_forwarded(headers: str):
    async def scenario() -> None:
        proxy = Proxy(KnownCallers, Settings())
        proxy.app._guard.forwards_keys = True
        await ask(proxy, {"model": "m", "messages": [USER]}, headers=headers)
        assert not [*recipes(proxy)] and not proxy.app._gateway._targets

    asyncio.run(scenario())


def test_a_server_with_tools_of_its_own_has_no_recipes():
    async def scenario() -> None:
        proxy = Proxy(KnownCallers, Settings())
        proxy.app._gateway._server_tools = {"somebody": cast("Any", None)}
        for _ in range(2):
            assert b" 200 " in (await ask(proxy, {"model": "m", "messages": [USER]}))[1]
        assert not [*recipes(proxy)]

    asyncio.run(scenario())


def test_a_changed_profile_changes_the_plan_at_once(monkeypatch: pytest.MonkeyPatch):
    from tests.server import test_fast_exchange

    known = Capabilities()
    monkeypatch.setattr(test_fast_exchange, "CAPABILITIES", known)

    async def scenario() -> list[bool]:
        proxy = Proxy(KnownCallers, Settings())
        url, native = proxy.upstream.base_url, list[bool]()
        body = {"model": "m", "messages": [USER], "tools": [TOOL]}
        for capability in ("none", "none", "openai", "openai", "none"):
            known.set_measured("", "m", url, cast("Any", capability), "a probe")
            asked, _ = await ask(proxy, body)
            native.append(b'"tools":' in asked[0])
        return native

    assert asyncio.run(scenario()) == [False, False, True, True, False]


# ---- the turns of a model


def factory(learning: UseLearning | None = None, provider: str = "openai") -> TurnFactory:
    async def resolved() -> ResolvedModel:
        return Proxy(App, Settings()).app._gateway.target(Request("m", (), protocol="openai_chat")).maker.resolved

    model = msgspec.structs.replace(asyncio.run(resolved()), provider=provider)
    return TurnFactory(model, Capabilities(), MemoryState(), b"a secret", learning=learning)


def asking(*messages: Message, tools: Sequence[Tool] = (), **fields: Any) -> Request:
    return Request("m", messages, tuple(tools), protocol="openai_chat", **fields)


HELLO = Message("user", (TextPart("Hello?"),))
HISTORY = (
    HELLO,
    Message("assistant", calls=(ToolCall("f", {}, "c1"),)),
    Message("tool", results=(ToolResult("c1", "x", "f"),)),
)


@check_each(
    ("request_", "settings", "has"),
    [
        (asking(HELLO), Settings(), True),
        (asking(HELLO, tools=[Tool("f")]), Settings(), True),
        (asking(*HISTORY, tools=[Tool("f")]), Settings(), True),
        (asking(*HISTORY), Settings(), False),
        (asking(HELLO), Settings(compact="results"), False),
    ],
)
def test_a_recipe_is_made_unless_other_messages_change_the_plan(request_: Request, settings: Settings, has: bool):
    maker = factory()
    planned = maker.make(request_, settings)
    recipe = maker.recipe(request_, settings, "", planned, ())
    assert (recipe is not None) is has
    if recipe is not None:
        again = maker.make_from(recipe, request_, "")
        assert again is not None and again[1:] == planned[1:]
        assert type(cast("EngineTurn", again.turn)._engine) is type(cast("EngineTurn", planned.turn)._engine)


def test_what_was_learned_ends_a_recipe():
    learning = UseLearning(UseStore(MemoryState(), lambda: 0.0))
    unknown, known = factory(learning, "nobody"), factory(learning, "nobody")
    request = asking(HELLO, tools=[Tool("f")])
    assert unknown.recipe(request, Settings(), "", unknown.make(request, Settings()), ()) is None
    known._capabilities.override_model("m", "openai")
    planned = known.make(request, Settings())
    recipe = known.recipe(request, Settings(), "", planned, ())
    assert recipe is not None and known.make_from(recipe, request, "") is not None
    known._capabilities.override_model("m", "none")
    assert known.make_from(recipe, request, "") is None


def test_a_turn_with_tools_of_the_server_has_no_recipe():
    maker, request = factory(), asking(HELLO)
    planned = maker.make(request, Settings())
    served = PlannedTurn(planned.turn, planned.request, planned.plan, (Tool("own"),))
    assert maker.recipe(request, Settings(), "", served, ()) is None


def test_notes_about_the_request_come_with_every_answer():
    async def scenario() -> list[list[str]]:
        proxy = Proxy(KnownCallers, Settings())
        codes: list[list[str]] = []
        results = list[Any]()
        finish = proxy.app._finish

        def finishing(result: Any, *given: Any) -> None:
            results.append(result)
            finish(result, *given)

        proxy.app._finish = finishing  # type: ignore[method-assign]
        for message in (USER, SAID, USER):
            await ask(proxy, {"model": "m", "messages": [message], "api_base": "http://192.0.2.2"})
            codes.append([note.code for note in results[-1].record.notes])
        return codes

    assert asyncio.run(scenario()) == [["routing_ignored"]] * 3


def test_a_plain_request_is_relayed_by_a_recipe_too():
    maker, request = factory(), asking(HELLO)
    recipe = maker.recipe(request, Settings(), "", maker.make(request, Settings()), ())
    assert recipe is not None
    planned = maker.make_from(recipe, request, "")
    assert planned is not None and type(cast("EngineTurn", planned.turn)._engine) is PassthroughTurn


@pytest.mark.requirement("H1", "R-E2")
@check_each(("provider", "same"), [("embedded", True), ("openai", False)])
def test_the_embedded_model_gets_the_same_tool_prompt_whatever_is_asked(provider: str, same: bool):
    """It takes seconds to read a prompt; other models have faster caches and a nonce for each conversation."""
    made = factory(provider=provider)
    prompts: set[str] = set()
    for text in ("Hello?", "And now?"):
        request = asking(Message("user", (TextPart(text),)), tools=[Tool("f")])
        turn = made.make(request, Settings(mode="force", plan="envelope")).turn
        assert isinstance(turn, EngineTurn)
        (ask,) = (action for action in turn._engine.start() if isinstance(action, AskUpstream))
        prompts.add(ask.request.messages[0].text)
    assert (len(prompts) == 1) is same
