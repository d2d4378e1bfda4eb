"""Search for the tool that a misspelt name probably means. It must stay cheap, because models can invent many names."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from heapq import nlargest

from ..types import Tool

#: Longest name that is searched for or suggested: a comparison takes more than linear time.
MAX_NAME_CHARS = 64
#: Maximum number of names that a name is compared with.
MAX_NAMES = 512
#: Number of names that are compared letter by letter, which takes up to 300 microseconds each.
_FINALISTS = 4
#: Lowest similarity of a suggestion, from 0 to 1.
_MIN_RATIO = 0.6
#: Number of bits in a set of pairs of letters. It is prime, so that different pairs rarely share a bit.
_BITS = 251
_SEPARATORS = dict.fromkeys(map(ord, "-_\\"))
_BIT = tuple(1 << number for number in range(_BITS))


class SimilarNames:
    """Index of the names of a set of tools by their letters. It is computed only once per set."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        names = (tool.name for tool in tools[:MAX_NAMES] if len(tool.name) <= MAX_NAME_CHARS)
        self._by_spelling = {fold_name(name): name for name in names}
        self._pairs = {spelling: _pairs(spelling) for spelling in self._by_spelling}

    def closest(self, name: str) -> str:
        """Return the most similar name, or an empty string if none is similar."""
        spelling = fold_name(name)
        if len(name) > MAX_NAME_CHARS:
            return ""
        if spelling in self._by_spelling:
            return self._by_spelling[spelling]
        found = max(self._compare(spelling), default=(0.0, ""))
        return self._by_spelling[found[1]] if found[0] >= _MIN_RATIO else ""

    def _compare(self, spelling: str) -> Iterator[tuple[float, str]]:
        """Yield the similarity of the names that share most letters and pairs of letters with `spelling`."""
        pairs = _pairs(spelling)
        size = pairs.bit_count()

        def shared(other: str) -> float:
            theirs = self._pairs[other]
            return (pairs & theirs).bit_count() / (size + theirs.bit_count())

        matcher = SequenceMatcher()
        matcher.set_seq2(spelling)  # the sequence that the matcher indexes
        for other in nlargest(_FINALISTS, self._by_spelling, shared):
            matcher.set_seq1(other)
            yield matcher.ratio(), other


def fold_name(name: str) -> str:
    """Return the spelling of a name in which case and separators make no difference.

    Models write camel case, and escape underscores for Markdown.
    """
    return name.casefold().translate(_SEPARATORS)


def _pairs(spelling: str) -> int:
    """Return the letters and the pairs of adjacent letters of a name as a set of bits."""
    bits, before = 0, 0
    for letter in map(ord, spelling):
        bits |= _BIT[(before * 31 + letter) % _BITS]
        before = letter
    for letter in set(spelling):
        bits |= _BIT[ord(letter) % _BITS]
    return bits
