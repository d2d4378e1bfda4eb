"""Ollama's generate: a prompt is a chat of one message, and the answer has the older shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ollama._types import GenerateResponse

from tests.cases import check_each
from toolspeak.core.events import (
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Media, Message, Opaque, Request, ResponseFormat, TextPart, Usage
from toolspeak.errors import UsageError
from toolspeak.protocols.ollama.generate import ReplyEncoder, decode_request, encode_reply, field_notes
from toolspeak.protocols.ollama.reply_encoder import encode_error

FACE: Any = {"id": "r1", "created": 1790000000, "model": "m"}
ABOUT = {"model": "m", "created_at": "2026-09-21T14:13:20Z"}
ASKED = Request("m", (Message("user", (TextPart("hi"),)),), stream=True)
LOAD = Request("m", ())
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def said(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


def lines(*events: Event, request: Request = ASKED, extension: Any = None) -> list[Any]:
    face = ReplyEncoder(request, **FACE)
    data = b"".join(face.encode([event]) for event in events) + face.close(extension)
    return [json.loads(line) for line in data.splitlines()]


def whole(*events: Event, request: Request = ASKED, extension: Any = None) -> Any:
    return json.loads(encode_reply(fold(events), request, extension=extension, **FACE))


# ---- requests


@pytest.mark.requirement("G1")
def test_a_prompt_is_a_chat_of_one_message():
    request = decode_request(
        {
            "model": "m",
            "prompt": "What is this?",
            "system": "Be brief.",
            "images": [PIXEL],
            "format": "json",
            "stream": False,
            "options": {"num_predict": 7, "num_ctx": 512, "stop": ["."]},
            "keep_alive": "5m",
            "think": True,
            "template": None,
        }
    )
    assert said(request) == [("system", "Be brief."), ("user", "What is this?")]
    assert request.messages[1].parts[1] == Media("image", f"data:image/png;base64,{PIXEL}")
    assert (request.model, request.stream, request.tools, request.protocol) == ("m", False, (), "ollama")
    assert request.options.response_format == ResponseFormat()
    assert (request.options.max_tokens, request.options.stop) == (7, (".",))
    assert request.options.extra == {"keep_alive": "5m", "think": True, "options": {"num_ctx": 512}}


def test_it_streams_unless_it_says_otherwise():
    assert decode_request(b'{"model": "m", "prompt": "hi"}').stream


@check_each("prompt", [{}, {"prompt": ""}, {"prompt": None, "system": "s", "images": [PIXEL]}])
def test_without_a_prompt_the_model_is_to_be_loaded(prompt: dict[str, Any]):
    assert decode_request({"model": "m", **prompt}).messages == ()


@pytest.mark.requirement("G3")
@check_each(
    ("fields", "named"),
    [
        ({"prompt": 5}, "`prompt`"),
        ({"system": []}, "`system`"),
        ({"images": "x"}, "`images`"),
        ({"images": [5]}, r"`images\[0\]`"),
        ({"context": "x"}, "`context`"),
        ({"raw": "yes"}, "`raw`"),
        ({"suffix": 5}, "`suffix`"),
        ({"suffix": "}"}, "fill in the middle"),
        ({"raw": True, "system": "s"}, "cannot be combined"),
        ({"raw": True, "template": "t"}, "cannot be combined"),
        ({"raw": True, "context": [1]}, "cannot be combined"),
        ({"options": 5}, "`options`"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields: dict[str, Any], named: str):
    with pytest.raises(UsageError, match=named):
        decode_request({"model": "m", "prompt": "hi", **fields})


@check_each(
    ("fields", "code"),
    [
        ({"template": "t"}, "fields_dropped"),
        ({"width": 5}, "fields_dropped"),
        ({"tools": [{"type": "function"}]}, "fields_dropped"),
        ({"messages": "no list at all"}, "fields_dropped"),
        ({"raw": True}, "raw_as_chat"),
        ({"context": [1, 2, 3]}, "context_unread"),
    ],
)
def test_what_is_left_out_is_noted(fields: dict[str, Any], code: str):
    body = {"model": "m", "prompt": "hi", **fields}
    assert [note.code for note in field_notes(body)] == [code]
    assert said(decode_request(body)) == [("user", "hi")]
    assert decode_request(body).options.extra == {}


def test_nothing_is_noted_of_an_ordinary_prompt():
    assert field_notes({"model": "m", "prompt": "hi", "raw": False, "context": [], "template": ""}) == ()


# ---- going on


def test_a_context_that_we_gave_out_goes_on_with_the_conversation():
    first = decode_request({"model": "m", "prompt": "My name is Ada.", "system": "Be brief."})
    context = whole(TextDelta("Hello, Ada."), Finish("stop"), request=first)["context"]
    body = {"model": "m", "prompt": "What is it?", "context": context}
    second = decode_request(body)
    assert said(second) == [("user", "My name is Ada."), ("assistant", "Hello, Ada."), ("user", "What is it?")]
    assert field_notes(body) == ()
    third = lines(TextDelta("A"), TextDelta("da"), Finish("stop"), request=second)[-1]["context"]
    assert said(decode_request({**body, "context": third}))[-3:-1] == [("user", "What is it?"), ("assistant", "Ada")]


@given(st.lists(st.text(), max_size=5), st.text())
def test_any_conversation_comes_back_from_its_context(texts: list[str], answer: str):
    roles = ("user", "assistant")
    messages = tuple(Message(roles[at % 2], (TextPart(text),)) for at, text in enumerate(texts)) or ASKED.messages
    context = json.loads(encode_reply(Reply(answer), Request("m", messages), **FACE))["context"]
    assert all(0 <= number < 2**24 for number in context)
    back = said(decode_request({"model": "m", "prompt": "?", "context": context}))
    assert back == [*((m.role, m.text) for m in messages), ("assistant", answer), ("user", "?")]


def test_the_oldest_give_way_in_a_long_conversation():
    messages = tuple(Message("user", (TextPart(str(at) * 30_000),)) for at in range(5))
    context = json.loads(encode_reply(Reply("end"), Request("m", messages), **FACE))["context"]
    back = said(decode_request({"model": "m", "prompt": "?", "context": context}))
    assert [text[:3] for _, text in back] == ["333", "444", "end", "?"]


@check_each("wrong", [True, 2**24, -1, "1", 0x22])
def test_a_context_that_was_changed_begins_anew(wrong: Any):
    context = [*whole(TextDelta("Hello."), Finish("stop"))["context"], wrong]
    body = {"model": "m", "prompt": "hi", "context": context}
    assert said(decode_request(body)) == [("user", "hi")]
    assert [note.code for note in field_notes(body)] == ["context_unread"]


def test_a_context_of_no_text_begins_anew():
    mark = whole(TextDelta("Hello."), Finish("stop"))["context"][0]
    assert said(decode_request({"model": "m", "prompt": "hi", "context": [mark, 0xFFFEFD]})) == [("user", "hi")]


# ---- answers


@pytest.mark.requirement("G1", "G3")
def test_a_stream_has_the_shape_of_the_documentation():
    *pieces, last = lines(
        ReasoningDelta("hm"),
        TextDelta("Hi \u2028"),
        CallStart(0, "f"),
        CallEnd(0),
        OpaqueSeen(Opaque("ollama_images", ["QQ=="])),
        OpaqueSeen(Opaque("ollama_timings", {"total_duration": 5})),
        UsageSeen(Usage(10, 4)),
        Finish("stop"),
        extension={"plan": "pass"},
    )
    assert pieces == [
        {**ABOUT, "response": "", "thinking": "hm", "done": False},
        {**ABOUT, "response": "Hi \u2028", "done": False},
    ]
    assert last.pop("context")
    assert last == {
        **ABOUT,
        "response": "",
        "done": True,
        "done_reason": "stop",
        "total_duration": 5,
        "prompt_eval_count": 10,
        "eval_count": 4,
        "toolspeak": {"plan": "pass"},
    }
    for line in (*pieces, last):
        GenerateResponse.model_validate(line)


@pytest.mark.requirement("G1", "G3")
def test_an_answer_has_the_shape_of_the_documentation():
    answer = whole(ReasoningDelta("hm"), TextDelta("Hi"), UsageSeen(Usage(3, 2)), Finish("length"), extension={"x": 1})
    assert answer.pop("context")
    assert answer == {
        **ABOUT,
        "response": "Hi",
        "thinking": "hm",
        "done": True,
        "done_reason": "length",
        "prompt_eval_count": 3,
        "eval_count": 2,
        "toolspeak": {"x": 1},
    }


@check_each(
    ("request_", "reason"),
    [(LOAD, "load"), (decode_request({"model": "m", "keep_alive": 0}), "unload"), (ASKED, "stop")],
)
def test_the_end_says_what_was_done(request_: Request, reason: str):
    answers = (whole(Finish("stop"), request=request_), lines(Finish("stop"), request=request_)[-1])
    for answer in answers:
        assert (answer["done"], answer["done_reason"], answer["response"]) == (True, reason, "")
        assert ("context" in answer) is (request_ is ASKED)


@pytest.mark.requirement("G3", "R-F6")
def test_a_turn_that_broke_is_an_error():
    assert lines(TextDelta("Hi"), Failure("it broke"))[1:] == [{"error": "it broke"}]
    assert whole(TextDelta("Hi"), Failure("it broke")) == {"error": "it broke"}
    assert lines(Finish("error")) == [{"error": "the turn failed"}]
    assert json.loads(encode_reply(Reply(finish_reason="error"), ASKED, **FACE)) == {"error": "the turn failed"}
    assert encode_error(UsageError("no")) == (400, b'{"error":"no"}')
