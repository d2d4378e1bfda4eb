"""What a benchmark asks for and what it reached: the same rows for every benchmark that has goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

__all__ = ["Outcome", "as_json", "from_json", "print_table", "table"]


class Outcome(msgspec.Struct, frozen=True):
    """One figure of a run beside its goal."""

    name: str
    value: float
    goal: float
    unit: str = ""
    #: Whether the goal is the least that is asked for; else it is the most.
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def cells(self) -> tuple[str, str, str, str]:
        """Name, what was asked, what was reached, and the verdict."""
        unit = f" {self.unit}" if self.unit else ""
        asked = f"{'≥' if self.at_least else '≤'} {self.goal:,g}{unit}"
        return self.name, asked, f"{number(self.value)}{unit}", "reached" if self.reached else "missed"


def number(value: float) -> str:
    """A figure with about three digits."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join((lines[0], "|---" * len(head) + "|", *lines[1:]))


def goals_table(outcomes: Iterable[Outcome]) -> str:
    return table(("goal", "asked", "reached", ""), [outcome.cells() for outcome in outcomes])


def print_table(outcomes: Iterable[Outcome]) -> None:
    print(goals_table(outcomes))


def as_json(outcomes: Sequence[Outcome]) -> str:
    return msgspec.json.encode(outcomes).decode()


def from_json(text: str) -> list[Outcome]:
    return msgspec.json.decode(text, type=list[Outcome])
