"""Fault types, and human-readable explanations of faults and rejected calls.

Kept separate from `diagnosis`, which finds faults: every trace needs these types, but few turns need a diagnosis.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from .. import read_toml

FaultKind = Literal[
    "refusal",
    "described",
    "permission",
    "bad_arguments",
    "unknown_tool",
    "truncated",
    "in_reasoning",
    "unmarked",
    "no_call",
    "too_many",
    "bad_format",
    "empty",
]


class Fault(msgspec.Struct, frozen=True):
    """The reason why an answer was not accepted."""

    kind: FaultKind
    #: Shown to the model in the retry prompt and to people in explanations.
    detail: str = ""
    #: The name of the tool, if the fault concerns one.
    name: str = ""


class _Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words for faults and rejected calls. `fault_texts.toml` explains the fields."""

    reasons: dict[str, str]
    faults: dict[FaultKind, str]
    closing_sentences: dict[FaultKind, str]


_TEXTS = read_toml("turn/fault_texts.toml", _Texts)
#: Why a candidate was or was not accepted as a call, by reason code.
REASON_TEXTS: Mapping[str, str] = _TEXTS.reasons
FAULT_TEXTS: Mapping[FaultKind, str] = _TEXTS.faults
#: Why the model is asked again, by the code of the note that says so.
RETRY_REASONS: Mapping[str, str] = {f"retry_{kind}": text for kind, text in FAULT_TEXTS.items()}
_EMPTY = "The model returned an empty answer."
#: Where users of the library find the details of a turn.
SEE_TRACE = "`reply.trace()`"


def closing_sentence(fault: Fault | None, see: str) -> str:
    """Say why a turn ends without a call and without words of the model. `see`: where to find more.

    >>> closing_sentence(Fault("truncated", name="ping"), "`toolspeak explain 3f2a9c`")
    'The model did not finish its call of `ping`. For details, see `toolspeak explain 3f2a9c`.'
    """
    sentence = _TEXTS.closing_sentences.get(fault.kind, _EMPTY) if fault is not None else _EMPTY
    name = f"`{fault.name}`" if fault is not None and fault.name else "a tool"
    return f"{sentence.format(name=name)} For details, see {see}."


def reason_text(reason: str) -> str:
    """Explain a reason code. An unknown code, for example from a plugin, is returned with spaces for underscores."""
    return REASON_TEXTS.get(reason) or reason.replace("_", " ")


def fault_text(fault: Fault) -> str:
    """Explain a fault in one line, including its detail."""
    return f"{FAULT_TEXTS[fault.kind]}: {fault.detail}" if fault.detail else FAULT_TEXTS[fault.kind]
