"""Every rule and every fault has words for people."""

from __future__ import annotations

from typing import get_args

import pytest

from toolspeak.core.parsing import acceptance as evidence
from toolspeak.engine.turn.faults import FAULT_TEXTS, REASON_TEXTS, Fault, FaultKind, fault_text, reason_text


@pytest.mark.requirement("H6")
def test_every_rule_that_rejects_has_words():
    rules = {
        name
        for name, _ in (
            *evidence._REJECT_AT_NAME,  # pyright: ignore[reportPrivateUsage]
            *evidence._REJECT_AT_END,  # pyright: ignore[reportPrivateUsage]
        )
    }
    assert rules | evidence.REGION_REASONS <= REASON_TEXTS.keys()
    assert FAULT_TEXTS.keys() == set(get_args(FaultKind))


def test_a_rule_without_words_is_told_by_its_name():
    assert reason_text("in_fence") == "it is inside a code block"
    assert reason_text("rule_of_a_plugin") == "rule of a plugin"


def test_a_fault_is_told_with_what_is_known_of_it():
    assert fault_text(Fault("empty")) == "the answer was empty"
    assert fault_text(Fault("refusal", "no tools")) == "the model refused: no tools"
