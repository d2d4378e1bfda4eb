"""What is kept of requests, and how much."""

from __future__ import annotations

from concurrent.futures import wait
from itertools import count
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Parrot, ask, gateway, line, run
from toolspeak.config import Secret
from toolspeak.core.events import Candidate
from toolspeak.core.types import (
    Media,
    Message,
    Note,
    Opaque,
    Options,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.server.app import App
from toolspeak.server.proxy.exchange import RequestRecord
from toolspeak.server.proxy.upstream_router import UpstreamAddress
from toolspeak.server.recording import recorder as recording
from toolspeak.server.recording import views as shown
from toolspeak.server.recording.entries import RecordingEntry, unpack
from toolspeak.server.recording.recorder import Recorder

LARGEST = 2 * 1024 * 1024


def record(name: str, answers: tuple[str, ...] = ("Hello.",)) -> RequestRecord:
    request = Request("m", (Message("user", (TextPart("a question"),)),))
    judged = (Candidate("f", "text", "unknown_tool", arguments={"a": "text"}),)
    attempts = tuple(AttemptTrace("inline", request, raw, "", judged, (), "stop", Usage()) for raw in answers)
    return RequestRecord(
        name, "openai_chat", "m", "inline", 1, (), "", Trace("inline", "rule", "why", attempts), (Note("n"),)
    )


def with_request(given: RecordingEntry, request: Request, found: int = 1) -> RecordingEntry:
    """An entry whose one answer was asked for by this request, and held so many candidates."""
    (attempt,) = given.record.trace.attempts
    changed = replace(attempt, request=request, candidates=attempt.candidates * found)
    return replace(given, record=replace(given.record, trace=replace(given.record.trace, attempts=(changed,))))


NUMBERS = count(1)


def entry(name: str, size: int, answers: tuple[str, ...] = ("Hello.",)) -> RecordingEntry:
    return RecordingEntry(record(name, answers), "anna", b"x" * size, number=next(NUMBERS))


def names(recorder: Recorder) -> list[str]:
    return [each.record.id for each in recorder.after(0)]


def test_the_oldest_go_first():
    recorder = Recorder(max_entries=3)
    for name in "abcde":
        recorder.add(entry(name, 10))
    assert names(recorder) == ["e", "d", "c"]
    assert len(recorder) == 3
    assert recorder.find("a") is None


def test_who_has_seen_some_asks_for_the_later_ones():
    recorder = Recorder()
    numbers = [recorder.add(entry(name, 10)).number for name in "abc"]
    assert [each.record.id for each in recorder.after(numbers[0])] == ["c", "b"]
    assert list(recorder.after(numbers[-1])) == []


@pytest.fixture
def only_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if values took nothing beside their texts."""
    monkeypatch.setattr(recording, "_overhead", lambda entry, most: 0)


@pytest.mark.requirement("R-T11")
@check_each(
    ("messages", "extra", "found", "shortened"),
    [
        (1, {}, 1, False),
        (500, {"a": {"b": [1, 2, {}]}}, 10, False),
        (20_000, {}, 1, True),
        (1, {"a": [{}] * 30_000}, 1, True),
        (1, {"a": {str(each): [] for each in range(30_000)}}, 1, True),
        (1, {}, 20_000, True),
    ],
)
def test_many_small_values_take_more_than_their_texts(messages: int, extra: Any, found: int, shortened: bool):
    said = (Message("user", (TextPart("a"),)),) * messages
    asked = Request("m", said, options=Options(extra=extra))
    kept = Recorder().add(with_request(RecordingEntry(record("a"), body=b"x" * 3000), asked, found))
    assert (kept.body == b"") is shortened


MANY: Any = {str(each): [] for each in range(30_000)}


@pytest.mark.requirement("R-T11")
@check_each(
    "message",
    [
        Message("user", (TextPart("a"),) * 30_000),
        Message("user", (TextPart("a", MANY),)),
        Message("user", (Media("image", "data:", MANY),)),
        Message("user", (Opaque("odd", MANY),)),
        Message("user", extra=MANY),
        Message("assistant", calls=(ToolCall("f", MANY),)),
        Message("tool", results=(ToolResult("1", "a", extra=MANY),)),
        Message("tool", results=(ToolResult("1", "a", parts=(Opaque("odd", MANY),)),)),
    ],
)
def test_they_are_counted_wherever_in_a_message_they_stand(message: Message):
    given = with_request(RecordingEntry(record("a"), body=b"x" * 3000), Request("m", (message,)))
    assert Recorder().add(given).body == b""


def test_a_refused_request_takes_the_bytes_of_its_body():
    recorder = Recorder(max_bytes=50)
    bare = replace(record("bare"), trace=Trace("", "", ""))
    recorder.add(RecordingEntry(bare, body=b"x" * 40, number=next(NUMBERS)))
    recorder.add(entry("b", 10))
    assert names(recorder) == ["b"]


@pytest.mark.requirement("R-T11")
def test_they_take_so_many_bytes_in_all():
    recorder = Recorder(max_bytes=100, max_entry_bytes=100)
    for name in "abc":
        recorder.add(entry(name, 20, ("x" * 20,)))
    assert names(recorder) == ["c", "b"]
    recorder.add(entry("d", 40, ("x" * 10, "x" * 10)))  # two attempts, which hold the request each
    assert names(recorder) == ["d"]


@pytest.mark.requirement("R-T11")
@pytest.mark.usefixtures("only_texts")
def test_one_that_is_too_large_is_kept_without_its_texts_and_says_so():
    recorder = Recorder()
    small = recorder.add(entry("small", LARGEST - len("Hello.")))
    large = recorder.add(entry("large", LARGEST))
    assert unpack(small).record == record("small")
    assert [note.code for note in large.record.notes] == ["n", "record_shortened"]
    assert "2097158 bytes" in large.record.notes[-1].detail
    (attempt,) = large.record.trace.attempts
    assert attempt == AttemptTrace("inline", Request("m", ()), "", "", (), (), "stop", Usage())
    assert (large.body, large.recalled_tools, large.messages) == (b"", (), b"")


LARGE = b'{"model":"m","messages":[]}'.ljust(20_000)
HELLO_BODY = msgspec.json.encode(HELLO)


def test_messages_of_a_large_request_are_kept_in_one_piece_and_shown_as_they_were():
    given = replace(entry("a", 0, ("x", "y")), body=LARGE)
    kept = Recorder().add(given)
    assert [each.request.messages for each in kept.record.trace.attempts] == [(), ()]
    assert kept.messages
    assert unpack(kept) == given
    assert shown.detail(kept) == shown.detail(given)
    assert shown.summary(kept) == shown.summary(given)


@check_each("value", ["half \ud800 of a pair", 2**70])
def test_messages_that_cannot_be_encoded_are_kept_as_they_are(value: Any):
    given = with_request(RecordingEntry(record("a"), body=LARGE), Request("m", (Message("user", extra={"a": value}),)))
    assert Recorder().add(given) is given


def test_a_refused_request_has_no_messages():
    bare = RecordingEntry(replace(record("bare"), trace=Trace("", "", "")), body=LARGE)
    assert unpack(Recorder().add(bare)) == bare


@pytest.mark.requirement("R-T11")
def test_a_large_request_takes_the_bytes_of_what_came_and_of_what_was_sent():
    said = (Message("user", (TextPart("x" * 50_000),)),)
    given = with_request(RecordingEntry(record("a"), body=LARGE, number=next(NUMBERS)), Request("m", said))
    recorder = Recorder(max_bytes=75_000)
    recorder.add(given)
    recorder.add(entry("b", 1000))
    assert names(recorder) == ["b", "a"]
    recorder.add(entry("c", 10_000))
    assert names(recorder) == ["c", "b"]


def test_whoever_keeps_more_is_handed_every_entry_whole():
    further: list[tuple[RecordingEntry, int]] = []
    recorder = Recorder(max_entries=1, max_entry_bytes=10, sink=lambda entry, size: further.append((entry, size)))
    recorder.add(entry("a", 100))
    recorder.add(entry("b", 100))
    assert [(each.record.id, len(each.body), size) for each, size in further] == [("a", 100, 106), ("b", 100, 106)]


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
        answered = run(ask(app, "GET", f"/toolspeak/requests/{identifier}"))
        told.append((answer.status, b"record_shortened" in answered.body))
        assert len(answered.body) < 10_000
    assert told == [(200, True), (200, True), (200, False)]


def fill(recorder: Recorder, given: list[RecordingEntry]) -> None:
    """Add entries so slowly that they can be compressed."""
    for each in given:
        recorder.add(each)
        if recorder._work is not None:  # pyright: ignore[reportPrivateUsage]
            wait([recorder._work[1]])  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_PAUSE_RATIO", 0)


def full_entry(number: int) -> RecordingEntry:
    """An entry in which everything that can be sent to a store has a value."""
    large = number % 7 == 0
    given = replace(entry(f"r{number}", 0, ("x", "y")), body=LARGE if large else HELLO_BODY, number=number)
    return replace(
        given,
        record=replace(given.record, client_protocol="gemini"),
        fields={"model": "m"},
        client="openai-python",
        recalled_tools=(Tool("f", "does", {"type": "object"}),),
        secrets=(Secret("sk-1"),),
        changed={"retries": 1},
        upstream_address=UpstreamAddress("bench", "http://127.0.0.1:9/v1", "openai_chat", "m"),
        settings=Settings(mode="force"),
        server_tools=(Tool("g"),),
    )


@pytest.mark.usefixtures("no_pauses")
def test_compressed_entries_are_found_and_shown_as_they_were():
    recorder = Recorder()
    given = [full_entry(number) for number in range(1, 300)]
    fill(recorder, given)
    assert [unpack(each) for each in recorder.after(0)] == given[::-1]
    assert [each.number for each in recorder.after(290)] == list(range(299, 290, -1))
    for each in given:
        found = recorder.find(each.record.id)
        assert found is not None
        assert unpack(found) == each
        assert shown.detail(found) == shown.detail(each)
        assert shown.summary(found) == shown.summary(each)


@pytest.mark.requirement("R-T11")
@pytest.mark.usefixtures("no_pauses")
def test_compressed_entries_take_little_of_the_limit():
    recorder = Recorder(max_bytes=1_000_000)
    given = [replace(entry(f"r{number}", 0), body=LARGE) for number in range(200)]
    fill(recorder, given)
    assert names(recorder) == [each.record.id for each in given[::-1]]
    for number in range(60):  # too fast for that
        recorder.add(replace(entry(f"s{number}", 0), body=LARGE))
    left = names(recorder)
    assert left == [f"s{number}" for number in range(59, 59 - len(left), -1)]
    assert 40 < len(left) < 60


@pytest.mark.usefixtures("no_pauses")
def test_an_entry_that_cannot_be_encoded_is_not_compressed():
    given = [entry(f"r{number}", 10) for number in range(120)]
    said = (Message("user", extra={"a": 2**70}),)
    given[3] = with_request(given[3], Request("m", said))
    recorder = Recorder()
    fill(recorder, given)
    assert recorder.find("r3") is given[3]
    assert list(recorder.after(0)) == given[::-1]


@pytest.mark.usefixtures("no_pauses")
def test_entries_that_are_evicted_while_they_are_compressed_stay_away():
    recorder = Recorder(max_entries=70)
    for number in range(70):
        recorder.add(entry(f"a{number}", 12_000))  # the oldest are being compressed after these
    fill(recorder, [entry(f"b{number}", 10) for number in range(80)])
    assert names(recorder) == [f"b{number}" for number in range(79, 79 - len(recorder), -1)]
    assert 70 <= len(recorder) <= 71


def test_when_there_is_no_time_to_compress_the_oldest_go():
    recorder = Recorder()
    for number in range(1000):
        recorder.add(entry(f"r{number}", 10))
    assert len(recorder) <= 600
    assert names(recorder)[0] == "r999"


def test_nothing_is_kept_where_nobody_wants_it():
    app = App(gateway(), recorder=None)
    answer = run(ask(app, "POST", "/v1/chat/completions", {}, HELLO))
    identifier = msgspec.json.decode(answer.header("x-toolspeak"))["id"]
    assert run(ask(app, "GET", f"/toolspeak/requests/{identifier}")).status == 404
