"""The small memory: expiry, bounds, and a file that survives other processes, crashes and garbage."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.errors import ConfigError, UsageError
from toolspeak.key_value import FileState, MemoryState, State


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


Maker = Callable[..., State]


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Hand) -> Maker:
    if request.param == "memory":
        return lambda **options: MemoryState(clock=clock, **options)
    return lambda **options: FileState(tmp_path / "deep" / "state.json", clock=clock, **options)


# ---- both kinds


def test_what_was_put_is_there_until_it_is_deleted(make: Maker):
    state = make()
    assert state.get("a") is None
    state.put("a", {"x": [1, "ü", None, True, 2.5]})
    state.put("b", 2)
    assert state.get("a") == {"x": [1, "ü", None, True, 2.5]}
    state.put("a", 3)
    assert (state.get("a"), state.get("b")) == (3, 2)
    state.delete("a")
    state.delete("never there")
    assert (state.get("a"), state.get("b")) == (None, 2)


def test_memory_holds_so_many_bytes_and_what_was_not_used_for_longest_goes_first(clock: Hand):
    state = MemoryState(clock, max_bytes=100)
    state.put("a", "x" * 37)  # 40 bytes, each with its key and two quotes
    state.put("b", "x" * 37)
    assert state.get("a") is not None
    state.put("c", "x" * 37)
    assert state.keys() == ["a", "c"]
    state.put("d", "x" * 97)
    assert state.keys() == ["d"]
    state.put("e", "x" * 98)
    assert state.keys() == []


def test_what_is_forgotten_takes_no_bytes(clock: Hand):
    state = MemoryState(clock, max_bytes=100)
    state.put("kept", "x" * 30)
    for _ in range(10):
        state.put("a", "x" * 50)  # which takes the place of the one before
        state.delete("a")
        state.put("b", "x" * 50, ttl=1)
        clock.now += 1
        assert state.get("b") is None
    assert state.get("kept") is not None


def test_a_value_ends_when_its_time_is_over(make: Maker, clock: Hand):
    state = make()
    state.put("short", 1, ttl=10)
    state.put("long", 2, ttl=100)
    state.put("ever", 3)
    clock.now += 9.9
    assert state.get("short") == 1
    assert state.keys() == ["ever", "long", "short"]
    clock.now += 0.1
    assert state.get("short") is None
    assert state.keys() == ["ever", "long"]
    clock.now += 1e9
    assert (state.get("long"), state.get("ever")) == (None, 3)
    state.put("long", 4, ttl=1)
    assert state.get("long") == 4


def test_the_first_default_stays(make: Maker, clock: Hand):
    state = make()
    assert state.setdefault("a", {"n": 1}, ttl=10) == {"n": 1}
    assert state.setdefault("a", {"n": 2}) == {"n": 1}
    clock.now += 10
    assert state.setdefault("a", {"n": 3}) == {"n": 3}


def test_keys_are_found_by_their_beginning(make: Maker):
    state = make()
    for key in ("trust:b", "trust:a", "probe:a"):
        state.put(key, 1)
    assert state.keys("trust:") == ["trust:a", "trust:b"]


def test_values_cannot_be_changed_from_outside(make: Maker):
    state = make()
    value = {"list": [1]}
    state.put("a", value)
    value["list"].append(2)
    state.get("a")["list"].append(3)
    state.setdefault("a", {})["list"].append(4)
    assert state.get("a") == {"list": [1]}


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf"), b"bytes"])
def test_what_is_not_json_is_refused(make: Maker, value: Any):
    state = make()
    for write in (state.put, state.setdefault):
        with pytest.raises(UsageError, match="the value for `a` cannot be encoded as JSON"):
            write("a", value)
    assert state.get("a") is None


def test_what_is_too_deep_or_too_large_is_refused(make: Maker):
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UsageError):
        make().put("a", deep)
    with pytest.raises(UsageError, match="too large"):
        make().put("a", "x" * 5_000_000)


def test_the_number_of_values_is_bounded(make: Maker):
    state = make(max_values=3)
    for index in range(10):
        state.put(f"k{index}", index, ttl=100)
    assert state.keys() == ["k7", "k8", "k9"]


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, value: Any):
    path = tmp_path_factory.mktemp("state") / "s.json"
    FileState(path).put("a", value)
    memory = MemoryState()
    memory.put("a", value)
    assert FileState(path).get("a") == memory.get("a") == value


# ---- memory


def test_in_memory_what_was_not_used_for_longest_goes_first(clock: Hand):
    state = MemoryState(clock=clock, max_values=2)
    state.put("a", 1)
    state.put("b", 2)
    assert state.get("a") == 1
    state.put("c", 3)
    assert state.keys() == ["a", "c"]


# ---- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def test_another_process_sees_what_was_put(path: Path):
    one, other = FileState(path), FileState(path)
    one.put("a", 1)
    assert other.get("a") == 1
    other.put("a", 2)
    other.put("b", 3)
    assert (one.get("a"), one.get("b")) == (2, 3)
    one.delete("a")
    assert other.keys() == ["b"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_only_the_owner_can_read_it(path: Path):
    state = FileState(path.parent / "new" / "state.json")
    state.put("secret", "x")
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.path.with_name("state.json.lock").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.path.parent.stat().st_mode) == 0o700
    state.path.chmod(0o644)
    state.put("secret", "y")
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o600


def test_reading_makes_no_file(path: Path):
    state = FileState(path)
    assert state.get("a") is None
    state.delete("a")
    assert state.keys() == []
    assert list(path.parent.iterdir()) == []


def test_writing_leaves_nothing_else_behind(path: Path):
    state = FileState(path)
    for index in range(3):
        state.put("a", index)
    assert sorted(each.name for each in path.parent.iterdir()) == ["state.json", "state.json.lock"]


def test_behind_a_link_the_file_is_written_and_the_link_stays(path: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to(path)
    FileState(link).put("a", 1)
    assert link.is_symlink()
    assert FileState(path).get("a") == 1
    assert list(link.parent.iterdir()) == [link]  # who shares the file shares its lock


def test_ended_values_leave_the_file(path: Path, clock: Hand):
    state = FileState(path, clock=clock)
    state.put("a", 1, ttl=1)
    clock.now += 2
    state.put("b", 2)
    assert list(json.loads(path.read_text())["entries"]) == ["b"]


def test_when_a_file_is_full_what_ends_anyway_goes_first(path: Path, clock: Hand):
    state = FileState(path, clock=clock, max_values=2)
    state.put("trusted", 1)
    state.put("probe", 2, ttl=10)
    state.put("other", 3, ttl=10)
    assert state.keys() == ["other", "trusted"]


GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"version": 1}',
    b'{"version": 1, "entries": []}',
    b'{"version": 1, "entries": {"a": 1}}',
    b'{"version": 1, "entries": {"a": [1]}}',
    b'{"version": 1, "entries": {"a": [1, "soon"]}}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("use", ["get", "put", "setdefault", "keys", "delete"])
def test_a_file_that_is_not_ours_is_an_error_and_stays(path: Path, clock: Hand, garbage: bytes, use: str):
    path.write_bytes(garbage)
    state = FileState(path, clock=clock)
    arguments: dict[str, tuple[Any, ...]] = {"put": ("a", 1), "setdefault": ("a", 1), "keys": ()}
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the state file .*state\.json.*move it away"):
            getattr(state, use)(*arguments.get(use, ("a",)))
    assert path.read_bytes() == garbage
    assert {each.name for each in path.parent.iterdir()} <= {"state.json", "state.json.lock"}


def test_a_file_that_breaks_and_is_put_right_holds_what_it_held(path: Path):
    state = FileState(path)
    state.put("a", 1)
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    with pytest.raises(ConfigError):
        state.get("a")
    path.write_bytes(good)
    assert state.get("a") == 1


def test_a_file_of_a_newer_version_is_left_alone(path: Path):
    content = '{"version": 2, "entries": {}}'
    path.write_text(content)
    for use in (lambda: FileState(path).get("a"), lambda: FileState(path).put("a", 1)):
        with pytest.raises(ConfigError, match="newer version"):
            use()
    assert path.read_text() == content


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    state = FileState(tmp_path / "file" / "state.json")
    with pytest.raises(ConfigError, match="cannot read the state file"):
        state.get("a")
    with pytest.raises(ConfigError, match=r"cannot write the state file .*TOOLSPEAK_STATE_FILE"):
        state.put("a", 1)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot read the state file"):
        FileState(tmp_path / "folder").put("a", 1)


def test_a_write_that_fails_keeps_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    state = FileState(path)
    state.put("a", 1)

    def full(_descriptor: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("toolspeak.key_value.os.fsync", full)
    with pytest.raises(ConfigError, match="no space left on device"):
        state.put("a", 2)
    monkeypatch.undo()
    assert FileState(path).get("a") == 1
    assert sorted(each.name for each in path.parent.iterdir()) == ["state.json", "state.json.lock"]


def test_threads_do_not_lose_each_others_values(path: Path):
    def write(name: int) -> None:
        for index in range(10):
            FileState(path).put(f"{name}-{index}", index)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(FileState(path).keys()) == 40


def test_processes_do_not_lose_each_others_values(path: Path):
    code = """
import sys
from toolspeak.key_value import FileState
state = FileState(sys.argv[1])
for index in range(20):
    state.put(f"{sys.argv[2]}-{index}", index)
print(state.setdefault("winner", sys.argv[2]))
"""
    commands = [[sys.executable, "-c", code, str(path), str(name)] for name in range(3)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    winners = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert winners == {FileState(path).get("winner")}
    assert len(FileState(path).keys()) == 61


def test_a_file_tells_another_version_whenever_it_was_written(path: Path):
    state, other = FileState(path), FileState(path)
    assert state.version() is None  # there is none
    other.put("a", 1)
    first = state.version()
    assert first is not None
    assert state.get("a") == 1
    assert state.version() == first
    other.put("a", 2)
    assert state.version() != first
    assert state.get("a") == 2
