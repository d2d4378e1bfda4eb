"""Rules and faults in words: what people read where a program reads a code."""

from __future__ import annotations

from collections.abc import Mapping

from .faults import Fault, FaultKind

#: Why a candidate is a call, or is none.
REASONS: Mapping[str, str] = {
    "accepted": "it is a call",
    "arguments_invalid": "its arguments do not fit the tool's schema",
    "reasoning": "it stands inside the model's thinking",
    "no_nonce": "its mark lacks the word that only this conversation knows",
    "in_fence": "it stands inside a code block",
    "in_code": "it stands inside inline code",
    "example": "it is quoted, indented or in a table, as examples are",
    "unknown_tool": "there is no tool of that name",
    "not_wrapped": "it has no marks of its own, and the policy is strict",
    "inline": "it does not stand at the start of a line, and the policy is strict",
    "not_whole_answer": "it is bare, and not the whole answer",
    "echo": "it repeats a call that stands in text which nobody vouches for",
    "does_not_fit": "it is weakly marked and does not fit the tool's schema",
    "more_follows": "the model went on after it, so it was an example",
    "truncated": "the text ended inside it",
    "no_name": "it names no tool",
    "not_json": "it cannot be read",
}

#: What was wrong with an answer that would not do.
FAULTS: Mapping[FaultKind, str] = {
    "refusal": "the model refused",
    "described": "the model described the call instead of making it",
    "permission": "the model asked for permission first",
    "bad_arguments": "the arguments do not fit",
    "unknown_tool": "the model called a tool that is not there",
    "truncated": "the call was cut off",
    "in_reasoning": "the call stood inside the model's thinking",
    "no_call": "a call was demanded and none came",
    "too_many": "there were more calls than are allowed",
    "bad_format": "the answer was not in the form that was asked for",
    "empty": "the answer was empty",
}


def because(reason: str) -> str:
    """A rule in words; one that has none, such as a plugin's, by its name."""
    return REASONS.get(reason) or reason.replace("_", " ")


def in_words(fault: Fault) -> str:
    """A fault in words, with what is known of it."""
    return f"{FAULTS[fault.kind]}: {fault.detail}" if fault.detail else FAULTS[fault.kind]
