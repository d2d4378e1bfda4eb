"""Replies of the Responses API, event by event."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.stream_helpers import fed, joined, ways
from tests.protocols.test_openai_responses_reply_decoder import CALLS, STOP, call, carried, decode, fixture, summaries
from tests.time_growth import assert_linear
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    fold,
)
from toolspeak.core.types import Note, Opaque, ToolCall
from toolspeak.protocols.openai_responses import ReplyDecoder
from toolspeak.protocols.openai_responses import call_assembler as openai_responses_calls
from toolspeak.protocols.shared import reply_decoder as reading


def event(kind: str, **fields: Any) -> bytes:
    """One event as the service frames it."""
    return f"event: response.{kind}\ndata: {json.dumps({'type': f'response.{kind}', **fields})}\n\n".encode()


def delta(text: str, number: int = 0, kind: str = "output_text", **fields: Any) -> bytes:
    place = {"item_id": "i", "output_index": 0, "content_index": 0, **fields}
    return event(f"{kind}.delta", **place, delta=text, sequence_number=number)


END = event("completed", response={"status": "completed", "output": []})


def feeding(*reads: bytes) -> list[list[Event]]:
    decoder = ReplyDecoder(stream=True)
    return [decoder.feed(read) for read in reads] + [decoder.close()]


def test_each_read_gives_what_it_makes_certain():
    begin = event("output_item.added", output_index=1, item={"type": "function_call", "name": "f", "call_id": "c"})
    found = feeding(
        delta("He"),
        delta("l", 1) + delta("lo", 2),
        delta(" you", 3, obfuscation="abc"),
        begin,
        delta('{"a', 4, "function_call_arguments", output_index=1),
        delta('":1}', 5, "function_call_arguments", output_index=1),
        END,
    )
    assert found == [
        [TextDelta("He")],
        [TextDelta("llo")],
        [TextDelta(" you")],
        [CallStart(0, "f", "c")],
        [CallArgs(0, '{"a')],
        [CallArgs(0, '":1}')],
        [CallEnd(0), CALLS],
        [],
    ]


def test_the_pieces_of_a_custom_tools_text_are_json_also_by_the_shortcut():
    begin = event("output_item.added", output_index=0, item={"type": "custom_tool_call", "name": "run", "call_id": "c"})
    pieces = [delta(text, 0, "custom_tool_call_input") for text in ('a"', '"b', "\n")]
    reply = fold([event for read in feeding(begin, *pieces, END) for event in read])
    assert reply.calls == (ToolCall("run", {"input": 'a""b\n'}, "c"),)


@check_each(
    "odd",
    [
        delta("x", output_index=1),
        delta("x", item_id="other"),
        delta("x").replace(b"\n\n", b"\r\n\r\n"),
        delta("x").replace(b"\n\n", b"\n: remark\n\n"),
        delta("x").replace(b'"delta": "x"', b'"delta": "x",\ndata: "more": 1'),
        delta("x").replace(b"response.output_text", b"response.reasoning_text"),
        delta("x") + delta("y", output_index=1),
        delta("x").replace(b"}\n\n", b"},{}\n\n") + delta("y"),
        delta("x").replace(b"}\n\n", b"\n\n"),
        delta("x").replace(b'"x"', b"7"),
        delta("x").replace(b'"x"', b'"\xff"'),
        delta("x").replace(b'"x"', b"[" * 5000),
        delta("x") + b": remark\n\n" + delta("y"),
        delta("x")[:-1],
        delta(""),
    ],
)
def test_the_shortcut_for_texts_never_changes_what_is_read(odd: bytes):
    data = delta("a") + odd + delta("b") + END
    assert joined(event for read in feeding(delta("a"), odd, delta("b"), END) for event in read) == decode(data)


#: The ways in which servers order the fields of a delta.
LAYOUTS = {
    "number first": '{"type":T,"sequence_number":N,"item_id":"i","output_index":0,"content_index":0,"delta":D}',
    "number first, padded": '{"type":T,"sequence_number":N,"output_index":0,"delta":D,"logprobs":[],"obfuscation":P}',
    "number last": '{"type":T,"item_id":"i","output_index":0,"delta":D,"logprobs":[],"sequence_number":N}',
    "number last, padded": '{"content_index":0,"delta":D,"output_index":0,"type":T,"sequence_number":N,"obfuscation":P}',
    "padding first": '{"obfuscation":P,"type":T,"sequence_number":N,"delta":D}',
    "no number": '{"type":T,"delta":D}',
    "two deltas": '{"type":T,"delta":"x","delta":D}',
    "spaces": '{"type": T, "delta": D, "sequence_number": N}',
}
#: Texts with their numbers and their padding; each differs from the one before by one thing that servers do.
NUMBERED = [
    ("Hel", 8, "ab"),
    ("lo", 9, "c"),
    ("lo", 10, ""),
    (' "q"\n', 11, "x"),
    ("é\u2028", 12, "y"),
    ("plain", 13, "z"),
    ("a gap", 20, "z"),
    ("again", 21, "z-z"),
    ("and", 22, 'z"z'),
    (',"logprobs":[],"obfuscation":"', 23, "z"),
    ("more", 24, "z"),
    ("", 25, "z"),
    ("end", 26, "z"),
]


def laid_out(layout: str, text: str, number: int, padding: str) -> bytes:
    values = {"T": '"response.output_text.delta"', "N": str(number), "P": json.dumps(padding)}
    values["D"] = json.dumps(text, ensure_ascii=False)
    data = re.sub("[TNPD]", lambda found: values[found[0]], LAYOUTS[layout])
    return f"event: response.output_text.delta\ndata: {data}\n\n".encode()


@check_each("together", [1, 2, 3, 13])
@check_each("layout", LAYOUTS)
def test_numbers_and_padding_never_change_what_is_read(layout: str, together: int):
    frames = [laid_out(layout, *row) for row in NUMBERED]
    reads = [b"".join(frames[at : at + together]) for at in range(0, len(frames), together)]
    found = [event for read in feeding(*reads, END) for event in read]
    assert joined(found) == [TextDelta("".join(text for text, _, _ in NUMBERED)), STOP]


def test_a_server_whose_texts_never_look_alike_is_read_too():
    reads = [delta("x", output_index=number) for number in range(2 * reading.MAX_TEMPLATE_ATTEMPTS)]
    assert joined(event for read in feeding(*reads, END) for event in read) == [TextDelta("x" * len(reads)), STOP]


def test_a_text_that_is_no_text_is_mended():
    lone = b'data: {"type":"response.output_text.delta","delta":"a\\ud800\xff"}\n\n'
    assert decode(lone + END) == [
        Noted(Note("invalid_text", "invalid characters were replaced")),
        TextDelta("a\ufffd\ufffd"),
        STOP,
    ]
    whole = b'{"status":"completed","output":[{"type":"message","content":"a\xff"}]}'
    assert decode(whole)[1:] == [TextDelta("a\ufffd"), STOP]


def test_an_event_that_is_no_event_is_skipped():
    assert decode(b"data: 7\n\ndata: [\xff]\n\n" + delta("x") + END)[0] == TextDelta("x")
    assert isinstance(decode(b"data: 7\n\n")[-1], Failure)


@pytest.mark.requirement("R-F16")
@check_each(
    ("data", "failure"),
    [
        (b"", Failure("the upstream returned an empty reply", "truncated")),
        (b" \n", Failure("the upstream returned an empty reply", "truncated")),
        (b"data: 7", Failure("the stream contained no readable events", body="7")),
        (b": hello\n\n", Failure("the stream ended without any events", "truncated", body=": hello")),
        (b"[]", Failure("the upstream's reply is not a response object", body="[]")),
        (b"{", Failure("the upstream's reply is not a response object", body="{")),
    ],
)
def test_an_answer_that_is_none_is_a_failure(data: bytes, failure: Failure):
    assert decode(data, stream=not failure.message.startswith("the upstream"))[-1] == failure


def test_an_error_without_a_name_or_a_type_is_one():
    assert decode(b'data: {"error":{"message":"no"}}\n\n')[-1] == Failure("no", body='{"error":{"message":"no"}}')
    assert decode(b'event: error\ndata: {"message":"no"}\n\n')[-1] == Failure("no", body='{"message":"no"}')


def test_reasoning_without_an_id_has_no_beginning_to_tell():
    item = {"type": "reasoning", "summary": summaries("a", "b")}
    response = {"status": "completed", "output": [item]}
    expected = [ReasoningDelta("a\n\nb"), carried(item), STOP]
    assert decode(json.dumps(response).encode()) == expected
    streamed = delta("a", 0, "reasoning_text", item_id=None) + END
    assert decode(streamed) == [ReasoningDelta("a"), STOP]


def test_pieces_of_one_part_of_reasoning_are_put_together_and_parts_are_told_apart():
    pieces = [
        delta(text, 0, "reasoning_text", item_id=None, content_index=part)
        for part, text in ((0, "a"), (0, "b"), (1, "c"))
    ]
    assert fold(decode(b"".join(pieces) + END)).reasoning == "ab\n\nc"


def test_the_parts_of_reasoning_that_come_whole_are_told_apart():
    data = b"".join(
        event("reasoning_summary_text.done", output_index=0, summary_index=at, text=text)
        for at, text in enumerate(["a", "", "b"])
    )
    assert decode(data + END) == [ReasoningDelta("a\n\nb"), STOP]


def test_a_refusal_that_comes_whole_is_text():
    note = Noted(Note("refusal", "the upstream marked this text as a refusal"))
    assert decode(event("refusal.done", output_index=0, content_index=0, refusal="No.") + END) == [
        note,
        TextDelta("No."),
        STOP,
    ]
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    assert decode(event("output_item.done", output_index=0, item=item) + END) == [note, TextDelta("No."), STOP]


def test_an_item_that_is_announced_twice_is_one():
    item = {"type": "function_call", "id": "fc", "name": "f", "call_id": "c"}
    begin = event("output_item.added", output_index=0, item=item)
    done = event("output_item.done", output_index=0, item=item | {"arguments": "{}"})
    assert decode(begin + begin + done + done + END) == [*call(0, "f", "{}", "c"), CALLS]


def test_an_item_that_the_response_numbers_otherwise_is_not_read_twice():
    item = {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"a":1}'}
    done = event("output_item.done", output_index=3, item=item)
    last = event("completed", response={"status": "completed", "output": [item]})
    assert decode(done + last) == [*call(0, "f", '{"a":1}', "c"), CALLS]


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **fields}


def function(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": f'{{"a":{number}}}', **fields}


def completed(*items: Any) -> bytes:
    return event("completed", response={"status": "completed", "output": items})


def test_every_item_of_a_response_that_is_not_streamed_is_read():
    items = [message("one", id="x"), function(1, id="x"), message("two", id="x"), function(2, id="x"), message("3")]
    expected = [
        TextDelta("one"),
        *call(0, "f", '{"a":1}', "c1"),
        TextDelta("two"),
        *call(1, "f", '{"a":2}', "c2"),
        TextDelta("3"),
        CALLS,
    ]
    assert decode(json.dumps({"status": "completed", "output": items}).encode()) == expected
    assert decode(completed(*items)) == expected


def test_calls_with_one_item_id_are_several_even_without_arguments():
    items = [function(1, id="x", arguments=""), function(2, id="x")]
    reply = fold(decode(completed(*items)))
    assert [(one.id, one.arguments) for one in reply.calls] == [("c1", {}), ("c2", {"a": 2})]


@check_each(
    "streamed, items, text",
    [
        pytest.param([(0, "a")], [message("one", id="a"), message("two", id="b")], "one.two", id="the second is new"),
        pytest.param([(0, "a")], [message("one", id="a")], "one.", id="nothing is new"),
        pytest.param([(5, "z")], [message("one", id="a")], "one.", id="numbered otherwise"),
        pytest.param([(None, "a")], [message("one", id="a")], "one.", id="not numbered"),
        pytest.param([(0, "a")], [{"type": "reasoning"}, message("one", id="a")], "one.", id="reasoning not counted"),
        pytest.param([(0, "a"), (0, "b")], [message("x", id="a"), message("y", id="b")], "one.one.", id="one number"),
    ],
)
def test_a_message_of_the_last_event_is_read_unless_the_stream_gave_it(
    streamed: list[tuple[Any, str]], items: list[Any], text: str
):
    pieces = [delta("one.", output_index=at, item_id=name) for at, name in streamed]
    assert fold(decode(b"".join(pieces) + completed(*items))).text == text
    at, name = streamed[0]
    whole = event("output_text.done", output_index=at, content_index=0, item_id=name, text="one.")
    assert fold(decode(whole + completed(*items[:1]))).text == "one."


def test_a_call_that_only_the_last_event_has_is_read_though_its_item_id_is_known():
    done = event("output_item.done", output_index=0, item=function(1, id="x"))
    reply = fold(decode(done + completed(function(1, id="x"), function(2, id="x"))))
    assert [one.id for one in reply.calls] == ["c1", "c2"]


def phase(word: str) -> Event:
    return OpaqueSeen(Opaque("start:message", {"phase": word}))


def test_the_phase_of_a_message_comes_before_its_text():
    first, last = message("one", phase="commentary"), message("two", phase="final_answer")
    expected = [phase("commentary"), TextDelta("one"), phase("final_answer"), TextDelta("two"), STOP]
    assert decode(completed(first, last)) == expected
    streamed = b"".join(
        event("output_item.added", output_index=at, item=item | {"content": []})
        + delta(item["content"][0]["text"], output_index=at, item_id=f"m{at}")
        + event("output_item.done", output_index=at, item=item)
        for at, item in enumerate((first, last))
    )
    assert decode(streamed + completed(first, last)) == expected


def test_a_phase_that_comes_behind_the_text_is_noted():
    done = event("output_item.done", output_index=0, item=message("one", phase="commentary"))
    late = Noted(Note("phase_dropped", "the phase `commentary` arrived after the text"))
    assert decode(delta("one") + done + END) == [TextDelta("one"), late, STOP]


def test_a_call_without_a_number_is_known_by_its_id():
    piece = delta('{"a":1}', 0, "function_call_arguments", item_id="x", output_index=None)
    done = event("output_item.done", item=function(1, id="x"))
    assert decode(piece + done + END) == [*call(0, "f", '{"a":1}', "c1"), CALLS]


def test_a_call_that_contradicts_itself_in_the_response_is_a_failure():
    begin = event("output_item.added", output_index=0, item={"type": "function_call", "name": "f", "call_id": "c"})
    item = {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"a":2}'}
    last = event("completed", response={"status": "completed", "output": [item, item]})
    piece = delta('{"a":1}', 0, "function_call_arguments")
    assert isinstance(decode(begin + piece + last)[-1], Failure)


def test_an_id_that_is_missing_is_that_of_the_item_or_nothing():
    items = [
        {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "name": "f", "arguments": "{}"},
    ]
    reply = fold(decode(json.dumps({"status": "completed", "output": items}).encode()))
    assert [one.id for one in reply.calls] == ["fc_1", ""]


def test_calls_have_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(openai_responses_calls, "MAX_CALLS", 2)
    items = [{"type": "function_call", "name": "f", "call_id": f"c{at}", "arguments": "{}"} for at in range(4)]
    reply = fold(decode(json.dumps({"status": "completed", "output": items}).encode()))
    assert [one.id for one in reply.calls] == ["c0", "c1"]
    assert Note("calls_dropped", "calls after the first 2 were dropped") in reply.notes


def test_finished_says_whether_the_end_was_seen():
    decoder = ReplyDecoder(stream=True)
    decoder.feed(delta("x"))
    assert not decoder.finished
    decoder.feed(END)
    assert decoder.finished


def test_a_stream_without_an_output_at_its_end_is_complete():
    assert decode(delta("x") + event("completed") + b"") == [TextDelta("x"), STOP]
    assert decode(delta("x") + event("incomplete", response=7))[-1] == Finish("length")


# --------------------------------------------------------------------------------------------------- any bytes

SCRAPS = [
    fixture(name) for name in ("plain_text.sse", "parallel_calls.sse", "whole_items.json", "custom_tool_call.sse")
]


@pytest.mark.requirement("R-F25")
@given(st.sampled_from(SCRAPS), st.randoms(), st.booleans())
def test_no_bytes_raise(data: bytes, chance: random.Random, stream: bool):
    broken = bytearray(data)
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(broken))
        broken[at : at + chance.randrange(3)] = bytes(chance.choices(b'{}[]",:0an\n\\\xff', k=chance.randrange(3)))
    events = decode(bytes(broken), stream)
    assert isinstance(events[-1], Finish | Failure)
    fold(events)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["message", "reasoning", "function_call", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from("type id call_id name arguments content summary text".split()), inner, max_size=4
        )
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from("output_index item_id content_index delta text item arguments input response error".split()), JSON
)
KINDS = (
    "output_text.delta refusal.done reasoning_text.delta reasoning_summary_text.done function_call_arguments.delta"
    " custom_tool_call_input.done output_item.added output_item.done completed incomplete"
).split()


@given(st.lists(st.tuples(st.sampled_from(KINDS), FIELDS), max_size=5))
def test_no_event_raises(listed: list[tuple[str, dict[str, Any]]]):
    data = b"".join(event(kind, **fields) for kind, fields in listed)
    whole = decode(data)
    assert not whole or isinstance(whole[-1], Finish | Failure)
    for reads in ways(data, "x", 1) if data else ():
        assert fed(ReplyDecoder(stream=True), reads) == whole


# ------------------------------------------------------------------------------------------------------ linear


def seconds(reads: Iterable[bytes]) -> float:
    decoder = ReplyDecoder(stream=True)
    begun = time.process_time()
    for read in reads:
        decoder.feed(read)
    return time.process_time() - begun


@pytest.mark.no_cover
def test_time_is_linear_in_the_length():
    def pieces(count: int) -> list[bytes]:
        return [delta("x", number, "function_call_arguments") for number in range(count)]

    few = min(seconds(pieces(2000)) for _ in range(3))
    many = min(seconds(pieces(8000)) for _ in range(3))
    assert many < 12 * few + 0.05


def strays(count: int) -> bytes:
    """Texts, and messages that none of them belongs to."""
    return b"".join(delta("x", output_index=10**6 + at) for at in range(count)) + completed(
        *({"type": "message", "id": f"m{at}", "content": []} for at in range(count))
    )


def customs(count: int) -> bytes:
    """Calls of custom tools that do not end, and many other things behind them."""
    begun = [{"type": "custom_tool_call", "id": f"i{at}", "call_id": f"c{at}", "name": "f"} for at in range(count // 8)]
    return completed(*begun, *({"type": "x"} for _ in range(count)))


def namesakes(count: int) -> bytes:
    """Calls that share the id of their item."""
    return completed(*(function(at, id="x") for at in range(count)))


@pytest.mark.no_cover
@check_each("hostile", [strays, customs, namesakes])
def test_the_last_event_takes_time_in_proportion_to_its_length(hostile: Callable[[int], bytes]):
    def make(count: int) -> Callable[[], object]:
        data = hostile(count)
        return lambda: ReplyDecoder(stream=True).feed(data)

    assert_linear(make, 8000)
