"""`toolspeak undo`: restore the files that an agent changed in a session."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ._io import echo, escape, write_json
from .config import usage_errors
from .sessions import store_at

if TYPE_CHECKING:
    from ..store.sessions import Store
    from ..tools.file_changes import UndoneFile, UndoResult

_SHELL = "the session also ran shell commands; what they changed is not recorded and was not undone"


def command(session: str, workdir: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    from ..tools.file_changes import UndoResult

    with usage_errors(), store_at(None) as store:
        name = store.find(session) if session else store.last_changed(os.path.realpath(workdir))
        plan = asyncio.run(_undo(store, name, workdir, dry_run=True)) if name else UndoResult("")
        needs_undo = any(file.action != "refused" for file in plan.files) and not dry_run
        if needs_undo and not yes:
            _ask(plan, as_json)
        result = asyncio.run(_undo(store, name, workdir, dry_run=False)) if needs_undo else plan
    _print(result, dry_run, as_json)
    sys.exit(0 if result.complete else 1)


async def _undo(store: Store, session: str, workdir: str, *, dry_run: bool) -> UndoResult:
    from ..tools.file_changes import undo_changes

    journal = await store.journal(session)
    try:
        return await undo_changes(journal, workdir, dry_run=dry_run)
    finally:
        await journal.close()


def _ask(plan: UndoResult, as_json: bool) -> None:
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask for approval", hint="add --yes, or --dry-run to only look")
    for file in plan.files:
        echo(_line(file, planned=True), err=True)
    if not click.confirm(f"Undo the changes of session {plan.session[:12]}?", err=True):
        raise click.Abort


def _print(result: UndoResult, dry_run: bool, as_json: bool) -> None:
    import msgspec

    if as_json:
        write_json({**msgspec.to_builtins(result), "complete": result.complete, "dry_run": dry_run}, indent=2)
        return
    for file in result.files:
        echo(_line(file, planned=dry_run))
    if not result.files:
        where = f"session {result.session[:12]}" if result.session else "this work directory"
        echo(f"Nothing to undo in {where}")
    if not result.session:
        echo("hint: name a session, or use --workdir; `toolspeak sessions list` lists sessions", err=True)
    if result.ran_shell:
        echo(f"note: {_SHELL}", err=True)


_WORDS = {"restored": "restore", "deleted": "delete", "unchanged": "leave unchanged", "refused": "refuse"}


def _line(file: UndoneFile, *, planned: bool) -> str:
    reason = f": {escape(file.reason)}" if file.reason else ""
    word = f"would {_WORDS[file.action]}" if planned else file.action
    return f"{word} {escape(file.path)}{reason}"
