"""What all tests share: hypothesis profiles, the `system` mark, and the summary of what was not tested.

`@pytest.mark.system("browser")` skips a test where that system package is missing; `make test-system`
installs the packages and sets TOOLSPEAK_TEST_SYSTEM=require, which turns such a skip into a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable
from functools import cache
from pathlib import Path

import coverage
import pytest
from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow]
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("dev", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=5000, suppress_health_check=_SLOW)
# Mutation testing runs the suite a thousand times and wants to know only whether it fails.
_FIND = (Phase.explicit, Phase.generate)
settings.register_profile("mutate", settings.get_profile("ci"), max_examples=25, phases=_FIND)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
_MUTATING = os.environ.get("HYPOTHESIS_PROFILE") == "mutate"
#: Seconds of the processor that one test may take then; without a mutant none takes half of it.
_PATIENCE = 6

# Nothing is asked in the background unless a test says so.
os.environ.setdefault("TOOLSPEAK_PROBE", "off")

#: Folders whose tests are about the edges, or about everything at once: what they reach of the pure part has tests of its
#: own.
_EDGES = frozenset(
    "real_clients embedded evaluation matrix mcp_conformance page server store tools training upstreams".split()
)

#: What must be covered completely.
_PURE = ("toolspeak.core", "toolspeak.dialects", "toolspeak.engine", "toolspeak.parsing", "toolspeak.protocols")

#: The folder that takes minutes: whoever begins with it is not waited for in the end.
_FIRST = "embedded"

_WANTED = "for want of a system package"

#: Characters of a parameter that a test is called by.
_LONGEST_ID = 80


def _browser() -> str:
    """Why there is no browser, or nothing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return "" if any(shutil.which(name) for name in names) else "chromium is not installed"


def _bubblewrap() -> str:
    bwrap = shutil.which("bwrap")
    if not bwrap:
        return "bwrap is not installed"
    try:
        command = [bwrap, "--ro-bind", "/", "/", "--unshare-net", "true"]
        works = subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    return "" if works else "bwrap is installed but may not make a sandbox here"


def _postgresql() -> str:
    server = shutil.which("postgres") or any(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return "" if server else "the PostgreSQL server is not installed"


_SYSTEM = {"browser": _browser, "bubblewrap": _bubblewrap, "postgresql": _postgresql}


@cache
def _missing(name: str) -> str:
    """Why the system package `name` cannot be used; empty when it can."""
    return _SYSTEM[name]()


def pytest_configure(config: pytest.Config) -> None:
    # A run in the background of a shell ignores interrupts, and so would every program that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # In a worker, pytest-cov begins to watch twice; only what begins second pauses for `no_cover`.
    first = coverage.Coverage.current() if hasattr(config, "workerinput") else None
    if first is not None:
        first.stop()


def pytest_make_parametrize_id(val: object) -> str | None:
    """A text that would fill the screen is named by its beginning and its length."""
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{ascii(val[:20])[:_LONGEST_ID]}, {len(val)} long"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Watched, a property takes up to three times as long; a branch that only chance reaches wants an example anyway.
        if item.path.parent.name in _EDGES or _is_property(item):
            item.add_marker("no_cover")
    items.sort(key=lambda item: item.path.parent.name != _FIRST)
    if _MUTATING and (renamed := [item.nodeid for item in items if _is_renamed(item)]):
        raise pytest.UsageError(f"collected once more these are called otherwise, and count as failed: {renamed[:9]}")
    unknown = {name for item in items for name in _system_names(item) if name not in _SYSTEM}
    if unknown:
        raise pytest.UsageError(f"unknown system packages {sorted(unknown)}; known are {sorted(_SYSTEM)}")


_unwatched = False


def pytest_runtest_setup(item: pytest.Item) -> None:
    _begin(watched=item.get_closest_marker("no_cover") is None)
    for name in _system_names(item):
        if reason := _missing(name):
            if os.environ.get("TOOLSPEAK_TEST_SYSTEM") == "require":
                pytest.fail(f"{name}: {reason}", pytrace=False)
            pytest.skip(f"{_WANTED}: {name}: {reason}")


def _begin(*, watched: bool) -> None:
    """What nobody watched is forgotten by the caches before a test that is watched, which would not run it otherwise."""
    global _unwatched  # noqa: PLW0603 - of this process, which runs one test after another
    if watched and _unwatched and coverage.Coverage.current() is not None:
        for name, module in list(sys.modules.items()):
            if name.startswith(_PURE):
                for value in list(vars(module).values()):
                    getattr(value, "cache_clear", bool)()
    _unwatched = not watched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A mutant that never ends is ended soon, in the way that mutmut counts as a timeout. Its own limit is minutes, since
    it is the time of all tests together, and on a busy machine a shorter one would count mutants that are only slow."""
    if not _MUTATING:
        return (yield)
    import resource  # not everywhere, but wherever mutmut runs

    before, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _PATIENCE, most))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (before, most))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    for name in _SYSTEM:
        if reason := _missing(name):
            count = reasons.pop(f"{_WANTED}: {name}: {reason}", 0)
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"not tested, {name}: {reason} ({tests} skipped; see `make test-system`)")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")


def _is_renamed(item: pytest.Item) -> bool:
    """Whether pytest escapes the name that this case was given once more when it collects again in the same process."""
    given = (mark.kwargs.get("ids") for mark in item.iter_markers("parametrize"))
    names = [str(name) for ids in given if isinstance(ids, Iterable) for name in ids]
    return any("\\" in name or not (name.isascii() and name.isprintable()) for name in names)


def _is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _system_names(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("system") for name in mark.args]


@pytest.fixture(scope="session")
def weights() -> Path:
    """The file of weights of the embedded model, fetched into the user's cache if it is not there."""
    # Not before: what is imported here is imported before anybody watches which lines run.
    from toolspeak.config import load
    from toolspeak.upstreams.embedded.weights import DEFAULT, obtain

    config = load()
    return obtain(DEFAULT, config.cache_folder, config.environment())
