"""The compact record as the messages of each protocol: snapshots, and what the official SDKs say to them."""

from __future__ import annotations

from typing import Any

import ollama
import pydantic
import pytest
from anthropic.types import MessageParam
from google.genai import types as gemini_types
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

from tests.cases import check_each
from toolspeak import Message, TextPart, ToolCall, ToolResult, UsageError
from toolspeak.core.types import JSONObject, Opaque
from toolspeak.engine.rounds.expansion import PROTOCOLS, expand, expand_messages, messages_of
from toolspeak.engine.rounds.transcript import (
    Answer,
    CallRecord,
    Entry,
    Round,
    close_open_calls,
    results_of,
    with_result,
)

pytestmark = pytest.mark.requirement("F3")


def _record(name: str, arguments: JSONObject, id: str, content: str, error: bool = False) -> CallRecord:
    return CallRecord(ToolCall(name, arguments, id), "finished", result=ToolResult(id, content, name, error))


LOOKED = Round("Let me look.", (_record("find", {"q": "swift"}, "c1", "2 found"), _record("age", {}, "c2", "no", True)))
STARRED = Round("", (_record("star", {"repo": "swift"}, "c3", "ok"),))
ENTRIES: tuple[Entry, ...] = (
    Message("system", (TextPart("Be brief."),)),
    Message("user", (TextPart("Star it."),)),
    Answer("Done.", (LOOKED, STARRED)),
    Message("user", (TextPart("Thanks."),)),
)


def _chat_call(id: str, name: str, arguments: str) -> JSONObject:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


_FIND = _chat_call("c1", "find", '{"q":"swift"}')
_AGE = _chat_call("c2", "age", "{}")
_STAR = _chat_call("c3", "star", '{"repo":"swift"}')

OPENAI: list[JSONObject] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Star it."},
    {"role": "assistant", "content": "Let me look.", "tool_calls": [_FIND, _AGE]},
    {"role": "tool", "tool_call_id": "c1", "content": "2 found"},
    {"role": "tool", "tool_call_id": "c2", "content": "no"},
    {"role": "assistant", "content": None, "tool_calls": [_STAR]},
    {"role": "tool", "tool_call_id": "c3", "content": "ok"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
]
OPENAI_SPLIT: list[JSONObject] = [
    *OPENAI[:2],
    {"role": "assistant", "content": "Let me look."},
    {"role": "assistant", "content": None, "tool_calls": [_FIND, _AGE]},
    *OPENAI[3:],
]


def _item(role: str, content: str) -> JSONObject:
    return {"type": "message", "role": role, "content": content}


def _item_call(id: str, name: str, arguments: str) -> JSONObject:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def _item_result(id: str, output: str) -> JSONObject:
    return {"type": "function_call_output", "call_id": id, "output": output}


RESPONSES: list[JSONObject] = [
    _item("user", "Star it."),
    _item("assistant", "Let me look."),
    _item_call("c1", "find", '{"q":"swift"}'),
    _item_call("c2", "age", "{}"),
    _item_result("c1", "2 found"),
    _item_result("c2", "no"),
    _item_call("c3", "star", '{"repo":"swift"}'),
    _item_result("c3", "ok"),
    _item("assistant", "Done."),
    _item("user", "Thanks."),
]


def _use(id: str, name: str, arguments: JSONObject) -> JSONObject:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def _used(id: str, content: str, **more: bool) -> JSONObject:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


_USES = [_use("c1", "find", {"q": "swift"}), _use("c2", "age", {})]
ANTHROPIC: list[JSONObject] = [
    {"role": "user", "content": "Star it."},
    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, *_USES]},
    {"role": "user", "content": [_used("c1", "2 found"), _used("c2", "no", is_error=True)]},
    {"role": "assistant", "content": [_use("c3", "star", {"repo": "swift"})]},
    {"role": "user", "content": [_used("c3", "ok")]},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
]
ANTHROPIC_SPLIT: list[JSONObject] = [
    ANTHROPIC[0],
    {"role": "assistant", "content": "Let me look."},
    {"role": "assistant", "content": _USES},
    *ANTHROPIC[2:],
]


def _function_call(id: str, name: str, args: JSONObject, **more: str) -> JSONObject:
    return {"functionCall": {"name": name, "args": args, "id": id}, **more}


def _function_response(id: str, name: str, response: JSONObject) -> JSONObject:
    return {"functionResponse": {"name": name, "id": id, "response": response}}


#: The first call of a step must be signed; this is the word for one that another model made.
_UNSIGNED = {"thoughtSignature": "skip_thought_signature_validator"}
_FUNCTIONS = [_function_call("c1", "find", {"q": "swift"}, **_UNSIGNED), _function_call("c2", "age", {})]
GEMINI: list[JSONObject] = [
    {"role": "user", "parts": [{"text": "Star it."}]},
    {"role": "model", "parts": [{"text": "Let me look."}, *_FUNCTIONS]},
    {
        "role": "user",
        "parts": [
            _function_response("c1", "find", {"output": "2 found"}),
            _function_response("c2", "age", {"error": "no"}),
        ],
    },
    {"role": "model", "parts": [_function_call("c3", "star", {"repo": "swift"}, **_UNSIGNED)]},
    {"role": "user", "parts": [_function_response("c3", "star", {"output": "ok"})]},
    {"role": "model", "parts": [{"text": "Done."}]},
    {"role": "user", "parts": [{"text": "Thanks."}]},
]
GEMINI_SPLIT: list[JSONObject] = [
    GEMINI[0],
    {"role": "model", "parts": [{"text": "Let me look."}]},
    {"role": "model", "parts": _FUNCTIONS},
    *GEMINI[2:],
]


def _ollama_call(id: str, name: str, arguments: JSONObject) -> JSONObject:
    return {"id": id, "function": {"name": name, "arguments": arguments}}


_CALLS = [_ollama_call("c1", "find", {"q": "swift"}), _ollama_call("c2", "age", {})]
OLLAMA: list[JSONObject] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Star it."},
    {"role": "assistant", "content": "Let me look.", "tool_calls": _CALLS},
    {"role": "tool", "content": "2 found", "tool_name": "find", "tool_call_id": "c1"},
    {"role": "tool", "content": "no", "tool_name": "age", "tool_call_id": "c2"},
    {"role": "assistant", "content": "", "tool_calls": [_ollama_call("c3", "star", {"repo": "swift"})]},
    {"role": "tool", "content": "ok", "tool_name": "star", "tool_call_id": "c3"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
]
OLLAMA_SPLIT: list[JSONObject] = [
    *OLLAMA[:2],
    {"role": "assistant", "content": "Let me look."},
    {"role": "assistant", "content": "", "tool_calls": _CALLS},
    *OLLAMA[3:],
]

EXPECTED: dict[str, tuple[JSONObject, JSONObject]] = {
    "openai_chat": ({"messages": OPENAI}, {"messages": OPENAI_SPLIT}),
    # Words and calls are items of their own here in any case.
    "openai_responses": (
        {"instructions": "Be brief.", "input": RESPONSES},
        {"instructions": "Be brief.", "input": RESPONSES},
    ),
    "anthropic": (
        {"system": "Be brief.", "messages": ANTHROPIC},
        {"system": "Be brief.", "messages": ANTHROPIC_SPLIT},
    ),
    "gemini": (
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": GEMINI},
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": GEMINI_SPLIT},
    ),
    "ollama": ({"messages": OLLAMA}, {"messages": OLLAMA_SPLIT}),
}


@check_each("protocol", PROTOCOLS)
def test_text_and_calls_stand_in_one_message(protocol: str):
    assert expand(ENTRIES, protocol) == EXPECTED[protocol][0]


@check_each("protocol", PROTOCOLS)
def test_text_stands_by_itself_where_that_is_wanted(protocol: str):
    assert expand(ENTRIES, protocol, split=True) == EXPECTED[protocol][1]


def _validator(kind: Any) -> Any:
    return pydantic.TypeAdapter(kind).validate_python


TYPES: dict[str, tuple[str, Any]] = {
    "openai_chat": ("messages", _validator(ChatCompletionMessageParam)),
    "openai_responses": ("input", _validator(ResponseInputItemParam)),
    "anthropic": ("messages", _validator(MessageParam)),
    "gemini": ("contents", gemini_types.Content.model_validate),
    "ollama": ("messages", ollama.Message.model_validate),
}


@check_each("split", [False, True])
@check_each("protocol", PROTOCOLS)
def test_the_sdk_takes_every_message(protocol: str, split: bool):
    field, validate = TYPES[protocol]
    for message in expand(ENTRIES, protocol, split=split)[field]:
        validate(message)


def test_openai_goes_by_its_short_name_and_others_by_none():
    assert expand(ENTRIES, "openai") == expand(ENTRIES, "openai_chat")
    with pytest.raises(UsageError, match="unknown protocol"):
        expand(ENTRIES, "telex")
    with pytest.raises(UsageError, match="unknown protocol `None`"):
        expand(ENTRIES, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@check_each("entry", [{"role": "user", "content": "hi"}, "hi", None])
def test_what_is_neither_message_nor_answer_is_a_usage_error(entry: Any):
    with pytest.raises(UsageError, match="must be a `Message` or an `Answer`, not"):
        expand([entry], "openai")


def test_what_is_empty_is_left_out():
    assert messages_of([Answer(), Answer(rounds=(Round(),))]) == ()
    assert messages_of([Answer(rounds=(Round("Only words."),))], split=True) == (
        Message("assistant", (TextPart("Only words."),)),
    )


def test_what_an_upstream_wants_back_goes_back_as_it_came():
    said = Message("assistant", (Opaque("thinking", {"type": "thinking"}), TextPart("Hm.")), protocol="anthropic")
    made = Round("Hm.", STARRED.calls, said=said)
    call = STARRED.calls[0].call
    (first, _, last) = messages_of([Answer("Hm.", (made,), said=said)])
    assert (first.parts, first.calls) == (said.parts, (call,))
    assert last == said
    changed = messages_of([Answer("Something else.", said=said)])
    assert changed == (Message("assistant", (TextPart("Something else."),)),)


@pytest.mark.requirement("R-F35", "R-F36")
def test_a_call_without_a_result_is_told_as_interrupted():
    begun = CallRecord(ToolCall("send", {}, "c1"), "started")
    (_, told) = messages_of([Answer(rounds=(Round(calls=(begun,)),))])
    assert told.results[0].error
    assert "may or may not" in told.results[0].content


@pytest.mark.requirement("R-F35")
def test_a_repaired_answer_has_a_result_for_every_call_and_is_running_no_more():
    calls = tuple(CallRecord(ToolCall("f", {}, name), name) for name in ("planned", "started", "finished"))  # type: ignore[arg-type]
    found = close_open_calls(Answer("Half", (LOOKED, Round(calls=calls)), "running"))
    assert (found.status, found.content) == ("interrupted", "Half")
    assert found.rounds[0] is LOOKED
    contents = [record.result.content for record in found.rounds[1].calls if record.result]
    assert ["not run" in contents[0], "may or may not" in contents[1], "lost" in contents[2]] == [True] * 3
    assert [record.state for record in found.rounds[1].calls] == ["planned", "started", "finished"]
    assert close_open_calls(Answer("Whole", (LOOKED,))) == Answer("Whole", (LOOKED,))
    assert with_result(LOOKED.calls[0]) is LOOKED.calls[0]


def test_the_results_of_a_conversation_are_found_in_order():
    planned = Answer(rounds=(Round(calls=(CallRecord(ToolCall("find", {}, "c4")),)),))
    assert [result.id for result in results_of((*ENTRIES, planned))] == ["c1", "c2", "c3"]


def test_short_names_of_protocols_mean_the_same():
    assert expand(ENTRIES, "openai") == expand(ENTRIES, "openai_chat")
    assert expand(ENTRIES, "responses") == expand(ENTRIES, "openai_responses")


@check_each("protocol, field", [("openai", "messages"), ("responses", "input"), ("gemini", "contents")])
def test_the_messages_alone_are_a_list(protocol: str, field: str):
    assert expand_messages(ENTRIES, protocol) == expand(ENTRIES, protocol)[field]
    assert expand_messages((), protocol) == []


def test_an_answer_that_is_only_an_image_is_a_message():
    image = Opaque("gemini_part", {"inlineData": {"mimeType": "image/png", "data": "QQ=="}})
    said = Message("assistant", (image,), protocol="gemini")
    assert messages_of([Answer(said=said)]) == (said,)
    assert messages_of([Answer(said=Message("assistant", (Opaque("x"),)))]) == ()
