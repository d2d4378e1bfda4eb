"""What upstreams answer over the Messages API: every shape, read the same however its bytes are cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.streams import STYLES, cut, fed, joined, ways, with_bodies
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
from toolspeak.core.model import Note, Opaque, ToolCall, Usage
from toolspeak.protocols import anthropic_reply, reading
from toolspeak.protocols.anthropic import ReplyDecoder, decode_error

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"


def opaque(kind: str, data: Any) -> OpaqueSeen:
    return OpaqueSeen(Opaque(kind, data))


def noted(code: str, detail: str) -> Noted:
    return Noted(Note(code, detail))


def begun(index: int, name: str, arguments: str, identifier: str) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments)]


def call(index: int, name: str, arguments: str, identifier: str, *notes: Note) -> list[Event]:
    return [*begun(index, name, arguments, identifier), CallEnd(index, notes=notes)]


USED = UsageSeen(Usage(25, 15))
DONE: list[Event] = [USED, Finish("stop")]
CALLED: list[Event] = [USED, Finish("tool_calls")]
STARTED = UsageSeen(Usage(25, 1))
EARLY = Failure("the stream ended before the answer did", "truncated")
CITATION = {
    "type": "char_location",
    "cited_text": "The grass is green.",
    "document_index": 0,
    "document_title": "Facts",
    "start_char_index": 0,
    "end_char_index": 20,
}
SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM"}

#: Situation -> what it means, adjacent deltas joined. The first ten characters of `Failure.body` are enough.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.sse": [TextDelta("Hello, wörld \u2028 😀"), *DONE],
    "text_then_call.sse": [
        TextDelta("Okay, let me see."),
        *call(0, "get_weather", '{"city": "Paris"}', "toolu_a"),
        UsageSeen(Usage(472, 89)),
        Finish("tool_calls"),
    ],
    "parallel_calls.sse": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "g", '{"b":2}', "toolu_b"),
        *CALLED,
    ],
    "call_without_arguments.sse": [
        CallStart(0, "now", "toolu_a"),
        CallStart(1, "now", "toolu_b"),
        CallArgs(0, "{}"),
        CallEnd(0),
        CallArgs(1, "{}"),
        CallEnd(1),
        *CALLED,
    ],
    "thinking_with_signature.sse": [
        ReasoningDelta("Let me see."),
        opaque("thinking", SIGNED),
        TextDelta("Yes."),
        *DONE,
    ],
    "thinking_without_signature.sse": [ReasoningDelta("Hm."), TextDelta("Yes."), *DONE],
    "thinking_omitted.sse": [
        opaque("thinking", {"type": "thinking", "thinking": "", "signature": "EqQB"}),
        TextDelta("Yes."),
        *DONE,
    ],
    "redacted_thinking.sse": [
        opaque("redacted_thinking", {"type": "redacted_thinking", "data": "EmwKAhgB"}),
        TextDelta("Yes."),
        *DONE,
    ],
    "citations.sse": [
        TextDelta("I read: grass is green"),
        opaque("citations", [CITATION]),
        TextDelta("."),
        *DONE,
    ],
    "web_search.sse": [
        TextDelta("I'll look."),
        opaque(
            "server_tool_use",
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weather"}},
        ),
        opaque(
            "web_search_tool_result",
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "W",
                        "url": "https://example.com",
                        "encrypted_content": "EqgfC",
                        "page_age": None,
                    }
                ],
            },
        ),
        TextDelta("Sunny."),
        opaque("usage", {"server_tool_use": {"web_search_requests": 1}}),
        UsageSeen(Usage(10682, 510)),
        Finish("stop"),
    ],
    "toolset_call.sse": [
        opaque("tool_use", {"id": "toolu_a", "toolset_name": "computer"}),
        *call(0, "left_click", '{"x":1}', "toolu_a"),
        *CALLED,
    ],
    "cache_usage.sse": [
        TextDelta("Hi"),
        opaque("usage", {"cache_creation_input_tokens": 200, "service_tier": "standard"}),
        UsageSeen(Usage(3210, 7, 3000)),
        Finish("stop"),
    ],
    "stop_sequence.sse": [
        TextDelta("Hi"),
        opaque("stop", {"stop_reason": "stop_sequence", "stop_sequence": "END"}),
        *DONE,
    ],
    "paused_turn.sse": [TextDelta("Hi"), opaque("stop", {"stop_reason": "pause_turn"}), *DONE],
    "refusal.sse": [
        TextDelta("I"),
        opaque(
            "stop",
            {
                "stop_reason": "refusal",
                "stop_details": {"type": "refusal", "category": "cyber", "explanation": None},
            },
        ),
        USED,
        Finish("content_filter"),
    ],
    "context_window_exceeded.sse": [
        TextDelta("Hi"),
        opaque("stop", {"stop_reason": "model_context_window_exceeded"}),
        USED,
        Finish("length"),
    ],
    "compaction.sse": [
        opaque("compaction", {"type": "compaction", "content": "So far: all", "encrypted_content": "Eq"}),
        TextDelta("Hi"),
        *DONE,
    ],
    "cut_by_length_inside_a_call.sse": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        *begun(1, "write", '{"text":"once up', "toolu_b"),
        USED,
        Finish("length"),
    ],
    "cut_by_length_before_arguments.sse": [
        CallStart(0, "now", "toolu_a"),
        CallStart(1, "write", "toolu_b"),
        CallArgs(0, "{}"),
        CallEnd(0),
        USED,
        Finish("length"),
    ],
    "error_first.sse": [Failure("Overloaded", "upstream", 529, '{"type":"e')],
    "error_inside_stream.sse": [
        TextDelta("Half an"),
        STARTED,
        Failure("Internal server error", "upstream", 500, '{"type":"e'),
    ],
    "error_that_is_no_json.sse": [STARTED, Failure("out of luck", body="out of luc")],
    "unknown_events.sse": [
        noted("unknown_event", "an event of type `new_thing` was skipped"),
        noted("unknown_delta", "a delta of type `new_delta` was skipped"),
        TextDelta("Hi"),
        *DONE,
    ],
    "unknown_block.sse": [
        opaque("hologram", {"type": "hologram", "beam": "ab", "size": 2}),
        TextDelta("Hi"),
        *DONE,
    ],
    "ended_without_finish.sse": [TextDelta("Once upon"), STARTED, EARLY],
    "ended_inside_a_call.sse": [*begun(0, "write", '{"text":"once', "toolu_a"), STARTED, EARLY],
    "finish_without_message_stop.sse": [TextDelta("Hi"), *DONE],
    "message_stop_without_finish.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream said `missing`"),
        STARTED,
        Finish("stop"),
    ],
    "last_event_cut.sse": [
        TextDelta("Hi"),
        noted("bad_events", '1 unreadable, the first: {"type":"message_delta","delta":{"stop_re'),
        STARTED,
        EARLY,
    ],
    "bad_event_among_good.sse": [
        TextDelta("ab"),
        noted("bad_events", '1 unreadable, the first: {"type":"content_block_delta","index":0,"delta":{"te'),
        *DONE,
    ],
    "bad_event_inside_a_call.sse": [
        *begun(0, "f", '{"a":', "toolu_a"),
        noted("bad_events", '1 unreadable, the first: {"type":"cont'),
        STARTED,
        Failure("an event inside a call could not be read", body='{"type":"c'),
    ],
    "arguments_at_once.sse": [
        *call(0, "f", '{"a":[1,null]}', "toolu_a"),
        *call(1, "g", '{"b":2}', "toolu_b", Note("arguments_object", "the arguments came as JSON, not as text")),
        *CALLED,
    ],
    "arguments_not_json.sse": [*call(0, "f", '{"a":oops}', "toolu_a"), *CALLED],
    "one_index_for_all_blocks.sse": [
        TextDelta("Hi"),
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "f", '{"a":2}', "toolu_b"),
        *CALLED,
    ],
    "interleaved_blocks.sse": [
        *begun(0, "f", '{"a":', "toolu_a"),
        *begun(1, "g", '{"b":2}', "toolu_b"),
        CallArgs(0, "1}"),
        CallEnd(0),
        CallEnd(1),
        *CALLED,
    ],
    "duplicate_ids.sse": [
        *call(0, "f", "{}", "x"),
        *call(1, "f", "{}", "", Note("duplicate_call_id", "`x` was used twice")),
        *CALLED,
    ],
    "call_without_a_name.sse": [
        TextDelta("Hi"),
        noted("call_without_name", "a call that names no tool was dropped"),
        noted("unknown_delta", "a delta of type `input_json_delta` was skipped"),
        *DONE,
    ],
    "finish_reason_end_turn_with_calls.sse": [
        *call(0, "f", "{}", "toolu_a"),
        noted("finish_reason_derived", "the upstream said `end_turn`"),
        *CALLED,
    ],
    "finish_reason_calls_without_calls.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream said `tool_use`"),
        *DONE,
    ],
    "finish_reason_unknown.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream said `banana`"),
        *DONE,
    ],
    "only_deltas.sse": [
        ReasoningDelta("Hm"),
        TextDelta("Hi"),
        noted("unknown_delta", "a delta of type `input_json_delta` was skipped"),
        UsageSeen(Usage(0, 15)),
        Finish("stop"),
    ],
    "data_lines_only.sse": [
        TextDelta("ab"),
        UsageSeen(Usage()),
        Finish("stop"),
    ],
    "null_and_empty_fields.sse": [
        TextDelta("ok"),
        noted("unknown_block", "a block without a type was skipped"),
        Finish("stop"),
    ],
    "after_the_end.sse": [TextDelta("Hi"), *DONE],
    "an_html_page.sse": [Failure("the upstream did not answer with a message", body="<html><bod")],
    "whole_text.json": [TextDelta("Hello"), UsageSeen(Usage(25, 1)), Finish("stop")],
    "whole_everything.json": [
        ReasoningDelta("Hm"),
        opaque("thinking", {"type": "thinking", "thinking": "Hm", "signature": "Eq"}),
        opaque("redacted_thinking", {"type": "redacted_thinking", "data": "Em"}),
        TextDelta("See"),
        opaque("citations", [CITATION]),
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "now", "{}", "toolu_b"),
        STARTED,
        Finish("tool_calls"),
    ],
    "whole_cut_inside_a_call.json": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        CallStart(1, "write", "toolu_b"),
        STARTED,
        Finish("length"),
    ],
    "whole_without_finish.json": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream said `missing`"),
        Finish("stop"),
    ],
    "whole_error.json": [Failure("model: nope", "upstream", 404, '{ "type": ')],
    "whole_without_content.json": [Failure("the upstream answered without content", body='{"id": "ms')],
}


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def decode(data: bytes, stream: bool = True) -> list[Event]:
    return fed(ReplyDecoder(stream), [data])


def test_every_fixture_has_an_expectation():
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys()


@pytest.mark.requirement("B10", "G2", "G3", "R-F7", "R-F16", "R-F19", "R-F21", "R-F22", "R-F23", "R-F24", "R-F25")
@pytest.mark.parametrize("name", EXPECTED)
def test_every_situation_is_read_as_it_is_meant(name: str):
    assert with_bodies(decode(fixture(name)), 10) == EXPECTED[name]


@pytest.mark.requirement("R-F10", "R-F11", "R-F12")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", EXPECTED)
def test_every_style_of_framing_means_the_same(name: str, style: str):
    data = STYLES[style](fixture(name))
    whole = decode(data)
    # What a failure shows is shown as it came, so it differs by style; by cut it does not.
    assert with_bodies(whole, 0) == with_bodies(EXPECTED[name], 0)
    assert fed(ReplyDecoder(True), cut(data, range(1, len(data)))) == whole


@pytest.mark.requirement("R-F15")
@pytest.mark.parametrize("name", EXPECTED)
def test_no_cut_changes_the_events(name: str):
    data = fixture(name)
    expected = decode(data)
    for reads in ways(data, name):
        assert fed(ReplyDecoder(True), reads) == expected


@pytest.mark.requirement("R-F46")
@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_asked_for_does_not_matter(name: str):
    assert decode(fixture(name), stream=False) == decode(fixture(name), stream=True)


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("name", ["cut_by_length_inside_a_call.sse", "whole_cut_inside_a_call.json"])
def test_a_call_that_was_cut_is_not_among_the_calls_of_the_reply(name: str):
    reply = fold(decode(fixture(name)))
    assert reply.calls == (ToolCall("f", {"a": 1}, "toolu_a"),)
    assert (reply.finish_reason, reply.complete) == ("length", False)


@pytest.mark.requirement("R-F24")
def test_arguments_that_are_no_json_make_no_call():
    reply = fold(decode(fixture("arguments_not_json.sse")))
    assert reply.calls == ()
    assert [note.code for note in reply.notes] == ["arguments_invalid"]


# ------------------------------------------------------------------------------------------------ event by event


def event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()


def delta(kind: str, index: int = 0, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def block(index: int = 0, **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block=fields)


def end(reason: str = "end_turn") -> bytes:
    return event("message_delta", delta={"stop_reason": reason}) + event("message_stop")


def read(*reads: bytes) -> list[Event]:
    return fed(ReplyDecoder(True), reads)


TEXT, MORE = block(type="text", text=""), delta("text_delta", text="a")
THINK, THOUGHT = block(1, type="thinking", thinking=""), delta("thinking_delta", 1, thinking="t")
SIGN = delta("signature_delta", 1, signature="s") + event("content_block_stop", index=1)
CALL = block(2, type="tool_use", id="x", name="f", input={})
ARGS = delta("input_json_delta", 2, partial_json=" ")
OPEN, CLOSE = delta("input_json_delta", 2, partial_json="{"), delta("input_json_delta", 2, partial_json="}")
SERVER = block(3, type="server_tool_use", name="s") + delta("input_json_delta", 3, partial_json="{}")
PING = event("ping")


@given(
    st.lists(
        st.sampled_from([MORE, THINK, THOUGHT, SIGN, CALL, ARGS, OPEN, CLOSE, SERVER, PING, b": ping\n\n", b"\n"]),
        max_size=25,
    )
)
def test_the_shortcut_for_runs_of_text_changes_nothing(reads: list[bytes]):
    reads = [TEXT, MORE, *reads, end()]
    # One byte at a time no shortcut can be taken.
    slow = read(*(bytes([byte]) for byte in b"".join(reads)))
    assert read(*reads) == slow
    assert read(b"".join(reads)) == slow
    assert read(*(b"".join(reads[at : at + 2]) for at in range(0, len(reads), 2))) == slow


def test_runs_of_one_text_are_read_by_the_shortcut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anthropic_reply, "decode_event", counted := Counted(anthropic_reply.decode_event))
    for opening, piece, expected in (
        (TEXT, MORE, TextDelta("a" * 16)),
        (THINK, THOUGHT, ReasoningDelta("t" * 16)),
        (CALL, ARGS, CallArgs(0, " " * 16)),
    ):
        decoder = ReplyDecoder(True)
        decoder.feed(opening)
        decoder.feed(piece)
        counted.calls = 0
        events = [made for at in (1, 2, 5, 7) for made in decoder.feed(piece * at)]
        assert joined([*decoder.feed(piece), *events]) == [expected]
        assert counted.calls == 0


class Counted:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls = 0

    def __call__(self, payload: bytes) -> Any:
        self.calls += 1
        return self.inner(payload)


@pytest.mark.parametrize("odd", [b'"b","c"', b'"b"x', b'"\xff"', b"7"])
def test_a_run_with_something_else_in_it_is_read_with_care(odd: bytes):
    reads = [TEXT, MORE, MORE + MORE.replace(b'"a"', odd) + MORE, end()]
    slow = read(*(bytes([byte]) for byte in b"".join(reads)))
    assert read(*reads) == slow
    assert fold(slow).text.startswith("aa")


def test_events_that_differ_by_more_than_text_are_read_all_the_same():
    reads = [delta("text_delta", text=f"{n} ", padding="x" * n) for n in range(20)]
    assert read(TEXT, *reads, end())[0] == TextDelta("".join(f"{n} " for n in range(20)))


def test_a_text_with_an_escape_is_no_lesson():
    reads = [delta("text_delta", text=text) for text in ('"', "\n", "b")]
    assert read(TEXT, *reads, end())[0] == TextDelta('"\nb')


@pytest.mark.requirement("R-F15")
def test_bytes_that_are_no_text_are_replaced_and_noted_once():
    bad = MORE.replace(b'"a"', b'"\xff"')
    events = read(TEXT, bad, bad, MORE.replace(b'"a"', b'"\\ud83d!"'), end())
    assert events[:2] == [
        noted("invalid_text", "characters that are no text were replaced"),
        TextDelta("\ufffd\ufffd\ufffd!"),
    ]


@pytest.mark.requirement("R-F17")
def test_an_event_beyond_the_limit_fails():
    events = read(delta("text_delta", text="x" * (17 * 1024 * 1024)), end())
    assert events == [Failure("an event is larger than 16777216 bytes")]


def test_a_body_beyond_the_limit_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MAX_BODY", 10)
    decoder = ReplyDecoder(stream=False)
    assert decoder.feed(b'{"a":1') == []
    assert decoder.feed(b',"b":2') == [Failure("the answer is larger than 10 bytes", body='{"a":1,"b":2')]
    assert decoder.feed(b"}") == []
    assert decoder.close() == []


def test_calls_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anthropic_reply, "MAX_CALLS", 1)
    reply = fold(read(CALL, OPEN, CLOSE, block(3, type="tool_use", name="g"), end("tool_use")))
    assert [one.name for one in reply.calls] == ["f"]
    assert "calls_dropped" in [note.code for note in reply.notes]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xef"])
def test_nothing_is_a_truncated_answer(data: bytes, stream: bool):
    assert [one.kind for one in decode(data, stream) if isinstance(one, Failure)] == ["truncated"]


def test_a_stream_of_nothing_but_garbage_shows_its_beginning():
    events = decode(b"data: hello\n\ndata: world\n\n")
    assert events[-1] == Failure("the stream held nothing that could be read", body="hello")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"delta":7}', "the upstream did not answer with a message"),
        (b"[" * 100_000, "the upstream did not answer with a message"),
        (b'{"error":"out of memory"}', "out of memory"),
        (b'{"error":{"code":500}}', "the upstream gave an error without a word"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"error":' * 30 + b'"deep"' + b"}" * 30, "the upstream gave an error without a word"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(body: bytes, message: str):
    events = decode(body, stream=False)
    assert [one.message for one in events if isinstance(one, Failure)] == [message]


def test_a_whole_message_inside_a_stream_is_read():
    data = b"data: " + json.dumps(json.loads(fixture("whole_text.json"))).encode() + b"\n\n"
    assert decode(data) == EXPECTED["whole_text.json"]


def test_a_message_that_begins_with_content_is_read():
    begin = event("message_start", message={"content": [{"type": "text", "text": "Hi"}]})
    assert read(begin, MORE, end())[0] == TextDelta("Hia")


def test_a_decoder_knows_when_a_broken_connection_loses_nothing():
    decoder = ReplyDecoder(stream=True)
    decoder.feed(TEXT + MORE)
    assert not decoder.finished
    decoder.feed(event("message_delta", delta={"stop_reason": "end_turn"}))
    assert decoder.finished
    assert decoder.close() == [Finish("stop")]


def test_the_end_mark_of_other_protocols_says_nothing():
    done = b"data: [DONE]\n\n"
    events = read(TEXT, MORE, done, event("message_delta", delta={"stop_reason": "end_turn"}), done)
    assert events == [TextDelta("a"), Finish("stop")]


@pytest.mark.parametrize("reads", [[CALL], [CALL, OPEN]])
def test_a_call_that_the_end_of_the_message_ends(reads: list[bytes]):
    events = read(*reads, end("tool_use"))
    assert events[-2:] == [CallEnd(0), Finish("tool_calls")]
    assert CallEnd(0) not in read(*reads, end("max_tokens"))


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(data: bytes, stream: bool):
    events = fed(ReplyDecoder(stream), cut(data, range(7, len(data), 7)))
    assert isinstance(events[-1], Failure | Finish)


WORDS = (
    "type index delta content_block message content text thinking partial_json signature citation id name input usage"
    " input_tokens stop_reason error citations"
).split()
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "f", "text", "thinking", "tool_use", "server_tool_use", "text_delta", "input_json_delta"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)
KINDS = "content_block_start content_block_delta content_block_stop message_start message_delta message ping x".split()


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(WORDS[1:]), JSON)), max_size=5))
def test_no_json_raises(values: list[tuple[str, dict[str, Any]]]):
    data = b"".join(event(kind, **fields) for kind, fields in values)
    events = decode(data + end())
    assert isinstance(events[-1], Failure | Finish)
    fold(events)


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("G3")
@pytest.mark.parametrize(
    ("status", "body", "message", "kind"),
    [
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "Overloaded", "upstream"),
        (429, b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}', "slow down", "upstream"),
        (504, b'{"type":"error","error":{"type":"timeout_error","message":"too slow"}}', "too slow", "timeout"),
        (400, b'[{"error":{"message":"bad"}}]', "bad", "upstream"),
        (500, b"Internal Server Error", "Internal Server Error", "upstream"),
        (502, b"<html>\n<h1>Bad Gateway", "the upstream answered with status 502", "upstream"),
        (503, b"", "the upstream answered with status 503", "upstream"),
        (413, b"\xff", "\ufffd", "upstream"),
        (400, b"[]", "the upstream answered with status 400", "upstream"),
    ],
)
def test_an_error_answer_tells_what_went_wrong(status: int, body: bytes, message: str, kind: str):
    failure = decode_error(status, body, {})
    assert (failure.message, failure.kind, failure.status) == (message, kind, status)


@pytest.mark.parametrize(
    ("body", "headers"),
    [(b'{"error":"x","request_id":"req_1"}', {}), (b'{"error":"x","request_id":7}', {"request-id": "req_1"})],
)
def test_an_error_answer_names_the_request(body: bytes, headers: dict[str, str]):
    assert decode_error(400, body, headers).message == "x (request req_1)"


@pytest.mark.parametrize(
    ("kind", "status"),
    [("overloaded_error", 529), ("rate_limit_error", 429), ("timeout_error", 504), ("new_error", 0), (7, 0)],
)
def test_an_error_inside_a_stream_has_the_status_of_its_type(kind: Any, status: int):
    last = read(event("error", error={"type": kind, "message": "x"}))[-1]
    assert isinstance(last, Failure)
    assert (last.status, last.kind) == (status, "timeout" if status == 504 else "upstream")
    assert msgspec.structs.replace(last, body="", kind="", status=0) == Failure("x", "")
