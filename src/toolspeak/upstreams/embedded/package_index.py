"""Ways to get a distribution from the package index without installing it, by what is there: pip, uv, or the index.

pip and uv obey the user's own settings (index, proxy, certificates, keyring), so they come first. Each way is a
function; it puts the distribution into a working folder or says why it cannot.
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

from ...file_locks import held

#: Bytes that have come, of a whole that the listener knows.
Heard = Callable[[int], None]

#: How long a program may be silent and still be at work; a slow line needs minutes for 100 MB.
_MOST_SECONDS = 1800
_LOOK_EVERY = 0.2
_BLOCK = 1 << 18
#: A page of an index that lists one distribution is small.
_LARGEST_PAGE = 8 << 20
_ANSWER_SECONDS = 30
#: Characters of a reason that are passed on.
_MOST_SAID = 300
#: What comes before the reason where pip tells of a connection, and what is around the reason.
_BROKEN = "connection broken by "
_QUOTES = "'\")"
#: Who holds the lock on this file fetches into its folder.
_LOCK = ".lock"
#: How files end that have not come whole, and how folders begin that go away when everything has. Those of `_WORK` are
#: made by who holds the lock alone; those of `_OWN` by who could not take it, and may be in use at any time.
_PART, _WORK, _OWN = ".part", ".coming-", ".fetching-"
#: Where users say which index theirs is; the first that is set counts.
_INDEX_SETTINGS = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


class Unreachable(Exception):
    """This way does not lead there."""


class Order(NamedTuple):
    """What is wanted, and where it goes."""

    name: str
    version: str
    #: An empty folder that goes away afterwards, and one that outlasts a try that broke off.
    work: Path
    keep: Path
    #: Of the programs that fetch.
    environment: Mapping[str, str]
    heard: Heard


#: Sends a request, as `urllib.request.urlopen` does.
Send: TypeAlias = Callable[..., Any]
#: Puts a distribution into the working folder: a wheel, or a folder with its files. Raises `Unreachable` if it cannot.
Way: TypeAlias = Callable[[Order], Path]


def by_pip(order: Order) -> Path:
    """By pip, if Python can import it."""
    if importlib.util.find_spec("pip") is None:
        raise Unreachable("pip is not there")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _run("pip", [*command, "--dest", str(order.work), f"{order.name}=={order.version}"], order)
    return _wheel_in(order.work, "pip")


def by_uv(order: Order) -> Path:
    """By uv, which does not download, but installs into a folder without looking at dependencies."""
    uv = shutil.which("uv", path=order.environment.get("PATH"))
    if uv is None:
        raise Unreachable("uv is not there")
    target = order.work / "files"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--no-build", "--python", sys.executable]
    _run("uv", [*command, "--target", str(target), f"{order.name}=={order.version}"], order)
    return target


def by_index(order: Order) -> Path:
    """From the index that the user's settings name, going on where an earlier try broke off."""
    index = next((order.environment[each] for each in _INDEX_SETTINGS if order.environment.get(each)), "")
    if not index.startswith(("https://", "http://")):
        raise Unreachable(f"no index is named by {' or '.join(_INDEX_SETTINGS)}")
    try:
        index, headers = _without_credentials(index)
    except ValueError:  # its words may hold the password
        raise Unreachable("the index: what names it is no address") from None
    send = urllib.request.build_opener(SameHost).open
    try:
        page = urllib.request.Request(f"{index.rstrip('/')}/{order.name}/", headers=headers)
        url = _wheel_url(page, order.name, order.version, send)
        partial = order.keep / f".{order.name}-{order.version}{_PART}"
        download(url, partial, order.heard, headers if _origin(url) == _origin(index) else None, send)
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(f"the index: {_said(error)}") from error
    wheel = order.work / f"{order.name}.whl"
    partial.replace(wheel)
    return wheel


#: In the order in which they are tried.
WAYS: tuple[Way, ...] = (by_pip, by_uv, by_index)


# ---- programs


def _run(program: str, command: Sequence[str], order: Order) -> None:
    """Run a program that fetches, and tell how much has come by what it has put into its folders."""
    # Its temporary files lie in our folder: there they are seen while they grow, and go when it breaks off.
    own = {**order.environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(order.work))}
    log = order.work / "said"
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            status = _watched(process, order)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        raise Unreachable(f"{program}: {_reason(lines) if lines else f'it ended with {status}'}")


def _reason(lines: Sequence[str]) -> str:
    """The last line, and what broke a connection: pip says it lines before it says that nothing was found."""
    last = lines[-1][:_MOST_SAID]
    broken = next((line for line in reversed(lines) if _BROKEN in line), None)
    if broken is None:
        return last
    # 'SomeError('<an object at 0x7f>: Failed to connect: why')': /simple/name/
    what = broken.partition(_BROKEN)[2]
    what = (what.rpartition("': ")[0] or what).rpartition(">: ")[2]
    return f"{last} (a connection failed: {what.strip(_QUOTES)[:_MOST_SAID]})"


def _watched(process: subprocess.Popen[bytes], order: Order) -> int:
    end = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            return process.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            order.heard(_largest_in(order.work))
        if time.monotonic() > end:
            raise Unreachable(f"it took more than {_MOST_SECONDS // 60} minutes")


def _largest_in(folder: Path) -> int:
    """The size of the largest file of a folder, at any depth: what is being fetched."""
    # Unlike `rglob` it passes over folders that are gone already.
    return max((size_of(Path(where, name)) for where, _, names in os.walk(folder) for name in names), default=0)


def size_of(file: Path) -> int:
    """Bytes of a file; none where there is no such file, or no longer."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _wheel_in(work: Path, program: str) -> Path:
    wheel = next(work.glob("*.whl"), None)
    if wheel is None:
        raise Unreachable(f"{program} left no wheel")
    return wheel


# ---- the index


class _Links(HTMLParser):
    """The addresses that a page of an index links to, by the names of the files."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.extend(value for key, value in attrs if key == "href" and value)


def _without_credentials(index: str) -> tuple[str, dict[str, str]]:
    """The address of an index without who asks, and the headers that say it."""
    parts = urllib.parse.urlsplit(index)
    who, told, host = parts.netloc.rpartition("@")
    if not told:
        return index, {}
    user, _, password = who.partition(":")
    plain = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    basic = base64.b64encode(plain.encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {basic}"}


def _wheel_url(page: urllib.request.Request, name: str, version: str, send: Send) -> str:
    with send(page, timeout=_ANSWER_SECONDS) as answer:
        base = answer.url
        text = answer.read(_LARGEST_PAGE).decode("utf-8", "replace")
    links = _Links()
    links.feed(text)
    start = f"{name.replace('-', '_')}-{version}-"
    for link in links.found:
        url = urllib.parse.urljoin(base, link).partition("#")[0]
        file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        if file.startswith(start) and file.endswith(".whl") and url.startswith(("https://", "http://")):
            return url
    raise ValueError(f"it has no wheel of {name} {version}")


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects. Who asks is told to the host that was asked alone: files often lie elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and _origin(newurl) != _origin(req.full_url):
            made.remove_header("Authorization")
        return made


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


@contextmanager
def work_folder(folder: Path) -> Generator[Path]:
    """A folder inside one that `parts_folder` gave, which goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder) as work:
        yield Path(work)


def coming_into(folder: Path) -> int:
    """How much of a distribution has come by now, whoever fetches it into this folder."""
    whole = (size_of(part) for part in folder.glob(f".*{_PART}"))
    return max((*whole, *map(_largest_in, folder.glob(f"{_WORK}*"))), default=0)


@contextmanager
def parts_folder(folder: Path, waits: Callable[[], None] | None = None) -> Generator[Path]:
    """Where files lie while they come: the folder that they go to, for one at a time; others wait here.

    Where files cannot be locked it is a folder that nobody else has, and what broke off is begun again. Work folders
    of one who was ended by force, which clears nothing away, are removed by the next.

    Args:
        waits: called again and again while another fetches.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / _LOCK, waits))
            parts = folder
        except OSError:
            parts = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_OWN, dir=folder)))
        else:
            for abandoned in folder.glob(f"{_WORK}*"):
                # What an orphaned program still puts there now may stay until the next time.
                shutil.rmtree(abandoned, ignore_errors=True)
        yield parts


def download(
    url: str, target: Path, heard: Heard, headers: Mapping[str, str] | None = None, send: Send | None = None
) -> None:
    """Fetch a file, from where an earlier try left it.

    Raises:
        OSError: it could not be fetched, or not all of it; what came is kept.
        HTTPException: the answer was not one of HTTP, or a piece of it broke off.
    """
    have = target.stat().st_size if target.exists() else 0
    ranged = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers={**(headers or {}), **ranged})
    try:
        answer = (send or urllib.request.urlopen)(request, timeout=_ANSWER_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # there is nothing behind what we have; its hash will tell
    with answer, target.open("ab" if answer.status == 206 else "wb") as file:
        done = have if answer.status == 206 else 0
        expected = done + int(answer.headers.get("Content-Length") or 0)
        while block := answer.read(_BLOCK):
            file.write(block)
            done += len(block)
            heard(done)
    if expected and done < expected:
        raise OSError(f"it broke off after {done} of {expected} bytes; the next try goes on there")


def _said(error: Exception) -> str:
    # Those of HTTP quote what they did not understand, or a part of the address: neither is for a message.
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        return f"its answer is no proper HTTP ({type(error).__name__})"
    reason = getattr(error, "reason", None)
    return str(reason or error)[:_MOST_SAID]
