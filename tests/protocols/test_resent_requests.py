"""Requests that repeat messages, tools and options are decoded as by the general decoder, or left to it."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.request_mutations import RICH, captured, mutated
from toolspeak.core.types import JSONObject
from toolspeak.errors import UsageError
from toolspeak.protocols.shared import resent_values

FIELDS = {"anthropic": "messages", "openai_responses": "input", "gemini": "contents", "ollama": "messages"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
IDS = st.sampled_from(["", "c1", "c2", "unnamed_call_1"])
ITEMS: dict[str, st.SearchStrategy[JSONObject]] = {
    "openai_responses": st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "system", "developer", "nobody", None])},
            optional={"type": st.sampled_from(["message", "", None, "reasoning", 5]), "content": TEXT},
        ),
        st.fixed_dictionaries(
            {"type": st.just("message"), "role": st.sampled_from(["user", "assistant"]), "content": TEXT}
        ),
        st.fixed_dictionaries({"type": st.just("reasoning"), "summary": st.just([{"text": "Hm."}])}),
        st.fixed_dictionaries(
            {"type": st.just("function_call"), "name": st.just("f"), "call_id": IDS, "arguments": st.just("{}")}
        ),
        st.fixed_dictionaries({"type": st.just("custom_tool_call"), "name": st.just("f"), "input": TEXT}),
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["function_call_output", "custom_tool_call_output"]),
                "call_id": IDS,
                "output": TEXT,
            }
        ),
        st.fixed_dictionaries({"type": st.just("web_search_call"), "role": st.just("user")}),
        st.fixed_dictionaries({"id": IDS}),
    ),
    "gemini": st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "model"]),
            "parts": st.lists(
                st.one_of(
                    st.fixed_dictionaries({"text": TEXT}),
                    st.fixed_dictionaries({"functionCall": st.fixed_dictionaries({"name": st.just("f"), "id": IDS})}),
                    st.fixed_dictionaries(
                        {"functionResponse": st.fixed_dictionaries({"name": st.sampled_from(["f", "g"]), "id": IDS})}
                    ),
                ),
                max_size=3,
            ),
        }
    ),
    "ollama": st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": TEXT}),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "tool_calls": st.lists(
                    st.fixed_dictionaries({"id": IDS, "function": st.just({"name": "f", "arguments": {}})}), max_size=2
                ),
            }
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": IDS, "content": TEXT}),
    ),
    "anthropic": st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": TEXT}),
}


def compare(protocol: str, body: bytes, **given_: Any) -> bool:
    """Compare both decoders. Returns whether the fast one decoded the body."""
    module = import_module(f"toolspeak.protocols.{protocol}")
    decoded = module.decode_body(body, **given_)
    try:
        expected = module.decode_request(body, **given_)
    except UsageError:
        assert decoded is None
        return False
    if decoded is not None:
        assert decoded == expected
        assert list(decoded.options.extra) == list(expected.options.extra)
        assert module.encode_request(decoded) == module.encode_request(expected)
    return decoded is not None


@pytest.mark.parametrize("protocol", FIELDS)
@given(data=st.data(), compact=st.booleans())
def test_a_request_is_decoded_as_by_the_general_decoder(protocol: str, data: st.DataObject, compact: bool):
    body = data.draw(mutated([RICH[protocol], *captured(protocol)]))
    if data.draw(st.booleans()):
        body[FIELDS[protocol]] = data.draw(st.lists(ITEMS[protocol], max_size=6))
    compare(protocol, json.dumps(body, separators=(",", ":") if compact else None).encode())


@check_each("protocol", FIELDS)
def test_the_requests_of_real_clients_are_decoded_fast(protocol: str):
    without_ids = {"ollama": 1, "gemini": 1}.get(protocol, 0)
    bodies = [json.dumps(body).encode() for body in [RICH[protocol], *captured(protocol)]]
    assert sum(compare(protocol, body) for body in bodies) >= 0.8 * len(bodies) - without_ids


@check_each("protocol", FIELDS)
def test_messages_and_tools_that_come_again_are_the_same_objects(protocol: str):
    module = import_module(f"toolspeak.protocols.{protocol}")
    field = FIELDS[protocol]
    fields = {**RICH[protocol], field: [each for each in RICH[protocol][field] if "tool_calls" not in each][:2]}
    fields.pop("tool_choice", None)
    one, other = (module.decode_body(json.dumps({**fields, "own": own}).encode()) for own in range(2))
    assert (one.options.extra["own"], other.options.extra["own"]) == (0, 1)
    assert one.messages[-1] is other.messages[-1]
    assert one.tools is other.tools


def test_gemini_takes_the_model_and_the_kind_of_answer_from_the_path():
    body = json.dumps(RICH["gemini"]).encode()
    assert compare("gemini", body, model="models/m", stream=True)
    assert compare("gemini", json.dumps({**RICH["gemini"], "model": "models/n"}).encode())


USER = {"role": "user", "content": "x"}
CALL = {"id": "c1", "function": {"name": "f", "arguments": {}}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "x"}
GEMINI_CALL = {"functionCall": {"name": "f", "id": "c1"}}
GEMINI_RESULT = {"functionResponse": {"name": "f", "id": ""}}


@check_each(
    ("protocol", "messages", "fast"),
    [
        ("openai_responses", "Hello?", True),
        ("openai_responses", "", False),
        ("openai_responses", [], False),
        ("openai_responses", [{"id": "r1"}, USER], True),
        ("openai_responses", [{"type": "reasoning", "role": "user"}, USER], True),
        ("openai_responses", [{"type": 5, "role": "user"}], False),
        ("openai_responses", [USER, {"type": "function_call", "name": "f"}], True),
        ("openai_responses", [{"type": "function_call", "name": "f"}, {"type": "function_call_output"}, USER], True),
        ("openai_responses", [{"type": "message", **USER}, {"type": "message", "role": "assistant"}], True),
        ("anthropic", [], False),
        ("anthropic", "x", False),
        ("anthropic", [USER, {"role": "assistant", "content": "y"}], True),
        ("gemini", {"parts": []}, False),
        ("gemini", [{"role": "model", "parts": [GEMINI_CALL, GEMINI_RESULT]}], False),
        ("ollama", [USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT], True),
        ("ollama", [USER, RESULT], False),
        ("ollama", [USER, {"role": "assistant", "tool_calls": [{**CALL, "id": ""}]}], False),
    ],
)
def test_what_depends_on_other_messages_is_left_to_the_general_decoder(protocol: str, messages: Any, fast: bool):
    for separators in ((",", ":"), None):
        body = json.dumps({"model": "m", FIELDS[protocol]: messages}, separators=separators).encode()
        assert compare(protocol, body) is fast


@check_each("protocol", FIELDS)
@check_each(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"model":"m"}',
        '{"model":"m","model":"n","FIELD":[ITEM]}',
        '{"FIELD":[ITEM],"FIELD":[ITEM]}',
        '{"FIELD":[{"role":"user","role":"user"}]}',
        '{"FIELD":[5]}',
        '{"FIELD":[ITEM],"tools":5}',
        '{"FIELD":[ITEM],"tools":[{"name":"f","name":"g"}]}',
        '{"FIELD":[ITEM],"own":{"a":1,"a":2}}',
        '{"FIELD":[ITEM],"own":' + "[" * 70 + "]" * 70 + "}",
        '{"FIELD":[{"role":"user","own":' + "[" * 70 + "]" * 70 + "}]}",
        '{"FIELD":[ITEM],"own":"\ud800"}',
    ],
)
def test_invalid_requests_are_left_to_the_general_decoder(protocol: str, body: str):
    item = json.dumps(ITEM[protocol])
    encoded = body.replace("FIELD", FIELDS[protocol]).replace("ITEM", item).encode("utf-8", "surrogatepass")
    assert not import_module(f"toolspeak.protocols.{protocol}").decode_body(encoded)


ITEM = {"anthropic": USER, "openai_responses": USER, "ollama": USER, "gemini": {"parts": [{"text": "x"}]}}


def test_very_many_messages_are_left_to_the_general_decoder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "_MAX_MESSAGES", 2)
    assert compare("anthropic", json.dumps({"model": "m", "messages": [USER] * 2}).encode())
    assert not compare("anthropic", json.dumps({"model": "m", "messages": [USER] * 3}).encode())


def test_decoded_messages_stay_as_they_are():
    body = json.dumps(RICH["anthropic"]).encode()
    module = import_module("toolspeak.protocols.anthropic")
    first = module.decode_body(body)
    before = deepcopy(first)
    module.encode_request(first)
    import_module("toolspeak.protocols.openai_chat").encode_request(first)
    assert module.decode_body(body) == before
