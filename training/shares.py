"""How often each kind of group is drawn: the one place where shares are set. They add up to 100."""

from __future__ import annotations

import random
from collections.abc import Collection

__all__ = ["SHARES", "drawn"]

#: Of a hundred groups. What a set of sources cannot give is drawn as `mixed` instead.
SHARES = {
    #: One call, several of one tool, nothing that fits, something missing, results, talk.
    "mixed": 26,
    #: Two to four different tools in one request.
    "different": 15,
    #: What people ask of the product's own tools.
    "product": 12,
    #: Recorded requests with the tools that they were recorded with.
    "recorded": 14,
    #: Tasks of three rounds.
    "chain": 8,
    #: Plain text that a tool read.
    "reading": 6,
    #: Thanks and good-byes after an answer, and requests that begin with thanks.
    "closing": 4,
    #: Lists and objects that a tool gives: told in full, asked for one field, empty, errors, computed with.
    "listing": 5,
    #: Answers of other models that are turned into calls, or are not.
    "interpreting": 7,
    #: Requests of Seal-Tools as they were written.
    "labelled": 3,
}


def drawn(rng: random.Random, able: Collection[str]) -> str:
    """A kind of group; `mixed`, where it is not among those that can be had."""
    kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
    return kind if kind in able else "mixed"
