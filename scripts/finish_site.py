"""Finish the built site: check that it loads nothing from other servers, and add what language models read.

That is `llms.txt`, `llms-full.txt` and the source of every page, in the order and with the titles of the navigation in
zensical.toml. `make docs` runs this after the build.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
DOCS, SITE = ROOT / "docs", ROOT / "site"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


#: A script, style sheet, picture or frame of another server. Links that a reader must click are fine.
REMOTE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel\s*=\s*["']?(?:canonical|alternate|next|prev))[^>]*\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
)


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


def remote_resources(text: str) -> list[str]:
    """What a page loads from other servers."""
    return [first or second for first, second in REMOTE.findall(text)]


def main() -> int:
    """Check the pages and write the files."""
    remote = {url for path in SITE.rglob("*.html") for url in remote_resources(path.read_text(encoding="utf-8"))}
    if remote:
        sys.stderr.write(f"the site loads from other servers: {', '.join(sorted(remote))}\n")
        return 1
    (SITE / "llms.txt").write_text(index(), encoding="utf-8")
    (SITE / "llms-full.txt").write_text(whole(), encoding="utf-8")
    for entry in entries():
        target = SITE / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DOCS / entry.path, target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
