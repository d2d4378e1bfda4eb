"""Write what language models read into the built site: `llms.txt`, `llms-full.txt` and the source of every page.

`make docs` runs it after the build. The order and the titles are those of the navigation in zensical.toml.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
DOCS, SITE = ROOT / "docs", ROOT / "site"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


class Entry(NamedTuple):
    """A page of the navigation."""

    section: str
    title: str
    path: str


def entries(items: list[dict[str, Any]] | None = None, section: str = "") -> Iterator[Entry]:
    """The pages of the navigation in order, each with the section at the top that it belongs to."""
    for item in PROJECT["nav"] if items is None else items:
        for title, target in item.items():
            if isinstance(target, list):
                yield from entries(target, section or title)
            elif "://" not in target:
                yield Entry(section, title, target)


def index() -> str:
    """The list of all pages."""
    lines = [f"# {PROJECT['site_name']}", "", f"> {PROJECT['site_description']}"]
    section = ""
    for entry in entries():
        if entry.section != section:
            section = entry.section
            lines += ["", f"## {section}", ""]
        elif not section:
            lines.append("")
        lines.append(f"- [{entry.title}]({entry.path})")
    return "\n".join(lines) + "\n"


def whole() -> str:
    """All pages in one text."""
    pages = [f"<!-- {entry.path} -->\n\n{(DOCS / entry.path).read_text(encoding='utf-8')}" for entry in entries()]
    return "\n\n".join(pages)


def main() -> None:
    """Write the files."""
    (SITE / "llms.txt").write_text(index(), encoding="utf-8")
    (SITE / "llms-full.txt").write_text(whole(), encoding="utf-8")
    for entry in entries():
        target = SITE / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DOCS / entry.path, target)


if __name__ == "__main__":
    main()
