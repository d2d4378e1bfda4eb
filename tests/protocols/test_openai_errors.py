"""What an answer with an error status says, in the many shapes of the services that speak OpenAI's protocols."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.events import Failure
from toolspeak.errors import UpstreamError
from toolspeak.protocols import openai_chat, openai_responses
from toolspeak.protocols.shared.openai_errors import decode_error
from toolspeak.upstreams.base import error_of

VLLM = b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}'


@pytest.mark.requirement("G3")
@check_each("module", [openai_chat, openai_responses], ids=lambda module: module.PROTOCOL)
@check_each("stream", [False, True])
def test_an_error_that_older_vllm_gives_under_a_status_of_200_has_its_own(module: Any, stream: bool):
    for body in (VLLM, b"data: " + VLLM + b"\n\n") if stream else (VLLM,):
        decoder = module.ReplyDecoder(stream)
        (failure,) = [one for one in decoder.feed(body) + decoder.close() if isinstance(one, Failure)]
        assert (failure.message, failure.status, failure.kind) == ("too long", 400, "upstream")
        if module is openai_chat or body == VLLM:
            assert failure.error_type == "BadRequestError"
        error = error_of(failure)
        assert isinstance(error, UpstreamError)
        assert (error.upstream_status, openai_chat.encode_error(error)[0]) == (400, 400)


@pytest.mark.requirement("G3")
@check_each(
    ("status", "body", "message", "kind"),
    [
        (401, b'{"error":{"message":"bad key","type":"x","code":"invalid_api_key"}}', "bad key", "upstream"),
        (429, b'{"error":"slow down"}', "slow down", "upstream"),
        (404, b'{"message":"no such model"}', "no such model", "upstream"),
        (422, b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required", "upstream"),
        (400, b'[{"error":{"code":400,"message":"bad"}}]', "bad", "upstream"),
        (500, b"Internal Server Error", "Internal Server Error", "upstream"),
        (502, b"<html>\n<h1>Bad Gateway", "the upstream returned status 502", "upstream"),
        (503, b"", "the upstream returned status 503", "upstream"),
        (504, b"\xff", r"\xff", "timeout"),
        (408, b'{"error":{}}', "the upstream returned status 408", "timeout"),
        (400, b"[]", "the upstream returned status 400", "upstream"),
    ],
)
def test_an_error_answer_tells_what_went_wrong(status: int, body: bytes, message: str, kind: str):
    failure = decode_error(status, body, {})
    assert (failure.message, failure.kind, failure.status) == (message, kind, status)


def test_an_error_answer_is_shortened_and_names_the_request():
    failure = decode_error(400, b'{"error":"' + b"x" * 5000 + b'"}', {"x-request-id": "req_1"})
    assert failure.message == "x" * 200 + " (request req_1)"
    assert len(failure.body) == 200
