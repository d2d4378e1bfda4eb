"""Models from the Hugging Face hub: selects their files, downloads them once, verifies and caches them.

`owner/name` is a model, `owner/name:Q4_K_M` selects a quantization, and `hf:owner/name/file.gguf` selects one file.
`HF_ENDPOINT` sets the URL of another hub. `HF_TOKEN` is the access token, which is sent only to the hub. Cached models
are used without contacting the hub.
"""

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

from ...core.text import system_reason
from .package_index import SameHostRedirects, download, download_folder, size_of
from .weights import ABSENT, NO_LISTENER, DownloadListener, WeightsError, unreadable

PREFIX = "hf:"  # prefix of hub names, optional unless the name includes a file
_ENDPOINT = "https://huggingface.co"
_MAX_LIST_BYTES = 8 << 20
_ANSWER_SECONDS = 30
#: Quantizations to prefer if none is requested, those with the best quality for their size first.
_PREFERRED_QUANTS = ("Q4_K_M", "Q4_0", "Q4_K_S", "Q5_K_M", "Q8_0")
_RECORD = "files.json"  # name of the file that lists the downloaded files, in the same folder
_SPACE_FACTOR = 1.05  # required free space as a multiple of the file sizes, so the disk does not fill up

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}").fullmatch
#: Matches the names of model files, without unusual characters.
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,200}\.gguf").fullmatch
_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf").fullmatch


class HubName(msgspec.Struct, frozen=True):
    owner: str
    name: str
    #: Selects a file by path or by quantization. If both are empty, a preferred quantization is chosen.
    file: str = ""
    quant: str = ""

    @property
    def title(self) -> str:
        return self.file.rpartition("/")[2].removesuffix(".gguf") or self.name

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


class _Lfs(msgspec.Struct, frozen=True):
    oid: str = ""
    size: int = 0


class HubFile(msgspec.Struct, frozen=True):
    """A file of a model, as the hub lists it."""

    path: str
    size: int = 0
    lfs: _Lfs | None = None

    @property
    def base(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def cache_path(self) -> Path:
        """Relative path in the cache. The folder is escaped into one path component, so it cannot lead upwards."""
        above = self.path.rpartition("/")[0]
        return Path(urllib.parse.quote(above, safe="").replace(".", "%2E"), self.base)

    @property
    def partial(self) -> Path:
        """Relative path of the incomplete file during the download."""
        return self.cache_path.with_name(f".{self.base}.part")

    @property
    def bytes(self) -> int:
        return (self.lfs and self.lfs.size) or self.size


def parse_name(text: str) -> HubName | None:
    """Parse the name of a hub model. Returns None if the text is not such a name."""
    name = text.removeprefix(PREFIX)
    name, _, quant = name.partition(":")
    owner, _, rest = name.partition("/")
    repo, _, file = rest.partition("/")
    if not _WORD(owner) or not _WORD(repo) or (quant and not _WORD(quant)):
        return None
    if not file:
        # Without the prefix, a name that ends in `.gguf` means a local file.
        return None if not text.startswith(PREFIX) and repo.endswith(".gguf") else HubName(owner, repo, "", quant)
    plain = all(map(_WORD, file.split("/"))) and file.endswith(".gguf") and not quant
    return HubName(owner, repo, file) if plain and text.startswith(PREFIX) else None


def runs_here(name: str) -> bool:
    """Whether a model name without a provider can only mean a local model: a file, or a hub model."""
    return name.endswith(".gguf") or name.startswith(PREFIX) or "/" in name.partition(":")[0]


def cached_file(model: HubName, cache: Path) -> Path | None:
    """Return the cached file of a model, if it is complete."""
    folder = _folder(model, cache)
    try:
        files = _select_files(model, _recorded_files(folder))
        complete = all((folder / file.cache_path).stat().st_size == file.bytes for file in files)
    except (*ABSENT, WeightsError):
        return None
    except OSError as error:
        raise unreadable(f"the model {model}", folder, error) from error
    return folder / files[0].cache_path if complete else None


def _recorded_files(folder: Path) -> list[HubFile]:
    """Return the files downloaded into a folder, as the hub listed them."""
    with suppress(*ABSENT, msgspec.DecodeError):
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=list[HubFile])
    return []


def obtain(
    model: HubName, cache: Path, environment: Mapping[str, str], follower: DownloadListener = NO_LISTENER
) -> Path:
    """Return the file of a model, downloading it if it is not cached. For a split model, return the first part."""
    cached = cached_file(model, cache)
    if cached is not None:
        return cached
    hub = _Hub(model, environment)
    files = _select_files(model, hub.files())
    folder = _folder(model, cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        counted = follower.counting(sum(file.bytes for file in files))
        with download_folder(folder, follower.watching(lambda: counted(_bytes_present(files, folder)))) as parts:
            _download_missing(hub, files, folder, parts, follower)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else system_reason(error)
        hint = "free some space, or set XDG_CACHE_HOME to another folder"
        raise WeightsError(f"the model {model} cannot be stored in {folder}: {why}", hint=hint) from error
    return folder / files[0].cache_path


def _download_missing(hub: "_Hub", files: list[HubFile], folder: Path, parts: Path, follower: DownloadListener) -> None:
    total = sum(file.bytes for file in files)
    missing = {file.path for file in files if not _matches(folder / file.cache_path, file)}
    if shutil.disk_usage(folder).free < sum(file.bytes for file in files if file.path in missing) * _SPACE_FACTOR:
        raise OSError(errno.ENOSPC, "not enough free space")
    done = 0
    for file in files:
        if file.path in missing:
            hub.fetch(file, folder, parts, follower.counting(total, done))
        done += file.bytes
    others = [file for file in _recorded_files(folder) if file.path not in {each.path for each in files}]
    (folder / _RECORD).write_bytes(msgspec.json.encode([*others, *files]))


def _bytes_present(files: list[HubFile], folder: Path) -> int:
    """Count the bytes downloaded so far, by this process or another."""
    return sum(size_of(folder / file.cache_path) or size_of(folder / file.partial) for file in files)


def _folder(model: HubName, cache: Path) -> Path:
    return cache / "hub" / f"{model.owner}--{model.name}"


def _select_files(model: HubName, listed: Iterable[HubFile]) -> list[HubFile]:
    """Return the selected file of the model, or all its parts in order if it is split."""
    usable = {file.path: file for file in listed if _FILE(file.base) and "mmproj" not in file.base.lower()}
    if model.file:
        first = usable.get(model.file)
    elif model.quant:
        first = _with_quant(usable.values(), model.quant)
    else:
        usual = (_with_quant(usable.values(), quant) for quant in _PREFERRED_QUANTS)
        first = next((file for file in usual if file is not None), None) or next(iter(usable.values()), None)
    if first is None:
        available = ", ".join(sorted(file.base for file in usable.values())[:12])
        advice = "choose a model with GGUF files; their names often end in -GGUF"
        missing = model.file or (f"file with quantization {model.quant}" if model.quant else "GGUF file")
        hint = f"available: {available}" if available else advice
        raise WeightsError(f"the model {model} has no {missing}", hint=hint)
    return _parts(first, usable)


def _with_quant(files: Iterable[HubFile], quant: str) -> HubFile | None:
    ends = re.compile(rf".*[-._]{re.escape(quant)}(-00001-of-\d{{5}})?\.gguf", re.IGNORECASE).fullmatch
    return next((file for file in files if ends(file.base)), None)


def _parts(first: HubFile, files: Mapping[str, HubFile]) -> list[HubFile]:
    split = _PART(first.path)
    if split is None:
        return [first]
    names = [f"{split[1]}-{number:05}-of-{split[2]}.gguf" for number in range(1, int(split[2]) + 1)]
    missing = [name for name in names if name not in files]
    if missing:
        raise WeightsError(f"the part {missing[0]} is missing on the hub", hint="choose another file of the model")
    return [files[name] for name in names]


class _Hub:
    def __init__(self, model: HubName, environment: Mapping[str, str]) -> None:
        self._model = model
        self._endpoint = (environment.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
        token = environment.get("HF_TOKEN", "").strip()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = urllib.request.build_opener(SameHostRedirects)
        if not self._endpoint.startswith(("https://", "http://")):
            raise WeightsError("`HF_ENDPOINT` is not a URL", hint="for example https://huggingface.co")

    def files(self) -> list[HubFile]:
        url = f"{self._endpoint}/api/models/{self._model}/tree/main?recursive=true"
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
                return msgspec.json.decode(answer.read(_MAX_LIST_BYTES), type=list[HubFile])
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise self._explain(error) from error

    def fetch(self, file: HubFile, folder: Path, parts: Path, progress: Callable[[int], None]) -> None:
        """Download a file into a folder. Resumes an interrupted download."""
        partial, target = parts / file.partial, folder / file.cache_path
        for path in (partial, target):
            path.parent.mkdir(exist_ok=True)
        url = f"{self._endpoint}/{self._model}/resolve/main/{urllib.parse.quote(file.path)}"
        try:
            download(url, partial, progress, self._headers, self._opener.open)
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._explain(error) from error
        if not _matches(partial, file):
            partial.unlink()
            message = f"{file.path} of {self._model} is corrupt: its size or hash differs from the hub's list"
            raise WeightsError(message, hint="the download was discarded; try again")
        partial.replace(target)

    def _explain(self, error: Exception) -> WeightsError:
        host = urllib.parse.urlsplit(self._endpoint).netloc
        status = error.code if isinstance(error, urllib.error.HTTPError) else 0
        with suppress(AttributeError):
            error.close()  # type: ignore[attr-defined] - an unread response
        if status in (401, 403):
            hint = "set HF_TOKEN, and accept the terms on the model's page if there are any"
            return WeightsError(f"{host} denies access to {self._model}, or has no such model", hint=hint)
        if status == 404:
            return WeightsError(f"{host} has no model {self._model}", hint="check the name: it must be owner/name")
        why = str(getattr(error, "reason", None) or error)[:300]
        hint = "try again to resume; offline, use --model FILE.gguf; set HF_ENDPOINT to use another hub"
        return WeightsError(f"cannot download the model {self._model} from {host}: {why}", hint=hint)


def _matches(path: Path, file: HubFile) -> bool:
    """Whether a file exists and has the size and hash that the hub lists."""
    if not path.exists() or (file.bytes and path.stat().st_size != file.bytes):
        return False
    if file.lfs is None or not file.lfs.oid:
        return True
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.lfs.oid
