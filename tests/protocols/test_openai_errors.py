"""What an answer with an error status says, in the many shapes of the services that speak OpenAI's protocols."""

from __future__ import annotations

import pytest

from toolspeak.protocols.openai_errors import decode_error


@pytest.mark.requirement("G3")
@pytest.mark.parametrize(
    ("status", "body", "message", "kind"),
    [
        (401, b'{"error":{"message":"bad key","type":"x","code":"invalid_api_key"}}', "bad key", "upstream"),
        (429, b'{"error":"slow down"}', "slow down", "upstream"),
        (404, b'{"message":"no such model"}', "no such model", "upstream"),
        (422, b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required", "upstream"),
        (400, b'[{"error":{"code":400,"message":"bad"}}]', "bad", "upstream"),
        (500, b"Internal Server Error", "Internal Server Error", "upstream"),
        (502, b"<html>\n<h1>Bad Gateway", "the upstream answered with status 502", "upstream"),
        (503, b"", "the upstream answered with status 503", "upstream"),
        (504, b"\xff", r"\xff", "timeout"),
        (408, b'{"error":{}}', "the upstream answered with status 408", "timeout"),
        (400, b"[]", "the upstream answered with status 400", "upstream"),
    ],
)
def test_an_error_answer_tells_what_went_wrong(status: int, body: bytes, message: str, kind: str):
    failure = decode_error(status, body, {})
    assert (failure.message, failure.kind, failure.status) == (message, kind, status)


def test_an_error_answer_is_shortened_and_names_the_request():
    failure = decode_error(400, b'{"error":"' + b"x" * 5000 + b'"}', {"x-request-id": "req_1"})
    assert failure.message == "x" * 200 + " (request req_1)"
    assert len(failure.body) == 200
