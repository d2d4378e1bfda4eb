"""The small memory over a database: what holds for the others holds for it, and many processes share it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.store.test_sessions import HOSTILE
from toolspeak.errors import StoreDamagedError, UsageError
from toolspeak.key_value import State
from toolspeak.store.database import Database
from toolspeak.store.schema import state as table
from toolspeak.store.sql_key_value import SqlKeyValue


@pytest.fixture
def state(url: str) -> Iterator[SqlKeyValue]:
    made = SqlKeyValue(Database(url))
    yield made
    made.close()


def _rows(state: SqlKeyValue) -> int:
    count = sa.select(sa.func.count()).select_from(table)
    return state._database.read(lambda connection: connection.execute(count).scalar_one())  # pyright: ignore[reportPrivateUsage]


def test_what_was_put_is_there_until_it_is_deleted(state: SqlKeyValue):
    seam: State = state
    assert seam.get("a") is None
    seam.put("a", {"x": [1, "ü", None, True, 2.5, "\x00", "\ud800"]})
    seam.put("b", 2)
    assert seam.get("a") == {"x": [1, "ü", None, True, 2.5, "\x00", "\ud800"]}
    seam.put("a", 3)
    assert (seam.get("a"), seam.get("b")) == (3, 2)
    assert state.get_many(["a", "b", "c"]) == {"a": 3, "b": 2}
    assert state.get_many([]) == {}
    seam.delete("a")
    seam.delete("never there")
    assert (seam.get("a"), seam.get("b")) == (None, 2)


@pytest.mark.requirement("R-F43")
def test_what_has_ended_is_gone_by_the_clock_of_the_database(state: SqlKeyValue):
    state.put("ended", 1, ttl=-1.0)
    state.put("lives", 2, ttl=3600.0)
    state.put("for ever", 3)
    assert [state.get(key) for key in ("ended", "lives", "for ever")] == [None, 2, 3]
    assert state.keys() == ["for ever", "lives"]
    assert state.setdefault("ended", 4, ttl=3600.0) == 4
    assert state.setdefault("ended", 5) == 4
    state.put("ended", 6, ttl=-1.0)
    state.sweep()
    assert _rows(state) == 2


def test_keys_are_found_by_how_they_begin(state: SqlKeyValue):
    for key in ("a/1", "a/2", "A/3", "a_4", "a%5", "b", 'a/"ü', "a/\\"):
        state.put(key, 1)
    assert state.keys("a/") == sorted(["a/1", "a/2", 'a/"ü', "a/\\"])
    assert state.keys("a_") == ["a_4"]
    assert state.keys("a%") == ["a%5"]
    assert state.keys("c") == []
    assert len(state.keys()) == 8


@pytest.mark.requirement("R-T10")
def test_any_text_can_be_a_key(state: SqlKeyValue):
    keys = [*HOSTILE, "x" * 100_000, "\x00" * 5_000, "🦊" * 3_000]
    for number, key in enumerate(keys):
        state.put(f"p/{key}", number)
    assert [state.get(f"p/{key}") for key in keys] == list(range(len(keys)))
    assert len(state.keys("p/")) == len(keys)
    for key in state.keys("p/"):
        assert state.get(key) is not None


@pytest.mark.parametrize("value", [float("nan"), object(), "x" * (5 * 1024 * 1024)], ids=["nan", "object", "large"])
def test_what_is_no_json_or_too_large_is_not_kept(state: SqlKeyValue, value: Any):
    with pytest.raises(UsageError):
        state.put("a", value)
    with pytest.raises(UsageError):
        state.setdefault("a", value)
    assert state.get("a") is None


def test_of_several_who_come_first_one_wins_and_all_see_it(state: SqlKeyValue):
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: seen.append(state.setdefault("secret", n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 8
    assert set(seen) == {state.get("secret")}


_PUT = "import sys; from toolspeak.key_value import open_state; open_state(sys.argv[1]).put('from', 'another process')"


def test_processes_share_it(url: str, state: SqlKeyValue):
    subprocess.run([sys.executable, "-c", _PUT, url], check=True, timeout=60)
    assert state.get("from") == "another process"


def test_when_there_is_too_much_what_ends_soonest_goes(url: str):
    state = SqlKeyValue(Database(url), max_chars=1000)
    state.put("for ever", "x" * 5000)
    for number in range(20):
        state.put(f"k{number:02}", "x" * 98, ttl=1000.0 + number)
    state.sweep()
    assert state.keys() == ["for ever", *(f"k{number}" for number in range(10, 20))]
    state.close()


def test_what_nobody_looks_for_is_swept_up_in_passing(state: SqlKeyValue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.store.sql_key_value._SWEEP_EVERY", 4)
    for number in range(4):
        state.put(str(number), number, ttl=-1.0)
    assert _rows(state) == 0


@pytest.mark.requirement("R-F42")
def test_a_damaged_value_is_a_typed_error_and_concerns_no_other(state: SqlKeyValue):
    state.put("bad", 1)
    state.put("good", 2)
    broken = sa.update(table).where(table.c.key == "bad").values(value="{")
    state._database.write(lambda connection: connection.execute(broken))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(StoreDamagedError, match="bad"):
        state.get("bad")
    assert state.get("good") == 2
