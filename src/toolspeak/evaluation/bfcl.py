"""The Berkeley Function-Calling Leaderboard (BFCL) as a suite, judged by its own checker.

Functions are presented to the model as the leaderboard presents them to OpenAI-compatible APIs: its types become JSON
Schema types, and dots in names become underscores. The leaderboard's package has 32 dependencies, some of them several
gigabytes in size. Its data and checker need none of them, so only these files are extracted from the wheel, verified by
hash, and cached.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple, TypeAlias, cast

import msgspec

from ..core.types import JSONObject, JSONValue, Message, TextPart, Tool, is_array, is_object
from ..errors import ToolspeakError, UsageError
from ..upstreams.embedded.package_index import FETCH_METHODS, FetchFailed, FetchMethod, FetchRequest, fetch
from .cases import EvalCase, Judgement, ModelAnswer

DISTRIBUTION, PACKAGE, VERSION = "bfcl-eval", "bfcl_eval", "2026.3.23"
#: Supported categories: those with a single turn that can be judged without running code.
CATEGORIES = tuple("simple_python multiple parallel parallel_multiple irrelevance live_simple live_multiple".split())
_UNANSWERED = frozenset({"irrelevance"})
_CHECKER = (
    "__init__.py constants/__init__.py constants/enums.py constants/type_mappings.py eval_checker/__init__.py "
    "eval_checker/ast_eval/__init__.py eval_checker/ast_eval/ast_checker.py "
    "eval_checker/ast_eval/type_convertor/__init__.py eval_checker/ast_eval/type_convertor/java_type_converter.py "
    "eval_checker/ast_eval/type_convertor/js_type_converter.py"
).split()
_MEMBERS = (
    *_CHECKER,
    *(f"data/BFCL_v4_{name}.json" for name in CATEGORIES),
    *(f"data/possible_answer/BFCL_v4_{name}.json" for name in CATEGORIES if name not in _UNANSWERED),
)
#: Hash of the names and contents of the files. It must match, because the checker's code is executed.
_SHA256 = "2874522acac87c5f4577d2a255e1ec523d6221bfde97c8f9ecc45ef3f5e5bfce"
_HINT = f"run `pip install --no-deps {DISTRIBUTION}=={VERSION}`, or use --suite builtin"
#: JSON Schema types for the leaderboard's own type names.
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "bool": "boolean", "any": "string"}
#: Sentences that the leaderboard adds to descriptions.
_PYTHON_HINT = " Note that the provided function is in Python 3 syntax."
_FLOAT_HINT = " This is a float type value."
_NAME = "toolspeak"  # model name that the checker looks up to find out whether dots in names became underscores
#: Maximum nesting depth of a schema. The leaderboard's schemas have only a few levels.
_MAX_SCHEMA_DEPTH = 32

#: The package's `ast_checker` for Python. Its arguments are functions, calls, expected calls and category.
Checker: TypeAlias = Callable[[list[JSONObject], list[JSONObject], list[JSONObject], str], Mapping[str, JSONValue]]


class BfclFilesError(ToolspeakError):
    status = 503


class BfclFiles(msgspec.Struct, frozen=True):
    folder: Path
    version: str


class _BfclEntry(NamedTuple):
    category: str
    functions: list[JSONObject]
    expected: list[JSONObject]


class Bfcl:
    """The leaderboard as a test suite. Raises UsageError for an unknown category or an invalid file."""

    name = "bfcl"

    def __init__(self, files: BfclFiles, categories: Collection[str] = (), checker: Checker | None = None) -> None:
        unknown = sorted(set(categories) - set(CATEGORIES))
        if unknown:
            raise UsageError(f"unknown category `{unknown[0]:.80}`", hint=f"use {', '.join(CATEGORIES)}")
        self.version = files.version
        self._check = checker or load_checker(files.folder)
        self._entries: dict[str, _BfclEntry] = {}
        chosen = [name for name in CATEGORIES if name in (categories or CATEGORIES)]
        self.cases: Sequence[EvalCase] = tuple(case for name in chosen for case in self._read(files, name))

    def _read(self, files: BfclFiles, category: str) -> Generator[EvalCase]:
        data = files.folder / PACKAGE / "data"
        name = f"BFCL_v4_{category}.json"
        answers = data / "possible_answer" / name
        expected = {each["id"]: each["ground_truth"] for each in _lines(answers)} if answers.exists() else {}
        for entry in _lines(data / name):
            functions = entry["function"]
            self._entries[entry["id"]] = _BfclEntry(category, functions, expected.get(entry["id"], []))
            messages = tuple(Message(each["role"], (TextPart(each["content"]),)) for each in entry["question"][0])
            yield EvalCase(entry["id"], category, messages, tuple(map(tool_of, functions)))

    def expected(self, case: EvalCase) -> list[JSONObject]:
        """Return the expected calls in the leaderboard's format: function name -> argument -> accepted values."""
        return self._entries[case.id].expected

    def judge(self, case: EvalCase, round_: int, answer: ModelAnswer) -> Judgement:
        entry = self._entries[case.id]
        if entry.category == "irrelevance":  # by the leaderboard's rule, anything but a call is correct
            names = ", ".join(call.name for call in answer.calls)
            return Judgement(False, "irrelevance_error:decoder_success", names) if names else Judgement(True)
        calls: list[JSONObject] = [{call.name: call.arguments} for call in answer.calls]
        try:
            verdict = self._check(entry.functions, calls, entry.expected, entry.category)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            # The checker raises on values that it does not expect, such as a list instead of an object.
            return Judgement(False, "checker_failed", f"{type(error).__name__}: {error}")
        if verdict["valid"]:
            return Judgement(True)
        return Judgement(False, str(verdict.get("error_type", "unknown")), _error_text(verdict.get("error")))


def _error_text(error: JSONValue) -> str:
    listed = error if is_array(error) else [error]
    return "; ".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in listed)


def _lines(path: Path) -> Generator[JSONObject]:
    try:
        for line in path.read_bytes().splitlines():
            if line.strip():
                yield msgspec.json.decode(line)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"cannot read the leaderboard file `{path}`: {error}") from error


def tool_of(function: JSONObject) -> Tool:
    description = f"{function.get('description', '')}{_PYTHON_HINT}"
    return Tool(function["name"].replace(".", "_"), description, _schema(function["parameters"]))


def _schema(schema: JSONObject, depth: int = 0) -> JSONObject:
    """Convert one of the leaderboard's schemas to JSON Schema. Values such as defaults stay unchanged."""
    if depth > _MAX_SCHEMA_DEPTH:
        raise UsageError("a schema in the leaderboard's files is nested too deeply")
    result = dict(schema)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    result["type"] = _TYPES.get(kind, kind) if isinstance(kind, str) else kind
    if kind == "float":
        result["format"] = "float"
        result["description"] = f"{schema.get('description', '')}{_FLOAT_HINT}"
    for key in ("items", "additionalProperties"):
        if is_object(schema.get(key)):
            result[key] = _schema(schema[key], depth + 1)
    if is_object(schema.get("properties")):
        result["properties"] = {name: _schema(each, depth + 1) for name, each in schema["properties"].items()}
    return result


def load_checker(folder: Path) -> Checker:
    """Import the leaderboard's checker.

    The checker imports a table of all models, and with it the SDKs of all vendors, only to look up whether dots in
    names became underscores. A stub with a single entry replaces that table.
    """
    table = ModuleType(f"{PACKAGE}.constants.model_config")
    table.MODEL_CONFIG_MAPPING = {_NAME: SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
    with _only(folder, table):
        check = importlib.import_module(f"{PACKAGE}.eval_checker.ast_eval.ast_checker").ast_checker
        python = importlib.import_module(f"{PACKAGE}.constants.enums").Language.PYTHON

    def checker(
        functions: list[JSONObject], calls: list[JSONObject], expected: list[JSONObject], category: str
    ) -> Mapping[str, JSONValue]:
        return cast("Mapping[str, JSONValue]", check(functions, calls, expected, python, category, _NAME))

    return checker


@contextmanager
def _only(folder: Path, stub: ModuleType) -> Generator[None]:
    """Import the package only from `folder`, with a stub for one module; restore `sys.modules` afterwards."""
    before = _loaded()
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    sys.modules[stub.__name__] = stub
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(before)


def _loaded() -> dict[str, ModuleType]:
    return {name: each for name, each in sys.modules.items() if name == PACKAGE or name.startswith(f"{PACKAGE}.")}


def find_files(cache: Path) -> BfclFiles | None:
    """Return the files of the installed package, else those in the cache, else None."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        with suppress(importlib.metadata.PackageNotFoundError):  # a folder of that name, not the package
            return BfclFiles(Path(spec.origin).parent.parent, importlib.metadata.version(DISTRIBUTION))
    return find_cached(cache)


def find_cached(cache: Path) -> BfclFiles | None:
    """Return the files in the cache, or None if they are incomplete."""
    folder = cache / f"{DISTRIBUTION}-{VERSION}"
    return BfclFiles(folder, VERSION) if _digest(folder) == _SHA256 else None


def obtain_files(
    cache: Path, environment: Mapping[str, str], methods: tuple[FetchMethod, ...] = FETCH_METHODS
) -> BfclFiles:
    """Return the installed or cached files; if there are none, download them into the cache.

    `environment` are the environment variables for the download programs, including package index settings. Raises
    BfclFilesError if the files cannot be downloaded or stored.
    """
    installed = find_files(cache)
    if installed is not None:
        return installed
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=cache) as name:
            request = FetchRequest(DISTRIBUTION, VERSION, Path(name), cache, environment)
            return _extract(fetch(request, methods), Path(name) / "extracted", cache)
    except FetchFailed as error:
        raise BfclFilesError(f"cannot download {DISTRIBUTION}: {error}", hint=_HINT) from None
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise BfclFilesError(f"cannot store the files of {DISTRIBUTION} in {cache}: {error}", hint=_HINT) from error


def _extract(source: Path, work: Path, cache: Path) -> BfclFiles:
    """Extract the files from the download, verify their hash, and move them into the cache."""
    if source.is_dir():
        for member in _MEMBERS:
            target = work / PACKAGE / member
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / PACKAGE / member, target)
    else:
        with zipfile.ZipFile(source) as wheel:
            wheel.extractall(work, [f"{PACKAGE}/{member}" for member in _MEMBERS])
    if _digest(work) != _SHA256:
        message = f"the download of {DISTRIBUTION} {VERSION} has the wrong hash and was discarded"
        raise BfclFilesError(message, hint="try again, or check your package index")
    target = cache / f"{DISTRIBUTION}-{VERSION}"
    shutil.rmtree(target, ignore_errors=True)  # remove an incomplete earlier copy
    work.replace(target)
    return BfclFiles(target, VERSION)


def _digest(folder: Path) -> str:
    """Return the hash of the files in a folder, or an empty string if one is missing."""
    whole = hashlib.sha256()
    try:
        for member in _MEMBERS:
            content = (folder / PACKAGE / member).read_bytes()
            whole.update(f"{member}\n{hashlib.sha256(content).hexdigest()}\n".encode())
    except OSError:
        return ""
    return whole.hexdigest()
