"""Write the tables of dialects into README.md and docs/dialects.md, between their marks.

`python scripts/dialect_table.py` rewrites the files, `--check` only says whether they are current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from toolspeak import ToolCall, render_calls
from toolspeak.dialects.table import DIALECTS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- dialects -->", "<!-- /dialects -->"
SAMPLE = ToolCall("get_weather", {"city": "Paris", "days": 2})


def short_table() -> str:
    """Names and families."""
    rows = [f"| `{row.name}` | {row.families} |" for row in DIALECTS.values()]
    return "\n".join(["| dialect | spoken by |", "|---|---|", *rows])


def long_table() -> str:
    """The same with a call in each."""
    parts: list[str] = []
    for row in DIALECTS.values():
        parts.append(f"### `{row.name}`\n\n{row.families[0].upper()}{row.families[1:]}.\n")
        parts.append(f"````text\n{render_calls(row.name, [SAMPLE])}\n````\n")
    return "\n".join(parts)


def filled(path: Path, table: str) -> str:
    """The file with the table between its marks."""
    head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table.strip()}\n\n{END}{tail}"


FILES = {ROOT / "README.md": short_table, ROOT / "docs" / "dialects.md": long_table}


def main() -> int:
    """Rewrite or check."""
    stale = [path for path, table in FILES.items() if path.read_text(encoding="utf-8") != filled(path, table())]
    if "--check" in sys.argv:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale: run `make docs`\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(filled(path, FILES[path]()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
