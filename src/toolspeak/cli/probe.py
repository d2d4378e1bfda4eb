"""`toolspeak probe`: find out what a model can do, by asking it; show, list and forget what was found.

A thin face over `toolspeak.runtime.prober`; it decides nothing itself. The result goes to stdout, progress to stderr. Exit
status: 0 tools will work, natively or by text; 1 the model could not be asked; 2 the command line is wrong; 3 the model
answers, but no way to make it call was found.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import click
import msgspec

from ..config import Config, shown_url
from ..engine.planning.capabilities import capabilities
from ..engine.planning.probe_questions import Asked, Heard
from ..engine.planning.probe_verdicts import Verdict
from ..engine.planning.probes import MOST_REQUESTS
from ..errors import ToolspeakError
from ..plugins import Plugins
from ..runtime.model_resolution import Reached, reach
from ..runtime.probe_cache import ProbeStore, Stored, apply, place_of
from ..runtime.prober import measure
from ._io import CliError, write_json
from .config import loaded, usage_errors

_UNREACHABLE, _HELPLESS = 1, 3
#: What each row is called.
_TITLES = {
    "reach": "does it answer",
    "native": "native calls",
    "required": "obeys `required`",
    "parallel": "parallel calls",
    "system_role": "system role",
    "streams": "streams",
    "dialects": "best dialect",
    "marks": "marks",
    "constraint": "enforces",
    "envelope": "enforced calls",
    "plan": "best plan",
    "media": "media",
}
_EXAMPLES = """\b
Examples:
  toolspeak probe ollama:qwen3:8b
  toolspeak probe openai:my-model --base-url http://127.0.0.1:9000/v1 --refresh
  toolspeak probe --list
  toolspeak probe ollama:qwen3:8b --forget
"""


@click.command("probe", epilog=_EXAMPLES)
@click.argument("model", metavar="PROVIDER:MODEL", default="")
@click.option("--base-url", metavar="URL", default="", help="Where the model is, if not at its provider's own host.")
@click.option("--refresh", is_flag=True, help="Ask again, whatever is stored.")
@click.option("--full", is_flag=True, help="Also rank dialects where the model calls natively.")
@click.option("--forget", is_flag=True, help="Forget what is stored; nothing is asked.")
@click.option("--list", "listing", is_flag=True, help="Print every stored result; nothing is asked.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str, base_url: str, refresh: bool, full: bool, forget: bool, listing: bool, as_json: bool) -> None:
    """Ask a model what it can do, and remember it.

    Some 13 to 25 small requests, one after the other; they cost what requests cost. A result is stored for a week and
    used by `auto` from then on. A fresh one is shown without asking again.
    """
    with usage_errors():
        config = loaded()
        store = ProbeStore(config.state())
        if listing:
            _list(store, as_json)
            return
        if not model and not config.model:
            raise CliError("which model?", hint="name one as provider:model, or use --list")
        reached = _reached(model, base_url, config)
        if forget:
            _forget(store, reached)
            return
        stored = store.get(place_of(reached))
        if stored is None or refresh or full or not stored.is_fresh(store.clock()):
            stored = _asked(reached, store, full)
        else:
            click.echo("note: this is a stored result; --refresh asks again", err=True)
    _show(stored, as_json)
    if not _works(stored.verdict):
        sys.exit(_HELPLESS)


def _reached(model: str, base_url: str, config: Config) -> Reached:
    capabilities().configure(*config.overrides())
    return reach(model or config.model, base_url, "", config, Plugins(config.load_plugins))


def _forget(store: ProbeStore, reached: Reached) -> None:
    there = store.forget(place_of(reached))
    click.echo(f"forgotten: {reached}" if there else f"nothing was stored for {reached}")


def _asked(reached: Reached, store: ProbeStore, full: bool) -> Stored:
    place = place_of(reached)
    apply(capabilities(), place, None)  # what was measured before must not colour what is measured now
    profile = capabilities().find(*place).profile

    async def ask() -> Verdict:
        try:
            return await measure(reached, profile, full=full, progress=_progress)
        finally:
            await reached.upstream.close()

    try:
        verdict = asyncio.run(ask())
    except ToolspeakError as error:
        verdict = Verdict(unreachable=str(error))
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    if verdict.unreachable:
        click.echo(f"error: {reached} could not be asked: {verdict.unreachable}", err=True)
        click.echo("hint: is it running, is the base URL right, is there a key for it?", err=True)
        sys.exit(_UNREACHABLE)
    return store.measured(place, verdict)


def _progress(asked: Asked, heard: Heard, requests: int) -> None:
    what = _TITLES.get(asked.trait, asked.trait)
    about = f"{what} ({asked.dialect})" if asked.dialect else what
    line = f"request {requests} of at most {MOST_REQUESTS}: {about}: {heard.kind}"
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)
    else:
        click.echo(line, err=True)


# ---- showing


def _works(verdict: Verdict) -> bool:
    fields = verdict.fields
    return fields.get("capability", "none") != "none" or "dialect" in fields or "plan" in fields


def _list(store: ProbeStore, as_json: bool) -> None:
    found = store.all()
    if as_json:
        write_json([_plain(stored) for stored in found], indent=2)
        return
    now = store.clock()
    for stored in found:
        state = "fresh" if stored.is_fresh(now) else "to be renewed" if stored.measured else "learned in use"
        says = {**stored.verdict.fields, **stored.learned}
        name = f"{stored.provider}:{stored.model}"
        click.echo(f"{_day(stored)}  {name}  {shown_url(stored.base_url)}  {says.get('capability', '?')}  ({state})")


def _show(stored: Stored, as_json: bool) -> None:
    if as_json:
        write_json(_plain(stored), indent=2)
        return
    verdict = stored.verdict
    rows = [(_TITLES.get(each.trait, each.trait), each.value, each.evidence) for each in verdict.findings]
    usage = verdict.usage
    cost = f"{verdict.requests} requests, {usage.input_tokens} tokens in, {usage.output_tokens} out"
    click.echo(f"{stored.provider}:{stored.model} at {shown_url(stored.base_url) or 'its own host'}, {_day(stored)}")
    if sys.stdout.isatty():
        _rich(rows)
    else:
        for title, value, evidence in rows:
            click.echo(f"{title:<18}{value:<16}{evidence}".rstrip())
    if stored.learned:
        click.echo(f"since then: {stored.learned_why}")
    click.echo(f"it took {cost}")


def _rich(rows: list[tuple[str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "found", "evidence", box=None, pad_edge=False)
    for row in rows:
        # As text: what a server said must not be read as markup.
        table.add_row(*map(Text, row))
    Console().print(table)


def _plain(stored: Stored) -> Any:
    return {**msgspec.to_builtins(stored), "base_url": shown_url(stored.base_url)}


def _day(stored: Stored) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(stored.measured)) if stored.measured else "-"
