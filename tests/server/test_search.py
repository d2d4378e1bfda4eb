"""The search in recorded requests: words and terms, with limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.server.recording.search import parse_query, select

pytestmark = pytest.mark.requirement("H3")

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
    ],
)
def test_a_query_finds_the_requests_that_match_all_its_terms(query: str, found: str):
    assert [line["id"] for line in select(LINES, parse_query(query))] == found.split()


def test_a_query_is_cut_to_its_limits():
    assert len(parse_query("a " * 10_000)) == 12
    (only,) = parse_query("a" * 10_000)
    assert len(only.value) == 200


def test_the_text_that_is_only_searched_is_not_sent():
    assert {line["text"] for line in select(LINES, [])} == {""}
