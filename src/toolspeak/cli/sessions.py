"""`toolspeak sessions`: list, search, show, export, import, remove and check agent sessions.

Text from models and tools is untrusted, so control characters are removed.
"""

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..config import load
from ..core.text import counted, system_reason
from ..core.types import Message, Note
from ..engine.rounds.transcript import Answer, Entry
from ..errors import NoStoreError
from ._io import CliError, clean, echo, open_input, write_json
from .config import usage_errors

if TYPE_CHECKING:
    from ..store.sessions import SessionInfo, Store

_MAX_CHARS = 2_000  # maximum number of characters of a result that `show` prints; `--json` prints all
#: Note with the error of an answer on the page. Its other `page_` notes are of use to the page only.
_PAGE_ERROR = "page_error"
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60}
_MAX_DAYS = 30  # older sessions are listed with their date


@contextmanager
def _open_store(*, make: bool = False) -> "Generator[Store]":
    """Open the store. Create it only if `make` is set, so a typo in the URL does not create an empty store."""
    group = click.get_current_context().parent
    assert group is not None  # the command is one of `sessions`
    url, owner = group.params["url"], group.params["owner"]
    if url and ":" in url.partition("://")[2].rpartition("@")[0]:
        hint = "other users can see command lines; set TOOLSPEAK_STORE, or `store` in the configuration"
        raise CliError("--store must not contain a password", hint=hint)
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


def list_command(text: str, limit: int, as_json: bool) -> None:
    with _open_store() as store:
        sessions = store.sessions(text, limit=limit)
    if as_json:
        write_json(msgspec.to_builtins(sessions), indent=2)
        return
    if not sessions:
        echo("No session contains this." if text else "No sessions yet. Start one with: toolspeak chat", err=True)
    for info in sessions:
        echo(f"{info.id[:12]}  {_ago(info.updated):<14}  {_title(info)}  ({_facts(info)})")


def show_command(session: str, as_json: bool) -> None:
    with _open_store() as store:
        name = store.find(session)
        info, entries = store.info(name), store.entries(name)
    if as_json:
        write_json({**msgspec.to_builtins(info), "conversation": [_entry_json(entry) for entry in entries]}, indent=2)
        return
    echo(f"{click.style(_title(info), bold=True)}\n{info.id}  {_when(info.updated)}  ({_facts(info)})")
    for entry in entries:
        echo()
        for line in _entry(entry):
            echo(line)


def export_command(sessions: tuple[str, ...], output: str | None) -> None:
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
            raise CliError(f"cannot write `{output}`: {system_reason(error)}") from None


def import_command(file: str) -> None:
    from ..store.transfer import import_lines

    with _open_store(make=True) as store, open_input(file) as stream:
        done = import_lines(store, _lines(stream))
    echo(f"Imported {counted(done.sessions, 'session')}; {done.skipped} already existed")


def rm_command(sessions: tuple[str, ...], force: bool) -> None:
    with _open_store() as store:
        for name in [store.find(each) for each in sessions]:
            store.remove(name, force=force)
            echo(f"Removed `{name}`")


def doctor_command(repair: bool, as_json: bool) -> None:
    from ..store.check import check

    with _open_store() as store:
        report = check(store, repair=repair)
    if as_json:
        write_json({**msgspec.to_builtins(report), "good": report.good}, indent=2)
    else:
        echo(f"{report.where}: {counted(report.sessions, 'session')}, schema {report.schema}")
        for line in report.file:
            echo(f"file: {clean(line)}")
        for finding in report.damaged:
            echo(f"damaged: {finding.session}: {clean(finding.what)}")
        for name in report.unfinished:
            echo(f"interrupted: {name}{'' if not repair else ' (repaired unless in use)'}")
        echo("All sessions are readable" if report.good else "Some sessions are unreadable")
    click.get_current_context().exit(0 if report.good else 1)


def _title(info: "SessionInfo") -> str:
    return clean(info.title) or "(empty)"


def _facts(info: "SessionInfo") -> str:
    """Describe where a session comes from, how large it is and whether it is in use."""
    place = "on the page" if info.about.get("from") == "page" else "agent"
    lock = info.holder and f"in use by {info.holder}"
    tokens = f"{info.input_tokens + info.output_tokens:,} tokens"
    return clean(", ".join(filter(None, (str(info.about.get("model", "")), place, tokens, lock))))


def _when(moment: float) -> str:
    """Format a time, of which 0 means unknown."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else "(time unknown)"


def _ago(moment: float) -> str:
    age = time.time() - moment
    if age > _MAX_DAYS * _UNITS["day"]:
        return _when(moment)
    unit = next((unit for unit, seconds in _UNITS.items() if age >= seconds), "")
    return f"{counted(int(age // _UNITS[unit]), unit)} ago" if unit else "just now"


def _lines(stream: Any) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise CliError(f"line {number} is not UTF-8") from None


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"kind": "answer" if isinstance(entry, Answer) else "message", **msgspec.to_builtins(entry)}


def _entry(entry: Entry) -> Iterator[str]:
    from ..agent.events import AgentResult
    from .agent_screen import closing_line, coloured, round_text

    if isinstance(entry, Message):
        yield click.style("You:" if entry.role == "user" else f"{entry.role.capitalize()}:", bold=True)
        yield clean(entry.text)
        return
    yield click.style("Answer:", bold=True)
    for number, round_ in enumerate(entry.rounds, 1):
        yield round_text(number, round_, _MAX_CHARS)
    if entry.content:
        yield clean(entry.content)
    errors = (Note("failed", each.detail.removeprefix("error: ")) for each in entry.notes if each.code == _PAGE_ERROR)
    notes = (*errors, *entry.notes)
    if line := closing_line(AgentResult("", entry.rounds, entry.status, entry.usage, notes, "", entry.requests)):
        yield coloured(line)
