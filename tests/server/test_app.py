"""The application: what it keeps of requests, and how much."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.server.asgi import HELLO, Parrot, ask, gateway, line, run
from toolspeak.core.events import Candidate
from toolspeak.core.model import Message, Note, Request, TextPart, Usage
from toolspeak.core.trace import AttemptTrace, Trace
from toolspeak.server.app import App, Kept
from toolspeak.server.exchange import Record

LARGEST = 2 * 1024 * 1024


def record(name: str, answers: tuple[str, ...] = ("Hello.",)) -> Record:
    request = Request("m", (Message("user", (TextPart("a question"),)),))
    judged = (Candidate("f", "text", "unknown_tool", arguments={"a": "text"}),)
    attempts = tuple(AttemptTrace("inline", request, raw, "", judged, (), "stop", Usage()) for raw in answers)
    return Record(name, "openai_chat", "m", "inline", 1, (), "", Trace("inline", "rule", "why", attempts), (Note("n"),))


def names(kept: Kept) -> list[str]:
    return [name for _, name in kept.records]


def test_the_oldest_records_go_first():
    kept = Kept()
    for number in range(501):
        kept.add("anna", record(str(number)), 10)
    assert names(kept) == [str(number) for number in range(1, 501)]


@pytest.mark.requirement("R-T11")
def test_records_take_so_many_bytes_in_all():
    kept = Kept(most_bytes=100, largest=100)
    for name in "abc":
        kept.add("anna", record(name, ("x" * 20,)), 20)
    assert names(kept) == ["b", "c"]
    kept.add("anna", record("d", ("x" * 10, "x" * 10)), 40)  # two attempts, which hold the request each
    assert names(kept) == ["d"]


@pytest.mark.requirement("R-T11")
def test_a_record_that_is_too_large_is_kept_without_its_texts_and_says_so():
    kept = Kept()
    kept.add("anna", record("small"), LARGEST - len("Hello."))
    kept.add("anna", record("large"), LARGEST)
    assert kept.records["anna", "small"] == record("small")
    large = kept.records["anna", "large"]
    assert [note.code for note in large.notes] == ["n", "record_shortened"]
    assert "2097158 bytes" in large.notes[-1].detail
    (attempt,) = large.trace.attempts
    assert attempt == AttemptTrace("inline", Request("m", ()), "", "", (), (), "stop", Usage())


def test_large_requests_and_large_answers_are_told_of_without_their_texts():
    large = "x" * LARGEST
    asked: list[tuple[str, Any]] = [
        ("Hello.", {"model": "m", "messages": [{"role": "user", "content": large}]}),
        (large, HELLO),
        ("Hello.", HELLO),
    ]
    told: list[tuple[int, bool]] = []
    for text, body in asked:
        app = App(gateway(line("one", Parrot(text))))
        answer = run(ask(app, "POST", "/v1/chat/completions", {}, body))
        identifier = msgspec.json.decode(answer.header("x-toolspeak"))["id"]
        shown = run(ask(app, "GET", f"/toolspeak/requests/{identifier}"))
        told.append((answer.status, b"record_shortened" in shown.body))
        assert len(shown.body) < 10_000
    assert told == [(200, True), (200, True), (200, False)]
