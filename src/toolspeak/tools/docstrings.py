"""What a function's docstring tells a model: what it does, and what each parameter means.

Google, NumPy and reST sections are read line by line, in one pass; anything else is part of the description.
"""

from __future__ import annotations

import re
from inspect import cleandoc

import msgspec

#: Sections of Google's and NumPy's style that say nothing to a model, besides those that name parameters.
_PARAMETERS = frozenset({"args", "arguments", "parameters", "params", "other parameters", "keyword args"})
_OTHERS = frozenset(
    "returns return yields yield raises raise examples example note notes warnings warning attributes "
    "references see also".split()
) | {"see also"}
_UNDERLINE = re.compile(r"-{3,}\s*")
_REST = re.compile(r":(?P<field>param|parameter|arg|argument|key|keyword)\s+(?P<rest>[^:\n]{1,200}):\s?(?P<text>.*)")
_REST_OTHER = re.compile(r":(?:returns?|rtype|raises?|type|yields?)\b")
_GOOGLE = re.compile(r"(?P<name>\*{0,2}\w{1,100})\s?(?:\([^()\n]{0,200}\))?\s?:(?:\s|$)(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w{1,100}(?:\s?,\s?\*{0,2}\w{1,100})*)(?:\s?:.*)?")


class Documentation(msgspec.Struct, frozen=True):
    """A docstring taken apart."""

    description: str
    parameters: dict[str, str]


def documentation(text: str | None) -> Documentation:
    """Take a docstring apart."""
    reader = _Reader()
    lines = cleandoc(text or "").splitlines()
    skip = False
    for at, line in enumerate(lines):
        if skip:
            skip = False
            continue
        following = lines[at + 1] if at + 1 < len(lines) else ""
        skip = reader.read(line, bool(_UNDERLINE.fullmatch(following)))
    return Documentation(
        "\n".join(reader.description).strip(), {name: " ".join(words) for name, words in reader.found.items() if words}
    )


class _Reader:
    """One pass over the lines."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self.found: dict[str, list[str]] = {}
        #: Which section a line belongs to: text, google, numpy, rest, other.
        self._section = "text"
        self._names: list[str] = []
        self._indent: int | None = None

    def read(self, line: str, underlined: bool) -> bool:
        """Take one line; whether the next one only underlines it."""
        bare = line.strip()
        if self._heading(line, bare, underlined):
            return underlined
        if self._field(line, bare):
            return False
        if self._section == "text":
            self.description.append(line)
        elif self._section in ("google", "numpy"):
            self._parameter(line, bare)
        elif self._section == "rest" and line[:1].isspace():
            self._more(bare)
        elif self._section == "rest" and bare:
            self._section = "text"
            self.description.append(line)
        return False

    def _heading(self, line: str, bare: str, underlined: bool) -> bool:
        """Whether this line opens a section; only at the margin, where sections stand."""
        if line[:1].isspace() or not bare:
            return False
        word = (bare if underlined else bare.removesuffix(":")).lower()
        if not underlined and not bare.endswith(":"):
            return False
        if word in _PARAMETERS:
            self._section = "numpy" if underlined else "google"
        elif word in _OTHERS:
            self._section = "other"
        else:
            return False
        self._names, self._indent = [], None
        return True

    def _field(self, line: str, bare: str) -> bool:
        """Whether this line is a field of reST: `:param int x: what it is`."""
        if line[:1].isspace() or not bare.startswith(":"):
            return False
        field = _REST.match(bare)
        if field:
            self._section = "rest"
            self._names = [field["rest"].split()[-1]] if field["rest"].split() else []
            self._start(field["text"].strip())
            return True
        if _REST_OTHER.match(bare):
            self._section = "other"
            return True
        return False

    def _parameter(self, line: str, bare: str) -> None:
        if not bare:
            return
        indent = len(line) - len(line.lstrip())
        if self._section == "google" and indent == 0:
            self._section = "text"
            self.description.append(line)
            return
        if self._indent is None:
            self._indent = indent
        opening = (_GOOGLE.match(bare) if self._section == "google" else _NUMPY.fullmatch(bare)) or None
        if indent > self._indent or opening is None:
            self._more(bare)
        elif self._section == "google":
            self._names = [opening["name"].lstrip("*")]
            self._start(opening["text"].strip())
        else:
            self._names = [name.strip().lstrip("*") for name in opening["names"].split(",")]
            self._start("")

    def _start(self, text: str) -> None:
        for name in self._names:
            self.found[name] = [text] if text else []

    def _more(self, text: str) -> None:
        for name in self._names:
            if text:
                self.found[name].append(text)
