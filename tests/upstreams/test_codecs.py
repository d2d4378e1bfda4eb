"""Where each protocol posts its requests, and how it shows its key: what a service of that protocol expects."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.upstreams.loopback_server import Heard, always, head, serving
from tests.upstreams.request_helpers import batches, reply, request, run
from toolspeak.core.types import Media, Message, Note, Request, Tool, ToolChoice
from toolspeak.errors import ConfigError, UpstreamError
from toolspeak.upstreams.codecs import codec
from toolspeak.upstreams.http.thin_transport import HttpUpstream


async def _asked(protocol: str, below: str) -> Heard:
    """The request that a service of this protocol gets, if the base URL has this path."""

    async def refuse(heard: Heard) -> None:
        await heard.send(head("content-length: 0", "connection: close", status="400 Bad Request"))

    async with serving(refuse) as server:
        upstream = HttpUpstream(f"http://127.0.0.1:{server.port}{below}", "a-key-of-ours", protocol)
        with pytest.raises(UpstreamError):
            await batches(upstream, request(stream=True))
        await upstream.close()
        return server.heard[0]


#: What users copy from elsewhere: the address of a method, or of another protocol of the same server.
COPIED = [
    ("openai_chat", "/v1/chat/completions/", "/v1/chat/completions"),
    ("openai_responses", "/v1/responses", "/v1/responses"),
    ("ollama", "/api", "/api/chat"),
    ("ollama", "/api/", "/api/chat"),
    ("ollama", "/v1", "/api/chat"),
    ("ollama", "/sub/api/chat", "/sub/api/chat"),
]


@pytest.mark.requirement("G2")
@check_each(
    ("protocol", "below", "path", "key"),
    [
        ("openai_chat", "/v1", "/v1/chat/completions", ("authorization", "Bearer a-key-of-ours")),
        ("openai_responses", "/v1", "/v1/responses", ("authorization", "Bearer a-key-of-ours")),
        ("anthropic", "", "/v1/messages", ("x-api-key", "a-key-of-ours")),
        ("anthropic", "/v1", "/v1/messages", ("x-api-key", "a-key-of-ours")),
        ("anthropic", "/v1/messages", "/v1/messages", ("x-api-key", "a-key-of-ours")),
        (
            "gemini",
            "/v1beta/models",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            ("x-goog-api-key", "a-key-of-ours"),
        ),
        ("gemini", "", "/v1beta/models/m:streamGenerateContent?alt=sse", ("x-goog-api-key", "a-key-of-ours")),
        ("gemini", "/v1beta", "/v1beta/models/m:streamGenerateContent?alt=sse", ("x-goog-api-key", "a-key-of-ours")),
        ("gemini", "/v1", "/v1/models/m:streamGenerateContent?alt=sse", ("x-goog-api-key", "a-key-of-ours")),
        ("ollama", "", "/api/chat", ("authorization", "Bearer a-key-of-ours")),
        ("ollama", "/sub/", "/sub/api/chat", ("authorization", "Bearer a-key-of-ours")),
        *((*row, ("authorization", "Bearer a-key-of-ours")) for row in COPIED),
    ],
)
def test_a_request_goes_where_its_protocol_says(protocol: str, below: str, path: str, key: tuple[str, str]):
    heard = run(_asked(protocol, below))
    assert heard.line == f"POST {path} HTTP/1.1"
    assert heard.header(key[0]) == key[1]


@check_each(
    ("protocol", "below", "told"),
    [
        ("openai_chat", "/v1/messages", "`anthropic`"),
        ("openai_chat", "/v1/responses", "`openai_responses`"),
        ("openai_responses", "/v1/chat/completions", "`openai_chat`"),
        ("anthropic", "/v1/chat/completions", "`openai_chat`"),
        ("gemini", "/v1beta/models/m:generateContent", "`gemini`"),
        ("ollama", "/v1/chat/completions", "`openai_chat`"),
        ("openai_chat", "/api/chat", "`ollama`"),
    ],
)
def test_the_address_of_another_method_is_refused_with_what_to_give(protocol: str, below: str, told: str):
    with pytest.raises(ConfigError, match=told) as caught:
        HttpUpstream(f"http://127.0.0.1:1{below}", protocol=protocol)
    assert "up to the version" in caught.value.hint


def test_settings_are_found_by_the_base_url_as_it_was_given():
    assert HttpUpstream("http://127.0.0.1:1/api/", protocol="ollama").base_url == "http://127.0.0.1:1/api"


def test_anthropic_wants_to_know_which_version_is_spoken():
    assert run(_asked("anthropic", "")).header("anthropic-version") == "2023-06-01"


def test_a_protocol_that_nobody_speaks_is_refused_by_name():
    with pytest.raises(ConfigError, match="unknown protocol `telepathy`"):
        codec("telepathy")


def test_what_a_request_loses_is_told_with_the_answer():
    said = b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}\n'
    answer = head("Content-Type: application/x-ndjson", f"Content-Length: {len(said)}") + said
    message = Message("user", (Media("image", "https://example.com/cat.png"),))
    asked = Request("m", (message,), (Tool("f"),), ToolChoice("required"), stream=True)

    async def talk() -> tuple[Note, ...]:
        async with serving(always(answer)) as server:
            upstream = HttpUpstream(f"http://127.0.0.1:{server.port}", protocol="ollama")
            try:
                return (await reply(upstream, asked)).notes
            finally:
                await upstream.close()

    assert run(talk()) == (
        Note("choice_not_sent", "Ollama does not support a tool choice"),
        Note("media_dropped", "only inline images can be sent"),
    )
