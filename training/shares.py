"""How often each kind of group is drawn: the one place where shares are set. They add up to 100."""

from __future__ import annotations

import random
from collections.abc import Collection

__all__ = ["SHARES", "drawn"]

#: Of a hundred groups. What a set of sources cannot give is drawn as `mixed` instead.
SHARES = {
    #: One call, several of one tool, nothing that fits, something missing, results, talk.
    "mixed": 30,
    #: Two to four different tools in one request.
    "different": 16,
    #: Recorded requests with the tools that they were recorded with.
    "recorded": 16,
    #: Tasks of three rounds.
    "chain": 10,
    #: Plain text that a tool read.
    "reading": 7,
    #: Thanks and good-byes after an answer, and requests that begin with thanks.
    "closing": 4,
    #: Lists and objects that a tool gives: told in full, asked for one field, empty, errors, computed with.
    "listing": 5,
    #: Answers of other models that are turned into calls, or are not.
    "interpreting": 8,
    #: Requests of Seal-Tools as they were written.
    "labelled": 4,
}


def drawn(rng: random.Random, able: Collection[str]) -> str:
    """A kind of group; `mixed`, where it is not among those that can be had."""
    kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
    return kind if kind in able else "mixed"
