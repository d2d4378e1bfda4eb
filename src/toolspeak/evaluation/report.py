"""What came of a run: as a value for JSON, and as a table for people.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..core.types import JSONObject
from .journal import Record, Setting
from .statistics import ALL, Score, score_by_category


class Row(msgspec.Struct, frozen=True):
    """One setting and its numbers."""

    setting: Setting
    #: How many cases there would be if all were finished.
    chosen: int
    #: By category; all of them together first.
    scores: dict[str, Score]


class Report(msgspec.Struct, frozen=True):
    """A run, whole or as far as it came."""

    suite: str
    suite_version: str
    toolspeak: str
    model: str
    base_url: str
    seed: int
    #: The day and the time, as the caller writes them.
    when: str
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """Whether every case in every setting has an answer."""
        return all(_complete(row) for row in self.rows)


def rows_of(found: Iterable[tuple[Setting, Sequence[Record], int]]) -> tuple[Row, ...]:
    """The numbers of some settings, each with its records and with how many there would be."""
    return tuple(Row(setting, chosen, score_by_category(records)) for setting, records, chosen in found)


def plain(report: Report) -> JSONObject:
    """The report as JSON values."""
    rows = [{"label": row.setting.label, **msgspec.to_builtins(row)} for row in report.rows]
    return {**msgspec.to_builtins(report), "complete": report.complete, "rows": rows}


_HEAD = (
    "setting",
    "category",
    "right",
    "95 % interval",
    "errors",
    "requests",
    "retries",
    "tokens in / out",
    "median s",
)


def markdown(report: Report) -> str:
    """The report as a page of Markdown."""
    where = f" at {report.base_url}" if report.base_url else ""
    lines = [
        f"# {cell(report.model + where)}",
        "",
        f"Suite {report.suite} ({cell(report.suite_version)}), seed {report.seed}, toolspeak {report.toolspeak}, "
        f"{report.when}.",
        "Intervals are Wilson's, for 95 %. Cases that ended in an error count as wrong.",
        "",
        line(_HEAD),
        line(("---", "---", "---:", "---", "---:", "---:", "---:", "---:", "---:")),
    ]
    for row in report.rows:
        lines += [line(_cells(row, category, score)) for category, score in row.scores.items()]
    unfinished = [row for row in report.rows if not _complete(row)]
    if unfinished:
        lines += ["", *(f"Not finished: {cell(row.setting.label)}, {_done(row)}." for row in unfinished)]
    return "\n".join(lines) + "\n"


def _cells(row: Row, category: str, score: Score) -> tuple[str, ...]:
    return (
        row.setting.label if category == ALL else "",
        category,
        f"{score.correct} of {score.cases} ({score.share:.1%})",
        f"{score.low:.1%} to {score.high:.1%}",
        str(score.errors),
        str(score.requests),
        str(score.retries),
        f"{score.input_tokens} / {score.output_tokens}",
        f"{score.median_seconds:.2f}",
    )


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(cell, cells))} |"


def cell(text: str) -> str:
    """A text that stays within its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _complete(row: Row) -> bool:
    score = row.scores[ALL]
    return score.cases == row.chosen and not score.errors


def _done(row: Row) -> str:
    score = row.scores[ALL]
    return f"{score.cases - score.errors} of {row.chosen} cases have an answer"
