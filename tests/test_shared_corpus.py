"""What other projects' parsers are tested with, read by ours. Skipped where the shared corpus is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.shared_corpus_differences import DIFFERENCES, GROUPS

pytestmark = pytest.mark.requirement("B3", "B7", "B8")

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
#: Marks of cases that assert something else than the calls in a whole answer.
LEFT_OUT = ("POLICY", "GENPROMPT", "STREAM_PARTIAL", "ARGS_RAW", "EXPECT_NO_CRASH", "IGNORED_IN_SOURCE")
#: What we reach; the list of differences says why the rest is read otherwise.
LEAST_AGREEMENT = 0.899

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside the checkout")


def _cases() -> Iterator[dict[str, Any]]:
    for path in sorted(CORPUS.glob("*.jsonl")):
        if path.name != "json_malformed.jsonl":
            with path.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)


@lru_cache(maxsize=1)
def _unmarked() -> list[dict[str, Any]]:
    conflicts = json.loads((CORPUS / "CONFLICTS.json").read_text(encoding="utf-8"))
    disputed = {each["id"] for conflict in conflicts for each in conflict["expectations"]}
    return [
        case
        for case in _cases()
        if not any(mark in (case["notes"] or "") for mark in LEFT_OUT)
        and case["id"] not in disputed
        and case["dialect"] != "args_json"
    ]


def _agrees(case: dict[str, Any]) -> bool:
    calls = ts.parse(case["text"], case["tools"]).calls
    expected = case["expected_calls"]
    if len(calls) != len(expected):
        return False
    partial = "ARGS_PARTIAL" in (case["notes"] or "")
    return all(_same(call, wanted, partial) for call, wanted in zip(calls, expected, strict=True))


def _same(call: ts.ToolCall, wanted: dict[str, Any], partial: bool) -> bool:
    if wanted["name"] not in (None, call.name):
        return False
    if not partial:
        return call.arguments == wanted["arguments"]
    return all(call.arguments.get(key) == value for key, value in (wanted["arguments"] or {}).items())


@needs_corpus
def test_every_difference_is_on_the_list_and_nothing_else_is():
    differing = {case["id"] for case in _unmarked() if not _agrees(case)}
    assert differing == set(DIFFERENCES)


@needs_corpus
def test_the_share_of_agreement_does_not_fall():
    cases = _unmarked()
    assert sum(map(_agrees, cases)) / len(cases) >= LEAST_AGREEMENT


@needs_corpus
def test_outside_the_list_no_text_without_calls_yields_one():
    quiet = [case for case in _unmarked() if not case["expected_calls"] and case["id"] not in DIFFERENCES]
    assert [case["id"] for case in quiet if ts.parse(case["text"], case["tools"]).calls] == []


@pytest.mark.no_cover
@needs_corpus
def test_one_character_at_a_time_gives_the_same_reply_for_every_text():
    for case in _cases():
        scanner = ts.Scanner(case["tools"])
        events = [event for char in case["text"] for event in scanner.feed(char)]
        events += scanner.close()
        assert ts.fold(events) == ts.parse(case["text"], case["tools"]), case["id"]


def test_no_case_is_on_the_list_twice():
    assert len(DIFFERENCES) == sum(len(names.split()) for _, _, names in GROUPS)
