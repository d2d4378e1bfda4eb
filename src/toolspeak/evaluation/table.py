"""Settings side by side: a table with a row for each and a column for each category, from all that is kept.

Where `report` shows what one command has measured, this puts together what several have. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .journal import Record, Setting
from .report import cell, line
from .statistics import Score, score

_EMPTY = "not asked"


def compared(found: Iterable[tuple[Setting, Sequence[Record]]], categories: Sequence[str]) -> str:
    """A table in Markdown: how many cases of each category are right in each setting, and how sure that is."""
    head = ("way", *categories, "tokens out a case", "median s")
    lines = [line(head), line(("---", *("---:" for _ in head[1:])))]
    for setting, records in found:
        asked = [record for record in records if record.category in categories]
        cells = (_right([each for each in asked if each.category == name]) for name in categories)
        lines.append(line((cell(setting.way), *cells, *_costs(asked))))
    return "\n".join(lines) + "\n"


def _right(records: Sequence[Record]) -> str:
    if not records:
        return _EMPTY
    made = score(records)
    errors = f", {made.errors} errors" if made.errors else ""
    return f"{made.correct} of {made.cases}: {made.share:.0%} ({_interval(made)}){errors}"


def _interval(made: Score) -> str:
    return f"{100 * made.low:.0f} to {100 * made.high:.0f}"


def _costs(records: Sequence[Record]) -> tuple[str, str]:
    if not records:
        return "", ""
    made = score(records)
    return f"{made.output_tokens / made.cases:.0f}", f"{made.median_seconds:.1f}"
