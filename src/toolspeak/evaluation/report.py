"""Reports of an evaluation: JSON, Markdown tables, and an SVG chart with 95 % confidence intervals. No I/O."""

from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from ..core.text import printable
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
        "The intervals are 95 % Wilson score intervals. Cases that ended in an error count as wrong.",
        "",
        "| setting | category | right | 95 % interval | errors | requests | retries | tokens in / out | median s |",
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


# ---- chart (the colours suit light and dark pages)

# Sizes in pixels.
_WIDTH, _MARGIN, _RIGHT, _TOP, _BOTTOM = 760, 170, 130, 64, 34
_BAR, _STEP, _HEADING, _GAP = 14, 22, 26, 10
_PLOT = _WIDTH - _MARGIN - _RIGHT
_INK, _GRID, _WHOLE, _PART, _WHISKER = "#222222", "#d5d5d5", "#2f6db5", "#8fb6de", "#b3541e"
_MAX_NAME_CHARS, _MAX_TITLE_CHARS = 24, 90  # number of characters that fit in a label and in the title


def chart(report: EvalReport) -> str:
    """Render the report as an SVG bar chart with one bar per category and setting."""
    height = _TOP + _BOTTOM + sum(_HEADING + _GAP + _STEP * len(row.scores) for row in report.rows)
    title = f"{report.model}, {report.suite} {report.suite_version}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="12" fill="{_INK}">',
        f"<title>{_text(title, _MAX_TITLE_CHARS)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{_text(title, _MAX_TITLE_CHARS)}</text>',
        '<text x="16" y="42">Share of right answers, with 95 % Wilson intervals</text>',
        *_grid(height),
    ]
    y = _TOP
    for row in report.rows:
        parts += _block(row, y)
        y += _HEADING + _GAP + _STEP * len(row.scores)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(height: int) -> Iterator[str]:
    for percent in range(0, 101, 20):
        x = _at(percent / 100)
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{height - _BOTTOM}" stroke="{_GRID}"/>'
        yield f'<text x="{x}" y="{height - _BOTTOM + 16}" text-anchor="middle">{percent} %</text>'


def _block(row: SettingScores, y: int) -> Iterator[str]:
    yield f'<text x="16" y="{y + 18}" font-weight="bold">{_text(row.setting.label, _MAX_TITLE_CHARS)}</text>'
    for at, (category, score) in enumerate(row.scores.items()):
        yield from _bar(category, score, y + _HEADING + _STEP * at)


def _bar(category: str, score: Score, y: int) -> Iterator[str]:
    middle = y + _BAR // 2
    colour = _WHOLE if category == ALL else _PART
    end, low, high = _at(score.share), _at(score.low), _at(score.high)
    yield f'<text x="{_MARGIN - 8}" y="{middle + 4}" text-anchor="end">{_text(category, _MAX_NAME_CHARS)}</text>'
    yield f'<rect x="{_MARGIN}" y="{y}" width="{round(end - _MARGIN, 1)}" height="{_BAR}" fill="{colour}"/>'
    whisker = f"M{low} {middle}H{high}M{low} {middle - 4}V{middle + 4}M{high} {middle - 4}V{middle + 4}"
    yield f'<path d="{whisker}" stroke="{_WHISKER}" stroke-width="1.5" fill="none"/>'
    label = f"{score.share:.0%} ({score.correct} of {score.cases})"
    yield f'<text x="{_MARGIN + _PLOT + 10}" y="{middle + 4}">{label}</text>'


def _at(share: float) -> float:
    return round(_MARGIN + _PLOT * share, 1)


def _text(text: str, most: int) -> str:
    """Truncate text and escape it for XML; control characters become spaces."""
    clean = printable(text, " ")
    return escape(clean if len(clean) <= most else f"{clean[: most - 1]}…")
