"""Looks whether the families share names or wordings with a public test, so that they can be told apart from it.

    python -m training.overlap FOLDER_OF_BFCL_DATA

Nothing is learned from the test here; what is found is taken out of the families by hand. Above: nothing. Below: `family`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from .family import families

#: So many words in a row, and it is no chance.
_ROW = 7


def _rows(text: str) -> set[str]:
    words = re.findall(r"[a-z']+|\{", re.sub(r"\{[\w.]+\}|[\d.,%$]+", " { ", text.lower()))
    rows = (words[at : at + _ROW] for at in range(len(words) - _ROW + 1))
    return {" ".join(row) for row in rows if row.count("{") < _ROW // 2}


def _foreign(request: str, asked: str) -> bool:
    """Whether a row of signs that are not Latin stands in what is asked there."""
    return any(run in asked for run in re.findall(r"[\u3040-\u9fff\uac00-\ud7a3]{8,}", request))


def main(folder: Path) -> None:
    """Print what is shared."""
    names: set[str] = set()
    wordings: set[str] = set()
    asked = ""
    for file in folder.glob("*.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            names |= {each["name"].replace(".", "_").lower() for each in entry.get("function", [])}
            told = [each["content"] for turn in entry.get("question", []) for each in turn]
            wordings |= {row for text in told for row in _rows(text)}
            asked += "\n".join(told).lower() + "\n"
    for family in families():
        same = [name for name in family.names if name.replace(".", "_").lower() in names]
        alike = [request for request in family.requests if _rows(request) & wordings or _foreign(request, asked)]
        alike += [miss for miss in family.misses if miss.lower().rstrip("?.") in asked]
        if same or alike:
            print(family.key, "| names:", ", ".join(same), "| wordings:", *alike, sep="\n    " if alike else " ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
