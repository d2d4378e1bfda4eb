"""`toolspeak eval`: measure how well a model calls tools, in one setting or several.

The table goes to stdout, progress to stderr, results to a folder. `commands.toml` lists the exit statuses.
"""

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from textwrap import shorten

import click
import msgspec

from .. import __version__
from ..client import AsyncClient
from ..config import Config, redacted_url
from ..core.text import counted, suggestion
from ..dialects.registry import dialect as dialect_named
from ..engine.planning.strategy import Mode, Settings
from ..evaluation.bfcl import CATEGORIES
from ..evaluation.cases import EvalCase, Suite, choose
from ..evaluation.report import EvalReport, comparison_table, markdown, plain, rows_of
from ..evaluation.results_file import CaseResult, EvalSetting, ResultsFile, file_errors
from ..evaluation.runner import EvalRun, Work
from ..evaluation.statistics import ALL
from ..evaluation.variants import CallVariant, parse_variants
from ._io import CliError, Spinner, clean, echo, print_answer, print_error, write_json
from .config import load_config, usage_errors
from .first_run import prepare_embedded

_EMBEDDED = "embedded:"  # prefix of the names of embedded models
_NO_ANSWERS, _SOME_ERRORS, _STOPPED = 1, 3, 130
_MAX_PARTS = 10_000
_LINES = 10  # maximum number of progress lines if stderr is not a terminal
_BAR_WIDTH = 24
_MAX_WRONG = 20  # maximum number of wrong answers to list
_MAX_SHOWN = 200  # maximum number of characters of a wrong answer to show


class _EvalOptions(msgspec.Struct, frozen=True):
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
    part: str
    parallel: int
    timeout: float
    retries: int
    temperature: float
    max_tokens: int
    out: str
    report: str
    as_json: bool


def command(**values: object) -> None:
    options = msgspec.convert(values, _EvalOptions)
    with usage_errors():
        config = load_config({"adapter": options.adapter} if options.adapter else None)
        model = _model_name(options, config)
        _check_options(options, model)
        suite = _suite(options, config)
        settings = _settings(options, _prepared_name(options, model, config), config, suite)
        work = _work(options, settings, _selected_cases(options, suite))
        client = AsyncClient(model, base_url=options.base_url, config=config)
        journal = ResultsFile(Path(options.out) / "cases.jsonl")
        stopped, silent = _run_cases(options, client, suite, journal, work)
        report = _report(options, suite, journal, work)
        _write(Path(options.out), report)
        _compare(options, suite, journal, work)
    if options.as_json or not silent:
        _show(report, options)
    _print_wrong(journal, work)
    errors = sum(row.scores[ALL].errors for row in report.rows)
    if stopped:
        done = sum(row.scores[ALL].cases for row in report.rows)
        echo(f"interrupted: {done} of {_count(work)} cases saved; run the same command to resume", err=True)
        sys.exit(_STOPPED)
    if errors:
        _report_errors(journal, work, errors)
        sys.exit(_NO_ANSWERS if silent else _SOME_ERRORS)


def _suite(options: _EvalOptions, config: Config) -> Suite:
    if options.suite != "bfcl":
        from ..evaluation.builtin import Builtin

        return Builtin(None if options.suite == "builtin" else Path(options.suite))
    from ..evaluation.bfcl import DISTRIBUTION, VERSION, Bfcl, find_files, obtain_files

    files = find_files(config.cache_folder)
    if files is None:
        echo(f"fetching {DISTRIBUTION} {VERSION} (2 MB, only once) into {config.cache_folder}", err=True)
        files = obtain_files(config.cache_folder, config.environment())
    return Bfcl(files, [name for name in options.category if name in CATEGORIES])


def _selected_cases(options: _EvalOptions, suite: Suite) -> list[EvalCase]:
    in_suite = dict.fromkeys(case.category for case in suite.cases)
    categories = list(CATEGORIES) if options.suite == "bfcl" else list(in_suite)
    unknown = [name for name in options.category if name not in categories]
    if unknown:
        raise CliError(f"unknown category `{unknown[0]}` in {suite.name}", hint=suggestion(unknown[0], categories))
    return [case for case in suite.cases if not options.category or case.category in options.category]


def _check_options(options: _EvalOptions, model: str) -> None:
    """Reject contradictory options and unknown dialects before anything is downloaded or sent."""
    values = {"--mode": options.mode, "--plan": options.plan}
    conflicting = " and ".join(option for option, value in values.items() if value)
    if options.settings and conflicting:
        hint = f"omit {conflicting} or --settings; `native` is the same as --mode off"
        raise CliError(f"--settings cannot be combined with {conflicting}", hint=hint)
    if options.adapter and not _is_embedded(options, model):
        hint = "omit --adapter, or pass its base model: --model embedded: or a GGUF file"
        raise CliError(f"--adapter needs an embedded model, but `{model}` is not one", hint=hint)
    _part(options.part)
    for name in options.dialect:
        if name != "auto":
            dialect_named(name)


def _is_embedded(options: _EvalOptions, model: str) -> bool:
    return model.startswith(_EMBEDDED) and not options.base_url


def _model_name(options: _EvalOptions, config: Config) -> str:
    """Return the model with its provider. Embedded models can be given without one."""
    from ..upstreams.embedded.hub import runs_here

    model = options.model or config.model_at(options.base_url)
    if not model:
        raise CliError("missing model", hint="add --model PROVIDER:MODEL")
    if model == _EMBEDDED.removesuffix(":"):
        return _EMBEDDED
    implied = runs_here(model) and not options.base_url and not model.startswith(_EMBEDDED)
    return f"{_EMBEDDED}{model}" if implied else model


def _prepared_name(options: _EvalOptions, model: str, config: Config) -> str:
    """Return the full name of the model. Prepare it if it is embedded, and complete the name `embedded:`."""
    if not _is_embedded(options, model):
        return model
    name = prepare_embedded(config, model.removeprefix(_EMBEDDED))
    return f"{model}{name}" if model == _EMBEDDED else model


def _variants(options: _EvalOptions, config: Config, model: str) -> Iterable[CallVariant]:
    if options.settings:
        return parse_variants(options.settings)
    constrain = config.settings_for(model).constrain
    pairs = product(options.mode or ("auto",), options.plan or ("auto",))
    return (msgspec.convert((mode, "" if plan == "auto" else plan, constrain), CallVariant) for mode, plan in pairs)


def _settings(options: _EvalOptions, model: str, config: Config, suite: Suite) -> dict[EvalSetting, int | None]:
    """Map every distinct combination of settings to its number of cases per category."""
    settings: dict[EvalSetting, int | None] = {}
    adapter = _adapter_name(config, model.removeprefix(_EMBEDDED)) if model.startswith(_EMBEDDED) else ""
    measured = {"suite": suite.name, "version": suite.version, "model": model, "adapter": adapter}
    place = {"base_url": redacted_url(options.base_url), "others": _other_settings(config, model)}
    request = {"retries": options.retries, "temperature": options.temperature, "max_tokens": options.max_tokens}
    for variant, dialect, marks in product(_variants(options, config, model), options.dialect, options.marks):
        fields = {**measured, **place, **request, "mode": variant.mode}
        if variant.mode != "off":  # otherwise nothing is emulated, and these options have no effect
            fields |= {"plan": variant.plan, "dialect": "" if dialect == "auto" else dialect, "marks": marks}
            fields |= {"constrain": variant.constrain}
        settings[msgspec.convert(fields, EvalSetting)] = variant.each
    return settings


def _adapter_name(config: Config, model: str) -> str:
    """Name an adapter by file name and hash prefix, to distinguish the results of different adapters."""
    from ..upstreams.embedded.upstream import recipe_for

    used = recipe_for(model, config.adapter).adapter
    if not used:
        return ""
    path = Path(used)
    with path.open("rb") as file:  # the file exists, because preparing the model checked it
        return f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"


def _work(options: _EvalOptions, settings: dict[EvalSetting, int | None], cases: Sequence[EvalCase]) -> Work:
    categories = len({case.category for case in cases})

    def limit_of(each: int | None) -> int | None:
        of_each = each or options.each
        limits = [limit for limit in (of_each and of_each * categories, None if each else options.limit) if limit]
        return min(limits, default=None)

    number, parts = _part(options.part)
    chosen = {setting: choose(cases, limit_of(each), options.seed) for setting, each in settings.items()}
    return [(setting, cases[number - 1 :: parts]) for setting, cases in chosen.items()]


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts) <= _MAX_PARTS):
        hint = "for example, 2/8 is the second of eight parts"
        raise CliError(f"invalid value for `--part`: `{text:.80}` is not of the form K/N", hint=hint)
    return int(number), int(parts)


def _count(work: Work) -> int:
    return sum(len(cases) for _, cases in work)


_SET_BY_RUN = frozenset({"mode", "plan", "dialect", "marks", "constrain", "retries", "probe"})


def _other_settings(config: Config, model: str) -> tuple[str, ...]:
    """Return the other configured settings that differ from the defaults, to distinguish their results."""
    usual, mine = Settings(), config.settings_for(model)
    names = (name for name in Settings.__struct_fields__ if name not in _SET_BY_RUN)
    return tuple(f"{name}={getattr(mine, name)}" for name in names if getattr(mine, name) != getattr(usual, name))


def _run_cases(
    options: _EvalOptions, client: AsyncClient, suite: Suite, journal: ResultsFile, work: Work
) -> tuple[bool, bool]:
    """Run the unfinished cases. Return whether the run was interrupted, and whether the model never answered."""
    run = EvalRun(client, suite, journal, parallel=options.parallel, timeout=options.timeout)
    missing = len(list(run.missing(work)))
    with _Progress(missing, _count(work)) as run.on_result:

        async def ask() -> None:
            async with client:
                await run.run(work)

        try:
            asyncio.run(ask())
        except KeyboardInterrupt:
            return True, False
    return False, run.given_up or (missing > 0 and not run.answered)


def _report(options: _EvalOptions, suite: Suite, journal: ResultsFile, work: Work) -> EvalReport:
    first, now = work[0][0], time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    rows = rows_of((setting, journal.of(setting, _ids(cases)), len(cases)) for setting, cases in work)
    suite_name = (suite.name, suite.version)
    return EvalReport(*suite_name, __version__, first.model, first.base_url, options.seed, now, rows)


def _ids(cases: Sequence[EvalCase]) -> list[str]:
    return [case.id for case in cases]


def _compare(options: _EvalOptions, suite: Suite, journal: ResultsFile, work: Work) -> None:
    """Write a table that compares these settings with all comparable ones in the journal."""
    if not options.report:
        return
    path = Path(options.report)
    categories = options.category or tuple(dict.fromkeys(case.category for case in suite.cases))
    settings = list(dict.fromkeys([*(setting for setting, _ in work), *journal.like(work[0][0])]))
    with file_errors(path):
        table = comparison_table([(each, journal.all(each)) for each in settings], categories)
        path.write_text(table, encoding="utf-8")


def _write(folder: Path, report: EvalReport) -> None:
    pages = {
        "results.json": msgspec.json.format(msgspec.json.encode(plain(report)), indent=2).decode() + "\n",
        "results.md": markdown(report),
    }
    with file_errors(folder):
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")


def _show(report: EvalReport, options: _EvalOptions) -> None:
    if options.as_json:
        write_json(plain(report), indent=2)
        return
    print_answer(markdown(report).rstrip())
    echo(f"Results saved to {options.out}: cases.jsonl, results.json, results.md", err=True)


def _report_errors(journal: ResultsFile, work: Work, count: int) -> None:
    first = next(each for setting, cases in work for each in journal.of(setting, _ids(cases)) if each.error)
    print_error(
        f"{count} cases failed; the first was {first.case}: {first.error}", "run the same command to retry them"
    )


class _Progress(Spinner):
    """Shows progress: a bar on a terminal, else at most about ten lines per run."""

    def __init__(self, missing: int, total: int) -> None:
        finished = f", {total - missing} already finished" if missing != total else ""
        echo(f"{counted(missing, 'case')} to run{finished}", err=True)
        super().__init__("waiting for the first answer")
        self._total = missing
        self._done = self._right = 0

    def __call__(self, record: CaseResult) -> None:
        self._done += 1
        self._right += record.correct
        text = f"{self._done} of {self._total} done, {self._right} correct"
        length = _BAR_WIDTH * self._done // self._total
        self.show(f"{'━' * length}{'─' * (_BAR_WIDTH - length)} {text}")
        if self._done == self._total:
            self.hide()
        elif sys.stderr.isatty() or self._done % max(1, self._total // _LINES):
            return
        echo(text, err=True)


def _print_wrong(journal: ResultsFile, work: Work) -> None:
    """List the wrong answers with what was expected and what came."""
    results = [each for setting, cases in work for each in journal.of(setting, _ids(cases))]
    wrong = [each for each in results if each.fault and not each.error]
    for each in wrong[:_MAX_WRONG]:
        calls = [json.dumps(each.calls[-1], ensure_ascii=False)] if any(each.calls) else [*each.rejected, each.text]
        cause = f"{click.style('✗', fg='red')} {each.case}: {each.fault.replace('_', ' ')}: {clean(each.detail)}"
        echo(f"{cause}\n  got: {shorten(clean('; '.join(calls)), _MAX_SHOWN)}", err=True)
    if len(wrong) > _MAX_WRONG:
        echo(f"... and {len(wrong) - _MAX_WRONG} more wrong answers in cases.jsonl", err=True)
