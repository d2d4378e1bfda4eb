"""The many ways in which upstreams say that a request is too long, and what is not one of them."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.core.events import Failure
from toolspeak.engine.context.complaints import ContextComplaint, context_complaint

OPENAI = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5123 tokens."
LLAMA = '{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":5123,"n_ctx":4096}}'


@pytest.mark.requirement("F11")
@check_each(
    ("message", "window", "used"),
    [
        (OPENAI, 4096, 5123),
        (
            "This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 in your prompt; "
            "256 for the completion). Please reduce your prompt; or completion length.",
            4097,
            3860,
        ),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", 0, 0),
        (
            "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 300,123 tokens.",
            272_000,
            300_123,
        ),
        ("prompt is too long: 213462 tokens > 200000 maximum", 200_000, 213_462),
        ("input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000", 200_000, 199_211),
        (
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            1_048_575,
            1_196_265,
        ),
        ("the request exceeds the available context size. try increasing the context size", 0, 0),
        ("request (5123 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 5123),
        ("Requested tokens (2065) exceed context window of 1800", 1800, 2065),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            4096,
            4000,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 "
            "tokens and your request has 100 input tokens (5000 > 4096 - 100).",
            4096,
            100,
        ),
        ("The decoder prompt (length 5123) is longer than the maximum model length of 4096.", 4096, 5123),
        (
            "Trying to keep the first 5123 tokens when context the overflows. However, the model is loaded with context "
            "length of only 4096 tokens, which is not enough.",
            4096,
            5123,
        ),
        ("The number of tokens to keep from the initial prompt is greater than the context length.", 0, 0),
        ("the input length exceeds the context length", 0, 0),
        ("prompt too long; exceeded max context length by 123 tokens", 0, 0),
        ("Please reduce the length of the messages or completion.", 0, 0),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
            40_000,
        ),
        (
            "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try a shorter one",
            4081,
            5000,
        ),
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of "
            "text input, 1000 in the output).",
            32_768,
            39_000,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
        ("prompt token count of 70000 exceeds the limit of 64000", 64_000, 70_000),
        ("Your request exceeded model token limit: 8192 (requested: 9000)", 8192, 9000),
        ("Input is too long for requested model.", 0, 0),
        ("invalid params, context window exceeds limit (2013)", 0, 0),
        ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096, 5000),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 4096, 5000),
        ("Input validation error: `inputs` must have less than 4096 tokens. Given: 4572", 4096, 4572),
        ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", 30_720, 0),
        ("Please use fewer tokens: 4572 tokens > 4096", 4096, 4572),
        ("Please reduce the length of the messages. Current length is 9000 while limit is 8192", 8192, 9000),
        ("Die Anfrage ist zu lang: höchstens 4096 Token", 4096, 0),
        ("Das Kontextfenster von 8192 Token wurde überschritten.", 8192, 0),
        ("Die Eingabe überschreitet die maximale Kontextlänge (8192 Token)", 8192, 0),
        ("输入内容过长，超过模型最大上下文长度 4096", 4096, 0),
        ("Prompt 超长", 0, 0),
        ("请求的 token 数超过了上下文限制：8192", 8192, 0),
        ("maximum context length is 12 tokens", 0, 0),
    ],
)
def test_a_complaint_says_how_large_the_window_and_the_prompt_are(message: str, window: int, used: int):
    assert context_complaint(Failure(message, status=400)) == ContextComplaint(window, used)


@check_each("status", [0, 200, 400, 413, 422, 500])
def test_a_complaint_may_come_with_many_statuses(status: int):
    assert context_complaint(Failure(OPENAI, status=status)) == ContextComplaint(4096, 5123)


@check_each("message", ["", "Request Entity Too Large", "<html>413 Payload Too Large</html>"])
def test_the_status_413_needs_no_words(message: str):
    assert context_complaint(Failure(message, status=413)) == ContextComplaint()


def test_a_code_or_a_body_is_enough():
    assert context_complaint(Failure("bad request", status=400, code="context_length_exceeded")) == ContextComplaint()
    assert context_complaint(Failure("HTTP 400", status=400, body=LLAMA)) == ContextComplaint(4096, 5123)


@check_each(
    "failure",
    [
        None,
        Failure("the upstream cancelled the request"),
        Failure("rate limit reached: limit 30000, used 29000, requested 2000 tokens", status=429),
        Failure(OPENAI, status=401),
        Failure("max_tokens is too large: 5000. This model supports at most 4096 completion tokens.", status=400),
        Failure("unknown field `context`", status=400),
        Failure("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000", status=413),
        Failure("Request too large for `m` on tokens per min (TPM): Limit 6000, Requested 7000", status=429),
        Failure("请求超过每分钟 token 限制 6000", status=400),
        Failure("请求超过频率限制", status=400),
        Failure("image exceeds the maximum allowed size of 4096 pixels", status=400),
        Failure("a" * 10_000 + "prompt is too long", status=400),
    ],
)
def test_other_failures_are_no_complaints(failure: Failure | None):
    assert context_complaint(failure) is None
