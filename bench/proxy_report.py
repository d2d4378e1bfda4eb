"""What a run of the proxy benchmark found: its figures, its goals, and how both are shown.

`GOALS` and the rows of the tables are data. `figures_section` is the part of docs/performance.md that is made from a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec
from goals import Outcome, goals_table, number, table

__all__ = ["GOALS", "Facts", "Figures", "Run", "figures_section", "outcomes", "text", "write_section"]

_BEGIN, _END = "<!-- figures -->", "<!-- /figures -->"


class Figures(msgspec.Struct):
    """What one measurement of a probe showed; times in microseconds."""

    cpu_per_request: float
    cpu_per_chunk: float
    requests_per_second: float
    p50: float
    p99: float
    age_p50: float
    age_p99: float
    #: The most memory during the measurement.
    peak_mb: float = 0.0
    complete: int = 0
    errors: int = 0
    error: str = ""


class Facts(msgspec.Struct):
    """What is measured of a proxy outside of the probes."""

    title: str
    version: str
    start_seconds: float
    start_cpu: float
    idle_mb: float
    #: The most after any probe with small requests, and during agent traffic.
    loaded_mb: float = 0.0
    agent_mb: float = 0.0


class Run(msgspec.Struct):
    """One run, complete, as `--json` prints it."""

    date: date
    python: str
    cores: int
    #: The load average before the run.
    load: float
    proxies: dict[str, Facts]
    #: By probe and proxy, one entry for each round.
    results: dict[str, dict[str, list[Figures]]] = {}
    #: Peers that are missing, and why.
    left_out: dict[str, str] = {}
    #: Probes that a proxy does not answer as it should, and which are not measured for that.
    failed: dict[str, list[str]] = {}
    #: What the other benchmarks with goals found.
    others: list[Outcome] = []

    def best(self, probe: str, figure: str, name: str = "toolspeak") -> float:
        """The best of the rounds: the most where more is better, else the least; 0 where nothing was measured."""
        values = [getattr(figures, figure) for figures in self.results.get(probe, {}).get(name, ())]
        if not values:
            return 0.0
        return max(values) if figure in _MORE else min(values)

    def errors(self, name: str = "toolspeak") -> int:
        return sum(figures.errors for by_name in self.results.values() for figures in by_name.get(name, ()))


#: Figures of which more is better.
_MORE = frozenset({"requests_per_second", "complete"})


# ---------------------------------------------------------------------------------------------------- goals

Value = Callable[[Run], float]


class Goal(NamedTuple):
    """A figure that is asked for. Its value is 0 where the run has not measured what it needs."""

    name: str
    value: Value
    goal: float
    unit: str = "ms"
    at_least: bool = False


def _times(figure: str, probe: str, peer: str, theirs: str = "") -> Value:
    """How many times better than a peer, which may have been measured under another probe."""

    def value(run: Run) -> float:
        our, their = run.best(probe, figure), run.best(theirs or probe, figure, peer)
        if not our or not their:
            return 0.0
        return our / their if figure in _MORE else their / our

    return value


def _share(figure: str, probe: str, peer: str) -> Value:
    """What part of a peer's figure it is."""

    def value(run: Run) -> float:
        their = run.best(probe, figure, peer)
        return run.best(probe, figure) / their if their else 0.0

    return value


def _added(figure: str) -> Value:
    """Milliseconds more than without any proxy."""

    def value(run: Run) -> float:
        direct = run.best(_TOOLS, figure, "direct")
        return (run.best(_TOOLS, figure) - direct) / 1e3 if direct else 0.0

    return value


def _fact(name: str) -> Value:
    return lambda run: getattr(run.proxies["toolspeak"], name)


def _held(run: Run) -> float:
    few = run.best("tools, 32 clients", _RATE)
    return run.best("tools, 256 clients", _RATE) / few if few else 0.0


_CPU, _CHUNK, _RATE, _AGE = "cpu_per_request", "cpu_per_chunk", "requests_per_second", "age_p99"
_TOOLS = "tools, 1 client"
GOALS = (
    Goal("CPU per request, tools emulated, against LiteLLM", _times(_CPU, _TOOLS, "litellm"), 100, "times less", True),
    Goal(
        "requests/s at 32 clients, tools emulated, against LiteLLM",
        _times(_RATE, "tools, 32 clients", "litellm"),
        140,
        "times",
        True,
    ),
    Goal(
        "requests/s per core against vllm-router, no tools",
        _times(_CPU, "no tools, 32 clients", "vllm-router"),
        1.3,
        "times",
        True,
    ),
    Goal(
        "requests/s per core against vllm-router, native tools passed through",
        _times(_CPU, "native, 32 clients", "vllm-router", "tools, 32 clients"),
        0.8,
        "times",
        True,
    ),
    Goal(
        "CPU per agent-sized request, native tools, against LiteLLM",
        _times(_CPU, "agent, native", "litellm"),
        60,
        "times less",
        True,
    ),
    Goal(
        "CPU per agent-sized request, tools emulated, against LiteLLM",
        _times(_CPU, "agent, emulated", "litellm", "agent, native"),
        45,
        "times less",
        True,
    ),
    Goal(
        "CPU per request against claude-code-router, Anthropic face, tools emulated",
        _times(_CPU, "anthropic, 1 client", "ccr"),
        15,
        "times less",
        True,
    ),
    Goal(
        "CPU per burst chunk against LiteLLM, tools emulated",
        _times(_CHUNK, "tools, burst", "litellm"),
        150,
        "times less",
        True,
    ),
    Goal(
        "CPU per burst chunk against claude-code-router, Anthropic face",
        _times(_CHUNK, "anthropic, burst", "ccr"),
        8,
        "times less",
        True,
    ),
    Goal("added latency with tools, one client, p50", _added("p50"), 0.2),
    Goal("added latency with tools, one client, p99", _added("p99"), 0.5),
    Goal(
        "age of a chunk, 32 paced streams, p99, no tools",
        _share(_AGE, "no tools, 32 paced", "vllm-router"),
        1,
        "of vllm-router's",
    ),
    Goal(
        "age of a chunk, 32 paced streams, p99, with tools",
        _share(_AGE, "tools, 32 paced", "vllm-router"),
        1,
        "of vllm-router's",
    ),
    Goal("memory, idle", _fact("idle_mb"), 40, "MB"),
    Goal("memory, loaded", _fact("loaded_mb"), 65, "MB"),
    Goal("memory, in 60 s of agent traffic", _fact("agent_mb"), 80, "MB"),
    Goal("start to first answer", _fact("start_seconds"), 0.25, "s"),
    Goal("requests/s at 256 clients against 32 clients", _held, 0.7, "times", True),
)


def outcomes(run: Run) -> Iterator[Outcome]:
    """What was asked and reached; goals whose figures the run has not measured are left out."""
    for goal in GOALS:
        if value := goal.value(run):
            yield Outcome(goal.name, value, goal.goal, goal.unit, goal.at_least)
    yield Outcome("failed requests in all probes", run.errors(), 0)
    yield from run.others


# --------------------------------------------------------------------------------------------- on a terminal

_COLUMNS = (
    ("µs/request", _CPU),
    ("µs/chunk", _CHUNK),
    ("req/s", _RATE),
    ("p50 µs", "p50"),
    ("p99 µs", "p99"),
    ("age p50", "age_p50"),
    ("age p99", _AGE),
    ("peak MB", "peak_mb"),
    ("errors", "errors"),
)


def text(run: Run) -> str:
    """Everything, for a terminal."""
    lines = [f"{'probe':<22}{'proxy':<13}" + "".join(f"{label:>11}" for label, _ in _COLUMNS)]
    for probe, by_name in run.results.items():
        for name, rounds in by_name.items():
            values = [run.best(probe, figure, name) for _, figure in _COLUMNS]
            error = next((figures.error for figures in rounds if figures.error), "")
            shown = "".join(f"{value:>11,.1f}" if value < 1000 else f"{value:>11,.0f}" for value in values)
            lines.append(f"{probe:<22}{name:<13}{shown}  {error}".rstrip())
    lines.append(f"\n{'proxy':<13}{'start s':>9}{'CPU s':>9}{'idle MB':>9}{'loaded MB':>11}{'agent MB':>10}  version")
    for name, each in run.proxies.items():
        start = f"{name:<13}{each.start_seconds:>9.2f}{each.start_cpu:>9.2f}"
        lines.append(f"{start}{each.idle_mb:>9.1f}{each.loaded_mb:>11.1f}{each.agent_mb:>10.1f}  {each.version}")
    lines += [f"left out: {name}: {why}" for name, why in run.left_out.items()]
    lines += [f"{name} has no right answer for: {'; '.join(probes)}" for name, probes in run.failed.items()]
    lines.append(f"\n{'goal':<76}{'asked':>22}{'reached':>24}")
    lines += ["{:<76}{:>22}{:>24}  {}".format(*outcome.cells()) for outcome in outcomes(run)]
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------- on the page


class _Row(NamedTuple):
    """A row of a table of the page: a figure of each proxy."""

    label: str
    figure: str
    probe: str
    #: The probe of the others, where it differs.
    theirs: str = ""

    def cells(self, run: Run, names: list[str]) -> list[str]:
        probes = {name: self.probe if name in ("toolspeak", "direct") else self.theirs or self.probe for name in names}
        return [self.label, *(_shown(run.best(probes[name], self.figure, name), self.figure) for name in names)]


def _shown(value: float, figure: str) -> str:
    if not value:
        return ""
    if figure in _MORE:
        return number(value)
    if figure == "peak_mb":
        return f"{value:.0f} MB"
    return f"{number(value)} µs" if value < 1000 else f"{number(value / 1000)} ms"


_CPU_ROWS = (
    _Row("a request without tools, 1 client", _CPU, "no tools, 1 client"),
    _Row("the same, 32 clients", _CPU, "no tools, 32 clients"),
    _Row("a request with tools, emulated, 1 client", _CPU, _TOOLS, "-"),
    _Row("the same, 32 clients", _CPU, "tools, 32 clients", "-"),
    _Row("a request with tools, passed through, 1 client", _CPU, "native, 1 client", _TOOLS),
    _Row("the same, 32 clients", _CPU, "native, 32 clients", "tools, 32 clients"),
    _Row("an agent-sized request, tools emulated", _CPU, "agent, emulated", "-"),
    _Row("an agent-sized request, tools passed through", _CPU, "agent, native"),
    _Row("Anthropic face, a request with tools", _CPU, "anthropic, 1 client"),
    _Row("Responses face, a request with tools", _CPU, "responses, 1 client"),
    _Row("a burst chunk, no tools", _CHUNK, "no tools, burst"),
    _Row("a burst chunk, tools emulated", _CHUNK, "tools, burst", "-"),
    _Row("a burst chunk, tools passed through", _CHUNK, "native, burst", "tools, burst"),
    _Row("Anthropic face, a burst chunk", _CHUNK, "anthropic, burst"),
    _Row("Responses face, a burst chunk", _CHUNK, "responses, burst"),
    _Row("a chunk of one of 32 streams, 10 ms apart, no tools", _CHUNK, "no tools, 32 paced"),
    _Row("the same, with tools", _CHUNK, "tools, 32 paced"),
    _Row("a chunk of one of 1,000 streams, 100 ms apart, with tools", _CHUNK, "1,000 streams"),
)
_CLOCK_ROWS = (
    _Row("requests/s, 32 clients, no tools", _RATE, "no tools, 32 clients"),
    _Row("requests/s, 32 clients, with tools", _RATE, "tools, 32 clients"),
    _Row("time of a request with tools, 1 client, p50", "p50", _TOOLS),
    _Row("the same, p99", "p99", _TOOLS),
    _Row("age of a chunk, 32 streams, no tools, p50", "age_p50", "no tools, 32 paced"),
    _Row("the same, p99", _AGE, "no tools, 32 paced"),
    _Row("age of a chunk, 32 streams, with tools, p50", "age_p50", "tools, 32 paced"),
    _Row("the same, p99", _AGE, "tools, 32 paced"),
    _Row("age of a chunk, 1,000 streams, with tools, p50", "age_p50", "1,000 streams"),
    _Row("the same, p99", _AGE, "1,000 streams"),
    _Row("complete streams of 1,000", "complete", "1,000 streams"),
    _Row("most memory during the 1,000 streams", "peak_mb", "1,000 streams"),
)


def _rows(run: Run, rows: tuple[_Row, ...], names: list[str]) -> list[list[str]]:
    """The rows of which anything was measured."""
    cells = [row.cells(run, names) for row in rows]
    return [row for row in cells if any(row[1:])]


def _facts_rows(run: Run) -> list[list[str]]:
    facts = run.proxies.values()
    return [
        ["start to first answer", *(f"{each.start_seconds:.2f} s" for each in facts)],
        ["memory, idle", *(f"{each.idle_mb:.0f} MB" for each in facts)],
        ["memory, loaded", *(f"{each.loaded_mb:.0f} MB" for each in facts)],
        [
            "memory, in 60 s of agent traffic",
            *(f"{each.agent_mb:.0f} MB" if each.agent_mb else "" for each in facts),
        ],
    ]


def figures_section(run: Run) -> str:
    """The figures of a run as Markdown."""
    names = list(run.proxies)
    titles = [each.title for each in run.proxies.values()]
    versions = ", ".join(f"{each.title} {each.version}" for each in run.proxies.values())
    day = f"{run.date.day} {run.date:%B %Y}"
    missing = "".join(f" {name} was left out: {why}." for name, why in run.left_out.items())
    missing += "".join(
        f" {run.proxies[name].title} was not measured where it answers with an error: {'; '.join(probes)}."
        for name, probes in run.failed.items()
    )
    return "\n\n".join(
        (
            f"{day}, Python {run.python}, {run.cores} cores, load average {run.load:.1f} before the run.",
            f"{versions}.{missing}",
            "CPU time of all processes of a proxy:",
            table(["CPU time", *titles], _rows(run, _CPU_ROWS, names)),
            'Times by the clock; "direct" is the upstream without any proxy:',
            table(["by the clock", *titles, "direct"], _rows(run, _CLOCK_ROWS, [*names, "direct"])),
            table(["", *titles], _facts_rows(run)),
            "Goals, and what this run reached:",
            goals_table(outcomes(run)),
        )
    )


def write_section(path: Path, run: Run) -> None:
    """Put the figures of a run between the marks of a page.

    Raises:
        ValueError: the page has no such marks.
    """
    page = path.read_text(encoding="utf-8")
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{path} has no place for figures: write {_BEGIN} and {_END} where they go")
    path.write_text(f"{head}{_BEGIN}\n\n{figures_section(run)}\n\n{_END}{tail}", encoding="utf-8")
