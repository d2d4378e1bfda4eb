"""Recognise the error with which an upstream says that a request is longer than the model's context window.

Every service words this differently. The texts are untrusted: they change how much is sent, and nothing else.
"""

import re
from collections.abc import Iterable

import msgspec

from ...core.events import Failure
from .. import read_toml

#: Statuses of such errors. 0 and 200: an error without a status, or inside a stream. 429 is left out, because a rate
#: limit passes by itself.
_STATUSES = frozenset({0, 200, 400, 413, 422, 500})
#: "Content too large": the status alone says enough.
_TOO_LARGE = 413
#: Characters of an error that are searched.
_MAX_CHARS = 4000
#: Numbers outside this range are not the size of a window.
_MIN_WINDOW, _MAX_WINDOW = 64, 100_000_000

_NUMBER = r"([0-9][0-9,]{0,11})"


class _Wordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How services word such errors. `complaints.toml` explains the fields."""

    rate_limit: str
    too_long: tuple[str, ...]
    window: tuple[str, ...]
    used: tuple[str, ...]


_WORDINGS = read_toml("context/complaints.toml", _Wordings)
_RATE_LIMIT = re.compile(_WORDINGS.rate_limit)
_TOO_LONG = re.compile("|".join(_WORDINGS.too_long))
_WINDOW, _USED = (
    tuple(re.compile(wording.replace("N", _NUMBER)) for wording in wordings)
    for wordings in (_WORDINGS.window, _WORDINGS.used)
)


class ContextComplaint(msgspec.Struct, frozen=True):
    """What an upstream said about a request that is too long, in tokens. 0 means that it did not say."""

    window: int = 0
    used: int = 0


def context_complaint(failure: Failure | None) -> ContextComplaint | None:
    """Return what a failure says about the context window; None if it has another cause."""
    if failure is None or failure.status not in _STATUSES:
        return None
    words = (failure.code, failure.error_type, failure.message, failure.body)
    text = " ".join(words)[:_MAX_CHARS].lower()
    if _RATE_LIMIT.search(text) is not None:
        return None
    if _TOO_LONG.search(text) is None:
        return ContextComplaint() if failure.status == _TOO_LARGE else None
    window = _first_number(_WINDOW, text)
    return ContextComplaint(window if _MIN_WINDOW <= window <= _MAX_WINDOW else 0, _first_number(_USED, text))


def _first_number(patterns: Iterable[re.Pattern[str]], text: str) -> int:
    for pattern in patterns:
        if (match := pattern.search(text)) is not None:
            return int(match[1].replace(",", ""))
    return 0
