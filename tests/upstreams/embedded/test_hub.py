"""Models of the hub, against a stand-in of it on the loopback: names, files, tokens, going on, and what is said."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak import file_locks as locks
from toolspeak.upstreams.embedded.hub import HubName, cached_file, obtain, parse_name, runs_here
from toolspeak.upstreams.embedded.weights import DownloadListener, WeightsError

CONTENT = b"GGUF" + bytes(range(256)) * 64
MODEL = HubName("owner", "small-GGUF", quant="Q4_K_M")
TOKEN = "hf_secret"


def listed(*names: str, content: bytes = CONTENT) -> list[dict[str, Any]]:
    oid = hashlib.sha256(content).hexdigest()
    lfs = {"oid": oid, "size": len(content), "pointerSize": 134}
    return [{"type": "file", "oid": "0" * 40, "path": name, "size": len(content), "lfs": lfs} for name in names]


class Hub(ThreadingHTTPServer):
    """A hub with one model, whose files lie on another host, as they do in life."""

    def __init__(self, files: list[dict[str, Any]], content: bytes = CONTENT) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.content = content
        self.break_after = len(content)
        self.token = ""
        self.asked: list[tuple[str, str, str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_address[1]}/", **more}


class Handler(BaseHTTPRequestHandler):
    server: Hub  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        hub, told = self.server, self.headers.get("Authorization", "")
        hub.asked.append((self.path, told, self.headers.get("Range", "")))
        if self.path.startswith("/cdn/"):
            self._content()
        elif hub.token and told != f"Bearer {hub.token}":
            self.send_error(401)
        elif self.path == "/api/models/owner/small-GGUF/tree/main?recursive=true":
            self._answer(200, json.dumps(hub.files).encode())
        elif self.path.startswith("/owner/small-GGUF/resolve/main/"):
            self.send_response(302)
            # The same machine by another name is another host.
            self.send_header("Location", f"http://localhost:{hub.server_address[1]}/cdn/{self.path.rpartition('/')[2]}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.send_error(404)

    def _content(self) -> None:
        start = int(self.headers.get("Range", "").removeprefix("bytes=").rstrip("-") or 0)
        rest = self.server.content[start:]
        self._answer(206 if start else 200, rest[: max(0, self.server.break_after - start)], len(rest))

    def _answer(self, status: int, body: bytes, announced: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@contextmanager
def hub(*names: str, content: bytes = CONTENT) -> Iterator[Hub]:
    with Hub(listed(*names), content) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


# ---- names


@check_each(
    ("text", "meant"),
    [
        ("owner/name", HubName("owner", "name")),
        ("hf:owner/name", HubName("owner", "name")),
        ("owner/name:Q4_K_M", HubName("owner", "name", quant="Q4_K_M")),
        ("hf:owner/name:q8_0", HubName("owner", "name", quant="q8_0")),
        ("hf:owner/name/file.gguf", HubName("owner", "name", "file.gguf")),
        ("hf:owner/name/folder/file.gguf", HubName("owner", "name", "folder/file.gguf")),
        ("owner/name/file.gguf", None),  # a file that is here
        ("folder/file.gguf", None),
        ("/owner/name", None),
        ("./name", None),
        ("../name", None),
        ("hf:owner/name/../../file.gguf", None),
        ("hf:owner/name/file.bin", None),
        ("hf:owner/name/file.gguf:Q4", None),
        ("hf:owner", None),
        ("name", None),
        ("owner/na me", None),
        ("owner/name:", HubName("owner", "name")),
        ("", None),
    ],
)
def test_what_a_name_means(text: str, meant: HubName | None):
    assert parse_name(text) == meant


def test_a_model_is_called_by_its_file_or_its_name():
    assert HubName("o", "name").title == "name"
    assert HubName("o", "name", "folder/file.gguf").title == "file"


@check_each(
    ("name", "here"),
    [
        ("hf:owner/name", True),
        ("owner/name:Q4_K_M", True),
        ("model.gguf", True),
        ("openai:owner/name", False),
        ("gpt-4", False),
    ],
)
def test_which_names_need_no_provider(name: str, here: bool):
    assert runs_here(name) == here


# ---- files


def test_a_model_is_fetched_once_with_progress_and_then_used_without_asking(tmp_path: Path):
    heard: list[tuple[int, int]] = []
    with hub("small-Q8_0.gguf", "small-Q4_K_M.gguf", "README.md") as server:
        assert cached_file(MODEL, tmp_path) is None
        path = obtain(MODEL, tmp_path, server.environment(), DownloadListener(lambda *step: heard.append(step)))
        asked = len(server.asked)
        assert obtain(MODEL, tmp_path, server.environment()) == cached_file(MODEL, tmp_path) == path
        assert len(server.asked) == asked
    assert (path.name, path.read_bytes()) == ("small-Q4_K_M.gguf", CONTENT)
    assert heard[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("hf:owner/small-GGUF", "small-Q4_K_M.gguf"),
        ("owner/small-GGUF:q8_0", "small-Q8_0.gguf"),
        ("hf:owner/small-GGUF/more/other.gguf", "other.gguf"),
    ],
)
def test_a_file_is_chosen_by_its_path_its_quantisation_or_as_usual(model: str, file: str, tmp_path: Path):
    meant = parse_name(model)
    assert meant is not None
    with hub("mmproj-Q4_K_M.gguf", "small-Q8_0.gguf", "small-Q4_K_M.gguf", "more/other.gguf") as server:
        assert obtain(meant, tmp_path, server.environment()).name == file


def test_several_files_of_a_model_are_kept_beside_each_other(tmp_path: Path):
    other = HubName("owner", "small-GGUF", quant="Q8_0")
    with hub("small-Q8_0.gguf", "small-Q4_K_M.gguf") as server:
        obtain(MODEL, tmp_path, server.environment())
        assert cached_file(other, tmp_path) is None
        obtain(other, tmp_path, server.environment())
    assert cached_file(MODEL, tmp_path) is not None
    assert cached_file(other, tmp_path) is not None
    (tmp_path / "hub" / "owner--small-GGUF" / "files.json").write_text("nonsense")
    assert cached_file(other, tmp_path) is None


def test_files_of_one_name_in_two_folders_are_two_files(tmp_path: Path):
    other = CONTENT[::-1]
    paths = {"a/small.gguf": CONTENT, "b/small.gguf": other, "small.gguf": CONTENT[1:] + b"x"}
    for path, content in paths.items():
        with hub(content=content) as server:
            server.files = [each for name, held in paths.items() for each in listed(name, content=held)]
            found = obtain(HubName("owner", "small-GGUF", path), tmp_path, server.environment())
            assert found.read_bytes() == content
    for path, content in paths.items():
        found = cached_file(HubName("owner", "small-GGUF", path), tmp_path)
        assert found is not None
        assert (found.name, found.read_bytes()) == ("small.gguf", content)


def test_a_file_of_the_same_size_that_is_not_the_one_listed_is_fetched_again(tmp_path: Path):
    with hub("small-Q4_K_M.gguf") as server:
        path = obtain(MODEL, tmp_path, server.environment())
        path.write_bytes(CONTENT[::-1])
        path.with_name("files.json").unlink()
        assert obtain(MODEL, tmp_path, server.environment()).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "path", ["../../../up-Q4_K_M.gguf", "/up-Q4_K_M.gguf", "./up-Q4_K_M.gguf", "a b/c/up-Q4_K_M.gguf"]
)
def test_no_path_that_the_hub_lists_leads_out_of_the_folder_of_the_model(path: str, tmp_path: Path):
    with hub(path) as server:
        found = obtain(MODEL, tmp_path, server.environment())
    assert found.resolve().is_relative_to(tmp_path / "hub" / "owner--small-GGUF")
    assert cached_file(MODEL, tmp_path) == found


def test_where_nothing_is_usual_the_first_file_is_taken(tmp_path: Path):
    with hub("small-F16.gguf", "small-BF16.gguf") as server:
        assert obtain(HubName("owner", "small-GGUF"), tmp_path, server.environment()).name == "small-F16.gguf"


def test_a_model_in_parts_is_fetched_whole_and_known_by_its_first_part(tmp_path: Path):
    parts = [f"small-Q4_K_M-0000{number}-of-00003.gguf" for number in (3, 1, 2)]
    with hub(*parts) as server:
        path = obtain(MODEL, tmp_path, server.environment())
        assert path.name == "small-Q4_K_M-00001-of-00003.gguf"
        assert {each.name for each in path.parent.glob("*.gguf")} == set(parts)
        path.with_name(parts[0]).unlink()
        assert cached_file(MODEL, tmp_path) is None
        obtain(MODEL, tmp_path, server.environment())
        assert [path for path, _, _ in server.asked if path.startswith("/cdn/")][3:] == [f"/cdn/{parts[0]}"]
        server.files = listed(*parts[1:])
        shutil.rmtree(tmp_path / "hub")
        with pytest.raises(WeightsError, match="the part small-Q4_K_M-00003-of-00003"):
            obtain(MODEL, tmp_path, server.environment())


def test_a_download_that_broke_off_goes_on_where_it_was(tmp_path: Path):
    with hub("small-Q4_K_M.gguf") as server:
        server.break_after = 100
        with pytest.raises(WeightsError, match="interrupted after 100 of") as caught:
            obtain(MODEL, tmp_path, server.environment())
        assert "try again to resume" in caught.value.hint
        server.break_after = len(CONTENT)
        assert obtain(MODEL, tmp_path, server.environment()).read_bytes() == CONTENT
        assert [ranged for path, _, ranged in server.asked if path.startswith("/cdn/")] == ["", "bytes=100-"]


def test_of_two_who_want_a_model_at_once_one_fetches_and_the_other_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    arrivals = threading.Barrier(2, timeout=10)
    real_lock: Callable[[int], None] = getattr(locks, "_lock")  # noqa: B009 - it is private

    def lock(descriptor: int) -> None:
        arrivals.wait()  # both have asked what there is, and neither has fetched it
        real_lock(descriptor)

    monkeypatch.setattr(locks, "_lock", lock)
    with hub("small-Q4_K_M.gguf") as server, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(obtain, MODEL, tmp_path, server.environment()) for _ in range(2)]
        assert {each.result(20).read_bytes() for each in both} == {CONTENT}
        assert len([path for path, _, _ in server.asked if path.startswith("/cdn/")]) == 1


def test_who_waits_for_another_hears_so_once_and_then_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locks, "_POLL_SECONDS", 0.001)
    parts = [f"small-Q4_K_M-0000{number}-of-00002.gguf" for number in (1, 2)]
    waits: list[str] = []
    far: set[tuple[int, int]] = set()
    seen = threading.Event()

    def heard(*step: int) -> None:
        far.add((step[0], step[1]))
        seen.set()

    folder = tmp_path / "hub" / "owner--small-GGUF"
    folder.mkdir(parents=True)
    (folder / parts[0]).write_bytes(CONTENT)
    (folder / f".{parts[1]}.part").write_bytes(CONTENT[:100])
    with hub(*parts) as server, ThreadPoolExecutor(1) as pool:
        with locks.file_lock(folder / ".lock"):
            follower = DownloadListener(heard, lambda: waits.append("waits"))
            second = pool.submit(obtain, MODEL, tmp_path, server.environment(), follower)
            assert seen.wait(10), "the second hears nothing"
            assert (waits, far) == (["waits"], {(len(CONTENT) + 100, 2 * len(CONTENT))})
        assert second.result(10).name == parts[0]


# ---- who asks


def test_the_token_is_shown_to_the_hub_alone(tmp_path: Path):
    with hub("small-Q4_K_M.gguf") as server:
        server.token = TOKEN
        with pytest.raises(WeightsError, match="denies access to owner/small-GGUF") as caught:
            obtain(MODEL, tmp_path, server.environment())
        assert "HF_TOKEN" in caught.value.hint
        obtain(MODEL, tmp_path, server.environment(HF_TOKEN=TOKEN))
        shown = {path.split("/")[1]: told for path, told, _ in server.asked}
    assert shown == {"api": f"Bearer {TOKEN}", "owner": f"Bearer {TOKEN}", "cdn": ""}


# ---- what goes wrong


@pytest.mark.parametrize(
    "content", [b"GGUF" + b"x" * (len(CONTENT) - 4), CONTENT[:-1]], ids=["another hash", "another size"]
)
def test_what_is_not_what_the_hub_lists_is_not_kept(content: bytes, tmp_path: Path):
    with (
        hub("small-Q4_K_M.gguf", content=content) as server,
        pytest.raises(WeightsError, match="its size or hash differs"),
    ):
        obtain(MODEL, tmp_path, server.environment())
    assert not list(tmp_path.rglob("*.gguf*"))


def test_a_file_without_a_hash_is_checked_by_its_size(tmp_path: Path):
    with hub() as server:
        server.files = [{"type": "file", "path": "small-Q4_K_M.gguf", "size": len(CONTENT)}]
        assert obtain(MODEL, tmp_path, server.environment()).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("model", "files", "message", "hint"),
    [
        (HubName("owner", "other"), (), "has no model owner/other", "owner/name"),
        (MODEL, (), "has no file with quantization Q4_K_M", "GGUF"),
        (MODEL, ("small-Q8_0.gguf",), "has no file with quantization Q4_K_M", "available: small-Q8_0.gguf"),
        (HubName("owner", "small-GGUF", "x.gguf"), ("y.gguf",), "has no x.gguf", "available: y.gguf"),
        (HubName("owner", "small-GGUF"), ("model.safetensors", "../x.gguf\n"), "has no GGUF file", "-GGUF"),
    ],
)
def test_what_is_not_there_is_told(model: HubName, files: tuple[str, ...], message: str, hint: str, tmp_path: Path):
    with hub(*files) as server, pytest.raises(WeightsError) as caught:
        obtain(model, tmp_path, server.environment())
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_a_hub_that_is_not_there_or_talks_nonsense_is_told(tmp_path: Path):
    with hub() as server:
        gone = server.environment()
        server.files = "nonsense"  # type: ignore[assignment]
        with pytest.raises(WeightsError, match="cannot download"):
            obtain(MODEL, tmp_path, gone)
    with pytest.raises(WeightsError, match=r"cannot download the model .* from 127") as caught:
        obtain(MODEL, tmp_path, gone)
    assert "--model FILE.gguf" in caught.value.hint
    with pytest.raises(WeightsError, match="`HF_ENDPOINT` is not a URL"):
        obtain(MODEL, tmp_path, {"HF_ENDPOINT": "file:///etc"})


def test_a_full_disk_is_noticed_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=100))
    with hub("small-Q4_K_M.gguf") as server:
        with pytest.raises(WeightsError, match="the disk is full"):
            obtain(MODEL, tmp_path, server.environment())
        assert len(server.asked) == 1


def test_a_folder_that_cannot_be_is_told(tmp_path: Path):
    (tmp_path / "hub").write_text("a file")
    with hub("small-Q4_K_M.gguf") as server, pytest.raises(WeightsError, match="cannot be stored"):
        obtain(MODEL, tmp_path, server.environment())


def test_a_folder_that_may_not_be_read_is_told_before_the_hub_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with hub("small-Q4_K_M.gguf") as server:
        monkeypatch.setattr(Path, "read_bytes", refused)  # by hand: who is root may read everything
        with pytest.raises(WeightsError, match=r"cannot be read from .*: permission denied") as caught:
            obtain(MODEL, tmp_path, server.environment())
        assert server.asked == []
    assert "XDG_CACHE_HOME" in caught.value.hint
