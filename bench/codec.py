"""CPU time of the codecs for each chunk of a stream: `python bench/codec.py`. Chat completions unless it says else.

A chunk carries 24 bytes of text. It is decoded alone in its read and in reads of sixteen, from a server whose chunks
differ by their text only, from one that pads each chunk differently, and inside the arguments of a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from toolspeak.core.events import Event, TextDelta
from toolspeak.core.types import Message, Request
from toolspeak.protocols import anthropic, openai_responses
from toolspeak.protocols.openai_chat import ReplyDecoder, ReplyEncoder

CHUNKS = 4096
REPEAT = 15
#: What this codec may take of the 1.8 µs that engine and codecs have together for each chunk.
GOALS = {"decode": 0.7, "encode": 0.4}

_HEAD = '{"id":"chatcmpl-9f2c7a1b3d5e","object":"chat.completion.chunk","created":1790000000,"model":"some-model-7b",'
_DELTA = '"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":null}]%s}'


def _frame(delta: str, more: str = "") -> bytes:
    return f"data: {_HEAD}{_DELTA % (delta, more)}\n\n".encode()


def _texts() -> list[str]:
    return [f"word {number:06d} and a few" for number in range(CHUNKS)]


def plain() -> list[bytes]:
    return [_frame(f'{{"content":"{text}"}}') for text in _texts()]


def padded() -> list[bytes]:
    """Each chunk has a field of random length, as some servers send to hide the length of the text."""
    return [
        _frame(f'{{"content":"{text}"}}', f',"obfuscation":"{"x" * (at % 9)}{at}"') for at, text in enumerate(_texts())
    ]


def arguments() -> list[bytes]:
    call = '{"tool_calls":[{"index":0,%s"function":{%s"arguments":"%s"}}]}'
    first = _frame(call % ('"id":"call_1",', '"name":"write",', '{\\"text\\":\\"'))
    return [first, *(_frame(call % ("", "", text)) for text in _texts())]


def messages(kind: str, field: str, block: str) -> list[bytes]:
    """The deltas of one block of the Messages API."""
    frame = 'event: %s\ndata: {"type":"%s","index":0,%s}\n\n'
    start = frame % (("content_block_start",) * 2 + (f'"content_block":{block}',))
    deltas = [f'"delta":{{"type":"{kind}","{field}":"{text}"}}' for text in _texts()]
    return [start.encode(), *((frame % (("content_block_delta",) * 2 + (delta,))).encode() for delta in deltas)]


TEXT_BLOCK = '{"type":"text","text":""}'
CALL_BLOCK = '{"type":"tool_use","id":"toolu_1","name":"write","input":{}}'


class Decoder(Protocol):
    """What reads a stream."""

    def feed(self, data: bytes, /) -> list[Event]: ...


def decoding(
    frames: list[bytes], together: int, decoder: Callable[[bool], Decoder] = ReplyDecoder
) -> Callable[[], None]:
    reads = [b"".join(frames[at : at + together]) for at in range(0, len(frames), together)]

    def run() -> None:
        feed = decoder(True).feed
        for read in reads:
            feed(read)

    return run


#: The encoders that are measured.
Face = type[ReplyEncoder] | type[anthropic.ReplyEncoder] | type[openai_responses.ReplyEncoder]


def encoding(together: int, encoder: Face = ReplyEncoder) -> Callable[[], None]:
    events: list[Event] = [TextDelta(text) for text in _texts()]
    batches = [events[at : at + together] for at in range(0, len(events), together)]
    request = Request("some-model-7b", (Message("user"),), stream=True)

    def run() -> None:
        encode = encoder(request, id="chatcmpl-9f2c7a1b3d5e", created=1790000000, model="some-model-7b").encode
        for batch in batches:
            encode(batch)

    return run


def measured(run: Callable[[], None]) -> float:
    """Microseconds for each chunk, the best of several runs; nothing is kept, as a server keeps nothing."""
    best = float("inf")
    for _ in range(REPEAT):
        begun = time.process_time_ns()
        run()
        best = min(best, time.process_time_ns() - begun)
    return best / CHUNKS / 1000


def responses(kind: str, item: str) -> list[bytes]:
    """Events of the Responses API, each with a number of its own and padded as its service pads them."""
    first = f'{{"type":"response.output_item.added","output_index":0,"item":{item},"sequence_number":2}}'
    frames = [("response.output_item.added", first)]
    for at, text in enumerate(_texts()):
        place = f'"item_id":"item_9f2c7a1b3d5e","output_index":0,"content_index":0,"delta":"{text}","logprobs":[]'
        rest = f'"sequence_number":{at + 3},"obfuscation":"{"x" * (at % 9)}"'
        frames.append((kind, f'{{"type":"{kind}",{place},{rest}}}'))
    return [f"event: {name}\ndata: {data}\n\n".encode() for name, data in frames]


def main() -> None:
    said = responses("response.output_text.delta", '{"type":"message","id":"item_9f2c7a1b3d5e"}')
    item = '{"type":"function_call","id":"item_9f2c7a1b3d5e","call_id":"call_1","name":"write","arguments":""}'
    given = responses("response.function_call_arguments.delta", item)
    text = messages("text_delta", "text", TEXT_BLOCK)
    call = messages("input_json_delta", "partial_json", CALL_BLOCK)
    rows = [
        ("decode", "text, one chunk in a read", decoding(plain(), 1)),
        ("decode", "text, sixteen chunks in a read", decoding(plain(), 16)),
        ("decode", "arguments of a call, one chunk in a read", decoding(arguments(), 1)),
        ("decode", "text in padded chunks, one in a read (no goal)", decoding(padded(), 1)),
        ("encode", "text, one event at a time", encoding(1)),
        ("encode", "text, sixteen events at a time", encoding(16)),
        ("decode", "Messages: text, one in a read", decoding(text, 1, anthropic.ReplyDecoder)),
        ("decode", "Messages: text, sixteen in a read", decoding(text, 16, anthropic.ReplyDecoder)),
        ("decode", "Messages: arguments, one in a read", decoding(call, 1, anthropic.ReplyDecoder)),
        ("encode", "Messages: text, one event at a time", encoding(1, anthropic.ReplyEncoder)),
        ("encode", "Messages: text, sixteen events at a time", encoding(16, anthropic.ReplyEncoder)),
        ("decode", "Responses: text, one in a read", decoding(said, 1, openai_responses.ReplyDecoder)),
        ("decode", "Responses: text, sixteen in a read", decoding(said, 16, openai_responses.ReplyDecoder)),
        ("decode", "Responses: arguments, one in a read", decoding(given, 1, openai_responses.ReplyDecoder)),
        ("encode", "Responses: text, one event at a time", encoding(1, openai_responses.ReplyEncoder)),
        ("encode", "Responses: text, sixteen events at a time", encoding(16, openai_responses.ReplyEncoder)),
    ]
    print("| half | what | µs per chunk | goal |\n|---|---|---|---|")
    for half, what, run in rows:
        goal = "" if "no goal" in what else f"{GOALS[half]}"
        print(f"| {half} | {what.replace(' (no goal)', '')} | {measured(run):.2f} | {goal} |")


if __name__ == "__main__":
    main()
