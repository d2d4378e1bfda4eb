"""What an answer of chat completions says about itself reaches a client of chat completions, and no later request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.cases import check_each
from toolspeak.core.events import Event, OpaqueSeen, TextDelta, fold
from toolspeak.core.types import Message, Opaque, Request, TextPart, Tool
from toolspeak.protocols import anthropic, gemini, ollama, openai_responses
from toolspeak.protocols.assistant_message import assistant_message
from toolspeak.protocols.openai_chat import ReplyDecoder, ReplyEncoder, encode_reply

pytestmark = pytest.mark.requirement("G3")

HEAD: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
FACE: Any = {"id": "c2", "created": 2, "model": "n"}
ASKED = Request("m", (Message("user", (TextPart("hi"),)),), stream=True, protocol="openai_chat")
WORDS = ("Good", " day", " day")


def likely(word: str) -> dict[str, Any]:
    return {"token": word, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def chunk(delta: dict[str, Any], **choice: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({**HEAD, **ABOUT, "choices": [{"index": 0, "delta": delta, **choice}]}).encode()
        + b"\n\n"
    )


ABOUT = {"system_fingerprint": "fp_1", "service_tier": "default"}
STREAM = b"".join(
    [
        *(chunk({"content": word}, logprobs={"content": [likely(word)], "refusal": None}) for word in WORDS),
        chunk({}, finish_reason="stop"),
        b"data: [DONE]\n\n",
    ]
)
WHOLE = json.dumps(
    {
        **HEAD,
        **ABOUT,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(WORDS)},
                "logprobs": {"content": list(map(likely, WORDS)), "refusal": None},
                "finish_reason": "stop",
            }
        ],
    }
).encode()


def events_of(body: bytes, stream: bool, step: int = 0) -> list[Event]:
    decoder = ReplyDecoder(stream)
    pieces = [body[at : at + step] for at in range(0, len(body), step)] if step else [body]
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def chunks_for(events: list[Event], request: Request = ASKED) -> list[ChatCompletionChunk]:
    face = ReplyEncoder(request, **FACE)
    data = b"".join(face.encode([event]) for event in events) + face.close()
    frames = [line.removeprefix(b"data: ") for line in data.split(b"\n\n") if line]
    return [ChatCompletionChunk.model_validate_json(frame, strict=True) for frame in frames if frame != b"[DONE]"]


@check_each("step", [0, 1, 7, len(STREAM) // 4])
def test_a_stream_tells_how_likely_its_words_are(step: int):
    sent = chunks_for(events_of(STREAM, True, step))
    told = [one for each in sent for choice in each.choices if choice.logprobs for one in choice.logprobs.content or ()]
    assert [one.token for one in told] == list(WORDS)
    assert "".join(choice.delta.content or "" for each in sent for choice in each.choices) == "".join(WORDS)
    assert {(each.system_fingerprint, each.service_tier, each.id) for each in sent} == {("fp_1", "default", "c2")}


@check_each(("body", "stream"), [(STREAM, True), (WHOLE, False)])
def test_a_whole_answer_tells_how_likely_its_words_are(body: bytes, stream: bool):
    reply = fold(events_of(body, stream))
    found = ChatCompletion.model_validate_json(encode_reply(reply, ASKED, **FACE), strict=True)
    assert (found.system_fingerprint, found.service_tier, found.id) == ("fp_1", "default", "c2")
    logprobs = found.choices[0].logprobs
    assert logprobs is not None
    assert [one.token for one in logprobs.content or ()] == list(WORDS)


def test_beside_tools_nothing_is_said_of_words_that_may_be_taken_apart():
    request = Request("m", ASKED.messages, (Tool("f"),), protocol="openai_chat")
    events = events_of(WHOLE, False)
    assert json.loads(encode_reply(fold(events), request, **FACE))["choices"][0]["logprobs"] is None
    assert all(choice.logprobs is None for each in chunks_for(events, request) for choice in each.choices)


def test_a_stream_may_begin_with_what_is_said_of_it():
    first, *_ = chunks_for([OpaqueSeen(Opaque("logprobs", {"content": [likely("")]})), TextDelta("a")])
    assert first.choices[0].delta.role == "assistant"


def test_it_is_told_once_and_what_changes_is_told_again():
    later = STREAM.replace(b"default", b"flex", 1)
    told = [event.part.data for event in events_of(later, True) if isinstance(event, OpaqueSeen)]
    tiers = [data["service_tier"] for data in told if "service_tier" in data]
    assert tiers == ["flex", "default"]


def test_it_is_no_part_of_the_next_request():
    events = events_of(STREAM, True)
    message = assistant_message(fold(events), events, 0, "openai_chat")
    assert message == Message("assistant", (TextPart("".join(WORDS)),), protocol="openai_chat")


@check_each("module", [anthropic, gemini, ollama, openai_responses], ids=lambda module: module.PROTOCOL)
def test_other_faces_leave_it_out(module: Any):
    events = events_of(STREAM, True)
    face = module.ReplyEncoder(ASKED, **FACE)
    data = b"".join(face.encode([event]) for event in events) + face.close()
    whole = module.encode_reply(fold(events), ASKED, **FACE)
    assert all(word not in data + whole for word in (b"fp_1", b"-0.5"))
