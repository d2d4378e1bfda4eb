"""Where a request goes, and with whose key."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, Team, ask, bearer, gateway, line, run
from tests.server.protocol_clients import SPEAKERS, Speaker
from toolspeak.config import Secret
from toolspeak.core.types import Request
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError, UpstreamError
from toolspeak.server.access.api_keys import ApiKey
from toolspeak.server.access.auth import Caller, Credential, Unauthorized
from toolspeak.server.access.limits import LimitedUpstream
from toolspeak.server.app import App
from toolspeak.server.asgi import Receive, Scope, Send
from toolspeak.server.proxy.model_catalogue import UnknownModel
from toolspeak.server.proxy.upstream_router import UpstreamConfig
from toolspeak.upstreams.base import Batches

CHAT = "/v1/chat/completions"
AUTO = Settings()


class Broken(Parrot):
    """Fails before anything flows."""

    async def _batches(self, request: Request) -> Batches:
        self.asked.append(request)
        raise UpstreamError("down", upstream_status=503)
        yield []


def told(app: App, model: str, headers: dict[str, str] | None = None) -> str:
    answer = run(ask(app, "POST", CHAT, headers or {}, {**HELLO, "model": model}))
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["message"]["content"]


def app_of(*lines: UpstreamConfig, **more: Any) -> App:
    return App(gateway(*lines, **more))


def test_each_model_goes_where_it_is_served_and_is_called_by_its_name_there():
    near, far = Parrot("near"), Parrot("far")
    app = app_of(line("near", near, models=("a",)), line("far", far, models=("b", "a")), aliases={"fast": "far:b"})
    assert [told(app, name) for name in ("a", "b", "far:a", "fast", "near:a")] == ["near", "far", "far", "far", "near"]
    assert [request.model for request in near.asked] == ["a", "a"]
    assert [request.model for request in far.asked] == ["b", "a", "b"]


def test_a_client_reads_the_name_that_it_asked_for():
    app = app_of(line("near", Parrot(), models=("a",)), aliases={"fast": "a"})
    assert run(ask(app, "POST", CHAT, {}, {**HELLO, "model": "fast"})).json["model"] == "fast"


@check_each(
    ("target", "body", "shape"),
    [
        (CHAT, HELLO, lambda body: body["error"]["code"]),
        ("/v1/messages", {**HELLO, "max_tokens": 5}, lambda body: body["error"]["type"]),
        ("/api/chat", HELLO, lambda body: body["error"]),
    ],
)
def test_an_unknown_model_is_404_in_the_clients_own_words_with_near_names(target: str, body: Any, shape: Any):
    app = app_of(line("near", Parrot(), models=("llama-3",)))
    answer = run(ask(app, "POST", target, {}, {**body, "model": "lama-3"}))
    assert answer.status == 404
    assert "did you mean `llama-3`?" in answer.message
    assert isinstance(shape(answer.json), str)


def test_models_are_listed_for_whoever_may_use_them():
    guarded = line("far", Parrot(), models=("b",), auth="check")
    team = Team(line("near", Parrot(), models=("a", "secret")), guarded, required=False, aliases={"fast": "a"})

    def listed(headers: dict[str, str]) -> list[str]:
        return [entry["id"] for entry in run(ask(team.app, "GET", "/v1/models", headers)).json["data"]]

    assert listed({}) == ["fast", "a", "secret"]
    assert listed(bearer(team.key("anna"))) == ["fast", "a", "secret", "b"]
    assert listed(bearer(team.key("bert", "a", "far:*"))) == ["fast", "a", "b"]
    assert run(ask(team.app, "GET", "/v1/models/secret")).status == 200
    assert run(ask(team.app, "GET", "/v1/models/secret", bearer(team.key("carl", "a")))).status == 404
    assert [each["name"] for each in run(ask(team.app, "GET", "/api/tags")).json["models"]] == ["fast", "a", "secret"]
    names = [each["name"] for each in run(ask(team.app, "GET", "/v1beta/models")).json["models"]]
    assert names == ["models/fast", "models/a", "models/secret"]


@pytest.mark.requirement("R-T8", "G6")
def test_a_key_is_good_for_its_models_by_whatever_name():
    team = Team(line("near", Parrot(), models=("a", "b")), line("any", Parrot()), aliases={"fast": "a", "big": "b"})
    key = team.key("anna", "a", "any:x*")
    for model, status in {
        "a": 200,
        "fast": 200,
        "near:a": 200,
        "any:x1": 200,
        "any:a": 200,
        "b": 404,
        "near:b": 404,
        "big": 404,
        "any:b": 404,
        "other": 404,
    }.items():
        assert run(ask(team.app, "POST", CHAT, bearer(key), {**HELLO, "model": model})).status == status, model


def test_one_model_for_everybody_is_asked_for_whatever_a_request_names():
    parrot = Parrot()
    team = Team(line("one", parrot, fixed="the-one"))
    assert told(team.app, "gpt-4", bearer(team.key("anna"))) == "Hello."
    assert told(team.app, "", bearer(team.key("carl"))) == "Hello."
    assert {request.model for request in parrot.asked} == {"the-one"}
    # The reply says so, to those who have named another one.
    for name, stream in itertools.product(("gpt-4", "the-one"), (False, True)):
        body = {**HELLO, "model": name, "stream": stream}
        answer = run(ask(team.app, "POST", CHAT, bearer(team.key(f"{name}-{stream}")), body))
        assert json.loads(answer.header("x-toolspeak")).get("model") == ("the-one" if name == "gpt-4" else None)
        assert (b'"model":"the-one"' in answer.body) is (stream or name == "the-one")
    # A key for another model is of no use, though the request names that one.
    answer = run(ask(team.app, "POST", CHAT, bearer(team.key("bert", "gpt-4")), {**HELLO, "model": "gpt-4"}))
    assert answer.status == 404


# ---- whose key


class Dialled:
    """An upstream for each key that it is dialled with."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []

    def line(self, name: str = "one", **fields: Any) -> UpstreamConfig:
        def connect(own: Credential | None) -> Parrot:
            self.keys.append((own.header, own.secret.reveal()) if own is not None else ("", "configured"))
            return Parrot(f"{name}: {self.keys[-1][1]}")

        return line(name, Parrot(), connect=connect, **fields)


@pytest.mark.requirement("G6")
def test_replace_sends_the_configured_key_and_never_the_clients():
    dialled = Dialled()
    team = Team(dialled.line(auth="replace"), required=False)
    assert told(team.app, "m", bearer("sk-own")) == "one: configured"
    assert told(team.app, "m") == "one: configured"


@pytest.mark.requirement("G6")
def test_check_demands_a_toolspeak_key_and_sends_the_configured_one():
    team = Team(Dialled().line(auth="check"), required=False)
    for headers in ({}, bearer("sk-own")):
        assert run(ask(team.app, "POST", CHAT, headers, HELLO)).status == 401
    assert told(team.app, "m", bearer(team.key("anna"))) == "one: configured"
    session = team.access.sessions.exchange(team.access.sessions.new_code())
    assert told(team.app, "m", {"Cookie": f"toolspeak_session={session}"}) == "one: configured"


@pytest.mark.requirement("G6")
def test_forward_sends_the_clients_own_key():
    dialled = Dialled()
    team = Team(dialled.line(auth="forward"), required=False)
    assert told(team.app, "m", bearer("sk-own")) == "one: sk-own"
    assert told(team.app, "m", {"x-api-key": "sk-other"}) == "one: sk-other"
    assert told(team.app, "m", bearer("sk-own")) == "one: sk-own"
    # The same protocol on both sides: in the header that it came in. And dialled once for each key.
    assert dialled.keys == [("authorization", "sk-own"), ("x-api-key", "sk-other")]


@pytest.mark.requirement("G6")
def test_another_protocol_gets_the_clients_key_where_it_looks_for_one():
    dialled = Dialled()
    team = Team(dialled.line(auth="forward", protocol="anthropic"), required=False)
    told(team.app, "m", bearer("sk-own"))
    assert dialled.keys == [("", "sk-own")]


@pytest.mark.requirement("G6")
def test_a_toolspeak_key_is_never_sent_on():
    dialled = Dialled()
    team = Team(dialled.line(auth="forward"))
    key = team.key("anna")
    answer = run(ask(team.app, "POST", CHAT, bearer(key), HELLO))
    assert answer.status == 401
    assert "x-toolspeak-key" in answer.message
    assert told(team.app, "m", {**bearer("sk-own"), "x-toolspeak-key": key}) == "one: sk-own"
    assert dialled.keys == [("authorization", "sk-own")]


@pytest.mark.requirement("G6")
def test_without_one_key_of_its_own_a_client_is_not_forwarded():
    team = Team(Dialled().line(auth="forward"), required=False)
    assert run(ask(team.app, "POST", CHAT, {}, HELLO)).status == 401
    several = {"Authorization": "Bearer sk-1", "x-api-key": "sk-2"}
    assert run(ask(team.app, "POST", CHAT, several, HELLO)).status == 401


@pytest.mark.requirement("R-T8", "G6")
def test_nobody_is_answered_with_the_key_of_another():
    dialled = Dialled()
    team = Team(dialled.line(auth="forward"))
    shared = team.key("team")
    for number in [1, 2, 1, 2, 3]:
        headers = {**bearer(f"sk-{number}"), "x-toolspeak-key": shared}
        assert told(team.app, "m", headers) == f"one: sk-{number}"
    # Long keys that begin alike are different keys.
    for end in "ab":
        assert told(team.app, "m", {**bearer("k" * 200 + end), "x-toolspeak-key": shared}).endswith(end)


@pytest.mark.requirement("R-T8")
def test_with_keys_of_their_own_clients_are_tenants_too():
    team = Team(Dialled().line(auth="forward"), required=False)
    made = run(ask(team.app, "POST", CHAT, bearer("sk-own"), HELLO)).json["id"].removeprefix("chatcmpl-")
    place = f"/toolspeak/requests/{made}"
    assert run(ask(team.app, "GET", place, bearer("sk-own"))).status == 200
    assert run(ask(team.app, "GET", place, bearer("sk-other"))).status == 404
    assert run(ask(team.app, "GET", place)).status == 404


def test_upstreams_for_clients_are_kept_for_a_bounded_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.server.proxy.upstream_router._MAX_FORWARDED", 2)
    monkeypatch.setattr("toolspeak.server.proxy.upstream_router._MAX_TARGETS", 2)
    dialled = Dialled()
    team = Team(dialled.line(auth="forward"), required=False)
    for number in (1, 2, 3, 1):
        told(team.app, "m", bearer(f"sk-{number}"))
    assert [key for _, key in dialled.keys] == ["sk-1", "sk-2", "sk-3", "sk-1"]


# ---- fields that would choose an upstream

FIELDS = {
    "api_base": "http://evil.test",
    "api_key": "sk-evil",
    "api_type": "azure",
    "api_version": "1",
    "base_url": "http://evil.test",
    "custom_llm_provider": "evil",
    "extra_body": {"api_base": "http://evil.test"},
    "extra_headers": {"Host": "evil.test"},
    "extra_query": {"key": "x"},
    "headers": {"Authorization": "evil"},
    "organization": "evil",
    "proxies": {"http": "http://evil.test"},
    "proxy": "http://evil.test",
}


@pytest.mark.requirement("R-T1")
@check_each("field", FIELDS)
def test_a_field_that_would_choose_an_upstream_is_ignored_and_noted(field: str):
    parrot = Parrot()
    team = Team(line("one", parrot), required=False)
    answer = run(ask(team.app, "POST", CHAT, {}, {**HELLO, field: FIELDS[field]}))
    assert answer.status == 200
    record = run(ask(team.app, "GET", "/toolspeak/requests/" + answer.json["id"].removeprefix("chatcmpl-"))).json
    (note,) = [note for note in record["notes"] if note["code"] == "routing_ignored"]
    assert note["detail"].endswith(f"ignored fields: {field}")


# ---- falling back


@pytest.mark.requirement("G6")
def test_the_next_upstream_is_asked_for_its_own_name_of_the_model():
    broken, other, last = Broken(), Broken(), Parrot("last")
    app = app_of(
        line("near", broken, models=("a",), fallbacks=("other", "last:z")),
        line("other", other, models=("b",)),
        line("last", last, models=("c",)),
    )
    assert told(app, "a") == "last"
    assert [upstream.asked[0].model for upstream in (broken, other, last)] == ["a", "a", "z"]


@pytest.mark.requirement("G6")
def test_when_all_fail_the_last_ones_word_counts():
    app = app_of(line("near", Broken(), models=("a",), fallbacks=("far",)), line("far", Broken(), models=("b",)))
    assert run(ask(app, "POST", CHAT, {}, {**HELLO, "model": "a"})).status == 503


@check_each("fallback", ["nowhere", "near", "near:b"])
def test_a_fallback_that_leads_nowhere_is_found_at_the_start(fallback: str):
    with pytest.raises(ConfigError, match="cannot fall back"):
        gateway(line("near", Parrot(), fallbacks=(fallback,)))


@pytest.mark.requirement("R-T1")
def test_a_clients_key_for_one_upstream_never_falls_to_another():
    far = line("far", Parrot(base_url="http://far.test"), auth="forward")
    for auth in ("forward", "replace"):
        with pytest.raises(ConfigError, match="must not get a client's key"):
            gateway(line("near", Parrot(), auth=auth, fallbacks=("far",)), far)
    dialled = Dialled()
    team = Team(
        line("near", Broken(), auth="forward", fallbacks=("far",), models=("m",)),
        dialled.line("far", models=("x",)),
        required=False,
    )
    assert told(team.app, "m", bearer("sk-own")) == "far: configured"


@pytest.mark.requirement("G6")
def test_a_fallback_for_holders_of_a_key_is_for_them_only():
    near = line("near", Broken(), fallbacks=("far",), models=("m",))
    team = Team(near, line("far", Parrot("far"), auth="check"), required=False)
    refused = run(ask(team.app, "POST", CHAT, {}, HELLO))
    assert refused.status == 401
    # Who reads this looks at the upstream that wants the key, not at the one that was asked.
    assert "the upstream `far`, a fallback of `near`, requires a toolspeak key" in refused.message
    assert told(team.app, "m", bearer(team.key("anna"))) == "far"


@pytest.mark.requirement("R-T11", "G6")
def test_an_upstream_that_is_full_is_passed_over_or_says_when():
    full = line("near", Parrot("near"), models=("m",), max_per_minute=1)
    app = app_of(full)
    assert told(app, "m") == "near"
    answer = run(ask(app, "POST", CHAT, {}, HELLO))
    assert answer.status == 429
    assert 1 <= int(answer.header("retry-after")) <= 60
    app = app_of(msgspec.structs.replace(full, fallbacks=("far",)), line("far", Parrot("far"), models=("x",)))
    assert [told(app, "m") for _ in range(2)] == ["near", "far"]


# ---- life


def test_requests_under_way_end_where_they_began_when_the_gateway_is_replaced():
    async def scenario() -> None:
        old, new = Parrot("old"), Parrot("new")
        old.held = asyncio.Event()
        app = app_of(line("one", old))
        first = asyncio.ensure_future(ask(app, "POST", CHAT, {}, {**HELLO, "stream": True}))
        await old.reached.wait()
        replaced = asyncio.ensure_future(app.replace(gateway(line("two", new, models=("m",)))))
        await asyncio.sleep(0)
        assert (await ask(app, "POST", CHAT, {}, HELLO)).json["choices"][0]["message"]["content"] == "new"
        assert [each["id"] for each in (await ask(app, "GET", "/v1/models")).json["data"]] == ["m"]
        assert not old.closed.is_set()
        old.held.set()
        answer = await first
        assert b'"old"' in answer.body
        assert b"[DONE]" in answer.body
        await replaced
        assert old.closed.is_set()
        assert not new.closed.is_set()

    run(scenario())


def test_a_gateway_that_nobody_uses_is_closed_at_once():
    async def scenario() -> None:
        parrot = Parrot()
        app = app_of(line("one", parrot))
        await ask(app, "POST", CHAT, {}, HELLO)
        await app.replace(gateway())
        assert parrot.closed.is_set()

    run(scenario())


class Starting(Parrot):
    """A model that has to be started, which may fail."""

    def __init__(self, name: str = "", *, fails: bool = False) -> None:
        super().__init__(name)
        self.started = asyncio.Event()
        self.fails = fails

    async def start(self) -> None:
        self.started.set()
        if self.fails:
            raise ConfigError("no memory")


@pytest.mark.requirement("H1")
@check_each("fails", [False, True])
def test_the_embedded_model_starts_with_the_server_so_that_nobody_waits_for_it(fails: bool):
    async def scenario() -> None:
        near, far = Starting("near", fails=fails), Starting("far")
        made = gateway(line("embedded", near), line("far", far, models=("b",)))
        made.start()
        await near.started.wait()
        assert not far.started.is_set()
        await made.close()

    run(scenario())


def test_everything_dialled_is_closed_at_the_end():
    parrot = Parrot()
    forwarding = line("one", parrot, auth="forward", max_concurrent=5)
    made = gateway(forwarding)
    target = made.target(Request("m", ()), Caller(own_keys=(Credential("x-api-key", Secret("sk-own")),)))
    assert isinstance(target.maker.resolved.upstream, LimitedUpstream)
    run(made.close())
    assert parrot.closed.is_set()


def test_what_may_not_be_is_told_apart():
    made = gateway(line("near", Parrot(), models=("a",), auth="check"))
    with pytest.raises(UnknownModel):
        made.target(Request("b", ()))
    with pytest.raises(Unauthorized):
        made.target(Request("a", ()))
    with pytest.raises(UnknownModel):
        made.target(Request("a", ()), Caller(ApiKey("id", "anna", ("b",))))


def test_a_gateway_that_is_replaced_ends_with_the_last_request_that_it_answers():
    async def scenario() -> list[bool]:
        upstream = Parrot()
        old = gateway(line("near", upstream))
        old.target(Request("a", ()))  # so that there is something to close
        seen: list[bool] = []
        with old.lease():
            with old.lease():
                ending = asyncio.ensure_future(old.retire())
                await asyncio.sleep(0)
                seen.append(upstream.closed.is_set())
            await asyncio.sleep(0)
            seen.append(upstream.closed.is_set())
        await ending
        return [*seen, upstream.closed.is_set()]

    assert run(scenario()) == [False, False, True]


def test_what_one_caller_may_use_says_nothing_about_another():
    served = gateway(line("near", Parrot(), models=("a", "b")))
    anna, berta = Caller(ApiKey("1", "anna", ("a",))), Caller(ApiKey("2", "berta", ("b",)))
    assert served.target(Request("a", ()), anna).maker.resolved.model == "a"
    with pytest.raises(UnknownModel):
        served.target(Request("a", ()), berta)
    assert served.target(Request("a", ()), anna).maker.resolved.model == "a"


# ---- which upstream answered


def named(answer: Any) -> Any:
    assert answer.status == 200, answer.body
    return json.loads(answer.header("x-toolspeak")).get("upstream")


@check_each("speaker", [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS])
@check_each("stream", [False, True])
@check_each("tools", [False, True])
@pytest.mark.requirement("G6", "H3")
def test_a_reply_and_its_record_name_the_upstream_that_answered(speaker: Speaker, stream: bool, tools: bool):
    async def scenario() -> None:
        near, far = Flaky("near"), Parrot("far")
        team = Team(line("near", near, fallbacks=("far:b",)), line("far", far, models=("b",)), required=False)
        admin = bearer(team.key("root", admin=True))
        for expected in ("near", "far", "near"):
            near.down = expected == "far"
            answer = await ask(team.app, "POST", speaker.path(stream), {}, speaker.ask(stream, tools=tools))
            assert named(answer) == expected
            identifier = json.loads(answer.header("x-toolspeak"))["id"]
            record = (await ask(team.app, "GET", f"/toolspeak/requests/{identifier}", admin)).json
            assert record["upstream_name"] == expected
            if stream and (told := speaker.read(answer.body, stream).extension):
                assert told["upstream"] == expected

    run(scenario())


class Flaky(Parrot):
    """An upstream that can be down."""

    down = False

    async def _batches(self, request: Request) -> Batches:
        if self.down:
            raise UpstreamError("down", upstream_status=503)
        async for batch in super()._batches(request):
            yield batch


def test_the_upstream_of_each_of_many_requests_at_once_is_its_own():
    async def scenario() -> None:
        near = Flaky("near")
        near.held = asyncio.Event()
        app = app_of(line("near", near, fallbacks=("far",)), line("far", Parrot("far"), models=("b",)))
        waiting = asyncio.create_task(ask(app, "POST", CHAT, {}, HELLO))
        await near.reached.wait()
        near.down = True
        assert named(await ask(app, "POST", CHAT, {}, HELLO)) == "far"
        near.held.set()
        assert named(await waiting) == "near"

    run(scenario())


class Late(Parrot):
    """An upstream that says nothing until the response has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def _batches(self, request: Request) -> Batches:
        await self.begun.wait()
        async for batch in super()._batches(request):
            yield batch


def test_an_upstream_is_not_named_before_it_is_known_which_one_answers():
    class Watched(App):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async def watched(message: Any) -> None:
                await send(message)
                late.begun.set()

            await super().__call__(scope, receive, watched)

    async def scenario() -> Any:
        lines = line("near", Broken(), fallbacks=("late",)), line("late", late, models=("b",))
        return await ask(Watched(gateway(*lines), keep_alive=0.01), "POST", CHAT, {}, {**HELLO, "stream": True})

    late = Late()
    answer = run(scenario())
    assert named(answer) is None
    assert b'"upstream":"late"' in answer.body


def test_where_all_fail_none_is_named():
    async def scenario() -> None:
        team = Team(line("near", Broken(), fallbacks=("far",)), line("far", Broken(), models=("b",)), required=False)
        answer = await ask(team.app, "POST", CHAT, {}, HELLO)
        identifier = json.loads(answer.header("x-toolspeak"))["id"]
        admin = bearer(team.key("root", admin=True))
        record = (await ask(team.app, "GET", f"/toolspeak/requests/{identifier}", admin)).json
        assert (answer.status, record["upstream_name"]) == (503, "")

    run(scenario())


def test_a_name_beyond_ascii_is_escaped_in_the_header():
    app = app_of(line("nähe", Parrot()))
    answer = run(ask(app, "POST", CHAT, {}, HELLO))
    assert answer.header("x-toolspeak").isascii()
    assert named(answer) == "nähe"


# ---- how each upstream handles tool calls


def test_upstreams_are_listed_with_what_they_do_for_which_models():
    forced = Settings(mode="force", plan="envelope")
    lines = [
        line("one", Parrot()),
        line("two", Parrot(), models=("a", "b", "llama-*"), settings=lambda model: forced if model == "b" else AUTO),
        line("three", Parrot(), fixed="m", title="models.test:9000"),
    ]
    told = [
        (config.title or config.name, strategy.plan, strategy.rule, models, bool(strategy.warning))
        for config, strategy, models in gateway(*lines).strategies()
    ]
    assert told == [
        ("one", "inline", "unknown", ("",), False),
        ("two", "inline", "unknown", ("a", "llama-*"), False),
        ("two", "inline", "envelope.unconstrained", ("b",), True),
        ("models.test:9000", "inline", "unknown", ("m",), False),
    ]
