"""Fault types, and human-readable explanations of faults and rejected calls.

Kept separate from `diagnosis`, which finds faults: every trace needs these types, but few turns need a diagnosis.
"""

from collections.abc import Mapping
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


#: Why a candidate was or was not accepted as a call, by reason code.
REASON_TEXTS: Mapping[str, str] = {
    "accepted": "it is a call",
    "arguments_invalid": "its arguments do not match the tool's schema",
    "reasoning": "it is inside the model's reasoning",
    "no_nonce": "its marker lacks the nonce of this conversation",
    "in_fence": "it is inside a code block",
    "in_code": "it is inside inline code",
    "example": "it is quoted, indented or in a table, like an example",
    "unknown_tool": "there is no tool with that name",
    "not_wrapped": "it has no call markers, which the strict policy requires",
    "inline": "it does not start a line, which the strict policy requires",
    "not_whole_answer": "it has no call markers and is not the whole answer",
    "echo": "it repeats a call from untrusted text",
    "not_in_answer": "a value that the interpreter gave it is not in the model's answer",
    "already_made": "the interpreter repeated a call that the model has already made",
    "does_not_fit": "it is weakly marked and does not match the tool's schema",
    "more_follows": "the model continued after it, so it was an example",
    "truncated": "the text ended inside it",
    "no_name": "it does not name a tool",
    "not_json": "it cannot be parsed",
}

FAULT_TEXTS: Mapping[FaultKind, str] = {
    "refusal": "the model refused",
    "described": "the model described the call instead of making it",
    "permission": "the model asked for permission first",
    "bad_arguments": "the arguments are invalid",
    "unknown_tool": "the model called a tool that does not exist",
    "truncated": "the call was cut off",
    "in_reasoning": "the call was inside the model's reasoning",
    "unmarked": "the call does not carry the nonce that was asked for",
    "no_call": "a call was required, but there was none",
    "too_many": "there were more calls than allowed",
    "bad_format": "the answer did not have the requested format",
    "empty": "the answer was empty",
}


#: What a turn says if it ends with neither a call nor words of the model. `{name}` is the tool.
_CLOSING_SENTENCES: Mapping[FaultKind, str] = {
    "bad_arguments": "The model tried to call {name}, but its arguments do not fit the tool.",
    "unknown_tool": "The model tried to call {name}, which it may not call.",
    "truncated": "The model did not finish its call of {name}.",
    "in_reasoning": "The model called {name} only in its reasoning, where calls do not count.",
    "unmarked": "The model wrote a call of {name}, but not in the form that was asked for, so it was not made.",
}
_EMPTY = "The model returned an empty answer."
#: Where users of the library find the details of a turn.
SEE_TRACE = "`reply.trace()`"


def closing_sentence(fault: Fault | None, see: str) -> str:
    """Say why a turn ends without a call and without words of the model. `see`: where to find more.

    >>> closing_sentence(Fault("truncated", name="ping"), "`toolspeak explain 3f2a9c`")
    'The model did not finish its call of `ping`. For details, see `toolspeak explain 3f2a9c`.'
    """
    sentence = _CLOSING_SENTENCES.get(fault.kind, _EMPTY) if fault is not None else _EMPTY
    name = f"`{fault.name}`" if fault is not None and fault.name else "a tool"
    return f"{sentence.format(name=name)} For details, see {see}."


def reason_text(reason: str) -> str:
    """Explain a reason code. An unknown code, for example from a plugin, is returned with spaces for underscores."""
    return REASON_TEXTS.get(reason) or reason.replace("_", " ")


def fault_text(fault: Fault) -> str:
    """Explain a fault in one line, including its detail."""
    return f"{FAULT_TEXTS[fault.kind]}: {fault.detail}" if fault.detail else FAULT_TEXTS[fault.kind]
