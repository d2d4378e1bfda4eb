"""Where in the text between two tags one must look: at a tag that may mean something here, and at little else.

A value may be a page of HTML or source code, full of tags and brackets that mean nothing. Which names of opening
tags do is known, so the patterns hold them, letter by letter; a closing tag may also be that of the value itself,
so its name is caught and looked up. What the text ends with counts if it may still become something.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.parsing.fast_paths import Search
from ..core.parsing.tags import NAMESPACES, fold_name
from .tag_names import CALL_ENDS, CALL_TAGS, CDATA, PARAMETER_TAGS

#: Tags of other names mean nothing in a value, unless one closes it.
_MEANT = PARAMETER_TAGS | CALL_ENDS | {"arg_key"}
_PREFIXES = frozenset(prefix for prefix in NAMESPACES if prefix[0] != "|")
#: What such names begin with.
_BEGINNINGS = frozenset(name[:size] for name in _MEANT | _PREFIXES for size in range(1, len(name) + 1))

#: What is no part of a name, and ends it. The end is only looked at: a pattern that reaches the end of the text
#: needs more of it.
_NO_NAME = r"\s<>=/\"'“”{}()\[\],"
_NAME_END = f"(?=[{_NO_NAME}])"
#: The tag of a call that names none is a mention, which means nothing.
_CALL_END = rf"(?!\s{{0,16}}+>){_NAME_END}"
_SPELLINGS = {"_": "[_▁]"}


def _names(follows: dict[str, str]) -> str:
    """A pattern of these names, each with what must follow it, and of what they begin with at the end of the text."""
    if follows.get("") == "":
        return ""
    branches = [r"\Z", *([follows[""]] if "" in follows else [])]
    for char in sorted({name[0] for name in follows if name}):
        behind = {name[1:]: follow for name, follow in follows.items() if name.startswith(char)}
        branches.append(_SPELLINGS.get(char, re.escape(char)) + _names(behind))
    return f"(?:{'|'.join(branches)})"


#: Names between bars, of which any number is one: Kimi K3's marks, and DeepSeek's prefix.
_BARRED = rf"[|｜]{{1,64}}+{_names(dict.fromkeys(('open', 'close', 'DSML'), ''))}"
_OPENERS = dict.fromkeys(_MEANT, _NAME_END) | dict.fromkeys(CALL_TAGS, _CALL_END)
_ANYTHING_BEHIND = dict.fromkeys((*_PREFIXES, CDATA[1:]), "")
#: Behind the bracket of a tag: a name that means something, CDATA, or a closing tag, whose name is caught.
_TAG = (
    rf"(?:{_BARRED}|{_names(_OPENERS | _ANYTHING_BEHIND)}"
    rf"|/\s{{0,8}}+(?:\Z|{_BARRED}|([^|｜{_NO_NAME}][^{_NO_NAME}]*+)))"
)
#: The beginning of an entity, and MiniMax's noise.
_OTHERS = r"&#?\w{0,8}+\Z|\](?:\Z|<(?:\Z|\]))"
#: Spaces at the start of a line, and a tag behind them.
_INDENTED = rf"[ \t]{{0,{LOOKAHEAD - 1}}}+(?:\Z|<{_TAG})"
#: Each alternative begins with a character of its own, or the pattern with a set of them, for the sake of speed.
_PATTERNS = {
    "held": rf"[<\ud800-\udfff](?:(?<=<){_TAG}|(?<!<))",
    "inline": rf"<{_TAG}|{_OTHERS}",
    "lines": rf"<{_TAG}|{_OTHERS}|\n{_INDENTED}|\r(?:\Z|\n{_INDENTED})",
}
#: So many different names in one value are remembered; a text with more is made up.
_MAX_PASSED = 1024


@cache
def _pattern(kind: str) -> Search:
    """Made when it is first needed: it takes some time."""
    return re.compile(_PATTERNS[kind]).search


class Stops:
    """Finds where a value must be looked at. `held`: one that is read as a whole when it has ended; `inline`: one that
    flows on the line of its tags; `lines`: one on lines of its own, whose last line break is not part of it.

    `own` are the names of the tags of the value and of its call. What is found at the end of the text needs more of it.
    """

    def __init__(self, kind: Literal["held", "inline", "lines"], *own: str) -> None:
        self.pattern = _pattern(kind)  # finds every closing tag, too
        self._own = tuple(filter(None, own))
        self._passed: set[str] = set()  # names of closing tags that mean nothing here: they come again and again
        self._begun: set[str] = set()  # and what no name that means something begins with

    def search(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """The next place at or behind `pos` that must be looked at."""
        found = self.pattern(text, pos)
        return found if found is None or found.lastindex is None else self.resolve(text, found)

    def resolve(self, text: str, found: re.Match[str] | None) -> re.Match[str] | None:
        """What was found, or what comes behind it: closing tags that mean nothing here are passed by."""
        while found is not None and found.lastindex is not None:
            passed = self._passed if found.end() < len(text) else self._begun
            name: str = found[found.lastindex]
            if name not in passed and self._means(name, passed):
                return found
            found = self.pattern(text, found.start(found.lastindex))  # an entity may stand in the name
        return found

    def _means(self, written: str, passed: set[str]) -> bool:
        name = fold_name(written)
        if passed is self._begun:
            means = name in _BEGINNINGS or any(own.startswith(name) for own in self._own)
        else:
            means = name in _MEANT or name in self._own
        if not means and len(passed) < _MAX_PASSED:
            passed.add(written)
        return means
