"""Download a distribution from the Python package index without installing it: with pip, uv, or directly.

pip and uv come first because they respect the user's settings (index, proxy, certificates, keyring). Each method is a
function that puts the distribution into a work folder or raises `FetchFailed`.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ...file_locks import file_lock

#: Receives the number of bytes downloaded so far.
ByteProgress = Callable[[int], None]

#: Time limit for pip or uv; 100 MB take minutes on a slow connection.
_MAX_SECONDS = 1800
_POLL_SECONDS = 0.2
_BLOCK = 1 << 18
#: Size limit for an index page.
_MAX_PAGE_BYTES = 8 << 20
_ANSWER_SECONDS = 30
#: Limit for quoted error text.
_MAX_REASON_CHARS = 300
#: pip writes this before the reason of a connection error, and these characters around it.
_BROKEN = "connection broken by "
_QUOTES = "'\")"
#: The process that locks this file downloads into its folder.
_LOCK = ".lock"
#: Suffix of incomplete files, and prefixes of temporary folders. `_WORK` folders are made only under the lock; `_OWN`
#: folders by processes that could not lock, so they may be in use at any time.
_PART, _WORK, _PRIVATE = ".part", ".coming-", ".fetching-"
#: Settings that name the index; the first one set is used.
_INDEX_SETTINGS = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


class FetchFailed(Exception):
    """This method cannot provide the distribution."""


class FetchRequest(NamedTuple):
    """What to download, and where to."""

    name: str
    version: str
    #: An empty temporary folder, and one that outlasts an interrupted download.
    work: Path
    keep: Path
    #: Environment for pip and uv.
    environment: Mapping[str, str]
    progress: ByteProgress


#: Sends a request, as `urllib.request.urlopen` does.
Send: TypeAlias = Callable[..., Any]
#: Puts a distribution into the work folder, as a wheel or an unpacked folder. Raises `FetchFailed` if it cannot.
FetchMethod: TypeAlias = Callable[[FetchRequest], Path]


def by_pip(request: FetchRequest) -> Path:
    """Download with pip, if it can be imported."""
    if importlib.util.find_spec("pip") is None:
        raise FetchFailed("pip is not installed")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _run("pip", [*command, "--dest", str(request.work), f"{request.name}=={request.version}"], request)
    return _wheel_in(request.work, "pip")


def by_uv(request: FetchRequest) -> Path:
    """Download with uv, which has no download command but can install into a folder without dependencies."""
    uv = shutil.which("uv", path=request.environment.get("PATH"))
    if uv is None:
        raise FetchFailed("uv is not installed")
    target = request.work / "files"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--no-build", "--python", sys.executable]
    _run("uv", [*command, "--target", str(target), f"{request.name}=={request.version}"], request)
    return target


def by_index(request: FetchRequest) -> Path:
    """Download from the configured index; resumes an interrupted download."""
    index = next((request.environment[each] for each in _INDEX_SETTINGS if request.environment.get(each)), "")
    if not index.startswith(("https://", "http://")):
        raise FetchFailed(f"no index is set by {' or '.join(_INDEX_SETTINGS)}")
    try:
        index, headers = _without_credentials(index)
    except ValueError:  # its message may contain the password
        raise FetchFailed("the index: its setting is not a valid URL") from None
    send = urllib.request.build_opener(SameHostRedirects).open
    try:
        page = urllib.request.Request(f"{index.rstrip('/')}/{request.name}/", headers=headers)
        url = _wheel_url(page, request.name, request.version, send)
        partial = request.keep / f".{request.name}-{request.version}{_PART}"
        download(url, partial, request.progress, headers if _origin(url) == _origin(index) else None, send)
    except (OSError, HTTPException, ValueError) as error:
        raise FetchFailed(f"the index: {_error_text(error)}") from error
    wheel = request.work / f"{request.name}.whl"
    partial.replace(wheel)
    return wheel


#: In the order in which they are tried.
FETCH_METHODS: tuple[FetchMethod, ...] = (by_pip, by_uv, by_index)


# ---- programs


def _run(program: str, command: Sequence[str], request: FetchRequest) -> None:
    """Run a program that downloads; progress is measured by the files in its folders."""
    # Its temporary files go to our folder, where their growth is visible and cleanup is certain.
    own = {**request.environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(request.work))}
    log = request.work / "output"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            status = _wait_with_progress(process, request)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        raise FetchFailed(f"{program}: {_reason(lines) if lines else f'exit status {status}'}")


def _reason(lines: Sequence[str]) -> str:
    """The last line, and the cause of a broken connection: pip reports it earlier than the final error."""
    last = lines[-1][:_MAX_REASON_CHARS]
    broken = next((line for line in reversed(lines) if _BROKEN in line), None)
    if broken is None:
        return last
    # 'SomeError('<an object at 0x7f>: Failed to connect: why')': /simple/name/
    what = broken.partition(_BROKEN)[2]
    what = (what.rpartition("': ")[0] or what).rpartition(">: ")[2]
    return f"{last} (a connection failed: {what.strip(_QUOTES)[:_MAX_REASON_CHARS]})"


def _wait_with_progress(process: subprocess.Popen[bytes], request: FetchRequest) -> int:
    end = time.monotonic() + _MAX_SECONDS
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            request.progress(_largest_in(request.work))
        if time.monotonic() > end:
            raise FetchFailed(f"no result within {_MAX_SECONDS // 60} minutes")


def _largest_in(folder: Path) -> int:
    """Size of the largest file in a folder, at any depth: the file being downloaded."""
    # Unlike `rglob`, it tolerates folders that vanish meanwhile.
    return max((size_of(Path(where, name)) for where, _, names in os.walk(folder) for name in names), default=0)


def size_of(file: Path) -> int:
    """Size of a file in bytes; 0 if there is no such file."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _wheel_in(work: Path, program: str) -> Path:
    wheel = next(work.glob("*.whl"), None)
    if wheel is None:
        raise FetchFailed(f"{program} produced no wheel")
    return wheel


# ---- the index


class _Links(HTMLParser):
    """Collects the links of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.hrefs.extend(value for key, value in attrs if key == "href" and value)


def _without_credentials(index: str) -> tuple[str, dict[str, str]]:
    """Split the credentials off the URL of an index; returns the URL and the headers to authenticate."""
    parts = urllib.parse.urlsplit(index)
    credentials, separator, host = parts.netloc.rpartition("@")
    if not separator:
        return index, {}
    user, _, password = credentials.partition(":")
    plain = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    basic = base64.b64encode(plain.encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {basic}"}


def _wheel_url(page: urllib.request.Request, name: str, version: str, send: Send) -> str:
    with send(page, timeout=_ANSWER_SECONDS) as answer:
        base = answer.url
        text = answer.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
    links = _Links()
    links.feed(text)
    start = f"{name.replace('-', '_')}-{version}-"
    for link in links.hrefs:
        url = urllib.parse.urljoin(base, link).partition("#")[0]
        file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        if file.startswith(start) and file.endswith(".whl") and url.startswith(("https://", "http://")):
            return url
    raise ValueError(f"no wheel of {name} {version} found")


class SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but sends credentials only to the original host: files are often stored elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        redirected = super().redirect_request(req, fp, code, msg, headers, newurl)
        if redirected is not None and _origin(newurl) != _origin(req.full_url):
            redirected.remove_header("Authorization")
        return redirected


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


@contextmanager
def work_folder(folder: Path) -> Generator[Path]:
    """A temporary folder inside the one from `download_folder`."""
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder) as work:
        yield Path(work)


def bytes_received(folder: Path) -> int:
    """How much of a distribution has arrived in this folder, in this process or another."""
    whole = (size_of(part) for part in folder.glob(f".*{_PART}"))
    return max((*whole, *map(_largest_in, folder.glob(f"{_WORK}*"))), default=0)


@contextmanager
def download_folder(folder: Path, waits: Callable[[], None] | None = None) -> Generator[Path]:
    """The folder to download into: the target folder itself, for one process at a time; others wait.

    If files cannot be locked it is a private folder, and interrupted downloads start over. Work folders left by a
    killed process are removed.

    Args:
        waits: called repeatedly while another process downloads.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock(folder / _LOCK, waits))
            target = folder
        except OSError:
            target = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PRIVATE, dir=folder)))
        else:
            for abandoned in folder.glob(f"{_WORK}*"):
                # Files that an orphaned program writes after this stay until the next time.
                shutil.rmtree(abandoned, ignore_errors=True)
        yield target


def download(
    url: str, target: Path, progress: ByteProgress, headers: Mapping[str, str] | None = None, send: Send | None = None
) -> None:
    """Download a file, resuming where an earlier try stopped."""
    have = target.stat().st_size if target.exists() else 0
    ranged = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers={**(headers or {}), **ranged})
    try:
        answer = (send or urllib.request.urlopen)(request, timeout=_ANSWER_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # already complete, or corrupt: the hash will tell
    with answer, target.open("ab" if answer.status == 206 else "wb") as file:
        done = have if answer.status == 206 else 0
        expected = done + int(answer.headers.get("Content-Length") or 0)
        while block := answer.read(_BLOCK):
            file.write(block)
            done += len(block)
            progress(done)
    if expected and done < expected:
        raise OSError(f"interrupted after {done} of {expected} bytes; the next try resumes there")


def _error_text(error: Exception) -> str:
    # HTTP errors quote the response or a part of the URL; neither belongs in a message.
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        return f"its response is not valid HTTP ({type(error).__name__})"
    reason = getattr(error, "reason", None)
    return str(reason or error)[:_MAX_REASON_CHARS]
