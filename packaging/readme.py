"""The README as package indexes show it: its links, relative in the repository, lead to the repository.

Hatchling loads this file when it builds a distribution (`[tool.hatch.metadata.hooks.custom]` in pyproject.toml).
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link or a picture whose target is a file of the repository.
RELATIVE = re.compile(r"(!?)(\[[^\]\n]*\])\((?!https?:|#)([^)\s]+)\)")


def absolute(text: str, repository: str) -> str:
    """Return the text with links to the pages of a repository, and pictures from its files."""

    def link(match: re.Match[str]) -> str:
        picture, words, path = match.groups()
        return f"{picture}{words}({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return RELATIVE.sub(link, text)


class Readme(MetadataHookInterface):
    """Adds the README to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, metadata["urls"]["Source"])}
