"""What a turn costs beyond the model: engine and codec alone, without any network.

Per 24-byte chunk of a streamed answer (plain text, and a string argument) and per whole request with 20 tools. No two
requests have the same question. CPU time, best of several runs; the goals are those that the whole product needs.
`--json` prints the figures for `bench/proxy.py`, `--profile` where the time goes.
"""

from __future__ import annotations

import cProfile
import itertools
import json
import pstats
import sys
import time
from collections.abc import Callable

from goals import Outcome, as_json, print_table

from toolspeak.core.types import Message, Request, TextPart, Tool, ToolChoice
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Settings, plan
from toolspeak.engine.turn.actions import AskUpstream
from toolspeak.engine.turn.engine import Engine
from toolspeak.protocols import openai_chat

CHUNKS, REQUESTS, RUNS = 4000, 300, 7
CHUNK_GOAL, REQUEST_GOAL = 1.8, 60.0
NONCE = "k7q2xmb"
PIECE = "the weather is fine, so "
TOOLS = tuple(
    Tool(
        f"tool_{number}",
        f"Does the thing number {number} and tells how it went.",
        {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "what to do"}, "count": {"type": "integer"}},
            "required": ["text"],
        },
    )
    for number in range(20)
)
CALL = f'```json action {NONCE}\n{{"tool": "tool_3", "parameters": {{"text": "'
SETTINGS = Settings()
FOUND = ProfileMatch(Profile(), "bench", "a bench")
NUMBERS = itertools.count()


def _engine(stream: bool) -> tuple[Engine, Request]:
    question = Message("user", (TextPart(f"What now, in step {next(NUMBERS)}?"),))
    request = Request("m", (question,), TOOLS, ToolChoice(), stream)
    engine = Engine(request, plan(request, FOUND, SETTINGS), SETTINGS, stamp=1, nonces=lambda counter: NONCE)
    (ask,) = engine.start()
    assert isinstance(ask, AskUpstream)
    return engine, ask.request


def _event(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _stream(opening: str) -> Callable[[], None]:
    first, piece = _event(opening), _event(PIECE)

    def run() -> None:
        engine, _ = _engine(stream=True)
        decoder = openai_chat.ReplyDecoder(stream=True)
        for data in (first, *[piece] * CHUNKS):
            for event in decoder.feed(data):
                engine.feed(1, event)

    return run


def _whole(content: str) -> Callable[[], None]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    body = json.dumps(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()

    def run() -> None:
        for _ in range(REQUESTS):
            engine, request = _engine(stream=False)
            openai_chat.encode_request(request)
            events = openai_chat.decode_reply(body)
            assert events is not None
            engine.read_whole(1, events)

    return run


CASES: dict[str, tuple[Callable[[], None], int, float]] = {
    "24-byte chunk of text": (_stream("Well, "), CHUNKS, CHUNK_GOAL),
    "24-byte chunk of a string argument": (_stream(CALL), CHUNKS, CHUNK_GOAL),
    "request with 20 tools, answered with text": (_whole("It is fine."), REQUESTS, REQUEST_GOAL),
    "request with 20 tools, answered with a call": (_whole(CALL + 'x", "count": 3}}\n```'), REQUESTS, REQUEST_GOAL),
}


def best(run: Callable[[], None], count: int) -> float:
    """Microseconds of CPU for each of `count` things that one run does."""
    seconds: list[float] = []
    for _ in range(RUNS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds) / count * 1e6


def main() -> None:
    outcomes = [
        Outcome(f"engine and codecs: {name}", best(run, count), goal, "µs")
        for name, (run, count, goal) in CASES.items()
    ]
    if "--json" in sys.argv:
        print(as_json(outcomes))
    else:
        print_table(outcomes)
    if "--profile" in sys.argv:
        for name, (run, _, _) in CASES.items():
            print(f"\n{name}")
            profile = cProfile.Profile()
            profile.runcall(run)
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)


if __name__ == "__main__":
    main()
