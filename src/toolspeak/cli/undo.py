"""`toolspeak undo`: restore the files that an agent changed in a session.

Exit status: 0 restored or nothing to undo, 1 some files were refused, 2 invalid command line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ._io import escape, write_json
from .config import usage_errors
from .sessions import store_at

if TYPE_CHECKING:
    from ..store.sessions import Store
    from ..tools.file_changes import UndoneFile, UndoResult

_SHELL = "the session also ran shell commands; what they changed is not recorded and was not undone"


@click.command("undo")
@click.argument("session", default="")
@click.option("--workdir", default=".", metavar="DIR", help="Work directory of the session.  [default: current]")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON. Needs --yes or --dry-run.")
def command(session: str, workdir: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Restore the files that the file tools of an agent changed in SESSION.

    By default, this is the last session whose changes in the work directory have not been undone. Ids can be shortened
    to a unique prefix. Each file gets the content and the permissions that it had before the first change. Files and
    folders that the session created are deleted. Changes made by shell commands are not recorded and cannot be undone.

    A file that someone else has changed since is left alone, and the exit status is 1.
    """
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
        click.echo(_line(file, planned=True), err=True)
    if not click.confirm(f"Undo the changes of session {plan.session[:12]}?", err=True):
        raise click.Abort


def _print(result: UndoResult, dry_run: bool, as_json: bool) -> None:
    import msgspec

    if as_json:
        write_json({**msgspec.to_builtins(result), "complete": result.complete, "dry_run": dry_run}, indent=2)
        return
    for file in result.files:
        click.echo(_line(file, planned=dry_run))
    if not result.files:
        where = f"session {result.session[:12]}" if result.session else "this work directory"
        click.echo(f"Nothing to undo in {where}")
    if not result.session:
        click.echo("hint: name a session, or use --workdir; `toolspeak sessions list` lists sessions", err=True)
    if result.ran_shell:
        click.echo(f"note: {_SHELL}", err=True)


_WORDS = {"restored": "restore", "deleted": "delete", "unchanged": "leave unchanged", "refused": "refuse"}


def _line(file: UndoneFile, *, planned: bool) -> str:
    reason = f": {escape(file.reason)}" if file.reason else ""
    word = f"would {_WORDS[file.action]}" if planned else file.action
    return f"{word} {escape(file.path)}{reason}"
