"""Whether two values of arguments mean the same, and whether an answer holds what it should. Above: `measure`, `served`."""

from __future__ import annotations

import re

from toolspeak.core.types import JSONValue


def same(one: JSONValue, other: JSONValue) -> bool:
    """Whether two values mean the same."""
    return plain(one) == plain(other)


def plain(value: JSONValue) -> JSONValue:
    """The value without what makes no difference: case, spaces, a full stop, 1 or 1.0."""
    if isinstance(value, bool):  # which Python takes for 0 and 1; no string here has a capital
        return str(value)
    if value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        return re.sub(r"\s+", " ", value.strip().strip(".").lower())
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {key: plain(each) for key, each in sorted(value.items())}


def stands(wanted: tuple[str, ...], text: str) -> bool:
    """Whether all of it stands in the text, but for case, the width of spaces, the commas of thousands and zeros around a number.

    A number stands alone: 12 is not told by 112.5.
    """
    told = _squeezed(text)
    return all(re.search(_alone(_squeezed(each)), told) for each in wanted)


def _alone(wanted: str) -> str:
    """A pattern for it that takes no digits of a longer number."""
    before = r"(?<!\d)(?<!\d\.)0*" if wanted[:1].isdigit() else ""
    zeros = "0*" if re.search(r"\.\d+$", wanted) else r"(?:\.0+)?"
    after = zeros + r"(?!\d|\.\d)" if wanted[-1:].isdigit() else ""
    return before + re.escape(wanted) + after


def _squeezed(text: str) -> str:
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})", "", text.lower()).split())
