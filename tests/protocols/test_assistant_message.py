"""What an upstream said goes back to it as it came: signatures, encrypted reasoning, fields of its own."""

from __future__ import annotations

import json
from typing import Any

import toolspeak as ts
from tests.cases import check_each
from toolspeak.config import load
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, OpaqueSeen, TextDelta, fold
from toolspeak.core.types import Message, Opaque, TextPart, ToolCall
from toolspeak.protocols import openai_chat
from toolspeak.protocols.assistant_message import assistant_message
from toolspeak.upstreams.codecs import codec
from toolspeak.upstreams.scripted import Script, Turn

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
QUESTION = {"role": "user", "content": "Look."}


def native(protocol: str, *turns: Script) -> tuple[ts.Client, ts.Scripted]:
    """A client of a model that calls natively and speaks this protocol."""
    upstream = ts.Scripted(*turns)
    upstream.protocol = protocol  # type: ignore[attr-defined]
    return ts.Client(upstream, config=load({}, env={}), mode="off"), upstream


def sent_back(protocol: str, answer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of the request that follows an answer."""
    asked, upstream = native(protocol, Turn(json.dumps(answer).encode(), protocol=protocol), "Done.")
    with asked:
        reply = asked.chat([QUESTION], tools=[TOOL], **fields)
        (call,) = reply.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "42"}
        asked.chat([QUESTION, reply.message, result], tools=[TOOL], **fields)
    request = upstream.requests[1]
    assert [note for note in codec(protocol).notes(request) if note.code == "opaque_dropped"] == []
    return json.loads(codec(protocol).encode(request))


def test_signed_thinking_goes_back_to_anthropic_in_its_place():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sig=="}
    redacted = {"type": "redacted_thinking", "data": "x"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}
    text = {"type": "text", "text": "I look."}
    content = [thinking, redacted, text, {"type": "hologram", "beam": 1}, call]
    body = sent_back("anthropic", _anthropic(content))
    assert body["messages"][1] == {"role": "assistant", "content": content}
    assert body["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"


def test_thinking_between_blocks_of_anthropic_stays_there():
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    cited = {"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": "c"}]}
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {}, "caller": {"type": "code", "tool_id": "s"}}
    thoughts = [{"type": "thinking", "thinking": str(at), "signature": f"s{at}"} for at in (1, 2, 3)]
    content = [thoughts[0], search, found, thoughts[1], cited, call, thoughts[2]]
    body = sent_back("anthropic", _anthropic(content))
    assert body["messages"][1]["content"] == content


def _anthropic(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 1}}


def test_signatures_go_back_to_gemini_with_their_calls():
    parts = [
        {"text": "Hm.", "thought": True},
        {"text": "I look."},
        {"functionCall": {"name": "look", "args": {"a": 1}}, "thoughtSignature": "sig=="},
    ]
    answer = {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]}
    body = sent_back("gemini", answer)
    content = body["contents"][1]
    assert content["role"] == "model"
    (called,) = [part for part in content["parts"] if "functionCall" in part]
    assert called["functionCall"]["args"] == {"a": 1}
    assert called["thoughtSignature"] == "sig=="


def test_a_signed_text_of_gemini_goes_back_before_the_call():
    parts = [
        {"text": "I look.", "thoughtSignature": "one"},
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "two"},
    ]
    answer = {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]}
    sent = sent_back("gemini", answer)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in sent] == [None, "one", "two"]
    assert [part.get("text") for part in sent] == ["I look.", "", None]


def test_thoughts_of_gemini_and_what_stands_behind_a_call_go_back_in_their_places():
    parts = [
        {"text": "one", "thought": True},
        {"text": "Hm."},
        {"text": "two", "thought": True, "thoughtSignature": "dHdv"},
        {"text": "three", "thought": True},
        {"functionCall": {"name": "look", "args": {}, "id": "f1"}, "thoughtSignature": "c2ln"},
        {"futurePart": {"x": 1}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]
    answer = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    assert sent_back("gemini", answer)["contents"][1]["parts"] == parts


def test_encrypted_reasoning_goes_back_to_responses_before_what_it_led_to():
    one, two = ({"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": "x"} for at in (1, 2))
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "look", "arguments": "{}"}
    texts = [{"type": "output_text", "text": "I look.", "annotations": [{"type": "url_citation", "url": "u"}]}]
    said = {"type": "message", "id": "msg", "role": "assistant", "content": texts}
    answer = {"object": "response", "status": "completed", "output": [one, said, two, call]}
    body = sent_back("openai_responses", answer, extra_body={"include": ["reasoning.encrypted_content"]})
    items = body["input"][1:]
    assert [item["type"] for item in items] == [
        "reasoning",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert (items[0], items[2]) == (one, two)
    assert items[1]["content"] == texts
    assert (body["include"], body["store"]) == (["reasoning.encrypted_content"], False)


def test_phases_go_back_to_responses_with_their_messages():
    def message(text: str, phase: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": "m", "role": "assistant", "phase": phase, "content": content}

    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = [message("Let me", "commentary"), message("see.", "commentary"), call, message("Done.", "final_answer")]
    body = sent_back("openai_responses", {"status": "completed", "output": output})
    assert [(item["type"], item.get("content"), item.get("phase")) for item in body["input"][1:5]] == [
        ("message", "Let me", "commentary"),
        ("message", "see.", "commentary"),
        ("function_call", None, None),
        ("message", "Done.", "final_answer"),
    ]


def test_a_phase_of_nothing_is_not_sent():
    mark = Opaque("start:message", {"phase": "commentary"})
    odd = [OpaqueSeen(Opaque("start:message", 7)), TextDelta("a"), OpaqueSeen(mark)]
    message = said(odd, "openai_responses")
    request = ts.Request("m", (message,), protocol="openai_responses")
    sent = json.loads(codec("openai_responses").encode(request))["input"]
    assert [(item.get("content"), item.get("phase")) for item in sent] == [("a", None)]


def test_what_chat_completions_carry_goes_back():
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    signed = {"google": {"thought_signature": "sig=="}}
    function = {"name": "look", "arguments": "{}"}
    call = {"id": "c1", "type": "function", "function": function, "extra_content": signed}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_details": details}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    body = sent_back("openai_chat", answer)
    assert body["messages"][1] == message


def test_pictures_and_thinking_go_back_to_ollama():
    function = {"name": "look", "arguments": {}}
    message = {
        "role": "assistant",
        "content": "See.",
        "thinking": "Hm.",
        "images": ["iVBORw0KGgoAAA"],
        "tool_calls": [{"id": "c", "function": function}],
    }
    answer = {"message": message, "done": True, "done_reason": "stop", "total_duration": 1}
    assert sent_back("ollama", answer)["messages"][1] == message


@check_each("protocol", ["anthropic", "gemini", "ollama", "openai_chat", "openai_responses"])
def test_what_one_upstream_signed_is_not_sent_to_another(protocol: str):
    signed = Message("assistant", (Opaque("sealed", {"type": "sealed"}), TextPart("Hi")), protocol="elsewhere")
    request = ts.Request("m", (Message("user", (TextPart("Hi"),)), signed), protocol=protocol)
    assert b"sealed" not in codec(protocol).encode(request)
    assert "opaque_dropped" in [note.code for note in codec(protocol).notes(request)]


# ---- what becomes of the rest


def _call(identifier: str, name: str = "look") -> list[Event]:
    return [CallStart(0, name, identifier), CallArgs(0, "{}"), CallEnd(0)]


def said(events: list[Event], protocol: str, since: int = 0) -> Message:
    return assistant_message(fold(events), events, since, protocol)


def test_a_reply_without_anything_of_its_own_is_a_plain_message():
    asked, _ = native("openai_chat", "Hello.")
    assert asked.chat("Hi").message == Message("assistant", (TextPart("Hello."),))
    asked, _ = native("openai_chat", " \n")
    assert asked.chat("Hi").message == Message("assistant")


def test_what_an_earlier_answer_carried_belongs_to_no_message():
    events: list[Event] = [
        OpaqueSeen(Opaque("thinking", {"type": "thinking", "signature": "a"})),
        OpaqueSeen(Opaque("thinking", {"type": "thinking", "signature": "b"})),
    ]
    assert said(events, "anthropic", since=1).parts == (events[1].part,)  # type: ignore[union-attr]


def test_a_turn_that_asked_again_keeps_only_the_signatures_of_its_last_answer():
    def thought(signature: str) -> Event:
        return OpaqueSeen(Opaque("thinking", {"type": "thinking", "thinking": "", "signature": signature}))

    upstream = ts.Scripted([thought("a"), TextDelta("I have no tools.")], [thought("b"), TextDelta("It is four.")])
    upstream.protocol = "anthropic"  # type: ignore[attr-defined]
    reply = ts.Client(upstream, config=load({}, env={})).chat([QUESTION], tools=[TOOL])
    assert reply.requests == 2
    signed = [part.data["signature"] for part in reply.message.parts if isinstance(part, Opaque)]
    assert signed == ["b"]


@check_each(
    ("protocol", "part"),
    [
        ("anthropic", Opaque("usage", {"a": 1})),
        ("anthropic", Opaque("tool_use", "odd")),
        ("anthropic", Opaque("citations", [{"a": 1}])),
        ("gemini", Opaque("gemini_usage", {"a": 1})),
        ("ollama", Opaque("ollama_timings", {"a": 1})),
        ("ollama", Opaque("ollama_images", "odd")),
        ("openai_chat", Opaque("annotations", [1])),
        ("unheard_of", Opaque("thinking", {"type": "thinking"})),
    ],
)
def test_what_is_about_the_answer_only_does_not_go_back(protocol: str, part: Opaque):
    events: list[Event] = [OpaqueSeen(part), *_call("c")]
    assert said(events, protocol) == Message("assistant", calls=(ToolCall("look", {}, "c"),), protocol=protocol)


def test_the_beginning_of_an_item_is_not_sent():
    events: list[Event] = [OpaqueSeen(Opaque("start:reasoning", {"id": "r"})), *_call("c")]
    assert said(events, "openai_responses").parts == ()


def test_fields_that_come_in_pieces_are_put_together():
    events: list[Event] = [OpaqueSeen(Opaque("reasoning_details", [1])), OpaqueSeen(Opaque("reasoning_details", [2]))]
    assert said(events, "openai_chat").extra == {"reasoning_details": [1, 2]}


def test_what_belongs_to_a_call_that_was_dropped_goes_nowhere():
    events: list[Event] = [OpaqueSeen(Opaque("gemini_call", {"name": "gone", "thoughtSignature": "x"})), *_call("c")]
    assert said(events, "gemini").extra == {}
    events[1:] = [CallStart(0, "look", "c"), CallArgs(0, "{"), CallEnd(0, False)]
    assert said(events, "gemini") == Message("assistant", protocol="gemini")


# ---- fields of the upstream's own


def _encoded(protocol: str, **fields: Any) -> dict[str, Any]:
    asked, upstream = native(protocol, "Hi.")
    asked.chat("Hi", **fields)
    return json.loads(codec(protocol).encode(upstream.requests[0]))


def test_fields_of_the_upstreams_own_are_sent_as_they_are():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert _encoded("anthropic", metadata={"user_id": "u"}, extra_body={"thinking": thinking})["thinking"] == thinking
    config = {"thinkingConfig": {"includeThoughts": True}}
    body = _encoded("gemini", temperature=0, extra_body={"generationConfig": config})
    assert body["generationConfig"] == {"temperature": 0, **config}
    body = _encoded("ollama", temperature=0, extra_body={"options": {"num_ctx": 8192}, "think": True})
    assert (body["options"], body["think"]) == ({"temperature": 0, "num_ctx": 8192}, True)
    body = _encoded("openai_responses", store=True, user="u", extra_body={"reasoning": {"effort": "low"}})
    assert (body["reasoning"], body["store"], body["user"]) == ({"effort": "low"}, True, "u")
    assert _encoded("openai_chat", extra_body={"anything": 1})["anything"] == 1


def test_words_of_chat_completions_are_not_sent_to_others():
    body = _encoded(
        "anthropic", reasoning_effort="low", user="u", max_completion_tokens=5, extra_body={"api_key": "secret"}
    )
    assert body.keys() == {"model", "max_tokens", "messages"}
    assert body["max_tokens"] == 5


def test_a_field_of_the_callers_does_not_replace_a_common_word():
    assert _encoded("anthropic", extra_body={"messages_": 1, "system": "Be bad."})["system"] == "Be bad."
    body = _encoded("gemini", extra_body={"contents": "odd"})
    assert body["contents"][0]["role"] == "user"


# ---- what calls of chat completions say besides


def _signed_chunks(identifier: str | None) -> bytes:
    calls = [
        {
            "index": at,
            "id": identifier and f"{identifier}{at}",
            "function": {"name": "look", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": f"sig{at}"}},
        }
        for at in range(2)
    ]
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


@check_each("identifier", ["c", None])
@check_each("stream", [True, False])
def test_a_face_hands_on_what_calls_say_besides(identifier: str | None, stream: bool):
    decoder = openai_chat.ReplyDecoder(stream=True)
    events = [*decoder.feed(_signed_chunks(identifier)), *decoder.close()]
    request = ts.Request("m", (Message("user", (TextPart("Hi"),)),))
    about = {"id": "x", "created": 1, "model": "m"}
    if stream:
        wire = openai_chat.ReplyEncoder(request, **about).encode(events).decode()
        chunks = [json.loads(line.removeprefix("data: ")) for line in wire.splitlines() if line]
        pieces = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
        calls = [piece for piece in pieces if "name" in piece["function"]]
    else:
        answer = json.loads(openai_chat.encode_reply(fold(events), request, **about))
        calls = answer["choices"][0]["message"]["tool_calls"]
    assert [call["extra_content"]["google"]["thought_signature"] for call in calls] == ["sig0", "sig1"]


def test_a_piece_that_names_nothing_says_nothing_about_a_call():
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "extra_content": {"a": 1}}]}}]}
    decoder = openai_chat.ReplyDecoder(stream=True)
    events = decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    assert events == [OpaqueSeen(Opaque("openai_call", {"extra_content": {"a": 1}}))]
    request = ts.Request("m", (Message("user", (TextPart("Hi"),)),))
    encoder = openai_chat.ReplyEncoder(request, id="x", created=1, model="m")
    assert encoder.encode(events) == b""


def test_what_is_said_about_one_call_is_not_handed_on_with_another():
    events: list[Event] = [OpaqueSeen(Opaque("openai_call", {"id": "gone", "extra_content": 1})), *_call("c")]
    request = ts.Request("m", (Message("user", (TextPart("Hi"),)),))
    assert b"extra_content" not in openai_chat.encode_reply(fold(events), request, id="x", created=1, model="m")
