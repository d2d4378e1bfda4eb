"""`toolspeak probe`: measure a model's capabilities; show, list and delete stored results.

Results go to stdout, progress to stderr. `commands.toml` lists the exit statuses.
"""

import asyncio
import sys
import time
from functools import partial
from typing import Any

import msgspec

from ..config import redacted_url
from ..core.text import counted
from ..engine.planning.capabilities import capabilities
from ..engine.planning.probe_questions import ProbeAnswer, ProbeQuestion
from ..engine.planning.probe_results import ProbeResult
from ..errors import ToolspeakError
from ..plugins import plugins_for
from ..runtime.learning import UseStore
from ..runtime.model_resolution import ResolvedModel, resolve_model
from ..runtime.probe_cache import ProbeStore, StoredProbe, apply_result, probe_target
from ..runtime.prober import measure
from ._io import CliError, Spinner, echo, print_error, write_json
from .config import load_config, usage_errors

_UNREACHABLE, _NO_TOOLS = 1, 3
#: Labels of the probed traits whose names are not labels themselves.
_TITLES = (
    {"reach": "reachable", "native": "native calls", "required": "obeys `required`", "parallel": "parallel calls"}
    | {"system_role": "system role", "dialects": "best dialect", "constraint": "enforces"}
    | {"envelope": "enforced calls", "plan": "best plan"}
)
#: What a capability means, for people.
_CAPABILITIES = {"none": "no native calls", "openai": "native calls", "advanced": "native calls in a vendor's form"}


def command(model: str, base_url: str, refresh: bool, full: bool, forget: bool, listing: bool, as_json: bool) -> None:
    with usage_errors():
        config = load_config()
        store = ProbeStore(config.state())
        if listing:
            _list(store, as_json)
            return
        if not model and not config.model:
            raise CliError("missing model", hint="write PROVIDER:MODEL, or use --list")
        capabilities().configure(*config.overrides())
        reached = resolve_model(model or config.model, base_url, "", config, plugins_for(config.load_plugins))
        if forget:
            there = store.forget(probe_target(reached))
            UseStore(store.state, store.clock).forget(probe_target(reached))
            echo(f"Deleted the result of {reached}" if there else f"No stored result for {reached}")
            return
        stored = store.get(probe_target(reached))
        if stored is None or refresh or full or not stored.is_fresh(store.clock()):
            stored = _run_probe(reached, store, full)
        else:
            echo("note: this is a stored result; use --refresh to probe again", err=True)
    _show(stored, as_json)
    fields = stored.verdict.fields
    if fields.get("capability", "none") == "none" and "dialect" not in fields and "plan" not in fields:
        sys.exit(_NO_TOOLS)


def _run_probe(reached: ResolvedModel, store: ProbeStore, full: bool) -> StoredProbe:
    place = probe_target(reached)
    apply_result(capabilities(), place, None)  # ignore an earlier result
    profile = capabilities().find(*place).profile

    async def ask(spinner: Spinner) -> ProbeResult:
        try:
            return await measure(reached, profile, full=full, progress=partial(_progress, spinner))
        finally:
            await reached.upstream.close()

    try:
        with Spinner("asking the model") as spinner:
            verdict = asyncio.run(ask(spinner))
    except ToolspeakError as error:
        verdict = ProbeResult(unreachable=str(error))
    if verdict.unreachable:
        hint = "check the base URL and the API key, and that the server is running"
        print_error(f"cannot reach {reached}: {verdict.unreachable}", hint)
        sys.exit(_UNREACHABLE)
    return store.record_measurement(place, verdict)


def _progress(spinner: Spinner, question: ProbeQuestion, answer: ProbeAnswer, requests: int) -> None:
    what = _TITLES.get(question.trait, question.trait)
    about = f"{what} ({question.dialect})" if question.dialect else what
    line = f"request {requests}: {about}: {answer.kind}"
    spinner.show(line)
    if not sys.stderr.isatty():
        echo(line, err=True)


def _list(store: ProbeStore, as_json: bool) -> None:
    probes = store.all()
    if as_json:
        write_json([_plain(stored) for stored in probes], indent=2)
        return
    if not probes:
        echo("No stored results. Probe a model with: toolspeak probe PROVIDER:MODEL", err=True)
    now = store.clock()
    for stored in probes:
        state = "fresh" if stored.is_fresh(now) else "expired"
        capability = stored.verdict.fields.get("capability", "?")
        where = f"{stored.provider}:{stored.model}  {redacted_url(stored.base_url)}"
        echo(f"{_day(stored)}  {where}  {_CAPABILITIES.get(capability, capability)}  ({state})")


def _show(stored: StoredProbe, as_json: bool) -> None:
    if as_json:
        write_json(_plain(stored), indent=2)
        return
    verdict = stored.verdict
    rows = [(_TITLES.get(each.trait, each.trait), each.value, each.evidence) for each in verdict.findings]
    usage = verdict.usage
    tokens = f"{counted(usage.input_tokens, 'token')} in, {usage.output_tokens} out"
    where = redacted_url(stored.base_url) or "its default host"
    echo(f"{stored.provider}:{stored.model} at {where}, {_day(stored)}")
    if sys.stdout.isatty():
        _print_table(rows)
    else:
        for title, value, evidence in rows:
            echo(f"{title:<18}{value:<16}{evidence}".rstrip())
    echo(f"cost: {counted(verdict.requests, 'request')}, {tokens}")


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "result", "evidence", box=None, pad_edge=False)
    for row in rows:
        # Wrapped in Text, because server output must not be parsed as markup.
        table.add_row(*map(Text, row))
    Console().print(table)


def _plain(stored: StoredProbe) -> Any:
    return {**msgspec.to_builtins(stored), "base_url": redacted_url(stored.base_url)}


def _day(stored: StoredProbe) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(stored.measured)) if stored.measured else "-"
