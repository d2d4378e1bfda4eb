"""The phases of a turn: the table says what the plans promise."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.cases import check_each
from toolspeak.engine.planning.strategy import PlanKind
from toolspeak.engine.turn.phases import FIRST_PHASE, PHASES, PhaseName


@pytest.mark.requirement("A7")
def test_every_plan_begins_somewhere():
    assert set(FIRST_PHASE) == set(get_args(PlanKind))
    assert set(PHASES) == set(get_args(PhaseName))
    assert {*FIRST_PHASE.values(), "both", "interpretation"} == set(PHASES)


@check_each("name", get_args(PhaseName))
def test_every_phase_leads_to_phases_that_exist_and_to_an_end(name: PhaseName):
    seen: list[str] = []
    at: str = name
    while at:
        assert at not in seen
        seen.append(at)
        following = PHASES[at].otherwise if at in PHASES else ""
        at = "decision" if following == "second" else following
    assert len(seen) <= 3  # fallback takes one to three requests
    assert PHASES[name].unsupported in ("", "second", *PHASES)


@pytest.mark.requirement("A9")
@check_each(
    ("plan", "requests"),
    [("pass", 1), ("plain", 1), ("native", 1), ("inline", 1), ("envelope", 1), ("decision", 2), ("fallback", 3)],
)
def test_a_plan_takes_so_many_requests_when_no_call_comes(plan: str, requests: int):
    count, at = 1, FIRST_PHASE[plan]
    while following := PHASES[at].otherwise:
        at = "decision" if following == "second" else following
        count += 1
    assert count == requests


@pytest.mark.requirement("A12")
def test_the_phases_that_ask_for_calls_as_text_are_emulation():
    assert {name for name, phase in PHASES.items() if phase.emulates} == {"both", "inline", "decision", "envelope"}


@pytest.mark.requirement("E2")
def test_what_is_asked_again():
    recovering = {"native", "both", "inline", "decision", "envelope"}
    assert {name for name, phase in PHASES.items() if phase.recovers} == recovering


@pytest.mark.requirement("B11")
def test_what_happens_to_text():
    assert {name: phase.text for name, phase in PHASES.items()} == {
        "relay": "live",
        "final": "live",
        "native": "opening",
        "trial": "until_call",
        "both": "opening",
        "inline": "opening",
        "decision": "never",
        "envelope": "opening",
        "interpretation": "never",
    }


@pytest.mark.requirement("A2")
def test_only_what_is_passed_through_is_not_judged_by_tool_choice():
    assert {name for name, phase in PHASES.items() if not phase.enforces} == {"relay"}


def test_only_phases_that_show_tools_to_the_upstream_can_find_them_refused():
    assert {name: phase.unsupported for name, phase in PHASES.items() if phase.unsupported} == {
        "native": "inline",
        "trial": "second",
    }
