"""Looks what the data shares with public tests, so that it can be told apart from them.

    python -m training.overlap BFCL_DATA SEAL_TOOLS                                   # families: prints what is shared
    python -m training.overlap BFCL_DATA SEAL_TOOLS --recorded recorded --clean clean # keeps what shares nothing

Nothing is learned from a test here. What families share is taken out by hand; recorded requests are left out where the
request is alike, or where one of their tools is a function of a test, under whatever name and in whatever words: data sets
that were made with a test in mind hold its functions with other requests. Of BFCL all categories count, also those that were
given up and the functions of several turns; of Seal-Tools the split `test_out_domain`. What only readers saw to be alike is left
out by its sum (`alike.txt`). Above: nothing. Below: `family`, `errands`, `chain_kinds`, `product`, `records`, `seal`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from toolspeak.core.types import JSONObject, is_object

from .chain_kinds import TRAINED
from .errands import errands
from .family import families
from .readings import readers
from .records import records
from .seal import rows_of
from .tasks import written

#: So many words in a row, and it is no chance.
_ROW = 7
#: A request whose words are to this share those of another asks the same.
_ALIKE = 0.5
#: So many parameters with the same names, and it is the same function.
_SAME = 3
#: A function whose words are to this share those of another does the same. Lower, and all that is about hotels is alike.
_REWORDED = 0.28
#: Words that begin alike are one: `calculate` and `calculation`.
_STEM = 6
_WORDS = re.compile(r"[a-z]{3,}|\d+(?:\.\d+)?")
_PLAIN = frozenset("the and for what with can you from that this are how much many get find using have has".split())


def _rows(text: str) -> set[str]:
    words = re.findall(r"[a-z']+|\{", re.sub(r"\{[\w.]+\}|[\d.,%$]+", " { ", text.lower()))
    rows = (words[at : at + _ROW] for at in range(len(words) - _ROW + 1))
    return {" ".join(row) for row in rows if row.count("{") < _ROW // 2}


def bare(name: str) -> str:
    """A name without what only sets its words apart."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _content(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.lower())) - _PLAIN


def _foreign(request: str, asked: str) -> bool:
    """Whether a row of signs that are not Latin stands in what is asked there."""
    return any(run in asked for run in re.findall(r"[\u3040-\u9fff\uac00-\ud7a3]{8,}", request))


def _parameters(function: JSONObject) -> JSONObject:
    """By name, from a JSON schema or from the short form."""
    given = function.get("parameters") or {}
    inner = given.get("properties") if is_object(given) else None
    return inner if is_object(inner) else given


def _said(function: JSONObject) -> frozenset[str]:
    """The beginnings of all words in its name, its description and the names of its parameters."""
    parts = [function["name"], function.get("description") or "", *_parameters(function)]
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", " ".join(parts))
    return frozenset(word[:_STEM] for word in re.findall(r"[a-z]{3,}", apart.lower()))


class Likeness:
    """How much a set of words is like one of many: the share of what both hold, where rare words weigh more."""

    def __init__(self, known: set[frozenset[str]]) -> None:
        counts = Counter(word for each in known for word in each)
        self._most = math.log(len(known) + 1)
        self._weights = {word: self._most - math.log(count) for word, count in counts.items()}
        self._holding: dict[str, list[frozenset[str]]] = {}
        for each in known:
            for word in each:
                self._holding.setdefault(word, []).append(each)

    def _weight(self, words: frozenset[str]) -> float:
        return sum(self._weights.get(word, self._most) for word in words)

    def best(self, words: frozenset[str]) -> float:
        """Its likeness to the one that is most alike."""
        near = {other for word in words for other in self._holding.get(word, ())}
        return max((self._weight(words & other) / self._weight(words | other) for other in near), default=0.0)


class Test:
    """What a public test asks, and with which functions.

    Args:
        entries: its cases.
        reworded: how alike a tool may not be to a function of it.
    """

    def __init__(self, entries: Iterable[JSONObject], reworded: float = _REWORDED) -> None:
        self.reworded = reworded
        self.names: set[str] = set()
        self.asked = ""
        self.wordings: set[str] = set()
        self._abouts: set[str] = set()
        self._shapes: set[frozenset[str]] = set()
        self._requests: dict[str, list[frozenset[str]]] = {}
        said: set[frozenset[str]] = set()
        for entry in entries:
            self._add(entry)
            said |= set(map(_said, entry.get("function", [])))
        self._likeness = Likeness(said)

    def _add(self, entry: JSONObject) -> None:
        for function in entry.get("function", []):
            last = function["name"].rpartition(".")[2]
            self.names |= {bare(function["name"]), bare(last)}
            self._abouts |= _rows(function.get("description") or "")
            self._abouts.add(bare(function.get("description") or ""))
            self._shapes.add(frozenset(map(bare, _parameters(function))))
        for text in (each["content"] for turn in entry.get("question", []) for each in turn):
            self.wordings |= _rows(text)
            self.asked += text.lower() + "\n"
            words = _content(text)
            for word in words:
                self._requests.setdefault(word, []).append(words)

    def has_function(self, function: JSONObject) -> bool:
        """Whether a tool is one of its functions: by name, by what is said of it in whatever words, or by its parameters."""
        about, shape = function.get("description") or "", frozenset(map(bare, _parameters(function)))
        return (
            bool({bare(function["name"]), bare(function["name"].rpartition(".")[2])} & self.names)
            or (len(about) > 20 and (bare(about) in self._abouts or bool(_rows(about) & self._abouts)))
            or (len(shape) >= _SAME and shape in self._shapes)
            or self.likeness(function) >= self.reworded
        )

    def likeness(self, function: JSONObject) -> float:
        """How much a tool is like the one of its functions that is most alike."""
        return self._likeness.best(_said(function))

    def words(self, text: str) -> bool:
        """Whether it says something in the same words."""
        return bool(_rows(text) & self.wordings) or _foreign(text, self.asked)

    def asks(self, request: str) -> bool:
        """Whether it asks for something alike."""
        if _rows(request) & self.wordings:
            return True
        words = _content(request)
        near = (other for word in words for other in self._requests.get(word, ()))
        return any(len(words & other) >= _ALIKE * len(words | other) for other in near)


def of_bfcl(folder: Path) -> Iterator[JSONObject]:
    """All that is asked, and the functions that are told in files of their own."""
    for file in sorted(folder.rglob("*.json")):
        if {"possible_answer", "executable_eval_sanity_check"} & set(file.parts):
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith('{"'):  # one file holds only names of cases
                continue
            entry = json.loads(line)
            questions = [turn for turn in entry.get("question", []) if isinstance(turn, list)]
            yield {
                "question": questions,
                "function": [entry] if "parameters" in entry else entry.get("function", []),
            }


def of_seal(folder: Path) -> Iterator[JSONObject]:
    """What the split that is kept for tests asks, and the tools that serve it."""
    tools = {row["api_name"]: row for row in rows_of(folder / "tool.jsonl")}
    for row in rows_of(folder / "test_out_domain.jsonl"):
        called = [tools[call["api"]] for call in row["calling"]]
        yield {
            "question": [[{"content": row["query"]}]],
            "function": [
                {"name": tool["api_name"], "description": tool["api_description"], "parameters": tool["parameters"]}
                for tool in called
            ],
        }


def in_families(test: Test) -> None:
    """Print what families share with a test."""
    for family in families():
        same = [name for name in family.names if bare(name) in test.names]
        said = [*family.requests, *family.misses, " ".join(family.joint or ())]
        alike = [text for text in said if test.words(text)]
        alike += [miss for miss in family.misses if miss.lower().rstrip("?.") in test.asked]
        parameters: JSONObject = {each.names[0]: {} for each in family.params.values()}
        told = [{"name": family.names[0], "description": about, "parameters": parameters} for about in family.abouts]
        close = max(map(test.likeness, told))
        if same or alike or close >= test.reworded:
            print(family.key, f"| likeness {close:.2f} | names:", ", ".join(same), "| wordings:", *alike)


def in_tasks(test: Test) -> None:
    """Print the tools of tasks of several rounds, and those that read or list something, that are functions of a test, and the requests, also
    those for several tools, that it asks as well."""
    tasks = [*written(), *written(held_out=True)]
    reading = [*readers(), *readers(held_out=True)]
    listing = [*records(), *records(held_out=True)]
    for tool in chain(TRAINED.tools(), *(each.tools() for each in (*tasks, *reading, *listing))):
        parameters: JSONObject = {key: {} for key in tool.parameters["properties"]}
        told: JSONObject = {"name": tool.name, "description": tool.description, "parameters": parameters}
        if test.has_function(told):
            print(tool.name, f"| of a task | likeness {test.likeness(told):.2f}")
    known = families()
    several = [*errands(known), *errands(known, held_out=True)]
    asked = chain(*(each.requests for each in (*tasks, *reading, *listing, *several)), *(task.alone for task in tasks))
    for request in filter(test.words, asked):
        print(request, "| of a task")


def seen_by_readers() -> frozenset[str]:
    """The sums of requests with tools that readers found alike with those of a test where the comparison did not."""
    return frozenset((Path(__file__).parent / "alike.txt").read_text(encoding="utf-8").split())


def cleaned(tests: list[Test], rows: list[JSONObject], seen: frozenset[str] = frozenset()) -> list[JSONObject]:
    """The recorded requests that share nothing with any test, and whose sums were not seen."""
    return [
        row
        for row in rows
        if f"{zlib.crc32(row['query'].strip().encode()):08x}" not in seen
        and not any(test.asks(row["query"]) or any(map(test.has_function, row["tools"])) for test in tests)
    ]


def _some(entries: Iterator[JSONObject], folder: Path) -> list[JSONObject]:
    """The entries; a wrong folder must not pass for a test that nothing is shared with."""
    found = list(entries)
    if not any(entry["function"] for entry in found):
        raise SystemExit(
            f"{folder} holds no case of the leaderboard: give the folder of its repository, with all categories"
        )
    return found


def main() -> None:
    """Tell what is shared, or leave it out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bfcl", type=Path, help="the data of the Berkeley leaderboard, with all folders below it")
    parser.add_argument("seal", type=Path, help="the folder of Seal-Tools")
    parser.add_argument("--recorded", type=Path, help="a folder of recorded requests")
    parser.add_argument("--clean", type=Path, help="where to keep those that share nothing")
    asked = parser.parse_args()
    # Tools of Seal-Tools' other splits, which are trained on, are as alike as those that are told in other words.
    tests = [Test(_some(of_bfcl(asked.bfcl), asked.bfcl)), Test(of_seal(asked.seal), reworded=math.inf)]
    if asked.recorded is None:
        for test in tests:
            in_families(test)
            in_tasks(test)
        return
    seen = seen_by_readers()
    for file in sorted(asked.recorded.glob("*.jsonl")):
        rows = rows_of(file)
        kept = cleaned(tests, rows, seen)
        print(f"{file.name}: {len(kept)} of {len(rows)} share nothing")
        if asked.clean is not None:
            asked.clean.mkdir(parents=True, exist_ok=True)
            (asked.clean / file.name).write_text("\n".join(map(json.dumps, kept)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
