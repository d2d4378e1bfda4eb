"""How far an evaluation is: a bar in a terminal, else a few lines, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click

from ..evaluation.journal import Record

#: Lines of progress where there is no terminal.
_MOST_LINES = 10


class Lines:
    """Progress in lines, where there is no terminal."""

    def __init__(self) -> None:
        self._total = self._done = self._right = 0

    def begin(self, missing: int, total: int) -> None:
        """So many cases will be asked, of so many."""
        self._total = missing
        kept = f", {total - missing} are finished already" if missing != total else ""
        click.echo(f"{missing} cases to ask{kept}", err=True)

    def __call__(self, record: Record) -> None:
        self._done += 1
        self._right += record.correct
        if self._done == self._total or self._done % max(1, self._total // _MOST_LINES) == 0:
            self.show()

    def show(self) -> None:
        """Say it."""
        click.echo(f"{self._done} of {self._total} asked, {self._right} right", err=True)


class _Bar(Lines):
    """Progress as a bar."""

    def __init__(self, update: Callable[[int, int, str], None]) -> None:
        super().__init__()
        self._update = update

    def __call__(self, record: Record) -> None:
        self._done += 1
        self._right += record.correct
        self._update(self._done, self._total, f"{self._right} right")


@contextmanager
def progress() -> Generator[Lines]:
    """What is to be told of each case."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("")
        yield _Bar(lambda done, total, told: bar.update(task, completed=done, total=total, description=told))
