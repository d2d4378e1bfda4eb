"""Print how well refusals are told from answers, by language: `python -m tests.refusals.measure FILE`.

FILE is a set of this folder without its ending, `more_languages_unread` if none is given.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from toolspeak.engine.refusals.classifier import RETRYABLE, classify

#: The columns: what a row is, by its category.
KINDS = {
    "no_tools": "refusals",
    "cannot_access": "refusals",
    "describes": "described calls",
    "asks_permission": "described calls",
    "answer": "answers",
    "safety": "safety",
}


def measure(name: str) -> dict[str, Counter[str]]:
    """Count the rows of a set by language and kind, and those that would be asked again (`KIND again`)."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (Path(__file__).parent / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = KINDS[row["category"]]
        again = classify(row["text"], row["tools"]).category in RETRYABLE
        for language in (row["language"], "all"):
            counts[language].update({kind: 1, f"{kind} again": int(again)})
    return counts


def main() -> None:
    kinds = list(dict.fromkeys(KINDS.values()))
    lines = [f"{'':5}" + "".join(f"{kind:>18}" for kind in kinds)]
    for language, count in measure(*sys.argv[1:] or ["more_languages_unread"]).items():
        lines.append(f"{language:5}" + "".join(f"{count[f'{kind} again']:>12} of {count[kind]:<3}" for kind in kinds))
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
