"""Where in a text a mark may begin: one pattern, so that everything else is passed over in one step.

It may say yes too often, for the table looks again, but never no: a place where a mark begins, or where one
may have begun when the text ends, is always found. Each alternative looks a bounded way ahead and never over
the same text twice. Only patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

#: What may follow the first character of a mark. A bare object is `{`, a key and its colon; a bare list is `[` and such
#: an object, or a Python call. Both count only behind white space; right behind a call the scanner looks itself.
#: `>>>` is a mark only with a name, and perhaps a nonce, behind it that end their line;
#: in a longer row of brackets it is the last three.
_KEY = r"\s{0,64}+(?:\Z|[\"'“”]?+(?:\Z|[A-Za-z_]{1,16}+[\"'“”]?+\s{0,16}+(?:\Z|[:=])))"
_REST = {
    "<": r"(?:[/A-Za-z_|｜]|\Z|!(?:--|-?\Z))",
    "`": r"(?:``|`?\Z)",
    "{": rf"(?:(?<=\s.)|(?<=\A.)){_KEY}",
    "[": rf"(?:(?<=\s.)|(?<=\A.))\s{{0,64}}+(?:\Z|\{{{_KEY}|[A-Za-z_][\w.-]{{0,127}}+(?:\Z|\())",
    ">": r"(?:>?\Z|>>(?!>)(?:\S{1,48}+ ){0,2}+\S{0,128}+(?:\n|\Z))",
}
#: Nothing but calls begins so, unless it is a literal mark.
_ONLY_CALLS = frozenset("{[>")
_TILDES = r"~(?:~~|~?\Z)"
#: A word at the start of a line that its arguments follow. Whether it names a tool is for the table to say.
_CALL = r"[A-Za-z_$][\w$.:-]{0,199}+[\t ]{0,8}+(?:\Z|\(|\{|\[(?:\Z|A)|:?\s{0,8}+(?:\Z|[{<]))"
_INDENT = r"[ \t\r\u00a0]*+"


def _by_first(marks: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for mark in marks:
        found.setdefault(mark[0], set()).add(mark[1:])
    return found


def _rest(rests: set[str]) -> str:
    """One of these texts, or the beginning of one that the whole text ends with."""
    if "" in rests:
        return ""
    branches = (re.escape(char) + _rest(behind) for char, behind in sorted(_by_first(rests).items()))
    return rf"(?:\Z|{'|'.join(branches)})"


def place_finder(
    literals: Iterable[str], words: Iterable[str], calls: bool = True
) -> Callable[[str, int], re.Match[str] | None]:
    """The search for the next place where a mark may begin; without `calls`, one that matters where none are read.

    `literals` count anywhere, `words` only at the start of a line. A line break is such a place only if the line
    behind it may begin with a mark.
    """
    own = {char: rest for char, rest in _REST.items() if calls or char not in _ONLY_CALLS}
    marks = [*own.items(), *((char, _rest(behind)) for char, behind in _by_first(literals).items())]
    calling = (_CALL,) if calls else ()
    line = "|".join((*(re.escape(char) + rest for char, rest in marks), _TILDES, *calling, _rest(set(words))))
    # The pattern begins with a set of characters, so that the search runs at full speed between them.
    firsts = "".join(re.escape(char) for char, _ in marks)
    each = "|".join(rf"(?<={re.escape(char)}){rest}" for char, rest in marks)
    return re.compile(rf"[\n{firsts}](?:(?<=\n)(?={_INDENT}(?:{line}))|{each})").search
