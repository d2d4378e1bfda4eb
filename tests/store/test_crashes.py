"""Killed at every commit of a task, a program opens its session again, and nothing has been done twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import size

ROOT = Path(__file__).parents[2]
BILLS = [1, 2, 3]
#: Every how many kill points one is tried. Odd, since kills before and after a commit alternate.
STEP = size(11, 1)


def _outcomes(way: str, folder: Path, url: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.store.crash_program", way, str(folder), url, str(STEP)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.requirement("F7", "F10", "R-F35", "R-F30", "R-T17")
@pytest.mark.parametrize("way", ["journal", "agent", "files"])
def test_killed_at_any_commit_no_session_is_lost_and_nothing_is_done_twice(url: str, way: str, tmp_path: Path):
    outcomes = _outcomes(way, tmp_path, url)
    *crashed, whole = outcomes
    # Opened, asked, begun; three times planned, started, finished; ended, given back: each before and after. A change
    # of a file is written down between start and finish.
    assert len(crashed) >= 2 * (3 + 3 * (4 if way == "files" else 3) + 2) // STEP
    assert whole["end"]["done"] == BILLS
    for each in crashed:
        assert each["killed"] == -9, each
        assert each["resumed"] == 0, each
        _check_the_middle(each["middle"])
        _check_the_end(each["end"])


def _check_the_middle(middle: dict[str, Any]) -> None:
    """What was done is known to have been begun, and what was never begun was not done."""
    assert middle["undo"], middle
    states = {bill: state for bill, state, _ in middle["calls"]}
    assert all(states[bill] in ("started", "finished") for bill in middle["done"]), middle
    assert all(bill in middle["done"] for bill, state in states.items() if state == "finished"), middle


def _check_the_end(end: dict[str, Any]) -> None:
    assert end["sessions"] == 1, end
    assert end["undo"], end
    assert (end["status"][-1], end["last"]) == ("complete", "All is paid."), end
    assert [bill for bill, _, _ in end["calls"]] == BILLS, end
    assert all(has_result for _, _, has_result in end["calls"]), end
    # At most once: what was begun when the program was killed is not done again by itself.
    assert len(end["done"]) == len(set(end["done"])), end
    finished = [bill for bill, state, _ in end["calls"] if state == "finished"]
    assert set(finished) <= set(end["done"]), end
