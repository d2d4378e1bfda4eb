"""A reply with several choices: each is decoded as if it had come alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.stream_helpers import STYLES, fed, joined, ways
from tests.time_growth import assert_linear
from toolspeak.core.events import Event, Failure, Finish, Noted, TextDelta, UsageSeen
from toolspeak.core.types import Usage
from toolspeak.protocols import gemini, openai_chat
from toolspeak.protocols.shared.choices_decoder import ChoicesDecoder

pytestmark = pytest.mark.requirement("C8")

STOP = Finish("stop")


class Split:
    """A decoder for `n` choices, and what it delivers of the others."""

    def __init__(self, n: int = 3, stream: bool = True, protocol: Any = openai_chat) -> None:
        self.delivered: list[tuple[int, list[Event]]] = []
        self.decoder = ChoicesDecoder(
            stream, protocol.ReplyDecoder, n, lambda at, each: self.delivered.append((at, each))
        )

    def read(self, *reads: bytes) -> list[list[Event]]:
        """The events of all choices."""
        first = fed(self.decoder, reads)
        others: dict[int, list[Event]] = {}
        for at, events in self.delivered:
            others.setdefault(at, []).extend(events)
        return [first, *(joined(others[at]) for at in sorted(others))]


def piece(index: int, text: str | None = None, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": {} if text is None else {"content": text}, "finish_reason": reason}
    return {"id": "a", "choices": [choice], **fields}


def sse(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


USAGE = {"prompt_tokens": 7, "completion_tokens": 5}
STREAM = sse(
    piece(0, "Os"),
    piece(2, "Ro"),
    piece(1, "Ber"),
    piece(0, "lo"),
    piece(1, "gen", usage={"prompt_tokens": 7, "completion_tokens": 1}),
    piece(2, "me", "stop"),
    piece(1, None, "length"),
    piece(0, None, "stop"),
    {"id": "a", "choices": [], "usage": USAGE},
)
CITIES = [
    [TextDelta("Oslo"), UsageSeen(Usage(7, 5)), STOP],
    [TextDelta("Bergen"), Finish("length")],
    [TextDelta("Rome"), STOP],
]


def test_each_choice_of_a_stream_gets_its_own_events():
    for reads in ways(STREAM, "choices"):
        assert Split().read(*reads) == CITIES


@check_each("style", STYLES.values())
def test_the_style_of_the_stream_does_not_matter(style: Any):
    assert Split().read(style(STREAM)) == CITIES


def test_several_choices_may_come_in_one_chunk_and_without_an_end():
    both = {"choices": [piece(0, "a", "stop")["choices"][0], piece(1, "b", "stop")["choices"][0]]}
    assert Split(2).read(sse(both, done=False)) == [[TextDelta("a"), STOP], [TextDelta("b"), STOP]]


@check_each("stream", [True, False])
@check_each("indexes", [(0, 1), (0, 0), (None, None)])
def test_the_choices_of_a_whole_reply_are_told_apart_by_their_places(stream: bool, indexes: tuple[Any, Any]):
    choices = [
        {"index": index, "message": {"content": text}, "finish_reason": "stop"}
        for index, text in zip(indexes, "ab", strict=True)
    ]
    body = json.dumps({"choices": choices, "usage": USAGE}).encode()
    assert Split(2, stream).read(body) == [[TextDelta("a"), UsageSeen(Usage(7, 5)), STOP], [TextDelta("b"), STOP]]


@check_each("stream", [True, False])
def test_candidates_of_gemini_are_split(stream: bool):
    def candidate(text: str, **fields: Any) -> dict[str, Any]:
        return {"content": {"parts": [{"text": text}]}, "finishReason": "STOP", **fields}

    reply = {"candidates": [candidate("a"), candidate("b", index=1)], "usageMetadata": {"promptTokenCount": 3}}
    data = sse(reply, done=False) if stream else json.dumps(reply).encode()
    first, second = Split(2, stream, gemini).read(data)
    assert (first[0], UsageSeen(Usage(3)) in first) == (TextDelta("a"), True)
    assert second == [TextDelta("b"), STOP]


def test_an_upstream_may_give_fewer_or_more_choices():
    one = sse(piece(0, "a", "stop"))
    assert Split(2).read(one) == [[TextDelta("a"), STOP]]
    (first,) = Split(1).read(sse(piece(0, "a"), piece(1, "b", "stop"), piece(0, None, "stop")))
    assert [event.note.code for event in first if isinstance(event, Noted)] == ["other_choices_dropped"]


@check_each(
    "reply",
    [
        b'{"error": {"message": "no"}}',
        sse({"error": {"message": "no"}}),
        b'event: error\ndata: {"message": "no"}\n\n',
        b"[]",
        b"<html>",
        sse({"choices": [3]}),
        b"",
    ],
)
def test_what_is_no_choice_belongs_to_the_first(reply: bytes):
    expected = fed(openai_chat.ReplyDecoder(True), [reply])
    assert isinstance(expected[-1], Failure)
    (found,) = Split().read(reply)
    assert isinstance(found[-1], Failure)


def test_invalid_characters_do_not_move_a_piece_to_another_choice():
    broken = sse(piece(0, "a", "stop"), piece(1, "b@", "stop")).replace(b"@", b"\xff")
    first, second = Split(2).read(broken)
    assert (TextDelta("a") in first, second) == (True, [TextDelta("b\ufffd"), STOP])


def test_nothing_is_delivered_while_the_request_may_still_be_sent_again():
    split = Split(2)
    assert split.decoder.feed(sse(piece(1, "b"), done=False)) == []
    assert split.delivered == []
    failure = split.decoder.feed(sse({"error": {"message": "overloaded"}}, done=False))
    assert (type(failure[-1]), split.delivered) == (Failure, [])


def test_a_reply_is_finished_when_all_choices_are():
    split = Split(2)
    split.decoder.feed(sse(piece(0, "a", "stop"), done=False))
    assert not split.decoder.finished
    split.decoder.feed(sse(piece(1, "b", "stop"), done=False))
    assert split.decoder.finished


def test_the_time_grows_with_the_length_of_the_reply():
    def reading(size: int) -> Callable[[], object]:
        stream = sse(*(piece(at % 64, "word ") for at in range(size)))
        return lambda: Split(64).read(stream)

    assert_linear(reading, 4000)
