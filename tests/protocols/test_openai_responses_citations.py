"""Annotations stay with what they are about, where several texts of an answer become one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.test_openai_responses_events import completed, delta, event
from toolspeak.core.events import Event, OpaqueSeen, ReasoningDelta, TextDelta, fold
from toolspeak.core.types import Opaque, TextPart
from toolspeak.protocols.assistant_message import assistant_message
from toolspeak.protocols.openai_responses import PROTOCOL, ReplyDecoder, ReplyEncoder, decode_request, encode_reply

pytestmark = pytest.mark.requirement("G3")

FACE: Any = {"id": "resp_1", "created": 1, "model": "m"}
REQUEST = decode_request({"model": "m", "input": "x"})
CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
SEARCH = {"type": "web_search_call", "id": "ws", "status": "completed"}
REASONING = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]}


def part(text: str) -> dict[str, Any]:
    """A text that cites itself."""
    cited = {"type": "url_citation", "start_index": 0, "end_index": len(text), "title": text, "url": "https://a.b"}
    return {"type": "output_text", "text": text, "annotations": [cited]}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [part(text) for text in texts]
    return {"type": "message", "id": f"m{texts[0]}", "role": "assistant", "content": content, **fields}


OUTPUTS = {
    "two parts": [message("Paris.", "Röme.")],
    "two messages": [message("Paris."), message("Rome.")],
    "two messages with phases": [message("Paris.", phase="commentary"), message("Rome.", phase="final_answer")],
    "an item between": [message("Oh.", "Paris."), SEARCH, message("Rome.", "Bern.")],
    "reasoning between": [message("Paris."), REASONING, message("Rome.", "Bern.")],
    "a call between": [message("Paris."), CALL, message("Rome.", "Bern.")],
}
UNKNOWN = [{**message("Paris."), "content": [part("Paris."), {"type": "odd"}, part("Rome.")]}]


def streamed(output: list[Any], numbers: bool, pieces: bool) -> bytes:
    """The events of this output; `numbers`: each item has its own; `pieces`: its text comes before its item."""
    sent = b""
    for at, item in enumerate(output):
        at = at if numbers else 0
        sent += event("output_item.added", output_index=at, item={**item, "content": []})
        for number, one in enumerate(item.get("content", ()) if pieces else ()):
            for text in (one["text"][:2], one["text"][2:]):
                place = {"output_index": at, "content_index": number, "item_id": item["id"]}
                sent += delta(text, **place)
        sent += event("output_item.done", output_index=at, item=item)
    return sent + completed(*output)


def read(data: bytes, stream: bool, size: int = 0) -> list[Event]:
    decoder = ReplyDecoder(stream)
    reads = [data[at : at + size] for at in range(0, len(data), size)] if size else data.split(b"\n\n")
    reads = reads if size else [f"{one.decode()}\n\n".encode() for one in reads if one]
    return [found for one in reads for found in decoder.feed(one)] + decoder.close()


def cited(texts: list[tuple[str, Any]]) -> list[str]:
    """What each citation that is not about the text of its title cites, with that title."""
    return [
        f"{one['title']}: {text[one['start_index'] : one['end_index']]}"
        for text, listed in texts
        for one in listed
        if text[one["start_index"] : one["end_index"]] != one["title"]
    ]


def check(events: list[Event], count: int) -> None:
    encoder = ReplyEncoder(REQUEST, **FACE)
    stream = encoder.encode(events) + encoder.close()
    last = json.loads(stream.split(b"data: ")[-1])["response"]
    whole = json.loads(encode_reply(fold(events), REQUEST, **FACE, events=events))
    for response in (last, whole):
        parts = [one for item in response["output"] if item["type"] == "message" for one in item["content"]]
        assert sum(len(one["annotations"]) for one in parts) == count
        assert cited([(one["text"], one["annotations"]) for one in parts]) == []
    sent = assistant_message(fold(events), events, 0, PROTOCOL)
    texts = [(one.text, one.extra.get("annotations", [])) for one in sent.parts if isinstance(one, TextPart)]
    assert sum(len(listed) for _, listed in texts) == count
    assert cited(texts) == []


def count_of(output: list[Any]) -> int:
    return sum("text" in one for item in output for one in item.get("content", ()))


@check_each("output", [*OUTPUTS.values(), UNKNOWN], ids=[*OUTPUTS, "something unknown between"])
def test_a_whole_answer_cites_what_it_cited(output: list[Any]):
    response = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": output}
    check(read(json.dumps(response).encode(), False, 1 << 20), count_of(output))


@check_each("size", [0, 7, 1 << 20])
@check_each("pieces", [True, False])
@check_each("output", OUTPUTS.values(), ids=OUTPUTS)
def test_a_stream_cites_what_it_cited(output: list[Any], pieces: bool, size: int):
    check(read(streamed(output, True, pieces), True, size), count_of(output))


def test_messages_of_one_number_cite_what_they_cited():
    output = OUTPUTS["two messages"]
    check(read(streamed(output, False, True), True), count_of(output))


def test_a_citation_without_a_place_or_with_an_odd_one_is_left_alone():
    listed: list[Any] = [{"type": "file_citation", "index": 0}, {"type": "x", "start_index": "0", "end_index": True}]
    output = [message("Paris."), {**message("b"), "content": [{**part("b"), "annotations": listed}]}]
    found = read(json.dumps({"status": "completed", "output": output}).encode(), False, 1 << 20)
    assert [one.part.data for one in found if isinstance(one, OpaqueSeen)][1:] == listed


def test_what_is_said_of_a_text_may_be_anything():
    events: list[Event] = [TextDelta("a"), OpaqueSeen(Opaque("annotation:x", 1)), ReasoningDelta("hm")]
    assert assistant_message(fold(events), events, 0, PROTOCOL).parts == (TextPart("a", {"annotations": [1]}),)
