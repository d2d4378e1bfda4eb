"""The table of docs/clients.md: a row for each task, written between two marks. Rows of other tasks stay.

Above: `run`. Below: the standard library.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "clients.md"
BEGIN, END = "<!-- clients -->", "<!-- /clients -->"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    client: str
    version: str
    date: str
    protocol: str
    task: str
    #: `passed`, `failed` or `could not run`.
    result: str
    reason: str = ""

    @property
    def line(self) -> str:
        """As Markdown."""
        *cells, result, reason = astuple(self)
        return _line([*cells, f"{result}: {reason}" if reason else result])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(lines: list[str]) -> str:
    """The whole table."""
    names = [field.name for field in fields(Row)][:-1]
    return "\n".join([_line(names), "|" + "---|" * len(names), *lines])


def merged(page: str, rows: list[Row], order: list[str]) -> str:
    """The page with the new rows in place of the old ones of the same clients, in the order of `order`."""
    head, _, rest = page.partition(BEGIN)
    old, _, tail = rest.partition(END)
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines() if line.startswith("| ")}
    lines |= {row.client: row.line for row in rows}
    return f"{head}{BEGIN}\n\n{table([lines[name] for name in order if name in lines])}\n\n{END}{tail}"


def write(rows: list[Row]) -> None:
    """Put the rows into the page."""
    from tests.real_clients.tasks import TASKS

    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(merged(page, rows, [task.title for task in TASKS]), encoding="utf-8")
