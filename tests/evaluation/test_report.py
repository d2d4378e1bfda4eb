"""What came of a run, for people and for machines: a table, JSON and a picture that every reader can open."""

from __future__ import annotations

import msgspec

from toolspeak.evaluation.report import EvalReport, markdown, plain, rows_of
from toolspeak.evaluation.results_file import CaseResult, EvalSetting

OFF = EvalSetting("builtin", "1", "openai:m", mode="off")
FORCE = EvalSetting("builtin", "1", "openai:m", mode="force", plan="inline", dialect="hermes")
FOUND = [
    (
        OFF,
        [
            CaseResult(OFF, "1", "single", True, requests=1, seconds=0.25),
            CaseResult(OFF, "2", "none", True, requests=1),
        ],
    ),
    (
        FORCE,
        [CaseResult(FORCE, "1", "single", False, "no_call", requests=3, retries=2, input_tokens=9, output_tokens=4)],
    ),
]


def report(model: str = "openai:m", chosen: int = 2, found: object = FOUND) -> EvalReport:
    rows = rows_of((setting, records, chosen) for setting, records in found)  # type: ignore[arg-type]
    return EvalReport("builtin", "1", "0.1.0", model, "http://127.0.0.1/v1", 7, "2031-01-01 00:00 UTC", rows)


def test_the_table_has_a_line_for_each_setting_and_category():
    lines = markdown(report()).splitlines()
    assert lines[0] == "# openai:m at http://127.0.0.1/v1"
    assert "| off | all | 2 of 2 (100.0%) | 34.2% to 100.0% | 0 | 2 | 0 | 0 / 0 | 0.12 |" in lines
    assert "|  | single | 1 of 1 (100.0%) | 20.7% to 100.0% | 0 | 1 | 0 | 0 / 0 | 0.25 |" in lines
    assert "| force inline hermes | all | 0 of 1 (0.0%) | 0.0% to 79.3% | 0 | 3 | 2 | 9 / 4 | 0.00 |" in lines


def test_what_is_not_finished_is_told():
    assert "Not finished: force inline hermes, 1 of 2 cases answered." in markdown(report())
    assert not report().complete
    whole = report(found=FOUND[:1])
    assert whole.complete
    assert "Not finished" not in markdown(whole)


def test_a_case_that_ended_in_an_error_is_not_finished():
    failed = [(OFF, [CaseResult(OFF, "1", "single", False, "error", error="gone")])]
    assert not report(chosen=1, found=failed).complete


def test_a_name_cannot_leave_its_cell():
    shown = markdown(report("a|b\nc"))
    assert shown.splitlines()[0].startswith("# a\\|b c")


def test_as_json_everything_is_there():
    said = msgspec.json.decode(msgspec.json.encode(plain(report())))
    assert (said["complete"], said["seed"], said["suite"]) == (False, 7, "builtin")
    off, force = said["rows"]
    assert (off["label"], off["scores"]["all"]["correct"], off["chosen"]) == ("off", 2, 2)
    assert force["scores"]["all"]["faults"] == {"no_call": 1}
    assert force["setting"]["dialect"] == "hermes"


def test_a_report_without_records_is_still_a_page():
    empty = report(found=[(OFF, [])])
    assert "| off | all | 0 of 0 (0.0%) | 0.0% to 100.0% |" in markdown(empty)
