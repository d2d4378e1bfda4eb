"""The result of a probe, as stored and displayed."""

import msgspec

from ...core.types import JSONObject, Usage

#: Version of stored results. Increase it when a change to the probe makes them invalid.
VERSION = 1


class ProbeFinding(msgspec.Struct, frozen=True):
    """One finding of a probe, for display."""

    trait: str
    value: str
    evidence: str = ""


class DialectScore(msgspec.Struct, frozen=True):
    """How well a model writes a dialect."""

    dialect: str
    won: int
    tried: int
    #: Number of answers whose calls carried the nonce, and whose calls were in the requested dialect.
    marked: int = 0
    own: int = 0


class ProbeResult(msgspec.Struct, frozen=True):
    """The result of a probe."""

    #: Profile fields that were measured.
    fields: JSONObject = {}
    findings: tuple[ProbeFinding, ...] = ()
    #: Scores of the dialects, best first.
    dialects: tuple[DialectScore, ...] = ()
    requests: int = 0
    usage: Usage = Usage()
    #: The reason why the model could not be probed; empty on success.
    unreachable: str = ""
    version: int = VERSION
