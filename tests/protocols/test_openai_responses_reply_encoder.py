"""What our own face answers to clients of the Responses API: the end of a stream is the whole answer."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

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
    FinishReason,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Message, Note, Opaque, Request, Tool, ToolCall, Usage
from toolspeak.errors import (
    ConfigError,
    ToolChoiceError,
    ToolspeakError,
    UpstreamError,
    UpstreamTimeout,
    UsageError,
)
from toolspeak.protocols.openai_responses import (
    PROTOCOL,
    ReplyDecoder,
    ReplyEncoder,
    decode_request,
    encode_error,
    encode_reply,
)
from toolspeak.protocols.shared.framing import ServerEvent, SSEDecoder

TOOLS = (Tool("f"), Tool("run", kind="custom"), Tool("crm__find", namespace="crm"))
PLAIN = Request("m", (Message("user"),), TOOLS, protocol=PROTOCOL)
CALL: list[Event] = [CallStart(3, "f", "a"), CallArgs(3, '{"x":'), CallArgs(3, "1}"), CallEnd(3)]
CUSTOM: list[Event] = [CallStart(4, "run", "b"), CallArgs(4, '{"input":"pri'), CallArgs(4, 'nt(\\n)"}'), CallEnd(4)]
CITATION = {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "u", "title": "t"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def encoder(request: Request = PLAIN) -> ReplyEncoder:
    return ReplyEncoder(request, id="resp_1", created=7, model="m")


def streamed(events: list[Event], request: Request = PLAIN, extension: dict[str, Any] | None = None) -> list[Any]:
    """The documents of the stream; each is named by its event and numbered."""
    face = encoder(request)
    frames = SSEDecoder().feed(face.encode(events) + face.close(extension))
    documents: list[Any] = []
    for frame, number in zip(frames, count(), strict=False):
        assert isinstance(frame, ServerEvent)
        document = json.loads(frame.data)
        assert (document["type"], document.pop("sequence_number")) == (frame.event, number)
        documents.append(document)
    return documents


def whole(events: list[Event], request: Request = PLAIN, extension: dict[str, Any] | None = None) -> Any:
    return json.loads(encode_reply(fold(events), request, id="resp_1", created=7, model="m", extension=extension))


def final(events: list[Event], request: Request = PLAIN) -> Any:
    return streamed(events, request)[-1]["response"]


def kinds(documents: list[Any]) -> list[str]:
    return [one["type"].removeprefix("response.") for one in documents]


def message(text: str, number: int = 0, status: str = "completed", annotations: Any = ()) -> Any:
    part = {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}
    return {"id": f"msg_1_{number}", "type": "message", "status": status, "role": "assistant", "content": [part]}


def function_call(number: int, arguments: str, status: str = "completed") -> Any:
    item = {"id": f"fc_1_{number}", "type": "function_call", "status": status, "call_id": "a", "name": "f"}
    return item | {"arguments": arguments}


BEGIN = ["created", "in_progress"]
SAYING = ["output_item.added", "content_part.added"]
SAID = ["output_text.done", "content_part.done", "output_item.done"]


@pytest.mark.requirement("G1", "G3")
def test_a_text_streams_as_one_part_of_one_message():
    documents = streamed([TextDelta("Hel"), TextDelta('lo "é"\n'), Finish("stop")])
    assert kinds(documents) == [*BEGIN, *SAYING, "output_text.delta", "output_text.delta", *SAID, "completed"]
    place = {"item_id": "msg_1_0", "output_index": 0}
    assert documents[0]["response"]["status"] == documents[1]["response"]["status"] == "in_progress"
    assert documents[2]["item"] == message("", status="in_progress") | {"content": []}
    assert documents[3] == {
        "type": "response.content_part.added",
        **place,
        "content_index": 0,
        "part": message("")["content"][0],
    }
    for document, text in zip(documents[4:6], ("Hel", 'lo "é"\n'), strict=True):
        expected = {"type": "response.output_text.delta", **place, "content_index": 0, "delta": text, "logprobs": []}
        assert document == expected
    assert documents[6]["text"] == documents[7]["part"]["text"] == 'Hello "é"\n'
    assert documents[8] == {"type": "response.output_item.done", "output_index": 0, "item": message('Hello "é"\n')}
    assert documents[9]["response"]["output"] == [message('Hello "é"\n')]


def test_nothing_to_say_is_no_bytes():
    face = encoder()
    nothing: list[Event] = [TextDelta(""), ReasoningDelta(""), Noted(Note("x")), UsageSeen(Usage(1)), CallEnd(0)]
    assert face.encode([]) == b""
    assert face.encode([*nothing, OpaqueSeen(Opaque("signature", "s")), OpaqueSeen(Opaque("thinking", {}))]) == b""
    assert kinds(streamed([])) == [*BEGIN, "completed"]
    assert final([]) == whole([])


@pytest.mark.requirement("G3")
def test_a_response_repeats_what_was_asked():
    asked = {
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low"},
        "previous_response_id": "resp_0",
        "truncation": "auto",
        "store": True,
        "user": "u",
    }
    request = decode_request({"model": "m", "input": "hi", "text": {"verbosity": "low"}, "x_new": 1, **asked})
    response = whole([TextDelta("a")], request)
    assert {key: response[key] for key in asked} == asked
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert "x_new" not in response
    bare = whole([TextDelta("a")], Request("m", ()))
    assert (bare["tools"], bare["tool_choice"], bare["metadata"], bare["instructions"]) == ([], "auto", {}, None)
    assert (bare["text"], bare["store"]) == ({"format": {"type": "text"}}, False)


@pytest.mark.requirement("B10", "G1")
def test_reasoning_is_an_item_of_its_own_with_a_summary():
    documents = streamed([ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("a")])
    assert kinds(documents)[2:9] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    item = {"id": "rs_1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert documents[8]["item"] == item
    assert documents[-1]["response"]["output"] == [item, message("a", 1)]
    assert whole([ReasoningDelta("hm"), TextDelta("a")])["output"] == [item, message("a", 1)]


def thought(field: str, **item: Any) -> list[Event]:
    return [
        OpaqueSeen(Opaque("start:reasoning", {"id": "rs_x", "field": field})),
        ReasoningDelta("hm"),
        OpaqueSeen(Opaque("item:reasoning", {"id": "rs_x", "type": "reasoning", "summary": [], **item})),
    ]


@pytest.mark.requirement("B10", "G3")
def test_reasoning_of_the_upstream_keeps_its_id_and_what_is_encrypted():
    events = [*thought("content", encrypted_content="gA"), TextDelta("a"), Finish("stop")]
    documents = streamed(events)
    assert kinds(documents)[2:7] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
    ]
    assert documents[2]["item"] == {"id": "rs_x", "type": "reasoning", "summary": [], "content": []}
    assert documents[3]["part"] == {"type": "reasoning_text", "text": ""}
    item = {"id": "rs_x", "type": "reasoning", "summary": [], "encrypted_content": "gA"}
    assert documents[7]["item"] == item
    assert documents[-1]["response"]["output"] == whole(events)["output"] == [item, message("a", 1)]


def test_reasoning_that_has_only_begun_keeps_its_id():
    events = thought("content")[:2]
    item = {
        "id": "rs_x",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    assert final(events)["output"] == whole(events)["output"] == [item]


def test_items_of_the_upstream_pass_as_they_are():
    hidden = OpaqueSeen(Opaque("item:reasoning", {"type": "reasoning", "id": "rs_9", "encrypted_content": "gA"}))
    events: list[Event] = [hidden, OpaqueSeen(Opaque("item:web_search_call", SEARCH)), TextDelta("a")]
    documents = streamed(events)
    assert kinds(documents)[2:6] == ["output_item.added", "output_item.done"] * 2
    assert documents[4]["item"] == documents[5]["item"] == SEARCH
    assert documents[-1]["response"]["output"] == whole(events)["output"]
    later = [ReasoningDelta("hm"), hidden]
    assert [item["id"] for item in final(later)["output"]] == ["rs_1_0", "rs_9"]


def test_citations_stand_at_the_text_that_they_belong_to():
    cited = OpaqueSeen(Opaque("annotation:url_citation", CITATION))
    events: list[Event] = [TextDelta("a"), cited, cited, Finish("stop")]
    added = [one for one in streamed(events) if one["type"] == "response.output_text.annotation.added"]
    assert [one["annotation_index"] for one in added] == [0, 1]
    assert added[0]["annotation"] == CITATION
    assert final(events)["output"] == whole(events)["output"] == [message("a", annotations=[CITATION] * 2)]
    assert kinds(streamed([cited])) == [*BEGIN, "completed"]


@pytest.mark.requirement("G3")
def test_a_call_is_an_item_whose_arguments_stream():
    documents = streamed([*CALL, Finish("stop")])
    assert kinds(documents)[2:-1] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert documents[2]["item"] == function_call(0, "", "in_progress")
    assert [one["delta"] for one in documents[3:5]] == ['{"x":', "1}"]
    assert documents[5]["arguments"] == '{"x":1}'
    assert documents[-1]["response"]["output"] == whole(CALL)["output"] == [function_call(0, '{"x":1}')]
    assert documents[-1]["response"]["status"] == "completed"


def test_a_call_without_arguments_has_an_empty_object():
    events: list[Event] = [CallStart(0, "f", "a"), CallArgs(0, ""), CallEnd(0)]
    assert "".join(one["delta"] for one in streamed(events) if one["type"].endswith("arguments.delta")) == "{}"
    assert final(events)["output"] == whole(events)["output"] == [function_call(0, "{}")]


def test_calls_may_interleave_and_text_may_follow():
    other: list[Event] = [CallStart(5, "f", "a"), CallArgs(5, "{}")]
    events: list[Event] = [TextDelta("a"), *CALL[:2], *other, *CALL[2:], CallEnd(5), TextDelta("b")]
    assert final(events)["output"] == [
        message("a"),
        function_call(1, '{"x":1}'),
        function_call(2, "{}"),
        message("b", 3),
    ]


def test_a_call_without_an_id_is_called_by_its_item():
    events: list[Event] = [CallStart(0, "f"), CallEnd(0)]
    assert final(events)["output"][0]["call_id"] == whole(events)["output"][0]["call_id"] == "fc_1_0"


@pytest.mark.requirement("A13")
def test_a_call_of_a_custom_tool_has_its_input_as_text():
    item = {"id": "ctc_1_1", "type": "custom_tool_call", "call_id": "b", "name": "run", "input": "print(\n)"}
    documents = streamed([*CALL, *CUSTOM])
    assert kinds(documents)[7:-1] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert documents[7]["item"] == item | {"input": ""}
    assert documents[8]["delta"] == documents[9]["input"] == "print(\n)"
    assert documents[10]["item"] == item
    assert documents[-1]["response"]["output"] == whole([*CALL, *CUSTOM])["output"]


@pytest.mark.requirement("A13")
def test_a_call_of_a_tool_in_a_namespace_is_spoken_of_as_declared():
    events: list[Event] = [CallStart(0, "crm__find", "a"), CallArgs(0, "{}"), CallEnd(0)]
    item = final(events)["output"][0]
    assert (item["name"], item["namespace"]) == ("find", "crm")
    assert whole(events)["output"] == [item]


@check_each(
    "events",
    [
        [*CUSTOM[:-1], CallEnd(4, valid=False)],
        [*CUSTOM[:-2], CallEnd(4)],
        [CUSTOM[0], CallArgs(4, '{"input":7}'), CallEnd(4)],
        [CUSTOM[0], CallArgs(4, "[]"), CallEnd(4)],
        CUSTOM[:-1],
    ],
)
def test_a_custom_call_without_an_input_is_not_sent(events: list[Event]):
    assert kinds(streamed(events)) == [*BEGIN, "completed"]
    assert whole(events)["output"] == []


def test_a_call_that_turned_out_wrong_is_marked_in_a_stream():
    events: list[Event] = [*CALL[:-1], CallEnd(3, valid=False), Finish("tool_calls")]
    assert final(events)["output"] == [function_call(0, '{"x":1}', "incomplete")]
    assert whole(events)["output"] == []


@pytest.mark.requirement("B6", "B11")
@check_each("reason", ["length", "tool_calls"])
def test_a_call_that_was_cut_never_ends(reason: FinishReason):
    events: list[Event] = [TextDelta("a"), *CALL[:2], Finish(reason)]
    documents = streamed(events)
    assert not any(one["type"].endswith("arguments.done") for one in documents)
    assert documents[-1]["type"] == "response.incomplete"
    assert documents[-1]["response"]["output"] == whole(events)["output"] == [message("a")]


@pytest.mark.requirement("G3")
@check_each(
    ("reason", "status", "details"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("unknown", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
@check_each("called", [False, True])
def test_the_status_says_how_it_ended(reason: FinishReason, status: str, details: Any, called: bool):
    events: list[Event] = [TextDelta("a"), *(CALL if called else []), Finish(reason)]
    documents = streamed(events)
    assert documents[-1]["type"] == f"response.{status}"
    response = documents[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == (status, details)
    assert response == whole(events)
    assert response["output"][0]["status"] == ("completed" if called else status)


@pytest.mark.requirement("G3")
def test_usage_and_the_extension_are_in_the_response():
    events: list[Event] = [TextDelta("a"), UsageSeen(Usage(5, 2, 4, 1)), Finish("stop")]
    response = streamed(events, PLAIN, {"requests": 1})[-1]["response"]
    assert response["toolspeak"] == {"requests": 1}
    assert response["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 7,
    }
    assert whole(events, PLAIN, {"requests": 1}) == response
    assert "toolspeak" not in whole(events)


@pytest.mark.requirement("R-F6")
@check_each(
    ("last", "kind", "code", "word"),
    [
        (Failure("it broke", "truncated"), "upstream_error", "truncated", "server_error"),
        (Failure("it broke", "timeout"), "timeout_error", "timeout", "server_error"),
        (Failure("it broke", "upstream", 429), "rate_limit_error", "upstream", "rate_limit_exceeded"),
    ],
)
def test_a_failure_ends_the_stream_and_is_told_in_both_ways(last: Failure, kind: str, code: str, word: str):
    face = encoder()
    data = face.encode([*CALL, TextDelta("a"), last, TextDelta("b"), Finish("stop")])
    assert face.encode([TextDelta("c"), *CALL]) == b""
    assert face.close() == b""
    documents = [json.loads(frame.data) for frame in SSEDecoder().feed(data) if isinstance(frame, ServerEvent)]
    failed, told = documents[-2:]
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": word, "message": "it broke"}
    assert failed["response"]["output"] == [function_call(0, '{"x":1}')]
    error = {"message": "it broke", "type": kind, "param": None, "code": code}
    assert (told["type"], told["message"], told["code"], told["error"]) == ("error", "it broke", code, error)
    assert json.loads(encode_reply(Reply(failure=last), PLAIN, id="x", created=1, model="m")) == {"error": error}


def test_a_turn_that_ended_in_an_error_is_an_error():
    assert kinds(streamed([TextDelta("a"), Finish("error")]))[-2:] == ["failed", "error"]
    assert kinds(streamed([Failure("x")])) == [*BEGIN, "failed", "error"]
    assert "error" in whole([TextDelta("a"), Finish("error")]).keys() - {"output"}


@pytest.mark.requirement("R-F14")
def test_no_character_of_a_text_can_end_a_line_for_any_client():
    odd = "a\u2028\u2029\u0085\x0b\x0c\r\n\x1c\x1d\x1eb\ud800"
    face = ReplyEncoder(PLAIN, id="resp_\u2028", created=7, model="m\u0085")
    data = face.encode([TextDelta(odd), TextDelta(odd), ReasoningDelta(odd), *CALL, Failure(odd)]).decode()
    frames = [frame for frame in data.split("\n\n") if frame]
    assert all(len(frame.splitlines()) == 2 for frame in frames)
    texts = [json.loads(frame.split("data: ", 1)[1]).get("delta") for frame in frames]
    assert texts.count(odd.replace("\ud800", "\ufffd")) == 3
    assert json.loads(encode_reply(fold([TextDelta(odd)]), PLAIN, id="x", created=1, model="m"))


# ------------------------------------------------------------------------------------------------- round trips

TEXT = st.text(max_size=12)
CALLS = st.lists(
    st.builds(
        ToolCall, st.sampled_from(["f", "crm__find"]), st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=2)
    )
    | st.builds(ToolCall, st.just("run"), st.fixed_dictionaries({"input": TEXT})),
    max_size=3,
)
CARRIED = st.lists(
    st.sampled_from([*thought("summary", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="g")[2:]])
    | st.just(OpaqueSeen(Opaque("item:web_search_call", SEARCH))),
    max_size=1,
)


@pytest.mark.requirement("G2", "G3")
@given(
    TEXT,
    TEXT,
    CARRIED,
    CALLS,
    st.booleans(),
    st.builds(Usage, *[st.integers(0, 99)] * 4),
    st.sampled_from(["stop", "length"]),
    st.randoms(),
)
def test_stream_and_answer_are_the_same_and_come_back(
    text: str,
    reasoning: str,
    carried: list[OpaqueSeen],
    calls: list[ToolCall],
    cited: bool,
    usage: Usage,
    reason: FinishReason,
    chance: Any,
):
    calls = [msgspec.structs.replace(call, id=f"id{at}") for at, call in enumerate(calls)]
    if calls and reason == "stop":
        reason = "tool_calls"
    if reason == "length":  # an input that was cut cannot be told from one that was not
        calls = [call for call in calls if call.name != "run"]
    events: list[Event] = [*carried]
    if reasoning and not carried:
        events.append(ReasoningDelta(reasoning))
    events += [TextDelta(piece) for piece in text]
    if text and cited:
        events.append(OpaqueSeen(Opaque("annotation:url_citation", CITATION)))
    for at, call in enumerate(calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        cut = chance.randrange(len(arguments) + 1)
        pieces = [piece for piece in (arguments[:cut], arguments[cut:]) if piece]
        events += [CallStart(at, call.name, call.id), *(CallArgs(at, piece) for piece in pieces), CallEnd(at)]
    events += [UsageSeen(usage), Finish(reason)]
    reply = fold(events)
    face = encoder()
    stream = b"".join(face.encode([event]) for event in events) + face.close()
    answer = encode_reply(reply, PLAIN, id="resp_1", created=7, model="m")
    at_once = encoder()
    assert stream == at_once.encode(events) + at_once.close()
    assert json.loads(SSEDecoder().feed(stream)[-1].data)["response"] == json.loads(answer)  # type: ignore[union-attr]
    for data in (stream, answer):
        decoder = ReplyDecoder(stream=True)
        assert comparable(fold(decoder.feed(data) + decoder.close())) == comparable(reply)


def comparable(reply: Reply) -> Reply:
    """Reasoning that we made an item of comes back with that item, and an item of the upstream's with its text."""
    opaque = tuple(part for part in reply.opaque if "reasoning" not in part.kind)
    if any(part.kind == "item:reasoning" and "encrypted_content" in part.data for part in reply.opaque):
        return msgspec.structs.replace(reply, opaque=opaque, reasoning="")
    return msgspec.structs.replace(reply, opaque=opaque)


@pytest.mark.requirement("G3")
def test_what_an_upstream_says_reaches_a_client_of_the_same_protocol_unchanged():
    items = [
        {
            "id": "rs_9",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm"}],
            "encrypted_content": "g",
        },
        SEARCH,
        message("Rain.", 9, annotations=[CITATION]) | {"id": "msg_1_2"},
        function_call(3, '{"x":1}'),
    ]
    answer = {"object": "response", "status": "completed", "output": items, "usage": None}
    decoder = ReplyDecoder(stream=False)
    events = decoder.feed(json.dumps(answer).encode()) + decoder.close()
    assert final(events)["output"] == whole(events)["output"] == items


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.requirement("G3")
@check_each(
    ("error", "status", "kind", "code"),
    [
        (UsageError("x"), 400, "invalid_request_error", "usage_error"),
        (ConfigError("x"), 400, "invalid_request_error", "config_error"),
        (ToolChoiceError("x"), 502, "server_error", "tool_choice_error"),
        (ToolspeakError("x"), 500, "server_error", "toolspeak_error"),
        (UpstreamError("x"), 502, "server_error", "upstream_error"),
        (UpstreamError("x", upstream_status=429), 429, "rate_limit_error", "upstream_error"),
        (UpstreamError("x", upstream_status=418), 418, "invalid_request_error", "upstream_error"),
        (UpstreamTimeout("x"), 504, "timeout_error", "upstream_timeout"),
    ],
)
def test_an_error_has_the_shape_and_status_that_clients_know(error: ToolspeakError, status: int, kind: str, code: str):
    found, body = encode_error(error)
    assert found == status
    assert json.loads(body) == {"error": {"message": "x", "type": kind, "param": None, "code": code}}


def test_messages_tell_their_phases():
    events: list[Event] = [
        OpaqueSeen(Opaque("start:message", {"phase": "commentary"})),
        TextDelta("a"),
        OpaqueSeen(Opaque("start:message", {"phase": "final_answer"})),
        TextDelta("b"),
        Finish("stop"),
    ]
    found = [(item["content"][0]["text"], item["phase"]) for item in final(events)["output"]]
    assert found == [("a", "commentary"), ("b", "final_answer")]
    assert [item["phase"] for item in whole(events)["output"]] == ["final_answer"]


def test_a_phase_is_not_taken_for_the_beginning_of_reasoning():
    mark = OpaqueSeen(Opaque("start:message", {"phase": "commentary"}))
    (item,) = final([mark, ReasoningDelta("a"), Finish("stop")])["output"]
    assert "phase" not in item
