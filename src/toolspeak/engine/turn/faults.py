"""The names of what can be wrong with an answer. What each means, and what to do about it, is `recovery`.

Apart from that, since every record of a turn names them and few turns have one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

FaultKind = Literal[
    "refusal",
    "described",
    "permission",
    "bad_arguments",
    "unknown_tool",
    "truncated",
    "in_reasoning",
    "no_call",
    "too_many",
    "bad_format",
    "empty",
]


class Fault(msgspec.Struct, frozen=True):
    """Why an answer will not do."""

    kind: FaultKind
    #: What to tell the model, and whoever asks why there was no call.
    detail: str = ""
    #: The tool that it is about.
    name: str = ""
