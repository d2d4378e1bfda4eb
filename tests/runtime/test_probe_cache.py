"""Results of probes are kept with care, belong to a place, and stand between the table and a user's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak import Failure
from toolspeak.engine.planning.capabilities import Capabilities, Learned
from toolspeak.engine.planning.probe_questions import ProbeRoute, plain_question, read_answer
from toolspeak.engine.planning.probe_results import VERSION, ProbeResult
from toolspeak.engine.planning.strategy import Settings, strategy
from toolspeak.key_value import FileState, MemoryState
from toolspeak.runtime.probe_cache import ProbeStore, ProbeTarget, StoredProbe, apply_result, is_loopback, probe_policy

HERE = "http://127.0.0.1:9/v1"
FAR = "https://models.example.com/v1"
PLACE = ProbeTarget("scripted", "scripted", HERE)

# ---- when


@pytest.mark.requirement("D5")
@check_each(
    ("base_url", "setting", "expected"),
    [
        (HERE, "", "first-use"),
        ("http://localhost:11434", "", "first-use"),
        ("http://[::1]:8080", "", "first-use"),
        ("http://192.168.0.7:8080", "", "off"),
        (FAR, "", "off"),
        ("", "", "off"),
        ("not a URL", "", "off"),
        (FAR, "first-use", "first-use"),
        (HERE, "off", "off"),
        (HERE, "startup", "startup"),
    ],
)
def test_upstreams_on_this_machine_are_probed_others_cost_money(base_url: str, setting: Any, expected: str):
    assert probe_policy(Settings(probe=setting), base_url) == expected


def test_loopback_is_told_by_the_host_alone():
    assert not is_loopback("http://127.0.0.1.example.com/v1")
    assert is_loopback("https://127.9.9.9/v1")


# ---- precedence


@pytest.mark.requirement("D4", "D5")
def test_what_was_measured_beats_the_table_and_a_users_word_beats_both():
    known = Capabilities()
    place = ProbeTarget("openai", "m", "https://api.openai.com/v1")
    assert strategy("openai:m", place.base_url, known=known).rule == "table.provider"
    apply_result(known, place, StoredProbe(*place, ProbeResult({"capability": "none"}), 1.0))
    said = strategy("openai:m", place.base_url, known=known)
    assert (said.rule, said.native) == ("probe", False)
    assert "1970-01-01" in said.why
    learned = Learned({"capability": "openai"}, "it did call")
    assert strategy("openai:m", place.base_url, known=known, learned=learned).rule == "learned"
    known.override_model("openai:m", "none")
    assert strategy("openai:m", place.base_url, known=known, learned=learned).rule == "override.model"
    # At any other place nothing was measured.
    assert strategy("openai:x", place.base_url, known=known).rule == "table.provider"


def test_what_is_no_longer_stored_counts_no_more():
    known = Capabilities()
    apply_result(known, PLACE, StoredProbe(*PLACE, ProbeResult({"capability": "openai"}), 1.0))
    apply_result(known, PLACE, None)
    assert known.find(*PLACE).rule == "unknown"


def test_models_named_from_outside_are_remembered_up_to_a_bound():
    known = Capabilities()
    for number in range(2000):
        known.set_measured("p", f"m{number}", HERE, "openai", "seen")
    assert known.find("p", "m1999", HERE).rule == "probe"
    assert known.find("p", "m0", HERE).rule == "unknown"


# ---- keeping


def test_only_one_process_probes_a_model_at_a_time(tmp_path: Path):
    one, other = (ProbeStore(FileState(tmp_path / "state.json")) for _ in range(2))
    release = one.claim(PLACE)
    assert release is not None
    assert other.claim(PLACE) is None
    release()
    assert other.claim(PLACE) is not None


def test_names_are_cut_where_they_are_kept_and_the_key_knows_the_whole():
    store = ProbeStore(MemoryState())
    place, other = ProbeTarget("p", "m" * 10_000, HERE), ProbeTarget("p", "m" * 10_001, HERE)
    store.record_measurement(place, ProbeResult({"capability": "openai"}))
    assert len(place.key) < 60
    assert store.get(other) is None
    (kept,) = store.all()
    assert len(kept.model) == 256


def test_names_and_what_a_server_says_cannot_steer_a_terminal():
    store = ProbeStore(MemoryState())
    assert store.record_measurement(ProbeTarget("p", "m\x1b[2J\n", HERE), ProbeResult()).model == "m\ufffd[2J\ufffd"
    asked = plain_question(ProbeRoute("m", "openai_chat"), "reach", "hello")
    assert read_answer(asked, [Failure("no\x1b]0;x\x07 way", status=400)]).detail == "400 no\ufffd]0;x\ufffd way"


def test_a_place_is_the_same_whatever_its_provider_is_called():
    assert ProbeTarget("openai", "m", HERE).key == ProbeTarget("near", "m", HERE + "/").key
    assert ProbeTarget("openai", "m", "").key != ProbeTarget("near", "m", "").key


@check_each(
    "value",
    [
        "nothing",
        {"provider": 1},
        {"provider": "p", "model": "m", "base_url": "", "verdict": {"version": VERSION + 1}},
        {"provider": "p", "model": "m", "base_url": "", "verdict": {"fields": []}},
    ],
)
def test_what_is_stored_and_cannot_be_understood_is_as_good_as_nothing(value: Any):
    state = MemoryState()
    state.put(PLACE.key, value)
    assert ProbeStore(state).get(PLACE) is None
    assert ProbeStore(state).all() == []


def test_fields_that_no_profile_has_are_ignored():
    known = Capabilities()
    apply_result(known, PLACE, StoredProbe(*PLACE, ProbeResult({"capability": "magic"}), 1.0))
    assert known.find(*PLACE).rule == "unknown"
