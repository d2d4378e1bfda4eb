"""Ids that nobody can guess, drawn from the system many at a time.

Each has 128 random bits of its own, used once: asking the system for every single one takes longer than all else that
is done with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

#: Bytes of one id, and ids that are drawn at a time.
_SIZE, _DRAWN = 16, 64


def _ids() -> Iterator[str]:
    while True:
        drawn, owner = os.urandom(_SIZE * _DRAWN), os.getpid()
        for at in range(0, len(drawn), _SIZE):
            if os.getpid() != owner:  # a child of who has drawn them: they are not its own
                break
            yield drawn[at : at + _SIZE].hex()


_drawn = _ids()


def new_id() -> str:
    """An id: 32 hexadecimal digits."""
    return next(_drawn)
