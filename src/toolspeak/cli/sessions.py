"""`toolspeak sessions`: what agents have done, listed, shown, searched, taken out and in, removed, looked through.

A thin face over `store`. Texts of models and tools are shown without control characters, so that none of them can
play tricks with a terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import load
from ..core.text import UNSEEN, printable
from ..core.types import Message
from ..engine.rounds.transcript import Answer, CallRecord, Entry
from ..errors import NoStoreError
from ._io import CliError, write_json
from .config import usage_errors

if TYPE_CHECKING:
    from ..store.sessions import Store

_EXAMPLES = """\b
Examples:
  toolspeak sessions list
  toolspeak sessions list --search weather --json
  toolspeak sessions show 3f2a
  toolspeak sessions export > sessions.jsonl
  toolspeak sessions export 3f2a -o one.jsonl
  toolspeak sessions import sessions.jsonl
  toolspeak sessions rm 3f2a
  toolspeak sessions doctor --repair
"""
#: Characters of an argument or a result that `show` prints; `--json` prints all.
_SHOWN = 2_000


@click.group("sessions", epilog=_EXAMPLES)
@click.option("--store", "url", metavar="URL", help="sqlite:///PATH or postgresql://...; else as configured.")
@click.option("--owner", default="", metavar="NAME", help="Whose sessions; those of nobody in particular unless said.")
@click.pass_context
def command(context: click.Context, url: str | None, owner: str) -> None:
    """What agents have done: every session, with its rounds, calls and results.

    An id may be shortened as long as it means one session only.
    """
    if url and ":" in url.partition("://")[2].rpartition("@")[0]:
        hint = "set TOOLSPEAK_STORE, or `store` in the configuration: others can read command lines"
        raise CliError("--store does not take a password", hint=hint)
    context.obj = (url, owner)


@contextmanager
def _opened(*, make: bool = False) -> Generator[Store]:
    """The store that is meant. One that is only read is never made: a slip of the pen would leave an empty one."""
    url, owner = click.get_current_context().obj
    with usage_errors(), _store(url, owner, make) as store:
        yield store


def _store(url: str | None, owner: str, make: bool) -> Store:
    from ..store import open_store

    config = load()
    try:
        return open_store(url or config.store, owner, existing=not make)
    except NoStoreError:
        if url or any(setting.name == "store" and setting.value for setting in config.shown()):
            raise
        return open_store("sqlite://", owner)  # nobody has named one, and nothing has been kept yet


@command.command("list")
@click.option("--search", "text", default="", metavar="TEXT", help="Only sessions in which this was said or answered.")
@click.option("--limit", default=50, metavar="N", help="At most N, the last ones first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def listed(text: str, limit: int, as_json: bool) -> None:
    """List sessions, the last one first."""
    import msgspec

    with _opened() as store:
        found = store.sessions(text, limit=limit)
    if as_json:
        write_json(msgspec.to_builtins(found), indent=2)
        return
    for info in found:
        tokens = f"{info.input_tokens + info.output_tokens} tokens"
        held = f"; {info.holder} writes" if info.holder else ""
        click.echo(
            f"{info.id[:12]}  {_when(info.updated)}  {_plain(info.title) or '(nothing said yet)'}  ({tokens}{held})"
        )


@command.command("show")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with everything in it.")
def show(session: str, as_json: bool) -> None:
    """Print a conversation with its rounds."""
    import msgspec

    with _opened() as store:
        name = store.find(session)
        info, entries = store.info(name), store.entries(name)
    if as_json:
        write_json({**msgspec.to_builtins(info), "conversation": [_told(entry) for entry in entries]}, indent=2)
        return
    for entry in entries:
        for line in _message(entry) if isinstance(entry, Message) else _answer(entry):
            click.echo(line)
        click.echo()


@command.command("export")
@click.argument("sessions", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="Write into FILE instead of stdout.")
def export(sessions: tuple[str, ...], output: str | None) -> None:
    """Write SESSIONS, or all, as lines of JSON."""
    from ..store.transfer import export as lines

    with _opened() as store:
        found = [store.find(each) for each in sessions]
        if output is None:
            for line in lines(store, found):
                sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()
            return
        try:
            with Path(output).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(line + "\n" for line in lines(store, found))
        except OSError as error:
            raise CliError(f"cannot write `{output}`: {error.strerror or error}") from None


@command.command("import")
@click.argument("file")
def import_(file: str) -> None:
    """Put the sessions of an export into the store (FILE, or - for stdin). Those that are there stay as they are."""
    from ..store.transfer import import_lines

    with _opened(make=True) as store:
        if file == "-":
            done = import_lines(store, _lines(sys.stdin.buffer))
        else:
            try:
                with Path(file).open("rb") as stream:
                    done = import_lines(store, _lines(stream))
            except OSError as error:
                raise CliError(f"cannot read `{file}`: {error.strerror or error}") from None
    click.echo(f"{done.sessions} sessions; {done.skipped} were there already")


@command.command("rm")
@click.argument("sessions", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also if somebody writes into it.")
def remove(sessions: tuple[str, ...], force: bool) -> None:
    """Remove SESSIONS and everything in them."""
    with _opened() as store:
        for name in [store.find(each) for each in sessions]:
            store.remove(name, force=force)
            click.echo(f"`{name}` is gone")


@command.command("doctor")
@click.option("--repair", is_flag=True, help="Put right what a crash has left behind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(repair: bool, as_json: bool) -> None:
    """Look through the store. Exit status 1 if something cannot be read."""
    import msgspec

    from ..store.check import check

    with _opened() as store:
        report = check(store, repair=repair)
    if as_json:
        write_json({**msgspec.to_builtins(report), "good": report.good}, indent=2)
    else:
        click.echo(f"{report.where}: {report.sessions} sessions, schema {report.schema}")
        for line in report.file:
            click.echo(f"file: {_plain(line)}")
        for finding in report.damaged:
            click.echo(f"damaged: {finding.session}: {_plain(finding.what)}")
        for name in report.unfinished:
            click.echo(f"broken off: {name}{'' if not repair else ' (repaired, unless somebody writes into it)'}")
        click.echo("everything can be read" if report.good else "some of it cannot be read; the rest can")
    click.get_current_context().exit(0 if report.good else 1)


def _when(moment: float) -> str:
    """A time as it is listed; 0 is one that nobody knows."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else "(time not known)"


def _lines(stream: Any) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise CliError(f"line {number} is not UTF-8") from None


def _told(entry: Entry) -> dict[str, Any]:
    import msgspec

    return {"kind": "answer" if isinstance(entry, Answer) else "message", **msgspec.to_builtins(entry)}


def _message(message: Message) -> Iterator[str]:
    yield click.style(f"{message.role}:", bold=True)
    yield _plain(message.text)


def _answer(answer: Answer) -> Iterator[str]:
    yield click.style(f"answer ({answer.status}):", bold=True)
    for number, made in enumerate(answer.rounds, 1):
        yield f"  round {number}{': ' + _plain(made.text) if made.text else ''}"
        for record in made.calls:
            yield from _call(record)
    if answer.content:
        yield _plain(answer.content)
    for note in answer.notes:
        yield f"  note: {_plain(note.code)}: {_plain(note.detail)}"


def _call(record: CallRecord) -> Iterator[str]:
    import json

    arguments = _plain(json.dumps(record.call.arguments, ensure_ascii=False))
    yield f"    {_plain(record.call.name)} {_cut(arguments)}  [{record.state}, {record.seconds:.1f} s]"
    if record.result is not None:
        mark = "error" if record.result.error else "gave"
        yield f"      {mark}: " + _cut(_plain(record.result.content)).replace("\n", "\n        ")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters; --json prints all)"


def _plain(text: str) -> str:
    """A text that moves no cursor and sets no title."""
    return printable(text, UNSEEN, "\n\t")
