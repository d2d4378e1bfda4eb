"""What a probe finds out, as it is kept and shown. How it is found out is `probing`."""

from __future__ import annotations

import msgspec

from ...core.types import JSONObject, Usage

#: Grows when the battery changes so much that older verdicts do not count any more.
VERSION = 1


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found out, for people."""

    trait: str
    value: str
    #: What says so.
    evidence: str = ""


class Spoken(msgspec.Struct, frozen=True):
    """How well a dialect is spoken."""

    dialect: str
    won: int
    tried: int
    #: Answers whose calls carried their mark, and answers whose calls were written in this dialect.
    marked: int = 0
    own: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """What a probe found out."""

    #: Fields of a profile: only what was measured.
    fields: JSONObject = {}
    findings: tuple[Finding, ...] = ()
    #: The best first.
    dialects: tuple[Spoken, ...] = ()
    requests: int = 0
    usage: Usage = Usage()
    #: Why nothing could be found out; empty when something was.
    unreachable: str = ""
    version: int = VERSION
