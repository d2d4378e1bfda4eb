"""Looks what the data shares with a public test, so that it can be told apart from it.

    python -m training.overlap FOLDER_OF_BFCL_DATA                                   # families: prints what is shared
    python -m training.overlap FOLDER_OF_BFCL_DATA --recorded recorded --clean clean # keeps what shares nothing

Nothing is learned from the test here. What families share is taken out by hand; recorded requests are left out where the
request is alike, or where one of their tools is a function of the test, under whatever name: data sets that were made with
the test in mind hold its functions with other requests. Above: nothing. Below: `family`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolspeak.core.model import JSONObject, is_object

from .family import families

#: So many words in a row, and it is no chance.
_ROW = 7
#: A request whose words are to this share those of another asks the same.
_ALIKE = 0.5
#: So many parameters with the same names, and it is the same function.
_SAME = 3
_WORDS = re.compile(r"[a-z]{3,}|\d+(?:\.\d+)?")
_PLAIN = frozenset("the and for what with can you from that this are how much many get find using have has".split())


def _rows(text: str) -> set[str]:
    words = re.findall(r"[a-z']+|\{", re.sub(r"\{[\w.]+\}|[\d.,%$]+", " { ", text.lower()))
    rows = (words[at : at + _ROW] for at in range(len(words) - _ROW + 1))
    return {" ".join(row) for row in rows if row.count("{") < _ROW // 2}


def _bare(name: str) -> str:
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


class Test:
    """What a public test asks, and with which functions."""

    def __init__(self, entries: Iterable[JSONObject]) -> None:
        self.names: set[str] = set()
        self.asked = ""
        self.wordings: set[str] = set()
        self._abouts: set[str] = set()
        self._shapes: set[frozenset[str]] = set()
        self._requests: dict[str, list[frozenset[str]]] = {}
        for entry in entries:
            self._add(entry)

    def _add(self, entry: JSONObject) -> None:
        for function in entry.get("function", []):
            last = function["name"].rpartition(".")[2]
            self.names |= {_bare(function["name"]), _bare(last)}
            self._abouts |= _rows(function.get("description") or "")
            self._abouts.add(_bare(function.get("description") or ""))
            self._shapes.add(frozenset(map(_bare, _parameters(function))))
        for text in (each["content"] for turn in entry.get("question", []) for each in turn):
            self.wordings |= _rows(text)
            self.asked += text.lower() + "\n"
            words = _content(text)
            for word in words:
                self._requests.setdefault(word, []).append(words)

    def has_function(self, function: JSONObject) -> bool:
        """Whether a tool is one of its functions: by name, by what is said of it, or by its parameters."""
        about, shape = function.get("description") or "", frozenset(map(_bare, _parameters(function)))
        return (
            bool({_bare(function["name"]), _bare(function["name"].rpartition(".")[2])} & self.names)
            or (len(about) > 20 and (_bare(about) in self._abouts or bool(_rows(about) & self._abouts)))
            or (len(shape) >= _SAME and shape in self._shapes)
        )

    def asks(self, request: str) -> bool:
        """Whether it asks for something alike."""
        if _rows(request) & self.wordings:
            return True
        words = _content(request)
        near = (other for word in words for other in self._requests.get(word, ()))
        return any(len(words & other) >= _ALIKE * len(words | other) for other in near)


def _entries(folder: Path) -> Iterator[JSONObject]:
    for file in sorted(folder.glob("*.json")):
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def in_families(test: Test) -> None:
    """Print what families share with it."""
    for family in families():
        same = [name for name in family.names if _bare(name) in test.names]
        alike = [
            request for request in family.requests if _rows(request) & test.wordings or _foreign(request, test.asked)
        ]
        alike += [miss for miss in family.misses if miss.lower().rstrip("?.") in test.asked]
        if same or alike:
            print(family.key, "| names:", ", ".join(same), "| wordings:", *alike, sep="\n    " if alike else " ")


def cleaned(test: Test, rows: list[JSONObject]) -> list[JSONObject]:
    """The recorded requests that share nothing with it."""
    return [row for row in rows if not test.asks(row["query"]) and not any(map(test.has_function, row["tools"]))]


def main() -> None:
    """Tell what is shared, or leave it out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recorded", type=Path, help="a folder of recorded requests")
    parser.add_argument("--clean", type=Path, help="where to keep those that share nothing")
    asked = parser.parse_args()
    test = Test(_entries(asked.folder))
    if asked.recorded is None:
        in_families(test)
        return
    for file in sorted(asked.recorded.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        kept = cleaned(test, rows)
        print(f"{file.name}: {len(kept)} of {len(rows)} share nothing")
        if asked.clean is not None:
            asked.clean.mkdir(parents=True, exist_ok=True)
            (asked.clean / file.name).write_text("\n".join(map(json.dumps, kept)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
