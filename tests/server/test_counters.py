"""The numbers of requests over time: what counts, how they add up, and where they are kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO
from tests.server.test_web_api import ASKED, CALL, CANARY, Desk
from tests.store import postgres
from tests.store.conftest import POSTGRESQL, SQLITE
from toolspeak.config import Secret
from toolspeak.core.events import Candidate
from toolspeak.core.types import Note, Request, Usage
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import EMULATED
from toolspeak.engine.turn.faults import Fault
from toolspeak.engine.turn.trace import AttemptTrace, Trace
from toolspeak.errors import UsageError
from toolspeak.server.observe import counters
from toolspeak.server.observe.counters import (
    PERIODS,
    RequestRow,
    Statistics,
    StatisticsQuery,
    Totals,
    add_groups,
    add_to_period,
    bucket_of,
    periods_of,
    read_query,
)
from toolspeak.server.proxy.exchange import RequestRecord
from toolspeak.server.recording.entries import RecordingEntry, client_name, request_row, success_of, totals_of
from toolspeak.server.recording.store_writer import StoreWriter, WriterProcess
from toolspeak.store import open_recordings
from toolspeak.store.sql_key_value import SqlKeyValue

pytestmark = pytest.mark.requirement("H4")

NOON = 1_800_000_000.0 // 21_600 * 21_600
VALID = Candidate("clock", "call", "accepted", "json_action")
NATIVE = msgspec.structs.replace(VALID, dialect="native")
REPAIRED = msgspec.structs.replace(VALID, notes=(Note("trailing_comma"),))
INVALID = Candidate("clock", "invalid", "bad_arguments", "json_action")
REFUSAL = Fault("refusal")


def attempt(*candidates: Candidate, fault: Fault | None = None, phase: str = "inline") -> AttemptTrace:
    return AttemptTrace(phase, Request("m", ()), "", "", candidates, (), "stop", Usage(100, 20), fault)


def entry(*attempts: AttemptTrace, plan: str = "inline", error: str = "", **fields: Any) -> RecordingEntry:
    warnings = (EMULATED,) if plan == "inline" else ()
    trace = Trace(plan, "rule", "", attempts)
    return RecordingEntry(
        RequestRecord("one", "openai_chat", "m", plan, len(attempts), warnings, error, trace),
        **{"status": 200, "started_at": NOON, "total_seconds": 2.0, "first_token": 0.5, "client": "codex/1", **fields},
    )


@check_each(
    ("given", "success"),
    [
        (entry(attempt(VALID)), "unaided"),
        (entry(attempt()), "unaided"),  # a plain answer
        (entry(attempt(NATIVE), plan="native"), "unaided"),
        (entry(attempt(VALID), plan="native"), "aided"),  # a call that was only text
        (entry(attempt(REPAIRED)), "aided"),
        (entry(attempt(fault=REFUSAL), attempt(VALID)), "aided"),
        (entry(attempt(fault=Fault("described")), attempt(VALID, phase="interpretation")), "aided"),
        (entry(attempt(INVALID)), "failed"),
        (entry(attempt(fault=REFUSAL), attempt(fault=REFUSAL)), "failed"),
        (entry(attempt(VALID), error="the upstream broke off"), "failed"),
        (entry(attempt(), plan="plain"), ""),  # no tools
        (entry(), ""),  # no answer
        (entry(attempt(VALID), status=499), ""),  # nobody took it
    ],
)
def test_success_is_judged_by_the_first_answer_and_by_the_end(given: RecordingEntry, success: str):
    assert success_of(given) == success
    totals = totals_of(given)
    assert totals.judged == bool(success)
    assert (totals.unaided, totals.successful) == (success == "unaided", success in ("unaided", "aided"))


def test_the_numbers_of_a_request_are_those_of_its_record():
    totals = totals_of(entry(attempt(fault=REFUSAL), attempt(REPAIRED, VALID), added_seconds=0.25))
    assert (totals.requests, totals.emulated, totals.native, totals.errors) == (1, 1, 0, 0)
    assert (totals.calls, totals.repairs, totals.retries, totals.refusals) == (2, 1, 1, 1)
    assert (totals.input_tokens, totals.output_tokens, totals.added) == (200, 40, 0.25)
    assert (totals.total, totals.first_token) == ({bucket_of(2.0): 1}, {bucket_of(0.5): 1})
    assert totals_of(entry(status=500, first_token=0.0)).first_token == {}
    assert (totals_of(entry(status=500)).errors, totals_of(entry(status=499)).disconnected) == (1, 1)


@check_each(("seconds", "bucket"), [(0.0, 0), (0.01, 0), (0.0101, 1), (0.0125, 1), (1.0, 21), (600.0, 50)])
def test_buckets_grow_by_a_quarter(seconds: float, bucket: int):
    assert bucket_of(seconds) == bucket


@check_each(
    ("agent", "name"),
    [("codex_cli_rs/0.1 (Linux)", "codex_cli_rs"), ("OpenAI File", "OpenAI"), ("Mozilla/5.0 x", "browser"), ("", "")],
)
def test_a_client_is_named_by_the_first_word_of_its_user_agent(agent: str, name: str):
    assert client_name(agent) == name


@pytest.mark.requirement("R-T2")
def test_names_in_statistics_contain_no_secret():
    given = entry(attempt(), client="sk-own-canary/1", secrets=(Secret("sk-own-canary"),))
    row = request_row(given, f"m configured-canary {'x' * 500}\x1b", ["configured-canary"])
    assert (row.client, row.model[:5], len(row.model)) == ("***", "m ***", 100)


# ---- sums


def row(started_at: float = NOON, model: str = "m", client: str = "c", key: str = "k", **numbers: Any) -> RequestRow:
    return RequestRow(started_at, model, client, key, Totals(requests=1, total={bucket_of(1.0): 1}, **numbers))


def query(since: float = NOON, until: float = NOON + 3600, seconds: int = 60, **fields: Any) -> StatisticsQuery:
    return StatisticsQuery(since, until, seconds, 900, **fields)


def kept(rows: Iterable[RequestRow]) -> Statistics:
    statistics = Statistics()
    for each in rows:
        statistics.add(each)
    return statistics


ROWS = [
    row(NOON - 1),
    row(NOON, errors=1),
    row(NOON + 1000, model="n", input_tokens=5, added=0.5),
    row(NOON + 1001, model="n", client="d", input_tokens=7, added=0.25),
    row(NOON + 3600),
]


def requests(groups: Mapping[str, Mapping[str, Totals]], dimension: str) -> dict[str, int]:
    return {value: totals.requests for value, totals in groups.get(dimension, {}).items()}


def test_requests_are_summed_by_bar_model_client_and_key():
    summary = kept(ROWS).summarize(query())
    assert requests(summary, "bar") == {"0": 1, "1": 2}
    assert requests(summary, "model") == {"m": 1, "n": 2}
    assert requests(summary, "client") == {"c": 2, "d": 1}
    assert requests(summary, "key") == {"k": 3}
    total = summary[""][""]
    assert (total.requests, total.errors, total.input_tokens, total.added) == (3, 1, 12, 0.75)
    assert total.total == {bucket_of(1.0): 3}


def test_the_bars_of_one_model_are_its_own():
    summary = kept(ROWS).summarize(query(dimension="model", value="n"))
    assert requests(summary, "bar") == {"1": 2}
    assert requests(summary, "model") == {"m": 1, "n": 2}  # to choose another one
    assert kept(ROWS).summarize(query(dimension="model", value="x")).get("bar") == {}


def test_memory_holds_the_latest_requests_only():
    statistics = kept(row(NOON + number / 10) for number in range(5010))
    assert statistics.summarize(query())[""][""].requests == 5000


def test_names_beyond_a_limit_count_as_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(counters, "_MAX_VALUES", 2)
    summary: Any = {}
    for name in ("a", "b", "c", "d", "a"):
        add_groups(summary, row(model=name).groups())
    assert requests(summary, "model") == {"a": 2, "b": 1, "other": 2}


def test_a_batch_that_is_written_again_is_not_counted_again():
    (groups,) = periods_of([row(NOON), row(NOON + 59)], 60).values()
    first = add_to_period(None, groups, "w1", 0)
    again = add_to_period(json.loads(json.dumps(first)), groups, "w1", 0)
    other = add_to_period(again, groups, "w2", 0)
    later = add_to_period(other, groups, "w1", 1)
    assert [period["groups"][""][""]["requests"] for period in (first, again, other, later)] == [2, 2, 4, 6]


@check_each(
    ("ago", "length", "seconds", "width"),
    [
        (3600, 3600, 60, 120),
        (6 * 3600 - 60, 6 * 3600 - 60, 60, 480),
        (86_400, 86_400, 900, 1800),
        (86_400, 3600, 900, 900),
        (14 * 86_400, 14 * 86_400, 21_600, 43_200),
        (90 * 86_400 - 60, 90 * 86_400 - 60, 21_600, 172_800),
    ],
)
def test_a_query_reads_the_shortest_periods_that_are_still_kept(
    monkeypatch: pytest.MonkeyPatch, ago: int, length: int, seconds: int, width: int
):
    monkeypatch.setattr(counters.time, "time", lambda: NOON)
    found = read_query({"since": str(NOON - ago), "until": str(NOON - ago + length)})
    assert (found.seconds, found.width) == (seconds, width)
    assert found.since % seconds == 0
    assert (found.until - found.since) / width <= 48


@check_each(
    "params",
    [{}, {"since": "1"}, {"since": "x", "until": "2"}, {"since": "3", "until": "2"}, {"since": "1", "until": "1e9"}]
    + [{"since": each, "until": "nan"} for each in ("nan", "1", "-5")],
)
def test_a_range_that_cannot_be_drawn_is_refused(params: dict[str, str]):
    with pytest.raises(UsageError, match="`since` must be before `until`"):
        read_query(params)


# ---- in the store


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else postgres.server().url()


@contextmanager
def opened(url: str) -> Iterator[SqlKeyValue]:
    state = open_recordings(url).state
    yield state
    state.close()


def write(state: SqlKeyValue, rows: list[RequestRow], writer: str = "w", batch: int = 0) -> None:
    for seconds in PERIODS:
        state.update(periods_of(rows, seconds), partial(add_to_period, writer=writer, batch=batch), 3600.0)


def test_the_store_and_the_memory_have_the_same_numbers(url: str):
    with opened(url) as state:
        write(state, ROWS[:2])
        write(state, ROWS[2:], batch=1)
    with opened(url) as state:  # as after a restart
        stored = Statistics(stored=state.get_many)
        for seconds in PERIODS:
            found = stored.summarize(query(NOON, NOON + 21_600, seconds))
            assert found[""] == kept(ROWS).summarize(query(NOON, NOON + 21_600))[""]
            assert found["client"] == kept(ROWS).summarize(query(NOON, NOON + 21_600))["client"]
        for each in (query(), query(dimension="model", value="n")):
            assert stored.summarize(each) == kept(ROWS).summarize(each)


def test_several_writers_lose_nothing(url: str):
    def work(me: str) -> None:
        with opened(url) as state:
            for batch in range(5):
                write(state, [row(NOON)], me, batch)

    with opened(url) as state:
        writers = [threading.Thread(target=work, args=(str(me),)) for me in range(4)]
        for each in writers:
            each.start()
        for each in writers:
            each.join(60)
        assert Statistics(stored=state.get_many).summarize(query())[""][""].requests == 20


def test_numbers_survive_the_server_and_need_no_bodies(url: str):
    process = WriterProcess(url)
    writer = StoreWriter(process.write, tuple, process.end, batch_seconds=0.0)
    for each in ROWS:
        writer.add_statistics(each)
    assert writer.flush(60)
    writer.add_statistics(row(NOON + 5))
    writer.close()
    with opened(url) as state:
        found = Statistics(stored=state.get_many).summarize(query())
        assert requests(found, "model") == {"m": 2, "n": 2}


def test_statistics_that_the_store_cannot_follow_are_dropped_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    from toolspeak.server.recording import store_writer
    from toolspeak.server.recording.writer_process import WriteResult

    monkeypatch.setattr(store_writer, "_MAX_PENDING_ROWS", 3)
    goes_on = threading.Event()
    writer = StoreWriter(lambda data: (goes_on.wait(20), WriteResult(0, "full"))[1], tuple, batch_seconds=0.0)
    for number in range(10):
        writer.add_statistics(row(NOON + number))
    goes_on.set()
    writer.close()
    assert "were not recorded: full" in caplog.text


# ---- asked over HTTP


def ask(desk: Desk, **params: str) -> Any:
    words = "&".join(f"{name}={value}" for name, value in params.items())
    return desk.ask("GET", f"/toolspeak/statistics?{words}")


def test_the_dashboard_gets_what_was_asked_by_model_client_and_key(monkeypatch: pytest.MonkeyPatch):
    desk = Desk(CALL, settings=Settings(mode="force", marks="fixed"))
    desk.asked(**{"User-Agent": "codex_cli_rs/0.1"})
    desk.asked(HELLO, **{"User-Agent": f"{CANARY}/1", "X-Api-Key": CANARY})
    now = counters.time.time()
    answer = ask(desk, since=str(now - 600), until=str(now + 60))
    told = answer.json
    assert told["groups"][""][""]["requests"] == 2
    assert {name: each["requests"] for name, each in told["groups"]["client"].items()} == {"codex_cli_rs": 1, "***": 1}
    assert told["groups"]["client"]["codex_cli_rs"]["successful"] == 1
    assert (told["stored"], told["late"], told["width"]) == (False, 0, 60)
    assert CANARY not in answer.body.decode()
    assert ask(desk, since="5").status == 400


def test_numbers_are_counted_although_nothing_is_recorded():
    desk = Desk(CALL, recorder=None)
    desk.ask("POST", "/v1/chat/completions", ASKED)
    now = counters.time.time()
    assert ask(desk, since=str(now - 600), until=str(now + 60)).json["groups"][""][""]["calls"] == 1
