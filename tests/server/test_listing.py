"""The list of recorded requests: what each is about, and the search with its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.server.recording.listing import NO_HEADLINE, headline, parse_query, select

pytestmark = pytest.mark.requirement("H3")

CALL = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
USER = {"role": "user", "content": "What\n time is  it?"}
ROUND = [USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
ANTHROPIC_ROUND = [
    USER,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "clock", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "noon"}]},
]


def about(messages: list[Any], protocol: str = "openai_chat", secrets: tuple[str, ...] = (), **fields: Any) -> Any:
    body = {"model": "m", "max_tokens": 9, "messages": messages, **fields}
    return headline(protocol, json.dumps(body).encode(), {}, secrets)


@check_each(
    ("messages", "protocol", "question", "results"),
    [
        ([USER], "openai_chat", "What time is it?", []),
        (ROUND, "openai_chat", "What time is it?", ["clock"]),
        (ANTHROPIC_ROUND, "anthropic", "What time is it?", ["clock"]),
        ([*ROUND, {"role": "user", "content": "And now?"}], "openai_chat", "And now?", []),
        ([{"role": "system", "content": "Be brief."}], "openai_chat", "", []),
    ],
)
def test_a_request_asks_a_question_or_returns_results(
    messages: list[Any], protocol: str, question: str, results: list[str]
):
    found = about(messages, protocol)
    assert (found.question, list(found.results)) == (question, results)


def test_the_requests_of_a_conversation_begin_with_the_same_question_and_grow():
    first, second, other = about([USER]), about(ROUND), about([{"role": "user", "content": "Hello"}])
    assert first.conversation == second.conversation != other.conversation
    assert first.messages < second.messages


def test_half_a_key_is_not_shown_where_the_question_is_cut():
    key = "sk-" + "canary" * 9
    text = "a " * 30 + key
    found = about([{"role": "user", "content": text}], secrets=(key,))
    assert len(found.question) <= 80
    assert "canary" not in found.question + found.text


@pytest.mark.parametrize("body", [b"", b"no json", b'{"messages": 7}'])
def test_a_body_that_cannot_be_read_has_no_headline(body: bytes):
    assert headline("openai_chat", body, {}, ()) == NO_HEADLINE


# ---- search

LINES: list[dict[str, Any]] = [
    {
        "id": "a1",
        "text": "What time is it in Oslo?",
        "called": ["clock"],
        "model": "qwen3:8b",
        "calls": 1,
        "status": 200,
    },
    {
        "id": "b2",
        "text": "List the files",
        "called": ["shell"],
        "model": "Small",
        "retries": 1,
        "user_agent": "Codex/1",
    },
    {"id": "c3", "text": "Hello", "model": "small", "status": 500, "outcome": "error", "error": "CUDA out of memory"},
    {
        "id": "d4",
        "text": "Go on",
        "results": ["shell"],
        "model": "small",
        "invalid": 1,
        "call_likely": True,
        "repairs": 2,
    },
    {"id": "e5", "text": "Wait", "model": "small", "seconds": 2.5},
    {"id": "f6", "text": "Bye", "outcome": "left", "warnings": ["refusal"], "plan": "inline", "tenant": "key7"},
]

for moment, line in zip((10.0, 20.0, 100.0, 150.0, 300.0, 400.0), LINES, strict=True):
    line["time"] = moment
for success, line in zip(("unaided", "aided", "", "failed"), LINES, strict=False):
    line["success"] = success
LINES[1]["client_name"] = "Codex"


@check_each(
    ("query", "found"),
    [
        ("", "a1 b2 c3 d4 e5 f6"),
        ("oslo TIME", "a1"),
        ('"time is"', "a1"),
        ("cuda", "c3"),
        ("tool:shell", "b2 d4"),
        ("tool:shell -status:retry", "d4"),
        ("model:small status:retry client:codex", "b2"),
        ("client:key7", "f6"),
        ("plan:inline", "f6"),
        ("id:c3", "c3"),
        ("status:500", "c3"),
        ("status:error", "c3"),
        ("status:call", "a1"),
        ("status:invalid", "d4"),
        ("status:nocall", "d4"),
        ("status:repair", "d4"),
        ("status:running", "e5"),
        ("status:disconnected", "f6"),
        ("status:warning", "f6"),
        ("status:nonsense", ""),
        ("http://oslo", ""),
        ("model:qwen3:8b", "a1"),
        ("-oslo -small", "f6"),
        ("key:key7", "f6"),
        ("key:=key", ""),
        ('key:="key7"', "f6"),
        ("model:=small", "b2 c3 d4 e5"),
        ("model:=sma", ""),
        ("client:=codex", "b2"),
        ("since:1970-01-01t00:01:40z", "c3 d4 e5 f6"),
        ("until:1970-01-01T00:01:40", "a1 b2"),
        ("since:1970-01-01T01:01:40+01:00 until:1970-01-01T00:03Z", "c3 d4"),
        ("-since:1970-01-01T00:01:40Z", "a1 b2"),
        ("since:1h", ""),
        ("until:1h", "a1 b2 c3 d4 e5 f6"),
        ("since:noon", ""),
        ("status:unaided", "a1"),
        ("status:aided", "b2"),
        ("status:success", "a1 b2"),
        ("status:failed", "d4"),
    ],
)
def test_a_query_finds_the_requests_that_match_all_its_terms(query: str, found: str):
    assert [line["id"] for line in select(LINES, parse_query(query))] == found.split()


def test_terms_that_are_none_are_named_and_searched_as_text():
    query = "oslo status:zzz -since:yesterday http://oslo model:x status:500 since:2h"
    assert [term.unread for term in parse_query(query) if term.unread] == [
        "status:zzz",
        "-since:yesterday",
        "http://oslo",
    ]
    assert [line["id"] for line in select([{"id": "a", "text": "what is status:zzz"}], parse_query("status:zzz"))] == [
        "a"
    ]


def test_a_query_is_cut_to_its_limits():
    assert len(parse_query("a " * 10_000)) == 12
    (only,) = parse_query("a" * 10_000)
    assert len(only.value) == 300


def test_the_text_that_is_only_searched_is_not_sent():
    assert {line["text"] for line in select(LINES, [])} == {""}
