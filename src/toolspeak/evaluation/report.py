"""Reports of an evaluation: JSON, and Markdown tables with 95% confidence intervals. No I/O."""

from collections.abc import Iterable, Sequence

import msgspec

from ..core.types import JSONObject
from .results_file import CaseResult, EvalSetting
from .statistics import ALL, Score, compute_score, score_by_category


class SettingScores(msgspec.Struct, frozen=True):
    setting: EvalSetting
    chosen: int
    scores: dict[str, Score]  # scores by category, starting with `all`


class EvalReport(msgspec.Struct, frozen=True):
    suite: str
    suite_version: str
    toolspeak: str
    model: str
    base_url: str
    seed: int
    when: str
    rows: tuple[SettingScores, ...]

    @property
    def complete(self) -> bool:
        """Whether every case has been answered in every setting."""
        return all(_complete(row) for row in self.rows)


def rows_of(settings: Iterable[tuple[EvalSetting, Sequence[CaseResult], int]]) -> tuple[SettingScores, ...]:
    """Compute the statistics of each setting from its results and its number of selected cases."""
    return tuple(SettingScores(setting, chosen, score_by_category(records)) for setting, records, chosen in settings)


def plain(report: EvalReport) -> JSONObject:
    rows = [{"label": row.setting.label, **msgspec.to_builtins(row)} for row in report.rows]
    return {**msgspec.to_builtins(report), "complete": report.complete, "rows": rows}


def markdown(report: EvalReport) -> str:
    where = f" at {report.base_url}" if report.base_url else ""
    lines = [
        f"# {cell(report.model + where)}",
        "",
        f"Suite {report.suite} ({cell(report.suite_version)}), seed {report.seed}, toolspeak {report.toolspeak}, "
        f"{report.when}.",
        "The intervals are 95% Wilson score intervals. Cases that ended in an error count as wrong.",
        "",
        "| setting | category | right | 95% interval | errors | requests | retries | tokens in / out | median s |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in report.rows:
        lines += [line(_cells(row, category, score)) for category, score in row.scores.items()]
    lines += [] if report.complete else [""]
    for row in report.rows:
        if not _complete(row):
            answered = row.scores[ALL].cases - row.scores[ALL].errors
            lines.append(f"Not finished: {cell(row.setting.label)}, {answered} of {row.chosen} cases answered.")
    return "\n".join(lines) + "\n"


def _cells(row: SettingScores, category: str, score: Score) -> tuple[str, ...]:
    label = row.setting.label if category == ALL else ""
    right, interval = f"{score.correct} of {score.cases} ({score.share:.1%})", f"{score.low:.1%} to {score.high:.1%}"
    counts = map(str, (score.errors, score.requests, score.retries))
    tokens = f"{score.input_tokens} / {score.output_tokens}"
    return (label, category, right, interval, *counts, tokens, f"{score.median_seconds:.2f}")


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _complete(row: SettingScores) -> bool:
    score = row.scores[ALL]
    return score.cases == row.chosen and not score.errors


def comparison_table(settings: Iterable[tuple[EvalSetting, Sequence[CaseResult]]], categories: Sequence[str]) -> str:
    """Render a Markdown table with a row per setting: correct cases and confidence intervals by category."""
    head = ("way", *categories, "output tokens per case", "median s")
    lines = [line(head), line(("---", *("---:" for _ in head[1:])))]
    for setting, records in settings:
        results = [record for record in records if record.category in categories]
        cells = (_right([each for each in results if each.category == name]) for name in categories)
        lines.append(line((cell(setting.way), *cells, *_costs(results))))
    return "\n".join(lines) + "\n"


def _right(records: Sequence[CaseResult]) -> str:
    if not records:
        return "not asked"
    result = compute_score(records)
    errors = f", {result.errors} errors" if result.errors else ""
    interval = f"{100 * result.low:.0f} to {100 * result.high:.0f}"
    return f"{result.correct} of {result.cases}: {result.share:.0%} ({interval}){errors}"


def _costs(records: Sequence[CaseResult]) -> tuple[str, str]:
    if not records:
        return "", ""
    result = compute_score(records)
    return f"{result.output_tokens / result.cases:.0f}", f"{result.median_seconds:.1f}"
