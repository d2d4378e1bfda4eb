"""The spinner: the stage and the seconds on a terminal, and nothing in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group

from toolspeak.cli import _io
from toolspeak.cli._io import Spinner, Stage


def drawn(stage: Stage, width: int = 80) -> str:
    written = io.StringIO()
    Console(file=written, width=width).print(Group(stage))
    return written.getvalue().strip()


@pytest.mark.parametrize(
    ("seconds", "text", "width", "line"),
    [
        (0.4, "reading", 80, ""),
        (12.6, "reading 1,240 tokens", 80, "13 s reading 1,240 tokens"),
        (3.0, "bad \x1b[2J name", 80, "3 s bad  name"),
        (3.0, "x" * 100, 40, f"3 s {'x' * 33}…"),
        (3.0, "", 80, ""),
    ],
)
def test_a_stage_is_one_line_with_its_seconds(
    seconds: float, text: str, width: int, line: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_io, "monotonic", lambda: 100.0)
    stage = Stage(text)
    monkeypatch.setattr(_io, "monotonic", lambda: 100.0 + seconds)
    assert drawn(stage, width)[2:] == line


def test_nothing_is_drawn_in_a_pipe(capsys: pytest.CaptureFixture[str]):
    with Spinner("reading") as shown:
        shown.show("writing")
    assert capsys.readouterr() == ("", "")
