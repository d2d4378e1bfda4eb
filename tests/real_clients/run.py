"""`make test-clients`: installs the clients, lets each do its errand through a real proxy, and writes down what came of it.

`python -m tests.real_clients.run [--only NAME ...] [--plan PLAN] [--show] [--keep]`. Exit status 1 if a client that could
be installed did not do its errand. Above: the Makefile. Below: `tasks`, `install`, `place`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.real_clients.install import ROOT, CannotInstallError, install, node, programs
from tests.real_clients.model import Script, filled
from tests.real_clients.place import Ended, NoProxyError, Place, place, run
from tests.real_clients.relay import shape
from tests.real_clients.report import Row, write
from tests.real_clients.tasks import ERRAND, PACKAGES, TASKS, Task

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Outcome:
    """What came of a task."""

    failures: tuple[str, ...]
    requests: int


def main() -> int:
    """Run the tasks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="packages or parts of titles")
    parser.add_argument("--plan", default="inline", choices=["inline", "decision"])
    parser.add_argument("--show", action="store_true", help="print what the clients and the model said")
    parser.add_argument("--keep", action="store_true", help="leave the table of docs/clients.md as it is")
    given = parser.parse_args()
    rows: list[Row] = []
    for task in TASKS:
        if _wanted(task, given.only):
            rows.append(_row(task, given.plan, given.show))
            if not given.keep and given.plan == "inline":
                write(rows)
    failed = [row for row in rows if row.result == "failed"]
    passed = sum(row.result == "passed" for row in rows)
    print(f"{passed} passed, {len(failed)} failed, {len(rows) - passed - len(failed)} could not run")
    return 1 if failed else 0


def _wanted(task: Task, only: list[str]) -> bool:
    return not only or any(each == task.package or each.lower() in task.title.lower() for each in only)


def _row(task: Task, plan: str, show: bool) -> Row:
    package = PACKAGES[task.package]
    today = datetime.now(UTC).date().isoformat()
    made = partial(Row, task.title, package.version, today, task.protocol, task.doing)
    try:
        install(task.package)
    except CannotInstallError as error:
        print(f"-- {task.title}: cannot be installed: {error}", flush=True)
        return made("could not run", f"cannot be installed: {error}")
    with tempfile.TemporaryDirectory(prefix="toolspeak-clients-") as folder:
        try:
            outcome = perform(task, Path(folder), plan, show)
        except NoProxyError as error:
            outcome = Outcome((str(error),), 0)
    for failure in outcome.failures:
        print(f"   {task.title}: {failure}", flush=True)
    print(
        f"{'!!' if outcome.failures else 'ok'} {task.title} {package.version}: {outcome.requests} requests", flush=True
    )
    return made("failed" if outcome.failures else "passed", "; ".join(outcome.failures))


def perform(task: Task, folder: Path, plan: str, show: bool) -> Outcome:
    """Let a client do its errand in an empty folder."""
    with place(folder, partial(_script, task), plan) as here:
        ended = run(_command(task, here), here.folder, _environment(task, here), task.seconds)
        failures = tuple(_failures(task, here, ended))
        asked = here.relay.asked()
        if show or failures:
            _show(here, ended, folder / "serve.log")
        _record(task, here)
    return Outcome(failures, len(asked))


def _script(task: Task, folder: str) -> Script:
    script = Script(task.steps, folder, task.final, task.aside)
    return replace(script, past=task.past) if task.past else script


def _command(task: Task, here: Place) -> list[str]:
    package = PACKAGES[task.package]
    given = {
        "python": str(programs(package) / "python"),
        "programs": str(PROGRAMS),
        "errand": ERRAND,
        "folder": str(here.folder),
    }
    launch = [sys.executable, "-m", "toolspeak", "launch", task.settings, "--url", here.url, "--model", "m", "--"]
    return [*launch, *(filled(each, given) for each in task.arguments)]


def _environment(task: Task, here: Place) -> dict[str, str]:
    folders = [programs(PACKAGES[task.package]), node()]
    more = {"CLIENT_PACKAGES": str(ROOT / task.package), "SERVER_URL": here.url, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**here.environment(*folders), **more}


def _failures(task: Task, here: Place, ended: Ended) -> list[str]:
    """What is not as it should be."""
    made = here.folder / "made.txt"
    written = made.read_text(encoding="utf-8") if made.exists() else None
    asked = here.relay.asked()
    refusals = [each for each in asked if each.status >= 400 and task.expected.encode() not in each.reply]
    refused = sorted({f"{each.method} {each.path}: {each.status}" for each in refusals})
    found = {
        f"it was still running after {task.seconds:.0f} seconds": ended.timed_out,
        f"it ended with {ended.status}": ended.status != 0 and not ended.timed_out,
        f"made.txt holds {written!r}": here.word not in (written or ""),
        "the word was not said": ended.output.count(filled(task.final, {"word": here.word})) < task.times,
        f"no request in {task.protocol}": task.protocol not in {each.protocol for each in asked},
        f"the proxy refused {', '.join(refused)}": bool(refused),
        "; ".join(here.script.complaints): bool(here.script.complaints),
    }
    return [failure for failure, holds in found.items() if holds]


# ---- for whoever looks for a reason


def _show(here: Place, ended: Ended, log: Path) -> None:
    print(f"---- stdout\n{ended.output[-4000:]}\n---- stderr\n{ended.errors[-4000:]}\n---- requests")
    for each in here.relay.asked():
        reply = each.reply[:600] if each.status >= 400 else ""
        keys = sorted(each.body) if isinstance(each.body, dict) else each.body
        print(f"{each.method} {each.path} {each.status} {keys} {reply}")
    for at, text in enumerate(here.script.said):
        print(f"---- the model, {at + 1}\n{text}")
    print(f"---- the proxy\n{log.read_text(encoding='utf-8')[-3000:]}", flush=True)


def _record(task: Task, here: Place) -> None:
    """Keep the shapes of the requests, so that a newer version of a client can be compared."""
    folder = ROOT / "requests"
    folder.mkdir(exist_ok=True)
    name = "".join(each if each.isalnum() else "-" for each in task.title.lower()).strip("-")
    lines = [
        json.dumps({"method": each.method, "path": each.path, "status": each.status, "body": shape(each.body)})
        for each in here.relay.asked()
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
