"""Requests that repeat messages are decoded and encoded as all others are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.types import Message, Request, TextPart, Tool
from toolspeak.errors import UsageError
from toolspeak.protocols.openai_chat import resent
from toolspeak.protocols.openai_chat.request import decode_request, encode_request
from toolspeak.protocols.openai_chat.resent import decode_body, encode_body

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": TEXT}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "tool_calls": st.just([CALL])}),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.just("call_1"), "content": TEXT}),
        st.fixed_dictionaries(
            {
                "role": st.just("user"),
                "content": st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})),
            }
        ),
        st.fixed_dictionaries({"role": st.just("user"), "content": TEXT, "name": TEXT, "own_field": st.integers()}),
        st.fixed_dictionaries({"role": st.sampled_from(["nobody", "function"]), "content": TEXT}),
    ),
    max_size=5,
)
FIELDS = st.fixed_dictionaries(
    {"model": st.sampled_from(["m", "n"]), "messages": MESSAGES},
    optional={
        "tools": st.lists(st.just(TOOL), max_size=2),
        "stream": st.booleans(),
        "temperature": st.floats(0, 2),
        "max_tokens": st.integers(1, 100),
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
        "stop": st.lists(TEXT, max_size=2),
        "response_format": st.just({"type": "json_object"}),
        "own_field": st.dictionaries(TEXT, st.integers(), max_size=2),
        "functions": st.just([]),
    },
)


@given(FIELDS, st.booleans())
def test_a_request_is_decoded_and_encoded_as_by_the_general_codec(fields: dict[str, Any], compact: bool):
    body = json.dumps(fields, separators=(",", ":") if compact else None).encode()
    decoded = decode_body(body)
    try:
        expected = decode_request(body)
    except UsageError:
        assert decoded is None
        return
    if decoded is None:
        assert "functions" in fields or any(message["role"] == "function" for message in fields["messages"])
        decoded = expected
    assert decoded == expected
    assert encode_body(decoded) == encode_request(expected)


def test_messages_that_come_again_are_the_same_objects():
    bodies = [
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello?"}], "seed": seed}).encode()
        for seed in range(2)
    ]
    one, other = map(decode_body, bodies)
    assert one is not None and other is not None
    assert one.messages[0] is other.messages[0]
    assert (one.options.seed, other.options.seed) == (0, 1)


@check_each(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model":"m"}',
        b'{"model":"m","messages":[]}',
        b'{"model":"m","messages":{}}',
        b'{"model":"m","messages":[5]}',
        b'{"model":"m","model":"n","messages":[{"role":"user","content":"x"}]}',
        b'{"model":"m","messages":[{"role":"user","role":"system","content":"x"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}]}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":5}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":"yes"}',
        b'{"model":"m","messages":[{"role":"user","content":"x","deep":' + b"[" * 70 + b"]" * 70 + b"}]}",
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"deep":' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)
def test_unusual_and_invalid_requests_are_left_to_the_general_codec(body: bytes):
    assert decode_body(body) is None


USER = Message("user", (TextPart("Hello?"),))


@check_each(
    "request_",
    [
        Request("m", (USER,), protocol="anthropic"),
        Request(
            "m",
            (Message("user", (TextPart("x", {"cache_control": {}}),), protocol="anthropic"),),
            protocol="openai_chat",
        ),
        Request("m", (USER,), (Tool("patch", kind="custom"),), protocol="openai_chat"),
        Request("m", (Message("tool"), USER), protocol="openai_chat"),
        Request("m", (Message("user", (TextPart("half \ud800"),)),), protocol="openai_chat"),
        Request("m", (USER,), protocol="openai_chat"),
        Request("m", (USER,), (Tool("f", parameters={"type": "object"}),), stream=True, protocol="openai_chat"),
    ],
)
def test_every_request_is_encoded_as_by_the_general_codec(request_: Request):
    assert [encode_body(request_) for _ in range(2)] == [encode_request(request_)] * 2


def test_the_number_of_kept_tools_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent, "_MAX_TOOLS", 3)
    for number in range(8):
        request = Request("m", (USER,), (Tool(f"f{number}"),), protocol="openai_chat")
        assert encode_body(request) == encode_request(request)
    assert len(resent._tool_wires) <= 3
