"""States that nobody waits for: copies that are renewed, memory that is at hand, and a database that may be away."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.store.test_journal import run
from toolspeak.config import load
from toolspeak.core.types import Message, Request, Tool, ToolCall, ToolResult
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError, StoreError
from toolspeak.key_value import FileState, MemoryState, SharedState, cached_state, open_memory, open_state
from toolspeak.runtime.tool_memory import ToolMemory
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.proxy.previous_responses import ResponseStore, StoredResponse
from toolspeak.store import cached_key_value as shared
from toolspeak.store.cached_key_value import CachedKeyValue, WriteBehindKeyValue
from toolspeak.store.database import Database
from toolspeak.store.sql_key_value import SqlKeyValue


class Hand:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Away(SqlKeyValue):
    """A database that can be made to fail, or to take its time, and counts who asks in which thread."""

    def __init__(self, url: str) -> None:
        super().__init__(Database(url))
        self.away = False
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[str] = set()

    def _asked(self) -> None:
        self.threads.add(threading.current_thread().name)
        assert self.gate.wait(60)
        if self.away:
            raise StoreError("the database is away")

    def get(self, key: str) -> Any:
        self._asked()
        return super().get(key)

    def get_many(self, keys: Any) -> dict[str, Any]:
        self._asked()
        return super().get_many(keys)

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        self._asked()
        super().put(key, value, ttl)


def _wait(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# ---- a copy of what changes seldom


def test_keys_of_a_shared_state_are_found_without_asking_the_database_each_time(url: str):
    far, clock = Away(url), Hand()
    given = ApiKeys(far)
    _, anna = given.new("anna")
    near = CachedKeyValue(far, clock)
    served = ApiKeys(near)
    key = served.find(anna)
    assert key is not None
    assert key.name == "anna"
    # Another process gives one out and takes one back: seen once the copy is old and was renewed.
    _, berta = given.new("berta")
    given.revoke("anna")
    assert served.find(anna) is not None
    assert served.find(berta) is None
    clock.now += 2.0
    served.find(berta)
    _wait(lambda: served.find(berta) is not None)
    assert served.find(anna) is None
    # While the database is away, what was known last holds.
    far.away = True
    clock.now += 2.0
    assert served.find(berta) is not None
    _wait(lambda: not near._refreshing)  # pyright: ignore[reportPrivateUsage]
    assert served.find(berta) is not None
    far.close()


def test_a_copy_is_written_here_at_once_and_in_the_database_soon(url: str):
    far = SqlKeyValue(Database(url))
    near = CachedKeyValue(far)
    near.put("probe/x", {"a": 1}, 3600.0)
    assert near.get("probe/x") == {"a": 1}
    assert near.keys("probe/") == ["probe/x"]
    _wait(lambda: far.get("probe/x") == {"a": 1})
    near.delete("probe/x")
    assert near.get("probe/x") is None
    _wait(lambda: far.get("probe/x") is None)
    assert near.setdefault("secret", "s") == far.setdefault("secret", "other") == near.get("secret") == "s"
    # What it does not hold is asked for.
    far.put("tools/x", 1)
    assert (near.get("tools/x"), near.keys("tools/")) == (1, ["tools/x"])
    far.close()


# ---- the memory of conversations

TOOLS = (Tool("get_weather", "The weather."),)
ASKED = Request("m", (), TOOLS)
RESULT = Request(
    "m",
    (
        Message("assistant", calls=(ToolCall("get_weather", {}, "call_1"),)),
        Message("tool", results=(ToolResult("call_1", "rain", "get_weather"),)),
    ),
)


def test_a_conversation_goes_on_in_another_process_without_waiting_in_the_loop(url: str):
    one, two = Away(url), Away(url)
    first, second = ToolMemory(WriteBehindKeyValue(one)), ToolMemory(WriteBehindKeyValue(two))

    async def converse() -> None:
        first.remember("anna", ASKED, ["call_1"])
        await first.settle()
        await second.warm("anna", RESULT.messages, ["item_1"])
        request, notes = second.recall("anna", RESULT, Settings())
        assert (request.tools, notes[0].code) == (TOOLS, "tools_recalled")
        assert second.item("anna", "item_1") is None  # known not to be there: nobody asks again
        # Another tenant has nothing of it.
        await second.warm("berta", RESULT.messages)
        request, notes = second.recall("berta", RESULT, Settings())
        assert notes[0].code == "tools_guessed"

    run(converse())
    assert not [name for name in one.threads | two.threads if name == "MainThread"]
    for each in (one, two):
        each.close()


def test_without_having_been_warmed_it_is_looked_up(url: str):
    far = SqlKeyValue(Database(url))
    far.put("items/anna/x", {"a": 1})
    assert ToolMemory(WriteBehindKeyValue(far)).item("anna", "x") == {"a": 1}
    memory = WriteBehindKeyValue(far)
    assert memory.setdefault("a", 1) == 1
    memory.put("b", 2)
    run(memory.settle())
    assert memory.keys() == ["a", "b", "items/anna/x"]
    memory.delete("b")
    assert (memory.get("b"), far.get("b")) == (None, None)
    far.close()


@pytest.mark.requirement("R-F40")
def test_while_the_database_is_away_a_process_remembers_for_itself(url: str, caplog: pytest.LogCaptureFixture):
    far = Away(url)
    conversation = ToolMemory(WriteBehindKeyValue(far))
    far.away = True

    async def converse() -> None:
        conversation.remember("anna", ASKED, ["call_1"])
        await conversation.settle()
        await conversation.warm("anna", RESULT.messages, ["item_1"])
        request, _ = conversation.recall("anna", RESULT, Settings())
        assert request.tools == TOOLS

    run(converse())
    assert "only this process remembers" in caplog.text
    assert "cannot read earlier turns" in caplog.text
    far.close()


@pytest.mark.requirement("R-F40")
def test_an_answer_does_not_wait_for_ever_for_what_is_remembered(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared, "_FLUSH_TIMEOUT", 0.02)
    monkeypatch.setattr(shared, "_MAX_PENDING_WRITES", 1)
    far = Away(url)
    memory = WriteBehindKeyValue(far)
    far.gate.clear()

    async def converse() -> None:
        memory.put("a", 1)
        memory.put("b", 2)  # too many wait: this one waits for them, for a while
        await memory.settle()

    run(converse())
    far.gate.set()
    assert "the database is slow" in caplog.text
    _wait(lambda: (far.get("a"), far.get("b")) == (1, 2))  # both: who writes later opens what was closed
    far.close()


def test_other_states_are_not_shared(tmp_path: Path):
    assert not isinstance(MemoryState(), SharedState)
    assert not isinstance(FileState(tmp_path / "state.json"), SharedState)

    async def nothing() -> None:
        conversation = ToolMemory(MemoryState())
        await conversation.warm("anna", RESULT.messages, ["b"])
        await conversation.settle()

    run(nothing())


# ---- the configuration


def test_a_store_that_is_named_holds_the_state_of_everybody(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/shared.db"
    env = {"HOME": str(tmp_path), "TOOLSPEAK_STORE": url}
    config = load(env=env, cwd=tmp_path)
    assert config.store == url
    assert config.state() is open_state(url)
    assert config.state(cached=True) is cached_state(url)
    assert config.memory() is open_memory(url)
    assert config.secret(config.state()) == load(env=env, cwd=tmp_path).secret(config.state(cached=True))
    open_state(url).close()  # type: ignore[attr-defined]


def test_without_one_sessions_are_in_the_data_folder_and_nothing_is_shared(tmp_path: Path):
    config = load(env={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert config.store == f"sqlite:///{tmp_path}/.local/share/toolspeak/sessions.db"
    assert isinstance(config.state(), FileState)
    assert isinstance(config.state(cached=True), FileState)
    assert isinstance(config.memory(), MemoryState)
    moved = load(env={"HOME": str(tmp_path), "XDG_DATA_HOME": "/data"}, cwd=tmp_path)
    assert moved.store == "sqlite:////data/toolspeak/sessions.db"


@pytest.mark.requirement("R-T2", "R-T5")
def test_the_password_of_a_store_is_not_shown_and_no_foreign_file_sets_it(tmp_path: Path):
    (tmp_path / "toolspeak.toml").write_text('store = "postgresql://evil/x"\n')
    config = load(env={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert "evil" not in config.store
    config = load(env={"HOME": str(tmp_path), "TOOLSPEAK_STORE": "postgresql://anna:very-secret@db/x"}, cwd=tmp_path)
    [shown] = [setting.value for setting in config.effective_settings() if setting.name == "store"]
    assert shown == "postgresql://<redacted>@db/x"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ImportError(name="sqlalchemy")

    monkeypatch.setattr("toolspeak.key_value.import_module", missing)
    with pytest.raises(ConfigError, match="sqlalchemy") as caught:
        open_state("sqlite://")
    assert "toolspeak[agent]" in caught.value.hint


@pytest.mark.requirement("G5")
def test_a_response_that_is_deleted_at_one_server_is_gone_at_the_other(url: str):
    far = [SqlKeyValue(Database(url)) for _ in range(2)]
    here, there = (ToolMemory(WriteBehindKeyValue(each)) for each in far)
    one, two = ResponseStore(here, "anna"), ResponseStore(there, "anna")
    kept = StoredResponse([], [{"id": "msg_1"}], [], {"id": "resp_1"})

    async def scenario() -> None:
        one.put("resp_1", kept)
        await here.settle()
        assert await two.current("resp_1") == await one.current("resp_1") == kept
        await two.delete("resp_1", kept)
        assert await one.current("resp_1") is None  # although it was given there, and was at hand

    run(scenario())
    for each in far:
        each.close()
