"""Runs commands and is killed in the middle, again and again; says what was left of them.

Started by tests as `python -m tests.tools.killed_runs FOLDER KIND MOMENT...`. KIND is `sandbox`, `plain`, or
`unguarded`, which is a sandbox as it would be without a guard. A MOMENT is a number of microseconds after which a timer
ends the process, or `stepN`: killed before its Nth word to the guard or to the command. Each is a process of its own;
whoever holds the pipe that all inherit is left over. Prints the moments of which something was, as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from toolspeak.tools import processes
from toolspeak.tools.processes import ProcessLimits, StopSignal, limit_command, run_process
from toolspeak.tools.sandbox import Sandbox, SandboxedCommand

#: Seconds for what was killed to be gone; without a guard, for the control to be sure.
PATIENCE = {"sandbox": 20.0, "plain": 20.0, "unguarded": 2.0}
#: Longer than any patience, and not for ever if a test is killed itself.
COMMAND = ["/bin/sleep", "90"]


class NoGuard:
    """Stands by for nobody."""

    def watch(self, target: int) -> None:
        pass

    def dismiss(self) -> None:
        pass


def without_guard() -> None:
    """Every word is given at once, and the process is killed right after."""

    def begin(watch: Any) -> None:
        for _ in range(2):
            processes.release(watch._stdin)
        os.kill(os.getpid(), signal.SIGKILL)

    processes.OrphanKiller = NoGuard  # type: ignore[misc,assignment]  # pyright: ignore
    processes._ProcessRun._begin = begin  # type: ignore[method-assign]  # pyright: ignore


def killed_at(step: int) -> None:
    """Before the step, the process is killed."""
    steps = itertools.count(1)

    def counted(work: Any) -> Any:
        def count(*arguments: Any) -> Any:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*arguments)

        return count

    processes.OrphanKiller.watch = counted(processes.OrphanKiller.watch)  # type: ignore[method-assign]
    processes.release = counted(processes.release)  # type: ignore[assignment]


def work(folder: str, kind: str, moment: str, held: int) -> None:
    box, limits = Sandbox(folder), ProcessLimits()
    line = limit_command(COMMAND, limits, alone=False)
    around = nullcontext(SandboxedCommand(line, (), -1)) if kind == "plain" else box.wrap(line)
    with around as inside:
        stop = StopSignal()
        if kind == "unguarded":
            without_guard()
        elif moment.startswith("step"):
            killed_at(int(moment.removeprefix("step")))
        else:
            # What it does by default ends a process as SIGKILL does: nothing of it runs any more.
            signal.setitimer(signal.ITIMER_REAL, int(moment) / 1_000_000)
        run_process(
            inside.command,
            folder=folder,
            env=box.environment({}),
            limits=limits,
            stop=stop,
            emit=lambda _: None,
            pass_fds=(*inside.pass_fds, held),
            info_fd=inside.info_fd,
        )


def leaves_something(folder: str, kind: str, moment: str) -> bool:
    reader, held = os.pipe()
    killed = os.fork()
    if not killed:
        os.close(reader)
        work(folder, kind, moment, held)
        os._exit(1)
    os.close(held)
    status = os.waitpid(killed, 0)[1]
    assert os.WIFSIGNALED(status), "it was not killed"
    gone = bool(select.select([reader], [], [], PATIENCE[kind])[0])
    os.close(reader)
    if not gone:
        end_all(folder)
    return not gone


def end_all(folder: str) -> None:
    """What was left is ours: it names our folder."""
    for entry in Path("/proc").iterdir():
        try:
            mine = entry.name.isdigit() and int(entry.name) != os.getpid()
            if mine and f"--bind\0{folder}\0".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":
    place, what, *moments = sys.argv[1:]
    sys.stdout.write(json.dumps([each for each in moments if leaves_something(place, what, each)]))
