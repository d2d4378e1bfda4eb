"""The models that upstreams say they have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.server.asgi_client import ask, run
from tests.server.test_from_config import closing, configured, says
from tests.upstreams.loopback_server import Heard, always, head, serving
from toolspeak.errors import UpstreamError
from toolspeak.server.app import App
from toolspeak.server.process.from_config import gateway_from
from toolspeak.server.proxy.model_catalogue import FRESH_SECONDS, ModelListCache
from toolspeak.upstreams.http.thin_transport import HttpUpstream


def listed(body: Any, status: str = "200 OK") -> Any:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return always(head("Content-Type: application/json", f"Content-Length: {len(data)}", status=status), data)


def names_from(answer: Any, protocol: str = "openai_chat") -> tuple[tuple[str, ...], list[Heard]]:
    async def scenario() -> tuple[tuple[str, ...], list[Heard]]:
        async with serving(answer) as server:
            upstream = HttpUpstream(server.url, "sk-key", protocol)
            try:
                return await upstream.model_names(), server.heard
            finally:
                await upstream.close()

    return run(scenario())


@check_each(
    ("protocol", "body", "line", "key"),
    [
        ("openai_chat", {"data": [{"id": "a"}, {"id": "b/c"}]}, "/v1/models", "authorization"),
        ("openai_responses", {"data": [{"id": "a"}, {"id": "b/c"}]}, "/v1/models", "authorization"),
        ("anthropic", {"data": [{"id": "a"}, {"id": "b/c"}]}, "/v1/models?limit=1000", "x-api-key"),
        (
            "gemini",
            {"models": [{"name": "models/a"}, {"name": "models/b/c"}]},
            "/v1/models?pageSize=1000",
            "x-goog-api-key",
        ),
        ("ollama", {"models": [{"name": "a"}, {"name": "b/c"}]}, "/api/tags", "authorization"),
    ],
)
def test_each_protocol_tells_names_in_its_own_way(protocol: str, body: Any, line: str, key: str):
    names, (heard,) = names_from(listed(body), protocol)
    assert names == ("a", "b/c")
    assert heard.line == f"GET {line} HTTP/1.1"
    assert heard.header(key).endswith("sk-key")


@pytest.mark.requirement("R-T20")
def test_names_that_cannot_be_shown_are_left_out():
    rows = [
        {"id": "a"},
        {"id": "a"},
        {"id": ""},
        {"id": "x\x1b[1m"},
        {"id": 5},
        {"id": "x" * 300},
        "b",
        {},
        {"id": "z"},
    ]
    assert names_from(listed({"data": rows}))[0] == ("a", "z")


@check_each(
    "answer",
    [
        listed(b"<html>"),
        listed({"data": 5}),
        listed([]),
        listed({"data": []}, "404 Not Found"),
        listed({}, "302 Found"),
    ],
)
def test_a_service_that_does_not_say_is_told_apart(answer: Any):
    with pytest.raises(UpstreamError, match=r"does not (list|offer)"):
        names_from(answer)


def test_upstreams_are_asked_again_after_a_while_and_forgotten_when_they_fail():
    now = [0.0]

    async def scenario() -> None:
        answers = [listed({"data": [{"id": "a"}]}), listed(b"", "500 No")]

        async def answer(heard: Heard) -> None:
            await answers.pop(0)(heard)

        async with serving(answer) as server:
            upstream = HttpUpstream(server.url)
            listing = ModelListCache(lambda: now[0])
            for at, known, asked in (
                (0.0, {"u": ("a",)}, 1),
                (FRESH_SECONDS - 1, {"u": ("a",)}, 1),
                (FRESH_SECONDS, {}, 2),
            ):
                now[0] = at
                await listing.refresh([("u", upstream)])
                assert (listing.names, len(server.heard)) == (known, asked)
            await upstream.close()

    run(scenario())


def test_lists_are_merged_and_every_name_leads_where_it_says(tmp_path: Path):
    async def models(heard: Heard) -> None:
        if heard.line.startswith("GET"):
            await listed({"data": [{"id": "shared"}, {"id": "only"}, {"id": "fast"}]})(heard)
        else:
            await says("hello")(heard)

    async def scenario() -> None:
        async with serving(models) as first, serving(models) as second:
            config = configured(
                tmp_path,
                f"""
                [upstreams.named]
                base_url = "http://127.0.0.1:1/v1"
                models = ["shared"]
                [upstreams.first]
                base_url = "{first.url}"
                [upstreams.second]
                base_url = "{second.url}"
                [upstreams.gone]
                base_url = "http://127.0.0.1:1/v1"
                [upstreams.own]
                base_url = "{first.url}"
                auth = "forward"
                [aliases]
                fast = "shared"
                """,
            )
            gateway = gateway_from(config)
            app = App(gateway)
            shown = await asyncio.gather(*(ask(app, "GET", "/v1/models") for _ in range(3)))
            names = {entry["id"]: entry["owned_by"] for entry in shown[0].json["data"]}
            assert names == {
                "fast": "named",
                "shared": "named",
                "first:shared": "first",
                "only": "first",
                "first:fast": "first",
                "second:shared": "second",
                "second:only": "second",
                "second:fast": "second",
            }
            assert (await ask(app, "GET", "/v1/models/only")).status == 200
            assert len(first.heard) == len(second.heard) == 1
            await closing(app)

    run(scenario())


def test_one_upstream_by_flag_is_asked_for_its_models(tmp_path: Path):
    async def scenario() -> None:
        async with serving(listed({"data": [{"id": "a"}]})) as server:
            app = App(gateway_from(configured(tmp_path, 'api_key = "sk-general"'), server.url))
            assert [entry["id"] for entry in (await ask(app, "GET", "/v1/models")).json["data"]] == ["a"]
            assert server.heard[0].header("authorization") == "Bearer sk-general"
            await closing(app)

    run(scenario())
