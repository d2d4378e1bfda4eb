"""What is sent to a service fits the types of its vendor's own SDK, by whichever protocol the request came."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols import (
    test_anthropic_round_trip,
    test_gemini_round_trip,
    test_ollama_request,
    test_openai_chat_round_trip,
    test_openai_responses_round_trip,
)
from tests.protocols.request_mutations import RICH, captured
from tests.protocols.round_trip_losses import replace
from tests.protocols.sdk_types import WIDER, flaw_in
from toolspeak.core.types import Media, Message, Opaque, Options, Request, TextPart, ToolResult
from toolspeak.errors import UsageError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

pytestmark = pytest.mark.requirement("G2")

MODULES: dict[str, Any] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
REQUESTS: dict[str, Any] = {
    "anthropic": test_anthropic_round_trip.REQUEST,
    "gemini": test_gemini_round_trip.REQUEST,
    "ollama": test_ollama_request.REQUEST,
    "openai_chat": test_openai_chat_round_trip.REQUEST,
    "openai_responses": test_openai_responses_round_trip.REQUEST,
}


def common(request: Request) -> Request:
    """A request in words that every protocol has: what it says in those of one goes there as it came."""
    messages = tuple(
        replace(
            message,
            parts=_common_parts(message.parts),
            extra={},
            results=tuple(replace(result, parts=_common_parts(result.parts), extra={}) for result in message.results),
        )
        for message in request.messages
    )
    tools = tuple(replace(tool, extra={}) for tool in request.tools if tool.kind in ("function", "custom"))
    options = replace(request.options, extra={})
    return replace(request, messages=messages, tools=tools, options=options, protocol="")


def _common_parts(parts: Any) -> Any:
    return tuple(replace(part, extra={}) for part in parts if not isinstance(part, Opaque))


def check(request: Request, target: str) -> None:
    try:
        body = json.loads(MODULES[target].encode_request(request))
    except UsageError:  # it chooses a tool that cannot be sent
        return
    assert not flaw_in(body, target)


@pytest.mark.parametrize("target", MODULES)
@pytest.mark.parametrize("source", MODULES)
@given(data=st.data())
def test_any_request_fits_the_types_of_whom_it_is_sent_to(source: str, target: str, data: st.DataObject):
    request: Request = data.draw(REQUESTS[source])
    # A grammar is said in the words of the upstream, whoever asks.
    request = replace(request, model="m", protocol=source, options=replace(request.options, grammar={}))
    check(common(request) if source == target else request, target)


@pytest.mark.requirement("G4")
@check_each("target", MODULES)
@check_each("source", MODULES)
def test_what_real_clients_send_fits_the_types_of_whom_it_is_sent_to(source: str, target: str):
    for body in [RICH[source], *captured(source)]:
        request = replace(MODULES[source].decode_request(msgspec.json.encode(body)), model="m")
        check(common(request) if source == target else request, target)


#: Something that the types of each SDK do not know.
WRONG: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"hologram": 1}]}]},
    "ollama": {"model": "m", "messages": [{"role": "user", "content": "a", "hologram": 1}]},
    "openai_chat": {"model": "m", "messages": [{"role": "tool", "content": "a"}]},
    "openai_responses": {"model": "m", "input": [{"type": "message", "role": "user", "content": 1}]},
}


@check_each("name", MODULES)
def test_the_types_are_held_to_the_last_key(name: str):
    assert flaw_in(WRONG[name], name)


@check_each("name", MODULES)
def test_every_exception_has_a_reason_and_is_needed(name: str):
    said = {
        "anthropic": Request("m", (Message("user", (TextPart("a"),)),), options=Options(temperature=0.5, top_p=0.5)),
        "ollama": openai_chat.decode_request(RICH["openai_chat"]),
        "openai_chat": Request(
            "m",
            (
                Message("assistant", reasoning="a"),
                Message("assistant", reasoning="a", extra={"reasoning_field": "reasoning"}),
                Message("tool", results=(ToolResult("c", "1", "f"),)),
                Message("user", (Media("audio", "https://x/y"), Media("video", "https://x/y"))),
            ),
        ),
    }
    if WIDER[name]:
        text = MODULES[name].encode_request(said[name]).decode()
        assert all(not one.field or f'"{one.field}"' in text for one in WIDER[name])
        assert all(one.reason for one in WIDER[name])
