"""A report as a picture: one bar a category for each setting, with its 95 % interval. Plain SVG, written by hand.

Pure. The colours hold on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from ..core.text import printable
from .report import Report, Row
from .statistics import ALL, Score

# Pixels.
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 170, 130, 64, 34
_BAR, _STEP, _HEADING, _GAP = 14, 22, 26, 10
_PLOT = _WIDTH - _LEFT - _RIGHT
_INK, _GRID, _WHOLE, _PART, _WHISKER = "#222222", "#d5d5d5", "#2f6db5", "#8fb6de", "#b3541e"
#: Characters of a name that fit where it stands.
_MOST_LEFT, _MOST_TITLE = 24, 90


def chart(report: Report) -> str:
    """The picture."""
    height = _TOP + _BOTTOM + sum(_HEADING + _GAP + _STEP * len(row.scores) for row in report.rows)
    title = f"{report.model}, {report.suite} {report.suite_version}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="12" fill="{_INK}">',
        f"<title>{_text(title, _MOST_TITLE)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{_text(title, _MOST_TITLE)}</text>',
        '<text x="16" y="42">Share of right answers, with 95 % Wilson intervals</text>',
        *_grid(height),
    ]
    y = _TOP
    for row in report.rows:
        parts += _block(row, y)
        y += _HEADING + _GAP + _STEP * len(row.scores)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(height: int) -> Iterator[str]:
    """A line for every fifth."""
    for percent in range(0, 101, 20):
        x = _at(percent / 100)
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{height - _BOTTOM}" stroke="{_GRID}"/>'
        yield f'<text x="{x}" y="{height - _BOTTOM + 16}" text-anchor="middle">{percent} %</text>'


def _block(row: Row, y: int) -> Iterator[str]:
    yield f'<text x="16" y="{y + 18}" font-weight="bold">{_text(row.setting.label, _MOST_TITLE)}</text>'
    for at, (category, score) in enumerate(row.scores.items()):
        yield from _bar(category, score, y + _HEADING + _STEP * at)


def _bar(category: str, score: Score, y: int) -> Iterator[str]:
    middle = y + _BAR // 2
    colour = _WHOLE if category == ALL else _PART
    end, low, high = _at(score.share), _at(score.low), _at(score.high)
    yield f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{_text(category, _MOST_LEFT)}</text>'
    yield f'<rect x="{_LEFT}" y="{y}" width="{round(end - _LEFT, 1)}" height="{_BAR}" fill="{colour}"/>'
    whisker = f"M{low} {middle}H{high}M{low} {middle - 4}V{middle + 4}M{high} {middle - 4}V{middle + 4}"
    yield f'<path d="{whisker}" stroke="{_WHISKER}" stroke-width="1.5" fill="none"/>'
    told = f"{score.share:.0%} ({score.correct} of {score.cases})"
    yield f'<text x="{_LEFT + _PLOT + 10}" y="{middle + 4}">{told}</text>'


def _at(share: float) -> float:
    return round(_LEFT + _PLOT * share, 1)


def _text(text: str, most: int) -> str:
    """A text that is safe in XML, which has no place for most control characters, and fits."""
    shown = printable(text, " ")
    return escape(shown if len(shown) <= most else f"{shown[: most - 1]}…")
