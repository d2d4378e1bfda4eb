"""Requests that are kept beyond memory: handed over by one process, written by another."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.config import Secret, load
from toolspeak.core.types import Note, Request, Tool, Usage
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.errors import StoreError
from toolspeak.server.proxy.exchange import RequestRecord
from toolspeak.server.recording import store_writer as keeping
from toolspeak.server.recording.entries import RecordingEntry, recalled_tools, text_size
from toolspeak.server.recording.recorder import Recorder
from toolspeak.server.recording.store_writer import (
    Losses,
    StoreWriter,
    WriterProcess,
    WriterProcessDied,
    create_recorder,
)
from toolspeak.server.recording.views import detail
from toolspeak.server.recording.writer_process import (
    Batch,
    BatchBuilder,
    WriteResult,
    main,
    read_batches,
    with_length,
    write_batch,
)
from toolspeak.store import open_recordings


def one_batch(data: list[bytes]) -> Batch:
    (batch,) = read_batches(io.BytesIO(b"".join(data)))
    return batch


def written_to(kept: list[Any]) -> Callable[[list[bytes]], WriteResult]:
    """What writes batches into a list, in this process."""
    return lambda data: write_batch(one_batch(data), lambda rows: kept.extend(told for _, _, told in rows))


def packed(*entries: RecordingEntry) -> list[bytes]:
    batch = BatchBuilder()
    batch.add(list(entries))
    return batch.frames([])


def entry_with(raw: str, identifier: str = "one") -> RecordingEntry:
    attempt = AttemptTrace("inline", Request("m", ()), raw, "", (), (), "stop", Usage())
    trace = Trace("inline", "rule", "why", (attempt,))
    return RecordingEntry(
        RequestRecord(identifier, "openai_chat", "m", "inline", 1, (), "", trace),
        body=b'{"model":"m"}',
        secrets=(Secret("sk-own-canary"),),
    )


@pytest.mark.requirement("H3", "R-T2")
def test_what_is_written_is_what_would_be_shown():
    kept: list[Any] = []
    keeper = StoreWriter(written_to(kept), lambda: [Secret("configured-canary")], batch_seconds=0.0)
    entry = entry_with("Hello configured-canary, sk-own-canary.")
    keeper(entry, 100)
    assert keeper.flush(20)
    assert kept == [detail(entry, ["configured-canary"])]
    assert "canary" not in str(kept)


@check_each(("raw", "changed"), [("half \ud800 of a pair", {}), ("plain", {"n": 2**70})])
def test_what_cannot_be_handed_over_as_it_is_is_shaped_first(raw: str, changed: dict[str, int]):
    kept: list[Any] = []
    keeper = StoreWriter(written_to(kept), tuple, batch_seconds=0.0)
    keeper(msgspec.structs.replace(entry_with(raw), changed=changed), 100)
    assert keeper.flush(20)
    assert [told["id"] for told in kept] == ["one"]


TOOL = b'{"type":"function","function":{"name":"clock","parameters":{"type":"object"}}}'


@check_each(
    ("body", "notes", "end"),
    [
        (b'{"model":"m","messages":[{"role":"user","content":"?"}],"tools":[%b]}' % TOOL, (), 34),
        (b'{"model":"m","messages":[]}', (Note("tools_recalled"),), 34),
        (b'{"model":"m","messages":[]}', (), 16),  # no tool is known: no further than the name
        (b"", (), 16),
        (b"no", (), 16),
    ],
)
def test_candidates_are_marked_by_the_tools_of_then(body: bytes, notes: tuple[Note, ...], end: int):
    raw = '{"name": "clock", "arguments": {}}'
    found = ts.parse(raw, tools=[json.loads(TOOL)]).candidates
    entry = entry_with(raw)
    (attempt,) = entry.record.trace.attempts
    trace = Trace("inline", "", "", (msgspec.structs.replace(attempt, candidates=found),), policy="standard")
    made = msgspec.structs.replace(entry.record, trace=trace, notes=notes)
    tools = recalled_tools(made, Request("m", (), (Tool("clock", parameters={"type": "object"}),)))
    entry = msgspec.structs.replace(entry, record=made, body=body, recalled_tools=tools)
    kept: list[Any] = []
    write_batch(one_batch(packed(entry)), lambda rows: kept.extend(told for _, _, told in rows))
    assert kept == [detail(entry)]
    assert kept[0]["trace"]["attempts"][0]["marks"] == [{"start": 0, "end": end, "candidates": [0]}]


def test_those_that_come_while_others_are_written_go_together():
    entered, goes_on = threading.Event(), threading.Event()
    sizes: list[int] = []

    def write(data: list[bytes]) -> WriteResult:
        sizes.append(len(one_batch(data).entries))
        entered.set()
        goes_on.wait(20)
        return WriteResult(sizes[-1])

    keeper = StoreWriter(write, tuple, batch_seconds=0.0)
    keeper(entry_with("first"), 100)
    assert entered.wait(20)
    for number in range(300):
        keeper(entry_with("more", str(number)), 100)
    goes_on.set()
    assert keeper.flush(20)
    assert sizes == [1, 300]
    keeper.close()


def test_they_gather_for_as_long_as_others_are_written_and_the_rest_of_the_time(monkeypatch: pytest.MonkeyPatch):
    now, taking = [0.0], [0.2, 2.0, 0.0]
    naps: list[float] = []

    def write(data: list[bytes]) -> WriteResult:
        now[0] += taking[len(naps) - 1]
        return WriteResult(1)

    monkeypatch.setattr(keeping, "time", SimpleNamespace(sleep=naps.append, monotonic=lambda: now[0]))
    keeper = StoreWriter(write, tuple, batch_seconds=0.5)
    for _ in taking:
        keeper(entry_with("a"), 100)
        assert keeper.flush(20)
    assert naps == [0.5, pytest.approx(0.3), 0.0]


@pytest.mark.parametrize(("raw", "together"), [("a", 64), ("x" * 100_000, 3), ("\ud800" * 100_000, 3)])
def test_a_store_that_cannot_follow_loses_requests_and_says_so(
    raw: str, together: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keeping, "_MAX_PENDING_BYTES", 1000)
    goes_on = threading.Event()
    keeper = StoreWriter(lambda data: (goes_on.wait(20), WriteResult(300))[1], tuple, batch_seconds=0.0)
    entry = entry_with(raw)
    for _ in range(300):
        keeper(entry, text_size(entry))
    goes_on.set()
    assert keeper.flush(20)
    before = keeper.losses.count
    assert before >= 300 - 3 * together  # those under way, those that were too many, and those not encoded yet
    assert "were not recorded" in caplog.text
    keeper(entry_with("x"), 100)  # there is room again
    assert keeper.flush(20)
    assert keeper.losses.count == before


def test_a_scribe_that_is_gone_is_not_tried_at_once_and_all_that_is_lost_is_told_with_the_reason(
    caplog: pytest.LogCaptureFixture,
):
    tries: list[int] = []

    def write(data: list[bytes]) -> WriteResult:
        tries.append(1)
        raise WriterProcessDied("it has ended")

    keeper = StoreWriter(write, tuple, batch_seconds=0.0)
    for _ in range(3):
        keeper(entry_with("a"), 100)
        assert keeper.flush(20)
    assert (len(tries), keeper.losses.count) == (1, 3)
    keeper.close()
    assert caplog.messages == [
        "1 requests were not recorded: it has ended (1 in total)",
        "2 requests were not recorded: it has ended (3 in total)",
    ]


def test_what_the_scribe_could_not_write_and_what_we_did_wrong_is_logged(caplog: pytest.LogCaptureFixture):
    answers = iter([WriteResult(0, "the disk is full")])
    keeper = StoreWriter(lambda data: next(answers), tuple, batch_seconds=0.0)
    for _ in range(2):
        keeper(entry_with("a"), 100)
        assert keeper.flush(20)
    assert "1 requests were not recorded: the disk is full (1 in total)" in caplog.messages
    assert "1 requests were not recorded: internal error (2 in total)" in caplog.messages
    assert "StopIteration" in caplog.text


def test_losses_are_told_at_first_by_the_hundred_for_each_reason_and_when_they_end(caplog: pytest.LogCaptureFixture):
    lost = Losses()
    for _ in range(150):
        lost.add(1, "full")
    lost.add(5, "gone")
    lost.add(2, "gone")
    lost.report()
    lost.report()
    lost.add(1, "gone")
    assert [each.split()[0] + each.partition(":")[2] for each in caplog.messages] == [
        "1 full (1 in total)",
        "100 full (101 in total)",
        "49 full (150 in total)",
        "5 gone (155 in total)",
        "2 gone (157 in total)",
        "1 gone (158 in total)",
    ]


def test_what_is_left_is_written_at_the_end():
    kept: list[Any] = []
    ended: list[bool] = []
    keeper = StoreWriter(written_to(kept), tuple, lambda: ended.append(True), batch_seconds=0.0)
    recorder = Recorder(sink=keeper)
    for number in range(5):
        recorder.add(entry_with("a", str(number)))
    keeper.close()
    assert ([told["id"] for told in kept], ended) == ([*"01234"], [True])
    StoreWriter(written_to(kept), tuple).close()  # one that has kept nothing


# ---- the scribe


def test_one_that_cannot_be_read_spoils_no_other():
    rows: list[Any] = []
    batch = one_batch(packed(entry_with("a")))
    batch.entries.insert(0, msgspec.Raw(msgspec.msgpack.encode({"record": 5})))
    heard = write_batch(batch, rows.extend)
    assert heard.stored == len(rows) == 1
    assert "ValidationError" in heard.problem


@pytest.mark.requirement("R-T2")
def test_columns_are_as_clean_as_the_rest():
    rows: list[Any] = []
    entry = entry_with("a")
    named = msgspec.structs.replace(entry.record, model="sk-own-canary/m", id="tsk-0123456789")
    write_batch(one_batch(packed(msgspec.structs.replace(entry, record=named))), rows.extend)
    assert [row[:2] for row in rows] == [("***", "***/m")]


def test_a_store_that_refuses_is_told_of():
    def refuse(rows: Any) -> None:
        raise StoreError("it is away")

    assert write_batch(one_batch(packed(entry_with("a"))), refuse) == WriteResult(0, "it is away")


def test_it_writes_to_the_end_of_its_input_and_half_a_frame_is_none(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/store.db"
    batch = b"".join(packed(*(entry_with("a", each) for each in "xyz")))
    opening = with_length(url.encode())
    said = io.BytesIO()
    main(io.BytesIO(opening + batch + batch[:-1]), said)
    assert said.getvalue() == b'{"kept":3,"problem":""}\n'
    assert open_recordings(url).find("x")["id"] == "x"
    assert open_recordings(url).last()["id"] == "z"  # the last of those that were written together
    main(io.BytesIO(b""), said)  # nobody has said where to


@pytest.mark.requirement("H3")
def test_a_process_of_its_own_writes_and_ends_with_its_input(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/store.db"
    scribe = WriterProcess(url)
    keeper = StoreWriter(scribe.write, lambda: [Secret("configured-canary")], scribe.end, batch_seconds=0.0)
    keeper(entry_with("Hello configured-canary.", "first"), 100)
    assert keeper.flush(60)
    keeper(entry_with("Hello.", "second"), 100)
    keeper.close()
    recordings = open_recordings(url)
    assert recordings.find("first")["trace"]["attempts"][0]["raw"] == "Hello ***."
    assert recordings.last()["id"] == "second"
    scribe.end()  # which it has


def test_a_process_that_dies_is_told_of_and_another_one_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scribe = WriterProcess(f"sqlite:///{tmp_path}/store.db")
    batch = packed()
    assert scribe.write(batch) == WriteResult(0)
    process = scribe._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    process.kill()
    with pytest.raises(WriterProcessDied):
        scribe.write(batch)
    assert process.returncode is not None
    assert scribe.write(batch) == WriteResult(0)
    scribe.end()
    monkeypatch.setattr(keeping.sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(WriterProcessDied):
        scribe.write(batch)


@pytest.mark.skipif(sys.platform == "win32", reason="no process is asked to end there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_is_told_to_end_goes_on_to_the_end_of_its_input(tmp_path: Path, number: signal.Signals):
    scribe = WriterProcess(f"sqlite:///{tmp_path}/store.db")
    assert scribe.write(packed()) == WriteResult(0)
    process = scribe._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    process.send_signal(number)
    assert scribe.write(packed(entry_with("a"))) == WriteResult(1)
    scribe.end()
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_one_that_hangs_does_not_keep_the_server_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "_SHUTDOWN_SECONDS", 0.2)
    scribe, waits = WriterProcess(f"sqlite:///{tmp_path}/store.db"), threading.Event()
    assert scribe.write(packed()) == WriteResult(0)
    process = scribe._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    process.send_signal(signal.SIGSTOP)

    def write(data: list[bytes]) -> WriteResult:
        waits.set()
        return scribe.write(data)

    keeper = StoreWriter(write, tuple, scribe.end, batch_seconds=0.0)
    keeper(entry_with("x" * 1_000_000), 1_000_000)  # more than the pipe holds
    assert waits.wait(20)
    closing = threading.Thread(target=keeper.close, daemon=True)
    closing.start()
    closing.join(20)
    ended = not closing.is_alive()
    process.kill()  # if nobody has
    assert ended
    assert process.returncode == -signal.SIGKILL
    assert keeper.losses.count == 1


@pytest.mark.parametrize(("record", "keeps"), [("off", None), ("memory", Recorder), ("store", Recorder)])
def test_the_configuration_says_what_is_kept(tmp_path: Path, record: str, keeps: type | None):
    flags = {"record": record, "store": f"sqlite:///{tmp_path}/store.db"}
    made, statistics = create_recorder(load(flags), tuple)
    assert (type(made) if made is not None else None) is keeps
    assert statistics.stored is not None  # numbers are kept in the store, whatever is kept of requests
    assert (tmp_path / "store.db").exists()


@pytest.mark.parametrize("record", ["off", "memory"])
def test_without_a_store_numbers_stay_in_memory(tmp_path: Path, record: str):
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    _, statistics = create_recorder(load({"record": record}, env=environment), tuple)
    assert statistics.stored is None
    assert not list(tmp_path.rglob("*.db"))
