"""Requests that came by another protocol, said in the words of the Responses API."""

from __future__ import annotations

import pytest

from tests.protocols.test_openai_responses_request import HI, USER, result, sent
from toolspeak.core.types import (
    Media,
    Message,
    Opaque,
    Options,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    tools_from,
)
from toolspeak.protocols.openai_responses import PROTOCOL, request_notes


@pytest.mark.requirement("G3")
def test_words_of_another_protocol_are_not_sent():
    foreign = {"cache_control": {}}
    request = Request(
        "m",
        (
            Message("system", (TextPart("Be "), TextPart("brief.")), extra=foreign),
            Message("user", (TextPart("hi", foreign), Opaque("thinking", {"type": "thinking"})), extra=foreign),
            Message(
                "assistant",
                (Opaque("item:reasoning", {"type": "reasoning"}), Media("image", "http://x/y")),
                "Hm",
                (ToolCall("f", {}, "a"),),
            ),
            Message("tool", results=(ToolResult("a", "1", "f", extra=foreign),)),
        ),
        (Tool("f", extra=foreign), Tool("web_search", kind="web_search", extra={"type": "web_search_20250305"})),
        options=Options(extra=foreign),
        protocol="anthropic",
    )
    assert sent(request) == {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            USER,
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            result("a", "1"),
        ],
        "tools": [{"type": "function", "name": "f", "parameters": None, "strict": False}],
        "store": False,
    }


def test_tools_of_the_services_own_go_up_as_they_are_and_every_other_is_noted():
    search = {"type": "web_search", "search_context_size": "low"}
    tools = [search, {"type": "web_search_20250305", "name": "a"}, {"type": "foo"}]
    request = Request("m", (HI,), tools_from(tools) or (), protocol="openai_chat")
    assert sent(request)["tools"] == [search]
    assert [note.detail for note in request_notes(request) if note.code == "tool_dropped"] == [
        "`a`: the upstream's protocol does not support tools of kind `web_search_20250305`",
        "`foo`: the upstream's protocol does not support tools of kind `foo`",
    ]


def test_a_request_of_another_protocol_may_have_no_system_message_and_no_message():
    assert sent(Request("m", (HI,), protocol="anthropic"))["input"] == [USER]
    assert sent(Request("m", (), protocol="anthropic"))["input"] == []


def test_pictures_and_files_of_another_protocol_are_sent_and_sounds_are_not():
    parts = (
        Media("image", "http://x/y", {"detail": "low", "x": 1}),
        Media("image", "http://x/z", {"detail": 5}),
        Media("file", "QQ==", {"detail": "low"}),
        Media("audio", "data:audio/wav;base64,Q"),
    )
    wire = sent(Request("m", (Message("user", parts),), protocol="openai_chat"))
    assert wire["input"][0]["content"] == [
        {"type": "input_image", "image_url": "http://x/y", "detail": "low"},
        {"type": "input_image", "image_url": "http://x/z", "detail": "auto"},
        {"type": "input_file", "file_data": "QQ=="},
    ]


def test_reasoning_that_holds_nothing_is_sent_only_where_the_upstream_may_have_kept_it():
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    message = Message("assistant", (Opaque("item:reasoning", bare), TextPart("a")))
    assert sent(Request("m", (message,), protocol=PROTOCOL))["input"][0] == bare
    assert len(sent(Request("m", (message,)))["input"]) == 1


def test_half_a_surrogate_pair_does_not_stop_a_request():
    request = Request("m", (Message("assistant", (TextPart("\ud800"),), calls=(ToolCall("f", {"x": "\udc00"}, "a"),)),))
    wire = sent(request)["input"]
    assert wire[0]["content"] == "\ufffd"
    assert wire[1]["arguments"] == '{"x": "\ufffd"}'
