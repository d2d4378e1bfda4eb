"""What upstreams answer: every shape that servers are known for, read the same however its bytes are cut."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
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
    UsageSeen,
    fold,
)
from toolspeak.core.types import Note, Opaque, ToolCall, Usage
from toolspeak.protocols.openai_chat import ReplyDecoder
from toolspeak.protocols.openai_chat import reply_decoder as openai_chat_calls
from toolspeak.protocols.shared import reply_decoder as reading

FIXTURES = Path(__file__).parent / "fixtures" / "openai_chat"


def call(index: int, name: str, arguments: str, identifier: str, *notes: Note) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments), CallEnd(index, notes=notes)]


def started(index: int, name: str, arguments: str, identifier: str) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments)]


OBJECT = Note("arguments_object", "the arguments were sent as JSON, not as text")
MISSING = Note("arguments_missing", "the call has no arguments")
STOP = Finish("stop")
CALLS = Finish("tool_calls")
EARLY = Failure("the stream ended before the reply was complete", "truncated")

#: Situation -> what it means, adjacent deltas joined. The first characters of `Failure.body` are enough.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.sse": [TextDelta("Hello, wörld \u2028 😀"), STOP],
    "padded_chunks.sse": [TextDelta("one two three"), STOP],
    "usage_after_finish.sse": [TextDelta("Hi"), UsageSeen(Usage(12, 3, 8, 2)), STOP],
    "usage_in_odd_places.sse": [TextDelta("Hi"), UsageSeen(Usage(3, 4, 0)), STOP],
    "parallel_calls.sse": [
        *started(0, "get_weather", '{"city":"Paris"}', "call_a"),
        *started(1, "get_time", '{"zone":"UTC"}', "call_b"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "interleaved_calls.sse": [
        *started(0, "f", '{"a":', "call_a"),
        *started(1, "g", '{"b":2}', "call_b"),
        CallArgs(0, "1}"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "one_index_for_all_calls.sse": [
        *started(0, "f", '{"a":1}', "call_a"),
        *started(1, "f", '{"a":2}', "call_b"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "one_index_without_ids.sse": [
        *started(0, "f", '{"a":1}', ""),
        *started(1, "f", '{"a":2}', ""),
        *started(2, "g", "{}", ""),
        CallEnd(0),
        CallEnd(1),
        CallEnd(2),
        CALLS,
    ],
    "no_index.sse": [
        *started(0, "f", '{"a":1}', "call_a"),
        *started(1, "g", "{}", "call_b"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "name_repeated_and_split.sse": [
        *started(0, "get_weather", '{"city":"Rome"}', "call_a"),
        *started(1, "f", '{"a":1}', "call_b"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "new_id_in_each_piece.sse": [*call(0, "f", '{"a":1}', "x1"), CALLS],
    "arguments_as_object.sse": [
        *started(0, "f", '{"a":[1,null]}', "call_a"),
        CallEnd(0, notes=(OBJECT,)),
        *call(1, "g", "{}", "call_b", MISSING),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `stop`")),
        CALLS,
    ],
    "duplicate_ids.sse": [
        *started(0, "f", "{}", "x"),
        *started(1, "f", "{}", ""),
        CallEnd(0),
        CallEnd(1, notes=(Note("duplicate_call_id", "the call id `x` was used twice"),)),
        CALLS,
    ],
    "reasoning_content.sse": [
        ReasoningDelta("Let me think."),
        TextDelta("42!"),
        UsageSeen(Usage(5, 7, 4)),
        STOP,
    ],
    "reasoning_with_details.sse": [
        ReasoningDelta("Hm"),
        OpaqueSeen(Opaque("reasoning_details", [{"type": "reasoning.text", "text": "Hm"}])),
        TextDelta("Yes"),
        STOP,
    ],
    "thinking_parts.sse": [
        ReasoningDelta("So"),
        TextDelta("Done"),
        OpaqueSeen(Opaque("reference", {"type": "reference", "reference_ids": [1]})),
        STOP,
    ],
    "refusal.sse": [
        Noted(Note("refusal", "the upstream marked this text as a refusal")),
        TextDelta("I can't do that."),
        STOP,
    ],
    "error_inside_stream.sse": [
        TextDelta("Half an"),
        Failure(
            "The server is overloaded", "upstream", 503, '{"error":{"message":"The server', error_type="server_error"
        ),
    ],
    "error_event.sse": [Failure("quota exceeded", "upstream", 429, '{"message":"quota')],
    "error_in_choice.sse": [TextDelta("Ha"), Failure("Provider returned error", "upstream", 502, '{"id":"chatcmpl')],
    "cut_by_length_inside_a_call.sse": [
        *started(0, "f", '{"a":1}', "call_a"),
        *started(1, "write", '{"text":"once up', "call_b"),
        CallEnd(0),
        Finish("length"),
    ],
    "ended_without_finish.sse": [TextDelta("Once upon"), EARLY],
    "done_without_finish.sse": [TextDelta("Once upon"), EARLY],
    "ended_inside_a_call.sse": [*started(0, "write", '{"text":"once', "call_a"), EARLY],
    "finish_without_done.sse": [TextDelta("Hi"), STOP],
    "last_event_cut.sse": [
        TextDelta("Hi"),
        Noted(
            Note(
                "bad_events", 'unreadable events: 1; the first: {"id":"chatcmpl-1","object":"chat.completion.chunk","c'
            )
        ),
        EARLY,
    ],
    "bad_event_among_good.sse": [
        TextDelta("ab"),
        Noted(Note("bad_events", 'unreadable events: 1; the first: {"choices":[{"delta":{"content":"lost')),
        STOP,
    ],
    "bad_event_inside_a_call.sse": [
        *started(0, "f", '{"a":', "call_a"),
        Noted(Note("bad_events", 'unreadable events: 1; the first: {"choices":[{"del')),
        Failure("an event inside a call could not be decoded", body='{"choices":[{"del'),
    ],
    "old_function_call.sse": [*call(0, "f", '{"a":1}', ""), CALLS],
    "custom_tool_call.sse": [*call(0, "run_code", '{"input":"print(\\"hi\\")\\n# é"}', "call_a"), CALLS],
    "null_and_empty_fields.sse": [TextDelta("ok"), UsageSeen(Usage(0, 0, 0)), STOP],
    "several_lines_of_data.sse": [TextDelta("xy"), STOP],
    "two_choices.sse": [
        TextDelta("a"),
        Noted(Note("other_choices_dropped", "the upstream sent several choices; only the first was used")),
        TextDelta("b"),
        STOP,
    ],
    "finish_reason_stop_with_calls.sse": [
        *call(0, "f", "{}", "call_a"),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `stop`")),
        CALLS,
    ],
    "finish_reason_calls_without_calls.sse": [
        TextDelta("Hi"),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `tool_calls`")),
        STOP,
    ],
    "finish_reason_unknown.sse": [
        TextDelta("Hi"),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `banana`")),
        STOP,
    ],
    "stopped_by_error.sse": [TextDelta("Hi"), Failure("the upstream stopped with `network_error`")],
    "after_the_end.sse": [TextDelta("Hi"), STOP],
    "an_html_page.sse": [Failure("the upstream's reply is not a chat completion", body="<html><body>502")],
    "whole_text.json": [TextDelta("Hello"), UsageSeen(Usage(9, 1, 0)), STOP],
    "whole_calls.json": [
        ReasoningDelta("Hm"),
        *started(0, "f", '{"a": 1}', "call_a"),
        CallEnd(0),
        *call(1, "g", "{}", "call_b", MISSING),
        CALLS,
    ],
    "whole_without_finish.json": [
        TextDelta("Hi"),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `missing`")),
        STOP,
    ],
    "whole_error.json": [
        Failure(
            "Model not found",
            body='{ "error": { "message": "Model',
            code="model_not_found",
            error_type="invalid_request_error",
            param="model",
        )
    ],
    "whole_detail.json": [Failure("Not Found", body='{ "detail": "Not Found" }')],
    "whole_without_choices.json": [Failure("the upstream's reply has no choices", body='{ "id": "chatcmpl-1"')],
}


def joined(events: Iterable[Event]) -> list[Event]:
    """Adjacent deltas of one kind as one, and bodies of failures shortened."""
    out: list[Event] = []
    for event in events:
        match out[-1] if out else None, event:
            case (TextDelta(before), TextDelta(text)):
                out[-1] = TextDelta(before + text)
            case (ReasoningDelta(before), ReasoningDelta(text)):
                out[-1] = ReasoningDelta(before + text)
            case (CallArgs(index, before), CallArgs(same, fragment)) if index == same:
                out[-1] = CallArgs(index, before + fragment)
            case _:
                out.append(event)
    return out


def shortened(events: Iterable[Event], like: list[Event]) -> list[Event]:
    """The events with no more of a failure's body than the expected one has."""
    sizes = [len(event.body) for event in like if isinstance(event, Failure)]
    return [
        msgspec.structs.replace(event, body=event.body[: sizes[0]]) if isinstance(event, Failure) and sizes else event
        for event in events
    ]


def decode(data: bytes, cuts: Iterable[int] = (), stream: bool = True) -> list[Event]:
    decoder = ReplyDecoder(stream)
    events: list[Event] = []
    for begin, end in pairwise([0, *cuts, len(data)]):
        events += decoder.feed(data[begin:end])
    return joined(events + decoder.close())


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def test_every_fixture_has_an_expectation():
    assert {path.name for path in FIXTURES.iterdir() if path.is_file()} == EXPECTED.keys()


@pytest.mark.requirement("B10", "R-F7", "R-F16", "R-F19", "R-F21", "R-F22", "R-F23", "R-F24", "R-F25")
@check_each("name", EXPECTED)
def test_every_situation_is_read_as_it_is_meant(name: str):
    expected = EXPECTED[name]
    assert shortened(decode(fixture(name)), expected) == expected


STYLES = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "no space": lambda data: data.replace(b"data: ", b"data:"),
    "blank lines first": lambda data: b"\n \n\n" + data,
}


@pytest.mark.no_cover
@pytest.mark.requirement("R-F10", "R-F11", "R-F12")
@check_each("style", STYLES)
@check_each("name", EXPECTED)
def test_every_style_of_framing_means_the_same(name: str, style: str):
    data = STYLES[style](fixture(name))
    whole = decode(data)
    assert without_bodies(whole) == without_bodies(EXPECTED[name])
    assert decode(data, range(1, len(data))) == whole


def without_bodies(events: list[Event]) -> list[Event]:
    """A body is shown as it came, so it differs by style."""
    return [msgspec.structs.replace(event, body="") if isinstance(event, Failure) else event for event in events]


@pytest.mark.requirement("G1", "R-F15")
@check_each("stream", [True, False])
@check_each("name", EXPECTED)
def test_no_cut_changes_the_events(name: str, stream: bool):
    data = fixture(name)
    whole = decode(data, (), stream)
    assert decode(data, range(1, len(data)), stream) == whole
    chance = random.Random(name)
    for _ in range(25):
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12)))
        assert decode(data, cuts, stream) == whole


@pytest.mark.requirement("R-F46")
@check_each("name", EXPECTED)
def test_what_was_asked_for_does_not_matter(name: str):
    assert decode(fixture(name), (), stream=False) == decode(fixture(name), (), stream=True)


@pytest.mark.requirement("B6")
def test_a_call_that_was_cut_is_not_among_the_calls_of_the_reply():
    reply = fold(decode(fixture("cut_by_length_inside_a_call.sse")))
    assert reply.calls == (ToolCall("f", {"a": 1}, "call_a"),)
    assert (reply.finish_reason, reply.complete) == ("length", False)


def test_one_read_gives_one_delta_of_each_kind():
    events = ReplyDecoder(stream=True).feed(fixture("parallel_calls.sse"))
    assert events == EXPECTED["parallel_calls.sse"]


# ------------------------------------------------------------------------------------------------ chunk by chunk


def chunk(delta: str, more: str = "", index: str = "0") -> bytes:
    return f'data: {{"choices":[{{"index":{index},"delta":{delta}}}]{more}}}\n\n'.encode()


def finish(reason: str) -> bytes:
    return f'data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}\n\n'.encode()


AUDIO = chunk('{"audio":"x"}')


def fed(*reads: bytes) -> list[Event]:
    decoder = ReplyDecoder(stream=True)
    events = [event for data in reads for event in decoder.feed(data)]
    return joined(events + decoder.close())


TEXT = chunk('{"content":"a"}')
THOUGHT = chunk('{"reasoning_content":"t"}')
BEGIN = chunk('{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]}')
ARGS = chunk('{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}')
CLOSE = chunk('{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}')
NEXT = chunk('{"tool_calls":[{"index":0,"id":"y","function":{"name":"g","arguments":"{"}}]}')
NAMELESS = chunk('{"tool_calls":[{"index":7,"function":{"arguments":" "}}]}')
FOREIGN = chunk('{"content":"X"}', index="1")


@given(
    st.lists(
        st.sampled_from([TEXT, THOUGHT, BEGIN, ARGS, CLOSE, NEXT, NAMELESS, FOREIGN, AUDIO, b": ping\n\n", b"\n"]),
        max_size=30,
    )
)
def test_the_shortcut_for_runs_of_text_changes_nothing(reads: list[bytes]):
    reads = [TEXT, *reads, finish("stop")]
    # One byte at a time no shortcut can be taken.
    slow = fed(*(bytes([byte]) for byte in b"".join(reads)))
    assert fed(*reads) == slow
    assert fed(b"".join(reads)) == slow
    pairs = [b"".join(reads[at : at + 2]) for at in range(0, len(reads), 2)]
    assert fed(*pairs) == slow


def test_arguments_go_to_the_call_that_took_over_the_index():
    events = fed(BEGIN, ARGS, ARGS, CLOSE, NEXT, ARGS, ARGS, CLOSE, finish("tool_calls"))
    assert [call.id for call in fold(events).calls] == ["x", "y"]


def test_a_server_whose_chunks_never_repeat_is_read_all_the_same():
    reads = [chunk(f'{{"content":"{n} "}}', f',"padding":{n}') for n in range(20)]
    assert fed(*reads, finish("stop"))[0] == TextDelta("".join(f"{n} " for n in range(20)))


@pytest.mark.requirement("R-F15")
def test_bytes_that_are_no_text_are_replaced_and_noted_once():
    bad = chunk('{"content":"a"}').replace(b'"a"', b'"\xff\xfe"')
    events = fed(bad, bad, chunk('{"content":"\\ud83d!"}'), chunk('{"content":"b\x01"}'), finish("stop"))
    assert events[0] == Noted(Note("invalid_text", "invalid characters were replaced"))
    assert events[1:] == [TextDelta("\ufffd\ufffd\ufffd\ufffd\ufffd!b\x01"), STOP]


@pytest.mark.requirement("R-F17")
@check_each("length", [1_000_000, 17 * 1024 * 1024])
def test_a_line_beyond_the_limit_fails_and_a_long_one_does_not(length: int):
    events = fed(chunk(f'{{"content":"{"x" * length}"}}'), finish("stop"))
    if length < 16 * 1024 * 1024:
        assert [type(event) for event in events] == [TextDelta, Finish]
    else:
        assert events == [Failure("an event is larger than 16777216 bytes")]


def test_a_body_beyond_the_limit_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MAX_BODY", 10)
    decoder = ReplyDecoder(stream=False)
    assert decoder.feed(b'{"a":1') == []
    assert decoder.feed(b',"b":2') == [Failure("the reply is larger than 10 bytes", body='{"a":1,"b":2')]
    assert decoder.feed(b"}") == []
    assert decoder.close() == []


def test_calls_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(openai_chat_calls, "MAX_CALLS", 1)
    events = fed(BEGIN, CLOSE, NEXT, finish("stop"))
    assert [call.name for call in fold(events).calls] == ["f"]
    assert "calls_dropped" in [note.code for note in fold(events).notes]


@check_each("stream", [True, False])
@check_each("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xef"])
def test_nothing_is_a_truncated_answer(data: bytes, stream: bool):
    events = decode(data, (), stream)
    assert [(type(event), event.kind) for event in events if isinstance(event, Failure)] == [(Failure, "truncated")]


def test_a_stream_of_nothing_but_garbage_shows_its_beginning():
    events = decode(b"data: hello\n\ndata: world\n\n")
    assert events[-1] == Failure("the stream contained no readable events", body="hello")


def test_a_whole_answer_with_a_byte_order_mark_is_read():
    assert decode(b"\xef\xbb\xbf" + fixture("whole_text.json"), (), stream=False)[0] == TextDelta("Hello")


@check_each(
    ("body", "message"),
    [
        (b'{"choices":{}}', "the upstream's reply is not a chat completion"),
        (b"[" * 100_000, "the upstream's reply is not a chat completion"),
        (b'{"object":"error","message":"too long","code":400}', "too long"),
        (b'{"error":"out of memory"}', "out of memory"),
        (b'{"error":{"code":500}}', "the upstream returned an error without a message"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(body: bytes, message: str):
    events = decode(body, (), stream=False)
    assert [event.message for event in events if isinstance(event, Failure)] == [message]
    assert len(events[-1].body) <= 200  # type: ignore[union-attr]


def test_an_error_that_is_no_json_is_shown():
    assert fed(b"event: error\ndata: out of luck\n\n") == [Failure("out of luck", body="out of luck")]


def test_nothing_is_read_behind_an_error():
    choices = '{"index":0,"error":"broken"},{"index":0,"delta":{"content":"x"}}'
    events = fed(f'data: {{"choices":[{choices}]}}\n\n'.encode(), TEXT)
    assert [type(event) for event in events] == [Failure]


def test_a_failure_still_tells_what_was_used():
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n'
    assert fed(TEXT, usage)[1:] == [UsageSeen(Usage(7, 1)), EARLY]


@check_each(
    ("delta", "expected"),
    [
        (
            '{"content":["a",{"type":"text"}]}',
            [TextDelta("a"), OpaqueSeen(Opaque("text", {"type": "text"}))],
        ),
        ('{"content":[7]}', [Noted(Note("content_part_dropped", "7"))]),
        ('{"content":{"odd":1}}', []),
        ('{"content":[{"type":"thinking","thinking":7}]}', []),
        ('{"content":[{"type":"reasoning","text":"r"}]}', [ReasoningDelta("r")]),
        ('{"reasoning":{"odd":1}}', []),
        ('{"refusal":{"odd":1}}', []),
        ('{"thinking":"t"}', [ReasoningDelta("t")]),
        ('{"annotations":[{"type":"url_citation"}]}', [OpaqueSeen(Opaque("annotations", [{"type": "url_citation"}]))]),
    ],
)
def test_odd_content_is_carried_noted_or_ignored(delta: str, expected: list[Event]):
    assert fed(chunk(delta), finish("stop")) == [*expected, STOP]


@check_each("piece", ["{}", '{"index":0}', '{"function":null,"id":7}', '{"function":{"name":9,"arguments":""}}'])
def test_a_call_without_a_name_is_no_call(piece: str):
    events = fed(TEXT, chunk(f'{{"tool_calls":[{piece}]}}'), finish("stop"))
    assert events == [TextDelta("a"), Noted(Note("call_without_name", "a call without a tool name was dropped")), STOP]


def named(text: str) -> bytes:
    """A piece of a call that repeats its name, without ids and with one index for all."""
    arguments = msgspec.json.encode(text).decode()
    return chunk(f'{{"tool_calls":[{{"index":0,"function":{{"name":"f","arguments":{arguments}}}}}]}}')


@pytest.mark.requirement("R-F22")
def test_a_name_in_every_piece_begins_no_call_before_the_last_one_is_whole():
    arguments = {"a": '}{"\\ \\"', "b": [{"c": ["]"]}, {}]}
    text = msgspec.json.encode(arguments).decode()
    events = fed(*map(named, text), named(" "), *map(named, text), finish("tool_calls"))
    assert [call.arguments for call in fold(events).calls] == [arguments, arguments]


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
def test_long_arguments_with_a_name_in_every_piece_take_linear_time():
    def spent(count: int) -> float:
        reads = [named('{"a":"'), *([named("x}")] * count)]
        begun = time.process_time()
        fed(*reads)
        return time.process_time() - begun

    small = min(spent(1000) for _ in range(3))
    assert min(spent(8000) for _ in range(2)) < 20 * small


@check_each("kind", ["function", "custom"])
def test_a_name_may_come_behind_the_arguments(kind: str):
    key, text = ("arguments", "{") if kind == "function" else ("input", "a")
    first = chunk(f'{{"tool_calls":[{{"index":0,"{kind}":{{"{key}":"{text}"}}}}]}}')
    second = chunk(f'{{"tool_calls":[{{"index":0,"{kind}":{{"name":"f"}}}}]}}')
    third = chunk(f'{{"tool_calls":[{{"index":0,"{kind}":{{"{key}":"{"}" if kind == "function" else "b"}"}}}}]}}')
    expected = {} if kind == "function" else {"input": "ab"}
    assert fold(fed(first, second, third, finish("stop"))).calls == (ToolCall("f", expected),)


@check_each("reason", ["length", "content_filter"])
def test_custom_calls_are_whole_when_another_call_came_behind_them(reason: str):
    first = chunk('{"tool_calls":[{"index":0,"id":"x","custom":{"name":"run","input":"ab"}}]}')
    second = chunk('{"tool_calls":[{"index":1,"id":"y","custom":{"name":"run","input":"cd"}}]}')
    reply = fold(fed(first, second, finish(reason)))
    assert reply.calls == (ToolCall("run", {"input": "ab"}, "x"),)


def test_a_decoder_knows_when_a_broken_connection_loses_nothing():
    decoder = ReplyDecoder(stream=True)
    decoder.feed(TEXT)
    assert not decoder.finished
    decoder.feed(finish("stop"))
    assert decoder.finished
    assert decoder.close() == [STOP]


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(data: bytes, stream: bool):
    events = decode(data, range(0, len(data), 7), stream)
    assert isinstance(events[-1], Failure | Finish)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "f", "stop", "[DONE]"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "choices delta message content tool_calls function custom name arguments input index id usage"
                " finish_reason error reasoning_content refusal function_call prompt_tokens type text".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(st.lists(JSON, max_size=4))
def test_no_json_raises(values: list[object]):
    data = b"".join(b"data: " + msgspec.json.encode({"choices": [value]}) + b"\n\n" for value in values)
    events = decode(data + finish("stop"))
    assert isinstance(events[-1], Failure | Finish)
    fold(events)
