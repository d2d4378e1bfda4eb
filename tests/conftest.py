"""Hypothesis profiles, the `system` mark, and the summary of skipped tests.

Tests marked `@pytest.mark.system("browser")` run only with TOOLSPEAK_TEST_SYSTEM=require, which `make test-system` sets
after it has installed the system packages; a missing package is then a failure.
"""

from __future__ import annotations

import atexit
import gc
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

from tests.cases import size

_SLOW = [HealthCheck.too_slow]
settings.register_profile("full", derandomize=True, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("small", settings.get_profile("full"), max_examples=25)
settings.register_profile("dev", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=5000, suppress_health_check=_SLOW)
# Mutation testing runs the suite a thousand times and only needs to know whether it fails.
_NO_SHRINKING = (Phase.explicit, Phase.generate)
settings.register_profile("mutate", settings.get_profile("small"), phases=_NO_SHRINKING)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", size("small", "full")))
_MUTATING = os.environ.get("HYPOTHESIS_PROFILE") == "mutate"
#: CPU seconds that one test may take during mutation testing; without a mutant no test takes half as long.
_MAX_MUTANT_SECONDS = 20

# No background probes unless a test turns them on.
os.environ.setdefault("TOOLSPEAK_PROBE", "off")

_TESTS = Path(__file__).parent

#: Folders whose tests are not traced for coverage: what they reach of the pure packages has tests of its own.
_UNTRACED = frozenset(
    "real_clients embedded evaluation integrations matrix mcp_conformance page runtime server store tools training upstreams".split()
)
#: Files beside this one that are traced all the same: those about parsing.
_TRACED = frozenset("test_injection test_shared_corpus test_text_corpus test_usage_errors".split())

#: The packages that must be covered completely.
_PURE = ("toolspeak.core", "toolspeak.dialects", "toolspeak.engine", "toolspeak.parsing", "toolspeak.protocols")

#: The folder with the longest tests: started last, they would keep one worker busy while the others are idle.
_FIRST = "embedded"

_REQUIRE_SYSTEM = os.environ.get("TOOLSPEAK_TEST_SYSTEM") == "require"
_NEEDS_SYSTEM = "needs a system package; run `make test-system`"

#: Characters of a parameter in the id of a test.
_MAX_ID = 80


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors: many tests wait for a process, a socket or a time limit."""
    return (os.cpu_count() or 1) + 1


def _browser() -> str:
    """The reason why there is no browser; empty when there is one."""
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
    """The reason why the system package `name` cannot be used; empty when it can."""
    return _SYSTEM[name]()


def pytest_configure(config: pytest.Config) -> None:
    # A run in the background of a shell ignores interrupts, and so would every program that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # In a worker, pytest-cov starts tracing twice; only the second tracer pauses for `no_cover`.
    first = coverage.Coverage.current() if hasattr(config, "workerinput") else None
    if first is not None:
        first.stop()


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from modules and tests: going through them each time takes a tenth of the run."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten a text that would fill the screen to its beginning and its length."""
    if isinstance(val, str | bytes) and len(val) > _MAX_ID:
        return f"{ascii(val[:20])[:_MAX_ID]}, {len(val)} long"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Traced, a property takes up to three times as long; a branch that only chance reaches needs an example anyway.
        if not _is_traced(item.path) or _is_property(item):
            item.add_marker("no_cover")
    items.sort(key=lambda item: item.path.parent.name != _FIRST)
    if _MUTATING and (renamed := [item.nodeid for item in items if _is_renamed(item)]):
        raise pytest.UsageError(f"mutmut would count these as failed, since their ids change: {renamed[:9]}")
    unknown = {name for item in items for name in _system_names(item) if name not in _SYSTEM}
    if unknown:
        raise pytest.UsageError(f"unknown system packages {sorted(unknown)}; known are {sorted(_SYSTEM)}")


_was_untraced = False


def pytest_runtest_setup(item: pytest.Item) -> None:
    _forget_untraced_tests(traced=item.get_closest_marker("no_cover") is None)
    for name in _system_names(item):
        if not _REQUIRE_SYSTEM:
            pytest.skip(f"{name}: {_NEEDS_SYSTEM}")
        if reason := _missing(name):
            pytest.fail(f"{name}: {reason}", pytrace=False)


def _forget_untraced_tests(*, traced: bool) -> None:
    """Before a traced test, forget what untraced tests have left behind, since code would be missed in the coverage.

    Results in caches would keep code from running, and code in the thread of the synchronous client would not be
    traced: that thread ends with its last client, and tracing does not resume in threads that exist already.
    """
    global _was_untraced  # noqa: PLW0603 - of this process, which runs one test after another
    if traced and _was_untraced and coverage.Coverage.current() is not None:
        for name, module in list(sys.modules.items()):
            if name.startswith(_PURE):
                for value in list(vars(module).values()):
                    getattr(value, "cache_clear", bool)()
        if bridge := sys.modules.get("toolspeak.runtime.sync_bridge"):
            vars(bridge)["_SHARED"] = thread = bridge.LoopThread()
            atexit.register(thread.stop_at_exit)
    _was_untraced = not traced


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """End a mutant that loops forever, in the way that mutmut counts as a timeout.

    Mutmut's own limit is minutes: it is the time of all tests together, and a shorter one would count mutants that are
    only slow on a busy machine.
    """
    if not _MUTATING:
        return (yield)
    import resource  # not everywhere, but wherever mutmut runs

    before, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _MAX_MUTANT_SECONDS, most))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (before, most))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")


def _is_renamed(item: pytest.Item) -> bool:
    """Whether pytest escapes the id of this case once more when it collects again in the same process."""
    id_lists = (mark.kwargs.get("ids") for mark in item.iter_markers("parametrize"))
    names = [str(name) for ids in id_lists if isinstance(ids, Iterable) for name in ids]
    return any("\\" in name or not (name.isascii() and name.isprintable()) for name in names)


def _is_traced(path: Path) -> bool:
    return path.stem in _TRACED if path.parent == _TESTS else path.parent.name not in _UNTRACED


def _is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _system_names(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("system") for name in mark.args]


@pytest.fixture(scope="session")
def weights() -> Path:
    """The weights file of the embedded model, downloaded into the user's cache if it is missing."""
    # Imported here: at module level the import would run before coverage starts to trace.
    from toolspeak.config import load
    from toolspeak.upstreams.embedded.weights import DEFAULT, obtain

    config = load()
    return obtain(DEFAULT, config.cache_folder, config.environment())
