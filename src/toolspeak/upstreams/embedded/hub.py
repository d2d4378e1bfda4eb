"""Models of the hub by their names: which files they are, fetched once, checked as far as the hub says how, and kept.

`owner/name` is a model, `owner/name:Q4_K_M` one of its files by how it is quantised, `hf:owner/name/file.gguf` one by
its name. `HF_ENDPOINT` names another hub, `HF_TOKEN` who asks; the token goes to no other host. What is kept is used
without asking again.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import msgspec

from .package_index import SameHost, download, parts_folder, size_of
from .weights import ABSENT, NOBODY, Follower, WeightsError, unreadable

#: What the name of a model at the hub may begin with.
PREFIX = "hf:"
_ENDPOINT = "https://huggingface.co"
#: A list of files that is longer is not one of a model.
_LARGEST_LIST = 8 << 20
_ANSWER_SECONDS = 30
#: Quantisations that are taken where none is named, the best worth for its size first.
_USUAL = ("Q4_K_M", "Q4_0", "Q4_K_S", "Q5_K_M", "Q8_0")
#: What was fetched is written down in this file beside it.
_LIST = "files.json"
#: More free space than the files need: a disk that is full to the last byte helps nobody.
_ROOM = 1.05

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}").fullmatch
#: Names of files as they are kept here; others are not taken.
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,200}\.gguf").fullmatch
_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf").fullmatch


class HubName(msgspec.Struct, frozen=True):
    """A model at the hub."""

    owner: str
    name: str
    #: A file by its path, or by how it is quantised; both empty: the usual one.
    file: str = ""
    quant: str = ""

    @property
    def title(self) -> str:
        """What the model is called."""
        return self.file.rpartition("/")[2].removesuffix(".gguf") or self.name

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


class _Lfs(msgspec.Struct, frozen=True):
    oid: str = ""
    size: int = 0


class _File(msgspec.Struct, frozen=True):
    """A file as the hub lists it."""

    path: str
    size: int = 0
    lfs: _Lfs | None = None

    @property
    def base(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def place(self) -> Path:
        """Where it is kept: files of one name in several folders are several. A folder is one step, never upwards."""
        above = self.path.rpartition("/")[0]
        return Path(urllib.parse.quote(above, safe="").replace(".", "%2E"), self.base)

    @property
    def partial(self) -> Path:
        """Where it lies while it comes."""
        return self.place.with_name(f".{self.base}.part")

    @property
    def bytes(self) -> int:
        return (self.lfs and self.lfs.size) or self.size


def named(text: str) -> HubName | None:
    """The model at the hub that a name means, if it means one."""
    name = text.removeprefix(PREFIX)
    name, _, quant = name.partition(":")
    owner, _, rest = name.partition("/")
    repo, _, file = rest.partition("/")
    if not _WORD(owner) or not _WORD(repo) or (quant and not _WORD(quant)):
        return None
    if not file:
        # Without the prefix a name that ends like a file is one, here.
        return None if not text.startswith(PREFIX) and repo.endswith(".gguf") else HubName(owner, repo, "", quant)
    plain = all(map(_WORD, file.split("/"))) and file.endswith(".gguf") and not quant
    return HubName(owner, repo, file) if plain and text.startswith(PREFIX) else None


def runs_here(name: str) -> bool:
    """Whether a name without a provider can only mean a model that runs here: a file, or one of the hub."""
    return name.endswith(".gguf") or name.startswith(PREFIX) or "/" in name.partition(":")[0]


def kept(model: HubName, cache: Path) -> Path | None:
    """The model's file as it was fetched before, if all of it is there.

    Raises:
        WeightsError: nobody can say whether it is there, since its folder cannot be read.
    """
    folder = _folder(model, cache)
    try:
        files = _chosen(model, _fetched(folder))
        whole = all((folder / file.place).stat().st_size == file.bytes for file in files)
    except (*ABSENT, WeightsError):
        return None
    except OSError as error:
        raise unreadable(f"the model {model}", folder, error) from error
    return folder / files[0].place if whole else None


def _fetched(folder: Path) -> list[_File]:
    """What was fetched into a folder, as the hub listed it then."""
    try:
        return msgspec.json.decode((folder / _LIST).read_bytes(), type=list[_File])
    except (*ABSENT, msgspec.DecodeError):
        return []


def obtain(model: HubName, cache: Path, environment: Mapping[str, str], follower: Follower = NOBODY) -> Path:
    """The model's file: from the cache, else fetched into it. A model in parts is known by its first one.

    Raises:
        WeightsError: it cannot be had.
    """
    found = kept(model, cache)
    if found is not None:
        return found
    hub = _Hub(model, environment)
    files = _chosen(model, hub.files())
    folder = _folder(model, cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        counted = follower.counting(sum(file.bytes for file in files))
        with parts_folder(folder, follower.watching(lambda: counted(_come(files, folder)))) as parts:
            _bring(hub, files, folder, parts, follower)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "there is no room" if full else error.strerror or str(error)
        hint = "make room, or name another folder with XDG_CACHE_HOME"
        raise WeightsError(f"the model {model} cannot be kept in {folder}: {why}", hint=hint) from error
    return folder / files[0].place


def _bring(hub: _Hub, files: list[_File], folder: Path, parts: Path, follower: Follower) -> None:
    """Fetch the files that are not there yet, and write down which they are."""
    total = sum(file.bytes for file in files)
    missing = {file.path for file in files if not _there(file, folder)}
    if shutil.disk_usage(folder).free < sum(file.bytes for file in files if file.path in missing) * _ROOM:
        raise OSError(errno.ENOSPC, "too little room")
    done = 0
    for file in files:
        if file.path in missing:
            hub.fetch(file, folder, parts, follower.counting(total, done))
        done += file.bytes
    others = [file for file in _fetched(folder) if file.path not in {each.path for each in files}]
    (folder / _LIST).write_bytes(msgspec.json.encode([*others, *files]))


def _there(file: _File, folder: Path) -> bool:
    target = folder / file.place
    return target.exists() and _is(target, file)


def _come(files: list[_File], folder: Path) -> int:
    """How much of the files has come by now, whoever fetches them."""
    return sum(size_of(folder / file.place) or size_of(folder / file.partial) for file in files)


def _folder(model: HubName, cache: Path) -> Path:
    return cache / "hub" / f"{model.owner}--{model.name}"


# ---- which files


def _chosen(model: HubName, listed: Iterable[_File]) -> list[_File]:
    """The files of the model, the first part first."""
    ours = {file.path: file for file in listed if _FILE(file.base) and "mmproj" not in file.base.lower()}
    if model.file:
        first = ours.get(model.file)
    elif model.quant:
        first = _quantised(ours.values(), model.quant)
    else:
        usual = (_quantised(ours.values(), quant) for quant in _USUAL)
        first = next((file for file in usual if file is not None), None) or next(iter(ours.values()), None)
    if first is None:
        there = ", ".join(sorted(file.base for file in ours.values())[:12])
        hint = f"it has {there}" if there else "name a model that has GGUF files; their names often end in -GGUF"
        wanted = model.file or (f"file quantised as {model.quant}" if model.quant else "GGUF file")
        raise WeightsError(f"the model {model} has no {wanted}", hint=hint)
    return _parts(first, ours)


def _quantised(files: Iterable[_File], quant: str) -> _File | None:
    ends = re.compile(rf".*[-._]{re.escape(quant)}(-00001-of-\d{{5}})?\.gguf", re.IGNORECASE).fullmatch
    return next((file for file in files if ends(file.base)), None)


def _parts(first: _File, files: Mapping[str, _File]) -> list[_File]:
    split = _PART(first.path)
    if split is None:
        return [first]
    names = [f"{split[1]}-{number:05}-of-{split[2]}.gguf" for number in range(1, int(split[2]) + 1)]
    missing = [name for name in names if name not in files]
    if missing:
        raise WeightsError(f"the hub does not list {missing[0]}", hint="choose another file of the model")
    return [files[name] for name in names]


# ---- the hub


class _Hub:
    """Asks the hub about one model."""

    def __init__(self, model: HubName, environment: Mapping[str, str]) -> None:
        self._model = model
        self._endpoint = (environment.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
        token = environment.get("HF_TOKEN", "").strip()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = urllib.request.build_opener(SameHost)
        if not self._endpoint.startswith(("https://", "http://")):
            raise WeightsError("`HF_ENDPOINT` is no address", hint="it looks like https://huggingface.co")

    def files(self) -> list[_File]:
        """What the model consists of."""
        request = urllib.request.Request(
            f"{self._endpoint}/api/models/{self._model}/tree/main?recursive=true", headers=self._headers
        )
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
                return msgspec.json.decode(answer.read(_LARGEST_LIST), type=list[_File])
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise self._explained(error) from error

    def fetch(self, file: _File, folder: Path, parts: Path, heard: Callable[[int], None]) -> None:
        """Bring a file into a folder, going on where an earlier try broke off."""
        partial, target = parts / file.partial, folder / file.place
        for path in (partial, target):
            path.parent.mkdir(exist_ok=True)
        url = f"{self._endpoint}/{self._model}/resolve/main/{urllib.parse.quote(file.path)}"
        try:
            download(url, partial, heard, self._headers, self._opener.open)
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._explained(error) from error
        if not _is(partial, file):
            partial.unlink()
            raise WeightsError(
                f"what came as {file.path} of {self._model} is not what the hub lists: its size or hash differs",
                hint="nothing of it was kept; try again",
            )
        partial.replace(target)

    def _explained(self, error: Exception) -> WeightsError:
        """What went wrong, in words that help."""
        host = urllib.parse.urlsplit(self._endpoint).netloc
        status = error.code if isinstance(error, urllib.error.HTTPError) else 0
        with suppress(AttributeError):
            error.close()  # type: ignore[attr-defined] - an answer that nobody reads
        if status in (401, 403):
            hint = "set HF_TOKEN to a token of yours, and accept the terms of the model on its page if it has some"
            return WeightsError(f"{host} does not give {self._model} to everybody, or has no such model", hint=hint)
        if status == 404:
            return WeightsError(f"{host} has no model {self._model}", hint="look at the name; it is owner/name")
        why = str(getattr(error, "reason", None) or error)[:300]
        hint = (
            "the next try goes on where this one ended; offline, use --model FILE.gguf; HF_ENDPOINT names another hub"
        )
        return WeightsError(f"the model {self._model} could not be fetched from {host}: {why}", hint=hint)


def _is(path: Path, file: _File) -> bool:
    """Whether a file is the one that is listed, as far as the list tells."""
    if file.bytes and path.stat().st_size != file.bytes:
        return False
    if file.lfs is None or not file.lfs.oid:
        return True
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.lfs.oid
