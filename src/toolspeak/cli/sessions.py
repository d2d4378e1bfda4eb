"""`toolspeak sessions`: list, search, show, export, import, remove and check agent sessions.

Text from models and tools is untrusted, so control characters are removed.
"""

import json
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..config import load
from ..core.types import Message
from ..engine.rounds.transcript import Answer, CallRecord, Entry
from ..errors import NoStoreError
from ._io import CliError, CommandGroup, clean, write_json
from .config import usage_errors

if TYPE_CHECKING:
    from ..store.sessions import Store

#: Maximum number of characters of arguments and results that `show` prints. `--json` prints all.
_MAX_CHARS = 2_000
#: Maximum number of lines of a diff that `show` prints. `--json` prints more.
_MAX_DIFF_LINES = 200


@click.group("sessions", cls=CommandGroup)
@click.option("--store", "url", metavar="URL", help="sqlite:///PATH or postgresql://...  [default: configured]")
@click.option("--owner", default="", metavar="NAME", help="Owner of the sessions.  [default: none]")
@click.pass_context
def command(context: click.Context, url: str | None, owner: str) -> None:
    """Manage agent sessions with their rounds, calls and results.

    Ids can be shortened to a unique prefix.
    """
    if url and ":" in url.partition("://")[2].rpartition("@")[0]:
        hint = "other users can see command lines; set TOOLSPEAK_STORE, or `store` in the configuration"
        raise CliError("--store must not contain a password", hint=hint)
    context.obj = (url, owner)


@contextmanager
def _open_store(*, make: bool = False) -> "Generator[Store]":
    """Open the store. Create it only if `make` is set, so a typo in the URL does not create an empty store."""
    url, owner = click.get_current_context().obj
    with usage_errors(), store_at(url, owner, make=make) as store:
        yield store


def store_at(url: str | None, owner: str = "", *, make: bool = False) -> "Store":
    """Open the store at a URL, or the configured one."""
    from ..store import open_store

    config = load()
    try:
        return open_store(url or config.store, owner, existing=not make)
    except NoStoreError:
        if url or any(setting.name == "store" and setting.value for setting in config.effective_settings()):
            raise
        return open_store("sqlite://", owner)  # the default store does not exist yet, so use an empty one


@command.command("list")
@click.option("--search", "text", default="", metavar="TEXT", help="Only sessions that contain this text.")
@click.option("--limit", default=50, metavar="N", help="Maximum number of sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(text: str, limit: int, as_json: bool) -> None:
    """List sessions, newest first."""
    with _open_store() as store:
        sessions = store.sessions(text, limit=limit)
    if as_json:
        write_json(msgspec.to_builtins(sessions), indent=2)
        return
    for info in sessions:
        tokens = f"{info.input_tokens + info.output_tokens} tokens"
        lock = f"; in use by {info.holder}" if info.holder else ""
        click.echo(f"{info.id[:12]}  {_when(info.updated)}  {clean(info.title) or '(empty)'}  ({tokens}{lock})")


@command.command("show")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(session: str, as_json: bool) -> None:
    """Print a conversation with its rounds."""
    with _open_store() as store:
        name = store.find(session)
        info, entries = store.info(name), store.entries(name)
    if as_json:
        write_json({**msgspec.to_builtins(info), "conversation": [_entry_json(entry) for entry in entries]}, indent=2)
        return
    for entry in entries:
        for line in _entry(entry):
            click.echo(line)
        click.echo()


@command.command("export")
@click.argument("sessions", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
def export(sessions: tuple[str, ...], output: str | None) -> None:
    """Write SESSIONS (default: all) as JSON lines."""
    from ..store.transfer import export as lines

    with _open_store() as store:
        ids = [store.find(each) for each in sessions]
        if output is None:
            for line in lines(store, ids):
                sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()
            return
        try:
            with Path(output).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(line + "\n" for line in lines(store, ids))
        except OSError as error:
            raise CliError(f"cannot write `{output}`: {error.strerror or error}") from None


@command.command("import")
@click.argument("file")
def import_(file: str) -> None:
    """Import exported sessions from FILE (- for stdin) into the store. Existing sessions are not changed."""
    from ..store.transfer import import_lines

    with _open_store(make=True) as store:
        if file == "-":
            done = import_lines(store, _lines(sys.stdin.buffer))
        else:
            try:
                with Path(file).open("rb") as stream:
                    done = import_lines(store, _lines(stream))
            except OSError as error:
                raise CliError(f"cannot read `{file}`: {error.strerror or error}") from None
    click.echo(f"Imported {done.sessions} sessions; {done.skipped} already existed")


@command.command("rm")
@click.argument("sessions", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Remove sessions even if they are in use.")
def remove(sessions: tuple[str, ...], force: bool) -> None:
    """Remove SESSIONS and everything in them."""
    with _open_store() as store:
        for name in [store.find(each) for each in sessions]:
            store.remove(name, force=force)
            click.echo(f"Removed `{name}`")


@command.command("doctor")
@click.option("--repair", is_flag=True, help="Repair sessions that a crash left unfinished.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(repair: bool, as_json: bool) -> None:
    """Check the store. The exit status is 1 if something is unreadable."""
    from ..store.check import check

    with _open_store() as store:
        report = check(store, repair=repair)
    if as_json:
        write_json({**msgspec.to_builtins(report), "good": report.good}, indent=2)
    else:
        click.echo(f"{report.where}: {report.sessions} sessions, schema {report.schema}")
        for line in report.file:
            click.echo(f"file: {clean(line)}")
        for finding in report.damaged:
            click.echo(f"damaged: {finding.session}: {clean(finding.what)}")
        for name in report.unfinished:
            click.echo(f"interrupted: {name}{'' if not repair else ' (repaired unless in use)'}")
        click.echo("All sessions are readable" if report.good else "Some sessions are unreadable")
    click.get_current_context().exit(0 if report.good else 1)


def _when(moment: float) -> str:
    """Format a time, of which 0 means unknown."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else "(time unknown)"


def _lines(stream: Any) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise CliError(f"line {number} is not UTF-8") from None


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"kind": "answer" if isinstance(entry, Answer) else "message", **msgspec.to_builtins(entry)}


def _entry(entry: Entry) -> Iterator[str]:
    if isinstance(entry, Message):
        yield click.style(f"{entry.role}:", bold=True)
        yield clean(entry.text)
        return
    yield click.style(f"answer ({entry.status}):", bold=True)
    for number, round_ in enumerate(entry.rounds, 1):
        yield f"  round {number}{': ' + clean(round_.text) if round_.text else ''}"
        for record in round_.calls:
            yield from _call(record)
    if entry.content:
        yield clean(entry.content)
    for note in entry.notes:
        yield f"  note: {clean(note.code)}: {clean(note.detail)}"


def _call(record: CallRecord) -> Iterator[str]:
    from .agent_screen import coloured_diff

    arguments = clean(json.dumps(record.call.arguments, ensure_ascii=False))
    yield f"    {clean(record.call.name)} {_cut(arguments)}  [{record.state}, {record.seconds:.1f} s]"
    if record.result is not None:
        mark = "error" if record.result.error else "result"
        yield f"      {mark}: " + _cut(clean(record.result.content)).replace("\n", "\n        ")
    for each in record.diffs:
        yield coloured_diff(each.diff, _MAX_DIFF_LINES, "      ")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}… ({len(text)} characters; --json prints all)"
