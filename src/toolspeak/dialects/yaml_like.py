"""The little of YAML that models use for arguments: nested mappings, lists, block text, plain scalars.

Not a YAML reader: no anchors, no tags, no documents, nothing that could surprise. Anything else makes the
whole text not a mapping. Linear.
"""

from __future__ import annotations

import re

from ..core.json_repair.containers import Allowance
from ..core.json_repair.whole_text import read_value
from ..core.types import JSONObject, JSONValue, is_object

_MAX_LINES = 20_000
_MAX_DEPTH = 32
_KEY = re.compile(r"""(?:"([^"]{1,128})"|'([^']{1,128})'|([A-Za-z_][\w.-]{0,127}))[ \t]*:(?:[ \t]+(.*))?$""").match
#: Words that are no text.
_WORDS = frozenset({"true", "false", "null"})
_BLOCKS = {"|": "\n", "|-": "\n", "|+": "\n", ">": " ", ">-": " ", ">+": " "}


def read_yaml(text: str, allowance: Allowance | None = None) -> JSONObject | None:
    """The mapping in `text`, or None when it is not one."""
    lines = text.strip("\n").rstrip().split("\n")
    if not lines or len(lines) > _MAX_LINES:
        return None
    reader = _Lines(lines, allowance)
    reader.skip_blank()
    try:
        value = reader.block(reader.indent(), 0)
    except _NotYaml:
        return None
    reader.skip_blank()
    return value if is_object(value) and reader.at_end() else None


class _NotYaml(Exception):
    """The text is something else."""


class _Lines:
    def __init__(self, lines: list[str], allowance: Allowance | None) -> None:
        self._lines = lines
        self._allowance = allowance
        self._at = 0

    def at_end(self) -> bool:
        return self._at >= len(self._lines)

    def skip_blank(self) -> None:
        while not self.at_end() and not self._lines[self._at].strip():
            self._at += 1

    def indent(self) -> int:
        line = self._lines[self._at] if not self.at_end() else ""
        return len(line) - len(line.lstrip(" "))

    def block(self, indent: int, depth: int) -> JSONValue:
        """A mapping or a list whose lines begin at `indent`."""
        if self.at_end() or depth > _MAX_DEPTH:
            raise _NotYaml
        if self._lines[self._at].lstrip().startswith("- "):
            return self._list(indent, depth)
        return self._mapping(indent, depth)

    def _mapping(self, indent: int, depth: int) -> JSONObject:
        found: JSONObject = {}
        while not self.at_end() and self.indent() == indent:
            match = _KEY(self._lines[self._at].strip())
            if match is None:
                raise _NotYaml
            key = match.group(1) or match.group(2) or match.group(3)
            if key in found:
                raise _NotYaml
            self._at += 1
            found[key] = self._value((match.group(4) or "").strip(), indent, depth)
            self.skip_blank()
        if not self.at_end() and self.indent() > indent:
            raise _NotYaml
        return found

    def _list(self, indent: int, depth: int) -> list[JSONValue]:
        found: list[JSONValue] = []
        while not self.at_end() and self.indent() == indent:
            line = self._lines[self._at].strip()
            if not line.startswith("- "):
                break
            inner = line[2:].strip()
            if _KEY(inner) is not None and inner[:1] not in "\"'":
                self._lines[self._at] = " " * (indent + 2) + inner
                found.append(self._mapping(indent + 2, depth + 1))
            else:
                self._at += 1
                found.append(_scalar(inner, self._allowance))
            self.skip_blank()
        return found

    def _value(self, text: str, indent: int, depth: int) -> JSONValue:
        if text in _BLOCKS:
            return self._block_text(text, indent)
        if text:
            return _scalar(text, self._allowance)
        self.skip_blank()
        if self.at_end() or self.indent() < indent:
            return None
        deeper = self.indent() > indent
        if deeper or self._lines[self._at].lstrip().startswith("- "):
            return self.block(self.indent(), depth + 1)
        return None

    def _block_text(self, style: str, indent: int) -> str:
        start = self._at
        while not self.at_end() and (not self._lines[self._at].strip() or self.indent() > indent):
            self._at += 1
        lines = self._lines[start : self._at]
        used = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
        cut = min(used, default=0)
        text = _BLOCKS[style].join(line[cut:] for line in lines).rstrip("\n")
        return text if style.endswith("-") or not lines else text + "\n"


def _scalar(text: str, allowance: Allowance | None) -> JSONValue:
    flow = text[0] in "[{"
    if flow and text[-1] not in "]}":
        raise _NotYaml
    if text == "~":
        return None
    if not flow and text[0] not in "\"'-." and not text[0].isdigit() and text.lower() not in _WORDS:
        return text
    read = read_value(text, allowance=allowance)
    whole = read.status == "complete" and not text[read.end :].strip()
    bare = any(note.code == "unquoted_value" for note in read.notes) and not flow
    return read.value if whole and not bare else text
