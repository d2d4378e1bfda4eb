"""Limits: how many requests, and how large."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, Team, ask, bearer, line, run
from toolspeak.core.types import MAX_SCHEMA_BYTES, Options, Request, Tool
from toolspeak.errors import SchemaError, UpstreamError, UsageError
from toolspeak.server.access.api_keys import ApiKey
from toolspeak.server.access.limits import (
    MAX_CONTAINERS,
    MAX_MESSAGES,
    MAX_TOOL_BYTES,
    MAX_VALUES,
    KeyLimits,
    LimitedUpstream,
    Meter,
    TooManyRequests,
    check_request,
    read_object,
    routing_notes,
)
from toolspeak.upstreams.failover import Failover


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# ---- counting


def test_a_minutes_worth_passes_at_once_and_then_one_by_one():
    clock = Clock()
    meter = Meter(60, 0, clock)
    assert [meter.enter() for _ in range(60)] == [0.0] * 60
    assert meter.enter() == 1.0
    clock.now += 1.0
    assert meter.enter() == 0.0
    assert meter.enter() == 1.0


def test_the_wait_is_until_the_next_one_is_allowed():
    clock = Clock()
    meter = Meter(2, 0, clock)
    meter.enter()
    meter.enter()
    assert meter.enter() == 30.0
    clock.now += 29.0
    assert meter.enter() == pytest.approx(1.0)
    clock.now += 1.0
    assert meter.enter() == 0.0


@given(st.integers(1, 100), st.lists(st.floats(0, 20), max_size=60))
def test_no_more_than_twice_the_rate_in_any_minute(rate: int, waits: list[float]):
    clock = Clock()
    meter = Meter(rate, 0, clock)
    passed: list[float] = []
    for wait in waits:
        clock.now += wait
        passed += [clock.now for _ in range(rate + 5) if meter.enter() == 0.0]
    for start in passed:
        assert sum(start <= at < start + 60 for at in passed) <= 2 * rate + 1


def test_only_so_many_are_under_way():
    meter = Meter(0, 2)
    assert [meter.enter(), meter.enter(), meter.enter()] == [0.0, 0.0, 1.0]
    meter.leave()
    assert meter.enter() == 0.0


def test_a_key_without_limits_is_not_counted():
    limits = KeyLimits()
    with limits.counted(None), limits.counted(ApiKey("a", "a")):
        pass


def test_keys_are_counted_apart_and_a_request_that_ends_in_an_error_ends():
    limits = KeyLimits()
    anna, bert = ApiKey("a", "anna", concurrency=1), ApiKey("b", "bert", concurrency=1)
    with (
        limits.counted(anna),
        limits.counted(bert),
        pytest.raises(TooManyRequests, match="`anna` has reached its limit"),
        limits.counted(anna),
    ):
        pass
    with pytest.raises(ZeroDivisionError), limits.counted(anna):
        raise ZeroDivisionError
    with limits.counted(anna):
        pass


def test_counts_are_kept_for_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.server.access.limits._MAX_METERS", 2)
    limits = KeyLimits(Clock())
    with limits.counted(ApiKey("busy", "busy", concurrency=1)):
        for number in range(5):
            with limits.counted(ApiKey(str(number), "x", rate=1)):
                pass
        # Whoever is being answered is not forgotten.
        with pytest.raises(TooManyRequests), limits.counted(ApiKey("busy", "busy", concurrency=1)):
            pass
    with limits.counted(ApiKey("0", "x", rate=1)):
        pass


@pytest.mark.requirement("R-T11")
@check_each(
    ("target", "body", "kind"),
    [
        ("/v1/chat/completions", HELLO, "rate_limit"),
        ("/v1/messages", {**HELLO, "max_tokens": 5}, "rate_limit_error"),
    ],
)
def test_too_many_requests_of_a_key_are_told_in_the_clients_own_words(target: str, body: Any, kind: str):
    team = Team()
    key = team.key("anna", rate=1)
    assert run(ask(team.app, "POST", target, bearer(key), body)).status == 200
    answer = run(ask(team.app, "POST", target, bearer(key), body))
    assert (answer.status, answer.header("retry-after")) == (429, "60")
    assert kind in answer.json["error"]["type"]
    assert run(ask(team.app, "POST", target, bearer(team.key("bert", rate=1)), body)).status == 200
    team.clock += 60
    assert run(ask(team.app, "POST", target, bearer(key), body)).status == 200


@pytest.mark.requirement("R-T11")
def test_requests_at_a_time_are_counted_until_they_are_answered():
    async def scenario() -> None:
        parrot = Parrot()
        parrot.held = asyncio.Event()
        team = Team(line("one", parrot))
        key = team.key("anna", concurrency=1)
        first = asyncio.ensure_future(ask(team.app, "POST", "/v1/chat/completions", bearer(key), HELLO))
        await parrot.reached.wait()
        refused = await ask(team.app, "POST", "/v1/chat/completions", bearer(key), HELLO)
        assert (refused.status, refused.header("retry-after")) == (429, "1")
        # Nothing but model requests is counted.
        assert (await ask(team.app, "GET", "/v1/models", bearer(key))).status == 200
        parrot.held.set()
        assert (await first).status == 200
        assert (await ask(team.app, "POST", "/v1/chat/completions", bearer(key), HELLO)).status == 200

    run(scenario())


# ---- upstreams


async def said(upstream: Any) -> list[Any]:
    return [event async for batch in upstream.open(Request("m", ())) for event in batch]


def test_an_upstream_takes_so_many_and_then_fails_at_once():
    limited = LimitedUpstream(Parrot(), Meter(1, 0, Clock()), "near")
    assert len(run(said(limited))) == 2
    with pytest.raises(UpstreamError, match="`near` has reached its limit") as caught:
        run(said(limited))
    assert (caught.value.upstream_status, caught.value.retry_after) == (429, 60.0)


@pytest.mark.requirement("G6")
def test_what_one_upstream_cannot_take_another_gets():
    limited = LimitedUpstream(Parrot("near"), Meter(1, 0, Clock()), "near")
    both = Failover([limited, Parrot("far")])
    assert [run(said(both))[-2].text for _ in range(2)] == ["near", "far"]


def test_an_exchange_that_is_cut_leaves_its_place_free():
    async def scenario() -> None:
        parrot = Parrot()
        parrot.held = asyncio.Event()
        meter = Meter(0, 1)
        batches = LimitedUpstream(parrot, meter, "near").open(Request("m", ()))
        await anext(batches)
        assert meter.under_way == 1
        await batches.aclose()
        assert meter.under_way == 0

    run(scenario())


def test_a_limited_upstream_is_its_upstream_otherwise():
    parrot = Parrot()
    limited = LimitedUpstream(parrot, Meter(1, 0), "near")
    assert (limited.provider, limited.base_url) == (parrot.provider, parrot.base_url)
    assert "Parrot" in repr(limited)
    run(limited.close())
    assert parrot.closed.is_set()


# ---- sizes


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


# Without ids, the hour in the head of gzip would name the test: two processes then collect different tests.
@check_each("packed", [gzip.compress(b"{}", mtime=0), bytes.fromhex("28b52ffd04") + b"{}"], ids=["gzip", "zstandard"])
def test_a_compressed_body_is_refused_in_words_that_tell_why(packed: bytes):
    with pytest.raises(UsageError, match="uncompressed") as caught:
        read_object(packed)
    assert caught.value.status == 415


@pytest.mark.requirement("R-T11")
def test_a_body_is_nested_64_levels_deep_at_most():
    assert read_object(nested(64))
    for levels in (65, 500, 100_000):
        with pytest.raises(UsageError, match="nested"):
            read_object(nested(levels))


def test_brackets_in_strings_are_no_levels():
    body = msgspec.json.encode({"a": '[{"' * 1000, "b": "\\" * 999 + '"' * 3 + "[" * 100})
    assert read_object(body) == msgspec.json.decode(body)


@pytest.mark.requirement("R-T11")
def test_a_body_of_very_many_values_is_refused_before_they_are_made():
    with pytest.raises(UsageError, match="lists and objects"):
        read_object(b'{"a":[' + b"[]," * MAX_CONTAINERS + b"[]]}")


@pytest.mark.requirement("R-T11")
@check_each("body", [nested(65), b"[" * 3000, b'{"model":"m","messages":' + nested(900) + b"}"])
def test_a_body_that_is_too_deep_is_a_bad_request(body: bytes):
    team = Team()
    answer = run(ask(team.app, "POST", "/v1/chat/completions", bearer(team.key("anna")), body))
    assert answer.status == 400


@pytest.mark.requirement("R-T11")
def test_a_request_lists_512_tools_at_most():
    tools = tuple(Tool(f"t{number}") for number in range(513))
    check_request(Request("m", (), tools[:512]))
    with pytest.raises(UsageError, match="513 tools"):
        check_request(Request("m", (), tools))


@pytest.mark.requirement("R-T11")
@check_each("value", [b"1", b'""', b'{"":1}'])
def test_a_body_of_very_many_small_values_is_refused_before_they_are_made(value: bytes):
    count = 2 * MAX_VALUES + 2
    with pytest.raises(UsageError, match="more than 1000000"):
        read_object(b'{"a":[' + (value + b",") * count + value + b"]}")


@check_each("text", ["1," * MAX_VALUES, '\\",' * MAX_VALUES])
def test_commas_in_texts_are_no_values(text: str):
    body = msgspec.json.encode({"a": text + ","})
    assert read_object(body) == {"a": text + ","}


def test_a_text_that_never_ends_is_looked_at_once():
    with pytest.raises(UsageError, match="not valid JSON"):
        read_object(b'{"a":"' + b'\\",' * (MAX_VALUES + 1) + b"\\")


@pytest.mark.requirement("R-T11")
@check_each("field", ["messages", "input", "contents"])
def test_a_conversation_has_20000_messages_at_most(field: str):
    assert read_object(msgspec.json.encode({field: [1] * MAX_MESSAGES}))
    with pytest.raises(UsageError, match=f"`{field}` has 20001 messages"):
        read_object(msgspec.json.encode({field: [1] * (MAX_MESSAGES + 1)}))


@pytest.mark.requirement("R-T11")
@check_each("field", ["tools", "functions"])
def test_all_tools_together_take_a_mebibyte_at_most(field: str):
    text = "x" * MAX_TOOL_BYTES
    assert read_object(msgspec.json.encode({field: [], "messages": [text]}))
    with pytest.raises(SchemaError, match="the tools take"):
        read_object(msgspec.json.encode({field: [text]}))


@pytest.mark.requirement("R-T11")
def test_the_schema_of_a_tool_that_is_too_large_is_refused_before_anything_is_made_of_it():
    small, large = ({"description": "x" * size} for size in (MAX_SCHEMA_BYTES // 2, MAX_SCHEMA_BYTES))
    fitting = Request("m", (), (Tool("one", parameters=small), Tool("two", parameters=small)))
    check_request(fitting, MAX_SCHEMA_BYTES * 2)
    with pytest.raises(SchemaError, match="`two` take"):
        check_request(Request("m", (), (Tool("one"), Tool("two", parameters=large))), MAX_SCHEMA_BYTES * 2)


def test_tools_that_are_too_large_are_a_bad_request():
    team = Team()
    for size in (MAX_SCHEMA_BYTES, MAX_TOOL_BYTES):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"description": "x" * size}}}
        body = {**HELLO, "tools": [tool]}
        answer = run(ask(team.app, "POST", "/v1/chat/completions", bearer(team.key(f"anna{size}")), body))
        assert (answer.status, "bytes; the limit is" in answer.message) == (400, True)


def test_fields_that_would_choose_where_a_request_goes_are_noted():
    request = Request("m", (), options=Options(extra={"api_base": "http://evil.test", "user": "u", "api_key": "k"}))
    (note,) = routing_notes(request)
    assert note.code == "routing_ignored"
    assert note.detail.endswith("ignored fields: api_base, api_key")
    assert routing_notes(Request("m", ())) == ()
