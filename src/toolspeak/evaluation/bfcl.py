"""The Berkeley Function-Calling Leaderboard as a suite: its cases, judged by its own checker.

Functions are told to the model as the leaderboard tells them to models behind an OpenAI-like API: its types become
those of JSON schema, a dot in a name becomes an underscore.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple, TypeAlias, cast

import msgspec

from ..core.types import JSONObject, JSONValue, Message, TextPart, Tool, is_array, is_object
from ..errors import UsageError
from .bfcl_files import CATEGORIES, PACKAGE, BfclFiles
from .cases import Answer, Case, Judgement

#: The leaderboard's types that JSON schema calls otherwise.
_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "list": "array",
    "bool": "boolean",
    "any": "string",
}
#: What the leaderboard adds to descriptions.
_PYTHON_HINT = " Note that the provided function is in Python 3 syntax."
_FLOAT_HINT = " This is a float type value."
#: The model under whose name the checker looks up whether dots became underscores.
_NAME = "toolspeak"
#: Schemas nest a few levels; a file that nests deeper is not the leaderboard's.
_DEEPEST = 32

#: The package's `ast_checker`, with its language and model filled in: functions, calls, expected calls, category.
Checker: TypeAlias = Callable[[list[JSONObject], list[JSONObject], list[JSONObject], str], Mapping[str, JSONValue]]


class _Entry(NamedTuple):
    category: str
    functions: list[JSONObject]
    expected: list[JSONObject]


class Bfcl:
    """The suite, from files that are there.

    Raises:
        UsageError: a category is not one of ours, or the files are not the leaderboard's.
    """

    name = "bfcl"

    def __init__(self, files: BfclFiles, categories: Collection[str] = (), checker: Checker | None = None) -> None:
        unknown = sorted(set(categories) - set(CATEGORIES))
        if unknown:
            raise UsageError(f"there is no category `{unknown[0]:.80}`", hint=f"use {', '.join(CATEGORIES)}")
        self.version = files.version
        self._check = checker or checker_of(files.folder)
        self._entries: dict[str, _Entry] = {}
        self.cases: Sequence[Case] = tuple(
            case
            for category in CATEGORIES
            if category in (categories or CATEGORIES)
            for case in self._read(files, category)
        )

    def _read(self, files: BfclFiles, category: str) -> Generator[Case]:
        data = files.folder / PACKAGE / "data"
        name = f"BFCL_v4_{category}.json"
        answers = data / "possible_answer" / name
        expected = {each["id"]: each["ground_truth"] for each in _lines(answers)} if answers.exists() else {}
        for entry in _lines(data / name):
            functions = entry["function"]
            self._entries[entry["id"]] = _Entry(category, functions, expected.get(entry["id"], []))
            messages = tuple(Message(each["role"], (TextPart(each["content"]),)) for each in entry["question"][0])
            yield Case(entry["id"], category, messages, tuple(map(tool_of, functions)))

    def expected(self, case: Case) -> list[JSONObject]:
        """The calls that are right, as the leaderboard writes them: by name, the values that each argument may have."""
        return self._entries[case.id].expected

    def judge(self, case: Case, round_: int, answer: Answer) -> Judgement:
        """What the leaderboard says to an answer."""
        entry = self._entries[case.id]
        if entry.category == "irrelevance":  # the leaderboard's own rule: right is whatever is no call
            made = ", ".join(call.name for call in answer.calls)
            return Judgement(False, "irrelevance_error:decoder_success", made) if made else Judgement(True)
        calls: list[JSONObject] = [{call.name: call.arguments} for call in answer.calls]
        try:
            found = self._check(entry.functions, calls, entry.expected, entry.category)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            # Values that it does not foresee, such as a list where it expects objects.
            return Judgement(False, "checker_failed", f"{type(error).__name__}: {error}")
        if found["valid"]:
            return Judgement(True)
        return Judgement(False, str(found.get("error_type", "unknown")), _told(found.get("error")))


def _told(error: JSONValue) -> str:
    listed = error if is_array(error) else [error]
    return "; ".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in listed)


def _lines(path: Path) -> Generator[JSONObject]:
    try:
        for line in path.read_bytes().splitlines():
            if line.strip():
                yield msgspec.json.decode(line)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"`{path}` is not a file of the leaderboard: {error}") from error


# ---- functions


def tool_of(function: JSONObject) -> Tool:
    """A function of the leaderboard as a tool."""
    description = f"{function.get('description', '')}{_PYTHON_HINT}"
    return Tool(function["name"].replace(".", "_"), description, _schema(function["parameters"]))


def _schema(given: JSONObject, depth: int = 0) -> JSONObject:
    """A schema of the leaderboard in the words of JSON schema. Values, such as defaults, stay as they are."""
    if depth > _DEEPEST:
        raise UsageError("a schema of the leaderboard is nested too deeply")
    made = dict(given)
    kind = given.get("type", "object" if "properties" in given else "string")
    made["type"] = _TYPES.get(kind, kind) if isinstance(kind, str) else kind
    if kind == "float":
        made["format"] = "float"
        made["description"] = f"{given.get('description', '')}{_FLOAT_HINT}"
    for key in ("items", "additionalProperties"):
        if is_object(given.get(key)):
            made[key] = _schema(given[key], depth + 1)
    if is_object(given.get("properties")):
        made["properties"] = {name: _schema(each, depth + 1) for name, each in given["properties"].items()}
    return made


# ---- the checker


def checker_of(folder: Path) -> Checker:
    """The package's own checker.

    It imports a table of every model that the leaderboard knows, and with it the SDKs of all vendors, to learn one
    thing: whether dots in names became underscores. A table with our own line stands in for it.
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
def _only(folder: Path, stand_in: ModuleType) -> Generator[None]:
    """While the package is imported from `folder`, with a stand-in for one module; nothing of it is left behind."""
    before = _loaded()
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    sys.modules[stand_in.__name__] = stand_in
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
