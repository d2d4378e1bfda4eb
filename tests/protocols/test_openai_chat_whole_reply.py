"""Complete replies that are decoded or encoded in one step have the events and bytes of the general codec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Finish, OpaqueSeen, Reply, TextDelta, UsageSeen
from toolspeak.core.types import Message, Note, Opaque, Options, Request, TextPart, Tool, ToolCall, Usage
from toolspeak.errors import UsageError
from toolspeak.protocols.openai_chat import ReplyDecoder, chunks, encode_reply, reply_encoder, whole_reply
from toolspeak.protocols.openai_chat.request import LEGACY
from toolspeak.protocols.openai_chat.whole_reply import decode_reply, encode_ordinary


class Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, in which a name may occur twice."""


def function(identifier: str = "c1", arguments: str = '{"city": "Oslo"}') -> Fields:
    return Fields(
        [
            ("id", identifier),
            ("type", "function"),
            ("function", Fields([("name", "get_weather"), ("arguments", arguments)])),
        ]
    )


def completion(*calls: Fields, content: str | None = "Hello.", reason: str = "stop", **others: Any) -> Fields:
    """A reply as the common services send it."""
    message = Fields([("role", "assistant"), ("content", content), ("refusal", None), ("annotations", [])])
    if calls:
        message.append(("tool_calls", list(calls)))
    details = Fields([("cached_tokens", 3), ("audio_tokens", 0)])
    made = Fields([("reasoning_tokens", 2), ("audio_tokens", 0), ("accepted_prediction_tokens", 0)])
    usage = Fields(
        [
            ("prompt_tokens", 10),
            ("completion_tokens", 5),
            ("total_tokens", 15),
            ("prompt_tokens_details", details),
            ("completion_tokens_details", made),
        ]
    )
    choice = Fields([("index", 0), ("message", message), ("logprobs", None), ("finish_reason", reason)])
    head = [("id", "chatcmpl-1"), ("object", "chat.completion"), ("created", 7), ("model", "m")]
    return Fields([*head, ("choices", [choice]), ("usage", usage), *others.items()])


def wire(value: Any) -> bytes:
    """Encode a value as JSON; bytes are JSON already, valid or not."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Fields):
        return b"{%b}" % b",".join(b"%b:%b" % (wire(name), wire(each)) for name, each in value)
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(wire, value))
    return json.dumps(value).encode()


def general(body: bytes) -> list[Event]:
    decoder = ReplyDecoder(stream=False)
    return decoder.feed(body) + decoder.close()


def compare(body: bytes) -> bool:
    """Compare both decoders. Returns whether the fast one decoded the reply."""
    events = decode_reply(body)
    if events is not None:
        assert events == general(body)
        assert list(map(type, events)) == list(map(type, general(body)))
    return events is not None


# ---- decoding

ODD = [
    b"null",
    b"true",
    b"0",
    b"7",
    b"-1",
    b"7.0",
    b"7.5",
    b"9007199254740992",
    b"9007199254740993",
    b"9007199254740993.0",
    b"1" * 40,
    b"1e999",
    b'""',
    b'" \\n"',
    b'"\\u001c\\u3000"',
    b'"x"',
    b'"c1"',
    b'"stop"',
    b'"STOP"',
    b'"tool_calls"',
    b'"error"',
    b'"null"',
    b'"\\ud83d\\ude00"',
    b'"\\ud800"',
    b'"\xff"',
    b'"\xe2\x80\xa8"',
    b"[]",
    b"[null]",
    b'[{"type":"text","text":"x"}]',
    b"{}",
    b'{"name":"f","arguments":"{}"}',
    b'{"cached_tokens":4}',
    b'{"usage":{"prompt_tokens":1}}',
    b"[" * 2000 + b"]" * 2000,
    b"nonsense",
]
NAMES = sorted(
    {
        field.name
        for struct in (chunks.Chunk, chunks.Choice, chunks.Delta, chunks.DeltaCall, chunks.DeltaFunction)
        for field in msgspec.structs.fields(struct)
    }
    | {"prompt_tokens", "completion_tokens", "cached_tokens", "prompt_cache_hit_tokens", "own_field", "type"}
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def objects(value: Any) -> Iterator[Fields]:
    if isinstance(value, Fields):
        yield value
    for each in value if isinstance(value, list) else ():
        yield from objects(each[1] if isinstance(each, tuple) else each)


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """A common reply with a few changes."""
    calls = [
        function(draw(st.sampled_from(["c1", "c1", "c2", "c3", ""])), draw(st.sampled_from(["{}", "", " ", "5", "{"])))
        for _ in range(draw(st.integers(0, 3)))
    ]
    reason = draw(
        st.sampled_from(["tool_calls" if calls else "stop", "stop", "length", "content_filter", "tool_calls"])
    )
    reply = completion(*calls, content=draw(st.one_of(TEXT, st.none())), reason=reason)
    for _ in range(draw(st.integers(0, 3))):
        fields = draw(st.sampled_from(list(objects(reply))))
        odd = draw(st.sampled_from(ODD))
        match draw(st.sampled_from(["replace", "repeat", "drop", "add", "again"])):
            case "replace" if fields:
                at = draw(st.integers(0, len(fields) - 1))
                fields[at] = (fields[at][0], odd)
            case "repeat" if fields:
                fields.insert(draw(st.integers(0, len(fields))), (draw(st.sampled_from(fields))[0], odd))
            case "drop" if fields:
                fields.pop(draw(st.integers(0, len(fields) - 1)))
            case "add":
                fields.append((draw(st.sampled_from(NAMES)), odd))
            case _:
                reply.append(("choices", [Fields([("message", Fields([("content", "again")]))])] * 2))
    return wire(reply)


@given(replies())
def test_a_generated_reply_has_the_events_of_the_general_decoder(body: bytes):
    compare(body)


@given(st.lists(st.sampled_from(["c1", "c2", "c3", "c4"]), unique=True), st.one_of(TEXT, st.none()), st.booleans())
def test_an_ordinary_reply_is_decoded_fast(ids: list[str], content: str | None, escaped: bool):
    reply = completion(*map(function, ids), content=content, reason="tool_calls" if ids else "stop")
    body = wire(reply)
    assert compare(body if escaped else json.dumps(json.loads(body), ensure_ascii=False).encode())


def test_everything_that_the_general_decoder_parses_is_declared():
    pairs = [
        (chunks.Chunk, whole_reply._Completion),
        (chunks.Choice, whole_reply._Choice),
        (chunks.Delta, whole_reply._Message),
        (chunks.DeltaCall, whole_reply._Call),
        (chunks.DeltaFunction, whole_reply._Function),
    ]
    for parsed, declared in pairs:
        assert set(declared.__struct_fields__) == set(parsed.__struct_fields__)


USAGE = Usage(10, 5, 3, 2)
SAID, ENDED = TextDelta("Hello."), [UsageSeen(USAGE), Finish("stop")]


def called(*ids: str, arguments: str = '{"city": "Oslo"}') -> list[Event]:
    starts = [(CallStart(at, "get_weather", name), CallArgs(at, arguments)) for at, name in enumerate(ids)]
    ends = [CallEnd(at) for at in range(len(ids))]
    return [*(event for pair in starts for event in pair), *ends, UsageSeen(USAGE), Finish("tool_calls")]


CALLED: dict[str, Any] = {"content": None, "reason": "tool_calls"}


@check_each(
    ("reply", "events"),
    [
        pytest.param(completion(), [SAID, *ENDED], id="a text"),
        pytest.param(completion(content=""), ENDED, id="an empty text"),
        pytest.param(completion(content=None), ENDED, id="no text"),
        pytest.param(completion(reason="length"), [SAID, UsageSeen(USAGE), Finish("length")], id="cut off"),
        pytest.param(
            completion(reason="content_filter"), [SAID, UsageSeen(USAGE), Finish("content_filter")], id="filtered"
        ),
        pytest.param(completion(function(), **CALLED), called("c1"), id="a call"),
        pytest.param(completion(function(), function("c2"), **CALLED), called("c1", "c2"), id="two calls"),
        pytest.param(completion(function(), reason="tool_calls"), [SAID, *called("c1")], id="a text and a call"),
        pytest.param(
            completion(function(arguments="broken {"), **CALLED), called("c1", arguments="broken {"), id="broken"
        ),
        pytest.param(
            completion(system_fingerprint="fp_1"),
            [OpaqueSeen(Opaque(chunks.ANSWER, {"system_fingerprint": "fp_1"})), SAID, *ENDED],
            id="a fingerprint",
        ),
        pytest.param(
            completion(service_tier="", system_fingerprint=None),
            [OpaqueSeen(Opaque(chunks.ANSWER, {"service_tier": ""})), SAID, *ENDED],
            id="an empty tier",
        ),
        pytest.param(completion(usage=None), [SAID, Finish("stop")], id="no usage"),
        pytest.param(completion(usage=Fields()), [SAID, UsageSeen(Usage()), Finish("stop")], id="an empty usage"),
        pytest.param(
            completion(usage=Fields([("prompt_tokens", 4), ("prompt_tokens_details", None)])),
            [SAID, UsageSeen(Usage(4)), Finish("stop")],
            id="no details",
        ),
        pytest.param(
            completion(usage=Fields([("completion_tokens", 2**53), ("completion_tokens_details", Fields())])),
            [SAID, UsageSeen(Usage(0, 2**53)), Finish("stop")],
            id="empty details",
        ),
        pytest.param(
            completion(usage=Fields([("prompt_tokens_details", Fields([("cached_tokens", None)]))])),
            [SAID, UsageSeen(Usage()), Finish("stop")],
            id="unknown details",
        ),
        pytest.param(completion(own_field=b'"\xff"'), [SAID, *ENDED], id="an unknown field, which nobody parses"),
    ],
)
def test_an_ordinary_reply_is_decoded(reply: Fields, events: list[Event]):
    assert decode_reply(wire(reply)) == events == general(wire(reply))


def with_message(**fields: Any) -> Fields:
    reply = completion()
    next(value for name, value in reply if name == "choices")[0][1][1].extend(fields.items())
    return reply


def with_choice(**fields: Any) -> Fields:
    reply = completion()
    next(value for name, value in reply if name == "choices")[0].extend(fields.items())
    return reply


def with_call(**fields: Any) -> Fields:
    return completion(Fields([*function(), *fields.items()]), **CALLED)


@check_each(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"\xef\xbb\xbf" + wire(completion()), id="a byte order mark"),
        pytest.param(wire(completion()) + b"x", id="text behind the reply"),
        pytest.param(b"data: " + wire(completion()), id="a stream"),
        pytest.param(b"[" * 100_000, id="deep nesting"),
        pytest.param(wire(completion(choices=[])), id="no choice"),
        pytest.param(wire(completion(choices=None)), id="null for the choices"),
        pytest.param(wire(completion(object="error")), id="an error by its type"),
        pytest.param(wire(completion(object=5)), id="an odd type"),
        pytest.param(wire(completion(error=Fields([("message", "no")]))), id="an error"),
        pytest.param(wire(completion(error="")), id="an empty error"),
        pytest.param(wire(completion(x_groq=Fields())), id="another usage"),
        pytest.param(wire(completion(system_fingerprint=5)), id="an odd fingerprint"),
        pytest.param(wire(completion(service_tier=[])), id="an odd tier"),
        pytest.param(wire(completion(id=b'"\xff"')), id="an id that is no text"),
        pytest.param(wire(completion(id=b'"\\ud800"')), id="half a character in the id"),
        pytest.param(wire(completion(model=b'"\xff"')), id="a model that is no text"),
        pytest.param(wire(completion(created=b"1e999")), id="a time that is no number"),
        pytest.param(wire(completion(created=7.5)), id="half a second"),
        pytest.param(wire(completion(message="x")), id="a message outside of the choices"),
        pytest.param(wire(completion(detail="x")), id="a detail"),
        pytest.param(wire(completion(usage=[])), id="an odd usage"),
        pytest.param(wire(completion(usage=Fields([("prompt_tokens", -1)]))), id="a negative count"),
        pytest.param(wire(completion(usage=Fields([("prompt_tokens", 1.0)]))), id="a broken count"),
        pytest.param(wire(completion(usage=Fields([("prompt_tokens", 2**53 + 1)]))), id="a huge count"),
        pytest.param(wire(completion(usage=Fields([("prompt_tokens", None)]))), id="no count"),
        pytest.param(wire(completion(usage=Fields([("cached_tokens", 1)]))), id="cached tokens elsewhere"),
        pytest.param(wire(completion(usage=Fields([("prompt_cache_hit_tokens", 1)]))), id="and elsewhere"),
        pytest.param(wire(completion(usage=Fields([("cost", b"1e999")]))), id="a cost that is no number"),
        pytest.param(
            wire(completion(usage=Fields([("prompt_tokens_details", Fields([("own", b'"\xff"')]))]))),
            id="details that are no text",
        ),
        pytest.param(
            wire(completion(usage=Fields([("completion_tokens_details", Fields([("own", b'"\xff"')]))]))),
            id="other details that are no text",
        ),
        pytest.param(wire(with_choice(index=b'"\xff"')), id="an index that is no text"),
        pytest.param(wire(with_choice(delta=Fields())), id="a piece of a message"),
        pytest.param(wire(with_choice(usage=Fields())), id="usage of a choice"),
        pytest.param(wire(with_choice(error="x")), id="an error of a choice"),
        pytest.param(wire(with_choice(logprobs=Fields())), id="log probabilities"),
        pytest.param(wire(with_choice(finish_reason=None)), id="no finish reason"),
        pytest.param(wire(with_choice(finish_reason="eos")), id="an unknown finish reason"),
        pytest.param(wire(with_choice(finish_reason="STOP")), id="a loud finish reason"),
        pytest.param(wire(with_choice(finish_reason="tool_calls")), id="a finish reason for calls, and none"),
        pytest.param(wire(with_choice(message=None)), id="no message"),
        pytest.param(wire(completion(choices=[Fields([("finish_reason", "stop")])])), id="a choice without message"),
        pytest.param(wire(with_message(content=[])), id="parts"),
        pytest.param(wire(with_message(content=b'"\xff"')), id="content that is no text"),
        pytest.param(wire(with_message(content=b'"\\ud800"')), id="half a character"),
        pytest.param(wire(with_message(reasoning_content="Hm.")), id="reasoning"),
        pytest.param(wire(with_message(reasoning="Hm.")), id="reasoning elsewhere"),
        pytest.param(wire(with_message(thinking="Hm.")), id="thinking"),
        pytest.param(wire(with_message(refusal="No.")), id="a refusal"),
        pytest.param(wire(with_message(function_call=Fields([("name", "f")]))), id="a legacy call"),
        pytest.param(wire(with_message(annotations=[5])), id="annotations"),
        pytest.param(wire(with_message(images=[5])), id="images"),
        pytest.param(wire(with_message(audio=Fields())), id="audio"),
        pytest.param(wire(with_message(reasoning_details=[5])), id="details of reasoning"),
        pytest.param(wire(completion(function(), reason="stop")), id="calls without their finish reason"),
        pytest.param(wire(completion(function(), reason="length")), id="calls that are cut off"),
        pytest.param(wire(completion(function(), function(), **CALLED)), id="the same id twice"),
        pytest.param(wire(completion(*(function(f"c{at}") for at in range(65)), **CALLED)), id="very many calls"),
        pytest.param(wire(completion(function(""), **CALLED)), id="an empty id"),
        pytest.param(wire(with_call(id=None)), id="no id"),
        pytest.param(wire(completion(function(arguments=""), **CALLED)), id="no arguments"),
        pytest.param(wire(completion(function(arguments=" \u2003\n"), **CALLED)), id="blank arguments"),
        pytest.param(wire(with_call(index=0)), id="a numbered call"),
        pytest.param(wire(with_call(custom=Fields())), id="a custom tool"),
        pytest.param(wire(with_call(extra_content=Fields())), id="a signature"),
        pytest.param(wire(with_call(function=None)), id="no function"),
        pytest.param(wire(with_call(function=Fields([("name", ""), ("arguments", "{}")]))), id="no name"),
        pytest.param(wire(with_call(function=Fields([("name", "f"), ("arguments", Fields())]))), id="an object"),
        pytest.param(
            wire(with_call(function=Fields([("name", "f"), ("arguments", "{}"), ("input", b'"\xff"')]))), id="an input"
        ),
        pytest.param(wire(completion(choices=[Fields([("message", Fields())])] * 2)), id="two choices"),
    ],
)
def test_all_other_replies_are_left_to_the_general_decoder(body: bytes):
    assert decode_reply(body) is None


def test_a_reply_with_the_largest_number_of_calls_is_decoded():
    assert compare(wire(completion(*(function(f"c{at}") for at in range(64)), **CALLED)))


def test_a_reply_that_is_too_large_is_left_to_the_general_decoder(monkeypatch: pytest.MonkeyPatch):
    body = wire(completion())
    monkeypatch.setattr(whole_reply, "MAX_BODY", len(body))
    assert decode_reply(body) is not None
    assert decode_reply(body + b" ") is None


# ---- encoding

PLAIN = Request("m", (Message("user", (TextPart("Hello?"),)),))
NAMING: dict[str, Any] = {"id": "chatcmpl-1", "created": 7, "model": "m"}


class Word(str):
    """A string of a type that msgspec does not encode."""


def encoded(reply: Reply, request: Request, given_: dict[str, Any]) -> tuple[str, object]:
    try:
        return "encoded", encode_reply(reply, request, **given_)
    except UsageError as error:
        return "refused", str(error)


def compare_encoded(
    reply: Reply, monkeypatch: pytest.MonkeyPatch, request: Request = PLAIN, **given_: Any
) -> tuple[str, object]:
    """Encode a reply with and without the fast way, and return what both give."""
    result = encoded(reply, request, {**NAMING, **given_})
    with monkeypatch.context() as patch:
        patch.setattr(reply_encoder, "encode_ordinary", lambda *given__: None)
        assert encoded(reply, request, {**NAMING, **given_}) == result
    return result


ANY_TEXT = st.text(max_size=6)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT, st.lists)
CALLS = st.builds(ToolCall, ANY_TEXT, st.dictionaries(ANY_TEXT, JSON, max_size=2), ANY_TEXT)
NOTES = st.builds(Note, st.sampled_from(["refusal", "retry_inline", "invalid_text"]))
OPAQUE = st.builds(
    Opaque,
    st.sampled_from([chunks.ANSWER, chunks.CALL, chunks.LOGPROBS, "annotations", "thinking"]),
    st.sampled_from([None, {}, {"service_tier": "x"}, {"content": [1]}, [1]]),
)
COUNTS = st.integers(0, 2**70)
REPLIES = st.builds(
    Reply,
    ANY_TEXT,
    ANY_TEXT,
    st.lists(CALLS, max_size=2).map(tuple),
    notes=st.lists(NOTES, max_size=2).map(tuple),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls", "content_filter", "unknown", "error"]),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS),
    opaque=st.lists(OPAQUE, max_size=1).map(tuple),
)


@given(REPLIES, st.sampled_from(["m", "", "m\ud800", 'with "quotes"']), st.booleans())
def test_a_generated_reply_has_the_bytes_of_the_general_encoder(reply: Reply, model: str, legacy: bool):
    request = Request(model, PLAIN.messages, options=Options(extra={LEGACY: True} if legacy else {}))
    with pytest.MonkeyPatch.context() as monkeypatch:
        compare_encoded(reply, monkeypatch, request, model=model)


CALL = ToolCall("f", {"x": [1, "é"]}, "c1")


@check_each(
    "reply",
    [
        pytest.param(Reply("Hello."), id="a text"),
        pytest.param(Reply(), id="nothing"),
        pytest.param(Reply("Hello.", "Hm.", finish_reason="length"), id="reasoning"),
        pytest.param(Reply(calls=(CALL,), finish_reason="stop"), id="a call"),
        pytest.param(Reply("Hello.", calls=(CALL, CALL), finish_reason="content_filter"), id="a text and two calls"),
        pytest.param(Reply("Hello.", notes=(Note("retry_inline"),), finish_reason="tool_calls"), id="a note"),
        pytest.param(Reply("\u2028\u00e9\U0001f600", usage=Usage(1, 2, 3, 4)), id="usage"),
        pytest.param(Reply(calls=(ToolCall("f", {"x": "\ud800", "y": float("nan")}),)), id="half a character inside"),
    ],
)
def test_an_ordinary_reply_is_encoded(reply: Reply, monkeypatch: pytest.MonkeyPatch):
    kind, body = compare_encoded(reply, monkeypatch)
    assert kind == "encoded" and body == encode_ordinary(reply, **NAMING)


@check_each(
    ("reply", "given_"),
    [
        pytest.param(Reply("No.", notes=(Note("refusal"),)), {}, id="a refusal"),
        pytest.param(Reply("x", opaque=(Opaque(chunks.ANSWER, {"service_tier": "x"}),)), {}, id="an opaque part"),
        pytest.param(Reply("half \ud800"), {}, id="half a character"),
        pytest.param(Reply(calls=(ToolCall("f\ud800", {}),)), {}, id="half a character in a name"),
        pytest.param(Reply(Word("x")), {}, id="a string of another type"),
        pytest.param(Reply("x"), {"model": "m\ud800"}, id="half a character in the model"),
    ],
)
def test_all_other_replies_are_left_to_the_general_encoder(
    reply: Reply, given_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    assert encode_ordinary(reply, **{**NAMING, **given_}) is None
    assert compare_encoded(reply, monkeypatch, **given_)[0] == "encoded"


def test_arguments_that_are_no_json_are_refused_by_both(monkeypatch: pytest.MonkeyPatch):
    reply = Reply(calls=(ToolCall("f", {"x": object()}),))
    assert compare_encoded(reply, monkeypatch)[0] == "refused"


@check_each(
    ("request_", "given_"),
    [
        pytest.param(Request("m", PLAIN.messages, options=Options(extra={LEGACY: True})), {}, id="legacy calls"),
        pytest.param(Request("m", PLAIN.messages, (Tool("f", kind="custom"),)), {}, id="a custom tool"),
        pytest.param(PLAIN, {"extension": {"id": "x"}}, id="an extension"),
    ],
)
def test_what_a_request_asks_for_is_encoded_by_the_general_encoder(
    request_: Request, given_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    reply = Reply("Hello.", calls=(ToolCall("f", {"input": "x"}, "c1"),))
    ordinary = encode_ordinary(reply, **NAMING)
    kind, body = compare_encoded(reply, monkeypatch, request_, **given_)
    assert kind == "encoded" and body != ordinary
