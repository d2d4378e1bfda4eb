"""Write the tables that are made from data into the documentation, between their marks.

The dialects come from their table, the delays of streaming from a measurement. (`make test-clients` writes the table of
docs/clients.md.)
`python scripts/tables.py` rewrites the files, `--check` only says whether they are current.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from toolspeak import ToolCall, render_calls
from toolspeak.dialects.registry import DIALECTS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SAMPLE = ToolCall("get_weather", {"city": "Paris", "days": 2})


def short_table() -> str:
    """Names and families, with links to what the dialects look like."""
    rows = [f"| [`{row.name}`](#{row.name}) | {row.families} |" for row in DIALECTS.values()]
    return "\n".join(["| dialect | spoken by |", "|---|---|", *rows])


def long_table() -> str:
    """The same with a call in each."""
    parts: list[str] = []
    for row in DIALECTS.values():
        parts.append(f"### `{row.name}`\n\n{row.families[0].upper()}{row.families[1:]}.\n")
        parts.append(f"````text\n{render_calls(row.name, [SAMPLE])}\n````\n")
    return "\n".join(parts)


def streaming_table() -> str:
    """How soon calls are emitted, as measured now."""
    return runpy.run_path(str(ROOT / "scripts" / "streaming_delays.py"))["streaming_table"]()


def _parts(text: str, mark: str) -> tuple[str, str, str]:
    """What stands before, between and behind the marks."""
    head, _, rest = text.partition(f"<!-- {mark} -->")
    body, _, tail = rest.partition(f"<!-- /{mark} -->")
    return head, body, tail


class Place(NamedTuple):
    """Where a table goes."""

    path: Path
    mark: str
    table: Callable[[], str]

    def filled(self) -> str:
        """The file with the table between its marks."""
        head, _, tail = _parts(self.path.read_text(encoding="utf-8"), self.mark)
        return f"{head}<!-- {self.mark} -->\n\n{self.table().strip()}\n\n<!-- /{self.mark} -->{tail}"

    def stale(self) -> bool:
        """Whether the file holds another table."""
        return self.path.read_text(encoding="utf-8") != self.filled()


PLACES = (
    Place(DOCS / "dialects.md", "names", short_table),
    Place(DOCS / "dialects.md", "dialects", long_table),
    Place(DOCS / "parsing.md", "streaming", streaming_table),
)


def main() -> int:
    """Rewrite or check."""
    stale = [place for place in PLACES if place.stale()]
    for place in stale:
        if "--check" in sys.argv:
            sys.stderr.write(f"{place.path.relative_to(ROOT)} is stale: run `make docs`\n")
        else:
            place.path.write_text(place.filled(), encoding="utf-8")  # read again: another table of it may be new
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
