"""What is kept of a run, and what a second start makes of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from toolspeak import UsageError
from toolspeak.evaluation.results_file import CaseResult, EvalSetting, ResultsFile

FORCE = EvalSetting("builtin", "1", "openai:m", mode="force", plan="inline", dialect="hermes", marks="fixed")
OFF = EvalSetting("builtin", "1", "openai:m", mode="off")


def test_a_case_is_finished_in_its_own_setting_only(tmp_path: Path):
    first = ResultsFile(tmp_path / "j")
    first.add(CaseResult(FORCE, "a", "x", True, calls=[[{"name": "f", "arguments": {"k": [1]}}]]))
    for journal in (first, ResultsFile(tmp_path / "j")):
        assert journal.finished(FORCE, "a")
        assert not journal.finished(OFF, "a")
        assert not journal.finished(FORCE, "b")
        assert [each.case for each in journal.of(FORCE, ["b", "a"])] == ["a"]


@pytest.mark.parametrize("field", ["suite", "version", "model", "base_url", "dialect"])
def test_whatever_changes_answers_makes_another_setting(tmp_path: Path, field: str):
    journal = ResultsFile(tmp_path / "j")
    journal.add(CaseResult(FORCE, "a", "x", True))
    assert not journal.finished(msgspec.structs.replace(FORCE, **{field: "other"}), "a")


def test_an_error_is_told_but_not_finished_and_a_later_answer_takes_its_place(tmp_path: Path):
    journal = ResultsFile(tmp_path / "j")
    journal.add(CaseResult(OFF, "a", "x", False, "error", error="gone"))
    assert not ResultsFile(tmp_path / "j").finished(OFF, "a")
    assert [each.error for each in journal.of(OFF, ["a"])] == ["gone"]
    journal.add(CaseResult(OFF, "a", "x", True))
    again = ResultsFile(tmp_path / "j")
    assert again.finished(OFF, "a")
    assert [each.correct for each in again.of(OFF, ["a"])] == [True]
    assert len((tmp_path / "j").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("lines", [0, 1])
def test_a_line_that_was_cut_off_is_asked_again_and_spoils_nothing(tmp_path: Path, lines: int):
    path = tmp_path / "j"
    journal = ResultsFile(path)
    for name in ("a", "b")[: lines + 1]:
        journal.add(CaseResult(OFF, name, "x", True))
    path.write_bytes(path.read_bytes()[:-20])
    cut = ResultsFile(path)
    assert cut.cut_off
    assert cut.finished(OFF, "a") is bool(lines)
    cut.add(CaseResult(OFF, "c", "x", True))
    whole = ResultsFile(path)
    assert not whole.cut_off
    assert whole.finished(OFF, "c")
    assert len(path.read_bytes().splitlines()) == lines + 1


@pytest.mark.parametrize("content", [b"hello\n", b'{"case": 1}\n', b"\xff\n", b"{}\n{}\n"])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes):
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(UsageError, match="line 1 of"):
        ResultsFile(tmp_path / "j")
    assert (tmp_path / "j").read_bytes() == content


def test_a_label_tells_settings_apart():
    assert FORCE.label == "force inline hermes fixed marks"
    assert OFF.label == "off"
