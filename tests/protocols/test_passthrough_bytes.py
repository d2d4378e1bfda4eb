"""Bytes of events, handed out with them and passed on: whatever is cut or changed on the way, nothing is said twice."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.events import Event, Finish, Noted, OpaqueSeen, ReasoningDelta, Reply, TextDelta, fold
from toolspeak.core.types import Note, Opaque, Request
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat
from toolspeak.protocols.shared.passthrough_bytes import RawBatch, RawCapture, raw_batch, secret_patterns

NAME = {"id": "up-1", "object": "chat.completion.chunk", "created": 17, "model": "m-2026"}
END = [TextDelta(" The end."), Finish("stop")]


def _chat(delta: object, **fields: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({**NAME, "seen": 1, "choices": [choice], **fields}).encode() + b"\n\n"


def _line(message: object, **fields: object) -> bytes:
    line = {"model": "m", "created_at": "2026", "seen": 1, "message": message, "done": False}
    return json.dumps({**line, **fields}).encode() + b"\n"


def _response(*parts: object, **fields: object) -> bytes:
    candidate = {"content": {"parts": parts, "role": "model"}, **fields}
    body = {"candidates": [candidate], "seen": 1, "modelVersion": "m", "responseId": "up-1"}
    return b"data: " + json.dumps(body).encode() + b"\r\n\r\n"


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _delta(index: object, kind: str = "text", text: object = "a", **fields: object) -> bytes:
    return _event("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: text}, seen=1, **fields)


def _block(index: int, kind: str = "text", **fields: object) -> bytes:
    return _event("content_block_start", index=index, content_block={"type": kind, kind: "", **fields})


def _said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


#: Frames that are passed on, and frames that are not, by protocol. What they say can be told apart.
PASSED: dict[str, tuple[bytes, ...]] = {
    "openai_chat": (
        _chat(_said("")),
        _chat(_said("a")),
        _chat({"content": "b"}),
        _chat({"content": "c"}),
        _chat({"reasoning": "d"}),
        _chat({}),
        _chat({"content": "é\\"}, system_fingerprint="fp"),
        _chat({"content": "?"}).replace(b"?", "é".encode()),
    ),
    "ollama": (_line(_said("a")), _line(_said("b") | {"thinking": "c"}), _line(_said(""))),
    "gemini": (_response({"text": "a"}), _response({"text": "b", "thought": True}), _response({"text": ""})),
}
OURS: dict[str, tuple[bytes, ...]] = {
    "openai_chat": (
        _chat({"content": "A"}, id="up-2"),
        _chat({"content": "B"}, usage={"prompt_tokens": 1}),
        _chat({"refusal": "C"}),
        _chat({"content": "D"}).replace(b'"seen"', b'\ndata: "seen"'),
        _chat({"content": "E"}).replace(b"seen", b"\xff"),
        _chat({"content": "F"}).replace(b'"F"', b'"F\x01"'),
        _chat({"content": [{"type": "text", "text": "G"}]}),
        _chat({"content": "H"}, object="something"),
        _chat({}, choices=[{"index": 0, "delta": {"content": "I"}, "finish_reason": "stop"}]),
        _chat({"content": "J"}).replace(b"seen", "\u2028".encode()),
        _chat({"content": "K"}, id=""),
        _chat({"content": "L"}, model=""),
        _chat({"content": "M"}).replace(b'"delta"', b'"delta": {"tool_calls": []}, "delta"'),
        b": a comment\n\n",
    ),
    "ollama": (
        _line(_said("A"), model="n"),
        _line(_said("B") | {"images": ["C"]}),
        _line({"content": "D"}),
        _line(_said("E"), done=True),
        _line(_said("F"), model=""),
        _line(_said("G")).replace(b'"message"', b'"message": {}, "message"'),
    ),
    "gemini": (
        _response({"text": "A"}, safetyRatings=[1]),
        _response({"text": "B", "more": 1}),
        _response({"text": "C"}, index=1),
        _response({"text": "D"}).replace(b"up-1", b""),
    ),
}
CODECS: dict[str, Any] = {"openai_chat": openai_chat, "ollama": ollama, "gemini": gemini, "anthropic": anthropic}
PROTOCOLS = pytest.mark.parametrize("protocol", PASSED)


def _encoder(protocol: str) -> Any:
    return CODECS[protocol].ReplyEncoder(Request("m", ()), id="ours", created=1, model="ours")


def _batches(protocol: str, wire: Sequence[bytes], quoting: bool = True) -> list[list[Event]]:
    decoder = CODECS[protocol].ReplyDecoder(True)
    if quoting:
        decoder.capture_raw((b"sk-secret",))
    return [batch for piece in wire if (batch := decoder.feed(piece))]


def _relayed(protocol: str, wire: Sequence[bytes]) -> bytes:
    encoder = _encoder(protocol)
    return b"".join(map(encoder.relay, _batches(protocol, wire))) + encoder.encode(END) + encoder.close()


def _read(protocol: str, wire: bytes) -> Reply:
    decoder = CODECS[protocol].ReplyDecoder(True)
    return fold([*decoder.feed(wire), *decoder.close()])


def _pieces(wire: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    return [wire[start:end] for start, end in itertools.pairwise(places)]


@PROTOCOLS
@given(data=st.data())
def test_frames_that_say_only_text_come_out_as_they_went_in_wherever_they_are_cut(protocol: str, data: st.DataObject):
    frames = data.draw(st.lists(st.sampled_from(PASSED[protocol]), max_size=8))
    first, last = PASSED[protocol][0], PASSED[protocol][1]
    wire = b"".join([first, *frames, last])
    assert _relayed(protocol, _pieces(wire, data.draw(st.lists(st.integers(0), max_size=9)))).startswith(wire)


@PROTOCOLS
@given(data=st.data())
def test_whatever_is_passed_on_or_not_is_said_once_and_under_one_name(protocol: str, data: st.DataObject):
    frames = data.draw(st.lists(st.sampled_from(PASSED[protocol] + OURS[protocol]), min_size=1, max_size=9))
    pieces = _pieces(b"".join(frames), data.draw(st.lists(st.integers(0), max_size=9)))
    out = _relayed(protocol, pieces)
    reply = _read(protocol, out)
    before = fold([event for batch in _batches(protocol, pieces, quoting=False) for event in batch])
    assert (reply.text, reply.reasoning) == (before.text + " The end.", before.reasoning)
    assert reply.failure is None and not {note.code for note in reply.notes} & {"bad_events", "invalid_text"}
    out.decode()
    names = {json.loads(each)["id"] for each in out.split(b"data: ")[1:] if each[0] == 123 and protocol[0] == "o"}
    assert len(names) <= 1


@check_each(
    ("protocol", "frame"),
    [pytest.param(name, frame, id=f"{name}-{at}") for name in OURS for at, frame in enumerate(OURS[name])],
)
def test_frames_that_say_more_than_text_are_not_passed_on(protocol: str, frame: bytes):
    first = PASSED[protocol][1]
    out = _relayed(protocol, [first, frame])
    assert first in out and frame not in out


@PROTOCOLS
def test_frames_that_say_only_text_are_passed_on(protocol: str):
    frames = [*PASSED[protocol], PASSED[protocol][1]]
    assert _relayed(protocol, frames).startswith(b"".join(frames))


def test_frames_that_hold_a_secret_are_not_passed_on():
    for written in ("sk-secret", "sk-se\\u0063ret", "a\\/b"):
        frame = _chat({"content": "a"}).replace(b"seen", written.encode())
        assert (frame in _relayed("openai_chat", [_chat(_said("")), frame])) == ("sk" not in written)


def _padded(text: str, padding: str) -> bytes:
    return _chat({"content": text}, obfuscation=padding).replace(b'"obfuscation": ', b'"obfuscation":')


PADDED = [
    _padded(text, padding) for text, padding in (("one ", "aB3"), ("two ", "x"), ("three ", "9Zq"), ("four", "k"))
]


def test_padded_frames_are_read_and_passed_on_whole_wherever_a_read_ends():
    wire = b"".join(PADDED)
    # Each frame by itself until somewhere in the one that is cut: what was learned from the first is used by then.
    for at in range(1, len(PADDED)):
        start = sum(map(len, PADDED[:at]))
        for cut in range(len(PADDED[at])):
            pieces = [*PADDED[: at - 1], wire[start - len(PADDED[at - 1]) : start + cut], wire[start + cut :]]
            out = _relayed("openai_chat", pieces)
            assert _read("openai_chat", out).text == "one two three four The end.", (at, cut)
            assert out.count(b"data: {") == out.count(b"data:") - 1
    assert wire in _relayed("openai_chat", PADDED)


def test_padding_that_holds_a_secret_is_not_passed_on():
    decoder = openai_chat.ReplyDecoder(True)
    decoder.capture_raw((b"AbCd1234",))
    encoder = _encoder("openai_chat")
    frames = [*PADDED[:3], _padded("four", "xAbCd1234x")]
    out = b"".join(encoder.relay(decoder.feed(frame)) for frame in frames)
    assert out.count(b'"content":') == 5 and b"AbCd1234" not in out and b"9Zq" in out


#: Frames that a template could take for others like those before them, and what a strict reader makes of them.
ODD = {
    "a line end before the text": [_chat({"content": "x"}).replace(b'"x"', b'\n"x"')],
    "a return before the text": [_chat({"content": "x"}).replace(b'"x"', b'\r"x"')],
    "texts over two frames": [_chat({"content": "?"}).replace(b'"?"', part) for part in (b'"a', b'b"', b'"c","d"')],
    "texts over two frames, by escapes": [
        _chat({"content": "?"}).replace(b'"?"', part) for part in (b'"\\"', b'","abc"')
    ],
    "something behind the padding": [_padded("x", "a").replace(b"\n\n", b"\n\njunk"), _padded("y", "b")],
}


@check_each("together", [False, True])
@check_each("frames", [pytest.param(frames, id=name) for name, frames in ODD.items()])
def test_what_only_looks_like_frames_before_it_is_read_like_any_other(frames: list[bytes], together: bool):
    known = PADDED[:3] if b"obfuscation" in frames[0] else [_chat({"content": letter}) for letter in "123"]
    wire = [*known, b"".join(frames)] if together else [*known, *frames]
    encoder = _encoder("openai_chat")
    for batch in _batches("openai_chat", wire):
        for event in encoder.relay(batch).split(b"\n\n")[:-1]:
            assert event.startswith(b"data: {") and json.loads(event[6:])
    # One byte at a time there are no templates.
    plain = fold(
        e for batch in _batches("openai_chat", [*map(bytes, zip(b"".join(wire)))], quoting=False) for e in batch
    )
    read = fold(event for batch in _batches("openai_chat", wire) for event in batch)
    assert read.text == plain.text


def test_who_speaks_is_told_also_where_the_upstream_says_that_nobody_does():
    out = _relayed("openai_chat", [_chat({"role": None, "content": "a"}), _chat({"role": None, "content": "b"})])
    assert json.loads(out.partition(b"\n")[0][6:])["choices"][0]["delta"]["role"] == "assistant"


def test_frames_whose_lines_end_in_two_characters_are_framed_as_ours_are():
    frames = [_chat(_said("")), *(_chat({"content": "a"}) for _ in range(40))]
    wire = [frame.replace(b"\n", b"\r\n") for frame in frames]
    for pieces in (wire, [b"".join(wire)]):
        assert _relayed("openai_chat", pieces).startswith(b"".join(frames))


def test_frames_without_a_space_before_their_data_are_not_passed_on_by_their_template():
    frames = [_chat(_said("")), *(_chat({"content": "a"}) for _ in range(3))]
    out = _relayed("openai_chat", [frame.replace(b"data: ", b"data:") for frame in frames])
    assert b"data:{" not in out
    assert out.count(b'"seen"') == 2


def test_a_run_of_frames_in_one_read_is_passed_on_whole():
    wire = b"".join([_chat(_said("")), *(_chat({"content": "a"}) for _ in range(40))])
    (batch,) = _batches("openai_chat", [wire])
    assert isinstance(batch, RawBatch)
    assert (list(batch), batch.wire) == ([TextDelta("a" * 40)], wire)


def test_frames_with_ends_of_lines_are_ours_also_where_a_template_reads_them():
    frames = [_chat({"content": "a"}), *(_chat({"content": "?"}).replace(b"?", "\u2028".encode()) for _ in range(20))]
    for wire in ([b"".join(frames)], frames):
        out = _relayed("openai_chat", wire)
        assert "\u2028".encode() not in out and out.count(b"\\u2028") in (1, 20)


def test_frames_that_say_nothing_wait_and_are_dropped_where_they_are_too_many():
    encoder, decoder = _encoder("openai_chat"), openai_chat.ReplyDecoder(True)
    decoder.capture_raw()
    silent = _chat({}, padding="x" * 40_000)
    said = _chat({"content": "a"})
    assert decoder.feed(silent) == []
    assert encoder.relay(decoder.feed(said)).endswith(silent + said)
    assert decoder.feed(silent + silent) == []
    assert encoder.relay(decoder.feed(said)) == said


def test_frames_that_say_nothing_go_before_those_that_a_template_reads():
    capture = RawCapture(())
    text = TextDelta("a")
    capture.add(b"frame", NAME)
    assert capture.single(text, b"another") == [text]  # nothing was learned yet
    decoder = openai_chat.ReplyDecoder(True)
    decoder.capture_raw()
    decoder.feed(_chat({"content": "a"}))
    assert decoder._raw is not None and decoder._template is not None
    decoder._raw.next_frame()
    decoder._raw.add(b"silent", NAME)
    batch = decoder.feed(_chat({"content": "b"}))
    assert isinstance(batch, RawBatch) and batch.wire == b"silent" + _chat({"content": "b"})


# ---- blocks, of which only the deltas are passed on

STOP = _event("content_block_stop", index=0)
CALL = _block(1, "tool_use", id="c1", name="f")


@check_each(
    "deltas",
    [
        pytest.param([_delta(0), _delta(0), _delta(0, text="é")], id="text"),
        pytest.param([_delta(0, "thinking"), _delta(0, "thinking", "b")], id="thoughts"),
        pytest.param([_delta(0), _delta(0, text=""), _delta(0, text="b")], id="with one that says nothing"),
    ],
)
@check_each("together", [True, False])
def test_deltas_of_a_block_are_passed_on_between_a_start_and_an_end_of_ours(deltas: list[bytes], together: bool):
    kind = "thinking" if b"thinking" in deltas[0] else "text"
    wire = [_event("message_start", message={"seen": 1}), _block(0, kind), *deltas]
    out = _relayed("anthropic", [b"".join(wire)] if together else wire)
    before, _, behind = out.partition(b"".join(deltas))
    assert behind and b"seen" not in before + behind
    assert before.count(b"content_block_start") == 2  # the name of the event, and its type


@check_each(
    "wire",
    [
        pytest.param([_delta(0)], id="no block began"),
        pytest.param([_block(1), _delta(1)], id="another number than ours"),
        pytest.param([_block(0), _delta(0, text=1), _delta(0)[26:]], id="no text, and no name"),
        pytest.param([_block(0, "thinking"), _delta(0)], id="another kind"),
        pytest.param([_block(0), _delta(0).replace(b'"seen"', b'\ndata: "seen"')], id="several lines"),
        pytest.param([_block(0), _delta("0")], id="another index"),
        pytest.param([_block(0), _delta(0, "input_json"), _delta(0, "citations")], id="other deltas"),
    ],
)
def test_deltas_that_do_not_fit_are_ours(wire: list[bytes]):
    assert b"seen" not in _relayed("anthropic", wire)


def test_a_block_behind_a_call_is_passed_on_where_its_number_is_ours():
    arguments = _delta(1, "partial_json", "{}").replace(b"partial_json_delta", b"input_json_delta")
    ended = _event("content_block_stop", index=1)
    wire = [_block(0), _delta(0), STOP, CALL, arguments, ended, _block(2), _delta(2, text="b"), _delta(2, text="c")]
    out = _relayed("anthropic", wire)
    assert out.index(_delta(0)) < out.index(b"tool_use") < out.index(_delta(2, text="b") + _delta(2, text="c"))
    reply = _read("anthropic", out)
    assert (reply.text, [call.name for call in reply.calls]) == ("abc The end.", ["f"])


def test_text_goes_on_in_our_block_where_the_upstream_begins_another():
    out = _relayed("anthropic", [_block(0), _delta(0), STOP, _block(1), _delta(1, text="b"), _delta(1, text="c")])
    assert out.count(b"seen") == 1
    assert _read("anthropic", out).text == "abc The end."


# ---- on the way


A, B, C = TextDelta("a"), ReasoningDelta("b"), TextDelta("c")


@check_each(
    ("events", "covers"),
    [
        pytest.param([A, B], 2, id="as they were"),
        pytest.param([A, B, C], 2, id="with something behind them"),
        pytest.param([A], 0, id="not all of them"),
        pytest.param([C, A, B], 0, id="with something before them"),
        pytest.param([TextDelta("a"), B], 0, id="one was written anew"),
        pytest.param([], 0, id="none of them"),
    ],
)
def test_bytes_stay_with_events_that_come_through_as_they_were(events: list[Event], covers: int):
    left = raw_batch([A, B], b"wire", 2, NAME).after(events)
    assert (list(left), left.covers, left.wire) == (events, covers, b"wire" if covers else b"")


def test_one_event_that_comes_through_is_the_batch_itself():
    batch = raw_batch([A], b"wire", 1, NAME)
    assert batch.after([A]) is batch


# ---- at the end


def test_an_answer_that_began_with_our_own_words_goes_on_with_them():
    encoder = _encoder("openai_chat")
    out = encoder.relay([Noted(Note("x"))]) + encoder.relay(raw_batch([A], b"theirs", 1, NAME))
    assert b"theirs" not in out and b"ours" in out


def test_an_answer_goes_on_in_our_own_words_where_another_one_follows():
    encoder = _encoder("openai_chat")
    theirs = b'data: {"role":"assistant"}\n\n'
    out = encoder.relay(raw_batch([A], theirs, 1, NAME)) + encoder.relay(
        raw_batch([C], b"others", 1, {**NAME, "id": "up-2"})
    )
    assert out.startswith(theirs) and b"others" not in out
    assert b"up-1" in out and b"ours" not in out


def test_our_own_words_between_theirs_are_under_their_name():
    encoder = _encoder("openai_chat")
    encoder.relay(raw_batch([A], b'"role":', 1, NAME))
    out = encoder.relay([C])
    assert b'"up-1"' in out and b'"c"' in out
    assert encoder.relay(raw_batch([A, C], b"theirs", 1, NAME)).startswith(b"theirs" + out[:20])


def test_what_a_passed_frame_says_of_the_answer_is_said_in_our_own_words_too():
    encoder = _encoder("openai_chat")
    told = OpaqueSeen(Opaque("openai_answer", {"service_tier": "best"}))
    encoder.relay(raw_batch([told, A], b'"role":', 2, NAME))
    assert b'"service_tier":"best"' in encoder.encode([C])


def test_secrets_are_looked_for_as_json_writes_them():
    assert secret_patterns(["sk-é", 'a"b']) == (b'a"b', b'a\\"b', b"sk-\\u00e9", "sk-é".encode())
    assert secret_patterns([]) == ()
