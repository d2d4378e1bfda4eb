"""Requests that repeat messages are decoded and encoded as all others are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.bounded_cache import ENTRY_BYTES
from toolspeak.core.types import (
    Media,
    Message,
    Opaque,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolspeak.errors import UsageError
from toolspeak.protocols.openai_chat import request as request_codec
from toolspeak.protocols.openai_chat import resent
from toolspeak.protocols.openai_chat.request import decode_request, encode_request, is_own, request_notes
from toolspeak.protocols.openai_chat.resent import decode_body, encode_body
from toolspeak.protocols.shared import resent_values

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


class Word(str):
    """A string of a type that msgspec does not encode."""


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
        Request("half \ud800", (USER,), protocol="openai_chat"),
        Request(Word("m"), (USER,), protocol="openai_chat"),
        Request("m", (USER,), options=Options(stop=("half \ud800",)), protocol="openai_chat"),
        Request("m", (USER,), options=Options(seed=2**70), protocol="openai_chat"),
        Request("m", (USER,), (Tool("f", "half \ud800"),), protocol="openai_chat"),
        Request("m", (Message("user", (TextPart("x", {"cache_control": {}}),)),), protocol="openai_chat"),
        Request("m", (Message("user", (TextPart(""),)),), protocol="openai_chat"),
        Request("m", (Message("user", (TextPart("x"),), name="anna"),), protocol="openai_chat"),
        Request("m", (Message("assistant", (TextPart("x"),), reasoning="Hm."),), protocol="openai_chat"),
        Request("m", (Message("tool", (TextPart("x"),)),), protocol="openai_chat"),
        Request("m", (Message("user", (TextPart(Word("x")),)),), protocol="openai_chat"),
        Request("m", (), protocol="openai_chat"),
        Request("m", (USER,), protocol="openai_chat"),
        Request("m", (USER,), (Tool("f", parameters={"type": "object"}),), stream=True, protocol="openai_chat"),
    ],
)
def test_every_request_is_encoded_as_by_the_general_codec(request_: Request):
    assert [encode_body(request_) for _ in range(2)] == [encode_request(request_)] * 2


# ---- plain messages, options and notes

ANY_TEXT = st.text(max_size=8)
WHITE = st.sampled_from(["", " ", "\n", "\t "])


@st.composite
def plain_messages(draw: st.DrawFn) -> str:
    """A message as text, with the spellings and repetitions that JSON allows."""
    pairs = draw(
        st.lists(
            st.sampled_from(
                [
                    '"role":"user"',
                    '"role": "assistant"',
                    '"role":"system"',
                    '"role":"tool"',
                    '"role":"developer"',
                    '"r\\u006fle":"user"',
                    '"role":null',
                    '"content":"x"',
                    '"content":""',
                    '"content":" "',
                    '"content":"a\\u003ab"',
                    '"content":"a:b"',
                    '"content":"\\/\\ud83d\\ude00"',
                    '"content":"\\ud800"',
                    '"content":null',
                    '"content":[]',
                    '"name":"anna"',
                ]
            ),
            min_size=1,
            max_size=3,
        )
    )
    white = draw(WHITE)
    return "{" + white + f",{white}".join(pairs) + white + "}"


@given(st.lists(plain_messages(), min_size=1, max_size=3))
def test_plain_messages_are_decoded_as_by_the_general_codec(messages: list[str]):
    body = ('{"model":"m","messages":[' + ",".join(messages) + "]}").encode()
    decoded = decode_body(body)
    try:
        expected = decode_request(body)
    except UsageError:
        assert decoded is None
        return
    if decoded is not None:
        assert decoded == expected
        assert encode_body(decoded) == encode_request(expected)


@check_each(
    ("message", "text"),
    [
        ('{"role":"user","content":"x"}', "x"),
        ('{ "content": "a:b", "role": "system" }', "a:b"),
        ('{"role":"assistant","content":"a\\u003ab"}', "a:b"),
        ('{"role":"user","content":" "}', " "),
    ],
)
def test_plain_messages_are_decoded(message: str, text: str):
    decoded = decode_body(b'{"model":"m","messages":[%b]}' % message.encode())
    assert decoded is not None and decoded.messages[0].text == text


def test_a_message_with_a_repeated_field_is_left_to_the_general_codec():
    for repeated in ['"content":"x"', '"role":"user"', '"c\\u006fntent":"x"']:
        body = '{"model":"m","messages":[{"role":"user","content":"y",%s}]}' % repeated  # noqa: UP031
        assert decode_body(body.encode()) is None


def test_very_many_messages_are_left_to_the_general_codec(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "_MAX_MESSAGES", 2)
    message = b'{"role":"user","content":"x"}'
    assert decode_body(b'{"model":"m","messages":[%b]}' % b",".join([message] * 2)) is not None
    assert decode_body(b'{"model":"m","messages":[%b]}' % b",".join([message] * 3)) is None


PARTS = st.one_of(
    st.builds(TextPart, ANY_TEXT, st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}])),
    st.builds(Media, st.sampled_from(["image", "audio", "video", "file"]), st.sampled_from(["https://x", "data:,x"])),
    st.builds(Opaque, st.sampled_from(["reasoning_content", "annotations"]), st.sampled_from([None, "x"])),
)
PROTOCOLS = st.sampled_from(["openai_chat", "openai_chat", "openai_chat", "", "anthropic"])
ANY_MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(PARTS, max_size=2).map(tuple),
    st.sampled_from(["", "Hm."]),
    st.lists(st.builds(ToolCall, ANY_TEXT, st.just({"x": 1}), st.just("c1")), max_size=1).map(tuple),
    st.lists(
        st.builds(ToolResult, st.just("c1"), ANY_TEXT, parts=st.lists(PARTS, max_size=1).map(tuple)), max_size=1
    ).map(lambda found: tuple(each for each in found if not any(isinstance(part, TextPart) for part in each.parts))),
    st.sampled_from(["", "anna"]),
    st.sampled_from([{}, {"own": 1}]),
    st.sampled_from(["", "", "openai_chat", "anthropic"]),
)
ANY_OPTIONS = st.builds(
    Options,
    st.sampled_from([None, 5]),
    stop=st.sampled_from([(), ("x",), ("\ud800",)]),
    response_format=st.sampled_from([None, ResponseFormat(), ResponseFormat({"type": "object"}, "x", True)]),
    grammar=st.sampled_from([{}, {"grammar": "x"}]),
    extra=st.sampled_from([{}, {"own": 1}, {"stream_options": {"include_usage": False}}, {"api_key": "x"}]),
    own=st.sampled_from([{}, {"top_k": 1}]),
)
ANY_TOOLS = st.lists(
    st.builds(Tool, st.sampled_from(["f", "\ud800"]), kind=st.sampled_from(["function", "custom", "web_search"])),
    max_size=2,
).map(tuple)
CHOICES = st.sampled_from(
    [ToolChoice(), ToolChoice("none"), ToolChoice("required"), ToolChoice("named", ("f",)), ToolChoice(parallel=False)]
)
ANY_REQUESTS = st.builds(
    Request,
    st.sampled_from(["m", "", "\ud800"]),
    st.lists(ANY_MESSAGES, max_size=3).map(tuple),
    ANY_TOOLS,
    CHOICES,
    st.booleans(),
    ANY_OPTIONS,
    PROTOCOLS,
)


def outcome(encode: Any, request: Request) -> Any:
    try:
        return encode(request)
    except UsageError as error:
        return str(error)


@given(st.lists(ANY_REQUESTS, min_size=1, max_size=3))
def test_generated_requests_are_encoded_as_by_the_general_codec(requests: list[Request]):
    for request in [*requests, *requests]:
        assert outcome(encode_body, request) == outcome(encode_request, request)


@given(ANY_REQUESTS)
def test_an_own_request_has_the_notes_that_every_request_has(request: Request):
    notes = request_notes(request)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(request_codec, "is_own", lambda _: False)
        assert request_notes(request) == notes


@check_each(
    ("request_", "own"),
    [
        (Request("m", (USER,), protocol="openai_chat"), True),
        (Request("m", (), protocol="openai_chat"), True),
        (Request("m", (USER,)), False),
        (Request("m", (USER,), protocol="anthropic"), False),
        (Request("m", (USER, Message("user", protocol="anthropic")), protocol="openai_chat"), False),
        (Request("m", (USER, Message("user", protocol="openai_chat")), protocol="openai_chat"), False),
    ],
)
def test_a_request_is_own_if_all_of_it_came_over_this_protocol(request_: Request, own: bool):
    assert is_own(request_) is own


def test_a_demanded_call_without_tools_is_noted():
    for choice, codes in [(ToolChoice("required"), ["choice_not_sent"]), (ToolChoice(), [])]:
        notes = request_notes(Request("m", (USER,), tool_choice=choice, protocol="openai_chat"))
        assert [note.code for note in notes] == codes


def test_the_number_of_kept_fields_is_bounded_and_none_is_stale(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent._field_wires, "max_bytes", 4 * ENTRY_BYTES)
    resent._field_wires.clear()
    for number in range(50):  # none of these options is kept by anybody else, so their addresses come again
        options = Options(seed=number % 7, extra={"own": number})
        tools = (Tool(f"f{number}"),) if number % 2 else ()
        for stream in (False, True):
            for choice in (ToolChoice(), ToolChoice("none")):
                request = Request("m", (USER,), tools, choice, stream, options, "openai_chat")
                assert [encode_body(request) for _ in range(2)] == [encode_request(request)] * 2
                assert 0 < len(resent._field_wires) <= 3


def test_kept_fields_do_not_keep_the_messages():
    resent._field_wires.clear()
    request = Request("m", (USER,), options=Options(seed=1), protocol="openai_chat")
    encode_body(request)
    ((kept, _),) = resent._field_wires.values()
    assert kept.messages == () and kept.options is request.options


def test_what_depends_on_messages_is_not_kept():
    resent._field_wires.clear()
    custom = Request("m", (USER,), (Tool("patch", kind="custom"),), protocol="openai_chat")
    assert encode_body(custom) == encode_request(custom)
    assert resent._field_wires == {}


def test_long_fields_are_encoded_each_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent, "_MAX_FIELDS_BYTES", 3)
    request = Request("m", (USER,), (Tool("long"),), protocol="openai_chat")
    assert [encode_body(request) for _ in range(2)] == [encode_request(request)] * 2
