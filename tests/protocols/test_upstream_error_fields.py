"""What an upstream calls an error reaches the clients that go by it: its code, its type, the field that it names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.events import Failure, Reply
from toolspeak.core.types import Message, Request, TextPart
from toolspeak.protocols import anthropic, gemini, openai_chat, openai_responses
from toolspeak.protocols.shared.fields import failure_from
from toolspeak.upstreams.base import error_of, failure_of, redact_failure

ASKED = Request("m", (Message("user", (TextPart("hi"),)),))
TOO_LONG = {
    "message": "too long",
    "type": "invalid_request_error",
    "param": "input",
    "code": "context_length_exceeded",
}


def words(failure: Failure) -> tuple[str, str, str]:
    return failure.code, failure.error_type, failure.param


@pytest.mark.requirement("G3")
@check_each("codec", [openai_chat, openai_responses])
def test_clients_of_openais_protocols_hear_the_words_of_the_upstream(codec: Any):
    failure = codec.decode_error(400, json.dumps({"error": TOO_LONG}).encode(), {})
    status, body = codec.encode_error(error_of(failure))
    assert (status, json.loads(body)) == (400, {"error": TOO_LONG})
    broken = codec.encode_reply(Reply(failure=failure), ASKED, id="x", created=1, model="m")
    assert json.loads(broken) == {"error": TOO_LONG}


@pytest.mark.requirement("G3")
def test_a_stream_of_responses_that_breaks_says_why_in_the_words_of_the_upstream():
    event = json.dumps({**TOO_LONG, "type": "error", "sequence_number": 2}).encode()
    decoder = openai_responses.ReplyDecoder(stream=True)
    (failure,) = decoder.feed(b"event: error\ndata: " + event + b"\n\n")
    assert isinstance(failure, Failure)
    assert words(failure) == ("context_length_exceeded", "", "input")  # there, the type is that of the event
    face = openai_responses.ReplyEncoder(ASKED, id="x", created=1, model="m")
    frames = [json.loads(line[6:]) for line in face.encode([failure]).split(b"\n") if line.startswith(b"data: ")]
    failed, told = frames[-2:]
    assert failed["response"]["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert (told["code"], told["param"]) == ("context_length_exceeded", "input")
    assert told["error"] == TOO_LONG


@check_each(
    ("error", "expected"),
    [
        ({"message": "m", "type": "overloaded_error"}, ("", "overloaded_error", "")),
        ({"message": "m", "code": 429, "status": "RESOURCE_EXHAUSTED"}, ("RESOURCE_EXHAUSTED", "", "")),
        ({"message": "m", "code": "429", "type": "error", "param": ["x"]}, ("", "", "")),
        ({"message": "m", "code": "what somebody wrote", "type": "x" * 65}, ("", "", "")),
        ({"message": "m", "code": "a\nb", "param": "a\x1b[2J" + "b" * 300}, ("", "", "a\\x1b[2J" + "b" * 195)),
        ({"error": {"message": "m", "code": "inner"}, "code": "outer"}, ("inner", "", "")),
        ({"error": "m", "code": "outer"}, ("outer", "", "")),
        ("m", ("", "", "")),
    ],
)
def test_only_words_that_a_client_can_go_by_are_kept(error: Any, expected: tuple[str, str, str]):
    failure = failure_from(error)
    assert failure.message == "m"
    assert words(failure) == expected


def test_words_of_an_upstream_say_nothing_that_nobody_may_see():
    failure = Failure("sk-1", body="sk-1", code="sk-1", error_type="sk-1", param="sk-1")
    assert "sk-1" not in repr(redact_failure(failure, lambda text: text.replace("sk-1", "…")))


def test_an_error_and_its_event_have_the_same_words():
    failure = Failure("m", code="c", error_type="t", param="p")
    assert failure_of(error_of(failure)) == failure


@pytest.mark.requirement("G3")
def test_geminis_words_stay_among_geminis_clients():
    body = b'{"error":{"code":400,"message":"m","status":"FAILED_PRECONDITION"}}'
    failure = gemini.decode_error(400, body, {})
    assert json.loads(gemini.encode_error(error_of(failure))[1]) == json.loads(body)
    broken = gemini.encode_reply(Reply(failure=failure), ASKED, id="x", created=1, model="m")
    assert json.loads(broken) == json.loads(body)
    assert json.loads(openai_chat.encode_error(error_of(failure))[1])["error"]["code"] == "upstream_error"
    other = Failure("m", status=404, code="FAILED_PRECONDITION")
    assert json.loads(gemini.encode_error(error_of(other))[1])["error"]["status"] == "NOT_FOUND"


@pytest.mark.requirement("G3")
@check_each(
    ("failure", "kind"),
    [
        (Failure("m", error_type="rate_limit_error"), "rate_limit_error"),
        (Failure("m", error_type="insufficient_quota"), "api_error"),
        (Failure("m", status=404, error_type="invalid_request_error"), "not_found_error"),
    ],
)
def test_anthropics_clients_hear_a_type_that_they_know(failure: Failure, kind: str):
    broken = anthropic.encode_reply(Reply(failure=failure), ASKED, id="x", created=1, model="m")
    assert json.loads(broken)["error"]["type"] == kind
