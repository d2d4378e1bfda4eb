"""`toolspeak eval`: measure how well a model calls tools, in one setting or several.

A thin face over `toolspeak.evaluation`; it decides nothing itself. The table goes to stdout, progress to stderr, files
into a folder. Exit status: 0 every case has an answer; 1 nobody was there to answer; 2 the command line is wrong;
3 some cases ended in an error; 130 it was stopped. After 1, 3 and 130 the same command goes on where this one ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import get_args

import click
import msgspec

from .. import __version__
from ..client import AsyncClient
from ..config import Config, shown_url
from ..core.text import printable
from ..dialects.registry import dialect as dialect_named
from ..engine.planning.strategy import DEFAULT_RETRIES, MOST_RETRIES, Emulation, Mode, Settings
from ..evaluation.bfcl_files import CATEGORIES
from ..evaluation.cases import Case, Suite, choose
from ..evaluation.journal import Journal, Setting, keeping
from ..evaluation.report import Report, markdown, plain, rows_of
from ..evaluation.runner import Run, Work
from ..evaluation.statistics import ALL
from ..evaluation.table import compared
from ..evaluation.variants import Way, ways_of
from ._io import CliError, write_json
from .config import loaded, usage_errors
from .eval_progress import progress
from .first_run import prepare

#: What the names of models that run here begin with.
_EMBEDDED = "embedded:"
_NOBODY, _SOME_ERRORS, _STOPPED = 1, 3, 130
#: More parts than any suite has cases.
_MOST_PARTS = 10_000
#: More cases at a time than this only wait for each other.
_MOST_PARALLEL = 256
#: Seconds for one answer, its retries included: a slow machine may think for minutes.
_PATIENCE = 300.0
#: Tokens of one answer: enough for any call of the suites and some thinking, and an end for a model that rambles.
_MOST_TOKENS = 2048

_EXAMPLES = """\b
Examples:
  toolspeak eval --model ollama:qwen3:8b
  toolspeak eval --model openai:m --base-url http://127.0.0.1:9000/v1 --mode off --mode force
  toolspeak eval --model embedded: --mode force --plan inline --plan envelope --limit 5 --parallel 1
  toolspeak eval --suite bfcl --category simple_python --limit 50 --model ollama:qwen3:8b --dialect hermes
  toolspeak eval --suite bfcl --model embedded: --settings native,inline,inline+grammar@100 --each 40 --report t.md
  toolspeak eval --suite bfcl --model embedded: --part 2/8 --out part-2

\b
Exit status: 0 every case has an answer, 1 nobody answered, 2 the command line is wrong, 3 some cases ended in an
error, 130 stopped. After 1, 3 and 130 the same command goes on.
"""


class _Part(click.ParamType[tuple[int, int]]):
    """Which part of how many, as `2/8`."""

    name = "K/N"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Both numbers."""
        if isinstance(value, tuple):
            return value
        number, _, parts = value.partition("/")
        if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts) <= _MOST_PARTS):
            self.fail(f"{value!r} is not a part of a whole: write the second of eight as 2/8", param, ctx)
        return int(number), int(parts)


class _Asked(msgspec.Struct, frozen=True):
    """The command line."""

    model: str
    base_url: str
    suite: str
    category: tuple[str, ...]
    mode: tuple[Mode, ...]
    plan: tuple[str, ...]
    dialect: tuple[str, ...]
    marks: tuple[str, ...]
    settings: str
    adapter: str
    limit: int | None
    each: int | None
    seed: int
    part: tuple[int, int]
    parallel: int
    timeout: float
    retries: int
    temperature: float
    max_tokens: int
    out: str
    report: str
    as_json: bool


@click.command("eval", epilog=_EXAMPLES)
@click.option("--model", metavar="PROVIDER:MODEL", default="", help="The model; by default the configured one.")
@click.option("--base-url", metavar="URL", default="", help="Where it is, if not at its provider's own host.")
@click.option(
    "--suite", type=click.Choice(["builtin", "bfcl"]), default="builtin", show_default=True, help="The cases."
)
@click.option("--category", multiple=True, metavar="NAME", help="Only these cases; may be given several times.")
@click.option(
    "--mode", multiple=True, type=click.Choice(get_args(Mode)), help="Who calls, by default auto; several: each."
)
@click.option(
    "--plan",
    multiple=True,
    type=click.Choice(["auto", *get_args(Emulation)]),
    help="How to emulate, by default auto; several: each.",
)
@click.option("--dialect", multiple=True, metavar="NAME", default=["auto"], help="How calls look; several: each.")
@click.option(
    "--marks",
    multiple=True,
    type=click.Choice(["auto", "nonce", "fixed"]),
    default=["auto"],
    help="Whether calls carry a nonce; several: each.",
)
@click.option(
    "--settings",
    metavar="WAYS",
    default="",
    help="Ways to call by name, instead of modes and plans: native,inline,inline+grammar,decision+grammar@100 ...",
)
@click.option(
    "--adapter", metavar="FILE", default="", help="A LoRA adapter (GGUF) for a model that runs here, or none."
)
@click.option("--limit", type=click.IntRange(1), help="At most so many cases, from all categories alike.")
@click.option("--each", type=click.IntRange(1), help="At most so many cases of each category.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides which ones a limit leaves.")
@click.option(
    "--part",
    type=_Part(),
    default="1/1",
    help="Only the K-th of N equal parts, to share a run among machines; their cases.jsonl can be put together.",
)
@click.option(
    "--parallel", type=click.IntRange(1, _MOST_PARALLEL), default=4, show_default=True, help="Cases at a time."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=_PATIENCE,
    show_default=True,
    help="Seconds for one answer.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, MOST_RETRIES),
    default=DEFAULT_RETRIES,
    show_default=True,
    help="How often a wrong answer is asked for again.",
)
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="Of the model.")
@click.option("--max-tokens", type=click.IntRange(1), default=_MOST_TOKENS, show_default=True, help="Of one answer.")
@click.option("--out", metavar="FOLDER", default="toolspeak-eval", show_default=True, help="Where results are kept.")
@click.option("--report", metavar="FILE", default="", help="Also write a table of all ways that are kept there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(**given: object) -> None:
    """Measure how well a model calls tools through toolspeak.

    The builtin suite has 30 tasks and needs nothing. The suite `bfcl` has 2351 cases of the Berkeley Function-Calling
    Leaderboard; its files are fetched once. Modes, plans, dialects and marks are combined: each combination is
    measured; or --settings names ways to call. Every finished case is kept at once. A run that was stopped goes on
    with the same command.
    """
    asked = msgspec.convert(given, _Asked)
    with usage_errors():
        config = loaded({"adapter": asked.adapter} if asked.adapter else None)
        model = _named(asked, config)
        _check_ways(asked)
        _check_adapter(asked, model)
        _check_dialects(asked.dialect)
        suite = _suite(asked, config)
        work = _work(asked, _settings(asked, _full_name(asked, model, config), config, suite), _wanted(asked, suite))
        client = AsyncClient(model, base_url=asked.base_url, config=config)
        journal = Journal(Path(asked.out) / "cases.jsonl")
        stopped, nobody = _measured(asked, client, suite, journal, work)
        report = _report(asked, suite, journal, work)
        _write(Path(asked.out), report)
        _compare(asked, suite, journal, work)
    _show(report, asked)
    errors = sum(row.scores[ALL].errors for row in report.rows)
    if stopped:
        done = sum(row.scores[ALL].cases for row in report.rows)
        click.echo(f"stopped: {done} of {_count(work)} cases are kept; the same command goes on", err=True)
        sys.exit(_STOPPED)
    if errors:
        _tell_errors(journal, work, errors)
        sys.exit(_NOBODY if nobody else _SOME_ERRORS)


# ---- what is asked


def _suite(asked: _Asked, config: Config) -> Suite:
    if asked.suite == "builtin":
        from ..evaluation.builtin import Builtin

        return Builtin()
    from ..evaluation.bfcl import Bfcl
    from ..evaluation.bfcl_files import DISTRIBUTION, VERSION, find, obtain

    files = find(config.cache_folder)
    if files is None:
        click.echo(f"fetching the files of {DISTRIBUTION} {VERSION}, 2 MB, once, into {config.cache_folder}", err=True)
        files = obtain(config.cache_folder, config.environment())
    return Bfcl(files, [name for name in asked.category if name in CATEGORIES])


def _wanted(asked: _Asked, suite: Suite) -> list[Case]:
    """The cases of the categories asked for."""
    there = dict.fromkeys(case.category for case in suite.cases)
    known = list(CATEGORIES) if asked.suite == "bfcl" else list(there)
    unknown = [name for name in asked.category if name not in known]
    if unknown:
        raise CliError(f"there is no category `{unknown[0]}` in {suite.name}", hint=f"use {', '.join(known)}")
    return [case for case in suite.cases if not asked.category or case.category in asked.category]


def _check_dialects(names: Sequence[str]) -> None:
    """Before anything is fetched or asked."""
    for name in names:
        if name != "auto":
            dialect_named(name)


def _check_ways(asked: _Asked) -> None:
    """Ways by name are modes and plans already; one of both would be passed over."""
    given = " and ".join(option for option, said in (("--mode", asked.mode), ("--plan", asked.plan)) if said)
    if asked.settings and given:
        raise CliError(
            f"--settings names ways to call instead of {given}",
            hint=f"leave out {given}, or --settings; `native` is --mode off",
        )


def _check_adapter(asked: _Asked, model: str) -> None:
    if asked.adapter and not _is_here(asked, model):
        raise CliError(
            f"--adapter is for a model that runs here, which `{model}` is not",
            hint="leave it out, or name the model that it was made for: --model embedded: or a GGUF file",
        )


def _is_here(asked: _Asked, model: str) -> bool:
    return model.startswith(_EMBEDDED) and not asked.base_url


def _named(asked: _Asked, config: Config) -> str:
    """The model with its provider; one that can only run here needs none."""
    from ..upstreams.embedded.hub import runs_here

    model = asked.model or config.model
    if not model:
        raise CliError("which model?", hint="name one with --model provider:model")
    if model == _EMBEDDED.removesuffix(":"):
        return _EMBEDDED
    here = runs_here(model) and not asked.base_url and not model.startswith(_EMBEDDED)
    return f"{_EMBEDDED}{model}" if here else model


def _full_name(asked: _Asked, model: str, config: Config) -> str:
    """The model by its full name. One that runs here is made ready, and may have been named by its provider only."""
    if not _is_here(asked, model):
        return model
    name = prepare(config, model.removeprefix(_EMBEDDED))
    return f"{model}{name}" if model == _EMBEDDED else model


def _ways(asked: _Asked, config: Config, model: str) -> Iterable[Way]:
    if asked.settings:
        return ways_of(asked.settings)
    constrain = config.settings_for(model).constrain
    pairs = product(asked.mode or ("auto",), asked.plan or ("auto",))
    return (msgspec.convert((mode, "" if plan == "auto" else plan, constrain), Way) for mode, plan in pairs)


def _settings(asked: _Asked, model: str, config: Config, suite: Suite) -> dict[Setting, int | None]:
    """Every combination, and of how many cases of each category; those that make no difference count once."""
    made: dict[Setting, int | None] = {}
    adapter = _adapter(config, model.removeprefix(_EMBEDDED)) if model.startswith(_EMBEDDED) else ""
    for way, dialect, marks in product(_ways(asked, config, model), asked.dialect, asked.marks):
        # With mode off nothing is emulated, so that how to emulate says nothing.
        manner = {"plan": way.plan, "dialect": "" if dialect == "auto" else dialect, "marks": marks}
        whole = {
            "suite": suite.name,
            "version": suite.version,
            "model": model,
            "base_url": shown_url(asked.base_url),
            "mode": way.mode,
            "retries": asked.retries,
            "temperature": asked.temperature,
            "max_tokens": asked.max_tokens,
            "others": _others(config, model),
            "adapter": adapter,
            **({**manner, "constrain": way.constrain} if way.mode != "off" else {}),
        }
        made[msgspec.convert(whole, Setting)] = way.each
    return made


def _adapter(config: Config, model: str) -> str:
    """An adapter by its name and the beginning of its hash: answers with another one must not be mixed."""
    from ..upstreams.embedded.upstream import recipe_for

    used = recipe_for(model, config.adapter).adapter
    if not used:
        return ""
    path = Path(used)
    with path.open("rb") as file:  # it is there, or the model would not have been made ready
        return f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"


def _work(asked: _Asked, settings: dict[Setting, int | None], cases: Sequence[Case]) -> Work:
    """The settings, each with its cases."""
    categories = len({case.category for case in cases})

    def most(each: int | None) -> int | None:
        of_each = each or asked.each
        limits = [limit for limit in (of_each and of_each * categories, None if each else asked.limit) if limit]
        return min(limits, default=None)

    number, parts = asked.part
    return [(setting, choose(cases, most(each), asked.seed)[number - 1 :: parts]) for setting, each in settings.items()]


def _count(work: Work) -> int:
    return sum(len(cases) for _, cases in work)


#: Settings that a run gives itself.
_OWN = frozenset({"mode", "plan", "dialect", "marks", "constrain", "retries", "probe"})


def _others(config: Config, model: str) -> tuple[str, ...]:
    """What the configuration changes besides: answers under other settings must not be mixed."""
    usual, mine = Settings(), config.settings_for(model)
    names = (name for name in Settings.__struct_fields__ if name not in _OWN)
    return tuple(f"{name}={getattr(mine, name)}" for name in names if getattr(mine, name) != getattr(usual, name))


# ---- the run


def _measured(asked: _Asked, client: AsyncClient, suite: Suite, journal: Journal, work: Work) -> tuple[bool, bool]:
    """Ask what is not finished. Says whether it was stopped, and whether nobody was there."""
    with progress() as heard:
        run = Run(client, suite, journal, parallel=asked.parallel, timeout=asked.timeout, heard=heard)
        missing = len(list(run.missing(work)))
        heard.begin(missing, _count(work))

        async def ask() -> None:
            async with client:
                await run.run(work)

        try:
            asyncio.run(ask())
        except KeyboardInterrupt:
            return True, False
    return False, run.given_up or (missing > 0 and not run.answered)


# ---- what came of it


def _report(asked: _Asked, suite: Suite, journal: Journal, work: Work) -> Report:
    first = work[0][0]
    return Report(
        suite=suite.name,
        suite_version=suite.version,
        toolspeak=__version__,
        model=first.model,
        base_url=first.base_url,
        seed=asked.seed,
        when=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        rows=rows_of((setting, journal.of(setting, _ids(cases)), len(cases)) for setting, cases in work),
    )


def _ids(cases: Sequence[Case]) -> list[str]:
    return [case.id for case in cases]


def _compare(asked: _Asked, suite: Suite, journal: Journal, work: Work) -> None:
    """A table of these settings and of all others like them that are kept."""
    if not asked.report:
        return
    path = Path(asked.report)
    categories = asked.category or tuple(dict.fromkeys(case.category for case in suite.cases))
    settings = list(dict.fromkeys([*(setting for setting, _ in work), *journal.like(work[0][0])]))
    with keeping(path):
        path.write_text(compared([(each, journal.all(each)) for each in settings], categories), encoding="utf-8")


def _write(folder: Path, report: Report) -> None:
    from ..evaluation.chart import chart

    pages = {
        "results.json": msgspec.json.format(msgspec.json.encode(plain(report)), indent=2).decode() + "\n",
        "results.md": markdown(report),
        "results.svg": chart(report),
    }
    with keeping(folder):
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")


def _show(report: Report, asked: _Asked) -> None:
    if asked.as_json:
        write_json(plain(report), indent=2)
        return
    click.echo(markdown(report), nl=False)
    click.echo(f"kept in {asked.out}: cases.jsonl, results.json, results.md, results.svg", err=True)


def _tell_errors(journal: Journal, work: Work, count: int) -> None:
    """How many cases ended in an error, and the first of them."""
    first = next(each for setting, cases in work for each in journal.of(setting, _ids(cases)) if each.error)
    # Part of it is what a server said: nothing in it may steer the terminal.
    told = printable(first.error, " ")
    click.echo(f"error: {count} cases ended in an error; the first, {first.case}: {told}", err=True)
    click.echo("hint: the same command asks these again", err=True)
