"""A whole answer of a service, read and written again: what differs is what the codec's losses say, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.documented_losses import documented_losses
from toolspeak.core.events import fold
from toolspeak.core.types import Request

pytestmark = pytest.mark.requirement("G3")

CHAT = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "service_tier": "flex",
    "system_fingerprint": "fp",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 2},
        "completion_tokens_details": {
            "reasoning_tokens": 1,
            "audio_tokens": 2,
            "accepted_prediction_tokens": 1,
            "rejected_prediction_tokens": 1,
        },
    },
}
RESPONSE = {
    "id": "resp_y",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "service_tier": "flex",
    "billing": {"payer": "developer"},
    "output": [
        {
            "type": "message",
            "id": "msg_y",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_y",
            "call_id": "c",
            "name": "run",
            "input": "x",
            "status": "completed",
        },
        {
            "type": "function_call",
            "id": "fc_y",
            "call_id": "d",
            "name": "f",
            "arguments": "{}",
            "status": "completed",
        },
    ],
}
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    "modelVersion": "m",
    "responseId": "x",
    "createTime": "2026-01-01T00:00:00Z",
}
_TOKENS = "usage.completion_tokens_details."
#: Protocol -> an answer, and what is lost of it: each place by the name of the loss that tells so.
CASES: dict[str, tuple[dict[str, Any], dict[str, set[str]]]] = {
    "openai_chat": (
        CHAT,
        {
            "other tokens": {
                "usage.prompt_tokens_details.audio_tokens",
                *(
                    _TOKENS + name
                    for name in ("audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
                ),
            }
        },
    ),
    "openai_responses": (
        RESPONSE,
        {
            "ids": {"id", "output.0.id", "output.1.id", "output.2.id"},
            "status of a custom call": {"output.1.status"},
            "fields of a response": {"billing.payer"},
        },
    ),
    "gemini": (GEMINI, {"created": {"createTime"}}),
}
TOOLS = [{"type": "custom", "name": "run"}, {"type": "function", "name": "f", "parameters": {"type": "object"}}]


def request_of(protocol: str) -> Request:
    codec = import_module("toolspeak.protocols.openai_responses")
    request = codec.decode_request({"model": "m", "input": "x", "tools": TOOLS})
    return request if protocol == "openai_responses" else Request("m", (), protocol=protocol)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


@check_each("ordered", [True, False])
@check_each("protocol", CASES)
def test_what_is_lost_of_an_answer_is_listed(protocol: str, ordered: bool):
    answer, lost = CASES[protocol]
    codec = import_module(f"toolspeak.protocols.{protocol}")
    decoder = codec.ReplyDecoder(False)
    events = decoder.feed(json.dumps(answer).encode()) + decoder.close()
    given = {"events": events} if ordered and protocol != "openai_chat" else {}
    face = {"id": "x", "created": 1, "model": "m"}
    written = dict(leaves(json.loads(codec.encode_reply(fold(events), request_of(protocol), **face, **given))))
    assert {path for path, value in leaves(answer) if written.get(path, ...) != value} == set().union(*lost.values())
    assert lost.keys() <= set(documented_losses(protocol, "reply"))


def test_the_tier_that_served_an_answer_is_told_at_the_end_of_a_stream():
    codec = import_module("toolspeak.protocols.openai_responses")
    decoder = codec.ReplyDecoder(False)
    events = decoder.feed(json.dumps(RESPONSE).encode()) + decoder.close()
    encoder = codec.ReplyEncoder(request_of("openai_responses"), id="x", created=1, model="m")
    stream = encoder.encode(events) + encoder.close()
    assert json.loads(stream.split(b"data: ")[-1])["response"]["service_tier"] == "flex"
