"""What every decoder of replies does, whatever the protocol: what it shows of an answer does not hang on the reads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.stream_helpers import Decoder, cut, fed
from tests.time_growth import assert_linear
from toolspeak.core.events import CallArgs, Failure, TextDelta
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

DECODERS = {
    "anthropic": anthropic.ReplyDecoder,
    "gemini": gemini.ReplyDecoder,
    "ollama": ollama.ReplyDecoder,
    "openai_chat": openai_chat.ReplyDecoder,
    "openai_responses": openai_responses.ReplyDecoder,
}
#: Answers that end before they began, or are none.
NOTHING = {
    "the name of an event": b"event: message_sta",
    "a comment": b": ping\n\n: still at it\n\n",
    "a long comment": b": " + b"ping " * 500,
    "an empty list": b"[]",
    "white space": b" \n\n  ",
    "a byte order mark": b"\xef\xbb\xbf",
    "garbage": b"\x00\xff garbage",
    "half an object": b'{"choices": [{',
    "a page": b"<html>" + b"x" * 2000,
}


@pytest.mark.requirement("R-F15")
@check_each("stream", [True, False])
@check_each("data", NOTHING.values(), ids=NOTHING)
@check_each("name", DECODERS)
def test_what_a_failure_shows_does_not_hang_on_the_reads(name: str, data: bytes, stream: bool):
    def made() -> Decoder:
        return DECODERS[name](stream)

    whole = fed(made(), [data])
    assert isinstance(whole[-1], Failure)
    assert fed(made(), cut(data, range(1, len(data)))) == whole
    for at in range(1, len(data), 97):
        assert fed(made(), cut(data, [at])) == whole


# ------------------------------------------------------------------------------------------- long reads

TEXTS = [f"word {number} of a text that is long enough " for number in range(40)]
#: Texts, and things that stand between them in real streams.
MIXED = [*TEXTS[:9], "", *TEXTS[9:12], '"quoted"\n', *TEXTS[12:20], "é\u2028", ": a comment", *TEXTS[20:]]


def chat(text: str, at: int) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


def chat_padded(text: str, at: int) -> dict[str, Any]:
    return {**chat(text, at), "obfuscation": "aZ9" * (at % 5)}


def chat_call(text: str, at: int) -> dict[str, Any]:
    call = {"index": 0, "function": {"arguments": text}, **({} if at else {"id": "call_1"})}
    call["function"].update({} if at else {"name": "write"})
    return {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}


def message(text: str, at: int) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def response(text: str, at: int) -> dict[str, Any]:
    place = {"item_id": "item_1", "output_index": 0, "content_index": 0}
    return {
        "type": "response.output_text.delta",
        "sequence_number": at,
        **place,
        "delta": text,
        "obfuscation": "x" * at,
    }


def response_late(text: str, at: int) -> dict[str, Any]:
    return {"delta": text, "item_id": "item_1", "output_index": 0, "type": "response.output_text.delta"}


STREAMS = {
    "openai_chat": ("openai_chat", chat),
    "padded": ("openai_chat", chat_padded),
    "arguments": ("openai_chat", chat_call),
    "anthropic": ("anthropic", message),
    "openai_responses": ("openai_responses", response),
    "the place comes last": ("openai_responses", response_late),
}
#: What comes before the texts.
BEGINS = {
    "anthropic": [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ],
}


def frames_of(stream: str, texts: list[str], end: str = "\n") -> list[bytes]:
    name, make = STREAMS[stream]
    documents = BEGINS.get(name, [])
    written = [json.dumps(document, separators=(",", ":")) for document in documents]
    for at, text in enumerate(texts):
        written.append(text if text.startswith(":") else json.dumps(make(text, at), separators=(",", ":")))
    return [f"{text if text.startswith(':') else f'data: {text}'}{end}{end}".encode() for text in written]


@pytest.mark.requirement("R-F10")
@check_each("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@check_each("stream", STREAMS)
def test_long_reads_say_what_short_ones_say(stream: str, end: str):
    frames = frames_of(stream, MIXED, end)
    data = b"".join(frames)
    made = DECODERS[STREAMS[stream][0]]
    one_by_one = fed(made(True), frames)
    assert "".join(text for text in MIXED if not text.startswith(":")) in {
        event.text if isinstance(event, TextDelta) else event.fragment
        for event in one_by_one
        if isinstance(event, TextDelta | CallArgs)
    }
    chance = random.Random(stream)
    for size in (1, 2, 3, 5):
        for _ in range(12):
            assert fed(made(True), cut(data, sorted(chance.sample(range(1, len(data)), size)))) == one_by_one
    assert fed(made(True), [data]) == one_by_one


@check_each("stream", STREAMS)
def test_a_long_read_gives_one_delta(stream: str):
    decoder = DECODERS[STREAMS[stream][0]](True)
    deltas = [
        event for event in decoder.feed(b"".join(frames_of(stream, TEXTS))) if isinstance(event, TextDelta | CallArgs)
    ]
    assert len(deltas) == 1


@check_each("stream", STREAMS)
def test_long_reads_one_after_the_other_are_as_short_ones(stream: str):
    frames = frames_of(stream, [*TEXTS, *[""] * 40, *TEXTS, *[""] * 40])
    made = DECODERS[STREAMS[stream][0]]
    reads = [b"".join(frames[at : at + 20]) for at in range(0, len(frames), 20)]
    assert fed(made(True), reads) == fed(made(True), [b"".join(frames)]) == fed(made(True), frames)


def test_an_event_that_is_cut_at_the_end_of_a_long_read_is_given_when_its_end_comes():
    *whole, last = frames_of("openai_chat", TEXTS)
    decoder = openai_chat.ReplyDecoder(True)
    assert decoder.feed(b"".join(whole) + last[:30]) == [TextDelta("".join(TEXTS[:-1]))]
    assert decoder.feed(last[30:]) == [TextDelta(TEXTS[-1])]
    assert decoder.feed(b"".join(whole) + last[:-2]) == [TextDelta("".join(TEXTS[:-1]))]
    assert decoder.close()[0] == TextDelta(TEXTS[-1])


def test_a_frame_that_only_looks_like_the_others_is_read_for_itself():
    frames = frames_of("openai_responses", TEXTS)
    odd = [
        frames[3].replace(b'"obfuscation":', b'"output_index":7,"obfuscation":'),
        frames[4].replace(b'"delta":', b'"delta":\n'),
        frames[5].replace(b'"delta":"word', b'"delta":["word'),
    ]
    reads = [*frames[:3], *odd, *frames[6:]]
    made = openai_responses.ReplyDecoder
    slow = fed(made(True), [piece for frame in reads for piece in (frame[:5], frame[5:])])
    assert fed(made(True), reads) == slow
    assert fed(made(True), [b"".join(reads)]) == slow


@check_each(
    "odd",
    [
        (b'"obfuscation":"', b'"obfuscation":"-'),
        (b'"obfuscation":"', b'"choices":[],"obfuscation":"'),
        (b'"content":"', b'"content":["'),
        (b'"content":"word', b'"content":"\xff\\ud800'),
        (b'"id":"c"', b'"id":"d"'),
    ],
)
def test_a_padded_frame_that_only_looks_like_the_others_is_read_for_itself(odd: tuple[bytes, bytes]):
    frames = frames_of("padded", TEXTS)
    reads = [*frames[:3], frames[3].replace(*odd), *frames[4:]]
    made = openai_chat.ReplyDecoder
    slow = fed(made(True), [piece for frame in reads for piece in (frame[:5], frame[5:])])
    assert fed(made(True), reads) == slow
    assert fed(made(True), [b"".join(reads)]) == slow
    assert fed(made(True), [b"".join(reads[at : at + 7]) for at in range(0, len(reads), 7)]) == slow


@pytest.mark.no_cover
def test_reads_of_events_that_never_look_alike_take_linear_time():
    def reading(count: int) -> Callable[[], object]:
        texts = [TEXTS[at % 40] if at % 2 else ": a comment" for at in range(count)]
        data = b"".join(frames_of("openai_chat", texts))
        return lambda: openai_chat.ReplyDecoder(True).feed(data)

    assert_linear(reading, 8000)
