"""What all codecs share: what is no request is refused by name, in each of them, and nothing else ever happens."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.cases import check_each
from toolspeak.core.types import JSONObject, JSONValue, Request
from toolspeak.errors import UsageError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.protocols.shared.fields import count, parse_object, request_fields, shorten, to_wire
from toolspeak.protocols.shared.request_parts import declared_tools
from toolspeak.protocols.shared.validation import int_field, number_field

MODULES = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
Decode = Callable[[JSONValue], Request]
DECODERS: dict[str, Decode] = {name: module.decode_request for name, module in MODULES.items()}

#: Half of a surrogate pair, which no bytes can carry.
HALF = "\ud800"
SAID = f'{{"a": "{HALF}"}}'


def _messages(call: JSONObject) -> JSONObject:
    return {"model": "m", "messages": [{"role": "user", "content": HALF}, {"role": "assistant", **call}]}


def _chat_call(arguments: JSONValue) -> JSONObject:
    return _messages({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}]})


def _tool_use(arguments: JSONValue) -> JSONObject:
    return _messages({"content": [{"type": "tool_use", "id": "c", "name": "f", "input": arguments}]})


def _item(arguments: JSONValue) -> JSONObject:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    return {"model": "m", "input": [{"role": "user", "content": HALF}, call]}


def _part(arguments: JSONValue) -> JSONObject:
    call = {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": arguments}}]}
    return {"contents": [{"role": "user", "parts": [{"text": HALF}]}, call]}


WITH_CALL: dict[str, Callable[[JSONValue], JSONObject]] = {
    "anthropic": _tool_use,
    "gemini": _part,
    "ollama": _chat_call,
    "openai_chat": _chat_call,
    "openai_responses": _item,
}


@check_each("name", DECODERS)
@check_each("body", [None, 5, [], [1], True, b"[]", b"5", "[]", b"", "", b"\xff", HALF])
def test_what_is_no_object_is_refused(name: str, body: JSONValue):
    with pytest.raises(UsageError, match="the body"):
        DECODERS[name](body)


@check_each("body", [b'{"a": 1}', '{"a": 1}', {"a": 1}])
def test_a_body_is_bytes_a_text_or_the_object(body: bytes | str | JSONObject):
    assert request_fields(body) == {"a": 1}


@check_each("name", DECODERS)
@check_each("arguments", [SAID, {"a": HALF}, {HALF: HALF}])
def test_half_a_surrogate_pair_in_arguments_is_refused_or_replaced(name: str, arguments: JSONValue):
    try:
        request = DECODERS[name](WITH_CALL[name](arguments))
    except UsageError:
        return
    for module in MODULES.values():
        sent = module.encode_request(request)
        assert "\N{REPLACEMENT CHARACTER}" in sent.decode()
        msgspec.json.decode(sent)


@check_each(
    ("tool", "field"),
    [
        ({"type": [], "function": {"name": "f"}}, "tools[0].type"),
        ({"type": {}, "function": {"name": "f"}}, "tools[0].type"),
        ({"type": 5, "name": "f"}, "tools[0].type"),
        ("f", "tools[0]"),
        ({"type": "namespace", "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": 5, "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": "n", "tools": "f"}, "tools[0].tools"),
        ({"type": "namespace", "name": "n", "tools": [5]}, "tools[0].tools[0]"),
        ({"type": "namespace", "name": "n", "tools": [{"type": []}]}, "tools[0].tools[0].type"),
        ({"type": "namespace", "name": "n", "tools": [{"type": "namespace"}]}, "tools[0].tools[0].type"),
        ({"type": "function", "function": {}}, "tools[0]"),
    ],
)
@check_each("name", ["ollama", "openai_chat", "openai_responses"])
def test_a_tool_that_is_none_is_refused_by_its_field(name: str, tool: JSONValue, field: str):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi", "tools": [tool]}
    with pytest.raises(UsageError) as caught:
        DECODERS[name](body)
    assert f"`{field}`" in str(caught.value)


@check_each("kind", [{}, {"type": None}, {"type": "function"}])
def test_a_tool_without_a_type_is_a_function(kind: JSONObject):
    ((_, (tool,)),) = declared_tools([{**kind, "function": {"name": "f"}}])
    assert (tool.name, tool.kind) == ("f", "function")


@pytest.mark.requirement("G4")
@check_each(("given", "meant"), [(100.0, 100), (-1.0, -1), (7, 7), (None, None)])
def test_a_whole_number_may_be_written_as_a_fraction(given: JSONValue, meant: int | None):
    assert int_field(given, "max_tokens") == meant
    assert type(int_field(given, "max_tokens")) is type(meant)


@check_each("given", [1.5, 2.0**53, -1e300, float("inf"), float("nan"), True, "1", [1]])
def test_anything_else_is_no_whole_number(given: JSONValue):
    with pytest.raises(UsageError, match="`max_tokens` must be an integer"):
        int_field(given, "max_tokens")


def test_a_count_is_positive():
    assert [int_field(given, "n", positive=True) for given in (None, 1, 3.0)] == [None, 1, 3]
    for given in (0, -2, 0.5):
        with pytest.raises(UsageError, match=f"`n` must be at least 1, not {given}"):
            int_field(given, "n", positive=True)


# ---- what is said of a body that is no JSON


def test_encoded_values_may_stand_beside_half_a_surrogate_pair():
    value = {"tools": msgspec.Raw(b'[{"name":"f"}]'), "text": HALF}
    assert msgspec.json.decode(to_wire(value)) == {"tools": [{"name": "f"}], "text": "\ufffd"}
    with pytest.raises(UsageError, match="type `object` is not JSON"):
        to_wire({"other": object()})


HALVED = "lone surrogate"


@check_each(
    "body",
    [rb'{"a":"\ud800"}', rb'{"a":"\ud83d x"}', rb'{"a":"\udc00 and more text"}', rb'{"\ud800A":1}', '{"a":"\ud800"}'],
)
def test_half_a_surrogate_pair_is_called_by_its_name(body: bytes | str):
    with pytest.raises(UsageError, match=HALVED):
        parse_object(body)


@check_each(
    "body", [b"", b"{", b'{"a":"x', b'{"a":NaN}', b'{"a":"\xff"}', rb'{"a":"\ud83d\ude00"', b"[" * 5000 + b'{"a":x']
)
def test_nothing_else_is(body: bytes):
    with pytest.raises(UsageError) as caught:
        parse_object(body)
    assert HALVED not in str(caught.value)


def test_a_whole_pair_is_a_character():
    assert parse_object(rb'{"a":"\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}


@check_each("given", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_has_no_word_for_is_refused(given: float):
    with pytest.raises(UsageError, match="`temperature` must be a finite number"):
        number_field(given, "temperature")


@check_each(
    ("said", "shown"),
    [
        (b"one\r\n two", "one two"),
        (b"\x1b]0;owned\x07 \xff\x00!", r"\x1b]0;owned\x07 \xff\x00!"),
        ("caf\u00e9 \u202e\ud800", r"caf\u00e9 \u202e\ud800".replace(r"\u00e9", "\u00e9")),
    ],
)
def test_what_is_quoted_can_be_seen(said: str | bytes, shown: str):
    assert shorten(said) == shown


@check_each(
    ("told", "tokens"),
    [
        (7, 7),
        (7.0, 7),
        (2**53, 2**53),
        (0, 0),
        (-5, 0),
        (None, 0),
        ("7", 0),
        (True, 0),
        (2**53 + 1, 0),
        (2**63, 0),
        (10**30, 0),
        (1e300, 0),
        (float("inf"), 0),
        (float("nan"), 0),
    ],
)
def test_a_number_of_tokens_that_can_be_none_is_not_counted(told: JSONValue, tokens: int):
    assert count(told) == tokens
